# SPDX-License-Identifier: Apache-2.0
"""What runs along the columns: partial sums put together, the products of Z and V, the next columns, random ones.

A program takes SPAN columns of one matrix, BN at a time.  Sums run over slots in their order: equal bits every time."""

from __future__ import annotations

import triton
import triton.language as tl

from .layout import (
    COLS,
    DRAWS,
    FIRST_BLOCK,
    FIRST_COLUMN,
    FIRST_PROGRAM,
    FIRST_SLOT,
    FLAG_FIELDS,
    GRAM_N,
    GRAM_P,
    GRAM_T,
    GRAM_VO,
    GRAM_ZO,
    GRAMS,
    KEY,
    LAYER_FIELDS,
    LOWER,
    MIX_O,
    MIX_U,
    MIX_V,
    MIX_Z,
    MIXES,
    PROGRAMS,
    SPECTRAL,
    STATE_FIELDS,
    TREATMENT,
)
from .small import add_up, product
from .thresholds import add_norms

SQRT3_OF_INT32 = tl.constexpr(1.7320508075688772 * 2.0**-31)


@triton.jit
def random_columns(key, draw, j, k):
    """(BN, K) entries uniform on (-sqrt 3, sqrt 3): the core's bits (src/random/uniform.cpp) at (key, step `draw`,
    column).  There a counter gives the words of four entries that lie 16 apart, so each is asked for four times."""
    shape_j = j[:, None] + 0 * k[None, :]
    shape_k = k[None, :] + 0 * j[:, None]
    counter = (shape_j // 64) * 16 + shape_j % 16
    low = (draw & 0xFFFFFFFF).to(tl.uint32)
    high = (draw >> 32).to(tl.uint32)
    w0, w1, w2, w3 = tl.philox(key, counter.to(tl.uint32), shape_k.to(tl.uint32), low, high)
    word = (shape_j % 64) // 16
    bits = tl.where(word == 0, w0, tl.where(word == 1, w1, tl.where(word == 2, w2, w3)))
    return (bits | 1).to(tl.int32, bitcast=True).to(tl.float32) * SQRT3_OF_INT32


@triton.jit
def reduce_kernel(matrices, layers, blocks, flags, state, V, slots, partial_grams, norms, sums, first_total, gram,
                  NUMBER: tl.constexpr, ADD: tl.constexpr, MULTIPLY: tl.constexpr, SPAN: tl.constexpr,
                  BN: tl.constexpr, K: tl.constexpr, HELD: tl.constexpr):  # fmt: skip
    """ADD: partial Z, S and norms of a matrix, slot after slot, into the packed buffer `sums`: Z of all matrices, then
    K K + 2 totals a matrix from first_total on.  MULTIPLY: the products of these columns (GRAM_*).  Sharded matrices
    are added up over ranks in between."""
    block = tl.load(blocks + 2 * tl.program_id(0))
    layer = tl.load(blocks + 2 * tl.program_id(0) + 1)
    wanted = tl.load(matrices + layer) != 0
    if NUMBER > 0:
        wanted = wanted & (tl.load(flags + layer * FLAG_FIELDS + NUMBER) != 0)
    if wanted:
        it = layers + layer * LAYER_FIELDS
        cols = tl.load(it + COLS).to(tl.int32)
        programs = tl.load(it + PROGRAMS).to(tl.int32)
        number = block - tl.load(it + FIRST_BLOCK).to(tl.int32)
        spectral = tl.load(it + TREATMENT) == SPECTRAL
        k = tl.arange(0, K)
        square = k[:, None] * K + k[None, :]
        totals = sums + first_total + layer * (K * K + 2)
        if ADD:
            if number == 0:
                first_program = tl.load(it + FIRST_PROGRAM)
                norm = add_up(norms + first_program, programs, 128)
                high = norm.to(tl.float32)  # in two parts: what is left after an update is a small difference
                tl.store(totals + K * K, high)
                tl.store(totals + K * K + 1, (norm - high.to(tl.float64)).to(tl.float32))
                if spectral:
                    S = tl.zeros((K, K), tl.float64)
                    for p in range(programs):
                        S += tl.load(partial_grams + (first_program + p) * K * K + square)
                    tl.store(totals + square, S.to(tl.float32))
        if spectral:
            v_base = V + tl.load(it + FIRST_COLUMN) * K
            z_base = sums + tl.load(it + FIRST_COLUMN) * K
            s_base = slots + tl.load(it + FIRST_SLOT) * K
            slot = tl.load(it + COLS) * K
            key = tl.load(it + KEY)
            draw = tl.load(state + layer * STATE_FIELDS + DRAWS).to(tl.int64)
            T = tl.zeros((K, K), tl.float64)
            P = tl.zeros((K, K), tl.float64)
            N = tl.zeros((K, K), tl.float64)
            ZO = tl.zeros((K, K), tl.float64)
            VO = tl.zeros((K, K), tl.float64)
            last = tl.minimum(number * SPAN + SPAN, cols)
            for c in range(number * SPAN, last, BN):
                j = c + tl.arange(0, BN)
                inside = j[:, None] < cols
                at = j[:, None] * K + k[None, :]
                if ADD:
                    z = tl.zeros((BN, K), tl.float32)
                    for p in range(programs):
                        z += tl.load(s_base + p * slot + at, mask=inside, other=0.0)
                    tl.store(z_base + at, z, mask=inside)
                else:
                    z = tl.load(z_base + at, mask=inside, other=0.0)
                if MULTIPLY:
                    v = tl.load(v_base + at, mask=inside, other=0.0).to(tl.float64)
                    z = z.to(tl.float64)
                    fresh = random_columns(key, draw, j, k)
                    fresh = tl.where(inside & (k[None, :] >= HELD), fresh, 0.0).to(tl.float64)
                    T += product(tl.trans(z), z)
                    P += product(tl.trans(v), z)
                    N += product(tl.trans(v), v)
                    ZO += product(tl.trans(z), fresh)
                    VO += product(tl.trans(v), fresh)
            if MULTIPLY:
                out = gram + block.to(tl.int64) * GRAMS * K * K + square
                shrunk = 1.0 / tl.sqrt(cols.to(tl.float64))
                tl.store(out + GRAM_T * K * K, T)
                tl.store(out + GRAM_P * K * K, P)
                tl.store(out + GRAM_N * K * K, N)
                tl.store(out + GRAM_ZO * K * K, ZO * shrunk)
                tl.store(out + GRAM_VO * K * K, VO * shrunk)


@triton.jit
def combine_kernel(matrices, layers, blocks, flags, state, V, sums, mixes, report, total, left_all, count,
                   NUMBER: tl.constexpr, LAST: tl.constexpr, LEAVE_ALL: tl.constexpr, SPAN: tl.constexpr,
                   BN: tl.constexpr, K: tl.constexpr):  # fmt: skip
    """V <- Z MIX_Z + V MIX_V + random columns where MIX_O says so; Z <- Z MIX_U where the matrix is lowered.  In
    float64: vectors of small values come from columns that a large one dominates.  After the LAST pass one program
    more adds up the norms."""
    if LAST:
        if tl.program_id(0) == tl.num_programs(0) - 1:
            add_norms(matrices, report, count, total, left_all, LEAVE_ALL, 1024)
            return
    block = tl.load(blocks + 2 * tl.program_id(0))
    layer = tl.load(blocks + 2 * tl.program_id(0) + 1)
    it = layers + layer * LAYER_FIELDS
    wanted = (tl.load(matrices + layer) != 0) & (tl.load(it + TREATMENT) == SPECTRAL)
    if NUMBER > 0:
        wanted = wanted & (tl.load(flags + layer * FLAG_FIELDS + NUMBER) != 0)
    mix = mixes + layer.to(tl.int64) * MIXES * K * K
    wanted = wanted & (tl.load(mix + MIX_O * K * K) >= 0)  # below 0: V stays, whatever stands in Z
    if wanted:
        cols = tl.load(it + COLS).to(tl.int32)
        number = block - tl.load(it + FIRST_BLOCK).to(tl.int32)
        k = tl.arange(0, K)
        square = k[:, None] * K + k[None, :]
        mix_z = tl.load(mix + MIX_Z * K * K + square)
        mix_v = tl.load(mix + MIX_V * K * K + square)
        mix_u = tl.load(mix + MIX_U * K * K + square)
        share = tl.load(mix + MIX_O * K * K + k)
        lower = tl.load(flags + layer * FLAG_FIELDS + LOWER) == 1
        key = tl.load(it + KEY)
        draw = tl.load(state + layer * STATE_FIELDS + DRAWS).to(tl.int64) - 1  # decide has counted this one
        v_base = V + tl.load(it + FIRST_COLUMN) * K
        z_base = sums + tl.load(it + FIRST_COLUMN) * K
        shrunk = 1.0 / tl.sqrt(cols.to(tl.float64))
        last = tl.minimum(number * SPAN + SPAN, cols)
        for c in range(number * SPAN, last, BN):
            j = c + tl.arange(0, BN)
            inside = j[:, None] < cols
            at = j[:, None] * K + k[None, :]
            z = tl.load(z_base + at, mask=inside, other=0.0).to(tl.float64)
            v = tl.load(v_base + at, mask=inside, other=0.0).to(tl.float64)
            fresh = random_columns(key, draw, j, k).to(tl.float64) * shrunk
            following = product(z, mix_z) + product(v, mix_v) + fresh * share[None, :]
            tl.store(v_base + at, following.to(tl.float32), mask=inside)
            if lower:
                tl.store(z_base + at, product(z, mix_u).to(tl.float32), mask=inside)


@triton.jit
def draw_kernel(layers, blocks, state, V, cold, SPAN: tl.constexpr, BN: tl.constexpr, K: tl.constexpr):
    """All columns of the matrices that know nothing yet become random: once, before the first step."""
    block = tl.load(blocks + 2 * tl.program_id(0))
    layer = tl.load(blocks + 2 * tl.program_id(0) + 1)
    it = layers + layer * LAYER_FIELDS
    if (tl.load(cold + layer) != 0) & (tl.load(it + TREATMENT) == SPECTRAL):
        cols = tl.load(it + COLS).to(tl.int32)
        number = block - tl.load(it + FIRST_BLOCK).to(tl.int32)
        k = tl.arange(0, K)
        key = tl.load(it + KEY)
        draw = tl.load(state + layer * STATE_FIELDS + DRAWS).to(tl.int64)
        base = V + tl.load(it + FIRST_COLUMN) * K
        shrunk = 1.0 / tl.sqrt(cols.to(tl.float32))
        last = tl.minimum(number * SPAN + SPAN, cols)
        for c in range(number * SPAN, last, BN):
            j = c + tl.arange(0, BN)
            fresh = random_columns(key, draw, j, k) * shrunk
            tl.store(base + j[:, None] * K + k[None, :], fresh, mask=j[:, None] < cols)

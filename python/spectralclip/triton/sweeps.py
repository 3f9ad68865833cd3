# SPDX-License-Identifier: Apache-2.0
"""The two kernels that touch gradients.  A program takes a run of rows of one matrix, BM at a time; each block of
rows is read from memory once and a second time, BM x cols entries later, from the cache.

Tiles are (BM, BN).  Both loops run along the columns, the contiguous direction; where a column is contiguous instead, a
tile is loaded as (BN, BM) and turned in registers."""

from __future__ import annotations

import triton
import triton.language as tl

from .layout import (
    COLS,
    COUNT,
    FIRST_COLUMN,
    FIRST_PROGRAM,
    FIRST_SLOT,
    FLAG_FIELDS,
    LAYER_FIELDS,
    LOWER,
    ROWS,
    SCALE,
    SPECTRAL,
    STATE_FIELDS,
    STRIDE,
    TRANSPOSED,
    TREATMENT,
)


@triton.jit
def places(base, i, j, rows, cols, stride, count, TURNED: tl.constexpr):
    """Pointers of a tile and which of them lie inside: (BM, BN), or (BN, BM) where TURNED."""
    if TURNED:
        at = j.to(tl.int64)[:, None] * stride + i[None, :]
        inside = (j[:, None] < cols) & (i[None, :] < rows)
    else:
        at = i.to(tl.int64)[:, None] * stride + j[None, :]
        inside = (i[:, None] < rows) & (j[None, :] < cols) & (at < count)
    return base + at, inside


@triton.jit
def tile(base, i, j, rows, cols, stride, count, scale, TURNED: tl.constexpr):
    """A tile of G in float32, (BM, BN), times a power of two."""
    at, inside = places(base, i, j, rows, cols, stride, count, TURNED)
    g = tl.load(at, mask=inside, other=0.0).to(tl.float32) * scale
    return tl.trans(g) if TURNED else g


@triton.jit
def pass_rows(base, first, last, rows, cols, stride, count, scale, spectral, V, slot, gram, norm, TURNED: tl.constexpr,
              BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Rows [first, last): their share of Z = G^T (G V) into slot (cols x K), of S into gram and of ||G||^2 into
    norm."""
    k = tl.arange(0, K)
    S = tl.zeros((K, K), tl.float64)
    square = tl.zeros((BM,), tl.float64)
    for block in range(0, last - first, BM):
        i = first + block + tl.arange(0, BM)
        w = tl.zeros((BM, K), tl.float32)
        for c in range(0, cols, BN):
            j = c + tl.arange(0, BN)
            g = tile(base, i, j, rows, cols, stride, count, scale, TURNED)
            square += tl.sum(g * g, 1).to(tl.float64)
            if spectral:
                v = tl.load(V + j[:, None] * K + k[None, :], mask=j[:, None] < cols, other=0.0)
                w = tl.dot(g, v, w, input_precision=PRECISION)
        if spectral:
            S += tl.dot(tl.trans(w), w, input_precision="ieee").to(tl.float64)
            for c in range(0, cols, BN):
                j = c + tl.arange(0, BN)
                g = tile(base, i, j, rows, cols, stride, count, scale, TURNED)
                at = slot + j[:, None] * K + k[None, :]
                z = tl.load(at, mask=(j[:, None] < cols) & (block > 0), other=0.0)
                z = tl.dot(tl.trans(g), w, z, input_precision=PRECISION)
                tl.store(at, z, mask=j[:, None] < cols)
    if spectral:
        tl.store(gram + k[:, None] * K + k[None, :], S)
    tl.store(norm, tl.sum(square, 0))


@triton.jit
def pass_kernel(matrices, layers, programs, flags, state, V, slots, grams, norms, NUMBER: tl.constexpr,
                ENTRY: tl.constexpr, ALIGNED: tl.constexpr, SPAN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                K: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Pass NUMBER (from 0) over the matrices that want it: one program for each SPAN rows of each matrix."""
    program = tl.load(programs + 2 * tl.program_id(0))
    layer = tl.load(programs + 2 * tl.program_id(0) + 1)
    address = tl.load(matrices + layer)
    wanted = address != 0
    if NUMBER > 0:
        wanted = wanted & (tl.load(flags + layer * FLAG_FIELDS + NUMBER) != 0)
    if wanted:
        base = address.to(tl.pointer_type(ENTRY))
        it = layers + layer * LAYER_FIELDS
        rows = tl.load(it + ROWS).to(tl.int32)
        cols = tl.load(it + COLS).to(tl.int32)
        stride = tl.load(it + STRIDE)
        count = tl.load(it + COUNT)
        if ALIGNED:  # every matrix of the launch: then a thread's entries are inside or outside together
            base = tl.multiple_of(base, 16)
            stride = tl.multiple_of(stride, 8)
            cols = tl.multiple_of(cols, 8)
            count = tl.multiple_of(count, 8)
        number = program - tl.load(it + FIRST_PROGRAM).to(tl.int32)
        first = number * SPAN
        last = tl.minimum(first + SPAN, rows)
        scale = tl.load(state + layer * STATE_FIELDS + SCALE).to(tl.float32)
        spectral = tl.load(it + TREATMENT) == SPECTRAL
        v = V + tl.load(it + FIRST_COLUMN) * K
        slot = slots + (tl.load(it + FIRST_SLOT) + number.to(tl.int64) * cols) * K
        gram = grams + program.to(tl.int64) * K * K
        if tl.load(it + TRANSPOSED) != 0:
            if ALIGNED:
                rows = tl.multiple_of(rows, 8)
            pass_rows(base, first, last, rows, cols, stride, count, scale, spectral, v, slot, gram, norms + program,
                      True, BM, BN, K, PRECISION)  # fmt: skip
        else:
            pass_rows(base, first, last, rows, cols, stride, count, scale, spectral, v, slot, gram, norms + program,
                      False, BM, BN, K, PRECISION)  # fmt: skip


@triton.jit
def update_rows(base, first, last, rows, cols, stride, count, scale, how, spectral, U, coefficient, norm,
                TURNED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr,
                PRECISION: tl.constexpr):  # fmt: skip
    """G <- G - (G U) diag(coefficient) U^T for rows [first, last), a multiple of G for a norm, zero to erase; and the
    squares of what was stored."""
    k = tl.arange(0, K)
    factors = tl.load(coefficient + k)
    share = tl.load(coefficient)  # of a norm
    square = tl.zeros((BM,), tl.float64)
    for block in range(0, last - first, BM):
        i = first + block + tl.arange(0, BM)
        p = tl.zeros((BM, K), tl.float32)
        if spectral & (how == 1):
            for c in range(0, cols, BN):
                j = c + tl.arange(0, BN)
                g = tile(base, i, j, rows, cols, stride, count, scale, TURNED)
                u = tl.load(U + j[:, None] * K + k[None, :], mask=j[:, None] < cols, other=0.0)
                p = tl.dot(g, u, p, input_precision=PRECISION)
            p = p * factors[None, :]
        for c in range(0, cols, BN):
            j = c + tl.arange(0, BN)
            g = tile(base, i, j, rows, cols, stride, count, scale, TURNED)
            if how == 2:
                g = tl.zeros((BM, BN), tl.float32)
            elif spectral:
                u = tl.load(U + j[:, None] * K + k[None, :], mask=j[:, None] < cols, other=0.0)
                g = g - tl.dot(p, tl.trans(u), input_precision=PRECISION)
            else:
                g = g * share
            stored = (g / scale).to(base.dtype.element_ty)
            kept = stored.to(tl.float32) * scale
            square += tl.sum(kept * kept, 1).to(tl.float64)
            at, inside = places(base, i, j, rows, cols, stride, count, TURNED)
            tl.store(at, tl.trans(stored) if TURNED else stored, mask=inside)
    tl.store(norm, tl.sum(square, 0))


@triton.jit
def update_kernel(matrices, layers, programs, flags, state, U, coefficients, left_all, norms, ENTRY: tl.constexpr,
                  ALIGNED: tl.constexpr, SPAN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr,
                  PRECISION: tl.constexpr):  # fmt: skip
    """The matrices that decide wants lowered, unless the whole step is left; programs as in the pass."""
    program = tl.load(programs + 2 * tl.program_id(0))
    layer = tl.load(programs + 2 * tl.program_id(0) + 1)
    address = tl.load(matrices + layer)
    how = tl.load(flags + layer * FLAG_FIELDS + LOWER)
    if (address != 0) & (how != 0) & (tl.load(left_all) == 0):
        base = address.to(tl.pointer_type(ENTRY))
        it = layers + layer * LAYER_FIELDS
        rows = tl.load(it + ROWS).to(tl.int32)
        cols = tl.load(it + COLS).to(tl.int32)
        stride = tl.load(it + STRIDE)
        count = tl.load(it + COUNT)
        if ALIGNED:
            base = tl.multiple_of(base, 16)
            stride = tl.multiple_of(stride, 8)
            cols = tl.multiple_of(cols, 8)
            count = tl.multiple_of(count, 8)
        number = program - tl.load(it + FIRST_PROGRAM).to(tl.int32)
        first = number * SPAN
        last = tl.minimum(first + SPAN, rows)
        scale = tl.load(state + layer * STATE_FIELDS + SCALE).to(tl.float32)
        spectral = tl.load(it + TREATMENT) == SPECTRAL
        u = U + tl.load(it + FIRST_COLUMN) * K
        c = coefficients + layer * K
        if tl.load(it + TRANSPOSED) != 0:
            if ALIGNED:
                rows = tl.multiple_of(rows, 8)
            update_rows(base, first, last, rows, cols, stride, count, scale, how, spectral, u, c, norms + program,
                        True, BM, BN, K, PRECISION)  # fmt: skip
        else:
            update_rows(base, first, last, rows, cols, stride, count, scale, how, spectral, u, c, norms + program,
                        False, BM, BN, K, PRECISION)  # fmt: skip

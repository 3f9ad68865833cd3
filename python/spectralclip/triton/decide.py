# SPDX-License-Identifier: Apache-2.0
"""After a pass: the flags of what follows, the certificate, the report, the next columns.  One program a matrix; K x K
in float64.  Certificate, statuses and their constants are the core's (src/clip/subspace_clip.cpp); docs/devices.md says
where a fixed number of passes makes a difference."""

from __future__ import annotations

import triton
import triton.language as tl

from .findings import EPS, RIDGE, element, noise_of, over, probe_root, root, sigma_correction, sines, triplets
from .judgement import drowned, error_of_removed, known_floor, may_be_more
from .layout import (
    BLOCKS,
    COLS,
    DRAWS,
    FIRST_BLOCK,
    FLAG_FIELDS,
    GRAM_N,
    GRAM_P,
    GRAM_T,
    GRAM_VO,
    GRAM_ZO,
    GRAMS,
    LAYER_FIELDS,
    LOWER,
    MARGIN,
    MIX_O,
    MIX_U,
    MIX_V,
    MIX_Z,
    MIXES,
    NEXT_TAU,
    NOT_CONVERGED,
    NOT_FINITE,
    OBSERVE_ONLY,
    OK,
    OPTION_FIELDS,
    OUT_OF_RANGE,
    RANK,
    RANK_EXHAUSTED,
    REPORT_FIELDS,
    ROWS,
    SCALE,
    SKIP,
    SPECTRAL,
    STATE_FIELDS,
    STEPS,
    STORED,
    TOLERANCE,
    TREATMENT,
)
from .report_row import write_report
from .small import diagonal, product

DEAD_BAND = tl.constexpr(32 * 2.0**-23)  # clip/dead_band.h
LEAST_SQUARE = tl.constexpr(1e-24)  # subspace/search.cpp, in_range
LARGEST_SQUARE = tl.constexpr(1e30)
SHIFT = tl.constexpr(2.0**60)  # of the scale, when squares leave that range
WARM_SIGMA = tl.constexpr(1e-2)  # wanted accuracy of sigma_max: of a step, and of the first one
COLD_SIGMA = tl.constexpr(1e-3)
HALVINGS = tl.constexpr(40)
INFINITE = tl.constexpr(float("inf"))


@triton.jit
def decide_norm(option, flag, report, coefficient, limit, norm, NUMBER: tl.constexpr, LAST: tl.constexpr):
    """Vectors, and what is skipped (without a limit): their one singular value is the norm."""
    lower = norm > limit * (1.0 + DEAD_BAND)
    share = tl.where(lower, over(limit, norm), 1.0)
    stored = tl.load(option + STORED)
    bound = tl.where(lower, limit * (1.0 + tl.where(stored > 0, stored, EPS)), norm)
    write_report(report, OK, limit, norm, tl.where(lower, 1.0, 0.0), norm, tl.where(lower, limit, norm),
                 1.0 - share * share, bound, 0.0, 0.0, NUMBER + 1.0, 0.0)  # fmt: skip
    writes = lower & (tl.load(option + OBSERVE_ONLY) != 1)
    tl.store(coefficient, share.to(tl.float32))
    tl.store(flag + LOWER, writes.to(tl.int32))
    if LAST == 0:
        tl.store(flag + NUMBER + 1, 0)


@triton.jit
def add_grams(it, gram, square, K: tl.constexpr):
    """T, P, N and the products with the next fresh columns, over the blocks of columns."""
    T = tl.zeros((K, K), tl.float64)
    P = tl.zeros((K, K), tl.float64)
    N = tl.zeros((K, K), tl.float64)
    ZO = tl.zeros((K, K), tl.float64)
    VO = tl.zeros((K, K), tl.float64)
    for block in range(tl.load(it + BLOCKS).to(tl.int32)):
        at = gram + block * GRAMS * K * K + square
        T += tl.load(at + GRAM_T * K * K)
        P += tl.load(at + GRAM_P * K * K)
        N += tl.load(at + GRAM_N * K * K)
        ZO += tl.load(at + GRAM_ZO * K * K)
        VO += tl.load(at + GRAM_VO * K * K)
    return T, P, N, ZO, VO


@triton.jit
def left_bound(values, couplings, floor):
    """The x above every value and floor at which sum couplings / (x - values) = x - floor (certificate.h)."""
    low = tl.maximum(tl.max(values, 0), floor)
    high = low + root(tl.sum(couplings, 0))
    for _ in range(HALVINGS):
        x = low + (high - low) / 2
        coupled = tl.sum(tl.where(couplings > 0, couplings / tl.maximum(x - values, 1e-300), 0.0), 0)
        enough = coupled <= x - floor
        high = tl.where(enough, x, high)
        low = tl.where(enough, low, x)
    return high


@triton.jit
def store_next_columns(mix, ZO, VO, P, N, X, mixes, healthy, above, row, col, i, K: tl.constexpr, HELD: tl.constexpr):
    """The HELD largest vectors; in place of those that drowned in rounding their coefficients applied to V, freed of
    the others; fresh columns, freed of both.  Rows of from_z and from_v are columns to be."""
    sound = tl.where(healthy[:, None], mixes, 0.0)
    seen = product(X, product(P, tl.trans(sound)))  # y_q (V x_i), of the healthy q
    size = tl.sum(product(X, N) * X, 1) - tl.sum(seen * seen, 1)
    stretch = over(1.0, tl.sqrt(tl.maximum(size, 1e-6)))[:, None]
    held = (row < HELD) & (col >= 0)
    from_z = tl.where(held, tl.where(healthy[:, None], mixes, -product(seen, sound) * stretch), 0.0)
    from_v = tl.where(held & (healthy[:, None] == 0), X * stretch, 0.0)
    shadow = product(from_z, ZO) + product(from_v, VO)  # row i: its products with the fresh columns
    shadow = tl.trans(tl.where(col >= HELD, shadow, 0.0))
    square = row * K + col
    tl.store(mix + MIX_Z * K * K + square, tl.trans(from_z - product(shadow, from_z)))
    tl.store(mix + MIX_V * K * K + square, tl.trans(from_v - product(shadow, from_v)))
    tl.store(mix + MIX_U * K * K + square, tl.trans(tl.where(above[:, None], mixes, 0.0)))
    tl.store(mix + MIX_O * K * K + i, tl.where(i >= HELD, 1.0, 0.0).to(tl.float64))


@triton.jit
def decide_spectral(it, option, flag, report, coefficient, mix, totals, gram, asked, scale, norm_squared, first_step,
                    NUMBER: tl.constexpr, LAST: tl.constexpr, K: tl.constexpr, HELD: tl.constexpr,
                    RADIUS_SQUARED: tl.constexpr):  # fmt: skip
    """All in units of the scaled matrix; ``asked`` is tau, infinite where nothing is to be clipped."""
    i = tl.arange(0, K)
    row = i[:, None]
    col = i[None, :]
    cols = tl.load(it + COLS).to(tl.float64)
    smaller = tl.minimum(tl.load(it + ROWS).to(tl.float64), cols)
    margin = tl.load(option + MARGIN)
    stored = tl.load(option + STORED)
    rank = tl.load(option + RANK)
    rank = tl.where(rank > 0, rank, 2.0 * K)  # beyond what can be found
    limited = asked < INFINITE
    tau = tl.where(limited, asked, 1.0)  # of no consequence when there is no limit, and finite
    goal = tau * (1.0 + margin / 2)
    promise = tau * (1.0 + margin)

    # What was found.
    S = tl.load(totals + row * K + col).to(tl.float64)
    T, P, N, ZO, VO = add_grams(it, gram, row * K + col, K)
    lengths = diagonal(S, row, col)
    L, A, values, X, mixes = triplets(S, T, lengths, row, col, K)
    pivots = diagonal(L, row, col)
    strong = (lengths > 0) & (pivots * pivots > 16 * RIDGE)
    independent = tl.sum(strong.to(tl.float64), 0)
    weakest = tl.min(tl.where(strong, pivots * pivots, 1.0), 0)
    complete = independent >= smaller
    known = i.to(tl.float64) < independent
    sigma = tl.sqrt(values)
    sigma_1 = tl.max(sigma, 0)
    noise = noise_of(values, mixes, lengths)
    sine, inside, turns = sines(N, P, T, mixes, row, col, K)
    sine = tl.where(complete, 0.0, sine)

    # What may be unseen: by energy, and by the probe (Theorem 2).
    rounding = 16 * EPS * norm_squared + tl.sum(noise, 0)
    energy = root(tl.maximum(norm_squared - tl.sum(values, 0), 0.0) + rounding)
    fourth = probe_root(L, A, lengths, norm_squared, sigma_1, row, col, HELD)
    probed = fourth / tl.sqrt(tl.sqrt(RADIUS_SQUARED / cols))
    unseen = tl.where(complete, 0.0, tl.minimum(probed, energy))
    last_sigma = element(sigma, i, (independent - 1).to(tl.int32))
    rest = energy / tl.sqrt(tl.maximum(smaller - independent, 1.0))
    typical = tl.minimum(fourth / tl.sqrt(tl.sqrt((K - HELD) / cols)), tl.maximum(last_sigma, rest))
    typical = tl.where(complete, 0.0, typical)
    correction = tl.where(complete, 0.0, sigma_correction(S, sigma_1, sine, inside, turns, typical, i))

    # The judgement.
    floor = known_floor(values, noise, known)
    wide = limited & (tau < floor)
    level = tau * (1.0 + tl.maximum(DEAD_BAND, margin / 4))
    level = tl.where(limited, tl.where(wide, tl.maximum(level, floor), level), INFINITE)
    above = known & (sigma > level)
    found = tl.sum(above.to(tl.float64), 0)
    full = found >= rank
    above = above & (i.to(tl.float64) < rank)
    count = tl.sum(above.to(tl.float64), 0)
    h = tl.minimum(unseen, 0.98 * goal)  # never quite tau, which would make every bound infinite
    below, leftovers = may_be_more(sigma, sine, known, above, h, goal, tau, margin)
    g = tl.where(complete, 0.0, tl.minimum(typical, tl.where(h > 0, h, typical)))
    error, removed = error_of_removed(sigma, sine, known, above, g, tau)
    allowed = tl.load(option + TOLERANCE) + over(margin * tau / 200, removed)
    rounded = drowned(noise, above, removed, tau, allowed, weakest)
    hidden = (full == 0) & (unseen > tl.where(wide, level, goal))
    unclear = hidden | rounded | (error > allowed)
    unclear = unclear | ((wide == 0) & (((full == 0) & below) | (leftovers & (unseen <= goal))))
    unclear = limited & tl.where(complete, rounded, unclear)
    coarse = (count == 0) & (correction > tl.where(first_step, COLD_SIGMA, WARM_SIGMA))
    read = (LAST == 0) & (unclear | wide | coarse)
    if LAST == 0:
        tl.store(flag + NUMBER + 1, read.to(tl.int32))

    # The certificate (Theorem 1) of what would be left.
    remaining = tl.where(above, tau * tau, values) * (1.0 + over(noise, values))
    coupling = tl.where(above, tau * over(tau, sigma), sigma) * unseen * sine
    left = left_bound(remaining, coupling * coupling, unseen * unseen)
    inner = tl.sum(tl.where(above, (sigma - tau) * (sigma + tau), 0.0), 0)
    after = root(norm_squared - inner)
    writes = tl.where(count > 0, 1.0, 0.0)
    bound = tl.sqrt(left) + DEAD_BAND * (sigma_1 + after) + writes * stored * after
    by_norm = tl.sqrt(after * after + writes * rounding) * (1.0 + DEAD_BAND + stored)
    certain = complete | (energy <= probed) | (by_norm < bound)
    bound = tl.minimum(bound, by_norm)

    # The status.  Where the core looks once more after an update, nobody does: rounding it may leave makes it unsure.
    loud = (count > 0) & (8 * EPS * sigma_1 > tau * tl.maximum(margin, DEAD_BAND) / 2)
    unsure = unclear | wide | loud
    largest_left = tl.max(tl.where(known & (above == 0), sigma, 0.0), 0)
    exhausted = full & (((complete == 0) & (unseen > promise)) | (largest_left > promise))
    exhausted = exhausted | (unsure & (complete == 0) & ((count >= rank) | (count >= HELD))) | (found > rank)
    fine = (limited == 0) | ((bound <= promise) & (error <= allowed) & (found <= rank))
    status = tl.where(fine, OK, tl.where(exhausted, RANK_EXHAUSTED, tl.where(unsure, NOT_CONVERGED, OK)))

    # tau = 0 erases, which needs no certificate.
    erase = limited & (tau == 0)
    erased = erase & (sigma_1 > 0)
    status = tl.where(erase, OK, status)
    observe_only = tl.load(option + OBSERVE_ONLY)
    stays = read | (observe_only == 1) | ((observe_only == 2) & (status != OK)) | (sigma_1 == 0)
    lower = tl.where(erase, 2, tl.where(count > 0, 1, 0)).to(tl.int32)
    tl.store(flag + LOWER, tl.where(stays, 0, lower))
    tl.store(coefficient + i, tl.where(above, 1.0 - over(tau, sigma), 0.0).to(tl.float32))
    back = 1.0 / scale
    share = tl.where(erased, 1.0, tl.minimum(tl.maximum(over(inner, norm_squared), 0.0), 1.0))
    write_report(
        report, status, asked * back, sigma_1 * (1.0 + correction) * back, tl.where(erased, smaller, count),
        tl.sqrt(norm_squared) * back, tl.where(erase, 0.0, after) * back, share, tl.where(erase, 0.0, bound) * back,
        tl.where(certain | erase, 0.0, 1.0), tl.where(erase, 0.0, error), NUMBER + 1.0, K,
    )  # fmt: skip
    healthy = known & (noise < 0.25 * values)
    store_next_columns(mix, ZO, VO, P, N, X, mixes, healthy, above, row, col, i, K, HELD)


@triton.jit
def give_up_or_scale(memory, flag, report, mix, norm_squared, scale, limit, NUMBER: tl.constexpr, LAST: tl.constexpr,
                     K: tl.constexpr):  # fmt: skip
    """Squares out of range: the same once more with another power of two, which is remembered; the last pass gives
    up."""
    tl.store(mix + MIX_O * K * K, -1.0)  # V stays
    tl.store(flag + LOWER, 0)
    finite = norm_squared < INFINITE
    norm = tl.where(finite, tl.sqrt(norm_squared) / scale, float("nan"))
    status = tl.where(finite, OUT_OF_RANGE, NOT_FINITE)
    write_report(report, status, limit, norm, 0.0, norm, norm, 0.0, norm, 0.0, 0.0, NUMBER + 1.0, 0.0)
    other = tl.where(finite & (norm_squared < 1.0), scale * SHIFT, scale / SHIFT)
    tl.store(memory + SCALE, tl.where(LAST == 1, 1.0, other))
    if LAST == 0:
        tl.store(flag + NUMBER + 1, 1)


@triton.jit
def decide_kernel(matrices, layers, options, state, flags, sums, first_total, grams, mixes, coefficients, report,
                  NUMBER: tl.constexpr, LAST: tl.constexpr, K: tl.constexpr, HELD: tl.constexpr,
                  RADIUS_SQUARED: tl.constexpr):  # fmt: skip
    """After pass NUMBER: the flags of the next pass and of the update, the report, and what combine multiplies by."""
    layer = tl.program_id(0)
    flag = flags + layer * FLAG_FIELDS
    wanted = tl.load(matrices + layer) != 0
    if NUMBER > 0:
        wanted = wanted & (tl.load(flag + NUMBER) != 0)
    if wanted:
        it = layers + layer * LAYER_FIELDS
        option = options + layer * OPTION_FIELDS
        memory = state + layer * STATE_FIELDS
        row = report + layer * REPORT_FIELDS
        mix = mixes + layer.to(tl.int64) * MIXES * K * K
        coefficient = coefficients + layer * K
        totals = sums + first_total + layer * (K * K + 2)
        treatment = tl.load(it + TREATMENT)
        scale = tl.load(memory + SCALE)
        tau = tl.load(memory + NEXT_TAU)
        limit = tl.where(treatment == SKIP, INFINITE, tau)
        norm_squared = tl.load(totals + K * K).to(tl.float64) + tl.load(totals + K * K + 1).to(tl.float64)
        tl.store(memory + DRAWS, tl.load(memory + DRAWS) + tl.where(treatment == SPECTRAL, 1.0, 0.0))
        fits = (norm_squared == 0) | ((norm_squared > LEAST_SQUARE) & (norm_squared < LARGEST_SQUARE))
        if fits:
            if treatment == SPECTRAL:
                gram = grams + tl.load(it + FIRST_BLOCK) * GRAMS * K * K
                first_step = tl.load(memory + STEPS) == 0
                decide_spectral(it, option, flag, row, coefficient, mix, totals, gram, tau * scale, scale, norm_squared,
                                first_step, NUMBER, LAST, K, HELD, RADIUS_SQUARED)  # fmt: skip
            else:
                decide_norm(option, flag, row, coefficient, limit, tl.sqrt(norm_squared) / scale, NUMBER, LAST)
        else:
            give_up_or_scale(memory, flag, row, mix, norm_squared, scale, limit, NUMBER, LAST, K)
    elif LAST == 0:
        tl.store(flag + NUMBER + 1, 0)

# SPDX-License-Identifier: Apache-2.0
"""After a pass: what was found, what may be unseen, and what follows.  One program a matrix; K x K in float64.

The judgement is the core's (src/subspace/decide.cpp, search.cpp, clip/subspace_clip.cpp), line by line and with its
constants; docs/devices.md says where a fixed number of passes makes it differ."""

from __future__ import annotations

import triton
import triton.language as tl

from .layout import (
    BLOCKS,
    BOUND_KIND,
    CLIPPED,
    COLS,
    COLUMNS,
    DRAWS,
    ERROR_ESTIMATE,
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
    METHOD,
    MIX_O,
    MIX_U,
    MIX_V,
    MIX_Z,
    MIXES,
    NEXT_TAU,
    NORM_AFTER,
    NORM_BEFORE,
    NOT_CONVERGED,
    NOT_FINITE,
    OBSERVE_ONLY,
    OK,
    OPTION_FIELDS,
    OUT_OF_RANGE,
    PASSES,
    RANK,
    RANK_EXHAUSTED,
    REMOVED_ENERGY,
    REPORT_FIELDS,
    REPORT_TAU,
    ROWS,
    SCALE,
    SIGMA_BOUND,
    SIGMA_MAX,
    SKIP,
    SPECTRAL,
    STATE_FIELDS,
    STATUS,
    STEPS,
    STORED,
    TOLERANCE,
    TRACKED,
    TREATMENT,
)  # fmt: skip
from .small import diagonal, inverse_cholesky, largest_eigenvalue, product, sorted_eigenpairs

EPS = tl.constexpr(2.0**-23)  # of float32, in which passes work
EPS64 = tl.constexpr(2.0**-52)
RIDGE = tl.constexpr(2.0**-20)  # 8 EPS: how far columns of W may depend before their products are rounding
DEAD_BAND = tl.constexpr(32 * 2.0**-23)  # clip/dead_band.h
LEAST_SQUARE = tl.constexpr(1e-24)  # subspace/search.cpp, in_range
LARGEST_SQUARE = tl.constexpr(1e30)
SHIFT = tl.constexpr(2.0**60)  # of the scale, when squares leave that range
WARM_SIGMA = tl.constexpr(1e-2)  # wanted accuracy of sigma_max: of a step, and of the first one
COLD_SIGMA = tl.constexpr(1e-3)
SWEEPS = tl.constexpr(14)
HALVINGS = tl.constexpr(40)
INFINITE = tl.constexpr(float("inf"))


@triton.jit
def root(x):
    return tl.sqrt(tl.maximum(x, 0.0))


@triton.jit
def over(a, b):
    """a / b, and 0 where b is 0."""
    return tl.where(b != 0, a / tl.where(b != 0, b, 1.0), 0.0)


@triton.jit
def element(vector, i, at):
    return tl.sum(tl.where(i == at, vector, 0.0), 0)


@triton.jit
def anywhere(mask):
    return tl.sum(mask.to(tl.int32), 0) > 0


@triton.jit
def write_report(report, status, method, tau, sigma_max, clipped, before, after, removed, bound, estimated, error,
                 passes, columns):  # fmt: skip
    tl.store(report + STATUS, status)
    tl.store(report + METHOD, method)
    tl.store(report + REPORT_TAU, tau)
    tl.store(report + SIGMA_MAX, sigma_max)
    tl.store(report + CLIPPED, clipped)
    tl.store(report + NORM_BEFORE, before)
    tl.store(report + NORM_AFTER, after)
    tl.store(report + REMOVED_ENERGY, removed)
    tl.store(report + SIGMA_BOUND, bound)
    tl.store(report + BOUND_KIND, estimated)
    tl.store(report + ERROR_ESTIMATE, error)
    tl.store(report + PASSES, passes)
    tl.store(report + COLUMNS, columns)


@triton.jit
def decide_norm(option, flag, report, coefficient, tau, norm, treatment, number):
    """Vectors, and what is skipped: their one singular value is the norm."""
    limit = tl.where(treatment == SKIP, INFINITE, tau)
    lower = norm > limit * (1.0 + DEAD_BAND)
    after = tl.where(lower, limit, norm)
    removed = tl.where(lower, 1.0 - over(limit, norm) * over(limit, norm), 0.0)
    stored = tl.load(option + STORED)
    bound = tl.where(lower, limit * (1.0 + tl.where(stored > 0, stored, EPS)), norm)
    write_report(report, OK, TRACKED, limit, norm, tl.where(lower, 1.0, 0.0), norm,
                 after, removed, bound, 0.0, 0.0, number + 1.0, 0.0)  # fmt: skip
    writes = lower & (tl.load(option + OBSERVE_ONLY) != 1)
    tl.store(coefficient, over(limit, norm).to(tl.float32))
    tl.store(flag + LOWER, writes.to(tl.int32))


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
def decide_spectral(it, option, flag, report, coefficient, mix, share, totals, gram, tau, scale, norm_squared,
                    first_steps, NUMBER: tl.constexpr, LAST: tl.constexpr, K: tl.constexpr, HELD: tl.constexpr,
                    RADIUS_SQUARED: tl.constexpr):  # fmt: skip
    i = tl.arange(0, K)
    row = i[:, None]
    col = i[None, :]
    square = row * K + col
    eye = row == col
    rows = tl.load(it + ROWS).to(tl.float64)
    cols = tl.load(it + COLS).to(tl.float64)
    smaller = tl.minimum(rows, cols)
    margin = tl.load(option + MARGIN)
    tolerance = tl.load(option + TOLERANCE)
    rank = tl.load(option + RANK)
    rank = tl.where(rank > 0, rank, 2.0 * K)  # beyond what can be found
    stored = tl.load(option + STORED)
    limited = tau < INFINITE
    level = tl.where(limited, tau * (1.0 + tl.maximum(DEAD_BAND, margin / 4)), INFINITE)
    asked = tau
    tau = tl.where(limited, tau, 1.0)  # of no consequence when there is no limit, and finite
    goal = tau * (1.0 + margin / 2)

    S = tl.load(totals + square).to(tl.float64)
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

    # Triplets: B = (Z R)^T, A = B B^T = X^T diag(values) X, y_i = Z mix_i.
    lengths = diagonal(S, row, col)
    inverse = over(1.0, tl.sqrt(tl.maximum(lengths, 0.0)))
    cosines = S * inverse[:, None] * inverse[None, :] * (1.0 - RIDGE)
    L, L_inverse = inverse_cholesky(tl.where(eye, 1.0, cosines), row, col, K)
    R = tl.trans(L_inverse) * inverse[:, None]
    A = product(tl.trans(R), product(T, R))
    A = 0.5 * (A + tl.trans(A))
    pivots = diagonal(L, row, col)
    pivots = tl.where(lengths > 0, pivots * pivots, 0.0)
    strong = pivots > 16 * RIDGE
    independent = tl.sum(strong.to(tl.float64), 0)
    weakest = tl.min(tl.where(strong, pivots, 1.0), 0)
    complete = independent >= smaller
    values, X = sorted_eigenpairs(A, row, col, K, SWEEPS)
    sigma = tl.sqrt(values)
    mixes = product(X, tl.trans(R)) * over(1.0, sigma)[:, None]  # row i: y_i as a combination of the columns of Z
    gain = sigma * root(tl.sum(mixes * mixes * lengths[None, :], 1))
    sigma_1 = tl.max(sigma, 0)
    known = i < independent

    # What rounding may move the squares by (search.cpp, noise_of).
    shifted = 4 * EPS * sigma_1 * gain
    stretched = 4 * EPS * values + 8 * EPS64 * sigma_1 * sigma_1
    noise = (2 * sigma + shifted) * shifted + stretched * gain * gain

    # Sines: what of y_i lies outside span V.
    sizes = diagonal(N, row, col)
    N = tl.where(eye, tl.where(sizes > 0, sizes * (1.0 + 1e-12), 1.0)[:, None], N)
    _, N_inverse = inverse_cholesky(N, row, col, K)
    overlaps = product(mixes, tl.trans(P))  # row i: V^T y_i
    within = product(overlaps, tl.trans(N_inverse))
    inside = tl.sum(within * within, 1)
    length = tl.sum(product(mixes, T) * mixes, 1)
    sine = tl.sqrt(tl.minimum(tl.maximum(length - inside, 4 * EPS64), 1.0))
    sine = tl.where(complete, 0.0, sine)

    # The unseen part: by energy, and by the probe of the fresh columns (Theorem 2).
    captured = tl.sum(values, 0)
    rounding = 16 * EPS * norm_squared + tl.sum(noise, 0)
    energy = tl.where(complete, 0.0, root(tl.maximum(norm_squared - captured, 0.0) + rounding))
    fresh = (row >= HELD) & (col >= HELD)
    tail = tl.where(fresh, L * tl.sqrt(tl.maximum(lengths, 0.0))[:, None], 0.0)
    probe = product(tail, product(A, tl.trans(tail)))
    largest = largest_eigenvalue(probe, row, col, 7) + 16 * EPS * EPS * norm_squared * sigma_1 * sigma_1
    fourth = tl.sqrt(tl.sqrt(largest))
    probed = fourth / tl.sqrt(tl.sqrt(RADIUS_SQUARED / cols))
    typical = fourth / tl.sqrt(tl.sqrt((K - HELD) / cols))
    unseen = tl.where(complete, 0.0, tl.minimum(probed, energy))
    certain = energy <= probed
    weakest_sigma = element(sigma, i, (independent - 1).to(tl.int32))
    rest = energy / tl.sqrt(tl.maximum(smaller - independent, 1.0))
    typical = tl.where(complete, 0.0, tl.minimum(typical, tl.maximum(weakest_sigma, rest)))

    # By how much sigma_max is seen short (search.cpp, sigma_correction).
    steps_back = product(within, N_inverse)
    before = over(tl.sum(product(steps_back, S) * steps_back, 1), inside)
    turned_gain = tl.minimum(tl.maximum(1.0 - over(element(before, i, 0), sigma_1 * sigma_1), 0.0), 1.0)
    first_sine = element(sine, i, 0)
    first_sine = first_sine * first_sine
    rho = tl.minimum(over(typical, sigma_1), 1.0)
    turned = tl.minimum(first_sine, turned_gain / tl.maximum(1.0 - rho * rho, 1.0 / 16))
    lacking = rho * rho * turned / tl.maximum(1.0 - first_sine, 1e-3)
    correction = tl.where(complete | (sigma_1 == 0), 0.0, 0.5 * lacking / (1.0 + lacking))

    # The judgement (decide.cpp).
    doubtful = known & (noise > 5e-4 * values)
    floor = tl.max(tl.where(doubtful, tl.sqrt(values + noise), 0.0), 0)
    wide = limited & (tau < floor)
    level = tl.where(wide, tl.maximum(level, floor), level)
    above = known & (sigma > level)
    found = tl.sum(above.to(tl.float64), 0)
    full = found >= rank
    beyond = found > rank
    above = above & (i.to(tl.float64) < rank)
    count = tl.sum(above.to(tl.float64), 0)
    h = tl.minimum(unseen, 0.98 * goal)
    room = goal * goal - h * h
    coupled = h * sine
    below = anywhere(known & (above == 0) & (values * (1.0 + coupled * coupled / room) > goal * goal))
    leftover = over(tau, sigma) * coupled
    leftovers = (unseen <= goal) & (tl.sum(tl.where(above, leftover * leftover, 0.0), 0) > margin / 2 * room)
    g = tl.where(complete, 0.0, tl.minimum(typical, tl.where(h > 0, h, typical)))
    excess = tl.where(above, sigma - tau, 0.0)
    gap_unseen = tl.maximum(values - g * g, tl.maximum(values / 64, 1e-300))
    turn = excess * g * g * sine / gap_unseen
    shortened = tl.where(above, 0.5 * sigma * g * g * sine * sine / gap_unseen, 0.0)
    gaps = tl.maximum(values[:, None] - values[None, :], tl.maximum(values[:, None] / 64, 1e-300))
    mixing = tl.minimum((excess * sigma)[:, None] / gaps, over(sigma, 2 * tau)[:, None])
    mixing = mixing * g * g * sine[:, None] * sine[None, :] * over(1.0, sigma)[:, None]
    both = above[:, None] & known[None, :] & (above[None, :] == 0)
    wrong = 2 * tl.sum(turn * turn, 0) + tl.sum(shortened * shortened, 0)
    wrong += 2 * tl.sum(tl.sum(tl.where(both, mixing * mixing, 0.0), 1), 0)
    removed = tl.sum(excess * excess, 0)
    error = tl.sqrt(over(wrong, removed))
    allowed = tolerance + over(margin * tau / 200, tl.sqrt(removed))
    drowned = over(tl.sqrt(over(tl.sum(tl.where(above, noise * noise, 0.0), 0), removed)), 2 * tau) > allowed
    drowned = drowned & (weakest < 0.1)
    hidden = (full == 0) & (unseen > tl.where(wide, level, goal))
    unclear = hidden | drowned | (error > allowed) | ((wide == 0) & (((full == 0) & below) | leftovers))
    unclear = limited & tl.where(complete, drowned, unclear)
    coarse = correction > tl.where(first_steps, COLD_SIGMA, WARM_SIGMA)
    more = unclear | wide | (coarse & (count == 0))
    read = (LAST == 0) & more
    erase = limited & (tau == 0)
    if LAST == 0:
        tl.store(flag + NUMBER + 1, read.to(tl.int32))
    tl.store(coefficient + i, tl.where(above, 1.0 - over(tau, sigma), 0.0).to(tl.float32))

    # The certificate (Theorem 1), the status, the report.
    remaining = tl.where(above, tau * tau, values)
    coupling = tl.where(above, tau * over(tau, sigma), sigma) * unseen * sine
    left = left_bound(remaining * (1.0 + over(noise, values)), coupling * coupling, unseen * unseen)
    inner = tl.sum(tl.where(above, (sigma - tau) * (sigma + tau), 0.0), 0)
    after = root(tl.maximum(norm_squared - inner, 0.0))
    bound = tl.sqrt(left) + DEAD_BAND * (sigma_1 + after) + tl.where(count > 0, stored * after, 0.0)
    by_norm = tl.sqrt(after * after + tl.where(count > 0, rounding, 0.0)) * (1.0 + DEAD_BAND + stored)
    certain = complete | certain | (by_norm < bound)
    bound = tl.minimum(bound, by_norm)
    promise = tau * (1.0 + margin)
    fine = (limited == 0) | ((bound <= promise) & (error <= allowed))
    # Where the core looks once more after an update, nobody does: what its rounding may leave makes the step unsure.
    loud = (count > 0) & (8 * EPS * sigma_1 > tau * tl.maximum(margin, DEAD_BAND) / 2)
    unsure = unclear | wide | loud
    largest_left = tl.max(tl.where(known & (above == 0), sigma, 0.0), 0)
    exhausted = beyond | (full & (((complete == 0) & (unseen > promise)) | (largest_left > promise)))
    exhausted = exhausted | (unsure & (complete == 0) & ((count >= rank) | (count >= HELD)))
    status = tl.where(exhausted, RANK_EXHAUSTED, tl.where(unsure, NOT_CONVERGED, OK))
    status = tl.where(fine & (beyond == 0), OK, status)
    status = tl.where(erase, OK, status)
    observe_only = tl.load(option + OBSERVE_ONLY)
    only_looks = (observe_only == 1) | ((observe_only == 2) & (status != OK))
    lower = tl.where(erase, 2, tl.where(count > 0, 1, 0)).to(tl.int32)
    lower = tl.where(read | only_looks | (sigma_1 == 0), 0, lower)
    tl.store(flag + LOWER, lower)
    clipped = tl.where(erase & (sigma_1 > 0), smaller, count)
    after = tl.where(erase, 0.0, after)
    bound = tl.where(erase, 0.0, bound)
    share_removed = tl.where(erase & (sigma_1 > 0), 1.0, over(inner, norm_squared))
    back = 1.0 / scale
    sigma_max = sigma_1 * (1.0 + correction) * back
    share_removed = tl.minimum(tl.maximum(share_removed, 0.0), 1.0)
    estimated = tl.where(certain | erase, 0.0, 1.0)
    write_report(report, status, TRACKED, asked * back, sigma_max, clipped, tl.sqrt(norm_squared) * back, after * back,
                 share_removed, bound * back, estimated, tl.where(erase, 0.0, error), NUMBER + 1.0, K)  # fmt: skip

    # The next columns: the HELD largest vectors; those that drowned in rounding from V in their place; fresh ones,
    # freed of both.  Rows of `from_z` and `from_v` are columns to be.
    healthy = known & (noise < 0.25 * values)
    held = (row < HELD) & (col >= 0)
    seen_in = product(X, tl.trans(overlaps))  # y_q (V x_i)
    seen_in = tl.where(healthy[None, :], seen_in, 0.0)
    size = tl.sum(product(X, N) * X, 1) - tl.sum(seen_in * seen_in, 1)
    stretch = over(1.0, tl.sqrt(tl.maximum(size, 1e-6)))[:, None]
    from_z = tl.where(healthy[:, None], mixes, -product(seen_in, tl.where(healthy[:, None], mixes, 0.0)) * stretch)
    from_z = tl.where(held, from_z, 0.0)
    from_v = tl.where(held & (healthy[:, None] == 0), X * stretch, 0.0)
    shadow = product(from_z, ZO) + product(from_v, VO)  # row i: its product with the fresh columns
    shadow = tl.trans(tl.where(fresh | (col >= HELD), shadow, 0.0))
    next_z = from_z - product(shadow, from_z)
    next_v = from_v - product(shadow, from_v)
    tl.store(mix + MIX_Z * K * K + square, tl.trans(next_z))
    tl.store(mix + MIX_V * K * K + square, tl.trans(next_v))
    tl.store(mix + MIX_U * K * K + square, tl.trans(tl.where(above[:, None], mixes, 0.0)))
    tl.store(share + i, tl.where(i >= HELD, 1.0, 0.0).to(tl.float64))


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
        row_of = report + layer * REPORT_FIELDS
        mix = mixes + layer.to(tl.int64) * MIXES * K * K
        share = mix + MIX_O * K * K
        coefficient = coefficients + layer * K
        totals = sums + first_total + layer * (K * K + 2)
        treatment = tl.load(it + TREATMENT)
        scale = tl.load(memory + SCALE)
        tau = tl.load(memory + NEXT_TAU)
        norm_squared = tl.load(totals + K * K).to(tl.float64) + tl.load(totals + K * K + 1).to(tl.float64)
        tl.store(memory + DRAWS, tl.load(memory + DRAWS) + tl.where(treatment == SPECTRAL, 1.0, 0.0))
        fits = (norm_squared == 0) | ((norm_squared > LEAST_SQUARE) & (norm_squared < LARGEST_SQUARE))
        if fits:
            if treatment == SPECTRAL:
                gram = grams + tl.load(it + FIRST_BLOCK) * GRAMS * K * K
                first_steps = tl.load(memory + STEPS) == 0
                decide_spectral(it, option, flag, row_of, coefficient, mix, share, totals, gram, tau * scale,
                                scale, norm_squared, first_steps, NUMBER, LAST, K, HELD, RADIUS_SQUARED)  # fmt: skip
            else:
                decide_norm(option, flag, row_of, coefficient, tau, tl.sqrt(norm_squared) / scale, treatment, NUMBER)
                if LAST == 0:
                    tl.store(flag + NUMBER + 1, 0)
        else:
            # Squares out of range: the same once more with another power of two; the last pass gives up.
            tl.store(share, -1.0)
            tl.store(flag + LOWER, 0)
            finite = norm_squared < INFINITE
            status = tl.where(finite, OUT_OF_RANGE, NOT_FINITE)
            norm = tl.where(finite, tl.sqrt(norm_squared) / scale, float("nan"))
            limit = tl.where(treatment == SKIP, INFINITE, tau)
            write_report(row_of, status, TRACKED, limit, norm, 0.0, norm, norm, 0.0, norm, 0.0, 0.0, NUMBER + 1.0, 0.0)
            other = tl.where(finite & (norm_squared < 1.0), scale * SHIFT, scale / SHIFT)
            tl.store(memory + SCALE, tl.where(LAST == 1, 1.0, other))
            if LAST == 0:
                tl.store(flag + NUMBER + 1, 1)
    else:
        if LAST == 0:
            tl.store(flag + NUMBER + 1, 0)

# SPDX-License-Identifier: Apache-2.0
"""The end of a step: what was stored, what thresholds learn, tau of the next step, the total norm.  One program a
matrix and one for the totals.  The policies are those of src/threshold/, in float64."""

from __future__ import annotations

import triton
import triton.language as tl

from .layout import (
    AVERAGE,
    CAP,
    CLIPPED,
    DECAY,
    FIRST_PROGRAM,
    FIRST_WINDOW,
    FIRST_ZERO,
    FLAG_FIELDS,
    FLOOR,
    KIND,
    LAYER_FIELDS,
    LINEAR,
    LOWER,
    NEXT_TAU,
    NORM_AFTER,
    NORM_BEFORE,
    NOT_FINITE,
    OBSERVE_ZEROS,
    OBSERVED,
    OPTION_FIELDS,
    OUT_OF_RANGE,
    PROGRAMS,
    QUANTILE,
    REPORT_FIELDS,
    SCALE,
    SIGMA_MAX,
    SKIP,
    SLACK,
    SPECTRAL,
    STATE_FIELDS,
    STATUS,
    STEPS,
    STEPS_CLIPPED,
    TAU,
    TREATMENT,
    WARMUP,
    WEIGHT,
    WINDOW,
)
from .small import add_up

INFINITE = tl.constexpr(float("inf"))
LARGEST = tl.constexpr(1.7976931348623157e308)


@triton.jit
def value_of_rank(window, count, wanted, CHUNK: tl.constexpr):
    """The value of rank `wanted` (0: the least) among the first `count`: the one that as many others precede."""
    result = tl.full((), 0.0, tl.float64)
    i = tl.arange(0, CHUNK)
    for a in range(0, count, CHUNK):
        mine = a + i
        x = tl.load(window + mine, mask=mine < count, other=INFINITE)
        place = tl.zeros((CHUNK,), tl.int32)
        for b in range(0, count, CHUNK):
            others = b + i
            y = tl.load(window + others, mask=others < count, other=INFINITE)
            ahead = (y[None, :] < x[:, None]) | ((y[None, :] == x[:, None]) & (others[None, :] < mine[:, None]))
            place += tl.sum(ahead.to(tl.int32), 1)
        result += tl.sum(tl.where((place == wanted) & (mine < count), x, 0.0), 0)
    return result


@triton.jit
def quantile_of(option, window, observed, CHUNK: tl.constexpr):
    count = tl.minimum(observed, tl.load(option + WINDOW)).to(tl.int32)
    last = tl.maximum(count - 1, 0)
    position = tl.load(option + QUANTILE) * last.to(tl.float64)
    below = tl.floor(position)
    i = below.to(tl.int32)
    low = value_of_rank(window, count, i, CHUNK)
    result = low
    if (tl.load(option + LINEAR) != 0) & (i < last):
        t = position - below
        high = value_of_rank(window, count, i + 1, CHUNK)
        distance = high - low
        result = tl.where(t < 0.5, low + distance * t, high - distance * (1.0 - t))
    return result


@triton.jit
def next_tau(option, memory, window, CHUNK: tl.constexpr):
    """Infinity: unclipped."""
    kind = tl.load(option + KIND)
    observed = tl.load(memory + OBSERVED)
    raw = tl.load(option + TAU)
    if kind == 1:
        weight = tl.load(memory + WEIGHT)
        raw = tl.where(observed > 0, tl.load(memory + AVERAGE) / tl.where(weight > 0, weight, 1.0), 0.0)
    if kind == 2:
        raw = quantile_of(option, window, observed, CHUNK)
    tau = tl.minimum(tl.maximum(raw * tl.load(option + SLACK), tl.load(option + FLOOR)), tl.load(option + CAP))
    waits = (kind != 0) & (observed == 0) & (tl.load(option + FIRST_ZERO) == 0)
    return tl.where(waits | (observed < tl.load(option + WARMUP)), INFINITE, tau)


@triton.jit
def observe(option, memory, window, sigma):
    kind = tl.load(option + KIND)
    zeros = (tl.load(option + OBSERVE_ZEROS) != 0) | (kind == 0)
    if (sigma < INFINITE) & ((sigma > 0) | (zeros & (sigma == 0))):
        observed = tl.load(memory + OBSERVED)
        if kind == 1:
            decay = tl.load(option + DECAY)
            average = decay * tl.load(memory + AVERAGE) + (1.0 - decay) * sigma
            tl.store(memory + AVERAGE, tl.minimum(average, LARGEST))
            tl.store(memory + WEIGHT, decay * tl.load(memory + WEIGHT) + (1.0 - decay))
        if kind == 2:
            size = tl.load(option + WINDOW).to(tl.int64)
            tl.store(window + observed.to(tl.int64) % size, sigma)
        tl.store(memory + OBSERVED, observed + 1.0)
    tl.debug_barrier()  # what was stored is read again for tau


@triton.jit
def finish_kernel(matrices, layers, options, state, windows, flags, norms, left_all, report, LEARN: tl.constexpr,
                  CHUNK: tl.constexpr):  # fmt: skip
    """LEARN: a step ends.  Otherwise only tau of the next step follows from a state that was loaded."""
    layer = tl.program_id(0)
    it = layers + layer * LAYER_FIELDS
    option = options + layer * OPTION_FIELDS
    memory = state + layer * STATE_FIELDS
    window = windows + tl.load(it + FIRST_WINDOW)
    row = report + layer * REPORT_FIELDS
    if LEARN:
        if tl.load(matrices + layer) != 0:
            left = tl.load(left_all) != 0
            lowered = (tl.load(flags + layer * FLAG_FIELDS + LOWER) != 0) & (left == 0)
            if lowered:
                programs = tl.load(it + PROGRAMS).to(tl.int32)
                square = add_up(norms + tl.load(it + FIRST_PROGRAM), programs, CHUNK)
                tl.store(row + NORM_AFTER, tl.sqrt(square) / tl.load(memory + SCALE))
            if left:
                tl.store(row + NORM_AFTER, tl.load(row + NORM_BEFORE))
                tl.store(row + CLIPPED, 0.0)
            status = tl.load(row + STATUS)
            treatment = tl.load(it + TREATMENT)
            if (status != NOT_FINITE) & (status != OUT_OF_RANGE) & (left == 0):
                if treatment != SKIP:
                    which = tl.where(treatment == SPECTRAL, SIGMA_MAX, NORM_BEFORE)
                    observe(option, memory, window, tl.load(row + which))
                tl.store(memory + STEPS, tl.load(memory + STEPS) + 1.0)
                clipped = tl.load(row + CLIPPED) > 0
                tl.store(memory + STEPS_CLIPPED, tl.load(memory + STEPS_CLIPPED) + tl.where(clipped, 1.0, 0.0))
        else:
            field = tl.arange(0, 16)
            tl.store(row + field, tl.full((16,), float("nan"), tl.float64), mask=field < REPORT_FIELDS)
    tl.store(memory + NEXT_TAU, next_tau(option, memory, window, CHUNK))


@triton.jit
def add_norms(matrices, report, count, total, left_all, LEAVE_ALL: tl.constexpr, CHUNK: tl.constexpr):
    """The norm before clipping over all matrices (not finite when one is not), and whether the step is left alone."""
    i = tl.arange(0, CHUNK)
    sum_of = tl.zeros((CHUNK,), tl.float64)
    bad = tl.zeros((CHUNK,), tl.int32)
    for first in range(0, count, CHUNK):
        layer = first + i
        there = layer < count
        there = there & (tl.load(matrices + layer, mask=there, other=0) != 0)
        norm = tl.load(report + layer * REPORT_FIELDS + NORM_BEFORE, mask=there, other=0.0)
        status = tl.load(report + layer * REPORT_FIELDS + STATUS, mask=there, other=0.0)
        sum_of += norm * norm
        bad += ((status == NOT_FINITE) | (status == OUT_OF_RANGE)).to(tl.int32)
    tl.store(total, tl.sqrt(tl.sum(sum_of, 0)))
    if LEAVE_ALL:
        tl.store(left_all, (tl.sum(bad, 0) > 0).to(tl.int32))

# SPDX-License-Identifier: Apache-2.0
"""Clock, order statistics, interleaved rounds and the progress line."""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Callable, Sequence

import torch


def milliseconds(call: Callable[[], object]) -> float:
    """Until the device, where there is one, is through as well."""
    _wait_for_device()
    start = time.perf_counter()
    call()
    _wait_for_device()
    return 1e3 * (time.perf_counter() - start)


def _wait_for_device() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def quantile(values: Sequence[float], q: float) -> float:
    """Linear between neighbours; NaN when empty.

    >>> quantile([4.0, 1.0, 2.0], 0.5), quantile([1.0, 2.0], 0.25)
    (2.0, 1.25)
    """
    if not values:
        return math.nan
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def deviation(values: Sequence[float]) -> float:
    """Median absolute deviation from the median."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


def paired_ratio(a: Sequence[float], b: Sequence[float]) -> float:
    """Median of a[i] / b[i]: what two contenders of the same round have to say, slow drifts of the machine taken out.

    >>> paired_ratio([2.0, 40.0, 6.0], [1.0, 10.0, 3.0])
    2.0
    """
    return median([x / y for x, y in zip(a, b)])


def paired_difference(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Median of a[i] - b[i] and its standard error, 1.253 s / sqrt(n) with s from the median deviation."""
    differences = [x - y for x, y in zip(a, b)]
    spread = 1.4826 * deviation(differences)
    return median(differences), 1.2533 * spread / math.sqrt(max(1, len(differences)))


def interleave(
    names: Sequence[str], rounds: int, prepare: Callable[[int], object], run: Callable[[int, int], object], what: str
) -> None:
    """run(contender, round) for each contender once per round, in an order rotated from round to round, each after
    prepare(round).  No garbage is collected meanwhile."""
    gc.collect()
    gc.disable()
    try:
        for round_ in range(rounds):
            show_progress(f"{what}: round {round_ + 1} of {rounds}", stage=round_ == 0)
            for turn in range(len(names)):
                contender = (turn + round_) % len(names)
                prepare(round_)
                run(contender, round_)
    finally:
        gc.enable()


def show_progress(text: str, stage: bool = True) -> None:
    """One line on stderr: overwritten in place on a terminal; elsewhere a line per stage, and none per round."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif stage and text:
        print(text, file=sys.stderr, flush=True)

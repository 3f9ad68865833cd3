# SPDX-License-Identifier: Apache-2.0
"""What the figures say about the bars that were set before they were measured."""

from __future__ import annotations

import dataclasses
import math

from .contenders import ALWAYS, NORM, PUBLISHED, PUBLISHED_ALWAYS, TRACKED
from .set_run import SetResult
from .timing import deviation, median, paired_ratio, quantile
from .trainees import PUBLISHED as TRAINED_RIVAL
from .trainees import TRACKED as TRAINED_TRACKED
from .training import TrainingResult


def number(value: float | None) -> str:
    """
    >>> number(12345.6), number(0.012345), number(None), number(float("nan"))
    ('12346', '0.0123', '', '')
    """
    if value is None or math.isnan(value):
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@dataclasses.dataclass(frozen=True)
class Bar:
    limit: float  # must hold
    goal: float | None = None  # would be good
    at_least: bool = False  # otherwise at most

    def holds(self, value: float, limit: float) -> bool:
        return value >= limit if self.at_least else value <= limit


@dataclasses.dataclass(frozen=True)
class Finding:
    what: str
    value: float
    unit: str = ""
    bar: Bar | None = None
    note: str = ""
    timed: bool = True

    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        goal = f" (goal {number(self.bar.goal)})" if self.bar.goal is not None else ""
        return ("≥ " if self.bar.at_least else "≤ ") + number(self.bar.limit) + goal

    def verdict(self) -> str:
        """
        >>> [Finding("", value, bar=Bar(1.25, 1.0)).verdict() for value in (0.9, 1.1, 1.3, float("nan"))]
        ['ok, goal', 'ok', 'missed', 'missed']
        """
        if self.bar is None:
            return ""
        if not self.bar.holds(self.value, self.bar.limit):
            return "missed"
        return "ok, goal" if self.bar.goal is not None and self.bar.holds(self.value, self.bar.goal) else "ok"

    def without_timing_bar(self) -> Finding:
        """Of tiny matrices times say nothing."""
        return dataclasses.replace(self, bar=None) if self.timed else self

    def facts(self) -> dict[str, object]:
        return {**dataclasses.asdict(self), "verdict": self.verdict()}


def _times(ms: list[float]) -> str:
    return f"{number(median(ms))} ms, MAD {number(deviation(ms))}"


def _against(a: list[float], b: list[float]) -> str:
    return f"{_times(a)}, against {_times(b)}"


def set_findings(result: SetResult) -> list[Finding]:
    norm, tracked, always = result[NORM], result[TRACKED], result[ALWAYS]
    published, published_always = result[PUBLISHED], result[PUBLISHED_ALWAYS]
    key = result.plan.key
    share = f"{100 * median(tracked.shares):.0f} % of the layers clipped"
    tail, rival_tail = quantile(always.errors, 0.9), quantile(published_always.errors, 0.9)
    return [
        Finding(f"{key}: {TRACKED}, time", paired_ratio(tracked.ms, norm.ms), "x clip_grad_norm_", Bar(1.25, 1.0),
                f"{_against(tracked.ms, norm.ms)}; {share}"),
        Finding(f"{key}: {TRACKED}, speed-up over Algorithm 2", paired_ratio(published.ms, tracked.ms), "x",
                Bar(9, 12, at_least=True), _against(tracked.ms, published.ms)),
        Finding(f"{key}: {TRACKED}, error of the removed part, 90 %", quantile(tracked.errors, 0.9), "", Bar(1e-3),
                f"of {len(tracked.errors)} clips; Algorithm 2: {number(quantile(published.errors, 0.9))}", timed=False),
        Finding(f"{key}: {ALWAYS}, speed-up over Algorithm 2", paired_ratio(published_always.ms, always.ms), "x",
                Bar(4.5, at_least=True), _against(always.ms, published_always.ms)),
        Finding(f"{key}: {ALWAYS}, 90 % error relative to Algorithm 2's", tail / rival_tail, "x", Bar(1.0),
                f"{number(tail)} against {number(rival_tail)}, of {len(always.errors)} clips", timed=False),
    ]  # fmt: skip


def training_findings(result: TrainingResult) -> list[Finding]:
    def note(name: str) -> str:
        overhead, error = result.paired_overhead(name)
        clip, step = median(result[name].clip_ms), median(result[name].step_ms)
        paired = f"paired difference of whole steps {overhead:+.2f} ± {error:.2f} %"
        share = sum(result[name].shares) / len(result[name].shares)
        return f"{number(clip)} ms of {number(step)}; {100 * share:.0f} % of the matrices clipped; {paired}"

    what = "training step: {}, the clip's share of the step"
    return [
        Finding(what.format(TRAINED_TRACKED), result.clip_share(TRAINED_TRACKED), "%", Bar(1.0), note(TRAINED_TRACKED)),
        Finding(what.format(TRAINED_RIVAL), result.clip_share(TRAINED_RIVAL), "%", None, note(TRAINED_RIVAL)),
    ]

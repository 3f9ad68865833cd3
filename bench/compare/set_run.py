# SPDX-License-Identifier: Apache-2.0
"""One gradient set: references, verification, interleaved rounds.  Contenders that are scaled come from dense_run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from . import timing
from .contenders import MAKERS, Contender, Maker
from .dense_run import DenseContender, run_dense
from .gradients import VARIANTS, LayerSet, SetPlan
from .memory import peak_growth
from .reference import make_references, reference_pairs
from .verify import verify_references, verify_step

WARMUP_STEPS = 2 * VARIANTS  # the last VARIANTS of them are verified


@dataclasses.dataclass(frozen=True)
class SetOptions:
    rounds: int
    dense_rounds: int  # 0: none
    layers_per_shape: int  # with a reference
    variants: int  # steps with a reference, per such layer


@dataclasses.dataclass
class SetResult:
    plan: SetPlan
    layers: int
    entries: int
    references: int
    contenders: list[Contender]
    dense: list[DenseContender]
    failures: list[str]

    def __getitem__(self, name: str) -> Contender:
        return next(contender for contender in self.contenders if contender.name == name)


def _warm_up(set_: LayerSet, make: Maker, references: dict, failures: list[str]) -> Contender:
    """Built and run once under the eye of the memory gauge, then until it has seen every step twice."""
    built: list[Contender] = []

    def build_and_step() -> None:
        built.append(make(set_))
        built[0].step()

    set_.restore(0)
    peak = peak_growth(build_and_step)
    contender = built[0]
    contender.peak_bytes = peak
    for step in range(1, WARMUP_STEPS):
        set_.restore(step)
        contender.step()
        if step >= WARMUP_STEPS - VARIANTS:
            failures += verify_step(set_, contender, step, references)
    return contender


def _time_rounds(set_: LayerSet, contenders: Sequence[Contender], rounds: int) -> None:
    def run(number: int, round_: int) -> None:
        contender = contenders[number]
        contender.ms.append(timing.milliseconds(contender.step))
        results = contender.results()  # outside the clock
        if results:
            contender.shares.append(sum(result.clipped > 0 for result in results) / len(results))

    names = [contender.name for contender in contenders]
    timing.interleave(names, rounds, lambda round_: set_.restore(WARMUP_STEPS + round_), run, set_.plan.key)


def run_set(plan: SetPlan, options: SetOptions, makers: Sequence[Maker] = MAKERS) -> SetResult:
    torch.manual_seed(0)  # svd_lowrank draws from the global generator
    set_ = LayerSet(plan)
    references = make_references(set_, reference_pairs(set_, options.layers_per_shape, options.variants))
    failures = verify_references(set_, references)
    contenders = []
    for make in makers:
        timing.show_progress(f"{plan.key}: verifying {make.__name__}")
        contenders.append(_warm_up(set_, make, references, failures))
    _time_rounds(set_, contenders, options.rounds)
    dense = run_dense(set_, options.dense_rounds, references, failures) if options.dense_rounds else []
    return SetResult(plan, len(set_.layers), set_.entries, len(references), contenders, dense, failures)


def prime(plan: SetPlan) -> None:
    """Loads code and library buffers, so that no contender's memory or first step pays for being the first."""
    timing.show_progress("loading")
    set_ = LayerSet(dataclasses.replace(plan, width=32, blocks=1))
    for make in MAKERS:
        make(set_).step()

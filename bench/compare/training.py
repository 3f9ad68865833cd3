# SPDX-License-Identifier: Apache-2.0
"""What clipping adds to a real training step: a small GPT, forward, backward, clip, AdamW.

Every contender trains a model of its own from the same weights on the same batches, one step per round, interleaved.
The clock of the whole step gives paired differences to the step without clipping; the clock around the clip alone gives
its share, because a few milliseconds drown in the noise of a step of seconds.
"""

from __future__ import annotations

import dataclasses
import math

import torch

from . import timing
from .gpt import GptShape, batches
from .gradients import gradient_of
from .reference import make_reference
from .trainees import DENSE, NAMES, NONE, NORM, Trainee, make_trainee

WARMUP_STEPS = 3
Batch = tuple[torch.Tensor, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    shape: GptShape = GptShape()
    batch: int = 16
    rounds: int = 8
    dense_rounds: int = 2  # 0: without the dense contenders


@dataclasses.dataclass
class TrainingResult:
    options: TrainingOptions
    parameters: int
    matrices: int
    trainees: list[Trainee]
    failures: list[str]

    def __getitem__(self, name: str) -> Trainee:
        return next(trainee for trainee in self.trainees if trainee.name == name)

    def clip_share(self, name: str) -> float:
        """Per cent of the rest of the step that the clip takes, median over steps."""
        trainee = self[name]
        return 100 * timing.median([clip / (step - clip) for clip, step in zip(trainee.clip_ms, trainee.step_ms)])

    def clip_ratio(self, name: str) -> float:
        """The clip's time relative to that of clip_grad_norm_, median over common rounds."""
        return timing.paired_ratio(self[name].clip_ms, self[NORM].clip_ms)

    def paired_overhead(self, name: str) -> tuple[float, float]:
        """Per cent by which the whole step is longer than without clipping, median of paired differences, and its
        standard error."""
        base = timing.median(self[NONE].step_ms)
        difference, error = timing.paired_difference(self[name].step_ms, self[NONE].step_ms)  # of common rounds
        return 100 * difference / base, 100 * error / base


def _verify(name: str, options: TrainingOptions) -> tuple[list[float], list[str]]:
    """A model of its own, so that the loud gradient teaches no threshold of those that are timed; smaller batches do.
    Errors of the clips against float64, matrix by matrix, and what is wrong."""
    trainee = make_trainee(name, options.shape)
    *past, latest = batches(options.shape, max(1, options.batch // 4), WARMUP_STEPS)
    for x, y in past:
        trainee.step(x, y)
    trainee.backward(*latest, scale=trainee.loudness)
    before = {matrix: gradient_of(parameter).clone() for matrix, parameter in trainee.model.matrices()}
    trainee.clip()
    taus = trainee.taus()
    if not taus:  # by norm or not at all
        return [], []
    if set(taus) != set(before):
        return [], [f"training, {name}: clips {sorted(taus)} instead of {sorted(before)}"]
    errors, wrong = [], []
    for matrix, parameter in trainee.model.matrices():
        reference = make_reference(before[matrix], terms=min(trainee.terms, *parameter.shape))
        error, right = trainee.judge(reference, before[matrix], gradient_of(parameter), taus[matrix])
        if math.isnan(error):
            wrong.append(f"training, {name}, {matrix}: nothing was above tau, so nothing was verified")
            continue
        errors.append(error)
        if not right:
            wrong.append(f"training, {name}, {matrix}: removed part wrong by {error:.3g}")
    return errors, wrong


def _time_rounds(trainees: list[Trainee], options: TrainingOptions, data: list[Batch]) -> None:
    def run(number: int, round_: int) -> None:
        trainee = trainees[number]
        if trainee.name in DENSE and round_ >= options.dense_rounds:
            return
        trainee.step_ms.append(timing.milliseconds(lambda: trainee.step(*data[round_])))
        clipped = trainee.clipped()  # outside the clock
        if clipped:
            trainee.shares.append(sum(clipped) / len(clipped))

    timing.interleave([t.name for t in trainees], options.rounds, lambda round_: None, run, "training")


def run_training(options: TrainingOptions) -> TrainingResult:
    names = [name for name in NAMES if options.dense_rounds or name not in DENSE]
    data = batches(options.shape, options.batch, WARMUP_STEPS + options.rounds)
    trainees: list[Trainee] = []
    failures: list[str] = []
    for name in names:
        timing.show_progress(f"training: verifying and warming up, {name}")
        errors, wrong = _verify(name, options)
        failures += wrong
        trainee = make_trainee(name, options.shape)
        trainee.errors = errors
        for x, y in data[:WARMUP_STEPS]:
            trainee.step(x, y)
        trainee.clip_ms.clear()
        trainees.append(trainee)
    _time_rounds(trainees, options, data[WARMUP_STEPS:])
    for trainee in trainees:
        if not math.isfinite(trainee.loss):
            failures.append(f"training, {trainee.name}: the loss is {trainee.loss}")
    model = trainees[0].model
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return TrainingResult(options, parameters, len(model.matrices()), trainees, failures)

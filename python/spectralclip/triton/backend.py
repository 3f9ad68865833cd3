# SPDX-License-Identifier: Apache-2.0
"""Gradients of a clipper on a GPU, and on the CPU in Triton's interpreter: which matrices lie where, one engine a
device, states and reports that go back to the clipper's core."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import torch

from . import layout
from .engine import ELEMENT, Engine, Matrix, interpreted
from .layers import DEFAULT_PASSES, DEFAULTS, key_of, layers_of, refusal
from .placed import Placed, Sample
from .windows import Window, folded_windows, spectral_windows


class TritonBackend:
    """Between a clipper's core and the engines.  ``step`` takes the gradients that belong here; what else there is to
    know is asked for afterwards."""

    def __init__(self, core: Any, parameters: Sequence[torch.Tensor], *, columns: int = 16, leave_all: bool = False,
                 raises: bool = False, passes: Optional[int] = None, sure_only: bool = False) -> None:  # fmt: skip
        """``sure_only``: what a pass is not sure of is left for another method."""
        self._sure_only = sure_only
        self._core, self._parameters = core, parameters
        self._columns, self._leave_all, self._raises = columns, leave_all or raises, raises
        self.layers = layers_of(core)
        reason = refusal(self.layers, columns)
        if reason:
            raise ValueError(f'backend = "triton" cannot honour this: {reason}')
        given = {layer.numbers["max_passes"] for layer in self.layers} - {DEFAULTS["max_passes"]}
        self._passes = passes or max(given, default=DEFAULT_PASSES)
        self._of_parameter: dict[int, list[int]] = {}
        for place, layer in enumerate(self.layers):
            self._of_parameter.setdefault(layer.numbers["parameter"], []).append(place)
        self._engines: dict[torch.device, Placed] = {}
        self._pending: Optional[dict[str, Any]] = None

    def takes(self, gradient: torch.Tensor) -> bool:
        on_device = gradient.device.type in ("cuda", "xpu") or (gradient.device.type == "cpu" and interpreted())
        return on_device and gradient.layout == torch.strided and gradient.dtype in ELEMENT and gradient.numel() > 0

    def step(self, gradients: Sequence[torch.Tensor], numbers: Sequence[int]) -> list[torch.Tensor]:
        """Clips in place.  Returns the total norm of each device, 0-d float64, not waited for."""
        by_device: dict[torch.device, dict[int, torch.Tensor]] = {}
        for gradient, number in zip(gradients, numbers):
            if gradient.shape != self._parameters[number].shape:
                shape, other = tuple(self._parameters[number].shape), tuple(gradient.shape)
                raise ValueError(f"parameter {number} of shape {shape} has a gradient of shape {other}")
            by_device.setdefault(gradient.device, {})[number] = gradient.detach()
        totals = []
        for device, mine in by_device.items():
            placed = self._engines.get(device)
            if placed is None or not placed.fits(mine):
                placed = self._engines[device] = self._place(device, mine, placed)
            placed.step(mine)
            totals.append(placed.engine.total)
        if self._raises:
            self._raise_if_not_finite()
        return totals

    def _raise_if_not_finite(self) -> None:
        """The one thing that waits: the step was left alone on the device if any matrix is not finite."""
        names = []
        for placed in self._engines.values():
            status = placed.engine.report[:, layout.STATUS.value].cpu()
            names += [self.layers[place].name for place, s in zip(placed.places, status.tolist()) if s == 1]
        if names:
            raise RuntimeError(
                f"the gradients of {', '.join(names)} are not finite; nothing was clipped (error_if_nonfinite is set)"
            )

    # ---- which matrices lie where

    def _place(self, device: torch.device, gradients: dict[int, torch.Tensor], before: Optional[Placed]) -> Placed:
        """An engine for all parameters whose gradients were ever seen on this device."""
        samples = {} if before is None else dict(before.samples)
        samples.update({number: Sample.of(gradient) for number, gradient in gradients.items()})
        matrices, windows, places = [], [], []
        for number in sorted(samples):
            sample = samples[number]
            for place, window in zip(self._of_parameter[number], self._windows(number, sample)):
                layer = self.layers[place]
                n = layer.numbers
                options = layer.options(sample.dtype, sure_only=self._sure_only)
                key = key_of(n["seed"], n["matrix_id"])
                matrices.append(
                    Matrix(layer.name, window.rows, window.cols, layer.treatment(), options, key, sample.dtype)
                )
                windows.append(window)
                places.append(place)
        engine = Engine(
            matrices, windows, device, columns=self._columns, passes=self._passes, leave_all=self._leave_all
        )
        placed = Placed(engine, samples, places, self._of_parameter, windows)
        self._load(placed, before)
        return placed

    def _windows(self, number: int, sample: Sample) -> list[Window]:
        layer = self.layers[self._of_parameter[number][0]]
        tensor = torch.empty_strided(sample.shape, sample.strides, device="meta")
        axes = layer.numbers["batch_axes"], layer.numbers["row_axes"]
        for candidate in (tensor, torch.empty(sample.shape, device="meta")):
            windows = spectral_windows(candidate, *axes) if layer.spectral else folded_windows(candidate, axes[0])
            if windows is not None:
                sample.copied = candidate is not tensor
                return windows
        raise AssertionError("a contiguous tensor always has windows")

    # ---- states

    def _load(self, placed: Placed, before: Optional[Placed]) -> None:
        """What an engine remembers comes from the one before it, from a loaded state, or from the core."""
        known: dict[str, dict[str, torch.Tensor]] = {}
        if self._pending is not None:
            known.update(self._pending)
        if before is not None:
            known.update(before.remembered(self.layers))
        placed.recall(self.layers, known, self._core.states())

    def pull_states(self) -> None:
        """Into the core, so that its checkpoint holds them.  Waits for the device."""
        if not self._engines:
            return
        counts, averages, windows, vectors = self._core.states()
        for placed in self._engines.values():
            placed.give(self.layers, counts, averages, windows, vectors)
        self._core.set_states(counts, averages, windows, vectors)

    def state_dict(self) -> dict[str, Any]:
        """By layer: beside what the core's checkpoint holds, all columns of the search and the address of the next
        ones, so that a resumed run continues with equal bits."""
        known: dict[str, Any] = dict(self._pending or {})
        for placed in self._engines.values():
            known.update(placed.remembered(self.layers))
        return known

    def load_state_dict(self, state: Optional[dict[str, Any]]) -> None:
        self._pending = dict(state) if state else None
        self._engines.clear()  # made anew from what was loaded

    def forget(self) -> None:
        """Every matrix starts anew: what a call without a memory wants."""
        for placed in self._engines.values():
            placed.engine.forget()

    # ---- reports

    def fill_report(self, numbers: torch.Tensor, values: torch.Tensor) -> None:
        """Rows of the layers that had a gradient here, and the steps they have seen.  One copy a device."""
        for placed in self._engines.values():
            rows, state = placed.engine.report.cpu(), placed.engine.state.cpu()
            for place, row, memory in zip(placed.places, rows, state):
                numbers[place, 3] = int(memory[layout.STEPS.value])
                numbers[place, 4] = int(memory[layout.STEPS_CLIPPED.value])
                if not torch.isnan(row).all():
                    values[place] = row

    def report_values(self) -> torch.Tensor:
        """One row a layer, on the device of the first."""
        first = next(iter(self._engines.values())).engine.report
        values = torch.full((len(self.layers), first.shape[1]), math.nan, dtype=torch.float64, device=first.device)
        for placed in self._engines.values():
            values[placed.places] = placed.engine.report.to(first.device)
        return values

    @property
    def launches(self) -> int:
        """Kernel launches so far: ten a step and type."""
        return sum(placed.engine.launches for placed in self._engines.values())

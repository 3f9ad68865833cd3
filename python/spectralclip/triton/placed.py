# SPDX-License-Identifier: Apache-2.0
"""An engine and where its matrices belong: from gradients to addresses, from the engine's tables to states by layer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch

from . import layout
from .engine import FRESH, Engine
from .layers import Layer
from .windows import Window


@dataclasses.dataclass
class Sample:
    """How a parameter's gradient looks."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    copied: bool = False  # no window fits its strides

    @classmethod
    def of(cls, gradient: torch.Tensor) -> Sample:
        return cls(gradient.shape, gradient.stride(), gradient.dtype)


class Placed:
    """An engine and where its matrices belong."""

    def __init__(self, engine: Engine, samples: dict[int, Sample], places: list[int],
                 of_parameter: dict[int, list[int]], windows: list[Window]) -> None:  # fmt: skip
        self.engine, self.samples, self.places = engine, samples, places
        self._ranges: dict[int, tuple[int, int]] = {}
        first = 0
        for number in sorted(samples):
            count = len(of_parameter[number])
            self._ranges[number] = (first, first + count)
            first += count
        self._windows = windows
        self._copies: dict[int, torch.Tensor] = {}
        for number, sample in samples.items():
            if sample.copied:
                self._copies[number] = torch.empty(sample.shape, dtype=sample.dtype, device=engine.device)

    def fits(self, gradients: dict[int, torch.Tensor]) -> bool:
        for number, gradient in gradients.items():
            sample = self.samples.get(number)
            if sample is None or sample.dtype != gradient.dtype or sample.strides != gradient.stride():
                return False
        return True

    def step(self, gradients: dict[int, torch.Tensor]) -> None:
        addresses = [0] * len(self.places)
        for number, gradient in gradients.items():
            copy = self._copies.get(number)
            if copy is not None:
                gradient = copy.copy_(gradient)
            base, size = gradient.data_ptr(), gradient.element_size()
            first, last = self._ranges[number]
            for i in range(first, last):
                addresses[i] = base + self._windows[i].offset * size
        self.engine.step(addresses)
        for number, copy in self._copies.items():
            if number in gradients:
                gradients[number].copy_(copy)

    # ---- states: names of layers, plain tensors

    def _slices(self, i: int) -> tuple[slice, slice]:
        row = self.engine.table_row(i)
        columns = row[layout.FIRST_COLUMN.value]
        windows = row[layout.FIRST_WINDOW.value]
        matrix = self.engine.matrices[i]
        spectral = matrix.treatment == int(layout.SPECTRAL.value)
        quantile = int(matrix.options[layout.WINDOW.value]) if matrix.options[layout.KIND.value] == 2 else 0
        return slice(columns, columns + (matrix.cols if spectral else 0)), slice(windows, windows + quantile)

    def remembered(self, layers: Sequence[Layer]) -> dict[str, dict[str, torch.Tensor]]:
        state, V, quantiles = (t.cpu() for t in (self.engine.state, self.engine.V, self.engine.quantiles))
        known = {}
        for i, place in enumerate(self.places):
            columns, window = self._slices(i)
            known[layers[place].name] = {
                "numbers": state[i].clone(), "vectors": V[columns].clone(), "window": quantiles[window].clone(),
            }  # fmt: skip
        return known

    def recall(self, layers: Sequence[Layer], known: dict[str, dict[str, torch.Tensor]], core: Any) -> None:
        counts, averages, windows, vectors = core
        engine = self.engine
        state, V, quantiles = (t.cpu().clone() for t in (engine.state, engine.V, engine.quantiles))
        cold = torch.zeros(len(self.places), dtype=torch.int32)
        for i, place in enumerate(self.places):
            columns, window = self._slices(i)
            layer, mine = layers[place], known.get(layers[place].name)
            if (
                mine is not None
                and mine["vectors"].shape == V[columns].shape
                and mine["window"].shape == quantiles[window].shape
            ):
                state[i], V[columns], quantiles[window] = mine["numbers"], mine["vectors"], mine["window"]
                continue
            cold[i] = 1
            steps, clipped, observed = counts[place].tolist()
            values = windows[place]
            quantiles[window][: len(values)] = values
            state[i, layout.STEPS.value], state[i, layout.STEPS_CLIPPED.value] = steps, clipped
            state[i, layout.OBSERVED.value], state[i, layout.AVERAGE.value] = observed, averages[place]
            state[i, layout.WEIGHT.value] = -math.expm1(observed * math.log(layer.values["decay"]))
            state[i, layout.DRAWS.value] = 2 * steps  # beyond what earlier steps have drawn
        engine.state.copy_(state)
        engine.V.copy_(V)
        engine.quantiles.copy_(quantiles)
        engine.start(cold)
        self._warm(cold, vectors)

    def _warm(self, cold: torch.Tensor, vectors: list[torch.Tensor]) -> None:
        """Vectors of the core's checkpoint, where they have the length that is kept here."""
        for i, place in enumerate(self.places):
            columns, _ = self._slices(i)
            kept = vectors[place]
            if cold[i] and kept.numel() and kept.shape[1] == columns.stop - columns.start:
                count = min(kept.shape[0], self.engine.blocking.columns - FRESH)
                self.engine.V[columns, :count] = kept[:count].t().to(self.engine.device)

    def give(self, layers: Sequence[Layer], counts: torch.Tensor, averages: torch.Tensor, windows: list[torch.Tensor],
             vectors: list[torch.Tensor]) -> None:  # fmt: skip
        for i, place in enumerate(self.places):
            mine = self.remembered_one(i)
            state = mine["numbers"]
            observed = int(state[layout.OBSERVED.value])
            counts[place] = torch.tensor(
                [int(state[layout.STEPS.value]), int(state[layout.STEPS_CLIPPED.value]), observed]
            )
            averages[place] = state[layout.AVERAGE.value]
            windows[place] = mine["window"][: min(observed, len(mine["window"]))].clone()
            kept = mine["vectors"][:, : self.engine.blocking.columns - FRESH].t().contiguous()
            right = layers[place].numbers["cols"] == kept.shape[1] and kept.numel() > 0
            vectors[place] = kept if right and state[layout.STEPS.value] > 0 else torch.empty(0)

    def remembered_one(self, i: int) -> dict[str, torch.Tensor]:
        columns, window = self._slices(i)
        e = self.engine
        return {"numbers": e.state[i].cpu(), "vectors": e.V[columns].cpu(), "window": e.quantiles[window].cpu()}

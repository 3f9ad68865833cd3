# SPDX-License-Identifier: Apache-2.0
"""Gradients of a clipper on a GPU, and on the CPU in Triton's interpreter: which matrices lie where, one engine a
device, states and reports that go back to the clipper's core.

Options that kernels with a fixed number of launches cannot honour are refused when the clipper is made."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Optional

import torch

from . import layout
from .engine import ELEMENT, FRESH, LARGEST_WINDOW, STORED_EPSILON, Engine, Matrix, interpreted
from .windows import Window, folded_windows, spectral_windows

SUPPORTED_COLUMNS = (16, 32)
DEFAULT_PASSES, MOST_PASSES = 2, 3
_DEFAULTS = {"max_passes": 8, "max_columns": 64}  # the core's: what was not given (include/spectralclip/options.h)
_MASK64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

# Columns of the plan (torch/ops/layer_tables.h).
_NUMBERS = (
    "parameter", "index", "batch_axes", "row_axes", "rows", "cols", "treatment", "matrix_id", "seed", "kind", "window",
    "warmup_steps", "first_step", "interpolation", "observe_zeros", "method", "rank", "max_passes", "max_columns",
    "exhausted", "observe_only", "measure_time",
)  # fmt: skip
_VALUES = ("tau", "decay", "quantile", "slack", "floor", "cap", "tolerance", "margin")
_METHODS = ("exact", "gram", "sketched", "tracked", "newton_schulz", "auto")
_TRACKED, _AUTO, _GO_EXACT = 3, 5, 0


def _mixed(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK64
    return x ^ (x >> 31)


def _key(seed: int, matrix_id: int) -> int:
    """Of the random columns of a matrix, as src/random/uniform.cpp makes it; as a signed number for a tensor."""
    key = _mixed(((seed & _MASK64) + _GOLDEN * _mixed(((matrix_id & _MASK64) + 1) & _MASK64)) & _MASK64)
    return key - (1 << 64) if key >= 1 << 63 else key


@dataclasses.dataclass
class Layer:
    """A matrix of the clipper and its options, by the names of the core."""

    name: str
    numbers: dict[str, int]
    values: dict[str, float]

    @property
    def spectral(self) -> bool:
        """A matrix of one row or column has one singular value, its norm."""
        n = self.numbers
        return n["treatment"] == int(layout.SPECTRAL.value) and min(n["rows"], n["cols"]) > 1

    def options(self, dtype: torch.dtype, *, sure_only: bool) -> list[float]:
        n, v = self.numbers, self.values
        observe_only = n["observe_only"] or (2 if sure_only else 0)
        return [
            n["kind"], v["tau"], v["decay"], v["quantile"], n["window"], n["first_step"], n["interpolation"],
            v["slack"], v["floor"], v["cap"], n["warmup_steps"], n["observe_zeros"], n["rank"], v["tolerance"],
            v["margin"], observe_only, STORED_EPSILON[dtype],
        ]  # fmt: skip

    def treatment(self) -> int:
        if self.numbers["treatment"] == int(layout.SPECTRAL.value) and not self.spectral:
            return int(layout.NORM.value)
        return self.numbers["treatment"]


def layers_of(core: Any) -> list[Layer]:
    numbers, values = core.plan()
    names = core.report()[0]
    return [
        Layer(name, dict(zip(_NUMBERS, n)), dict(zip(_VALUES, v)))
        for name, n, v in zip(names, numbers.tolist(), values.tolist())
    ]


def refusal(layers: Sequence[Layer], columns: int) -> Optional[str]:
    """Why these kernels cannot do what the options say; None when they can."""
    if columns not in SUPPORTED_COLUMNS:
        return f"device_columns = {columns} is none of {SUPPORTED_COLUMNS}"
    for layer in layers:
        n = layer.numbers
        if n["kind"] == 2 and n["window"] > LARGEST_WINDOW:
            return f'layer "{layer.name}": a quantile window of {n["window"]} is beyond {LARGEST_WINDOW}'
        if not layer.spectral:
            continue
        reason = _refusal_of_search(n, columns)
        if reason:
            return f'layer "{layer.name}": {reason}'
    return None


def _refusal_of_search(n: dict[str, int], columns: int) -> Optional[str]:
    if n["method"] not in (_TRACKED, _AUTO):
        return f'method = "{_METHODS[n["method"]]}": only "tracked" (and "auto", which is the same here) has kernels'
    if n["exhausted"] == _GO_EXACT:
        return 'exhausted = "go_exact": nothing on the device finishes by gram; statuses and bounds say what is left'
    if n["max_passes"] != _DEFAULTS["max_passes"] and not DEFAULT_PASSES <= n["max_passes"] <= MOST_PASSES:
        return (
            f"max_passes = {n['max_passes']}: {DEFAULT_PASSES} (the default here) or {MOST_PASSES} passes are launched"
        )
    if n["max_columns"] != _DEFAULTS["max_columns"]:
        return f"max_columns = {n['max_columns']}: the width is fixed here, device_columns = 16 or 32"
    if n["rank"] > columns - FRESH:
        return f"rank = {n['rank']}: device_columns = {columns} keeps {columns - FRESH} vectors from step to step"
    if n["measure_time"]:
        return "measure_time: kernels of all layers run together"
    return None


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
        given = {layer.numbers["max_passes"] for layer in self.layers} - {_DEFAULTS["max_passes"]}
        self._passes = passes or max(given, default=DEFAULT_PASSES)
        self._of_parameter: dict[int, list[int]] = {}
        for place, layer in enumerate(self.layers):
            self._of_parameter.setdefault(layer.numbers["parameter"], []).append(place)
        self._engines: dict[torch.device, _Placed] = {}
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

    def _place(self, device: torch.device, gradients: dict[int, torch.Tensor], before: Optional[_Placed]) -> _Placed:
        """An engine for all parameters whose gradients were ever seen on this device."""
        samples = {} if before is None else dict(before.samples)
        samples.update({number: _Sample.of(gradient) for number, gradient in gradients.items()})
        matrices, windows, places = [], [], []
        for number in sorted(samples):
            sample = samples[number]
            for place, window in zip(self._of_parameter[number], self._windows(number, sample)):
                layer = self.layers[place]
                n = layer.numbers
                options = layer.options(sample.dtype, sure_only=self._sure_only)
                key = _key(n["seed"], n["matrix_id"])
                matrices.append(
                    Matrix(layer.name, window.rows, window.cols, layer.treatment(), options, key, sample.dtype)
                )
                windows.append(window)
                places.append(place)
        engine = Engine(
            matrices, windows, device, columns=self._columns, passes=self._passes, leave_all=self._leave_all
        )
        placed = _Placed(engine, samples, places, self._of_parameter, windows)
        self._load(placed, before)
        return placed

    def _windows(self, number: int, sample: _Sample) -> list[Window]:
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

    def _load(self, placed: _Placed, before: Optional[_Placed]) -> None:
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


@dataclasses.dataclass
class _Sample:
    """How a parameter's gradient looks."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    copied: bool = False  # no window fits its strides

    @classmethod
    def of(cls, gradient: torch.Tensor) -> _Sample:
        return cls(gradient.shape, gradient.stride(), gradient.dtype)


class _Placed:
    """An engine and where its matrices belong."""

    def __init__(self, engine: Engine, samples: dict[int, _Sample], places: list[int],
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

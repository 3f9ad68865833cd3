# SPDX-License-Identifier: Apache-2.0
"""Clips without a memory: a cold start of more passes, and what it cannot promise is finished by a dense method.

Looking at the statuses waits for the device, as every stateless clip on a device does."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import _devices, _settings
from .._library import ops
from ..rules import Rule
from . import layout
from .backend import TritonBackend

COLD_PASSES = 6  # of a start that knows nothing; launched for all, run by those that still want one
_CALLS_KEPT = 16  # kinds of calls whose engines are kept


@functools.lru_cache(maxsize=_CALLS_KEPT)
def _backend(kinds: tuple[Any, ...], rules: tuple[Rule, ...], texts: tuple[str, ...], leave_all: bool,
             finishes: bool) -> TritonBackend:  # fmt: skip
    """Of tensors of these (shape, strides, dtype, device)."""
    tensors = [torch.empty(shape, device="meta", dtype=dtype) for shape, _, dtype, _ in kinds]
    names = [str(i) for i in range(len(tensors))]
    settings = [*texts, f"on_nonfinite={'leave_all' if leave_all else 'leave_layer'}"]
    core = torch.classes.spectralclip.Clipper(names, tensors, [[]] * len(names), settings, [r.texts() for r in rules])
    return TritonBackend(core, tensors, leave_all=leave_all, passes=COLD_PASSES, sure_only=finishes)


def clip_all(tensors: Sequence[torch.Tensor], tau: float, options: Mapping[str, object], rules: Sequence[Rule], *,
             error_if_nonfinite: bool = False) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """In place.  Returns the total norm and a row of report fields a matrix."""
    clip = {name: value for name, value in options.items() if name != "exhausted"}
    texts = ("threshold.kind=constant", f"threshold.tau={_settings.text(float(tau))}", *_settings.texts(clip, "clip."))
    kinds = tuple((tuple(t.shape), t.stride(), t.dtype, t.device) for t in tensors)
    finishes = options.get("exhausted", "auto") != "report" and options.get("rank") is None
    backend = _backend(kinds, tuple(rules), texts, error_if_nonfinite, finishes)
    for number, tensor in enumerate(tensors):
        if not backend.takes(tensor):
            _devices.require_taken(str(number), tensor)
    backend.forget()
    norms = backend.step(tensors, range(len(tensors)))
    values = backend.report_values().cpu()
    if error_if_nonfinite and bool((values[:, layout.STATUS.value] == layout.NOT_FINITE.value).any()):
        raise RuntimeError("the gradients are not finite; nothing was clipped (error_if_nonfinite is set)")
    if finishes:
        _finish(tensors, tau, backend, values)
    return _devices.total_of(norms, tensors[0], _devices.promoted(tensors)), values


def _finish(tensors: Sequence[torch.Tensor], tau: float, backend: TritonBackend, values: torch.Tensor) -> None:
    """What the passes were not sure of, and therefore left, by gram with ATen operators."""
    unsure = (layout.RANK_EXHAUSTED.value, layout.NOT_CONVERGED.value, layout.OUT_OF_RANGE.value)
    for place, layer in enumerate(backend.layers):
        if float(values[place, layout.STATUS.value]) not in unsure:
            continue
        matrix = _matrix(tensors[layer.numbers["parameter"]], layer.numbers)
        values[place] = ops.clip_singular_values_(matrix, float(tau), ["method=gram"], "aten")[0].cpu()


def _matrix(tensor: torch.Tensor, numbers: Mapping[str, int]) -> torch.Tensor:
    batch = tensor.reshape(-1, *tensor.shape[numbers["batch_axes"] :]) if numbers["batch_axes"] else tensor[None]
    one = batch[numbers["index"]]
    return one if one.dim() == 2 else one.view(numbers["rows"], numbers["cols"])


def clip_matrices(G: torch.Tensor, tau: float, options: Mapping[str, object]) -> torch.Tensor:
    """A matrix or a batch of them, in place; a row of report fields a matrix."""
    rules = (Rule("*", batch_axes=G.dim() - 2),)
    return clip_all([G], tau, options, rules)[1]


def clip_gradients(gradients: Sequence[torch.Tensor], max_sigma: float, options: Mapping[str, object],
                   error_if_nonfinite: bool) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Total norm before clipping, and the statuses of the gradients."""
    rules = (Rule("*", max_dims=1, treatment="norm"), Rule("*"))
    norm, values = clip_all(gradients, max_sigma, options, rules, error_if_nonfinite=error_if_nonfinite)
    return norm, values[:, layout.STATUS.value].to(torch.int64)

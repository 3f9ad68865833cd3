# SPDX-License-Identifier: Apache-2.0
"""What a clipper may be built from, as lists of named parameters with settings of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Union

import torch
from torch import nn

from . import _settings
from .options import ClipOptions
from .thresholds import as_threshold

Named = tuple[str, torch.Tensor]
Model = Union[nn.Module, torch.Tensor, Iterable[Named], Iterable[torch.Tensor], Iterable[Mapping[str, Any]]]

_CLIP_OPTIONS = (*ClipOptions.__annotations__, "measure_time")

# What optimizers and schedulers of torch keep in their groups: param_groups may be given as they are.
_OPTIMIZER_KEYS = {
    "lr", "initial_lr", "weight_decay", "decoupled_weight_decay", "maximize", "foreach", "differentiable", "fused",
    "capturable", "param_names",
    "momentum", "dampening", "nesterov", "betas", "eps", "amsgrad", "rho", "alpha", "centered", "lambd", "t0", "etas",
    "step_sizes", "lr_decay", "initial_accumulator_value", "momentum_decay", "beta2_decay", "d",
    "ns_steps", "ns_coefficients", "adjust_lr_fn",
    "max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size", "line_search_fn",
    "min_lr", "max_lr", "base_momentum", "max_momentum", "swa_lr",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Group:
    """Parameters with names, and the settings they do not share with the clipper."""

    named: list[Named]
    own: list[str] = dataclasses.field(default_factory=list)


def groups_of(model: Model, defaults: Mapping[str, object]) -> list[Group]:
    """``defaults`` are the clipper's clip options: a group that has one of its own keeps the others."""
    if isinstance(model, nn.Module):
        return [Group(list(model.named_parameters()))]
    if isinstance(model, torch.Tensor):
        return [Group([("0", model)])]
    listed: list[Any] = list(model)
    if listed and all(isinstance(item, Mapping) for item in listed):
        return [_from_dict(i, group, defaults) for i, group in enumerate(listed)]
    if all(isinstance(item, torch.Tensor) for item in listed):
        return [Group([(str(i), p) for i, p in enumerate(listed)])]
    if all(isinstance(item, tuple) and len(item) == 2 for item in listed):
        return [Group(listed)]
    raise TypeError("model must be a module, named_parameters(), parameters, or a list of parameter groups (dicts)")


def _from_dict(number: int, group: Mapping[str, Any], defaults: Mapping[str, object]) -> Group:
    unknown = sorted(set(group) - {"params", "names", "threshold", *_CLIP_OPTIONS} - _OPTIMIZER_KEYS)
    if unknown:
        known = ", ".join(("threshold", *_CLIP_OPTIONS))
        raise ValueError(f"parameter group {number} has unknown settings {unknown}; known: {known}")
    params = [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
    named = [p if isinstance(p, tuple) else (f"{number}.{i}", p) for i, p in enumerate(params)]
    names = group.get("names", group.get("param_names"))
    if names is not None:
        names = list(names)
        if len(names) != len(named):
            raise ValueError(f"parameter group {number} has {len(names)} names for {len(named)} parameters")
        named = [(name, parameter) for name, (_, parameter) in zip(names, named)]
    return Group(named, _own_settings(group, defaults))


def _own_settings(group: Mapping[str, Any], defaults: Mapping[str, object]) -> list[str]:
    own: list[str] = []
    if "threshold" in group:
        own += _settings.texts(as_threshold(group["threshold"]).settings(), "threshold.")
    clip = {name: group[name] for name in _CLIP_OPTIONS if name in group}
    if clip:
        own += _settings.texts({**defaults, **clip}, "clip.")
    return own

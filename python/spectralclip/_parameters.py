# SPDX-License-Identifier: Apache-2.0
"""What a clipper may be built from, as named parameters with settings of their own, and what becomes of it: modules
and parameter groups are followed where their parameters are replaced or added to."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

import torch
from torch import nn

from . import _settings
from .options import ClipOptions
from .thresholds import ThresholdLike, as_threshold

Named = tuple[str, torch.Tensor]
Model = Union[nn.Module, torch.Tensor, Iterable[Named], Iterable[torch.Tensor], Iterable[Mapping[str, Any]]]
Thresholds = Mapping[str, ThresholdLike]

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
    "form", "decoupled", "scale", "use_adamw", "adamw_eps",
}  # fmt: skip

_WANTED = "a module, named_parameters(), parameters(), or a list of parameter groups (dicts)"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One parameter: its name, and the settings it does not share with the clipper."""

    name: str
    tensor: torch.Tensor
    own: list[str] = dataclasses.field(default_factory=list)


def entries_of(model: Model, defaults: Mapping[str, object], thresholds: Optional[Thresholds] = None) -> list[Entry]:
    """Every parameter of ``model``, tied ones as often as they come.  ``defaults`` are the clipper's clip options: a
    group that has one of its own keeps the others.  ``thresholds`` maps globs over names to thresholds."""
    found = list(_listed(model, defaults))
    return [_with_threshold(entry, thresholds) for entry in found] if thresholds else found


def _listed(model: Model, defaults: Mapping[str, object]) -> Iterable[Entry]:
    if isinstance(model, nn.Module):
        return [Entry(name, p) for name, p in model.named_parameters()]
    if isinstance(model, torch.Tensor):
        return [Entry("0", model)]
    listed = _as_list(model)
    if listed and all(isinstance(item, Mapping) for item in listed):
        return [entry for i, group in enumerate(listed) for entry in _from_dict(i, group, defaults)]
    if all(isinstance(item, torch.Tensor) for item in listed):
        return [Entry(str(i), p) for i, p in enumerate(listed)]
    if all(_is_named(item) for item in listed):
        return [Entry(name, p) for name, p in listed]
    raise TypeError(f"model must be {_WANTED}; its item {_stranger(listed)} is none of those")


def _as_list(model: object) -> list[Any]:
    if isinstance(model, torch.optim.Optimizer):
        raise TypeError(
            "a clipper is built from the model, SpectralClipper(model), which shows which weights are embeddings and "
            "heads; where there is only an optimizer, SpectralClipper(optimizer.param_groups)"
        )
    if isinstance(model, Mapping):
        hint = ": a group is given in a list, [group]" if "params" in model else "; model.named_parameters(), perhaps?"
        raise TypeError(f"model must be {_WANTED}, not a {type(model).__name__}{hint}")
    if model is None or isinstance(model, (str, bytes)) or not isinstance(model, Iterable):
        raise TypeError(f"model must be {_WANTED}, not {'None' if model is None else type(model).__name__}")
    return list(model)


def _is_named(item: object) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], torch.Tensor)


def _stranger(listed: Sequence[object]) -> str:
    """Number and type of the first item that differs from the first one's kind or is of no known kind."""
    kinds = [
        "tensor"
        if isinstance(i, torch.Tensor)
        else "group"
        if isinstance(i, Mapping)
        else "pair"
        if _is_named(i)
        else ""
        for i in listed
    ]
    place = next(i for i, kind in enumerate(kinds) if not kind or kind != kinds[0])
    return f"{place} ({type(listed[place]).__name__})"


def _from_dict(number: int, group: Mapping[str, Any], defaults: Mapping[str, object]) -> list[Entry]:
    unknown = sorted(set(group) - {"params", "names", "threshold", *_CLIP_OPTIONS} - _OPTIMIZER_KEYS)
    if unknown:
        known = ", ".join(("threshold", *_CLIP_OPTIONS))
        raise ValueError(f"parameter group {number} has unknown settings {unknown}; known: {known}")
    if "params" not in group:
        raise ValueError(f'parameter group {number} has no "params", only {sorted(group)}')
    params = [group["params"]] if isinstance(group["params"], torch.Tensor) else list(group["params"])
    named = [p if isinstance(p, tuple) else (f"{number}.{i}", p) for i, p in enumerate(params)]
    names = group.get("names", group.get("param_names"))
    if names is not None:
        names = list(names)
        if len(names) != len(named):
            raise ValueError(f"parameter group {number} has {len(names)} names for {len(named)} parameters")
        named = [(name, parameter) for name, (_, parameter) in zip(names, named)]
    own = _own_settings(group, defaults)
    return [Entry(name, parameter, own) for name, parameter in named]


def _own_settings(group: Mapping[str, Any], defaults: Mapping[str, object]) -> list[str]:
    own: list[str] = []
    if "threshold" in group:
        own += _settings.texts(as_threshold(group["threshold"]).settings(), "threshold.")
    clip = {name: group[name] for name in _CLIP_OPTIONS if name in group}
    if clip:
        own += _settings.texts({**defaults, **clip}, "clip.")
    return own


def _with_threshold(entry: Entry, thresholds: Thresholds) -> Entry:
    chosen = threshold_of(entry.name, thresholds)
    if chosen is None or any(text.startswith("threshold.") for text in entry.own):
        return entry
    return Entry(
        entry.name, entry.tensor, [*entry.own, *_settings.texts(as_threshold(chosen).settings(), "threshold.")]
    )


def threshold_of(name: str, thresholds: Thresholds) -> Optional[ThresholdLike]:
    """The exact name first, then the globs in their order; None where neither fits."""
    if name in thresholds:
        return thresholds[name]
    return next((chosen for glob, chosen in thresholds.items() if fnmatch.fnmatchcase(name, glob)), None)


def once_each(entries: Iterable[Entry], known: Iterable[torch.Tensor] = ()) -> list[Entry]:
    """What is not known yet: tied weights under their first name, frozen parameters included, empty ones not."""
    seen = {id(p) for p in known}
    found = []
    for entry in entries:
        if id(entry.tensor) not in seen and entry.tensor.numel() > 0:
            seen.add(id(entry.tensor))
            found.append(entry)
    return found

# SPDX-License-Identifier: Apache-2.0
"""The clipper that people drop into a training loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, Union

import torch
from torch import nn

from . import _settings
from ._library import ops
from .functional import Backend, Method
from .reports import ClipReport, LayerReport, StepReport
from .rules import Rule
from .thresholds import Ema, ThresholdLike, as_threshold

Named = tuple[str, torch.Tensor]
Model = Union[nn.Module, Iterable[Named], Iterable[torch.Tensor], Iterable[Mapping[str, Any]]]

_FORMAT = "spectralclip.clipper"
_VERSION = 1
# Options of a parameter group that belong to the clip; the others of a group are "params", "names" and "threshold".
_CLIP_OPTIONS = (
    "method", "rank", "oversampling", "power_passes", "tolerance", "max_passes", "max_columns", "exhausted", "seed",
    "measure_time",
)  # fmt: skip


class _Group:
    """Parameters with names and the settings they have of their own."""

    def __init__(self, named: Iterable[Named], own: Sequence[str] = ()) -> None:
        self.named = list(named)
        self.own = list(own)


def _own_settings(group: Mapping[str, Any], defaults: Mapping[str, object]) -> list[str]:
    own: list[str] = []
    if "threshold" in group:
        own += _settings.texts(as_threshold(group["threshold"]).settings(), "threshold.")
    clip = {name: group[name] for name in _CLIP_OPTIONS if name in group}
    if clip:
        own += _settings.texts({**defaults, **clip}, "clip.")
    return own


def _from_dict(number: int, group: Mapping[str, Any], defaults: Mapping[str, object]) -> _Group:
    unknown = sorted(set(group) - {"params", "names", "threshold", *_CLIP_OPTIONS} - _OPTIMIZER_KEYS)
    if unknown:
        raise ValueError(f"parameter group {number} has unknown settings {unknown}; known: threshold, {', '.join(_CLIP_OPTIONS)}")
    params = list(group["params"]) if not isinstance(group["params"], torch.Tensor) else [group["params"]]
    named = [p if isinstance(p, tuple) else (f"{number}.{i}", p) for i, p in enumerate(params)]
    if "names" in group:
        named = list(zip(group["names"], params, strict=True))
    return _Group(named, _own_settings(group, defaults))


# What optimizers keep in their groups: param_groups of an optimizer may be given as they are.
_OPTIMIZER_KEYS = {
    "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize", "foreach", "differentiable", "fused", "betas",
    "eps", "amsgrad", "capturable", "decoupled_weight_decay", "initial_lr", "param_names", "ns_steps", "ns_coefficients",
    "adjust_lr_fn", "rho", "alpha", "centered", "lambd", "t0", "etas", "step_sizes",
}  # fmt: skip


def _groups(model: Model, defaults: Mapping[str, object]) -> list[_Group]:
    if isinstance(model, nn.Module):
        return [_Group(model.named_parameters())]
    if isinstance(model, torch.Tensor):
        return [_Group([("0", model)])]
    listed = list(model)
    if listed and all(isinstance(item, Mapping) for item in listed):
        return [_from_dict(i, group, defaults) for i, group in enumerate(listed)]
    if all(isinstance(item, torch.Tensor) for item in listed):
        return [_Group((str(i), p) for i, p in enumerate(listed))]
    if all(isinstance(item, tuple) and len(item) == 2 for item in listed):
        return [_Group(listed)]
    raise TypeError("model must be a module, named_parameters(), parameters, or a list of parameter groups (dicts)")


def _embedding_rules(model: Model) -> list[list[str]]:
    """Weights of embeddings are skipped by type, after the user's rules and before the default ones."""
    if not isinstance(model, nn.Module):
        return []
    rules = []
    for name, module in model.named_modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            pattern = f"{name}.weight" if name else "weight"
            rules.append(Rule(pattern, treatment="skip", label="embedding by type: skipped").texts())
    return rules


class SpectralClipper:
    """Clamps the singular values of every gradient matrix, layer by layer, at thresholds that set themselves.

    Call :meth:`step` between ``backward()`` and ``optimizer.step()``::

        clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))
        for batch in data:
            loss(model(batch)).backward()
            clipper.step()
            optimizer.step()
            optimizer.zero_grad()

    ``model`` is a module, ``named_parameters()``, parameters, or parameter groups with ``threshold`` and clip options
    of their own.  ``threshold`` is a number, :class:`Constant`, :class:`Ema` or :class:`Quantile`.  ``rules`` are tried
    before the default ones, which skip embeddings and heads, clip vectors by norm and take everything else as
    (out, rest).  ``on_nonfinite`` is ``"leave_layer"`` (that layer is left alone), ``"leave_all"`` (nothing is
    touched) or ``"raise"``.  ``observe_only`` measures and reports without writing.

    >>> layer = nn.Linear(4, 3)
    >>> clipper = SpectralClipper(layer, threshold=0.1)
    >>> layer(torch.ones(2, 4)).sum().backward()
    >>> report = clipper.step()
    >>> bool(report.total_norm > 1), report.clipped
    (True, ['weight', 'bias'])
    >>> bool(torch.linalg.matrix_norm(layer.weight.grad, 2) < 0.1001)
    True
    """

    def __init__(
        self,
        model: Model,
        threshold: ThresholdLike = Ema(0.9),
        *,
        method: Method = "tracked",
        rank: Optional[int] = None,
        oversampling: int = 5,
        power_passes: int = 1,
        tolerance: float = 1e-4,
        max_passes: int = 4,
        max_columns: int = 64,
        exhausted: Literal["go_exact", "report"] = "go_exact",
        seed: int = 0,
        rules: Sequence[Rule] = (),
        on_nonfinite: Literal["leave_layer", "leave_all", "raise"] = "leave_layer",
        observe_only: bool = False,
        backend: Backend = "auto",
    ) -> None:
        self._defaults: dict[str, object] = {
            "method": method, "rank": rank, "oversampling": oversampling, "power_passes": power_passes,
            "tolerance": tolerance, "max_passes": max_passes, "max_columns": max_columns, "exhausted": exhausted,
            "seed": seed,
        }  # fmt: skip
        settings = _settings.texts(self._defaults, "clip.")
        settings += _settings.texts(as_threshold(threshold).settings(), "threshold.")
        raises = on_nonfinite == "raise"
        settings += _settings.texts({
            "on_nonfinite": "leave_all" if raises else on_nonfinite,
            "error_if_nonfinite": raises,
            "observe_only": observe_only,
            "backend": backend,
        })  # fmt: skip
        self._model = model if isinstance(model, nn.Module) else None
        rule_texts = [rule.texts() for rule in rules] + _embedding_rules(model)
        self._parameters: list[torch.Tensor] = []
        self._names: list[str] = []
        names, parameters, own = self._take(_groups(model, self._defaults))
        self._core = torch.classes.spectralclip.Clipper(names, parameters, own, settings, rule_texts)
        self._handle: int = self._core.handle()
        self._hooks: list[Any] = []

    def _take(self, groups: list[_Group]) -> tuple[list[str], list[torch.Tensor], list[list[str]]]:
        """Parameters not yet known, once each (tied weights under their first name), frozen ones included."""
        known = {id(p) for p in self._parameters}
        names, parameters, own = [], [], []
        for group in groups:
            for name, parameter in group.named:
                if id(parameter) in known or parameter.numel() == 0:
                    continue
                known.add(id(parameter))
                names.append(name)
                parameters.append(parameter)
                own.append(group.own)
        self._names += names
        self._parameters += parameters
        return names, [p.detach() for p in parameters], own

    def step(self) -> StepReport:
        """Clips all gradients in place; parameters without one do not advance.  Returns the report of the step, whose
        ``total_norm`` is the norm before clipping (a 0-d tensor, not finite if a gradient is not)."""
        if self._hooks:
            raise RuntimeError("gradients are clipped inside backward (hook_each_parameter); step() would clip them twice")
        gradients, numbers = [], []
        for number, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                gradients.append(parameter.grad)
                numbers.append(number)
        total_norm = ops.clipper_step_(self._handle, gradients, numbers)
        return StepReport(self, total_norm, self.steps if not torch.compiler.is_compiling() else -1)

    clip = step

    @property
    def steps(self) -> int:
        return self._core.steps()

    def report(self) -> list[LayerReport]:
        """What the latest step did, per layer.  On a device this waits for it."""
        names, owners, rows, cols, treatments, rules = self._core.facts()
        values = self._core.values().tolist()
        counts = self._core.counts().tolist()
        return [
            LayerReport(
                name=name,
                parameter=self._names[owner],
                shape=(m, n),
                treatment=treatment,
                rule=rule,
                steps=steps,
                steps_clipped=clipped,
                clip=None if all(math.isnan(x) for x in row) else ClipReport.from_row(row),
            )
            for name, owner, m, n, treatment, rule, row, (steps, clipped) in zip(
                names, owners, rows, cols, treatments, rules, values, counts
            )
        ]

    def add_parameters(self, model: Optional[Model] = None) -> list[str]:
        """Takes up parameters that were added later: those of ``model``, or the new ones of the module given at first.
        Their thresholds start now.  Returns their names."""
        source = model if model is not None else self._model
        if source is None:
            raise ValueError("which parameters? This clipper was not built from a module")
        names, parameters, own = self._take(_groups(source, self._defaults))
        if names:
            self._core.add_parameters(names, parameters, own)
        return names

    def hook_each_parameter(self, accumulation_steps: int = 1) -> None:
        """Clips each gradient inside ``backward()`` as soon as it is accumulated, so that an optimizer in backward sees
        it clipped.  With ``accumulation_steps`` > 1 only the last of so many accumulations is clipped.  Register this
        before the optimizer's own hooks: torch runs them in order.  CPU gradients only."""
        if accumulation_steps < 1:
            raise ValueError(f"accumulation_steps = {accumulation_steps} must be at least 1")
        if self._hooks:
            raise RuntimeError("the parameters are hooked already")
        counts = [0] * len(self._parameters)

        def clip_one(number: int, parameter: torch.Tensor) -> None:
            counts[number] += 1
            if counts[number] % accumulation_steps == 0 and parameter.grad is not None:
                self._core.step_parameter(number, parameter.grad)

        for number, parameter in enumerate(self._parameters):
            if parameter.requires_grad:
                hook = parameter.register_post_accumulate_grad_hook(lambda p, number=number: clip_one(number, p))
                self._hooks.append(hook)

    def remove_hooks(self) -> None:
        """Ends clipping inside backward."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def state_dict(self) -> dict[str, Any]:
        """Thresholds and subspaces, as plain values that ``torch.load(weights_only=True)`` reads.  The same bytes serve
        every device and the C++ clipper."""
        state = bytes(self._core.serialize().numpy().tobytes())
        return {"format": _FORMAT, "version": _VERSION, "steps": self.steps, "state": state}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continues bit for bit from :meth:`state_dict`.  A state of another model is refused with the names that
        differ, a damaged one with the reason; the clipper then stays as it was."""
        if state_dict.get("format") != _FORMAT:
            raise ValueError(f"this is no state of a SpectralClipper: its format is {state_dict.get('format')!r}")
        if state_dict.get("version") != _VERSION:
            raise ValueError(f"state version {state_dict.get('version')!r} is not {_VERSION}, the one this release reads")
        self._core.deserialize(torch.frombuffer(bytearray(state_dict["state"]), dtype=torch.uint8))

    def __repr__(self) -> str:
        return f"SpectralClipper({len(self._parameters)} parameters, step {self.steps})"

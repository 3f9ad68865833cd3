# SPDX-License-Identifier: Apache-2.0
"""The clipper that people drop into a training loop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn, Optional

import torch
from torch import nn

from . import _settings
from ._groups import Group, Model, groups_of
from ._library import ops
from .options import Backend, Exhausted, Method
from .reports import ClipReport, LayerReport, Moment, StepReport
from .rules import Rule, skip_embeddings
from .thresholds import Ema, ThresholdLike, as_threshold

_FORMAT = "spectralclip.clipper"
_VERSION = 1


class SpectralClipper:
    """Clamps the singular values of every gradient matrix, layer by layer, at thresholds that set themselves.

    Call :meth:`step` between ``backward()`` and ``optimizer.step()``::

        clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))
        for batch in data:
            loss(model(batch)).backward()
            clipper.step()
            optimizer.step()
            optimizer.zero_grad()

    ``model`` is a module, ``named_parameters()``, parameters, or parameter groups (an optimizer's, too) with
    ``threshold`` and clip options of their own.  ``threshold`` is a number, :class:`Constant`, :class:`Ema` or
    :class:`Quantile`.  ``rules`` are tried before the default ones, which skip embeddings and heads, clip vectors by
    norm and take everything else as (out, rest).  ``on_nonfinite`` is ``"leave_layer"`` (that layer is left alone),
    ``"leave_all"`` (nothing is touched) or ``"raise"``.  ``observe_only`` measures and reports without writing.  Clip
    options are those of :class:`ClipOptions`; None is the core's default.

    Only a module shows which of its weights are embeddings.  Of named parameters those are skipped whose names say so
    (``wte``, ``wpe``, ``embed_tokens``, ``word_embeddings``, ...), of nameless ones none: add
    ``rules=skip_embeddings(model)``.

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
        method: Optional[Method] = None,
        rank: Optional[int] = None,
        oversampling: Optional[int] = None,
        power_passes: Optional[int] = None,
        tolerance: Optional[float] = None,
        margin: Optional[float] = None,
        max_passes: Optional[int] = None,
        max_columns: Optional[int] = None,
        device_columns: Optional[int] = None,
        exhausted: Optional[Exhausted] = None,
        seed: Optional[int] = None,
        rules: Sequence[Rule] = (),
        on_nonfinite: Literal["leave_layer", "leave_all", "raise"] = "leave_layer",
        observe_only: bool = False,
        backend: Backend = "auto",
    ) -> None:
        given = {
            "method": method, "rank": rank, "oversampling": oversampling, "power_passes": power_passes,
            "tolerance": tolerance, "margin": margin, "max_passes": max_passes, "max_columns": max_columns,
            "device_columns": device_columns, "exhausted": exhausted, "seed": seed,
        }  # fmt: skip
        self._defaults: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        raises = on_nonfinite == "raise"
        self._settings = [
            *_settings.texts(self._defaults, "clip."),
            *_settings.texts(as_threshold(threshold).settings(), "threshold."),
            *_settings.texts({
                "on_nonfinite": "leave_all" if raises else on_nonfinite,
                "error_if_nonfinite": raises,
                "observe_only": observe_only,
                "backend": backend,
            }),
        ]  # fmt: skip
        self._model = model if isinstance(model, nn.Module) else None
        by_type = skip_embeddings(model) if isinstance(model, nn.Module) else []
        self._rules = [rule.texts() for rule in (*rules, *by_type)]
        self._build(*_once_each(groups_of(model, self._defaults), known=()))

    def _build(self, names: list[str], parameters: list[torch.Tensor], own: list[list[str]]) -> None:
        detached = [p.detach() for p in parameters]
        self._core = torch.classes.spectralclip.Clipper(names, detached, own, self._settings, self._rules)
        self._handle: int = self._core.handle()
        self._names, self._parameters, self._own = names, parameters, own
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []
        self._accumulation_steps = 1  # of the hooks
        self._jumps = 0  # changes of the latest reports that no step counts: loaded states, clips inside backward

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of :attr:`parameters`."""
        return tuple(self._names)

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        """The parameters whose gradients are clipped (or skipped by a rule), each once."""
        return tuple(self._parameters)

    @property
    def steps(self) -> int:
        """How many steps were made, those of a loaded state included."""
        return int(self._core.steps())

    def step(self) -> StepReport:
        """Clips all gradients in place; parameters without one do not advance.  Returns the report of the step, whose
        ``total_norm`` is the norm before clipping (a 0-d tensor, not finite if a gradient is not)."""
        if self._hooks:
            raise RuntimeError(
                "gradients are clipped inside backward (hook_each_parameter); step() would clip them twice"
            )
        gradients, numbers = [], []
        for number, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                gradients.append(parameter.grad)
                numbers.append(number)
        total_norm: torch.Tensor = ops.clipper_step_(self._handle, gradients, numbers)
        return StepReport(self, total_norm, None if torch.compiler.is_compiling() else self._moment())

    clip = step  # the same by the name that clip_grad_norm_ suggests

    def _moment(self) -> Moment:
        return self.steps, self._jumps

    def report(self) -> list[LayerReport]:
        """What the latest step did, per layer.  On a device this waits for it."""
        names, treatments, rules, numbers, values = self._core.report()
        return [
            LayerReport(
                name=name,
                parameter=self._names[owner],
                shape=(m, n),
                treatment=treatment,
                rule=rule,
                steps=steps,
                steps_clipped=clipped,
                clip=ClipReport.from_row_or_none(row),
            )
            for name, treatment, rule, (owner, m, n, steps, clipped), row in zip(
                names, treatments, rules, numbers.tolist(), values.tolist()
            )
        ]

    def add_parameters(self, model: Optional[Model] = None) -> list[str]:
        """Takes up parameters that were added later: those of ``model``, or the new ones of the module given at first.
        Their thresholds start now.  Returns their names.

        The rules stay those of the beginning, so a new embedding is known by its name only.  What is refused, a name
        that is taken for instance, changes nothing.
        """
        source = model if model is not None else self._model
        if source is None:
            raise ValueError("which parameters? This clipper was not built from a module")
        names, parameters, own = _once_each(groups_of(source, self._defaults), known=self._parameters)
        if names:
            self._core.add_parameters(names, [p.detach() for p in parameters], own)
            self._names, self._parameters = self._names + names, self._parameters + parameters
            self._own = self._own + own
            if self._hooks:
                self._hook_from(len(self._parameters) - len(parameters))
        return names

    def hook_each_parameter(self, accumulation_steps: int = 1) -> None:
        """Clips each gradient inside ``backward()`` as soon as it is accumulated, so that an optimizer in backward sees
        it clipped.  With ``accumulation_steps`` > 1 only the last of so many accumulations is clipped.  Register this
        before the optimizer's own hooks: torch runs them in order.  CPU gradients only."""
        if accumulation_steps < 1:
            raise ValueError(f"accumulation_steps = {accumulation_steps} must be at least 1")
        if self._hooks:
            raise RuntimeError("the parameters are hooked already")
        self._accumulation_steps = accumulation_steps
        self._hook_from(0)

    def _hook_from(self, first: int) -> None:
        for number, parameter in enumerate(self._parameters[first:], first):
            if parameter.requires_grad:
                self._hooks.append(parameter.register_post_accumulate_grad_hook(self._make_hook(number)))

    def _make_hook(self, number: int) -> Callable[[torch.Tensor], None]:
        accumulated = 0

        def clip_one(parameter: torch.Tensor) -> None:
            nonlocal accumulated
            accumulated += 1
            if accumulated % self._accumulation_steps == 0 and parameter.grad is not None:
                self._jumps += 1
                self._core.step_parameter(number, parameter.grad)

        return clip_one

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
            raise ValueError(f"state version {state_dict.get('version')!r} is not {_VERSION}, which this release reads")
        self._core.deserialize(torch.frombuffer(bytearray(state_dict["state"]), dtype=torch.uint8))
        self._jumps += 1

    def __deepcopy__(self, memo: dict[int, Any]) -> SpectralClipper:
        """As of an optimizer: parameters copied in the same call, ``copy.deepcopy((model, clipper))`` or a module that
        holds its clipper, are those of the copy, which then continues bit for bit.  Hooks are not copied."""
        twin = object.__new__(type(self))
        memo[id(self)] = twin  # first: the model may hold the clipper
        twin._defaults, twin._settings, twin._rules = self._defaults, self._settings, self._rules
        twin._model = copy.deepcopy(self._model, memo)
        twin._build(list(self._names), copy.deepcopy(self._parameters, memo), list(self._own))
        twin._core.deserialize(self._core.serialize())
        return twin

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SpectralClipper cannot be pickled, because it belongs to the parameters of a living model: save "
            "state_dict(), build the clipper anew and load_state_dict()"
        )

    def __repr__(self) -> str:
        return f"SpectralClipper({len(self._parameters)} parameters, step {self.steps})"


def _once_each(
    groups: Sequence[Group], known: Sequence[torch.Tensor]
) -> tuple[list[str], list[torch.Tensor], list[list[str]]]:
    """Names, parameters and own settings of what is not known yet: tied weights under their first name, frozen
    parameters included, empty ones not."""
    seen = {id(p) for p in known}
    names, parameters, own = [], [], []
    for group in groups:
        for name, parameter in group.named:
            if id(parameter) not in seen and parameter.numel() > 0:
                seen.add(id(parameter))
                names.append(name)
                parameters.append(parameter)
                own.append(group.own)
    return names, parameters, own

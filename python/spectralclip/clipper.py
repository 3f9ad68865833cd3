# SPDX-License-Identifier: Apache-2.0
"""The clipper that people drop into a training loop."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NoReturn, Optional, Union

import torch
from torch import nn

from . import _devices, _settings, _state, distributed
from ._checks import (
    check_names,
    checked_thresholds,
    no_gradient_text,
    require_thresholds,
    reshaped_text,
    warn_of_idle_rules,
)
from ._followed import Followed
from ._hooks import BackwardHooks, require_data
from ._layouts import rules_of
from ._library import ops
from ._observations import Observations
from ._parameters import Entry, Model, Thresholds
from .description import Description, describe
from .options import Backend, Exhausted, Method
from .presets import Preset, check_preset, published_rules
from .proposals import Proposals, propose
from .reports import FIELDS, LayerReport, Moment, StepReport, layer_reports
from .rules import Rules, as_rules
from .thresholds import Constant, Ema, ThresholdLike

_SIGMA_MAX = FIELDS.index("sigma_max")


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
    ``threshold`` and clip options of their own.  ``threshold`` is a number, :class:`Constant`, :class:`Ema`,
    :class:`Quantile`, or a dictionary of them by name or glob (first match).  ``rules`` are tried before the default
    ones, which skip embeddings and heads, take stacked experts one by one, clip vectors by norm and take everything
    else as (out, rest); :meth:`describe` shows what was chosen.  ``on_nonfinite`` is ``"leave_layer"`` (that layer is
    left alone), ``"leave_all"`` (nothing is touched) or ``"raise"``.  ``observe_only`` measures and reports without
    writing; :meth:`propose` then proposes thresholds.  Clip options are those of :class:`ClipOptions`; None is the
    core's default.  ``preset="published"`` is the behaviour of the paper's experiment code: exact method unless another
    is given, its first step, its quantile, zeros observed, its choice of layers.

    Only a module shows which of its weights are embeddings, heads and experts.  Of named parameters those are known
    whose names say so (``wte``, ``embed_tokens``, ``lm_head``, ``experts``, ...), of nameless ones none: add
    ``rules=skip_embeddings(model)``.

    A module, and the groups of an optimizer, are followed: what takes the place of a parameter goes on with its
    threshold, parameters that are new are taken up.  What cannot be followed is warned of, once, by name.

    ``share_work`` (DDP: True, or the process group of the replicas) lets each process clip its share of the layers and
    tell the others what it did, a few directions a layer; the result is that of every process clipping everything, to
    the bit.

    Parameters that are DTensors (FSDP2, tensor parallelism) are clipped where they lie, and every process calls the
    same methods; thresholds and reports, of the whole matrices, are equal in all of them.

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
        threshold: Union[ThresholdLike, Thresholds] = Ema(0.9),
        *,
        method: Optional[Method] = None,
        rank: Optional[int] = None,
        oversampling: Optional[int] = None,
        power_passes: Optional[int] = None,
        tolerance: Optional[float] = None,
        margin: Optional[float] = None,
        max_passes: Optional[int] = None,
        max_columns: Optional[int] = None,
        exhausted: Optional[Exhausted] = None,
        seed: Optional[int] = None,
        rules: Rules = (),
        on_nonfinite: Literal["leave_layer", "leave_all", "raise"] = "leave_layer",
        observe_only: bool = False,
        backend: Backend = "auto",
        device_columns: Optional[int] = None,
        preset: Optional[Preset] = None,
        share_work: Any = None,
    ) -> None:
        check_preset(preset)
        if preset == "published" and method is None:
            method = "exact"
        given = {
            "method": method, "rank": rank, "oversampling": oversampling, "power_passes": power_passes,
            "tolerance": tolerance, "margin": margin, "max_passes": max_passes, "max_columns": max_columns,
            "exhausted": exhausted, "seed": seed,
        }  # fmt: skip
        self._defaults: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        raises = on_nonfinite == "raise"
        thresholds = checked_thresholds(threshold, preset)
        by_name = thresholds if isinstance(thresholds, dict) else None
        self._settings = [
            *_settings.texts(self._defaults, "clip."),
            *_settings.texts((Constant() if isinstance(thresholds, dict) else thresholds).settings(), "threshold."),
            *_settings.texts({
                "on_nonfinite": "leave_all" if raises else on_nonfinite,
                "error_if_nonfinite": raises,
                "observe_only": observe_only,
                "backend": "auto" if backend == "triton" else backend,
            }),
        ]  # fmt: skip
        self._backend: Backend = backend
        self._device_options = _devices.Options(device_columns, on_nonfinite == "leave_all", raises)
        own_rules = as_rules(rules)
        if isinstance(model, Iterator):
            model = list(model)  # it is looked at again later
        by_type = rules_of(model) if isinstance(model, nn.Module) else []
        built_in = published_rules() if preset == "published" else by_type
        self._rules = [rule.texts() for rule in (*own_rules, *built_in)]
        self._observations = Observations() if observe_only else None
        self._share = distributed.group_to_share(share_work)
        followed = Followed(model, self._defaults, by_name)
        followed.append(followed.entries())
        distributed.refuse_flat_parameters(model if isinstance(model, nn.Module) else None, followed.parameters)
        self._build(followed)
        if by_name is not None:
            has_own = [any(text.startswith("threshold.") for text in own) for own in followed.own]
            require_thresholds(by_name, self.report(), followed.names, has_own)
        if own_rules and type(torch.empty(0)) is torch.Tensor:  # under FakeTensorMode reports have nothing to read
            warn_of_idle_rules(own_rules, self.report(), followed.names)

    def _build(self, followed: Followed) -> None:
        self._followed = followed
        self._names, self._parameters = followed.names, followed.parameters  # the same lists
        self._make_core()
        self._hooks: Optional[BackwardHooks] = None
        self._jumps = 0  # changes of the latest reports that no step counts: loaded states, clips inside backward
        self._has_warned: set[str] = set()

    def _make_core(self) -> None:
        self._is_split = self._goes_in_rounds()
        detached = [p.detach() for p in self._parameters]
        given = (self._names, detached, self._followed.own, self._settings, self._rules)
        self._core: Any
        if self._is_split:
            self._core = distributed.ShardedCore(*given, share=self._share)
        else:
            self._core = torch.classes.spectralclip.Clipper(*given)
        self._handle: int = self._core.handle()
        self._make_devices()

    def _make_devices(self) -> None:
        core = None if self._is_split else self._core
        self._devices = _devices.backend_of(self._backend, core, self._parameters, self._device_options)

    def _goes_in_rounds(self) -> bool:
        return self._share is not None or distributed.is_distributed(self._parameters)

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

    @property
    def is_separable(self) -> bool:
        """Whether :meth:`clip_tensor` takes tensors one at a time: on the CPU; on devices they are batched."""
        on_cpu = "backend=aten" not in self._settings and all(p.is_cpu for p in self._parameters)
        return on_cpu and not self._is_split

    def step(self) -> StepReport:
        """Clips all gradients in place; parameters without one do not advance.  Returns the report of the step, whose
        ``total_norm`` is the norm before clipping (a 0-d tensor, not finite if a gradient is not)."""
        if self._hooks is not None:
            raise RuntimeError(
                "gradients are clipped inside backward (hook_each_parameter); step() would clip them twice"
            )
        is_compiling = torch.compiler.is_compiling()
        if not is_compiling:
            self._follow()
        if self._is_split:
            of_all: torch.Tensor = self._core.step(self._parameters)
            self._observe()
            return StepReport(self, of_all, self._moment())
        gradients, numbers = [], []
        for number, parameter in enumerate(self._parameters):
            if parameter.grad is not None and number not in self._followed.gone:
                gradients.append(parameter.grad)
                numbers.append(number)
        if not gradients and not is_compiling:
            self._warn_once("nothing", no_gradient_text(self._names))
        total_norm = self._clip(gradients, numbers)
        if not is_compiling:
            self._observe()
        return StepReport(self, total_norm, None if is_compiling else self._moment())

    def _clip(self, gradients: list[torch.Tensor], numbers: list[int]) -> torch.Tensor:
        """Kernels of the device take what is theirs, the core's operator the rest."""
        total: torch.Tensor
        if self._devices is None or not gradients:
            total = ops.clipper_step_(self._handle, gradients, numbers)
            return total
        ours: list[tuple[torch.Tensor, int]] = []
        others: list[tuple[torch.Tensor, int]] = []
        for gradient, number in zip(gradients, numbers):
            taken = self._devices.takes(gradient)
            (ours if taken else others).append((gradient, number))
            if not taken and self._backend == "triton":
                _devices.require_taken(self._names[number], gradient)
        with torch.no_grad():
            norms = self._devices.step([g for g, _ in ours], [n for _, n in ours])
            rest = ops.clipper_step_(self._handle, [g for g, _ in others], [n for _, n in others])
            return _devices.total_of(norms + [rest] * bool(others), gradients[0], _devices.promoted(gradients))

    def _observe(self) -> None:
        if self._observations is not None:
            values = self._core.report_values() if self._devices is None else self._core_report()[4]
            self._observations.add(values[:, _SIGMA_MAX])

    def _core_report(self) -> Any:
        """Of the core, and of the layers whose gradients it never saw."""
        found = self._core.report()
        if self._devices is not None:
            self._devices.fill_report(found[3], found[4])
        return found

    def clip_tensors(self, tensors: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Clips other tensors in the place of gradients, updates for instance: ``tensors[i]`` has the shape of
        ``parameters[i]``, its threshold and its subspace.  A step like :meth:`step`; returns the norm before."""
        total_norm = self._clip(list(tensors.values()), list(tensors))
        self._observe()
        return total_norm

    def clip_tensor(self, number: int, tensor: torch.Tensor) -> None:
        """The same of one, which :attr:`steps` does not count.  CPU tensors only."""
        self._jumps += 1
        self._core.step_parameter(number, tensor)
        if self._observations is not None:
            self._observations.add_some(self._core.report_values()[:, _SIGMA_MAX], self._layers_of(number))

    clip = step  # the same by the name that clip_grad_norm_ suggests

    def _moment(self) -> Moment:
        return self.steps, self._jumps

    def report(self) -> list[LayerReport]:
        """What the latest step did, per layer.  On a device this waits for it."""
        return layer_reports(self._core_report(), self._names)

    def describe(self) -> Description:
        """What is done with each parameter, and why: print it."""
        layers = [
            dataclasses.replace(layer, rule=f"{layer.rule}; {hint}") if hint else layer
            for layer, hint in zip(self.report(), self._core.hints())
        ]
        return describe(layers, self._core.thresholds(), self._names, self._parameters)

    def propose(self, share: float = 0.05) -> Proposals:
        """After some steps with ``observe_only=True``: the constant thresholds that would have clipped ``share`` of
        them, for each layer and as one number, with how well they are known.  Print it, or train on with
        ``threshold=clipper.propose(0.05).thresholds``.  The latest 10,000 steps count."""
        if self._observations is None:
            raise RuntimeError(
                "propose() needs what SpectralClipper(model, observe_only=True) has measured over some steps; this one "
                "clips, and a sigma_max that was clipped away before does not come back"
            )
        if not len(self._observations):
            raise RuntimeError("propose() rests on steps that were observed, and there was none yet: call step()")
        layers = self.report()
        kept = [i for i, layer in enumerate(layers) if layer.treatment != "skip"]
        seen = self._observations.matrix(len(layers))[:, kept]
        return propose(seen, [layers[i].name for i in kept], [layers[i].parameter for i in kept], share)

    def add_parameters(self, model: Optional[Model] = None) -> list[str]:
        """Takes up parameters that were added later: those of ``model``, or the new ones of the module given at first.
        Their thresholds start now.  Returns their names.

        The rules stay those of the beginning, so a new embedding is known by its name only.  What is refused, a name
        that is taken for instance, changes nothing.
        """
        if model is None and not isinstance(self._followed.model, nn.Module):
            raise ValueError("which parameters? This clipper was not built from a module")
        return self._take_up(self._followed.unknown(self._followed.entries(model)), of_this_model=model is None)

    def _take_up(self, entries: list[Entry], of_this_model: bool = True) -> list[str]:
        names = [entry.name for entry in entries]
        if entries:
            devices = self._device_state()
            self._core.add_parameters(names, [entry.tensor.detach() for entry in entries], [e.own for e in entries])
            first = len(self._parameters)
            self._followed.append(entries, of_this_model)
            self._make_devices()
            if self._devices is not None:
                self._devices.load_state_dict(devices)
            self._hook(range(first, len(self._parameters)))
        return names

    def _follow(self) -> None:
        """Looks whether the model still has the parameters that are clipped, and goes after those it has instead."""
        changes = self._followed.look()
        if changes is None:
            return
        if self._is_split != self._goes_in_rounds():  # fully_shard() came after the clipper
            state = self._core.serialize()
            self._make_core()
            self._core.deserialize(state)
        self._hook(changes.replaced)
        if changes.reshaped:
            self._warn_once("reshaped", reshaped_text(changes.reshaped))
        self._take_up(changes.added)

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raises what building a clipper with these options would, without the model: for those who build one later.

        >>> SpectralClipper.check_options({"threshold": 1.0, "method": "gram"})
        """
        check_names(options, list(inspect.signature(cls).parameters)[1:])
        threshold = options.get("threshold", Ema(0.9))
        one = next(iter(threshold.values()), None) if isinstance(threshold, Mapping) else threshold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rules that fit nothing in so small a model
            cls([("weight", torch.zeros(1, 1))], **{**options, "threshold": one})

    def _warn_once(self, about: str, text: str) -> None:
        if about not in self._has_warned:
            self._has_warned.add(about)
            warnings.warn(text, stacklevel=3)

    def _layers_of(self, number: int) -> slice:
        owners = self._core.report()[3][:, 0]
        return slice(int((owners < number).sum()), int((owners <= number).sum()))

    def hook_each_parameter(self, accumulation_steps: int = 1) -> None:
        """Clips each gradient inside ``backward()`` as soon as it is accumulated, so that an optimizer in backward sees
        it clipped.  With ``accumulation_steps`` > 1 only the last of so many accumulations is clipped.  Parameters that
        are frozen now are clipped once they are not.  Register this before the optimizer's own hooks: torch runs them
        in order.  CPU gradients only."""
        every = _settings.plain(accumulation_steps)
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"accumulation_steps = {accumulation_steps!r} must be an integer of at least 1")
        if self._hooks is not None:
            raise RuntimeError("the parameters are hooked already")
        if self._backend == "triton":
            raise ValueError('backend "triton" clips all layers in one step, not one by one inside backward')
        self._follow()
        require_data(self._names, self._parameters)
        if self._is_split:
            raise RuntimeError(
                "gradients that are split over processes cannot be clipped inside backward: the sums over ranks need "
                "all of them in the same order. Call step()."
            )
        self._hooks = BackwardHooks(every, self.clip_tensor, self._follow)
        self._hook(number for number in range(len(self._parameters)) if number not in self._followed.gone)

    def _hook(self, numbers: Iterable[int]) -> None:
        if self._hooks is not None:
            for number in numbers:
                self._hooks.add(number, self._parameters[number])

    def remove_hooks(self) -> None:
        """Ends clipping inside backward."""
        if self._hooks is not None:
            self._hooks.remove()
            self._hooks = None

    def state_dict(self) -> dict[str, Any]:
        """Thresholds and subspaces, as plain values that ``torch.load(weights_only=True)`` reads.  The same bytes serve
        every device and the C++ clipper."""
        devices = self._device_state()
        state = _state.pack(self._core.serialize(), self.steps)
        if devices:
            state["devices"] = devices
        if self._observations is not None:
            state["observed"] = self._observations.state(self._core.report()[0])
        return state

    def _device_state(self) -> dict[str, Any]:
        """What engines remember; the core has then been told what its checkpoint needs of it."""
        if self._devices is None:
            return {}
        self._devices.pull_states()
        return self._devices.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continues bit for bit from :meth:`state_dict`.  A state of another model is refused with the names that
        differ, a damaged one with the reason; the clipper then stays as it was.  Of a state with other thresholds what
        fits is kept (the average, the window), and a warning says what was not."""
        self._core.deserialize(_state.unpack(state_dict))
        if self._devices is not None:
            self._devices.load_state_dict(state_dict.get("devices"))
        if self._observations is not None:
            self._observations.load(state_dict.get("observed"), self._core.report()[0])
        self._jumps += 1
        for note in self._core.load_notes():
            warnings.warn(f"load_state_dict: {note}", stacklevel=2)

    def __deepcopy__(self, memo: dict[int, Any]) -> SpectralClipper:
        """As of an optimizer: parameters copied in the same call, ``copy.deepcopy((model, clipper))`` or a module that
        holds its clipper, are those of the copy, which then continues bit for bit.  Hooks are not copied."""
        twin = object.__new__(type(self))
        memo[id(self)] = twin  # first: the model may hold the clipper
        twin._share = self._share
        twin._defaults, twin._settings, twin._rules = self._defaults, self._settings, self._rules
        twin._observations = copy.deepcopy(self._observations, memo)
        twin._backend, twin._device_options = self._backend, self._device_options
        model = copy.deepcopy(self._followed.model, memo)
        twin._build(self._followed.copied(model, copy.deepcopy(self._parameters, memo)))
        devices = self._device_state()
        twin._core.deserialize(self._core.serialize())
        if twin._devices is not None:
            twin._devices.load_state_dict(devices)
        return twin

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SpectralClipper cannot be pickled, because it belongs to the parameters of a living model: save "
            "state_dict(), build the clipper anew and load_state_dict()"
        )

    def __repr__(self) -> str:
        return f"SpectralClipper({len(self._parameters)} parameters, step {self.steps})"

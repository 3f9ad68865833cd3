# SPDX-License-Identifier: Apache-2.0
"""Where to clip: the gradients before a step, what a step changes, or the momentum inside it."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Optional, Union

import torch

from ._checks import few
from .clipper import SpectralClipper
from .distributed import is_distributed
from .gradient_clippers import GradientClipper
from .optim import MomentumOptimizer
from .reports import StepReport

Position = Literal["gradient", "update", "momentum"]
AnyClipper = Union[SpectralClipper, GradientClipper]

_CHUNK_BYTES = 32 << 20  # of parameters that are stepped together: kernels fill, and what is kept meanwhile is little
# Optimizers of torch that treat each parameter by itself: they may be stepped in parts.  LBFGS does not.
_PARAMETER_WISE = {
    "SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Rprop", "ASGD", "SparseAdam",
    "Adafactor", "Muon",
}  # fmt: skip


class ClippedOptimizer(torch.optim.Optimizer):
    """``optimizer = ClippedOptimizer(torch.optim.AdamW(...), SpectralClipper(model), position="update")``

    An optimizer in every respect: its ``param_groups`` and ``state`` are those of the one inside, so schedulers,
    closures, ``zero_grad``, hooks and GradScaler work as with that one, fused and foreach ones included.
    ``state_dict`` is that of the one inside with the clipper's beside it, under ``"clip"``.

    - ``"gradient"``: gradients are clipped, then the step is made (with a closure: after each evaluation of it)
    - ``"update"``: the step is made, and what it changed, divided by the learning rate, is clipped (SPECTRA's "post").
      Weight decay is part of it.  Thresholds so do not follow a schedule of the learning rate.
    - ``"momentum"``: the direction that momentum gives, before learning rate and decoupled weight decay; of
      :class:`MomentumSgd` and :class:`Muon`, whose buffer stays as it is

    An update is taken 32 MiB of parameters at a time (or the largest one) where optimizer and clipper treat parameters
    by themselves: the optimizers of torch but LBFGS, and clippers but :class:`GlobalNorm`, on the CPU.  Otherwise, and
    where the optimizer inside has step hooks of its own, it keeps a copy of the parameters during the step;
    :attr:`copies_parameters` says which.

    ``clip`` is a :class:`SpectralClipper` or a :class:`GradientClipper` of the same model.  ``report`` is what it
    returned at the latest step (``"gradient"``), ``total_norm`` the norm of what was clipped, before.

    >>> model = torch.nn.Linear(3, 3, bias=False)
    >>> before = model.weight.detach().clone()
    >>> optimizer = ClippedOptimizer(torch.optim.SGD(model.parameters(), lr=0.5), SpectralClipper(model, 0.1), "update")
    >>> model(torch.ones(2, 3)).sum().backward()
    >>> optimizer.step()
    >>> round(float(torch.linalg.matrix_norm(before - model.weight.detach(), 2)), 3)  # lr tau
    0.05
    """

    _step_supports_amp_scaling = False  # GradScaler unscales before step(), fused optimizers included

    def __init__(self, optimizer: torch.optim.Optimizer, clip: AnyClipper, position: Position = "gradient") -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer, not {type(optimizer).__name__}")
        if isinstance(optimizer, ClippedOptimizer):
            raise TypeError("optimizer is a ClippedOptimizer already: give the one inside, or it is clipped twice")
        if not isinstance(clip, (SpectralClipper, GradientClipper)):
            raise TypeError(
                "clip must be a SpectralClipper(model, ...) or a GradientClipper(model, Soft(...)), not "
                f"{type(clip).__name__}"
            )
        if position not in ("gradient", "update", "momentum"):
            raise ValueError(f"position = {position!r} is none of gradient, update, momentum")
        if position != "gradient" and is_distributed(clip.parameters):
            raise TypeError(
                f"of parameters that are split over processes the gradient can be clipped, not the {position}"
            )
        self.optimizer, self.clip, self.position = optimizer, clip, position
        self.report: Optional[StepReport] = None
        self.total_norm: Optional[torch.Tensor] = None
        _require_same_parameters(optimizer, clip)
        # What Optimizer.__init__ sets beside groups and state, which are the inner one's.
        for name in ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre",
                     "load_state_dict_post"):  # fmt: skip
            vars(self)[f"_optimizer_{name}_hooks"] = OrderedDict()
        self._patch_step_function()
        if position == "momentum":
            self._hook_momentum()

    # The inner optimizer's own, whichever list it holds now: loading a state replaces it.

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @state.setter
    def state(self, state: Any) -> None:
        self.optimizer.state = state

    @property
    def defaults(self) -> dict[str, Any]:
        return self.optimizer.defaults

    @defaults.setter
    def defaults(self, defaults: dict[str, Any]) -> None:
        self.optimizer.defaults = defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.optimizer.add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer inside, and ``"clip"``: a checkpoint of either reads into the other."""
        return {**self.optimizer.state_dict(), "clip": self.clip.state_dict()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        inner = {name: value for name, value in state_dict.items() if name != "clip"}
        before = copy.deepcopy(self.optimizer.state_dict())
        self.optimizer.load_state_dict(inner)
        if "clip" not in state_dict:
            if self.clip.state_dict():
                warnings.warn("this state is of an optimizer without a clip: thresholds start anew", stacklevel=2)
            return
        try:
            self.clip.load_state_dict(state_dict["clip"])
        except Exception:
            self.optimizer.load_state_dict(before)
            raise

    def __deepcopy__(self, memo: dict[int, Any]) -> ClippedOptimizer:
        if self.position == "momentum":
            raise TypeError("a ClippedOptimizer of momentum cannot be copied: copy the model and build both anew")
        return ClippedOptimizer(copy.deepcopy(self.optimizer, memo), copy.deepcopy(self.clip, memo), self.position)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a ClippedOptimizer cannot be pickled, because its clipper belongs to a living model: save state_dict()"
        )

    def __repr__(self) -> str:
        return f"ClippedOptimizer({type(self.optimizer).__name__}, {self.clip!r}, position={self.position!r})"

    # Steps

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Returns what the closure returned."""
        if self.position == "gradient":
            return self._step_gradient(closure)
        if self.position == "momentum":
            self._norms: list[torch.Tensor] = []
            loss = self.optimizer.step(closure)
            self.total_norm = _joined(self._norms)
            return loss
        with torch.no_grad():
            return self._step_whole(closure) if self.copies_parameters else self._step_in_parts(closure)

    def _step_gradient(self, closure: Optional[Callable[[], Any]]) -> Any:
        if closure is None:
            self._clip_gradients()
            return self.optimizer.step()

        def clipped() -> Any:
            loss = closure()
            self._clip_gradients()
            return loss

        return self.optimizer.step(clipped)

    def _clip_gradients(self) -> None:
        if isinstance(self.clip, SpectralClipper):
            self.report = self.clip.step()
            self.total_norm = self.report.total_norm
        else:
            self.total_norm = self.clip.step()

    @property
    def copies_parameters(self) -> bool:
        """Whether the update can only be had from a copy of all parameters."""
        kind = type(self.optimizer)
        is_own = isinstance(self.optimizer, MomentumOptimizer)
        is_torch = kind.__module__.startswith("torch.optim") and kind.__name__ in _PARAMETER_WISE
        has_hooks = any(getattr(self.optimizer, f"_optimizer_step_{when}_hooks", ()) for when in ("pre", "post"))
        return self.position == "update" and (has_hooks or not (is_own or is_torch) or not self.clip.is_separable)

    def _step_in_parts(self, closure: Optional[Callable[[], Any]]) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        norms: list[torch.Tensor] = []
        numbers = _numbers_of(self.clip)
        for group in list(self.optimizer.param_groups):
            for params in _chunks(group["params"]):
                before = [p.detach().clone() for p in params]
                with _only(self.optimizer, group, params):
                    self.optimizer.step()
                for p, old in zip(params, before):
                    if id(p) in numbers:
                        self._clip_one_update(numbers[id(p)], p, old, float(group["lr"]), norms)
        self.total_norm = _joined(norms)
        return loss

    def _clip_one_update(
        self, number: int, p: torch.Tensor, old: torch.Tensor, lr: float, norms: list[torch.Tensor]
    ) -> None:
        if lr != 0:
            update = _update_of(p, old, lr)
            norms.append(torch.linalg.vector_norm(update))
            clipped = update.clone()
            self.clip.clip_tensor(number, clipped)
            _correct(p, update, clipped, lr)

    def _step_whole(self, closure: Optional[Callable[[], Any]]) -> Any:
        # A closure brings gradients that are not there yet: every parameter may move.
        groups = [
            (p, float(group["lr"]))
            for group in self.optimizer.param_groups
            for p in group["params"]
            if closure is not None or p.grad is not None
        ]
        before = [p.detach().clone() for p, _ in groups]
        if closure is None:
            loss = self.optimizer.step()
        else:
            with torch.enable_grad():
                loss = self.optimizer.step(closure)
        numbers = _numbers_of(self.clip)
        updates = {
            numbers[id(p)]: (p, _update_of(p, old, lr), lr)
            for (p, lr), old in zip(groups, before)
            if id(p) in numbers and lr != 0 and p.grad is not None
        }
        clipped = {number: update.clone() for number, (_, update, _) in updates.items()}
        self.total_norm = self.clip.clip_tensors(clipped)
        for number, (p, update, lr) in updates.items():
            _correct(p, update, clipped[number], lr)
        return loss

    def _hook_momentum(self) -> None:
        if not isinstance(self.optimizer, MomentumOptimizer):
            raise TypeError(
                'position="momentum" needs an optimizer that shows its momentum, spectralclip.MomentumSgd or '
                f'spectralclip.Muon; of {type(self.optimizer).__name__} the update can be clipped (position="update")'
            )
        self.optimizer.clip_directions(self._clip_directions, one_at_a_time=self.clip.is_separable)

    def _clip_directions(self, parameters: Sequence[torch.Tensor], directions: Sequence[torch.Tensor]) -> None:
        numbers = _numbers_of(self.clip)
        known = {numbers[id(p)]: d for p, d in zip(parameters, directions) if id(p) in numbers}
        self._norms += [torch.linalg.vector_norm(d) for d in known.values()]
        if self.clip.is_separable:
            for number, direction in known.items():
                self.clip.clip_tensor(number, direction)
        else:
            self.clip.clip_tensors(known)


def _require_same_parameters(optimizer: torch.optim.Optimizer, clip: AnyClipper) -> None:
    known = {id(p) for p in clip.parameters}
    owned = [p for group in optimizer.param_groups for p in group["params"]]
    strangers = [f"{tuple(p.shape)}" for p in owned if id(p) not in known]
    if len(strangers) == len(owned) and owned:
        raise ValueError("the optimizer's parameters are none of the clipper's: both must be built from the same model")
    if strangers:
        warnings.warn(
            f"{len(strangers)} parameters of the optimizer are unknown to the clipper and will not be clipped, of "
            f"shapes {few(strangers)}",
            stacklevel=3,
        )


def _numbers_of(clip: AnyClipper) -> dict[int, int]:
    return {id(p): number for number, p in enumerate(clip.parameters)}


def _chunks(params: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Those with a gradient, in order, up to _CHUNK_BYTES together."""
    chunk: list[torch.Tensor] = []
    size = 0
    for p in params:
        if p.grad is None:
            continue
        bytes_here = p.numel() * p.element_size()
        if chunk and size + bytes_here > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(p)
        size += bytes_here
    if chunk:
        yield chunk


@contextlib.contextmanager
def _only(optimizer: torch.optim.Optimizer, group: dict[str, Any], params: list[torch.Tensor]) -> Iterator[None]:
    """The optimizer as if these were all its parameters."""
    groups, whole = optimizer.param_groups, group["params"]
    optimizer.param_groups = [group]
    group["params"] = params
    try:
        yield
    finally:
        group["params"] = whole
        optimizer.param_groups = groups


def _update_of(p: torch.Tensor, old: torch.Tensor, lr: float) -> torch.Tensor:
    """(new - old) / lr, in float32 for 16-bit types, whose difference of two parameters keeps few digits."""
    work = torch.float32 if p.dtype in (torch.bfloat16, torch.float16) else p.dtype
    return p.detach().to(work, copy=True).sub_(old).div_(lr)


def _correct(p: torch.Tensor, update: torch.Tensor, clipped: torch.Tensor, lr: float) -> None:
    """p += lr (clipped - update): keeps the bits of p where nothing was clipped.  What is not finite was left alone."""
    p.detach().add_(clipped.sub_(update).nan_to_num_(0.0, 0.0, 0.0), alpha=lr)


def _joined(norms: Sequence[torch.Tensor]) -> torch.Tensor:
    if not norms:
        return torch.zeros(())
    total: torch.Tensor = torch.linalg.vector_norm(
        torch.stack([norm.to(norms[0].device, norms[0].dtype) for norm in norms])
    )
    return total

# SPDX-License-Identifier: Apache-2.0
"""Optimizers whose momentum can be clipped (``ClippedOptimizer(..., position="momentum")``): momentum SGD in the
paper's form or torch's, and Muon with AdamW groups.  The arithmetic is that of the LibTorch optimizers of these
names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Optional, Union

import torch

Form = Literal["ema", "classic"]
Params = Union[Iterable[torch.Tensor], Iterable[Mapping[str, Any]], Iterable[tuple[str, torch.Tensor]]]
Closure = Optional[Callable[[], Any]]


class MomentumOptimizer(torch.optim.Optimizer):
    """What both share: directions are computed, clipped if somebody asked for it, then taken."""

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)  # type: ignore[arg-type]
        self._clip_directions: Optional[Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], None]] = None
        self._one_at_a_time = True

    def clip_directions(
        self, clip: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], None], one_at_a_time: bool
    ) -> None:
        """``clip(parameters, directions)`` is called before directions are taken, with copies that it may write to; for
        one parameter after the other if it need not see all of them at once."""
        self._clip_directions, self._one_at_a_time = clip, one_at_a_time

    def _take(self, waiting: list[tuple[torch.Tensor, dict[str, Any], torch.Tensor]]) -> None:
        if self._clip_directions is not None and waiting:
            waiting[:] = [(p, group, self._copied(p, direction)) for p, group, direction in waiting]
            self._clip_directions([p for p, _, _ in waiting], [direction for _, _, direction in waiting])
        for p, group, direction in waiting:
            self._apply(p, group, direction)
        waiting.clear()

    def _copied(self, p: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        kept = direction is self.state[p].get("momentum_buffer") or direction is p.grad
        return direction.clone() if kept else direction

    def _apply(self, p: torch.Tensor, group: dict[str, Any], direction: torch.Tensor) -> None:
        raise NotImplementedError

    def _direction(self, p: torch.Tensor, group: dict[str, Any]) -> Optional[torch.Tensor]:
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Closure = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        waiting: list[tuple[torch.Tensor, dict[str, Any], torch.Tensor]] = []
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                direction = self._direction(p, group)
                if direction is not None:
                    waiting.append((p, group, direction))
                if self._clip_directions is None or self._one_at_a_time:
                    self._take(waiting)
        self._take(waiting)
        return loss


def _advance(state: dict[str, Any], gradient: torch.Tensor, momentum: float, form: Form) -> torch.Tensor:
    """B after this gradient; B starts from 0."""
    if "momentum_buffer" not in state:
        state["momentum_buffer"] = torch.zeros_like(gradient)
    buffer: torch.Tensor = state["momentum_buffer"]
    if form == "ema":
        return buffer.lerp_(gradient, 1 - momentum)
    return buffer.mul_(momentum).add_(gradient)


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise ValueError(text)


class MomentumSgd(MomentumOptimizer):
    """B = momentum B + (1 - momentum) G (``form="ema"``: the paper) or B = momentum B + G (``"classic"``: torch).
    ``decoupled`` weight decay stands beside the momentum, otherwise it goes into it.

    >>> w = torch.nn.Parameter(torch.ones(2)); w.grad = torch.ones(2)
    >>> MomentumSgd([w], lr=0.5, momentum=0.5).step(); [float(x) for x in w]
    [0.75, 0.75]
    """

    def __init__(
        self, params: Params, lr: float = 1e-2, momentum: float = 0.9, *, form: Form = "ema", nesterov: bool = False,
        weight_decay: float = 0.0, decoupled: bool = False,
    ) -> None:  # fmt: skip
        _require(lr >= 0, f"lr = {lr} must be >= 0")
        _require(0 <= momentum < 1, f"momentum = {momentum} must lie in [0, 1)")
        _require(form in ("ema", "classic"), f'form = {form!r} is neither "ema" nor "classic"')
        _require(weight_decay >= 0, f"weight_decay = {weight_decay} must be >= 0")
        _require(not nesterov or (form == "classic" and momentum > 0), 'nesterov needs form="classic" and momentum > 0')
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "form": form, "nesterov": nesterov, "weight_decay": weight_decay,
            "decoupled": decoupled,
        })  # fmt: skip

    def _direction(self, p: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        assert p.grad is not None
        gradient = p.grad
        if group["weight_decay"] and not group["decoupled"]:
            gradient = gradient.add(p, alpha=group["weight_decay"])
        if group["momentum"] == 0:
            return gradient
        buffer = _advance(self.state[p], gradient, group["momentum"], group["form"])
        return gradient.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer

    def _apply(self, p: torch.Tensor, group: dict[str, Any], direction: torch.Tensor) -> None:
        if group["weight_decay"] and group["decoupled"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(direction, alpha=-group["lr"])


class Muon(MomentumOptimizer):
    """Momentum whose matrices are orthogonalised by Newton-Schulz before the step (Jordan et al. 2024).  Groups with
    ``use_adamw=True`` get AdamW: vectors, embeddings and heads, which Muon is not for (:func:`muon_param_groups` splits
    a model).  Tensors of more axes are matrices (first, rest).  A momentum clip acts on what is orthogonalised.

    ``scale``: "original" sqrt(max(1, m / n)), "match_rms" 0.2 sqrt(max(m, n)), "none".
    """

    def __init__(
        self, params: Params, lr: float = 1e-3, weight_decay: float = 0.1, *, momentum: float = 0.95,
        form: Form = "ema", nesterov: bool = True, scale: Literal["original", "match_rms", "none"] = "original",
        ns_steps: int = 5, ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315), eps: float = 1e-7,
        use_adamw: bool = False, betas: tuple[float, float] = (0.9, 0.999), adamw_eps: float = 1e-8,
    ) -> None:  # fmt: skip
        _require(lr >= 0, f"lr = {lr} must be >= 0")
        _require(weight_decay >= 0, f"weight_decay = {weight_decay} must be >= 0")
        _require(0 <= momentum < 1, f"momentum = {momentum} must lie in [0, 1)")
        _require(form in ("ema", "classic"), f'form = {form!r} is neither "ema" nor "classic"')
        _require(scale in ("original", "match_rms", "none"), f"scale = {scale!r} is none of original, match_rms, none")
        _require(ns_steps >= 1, f"ns_steps = {ns_steps} must be at least 1")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "form": form, "nesterov": nesterov,
            "scale": scale, "ns_steps": ns_steps, "ns_coefficients": ns_coefficients, "eps": eps,
            "use_adamw": use_adamw, "betas": betas, "adamw_eps": adamw_eps,
        })  # fmt: skip
        for number, group in enumerate(self.param_groups):
            for p in group["params"]:
                _require(
                    group["use_adamw"] or p.dim() >= 2,
                    f"group {number} has a parameter of shape {tuple(p.shape)}, which is no matrix: put it into a "
                    "group with use_adamw=True (muon_param_groups does so)",
                )

    def _direction(self, p: torch.Tensor, group: dict[str, Any]) -> Optional[torch.Tensor]:
        assert p.grad is not None
        if group["use_adamw"]:
            self._step_adamw(p, group)
            return None
        buffer = _advance(self.state[p], p.grad, group["momentum"], group["form"])
        if not group["nesterov"]:
            return buffer
        if group["form"] == "ema":
            return p.grad.lerp(buffer, group["momentum"])
        return p.grad.add(buffer, alpha=group["momentum"])

    def _apply(self, p: torch.Tensor, group: dict[str, Any], direction: torch.Tensor) -> None:
        matrix = direction.reshape(p.shape[0], -1)
        update = newton_schulz(matrix, group["ns_steps"], group["ns_coefficients"], group["eps"]).reshape(p.shape)
        m, n = matrix.shape
        scale = {"original": math.sqrt(max(1, m / n)), "match_rms": 0.2 * math.sqrt(max(m, n)), "none": 1.0}
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.add_(update, alpha=-group["lr"] * scale[group["scale"]])

    def _step_adamw(self, p: torch.Tensor, group: dict[str, Any]) -> None:
        assert p.grad is not None
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(p.grad), exp_avg_sq=torch.zeros_like(p.grad))
        state["step"] += 1
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(p.grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        root = state["exp_avg_sq"].sqrt().div_(math.sqrt(1 - beta2 ** state["step"])).add_(group["adamw_eps"])
        p.mul_(1 - group["lr"] * group["weight_decay"])
        p.addcdiv_(state["exp_avg"], root, value=-group["lr"] / (1 - beta1 ** state["step"]))


def newton_schulz(M: torch.Tensor, steps: int, coefficients: tuple[float, float, float], eps: float) -> torch.Tensor:
    """Singular values to about 1 by products: sigma / ||M|| through x -> a x + b x^3 + c x^5, ``steps`` times.  In
    float64 for float64, else in float32 on the CPU and bfloat16 on other devices."""
    a, b, c = coefficients
    work = M.dtype if M.dtype == torch.float64 else torch.float32 if M.device.type == "cpu" else torch.bfloat16
    tall = M.shape[0] > M.shape[1]
    X = (M.mT if tall else M).to(work)
    X = X / torch.linalg.vector_norm(X).clamp(min=eps)
    for _ in range(steps):
        A = X @ X.mT
        X = torch.addmm(X, torch.addmm(A, A, A, beta=b, alpha=c), X, beta=a)
    return (X.mT if tall else X).to(M.dtype)


def muon_param_groups(
    model: torch.nn.Module, muon: Optional[Mapping[str, Any]] = None, adamw: Optional[Mapping[str, Any]] = None
) -> list[dict[str, Any]]:
    """Two groups: matrices that a clipper would take by their singular values, for Muon, and the rest for AdamW.
    ``muon`` and ``adamw`` are options of the groups; AdamW's weight decay is 0.01 unless given.

    >>> model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3))
    >>> [[tuple(p.shape) for p in group["params"]] for group in muon_param_groups(model)]
    [[(3, 4)], [(9, 4), (3,)]]
    """
    from .clipper import SpectralClipper

    chooser = SpectralClipper(model, 1.0)
    by_name = dict(zip(chooser.names, chooser.parameters))
    plans = chooser.describe()
    matrices = [by_name[plan.name] for plan in plans if plan.treatment == "spectral"]
    rest = [by_name[plan.name] for plan in plans if plan.treatment != "spectral"]
    return [
        {"params": matrices, **(muon or {})},
        {"params": rest, "weight_decay": 0.01, **(adamw or {}), "use_adamw": True},
    ]

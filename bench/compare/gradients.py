# SPDX-License-Identifier: Apache-2.0
"""Sequences of gradients whose leading singular triplets are known: G = U diag(sigma) V^T + (I - U U^T) E (I - V V^T).

E is Gaussian.  Spectrum, bulk and the turning of the subspace from step to step follow real NanoGPT gradients, as in
bench/gradients.h.  Three steps are made beforehand and repeated; in each of them 45 % of the layers are loud: one to
three values stand out, and an EMA of the past lies below them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from .timing import show_progress

TERMS = 24  # known triplets
BULK = 0.02  # spectral norm of the rest, relative to sigma_1
TURN = 0.3  # tangent of the angle between steps: |V_old^T v_new| = 0.96, as measured
LIFT = 2.2  # leading values of a loud step, relative to sigma_1 of a quiet one
SPREAD = 0.05  # between the lifted values
VARIANTS = 3
LOUD_SHARE = 0.45

# sigma_i / sigma_1 of a NanoGPT gradient; beyond the list they fall by this factor (0.013 at i = 30).
_HEAD = (1.0, 0.87, 0.52, 0.43, 0.33, 0.24, 0.19, 0.17, 0.15, 0.14, 0.11, 0.09)
_FALL = 0.898


def relative_sigma(i: int) -> float:
    last = len(_HEAD) - 1
    return _HEAD[i] if i <= last else _HEAD[last] * _FALL ** (i - last)


def gradient_of(parameter: torch.Tensor) -> torch.Tensor:
    if parameter.grad is None:
        raise ValueError("a parameter without gradient")
    return parameter.grad


@dataclasses.dataclass(frozen=True)
class SetPlan:
    """A model's weight matrices: `blocks` times the shapes of one block."""

    key: str
    title: str
    width: int
    blocks: int
    device: str = "cpu"
    evict_bytes: int = 64 << 20  # read after a restore, so that no contender finds its input in the caches

    @property
    def shapes(self) -> list[tuple[str, int, int]]:
        w = self.width
        return [
            ("attn.c_attn", 3 * w, w),
            ("attn.c_proj", w, w),
            ("mlp.c_fc", 4 * w, w),
            ("mlp.c_proj", w, 4 * w),
        ]


PLANS = (
    SetPlan("nanogpt", "NanoGPT, 6 x 384", 384, 6),
    SetPlan("gpt2", "GPT-2 124M", 768, 12),
    SetPlan("blocks1b", "four blocks of a 1 B model, 2048 wide", 2048, 4),
)
# Enough to see that everything runs: the same shapes at a fraction of the width.
QUICK_PLANS = tuple(
    SetPlan(plan.key, f"{plan.key}, quick: {width} wide, 2 blocks", width, blocks=2, evict_bytes=1 << 20)
    for plan, width in zip(PLANS, (64, 72, 80))
)


@dataclasses.dataclass
class Layer:
    name: str
    shape: tuple[int, int]
    scale: float  # sigma_1 of a quiet step
    directions: int  # how many a loud step raises: 1 to 3
    loud: list[bool]  # per variant
    master: list[torch.Tensor] = dataclasses.field(default_factory=list)  # one per variant
    parameter: torch.nn.Parameter = None  # type: ignore[assignment]  # its .grad is what is clipped

    @property
    def work(self) -> torch.Tensor:
        return gradient_of(self.parameter)

    @property
    def result(self) -> torch.Tensor:
        """On the host, where references are."""
        return self.work.cpu()

    def sigma(self, variant: int) -> list[float]:
        lifted = self.directions if self.loud[variant] else 0
        return [self.scale * (LIFT * (1 - SPREAD * i) if i < lifted else relative_sigma(i)) for i in range(TERMS)]

    def sigma_max(self, variant: int) -> float:
        return self.sigma(variant)[0]


def _turned(before: torch.Tensor | None, n: int, generator: torch.Generator) -> torch.Tensor:
    """n x TERMS, orthonormal: `before` turned a little, or anything when there is none."""
    columns = torch.randn(n, TERMS, dtype=torch.float64, generator=generator) / math.sqrt(n)
    if before is not None:
        columns = before + TURN * columns
    return torch.linalg.qr(columns).Q


def _gradient(
    U: torch.Tensor, V: torch.Tensor, sigma: Sequence[float], bulk: float, generator: torch.Generator
) -> torch.Tensor:
    """E - U (U^T E - (diag(sigma) + U^T E V) V^T) - (E V) V^T, as one update of rank 2 TERMS; U and V in float32."""
    m, n = U.shape[0], V.shape[0]
    G = torch.empty(m, n).normal_(std=bulk / (math.sqrt(m) + math.sqrt(n)), generator=generator)
    EV = G @ V
    middle = U.T @ EV + torch.diag(torch.tensor(sigma, dtype=torch.float32))
    left = torch.cat([U, EV], dim=1)
    right = torch.cat([U.T @ G - middle @ V.T, V.T])
    return G.addmm_(left, right, alpha=-1)


def _fill(layer: Layer, seed: int, device: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    U = V = None
    for variant in range(VARIANTS):
        U, V = _turned(U, layer.shape[0], generator), _turned(V, layer.shape[1], generator)
        bulk = BULK * layer.scale
        layer.master.append(_gradient(U.float(), V.float(), layer.sigma(variant), bulk, generator))
    layer.parameter = torch.nn.Parameter(torch.empty(layer.shape, device=device))  # never touched: address space only
    layer.parameter.grad = layer.master[0].clone().to(device)


class LayerSet:
    """Made once, restored before every measurement."""

    def __init__(self, plan: SetPlan) -> None:
        self.plan = plan
        count = plan.blocks * len(plan.shapes)
        self.layers = [_plan_layer(plan, i, count) for i in range(count)]
        for i, layer in enumerate(self.layers):
            show_progress(f"{plan.key}: making layer {i + 1} of {count}", stage=i == 0)
            _fill(layer, seed=1000 + i, device=plan.device)
        self._others = torch.ones(plan.evict_bytes // 4, device=plan.device)

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        return [layer.parameter for layer in self.layers]

    @property
    def entries(self) -> int:
        return sum(layer.work.numel() for layer in self.layers)

    def restore(self, step: int) -> None:
        """The gradients of step `step`, then other data through the caches.  Never inside the clock."""
        for layer in self.layers:
            layer.work.copy_(layer.master[step % VARIANTS])
        self._others.sum()


def _plan_layer(plan: SetPlan, i: int, count: int) -> Layer:
    """In every variant the same share of the layers is loud, and every layer is loud in one or two of the three: a
    window of LOUD_SHARE over a permutation, moved by a third from variant to variant."""
    stride = 7  # prime to 4 * blocks for the sizes in use
    name, rows, cols = plan.shapes[i % len(plan.shapes)]
    window = round(LOUD_SHARE * count)
    return Layer(
        name=f"h.{i // len(plan.shapes)}.{name}.weight",
        shape=(rows, cols),
        scale=0.01 * (1 + i % 5),
        directions=1 + i % 3,
        loud=[(i * stride + v * count // VARIANTS) % count < window for v in range(VARIANTS)],
    )

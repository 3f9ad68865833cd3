# SPDX-License-Identifier: Apache-2.0
"""The clippers that people compare with, under their own names: by norm, by coordinate, by unit, soft.  They keep no
state but the parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Union

import torch
from torch import nn

from . import _settings
from ._followed import Followed
from ._layouts import rules_of
from ._parameters import Model
from .options import Backend
from .rules import Rules, as_rules


@dataclasses.dataclass(frozen=True)
class GlobalNorm:
    """All gradients by one factor, min(1, ``max_norm`` / norm of everything): ``clip_grad_norm_``."""

    max_norm: float = 1.0

    def settings(self) -> dict[str, object]:
        return {"kind": "global_norm", "max_norm": self.max_norm}


@dataclasses.dataclass(frozen=True)
class PerLayerNorm:
    """Each gradient, vectors too, by min(1, ``max_norm`` / its own norm)."""

    max_norm: float = 1.0

    def settings(self) -> dict[str, object]:
        return {"kind": "layer_norm", "max_norm": self.max_norm}


@dataclasses.dataclass(frozen=True)
class Agc:
    """Adaptive gradient clipping (Brock et al. 2021): each unit's norm at most ``factor`` times that of its weights,
    which count as ``epsilon`` at least."""

    factor: float = 0.01
    epsilon: float = 1e-3

    def settings(self) -> dict[str, object]:
        return {"kind": "agc", "agc_factor": self.factor, "agc_epsilon": self.epsilon}


@dataclasses.dataclass(frozen=True)
class Coordinate:
    """Each entry clamped to [-``max_value``, ``max_value``]: ``clip_grad_value_``."""

    max_value: float = 1.0

    def settings(self) -> dict[str, object]:
        return {"kind": "coordinate", "max_value": self.max_value}


@dataclasses.dataclass(frozen=True)
class Soft:
    """sigma / sqrt(1 + sigma^2 / ``scale``^2) of each matrix, (I + G G^T / c^2)^-1/2 G; vectors are left alone."""

    scale: float = 1.0

    def settings(self) -> dict[str, object]:
        return {"kind": "soft", "soft_scale": self.scale}


Clip = Union[GlobalNorm, PerLayerNorm, Agc, Coordinate, Soft]


class GradientClipper:
    """``clipper = GradientClipper(model, Soft(0.5))``, then :meth:`step` where ``SpectralClipper.step`` would stand.

    ``model`` and ``rules`` are as for :class:`SpectralClipper`; the rules decide what is a matrix for :class:`Soft`
    and matter to it alone.

    >>> layer = nn.Linear(3, 2)
    >>> clipper = GradientClipper(layer, Coordinate(0.5))
    >>> layer(torch.ones(4, 3)).sum().backward()
    >>> float(clipper.step()) > 1, float(layer.weight.grad.max())
    (True, 0.5)
    """

    def __init__(self, model: Model, clip: Clip, *, rules: Rules = (), backend: Backend = "auto") -> None:
        if not isinstance(clip, (GlobalNorm, PerLayerNorm, Agc, Coordinate, Soft)):
            raise TypeError(f"clip must be GlobalNorm, PerLayerNorm, Agc, Coordinate or Soft, not {clip!r}")
        if isinstance(model, Iterator):
            model = list(model)
        self.clip = clip
        by_type = rules_of(model) if isinstance(model, nn.Module) else []
        self._rules = [rule.texts() for rule in (*as_rules(rules), *by_type)]
        self._settings = [*_settings.texts(clip.settings()), f"backend={backend}"]
        self._followed = Followed(model, {}, None)
        self._followed.append(self._followed.entries())
        self._build()

    def _build(self) -> None:
        self._core = torch.classes.spectralclip.GradientClipper(
            self._followed.names, list(self._followed.parameters), self._settings, self._rules
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._followed.names)

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        return tuple(self._followed.parameters)

    @property
    def is_separable(self) -> bool:
        """Whether tensors may be clipped one at a time, with the same result: not so by a norm of everything."""
        return bool(self._core.is_separable())

    def step(self) -> torch.Tensor:
        """Clips all gradients in place; returns their norm before, a 0-d tensor."""
        changes = None if torch.compiler.is_compiling() else self._followed.look()
        if changes is not None:
            self._followed.append(changes.added)
            self._build()
        gradients = {
            number: p.grad
            for number, p in enumerate(self._followed.parameters)
            if p.grad is not None and number not in self._followed.gone
        }
        return self.clip_tensors(gradients)

    def clip_tensors(self, tensors: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Clips other tensors in the place of gradients: ``tensors[i]`` has the shape of ``parameters[i]``."""
        total_norm: torch.Tensor = self._core.clip(list(tensors.values()), list(tensors))
        return total_norm

    def clip_tensor(self, number: int, tensor: torch.Tensor) -> None:
        self.clip_tensors({number: tensor})

    def state_dict(self) -> dict[str, Any]:
        """Nothing: these clippers learn nothing."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        if state_dict:
            raise ValueError(f"{type(self.clip).__name__} keeps no state; this one has {', '.join(state_dict)}")

    def __repr__(self) -> str:
        return f"GradientClipper({len(self._followed.names)} parameters, {self.clip})"

# SPDX-License-Identifier: Apache-2.0
"""Clipping inside backward: one hook a parameter, those that are frozen now included."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.utils.hooks import RemovableHandle


class BackwardHooks:
    """Calls ``clip(number, gradient)`` on every ``accumulation_steps``-th accumulation of a parameter, and ``look()``
    once in a while, so that somebody notices what becomes of the model."""

    def __init__(
        self, accumulation_steps: int, clip: Callable[[int, torch.Tensor], None], look: Callable[[], None]
    ) -> None:
        self._every = accumulation_steps
        self._clip, self._look = clip, look
        self._handles: list[RemovableHandle] = []
        self._calls = 0

    def add(self, number: int, parameter: torch.Tensor) -> None:
        """A parameter that is frozen gets its hook too: it may be unfrozen later."""
        if not (parameter.is_floating_point() or parameter.is_complex()):
            return  # quantised: never has a gradient
        frozen = not parameter.requires_grad
        if frozen:
            parameter.requires_grad_(True)  # torch refuses the hook otherwise, and keeps it once it is there
        try:
            self._handles.append(parameter.register_post_accumulate_grad_hook(self._hook(number)))
        finally:
            if frozen:
                parameter.requires_grad_(False)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, number: int) -> Callable[[torch.Tensor], None]:
        accumulated = 0

        def clip_one(parameter: torch.Tensor) -> None:
            nonlocal accumulated
            accumulated += 1
            self._calls += 1
            if self._calls % len(self._handles) == 0:  # about once a backward
                self._look()
            if accumulated % self._every == 0 and parameter.grad is not None:
                self._clip(number, parameter.grad)

        return clip_one


def require_data(names: Sequence[str], parameters: Sequence[torch.Tensor]) -> None:
    """Hooks belong to tensors: those of meta tensors vanish when to_empty() puts others in their place."""
    without = [name for name, parameter in zip(names, parameters) if parameter.is_meta]
    if without:
        more = f" and {len(without) - 3} more" if len(without) > 3 else ""
        raise RuntimeError(
            f"{', '.join(without[:3])}{more} have no data yet (meta), and other tensors will take their place: call "
            "hook_each_parameter() after to_empty()"
        )

# SPDX-License-Identifier: Apache-2.0
"""Shapes without data, for torch.compile and export.  Importing this registers them."""

from __future__ import annotations

import math

import torch

from .reports import FIELDS


def _reports(G: torch.Tensor) -> torch.Tensor:
    """A row for each matrix; matrices without entries have none."""
    rows = math.prod(G.shape[:-2]) if G.numel() else 0
    return G.new_empty((rows, len(FIELDS)), dtype=torch.float64)


def _norm(gradients: list[torch.Tensor]) -> torch.Tensor:
    if not gradients:
        return torch.zeros(())
    dtype = gradients[0].dtype
    for gradient in gradients[1:]:
        dtype = torch.promote_types(dtype, gradient.dtype)
    return gradients[0].new_empty((), dtype=dtype)


@torch.library.register_fake("spectralclip::clip_singular_values_")
def _(G: torch.Tensor, tau: float, settings: list[str], backend: str) -> torch.Tensor:
    return _reports(G)


@torch.library.register_fake("spectralclip::clip_singular_values")
def _(G: torch.Tensor, tau: float, settings: list[str], backend: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(G), _reports(G)


@torch.library.register_fake("spectralclip::clip_grads_")
def _(
    gradients: list[torch.Tensor], max_sigma: float, settings: list[str], backend: str, error_if_nonfinite: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    device = gradients[0].device if gradients else None
    return _norm(gradients), torch.empty(len(gradients), dtype=torch.int64, device=device)


@torch.library.register_fake("spectralclip::propose")
def _(sigma_max: torch.Tensor, share: float) -> torch.Tensor:
    return torch.empty((sigma_max.shape[1], 7), dtype=torch.float64)


@torch.library.register_fake("spectralclip::clipper_step_")
def _(handle: int, gradients: list[torch.Tensor], numbers: list[int]) -> torch.Tensor:
    return _norm(gradients)

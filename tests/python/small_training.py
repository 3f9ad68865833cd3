# SPDX-License-Identifier: Apache-2.0
"""A small model, its gradients by the number of the step, and clips by a full SVD."""

from __future__ import annotations

import torch
from torch import nn

STEPS = 6


def model_of(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4)).to(dtype)


def backward(model: nn.Module, step: int, closure: bool = False):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(12, 6, generator=generator, dtype=torch.float64).to(next(model.parameters()).dtype)
    model.zero_grad()
    loss = (1 + 9 * (step % 3 == 2)) * model(x).square().sum()
    loss.backward()
    return loss


def values(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def by_svd(D: torch.Tensor, tau: float) -> torch.Tensor:
    if D.dim() < 2:
        return D * min(1.0, tau / float(D.norm()))
    U, s, Vt = torch.linalg.svd(D, full_matrices=False)
    return (U * s.clamp(max=tau)) @ Vt


def soft_by_svd(D: torch.Tensor, c: float) -> torch.Tensor:
    if D.dim() < 2:
        return D
    U, s, Vt = torch.linalg.svd(D, full_matrices=False)
    return (U * (s / (1 + (s / c) ** 2).sqrt())) @ Vt

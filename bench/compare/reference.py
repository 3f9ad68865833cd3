# SPDX-License-Identifier: Apache-2.0
"""The truth, in float64: singular triplets of a gradient from the eigenpairs of its smaller Gram matrix.

Eigenvalues are off by eps64 sigma_1^2, so a value of sigma_1 / 100 is right to 1e-12: exact for judging float32.
Values near zero are not, and nobody here needs them.
"""

from __future__ import annotations

import dataclasses
import math

import torch

from .gradients import TERMS, LayerSet
from .timing import show_progress


@dataclasses.dataclass
class Reference:
    U: torch.Tensor  # m x k, float64
    sigma: torch.Tensor  # k, largest first
    V: torch.Tensor  # n x k
    norm: float  # ||G||_F
    eigen: tuple[torch.Tensor, torch.Tensor]  # of the smaller Gram matrix, ascending: values, vectors

    def over(self, tau: float) -> torch.Tensor:
        return (self.sigma - tau).clamp_min(0)

    def removed_norm(self, tau: float) -> float:
        return float(self.over(tau).norm())

    def distance(self, before: torch.Tensor, after: torch.Tensor, tau: float) -> float:
        """|| (before - after) - sum (sigma_i - tau)_+ u_i v_i^T ||_F."""
        removed = before.double() - after.double()
        return float(removed.addmm_(self.U * self.over(tau), self.V.T, alpha=-1).norm())

    def rounding(self) -> float:
        """What storing the result in float32 and a backward stable SVD may cost: 4 sqrt(max(m, n)) eps ||G||_F."""
        return 4 * math.sqrt(max(self.U.shape[0], self.V.shape[0])) * torch.finfo(torch.float32).eps * self.norm


def make_reference(G: torch.Tensor, terms: int = TERMS) -> Reference:
    G = G.detach().double()
    wide = G if G.shape[0] <= G.shape[1] else G.T
    values, vectors = torch.linalg.eigh(wide @ wide.T)
    sigma = values.flip(0)[:terms].clamp_min(0).sqrt()
    left = vectors.flip(1)[:, :terms].contiguous()
    right = (wide.T @ left) / sigma.clamp_min(torch.finfo(torch.float64).tiny)
    U, V = (left, right) if wide is G else (right, left)
    return Reference(U, sigma, V, float(G.norm()), (values, vectors))


def soft_removed(reference: Reference, G: torch.Tensor, c: float) -> torch.Tensor:
    """What the soft clip takes away, G - (I + G G^T / c^2)^(-1/2) G, in float64."""
    values, vectors = reference.eigen
    share = 1 - (1 + values.clamp_min(0) / c**2).rsqrt()
    wide = (G if G.shape[0] <= G.shape[1] else G.T).double()
    removed = (vectors * share) @ (vectors.T @ wide)
    return removed if removed.shape == G.shape else removed.T


Pair = tuple[int, int]  # layer, variant


def reference_pairs(set_: LayerSet, layers_per_shape: int, variants: int) -> list[Pair]:
    """Which gradients are judged by a reference: of each shape the layers, and of each layer the steps, that are loud
    most often, because only those are clipped by every contender."""
    pairs: list[Pair] = []
    for shape in range(len(set_.plan.shapes)):
        numbers = list(range(shape, len(set_.layers), len(set_.plan.shapes)))
        numbers.sort(key=lambda i: -sum(set_.layers[i].loud))
        for i in numbers[:layers_per_shape]:
            steps = sorted(range(len(set_.layers[i].loud)), key=lambda v: not set_.layers[i].loud[v])
            pairs += [(i, v) for v in steps[:variants]]
    return pairs


def make_references(set_: LayerSet, pairs: list[Pair]) -> dict[Pair, Reference]:
    references = {}
    for done, (i, variant) in enumerate(pairs):
        show_progress(f"{set_.plan.key}: float64 reference {done + 1} of {len(pairs)}", stage=done == 0)
        references[i, variant] = make_reference(set_.layers[i].master[variant])
    return references

# SPDX-License-Identifier: Apache-2.0
"""What people would use instead, in plain PyTorch: written as fast as its idea allows, in place where that helps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

RANK, OVERSAMPLING, POWER_ITERATIONS = 10, 5, 1

# Quintics whose composition takes [1e-3, 1] to 1 within rounding of float32 in eight steps: N. Amsel, D. Persson,
# C. Musco, R. Gower, "The Polar Express" (arXiv 2505.16932).
POLAR_STEPS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)


Factors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # U: m x k, sigma: k, V: n x k


def leading_factors(G: torch.Tensor) -> Factors:
    rank = min(RANK, *G.shape)
    U, sigma, V = torch.svd_lowrank(G, q=min(rank + OVERSAMPLING, *G.shape), niter=POWER_ITERATIONS)
    return U[:, :rank], sigma[:rank], V[:, :rank]


def all_factors(G: torch.Tensor) -> Factors:
    U, sigma, Vh = torch.linalg.svd(G, full_matrices=False)
    return U, sigma, Vh.T


class AlgorithmTwo:
    """The published clipper: layer by layer, `svd_lowrank` from a cold start, the rank leading values clamped; or all
    of them, when the factors of a full SVD are asked for.

    Thresholds are constants when `taus` are given; otherwise the bias-corrected EMA of past sigma_1 (first step:
    tau = sigma_1, which changes nothing).  The update is added in place, without the dense product of its factors.
    """

    def __init__(
        self, parameters: Sequence[torch.Tensor], taus: Sequence[float] | None = None, decay: float = 0.9,
        factors: Callable[[torch.Tensor], Factors] = leading_factors,
    ) -> None:  # fmt: skip
        self.parameters = list(parameters)
        self._factors = factors
        self.constant = taus is not None
        self.taus = list(taus) if taus is not None else [0.0] * len(self.parameters)  # of the latest step
        self._over = [torch.zeros(1)] * len(self.parameters)  # (sigma - tau)_+ of the latest step
        self.decay = decay
        self.averages = [0.0] * len(self.parameters)
        self.steps = [0] * len(self.parameters)

    @torch.no_grad()
    def step(self) -> None:
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                self._clip(number, parameter.grad)

    def _clip(self, number: int, G: torch.Tensor) -> None:
        U, sigma, V = self._factors(G)
        tau = self.taus[number] if self.constant else self._threshold(number, float(sigma[0]))
        over = (sigma - tau).clamp_min(0)
        self.taus[number] = tau
        self._over[number] = over
        G.addmm_(U * over, V.T, alpha=-1)

    def _threshold(self, number: int, sigma_max: float) -> float:
        past = self.steps[number]
        tau = self.averages[number] / (1 - self.decay**past) if past else sigma_max
        self.averages[number] = self.decay * self.averages[number] + (1 - self.decay) * sigma_max
        self.steps[number] += 1
        return tau

    def counts(self) -> list[int]:
        """Directions clipped in the latest step, per layer."""
        return [int(torch.count_nonzero(over)) for over in self._over]


def full_svd_clip(G: torch.Tensor, tau: float) -> torch.Tensor:
    U, sigma, Vh = torch.linalg.svd(G, full_matrices=False)
    return (U * sigma.clamp_max(tau)) @ Vh


def _wide(G: torch.Tensor) -> torch.Tensor:
    return G if G.shape[0] <= G.shape[1] else G.T


def _sign(X: torch.Tensor) -> torch.Tensor:
    """Of a symmetric matrix, by eight steps of three products."""
    X = X / (1.01 * X.norm())
    for a, b, c in POLAR_STEPS:
        square = X @ X
        X = a * X + torch.addmm(b * square, square, square, alpha=c) @ X
    return X


def _inverse_root(M: torch.Tensor, steps: int) -> torch.Tensor:
    """M^(-1/2) of a positive definite matrix, by the coupled Newton-Schulz iteration: three products a step."""
    scale = M.norm()
    Y, Z = M / scale, torch.eye(M.shape[0], dtype=M.dtype)
    for _ in range(steps):
        T = torch.addmm(torch.eye(M.shape[0], dtype=M.dtype), Z, Y, beta=1.5, alpha=-0.5)
        Y, Z = Y @ T, T @ Z
    return Z / scale.sqrt()


def hard_cap(G: torch.Tensor, tau: float) -> torch.Tensor:
    """min(sigma, tau) by products: M = max(G G^T, tau^2 I) through the sign of G G^T - tau^2 I, then tau M^(-1/2) G.

    On the small side throughout.  The better known form with polar(G) and polar(tau polar(G) - G) takes up to
    twice as long and, for square G, spoils singular values near zero (removed part wrong by 60 to 80 %).
    """
    X = _wide(G)
    gram = X @ X.T
    shift = tau**2 * torch.eye(gram.shape[0], dtype=gram.dtype)
    excess = gram - shift
    largest = (gram + shift + excess @ _sign(excess)) / 2
    capped = tau * (_inverse_root((largest + largest.T) / 2, steps=8) @ X)
    return capped if X is G else capped.T


def soft_clip(G: torch.Tensor, c: float) -> torch.Tensor:
    """(I + G G^T / c^2)^(-1/2) G by ten steps, as in SPECTRA.  Another operator: sigma / sqrt(1 + sigma^2 / c^2)."""
    X = _wide(G)
    M = torch.addmm(torch.eye(X.shape[0], dtype=X.dtype), X, X.T, alpha=1 / c**2)
    softened = _inverse_root(M, steps=10) @ X
    return softened if X is G else softened.T

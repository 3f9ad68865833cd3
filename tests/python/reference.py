# SPDX-License-Identifier: Apache-2.0
"""The published rules once more, in float64 NumPy and nothing else: the truth that the package is judged against.

Written from the description of the published clipper, not from this package: names that are skipped, (d0, rest)
matrices for every tensor (biases too), thresholds in Python floats, the first call of each policy.
"""

from __future__ import annotations

import numpy as np
import torch

SKIPPED = (
    "word_embeddings", "position_embeddings", "token_type_embeddings", "embed_tokens", "lm_head", "wpe", "wte",
)  # fmt: skip

# Spacing of 1 in the storage type, and the width of the band above tau in which nothing is written: in the core's
# words, 32 eps of the work type (float32 for 16-bit storage), 1024 eps for float64.
EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
DEAD_BAND = {dtype: (1024 * 2.0**-52 if dtype == torch.float64 else 32 * 2.0**-23) for dtype in EPS}

# Products only: newton_schulz brackets the largest eigenvalue of the Gram matrix no closer than this (matrix_sign.h).
EIGENVALUE_GAP = 1e-6


def is_skipped(name: str) -> bool:
    return any(part in name for part in SKIPPED) and "LayerNorm" not in name


def matrix(values: np.ndarray) -> np.ndarray:
    """(d0, rest) of any tensor; a scalar is 1 x 1."""
    return values.reshape(values.shape[0], -1) if values.ndim else values.reshape(1, 1)


def clip_matrix(G: np.ndarray, tau: float) -> tuple[np.ndarray, float]:
    """U min(sigma, tau) V^T and sigma_1 of the unclipped matrix."""
    U, sigma, Vt = np.linalg.svd(G.astype(np.float64), full_matrices=False)
    return (U * np.minimum(sigma, tau)) @ Vt, float(sigma[0])


class ConstantRule:
    def __init__(self, tau: float) -> None:
        self.tau = tau

    def threshold(self, sigma: float) -> float:
        return self.tau

    def observe(self, sigma: float) -> None:
        pass


class EmaRule:
    """First call: tau = sigma_1, so nothing changes.  Then ema / (1 - beta^t) of the past."""

    def __init__(self, beta: float = 0.9) -> None:
        self.beta, self.ema, self.t = beta, 0.0, 0

    def threshold(self, sigma: float) -> float:
        return sigma if self.t == 0 else self.ema / (1 - self.beta**self.t)

    def observe(self, sigma: float) -> None:
        self.ema = self.beta * self.ema + (1 - self.beta) * sigma
        self.t += 1


class QuantileRule:
    """First call: no tau.  Then sorted(history)[int(q (len - 1))] of at most `window` past values."""

    def __init__(self, q: float = 0.85, window: int = 100) -> None:
        self.q, self.window, self.history = q, window, []

    def threshold(self, sigma: float) -> float | None:
        return sorted(self.history)[int(self.q * (len(self.history) - 1))] if self.history else None

    def observe(self, sigma: float) -> None:
        self.history = [*self.history, sigma][-self.window :]


class PublishedClipper:
    """clip({name: gradient}) -> {name: tau}, {name: clipped gradient}; layers without gradient do not advance."""

    def __init__(self, names: list[str], make_rule) -> None:
        self.rules = {name: make_rule() for name in names if not is_skipped(name)}

    def clip(self, gradients: dict[str, np.ndarray]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        taus, clipped = {}, {}
        for name, G in gradients.items():
            clipped[name] = G.astype(np.float64)
            if name not in self.rules:
                continue
            sigma = clip_matrix(matrix(G), np.inf)[1]
            tau = self.rules[name].threshold(sigma)
            if tau is not None:
                clipped[name] = clip_matrix(matrix(G), tau)[0].reshape(G.shape)
                taus[name] = tau
            self.rules[name].observe(sigma)
        return taus, clipped


def svd_clip(G: torch.Tensor, tau: float) -> torch.Tensor:
    """The operator on a matrix or a batch of them, in float64."""
    U, sigma, Vh = torch.linalg.svd(G.detach().double(), full_matrices=False)
    return (U * sigma.clamp(max=tau).unsqueeze(-2)) @ Vh


def clip_tolerance(G: torch.Tensor, tau: float, c: float = 4.0) -> float:
    """Frobenius error allowed to an exact clip of a matrix stored in G's type.

    C_tau projects onto a convex set, so it is 1-Lipschitz and a backward error of c sqrt(max(m, n)) eps ||G||_F (eps of
    float64, in which exact and gram work; c measured below 1) bounds the result.  To it come the rounding of what is
    written, eps / 2 ||result||_F, and the dead band: values up to tau (1 + band) stay, at most min(m, n) of them.
    """
    A = G.detach().double().reshape(-1, *G.shape[-2:])
    norm = float(torch.linalg.matrix_norm(A).max())
    small, large = sorted(G.shape[-2:])
    level = min(tau, norm)
    backward = c * large**0.5 * EPS[torch.float64] * norm
    stored = EPS[G.dtype] / 2 * min(norm, level * small**0.5) + tiny(G)
    return backward + stored + DEAD_BAND[G.dtype] * level * small**0.5


TOLERANCE, MARGIN = 1e-4, 1e-3  # defaults of the options
SEARCHES = ("tracked", "sketched", "auto")  # methods that stop at these; the others at rounding


def promised(G: torch.Tensor, tau: float, method: str) -> float:
    """What status "ok" allows beside rounding: ||G' - C_tau(G)||_F <= 3 (tolerance ||D||_F + margin tau)."""
    if method not in SEARCHES:
        return 0.0
    A = G.detach().double()
    removed = float(torch.linalg.matrix_norm(A - svd_clip(A, tau)).max())
    return 3 * (TOLERANCE * removed + MARGIN * min(tau, float(torch.linalg.matrix_norm(A, 2).max())))


def most_left(tau: float, method: str) -> float:
    """What status "ok" allows sigma_max of the result to be, beside rounding."""
    return tau * (1 + MARGIN) if method in SEARCHES else tau


def tiny(G: torch.Tensor) -> float:
    """Rounding of entries below the smallest normal number, which eps does not cover."""
    smallest = torch.finfo(G.dtype).smallest_normal * EPS[G.dtype]
    return smallest * G.numel() ** 0.5


def distance(A: torch.Tensor, B: torch.Tensor) -> float:
    """Frobenius, of the worst matrix of a batch; NaN anywhere is infinitely far."""
    difference = A.detach().double() - B.detach().double()
    if not bool(torch.isfinite(difference).all()):
        return float("inf")
    return float(torch.linalg.matrix_norm(difference).max()) if difference.ndim >= 2 else float(difference.norm())


def bits(tensor: torch.Tensor) -> bytes:
    """Storage of a dense tensor in logical order; compares NaN and -0 as they are."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def spectrum(m: int, n: int, sigma: list[float], generator: torch.Generator, dtype=torch.float64) -> torch.Tensor:
    """A random m x n matrix with these singular values (as many as given, the others zero)."""
    U = torch.linalg.qr(torch.randn(m, len(sigma), generator=generator, dtype=torch.float64))[0]
    V = torch.linalg.qr(torch.randn(n, len(sigma), generator=generator, dtype=torch.float64))[0]
    return ((U * torch.tensor(sigma, dtype=torch.float64)) @ V.T).to(dtype)

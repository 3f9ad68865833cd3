# SPDX-License-Identifier: Apache-2.0
"""What defines the operator, on matrices that hypothesis chooses: C_tau is a projection onto the spectral ball."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given, settings
from reference import (
    DEAD_BAND,
    EIGENVALUE_GAP,
    EPS,
    bits,
    clip_tolerance,
    distance,
    most_left,
    promised,
    spectrum,
    svd_clip,
)

from spectralclip import clip_singular_values

METHODS = ["exact", "gram", "sketched", "tracked", "newton_schulz", "auto"]
BACKENDS = ["core", "aten"]
ALL = pytest.mark.parametrize("method", METHODS)
BOTH = pytest.mark.parametrize("backend", BACKENDS)
FEW = settings(max_examples=12)

sizes = st.integers(1, 19)
kinds = st.sampled_from(["flat", "decaying", "spiked", "deficient", "tied"])
types = st.sampled_from([torch.float32, torch.float64])
# tau / sigma_max
shares = st.sampled_from([0.0, 1e-3, 0.1, 0.5, 0.9, 1.0])


@st.composite
def matrices(draw, dtype=None) -> torch.Tensor:
    m, n, kind = draw(sizes), draw(sizes), draw(kinds)
    r = min(m, n)
    sigma = {
        "flat": [1.0] * r,
        "decaying": [2.0**-i for i in range(r)],
        "spiked": [50.0] + [1.0] * (r - 1),
        "deficient": [3.0] * max(1, r // 2),
        "tied": [2.0 if i % 2 else 0.5 for i in range(r)],
    }[kind]
    scale = draw(st.sampled_from([1e-12, 1.0, 1e12]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    return spectrum(m, n, [s * scale for s in sigma], generator, dtype or draw(types))


def sigma_max(G: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(G.double(), 2))


def allowed(G: torch.Tensor, tau: float, method: str) -> float:
    """Frobenius distance from the exact clip: rounding and dead band (reference.py); for 16- and 32-bit storage float32
    work, eps sqrt(max(m, n)) ||G||_F, measured below 1 of it, and what "ok" promises."""
    bound = clip_tolerance(G, tau)
    if method in ("exact", "gram"):
        return bound
    work = 4 * max(G.shape) ** 0.5 * EPS[G.dtype] * float(G.double().norm())
    return bound + work + promised(G, tau, method)


def rank_suffices(G: torch.Tensor, tau: float, method: str) -> dict:
    """sketched clips `rank` directions and says so when there are more: give it all there are."""
    return {"rank": min(G.shape)} if method == "sketched" else {}


@ALL
@BOTH
@FEW
@given(G=matrices(), share=shares)
def test_equals_the_svd_clip(method, backend, G, share):
    tau = share * sigma_max(G)
    result, report = clip_singular_values(G, tau, method=method, backend=backend, **rank_suffices(G, tau, method))
    # Algorithm 2 reads as often as it is told: far above tau it cannot know what the rounding of the largest hides.
    assert report.status == "ok" or (method == "sketched" and report.status == "not_converged" and share == 1e-3)
    assert distance(result, svd_clip(G, tau)) <= allowed(G, tau, method)
    rounding = clip_tolerance(G, tau) + 4 * max(G.shape) ** 0.5 * EPS[G.dtype] * float(G.double().norm())
    assert sigma_max(result) <= most_left(tau, method) + rounding


@ALL
@BOTH
@FEW
@given(G=matrices(), share=st.sampled_from([0.1, 0.5, 0.9]))
def test_clipping_twice_writes_nothing_the_second_time(method, backend, G, share):
    tau = share * sigma_max(G)
    once, report = clip_singular_values(G, tau, method=method, backend=backend, **rank_suffices(G, tau, method))
    assume(report.status == "ok")
    twice, again = clip_singular_values(once, tau, method=method, backend=backend, **rank_suffices(G, tau, method))
    assert report.clipped > 0
    assert again.clipped == 0 and bits(twice) == bits(once)


@ALL
@BOTH
@FEW
@given(G=matrices(), factor=st.sampled_from([1.001, 2.0, 1e6, float("inf")]))
def test_nothing_above_tau_is_unwritten(method, backend, G, factor):
    # 1.001 leaves room for float32 estimates of sigma_max; the dead band is far narrower.
    assert 8 * DEAD_BAND[torch.float32] < 0.001
    result, report = clip_singular_values(G, factor * sigma_max(G), method=method, backend=backend)
    assert bits(result) == bits(G) and report.clipped == 0


@ALL
@BOTH
@FEW
@given(data=st.data(), share=st.sampled_from([0.1, 0.5, 1.0]), size=st.sampled_from([1e-3, 0.1, 1.0, 10.0]))
def test_one_lipschitz(method, backend, data, share, size):
    A = data.draw(matrices(torch.float64))
    generator = torch.Generator().manual_seed(1)
    B = A + size * A.norm() / A.numel() ** 0.5 * torch.randn(A.shape, generator=generator, dtype=torch.float64)
    tau = share * sigma_max(A)
    (a, ra), (b, rb) = (
        clip_singular_values(X, tau, method=method, backend=backend, **rank_suffices(X, tau, method)) for X in (A, B)
    )
    assume(ra.status == rb.status == "ok")
    assert distance(a, b) <= distance(A, B) + allowed(A, tau, method) + allowed(B, tau, method)


@pytest.mark.parametrize("method", ["exact", "gram", "newton_schulz"])
@BOTH
@FEW
@given(data=st.data(), share=st.sampled_from([0.1, 0.5]))
def test_turns_with_rotations(method, backend, data, share):
    """C_tau(P G R) = P C_tau(G) R for orthogonal P and R."""
    G = data.draw(matrices(torch.float64))
    generator = torch.Generator().manual_seed(2)
    P, R = (torch.linalg.qr(torch.randn(k, k, generator=generator, dtype=torch.float64))[0] for k in G.shape)
    tau = share * sigma_max(G)
    turned = clip_singular_values(P @ G @ R, tau, method=method, backend=backend)[0]
    straight = P @ clip_singular_values(G, tau, method=method, backend=backend)[0] @ R
    products = 8 * max(G.shape) * EPS[torch.float64] * float(G.norm())
    assert distance(turned, straight) <= 2 * allowed(G, tau, method) + products


@ALL
@BOTH
@FEW
@given(m=sizes, n=sizes, count=st.integers(1, 4), seed=st.integers(0, 1000))
def test_a_batch_is_a_loop(method, backend, m, n, count, seed):
    """Matrix by matrix the same result: bits for the core's dense methods, the tolerance where columns are random."""
    generator = torch.Generator().manual_seed(seed)
    G = torch.randn(count, m, n, generator=generator) * torch.logspace(-1, 1, count).view(-1, 1, 1)
    tau = 0.5 * sigma_max(G[count // 2])
    options = {"method": method, "backend": backend, **rank_suffices(G[0], tau, method)}
    batch, reports = clip_singular_values(G, tau, **options)
    assert batch.shape == G.shape and len(reports) == count
    for i in range(count):
        one, report = clip_singular_values(G[i], tau, **options)
        assume(report.status == reports[i].status == "ok")
        assert reports[i].clipped == report.clipped
        if backend == "core" and method in ("exact", "gram"):
            assert bits(batch[i]) == bits(one)
        assert distance(batch[i], one) <= 2 * allowed(G[i], tau, method)


@ALL
@BOTH
@FEW
@given(G=matrices(), share=st.sampled_from([0.1, 0.5, 0.9]))
def test_reports_tell_the_truth(method, backend, G, share):
    tau = share * sigma_max(G)
    result, report = clip_singular_values(G, tau, method=method, backend=backend, **rank_suffices(G, tau, method))
    work = 8 * max(G.shape) ** 0.5 * EPS[G.dtype] * float(G.double().norm())
    sought = 1e-4 * sigma_max(G) if method in ("tracked", "sketched", "auto") else 0.0
    if method == "newton_schulz":
        sought = EIGENVALUE_GAP / 2 * sigma_max(G)
    assert report.tau == tau
    assert abs(report.sigma_max - sigma_max(G)) <= work + sought
    assert abs(report.norm_before - float(G.double().norm())) <= work
    assert abs(report.norm_after - float(result.double().norm())) <= work + sought
    assert sigma_max(result) <= report.sigma_bound * (1 + DEAD_BAND[G.dtype]) + work
    energy = 1 - (float(result.double().norm()) / float(G.double().norm())) ** 2
    assert abs(report.removed_energy - energy) <= 1e-3
    if method in ("exact", "gram"):  # the others may be sure of less than they did
        assert report.sigma_bound <= tau * (1 + DEAD_BAND[G.dtype]) + 2 * work


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_a_spike_is_not_written_twice(method, dtype, generator):
    """Vectors good to `tolerance` leave sigma off by its square, 1e-8, which in float64 is wider than the dead band."""
    for _ in range(20):
        G = spectrum(19, 12, [10.0] + [1.0] * 11, generator, dtype)
        once, report = clip_singular_values(G, 5.0, method=method)
        twice, again = clip_singular_values(once, 5.0, method=method)
        assert report.clipped == 1 and report.status == "ok"
        assert bits(twice) == bits(once) and again.clipped == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(6, 2), (2, 6), (9, 4), (4, 9), (20, 16)], ids=str)
def test_tiny_gradients_of_low_rank_stay_finite(method, shape, generator):
    """Norms near the edge of the subspace methods' range (1e-12 in float32), where reciprocals of products of two small
    singular values overflow float32: found by hypothesis, once written as NaN with status ok."""
    for scale in (1e-13, 1e-12, 3e-12, 1e-11, 1e-10):
        for _ in range(6):
            G = spectrum(*shape, [scale], generator, torch.float32)
            result, report = clip_singular_values(G, scale / 2, method=method)
            assert report.status == "ok" and report.clipped == 1
            assert distance(result, svd_clip(G, scale / 2)) <= allowed(G, scale / 2, method)


# --- the comparators themselves -------------------------------------------------------------------------------------


def test_comparators_can_fail():
    G = torch.randn(6, 5)
    tolerance = clip_tolerance(G, 1.0)
    assert 0 < tolerance < 1e-4
    assert distance(G, svd_clip(G, 1.0)) > tolerance  # unclipped
    assert distance(torch.zeros_like(G), svd_clip(G, 1.0)) > tolerance  # zero
    assert distance(-svd_clip(G, 1.0), svd_clip(G, 1.0)) > tolerance  # sign
    assert distance(torch.full_like(G, float("nan")), svd_clip(G, 1.0)) == float("inf")
    assert distance(svd_clip(G, 1.0), svd_clip(G, 1.0)) == 0
    assert bits(torch.tensor([0.0])) != bits(torch.tensor([-0.0]))
    assert bits(torch.randn(3, 4).t()) != b""

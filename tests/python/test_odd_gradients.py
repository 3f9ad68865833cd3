# SPDX-License-Identifier: Apache-2.0
"""Gradients that are not plain: complex, sparse, expanded.  What cannot be clipped is measured or refused, and what is
refused has changed nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spectralclip import Constant, SpectralClipper, clip_grad_spectral_, clip_singular_values_, skip

BACKENDS = ["core", "aten"]


def with_gradient(G: torch.Tensor) -> nn.Parameter:
    p = nn.Parameter(torch.zeros(G.shape, dtype=G.dtype))
    p.grad = G
    return p


def sparse(rows: int = 6) -> torch.Tensor:
    """Row 1 comes twice: what counts is the sum."""
    index = torch.tensor([[1, 4, 1]])
    return torch.sparse_coo_tensor(index, torch.tensor([[3.0, 0.0], [0.0, 12.0], [1.0, 0.0]]), (rows, 2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_complex_parameter_under_a_rule_that_skips_it(backend):
    c, w = with_gradient(torch.full((2, 2), 3 + 4j)), with_gradient(24 * torch.eye(3)[:, :1].expand(3, 1).clone())
    clipper = SpectralClipper([("c", c), ("w", w)], 1.0, rules=skip("c"), backend=backend)
    report = clipper.step()
    assert torch.equal(c.grad, torch.full((2, 2), 3 + 4j))
    assert float(report.total_norm) == pytest.approx((4 * 25 + 24**2) ** 0.5, rel=1e-6)
    assert report.total_norm.dtype == torch.float32
    assert report.clipped == ["w"] and report.layers[0].norm_before == pytest.approx(10.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_complex_parameter_without_a_rule_is_named_before_anything_is_written(backend):
    w, c = with_gradient(5 * torch.eye(3)), with_gradient(torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(
        ValueError, match=r'"c" has a gradient of type ComplexFloat.*rule that skips "c" leaves it alone'
    ):
        SpectralClipper([("w", w), ("c", c)], 1.0, backend=backend).step()
    assert torch.equal(w.grad, 5 * torch.eye(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_gradients_count_for_the_norm(backend):
    e, w = with_gradient(torch.zeros(6, 2)), with_gradient(3 * torch.eye(2)[:1])
    e.grad = sparse()
    report = SpectralClipper([("e", e), ("w", w)], 100.0, backend=backend).step()
    assert float(report.total_norm) == pytest.approx(13.0)  # 4, 12, 3
    assert report.layers[0].norm_before == pytest.approx((16 + 144) ** 0.5) and report.layers[0].clipped == 0
    assert "sparse" in report.layers[0].rule
    assert report.norm_after == pytest.approx(13.0)


@pytest.mark.parametrize("coalesced", [False, True])
def test_the_norm_of_sparse_gradients_alone(coalesced):
    e = nn.Parameter(torch.zeros(6, 2))
    e.grad = sparse().coalesce() if coalesced else sparse()
    assert float(clip_grad_spectral_([e], 1.0)) == pytest.approx(160**0.5)
    assert torch.equal(e.grad.to_dense(), sparse().to_dense())


def test_an_embedding_with_sparse_gradients_beside_a_layer():
    model = nn.Sequential(nn.Embedding(5, 4, sparse=True), nn.Linear(4, 3))
    model(torch.tensor([0, 3, 3])).square().sum().backward()
    dense = [p.grad.to_dense() for p in model.parameters()]
    expected = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in dense]))
    assert float(SpectralClipper(model, 0.1).step().total_norm) == pytest.approx(float(expected), rel=1e-6)


def test_a_sparse_gradient_that_is_not_finite():
    e, w = nn.Parameter(torch.zeros(3, 2)), with_gradient(5 * torch.eye(2))
    e.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([[float("nan"), 0.0]]), (3, 2))
    with pytest.raises(RuntimeError, match="gradient of e is not finite; nothing was clipped"):
        SpectralClipper([("e", e), ("w", w)], 1.0, on_nonfinite="raise").step()
    assert torch.equal(w.grad, 5 * torch.eye(2))
    report = SpectralClipper([("e", e), ("w", w)], 1.0).step()
    assert report.not_finite == ["e"] and report.clipped == ["w"] and not torch.isfinite(report.total_norm)


# --- expanded -------------------------------------------------------------------------------------------------------


def expanded() -> nn.Parameter:
    p = nn.Parameter(torch.zeros(3, 4))
    p.grad = torch.full((1, 1), 5.0).expand(3, 4)
    return p


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", [0, 1], ids=["first", "last"])
def test_an_expanded_gradient_is_refused_before_anything_is_written(backend, place):
    named = [("w", with_gradient(5 * torch.eye(3)))]
    named.insert(place, ("x", expanded()))
    clipper = SpectralClipper(named, Constant(1.0), backend=backend)
    with pytest.raises(ValueError, match=r'"x" of shape \[3, 4\] has an expanded gradient .*parameter.grad.clone\(\)'):
        clipper.step()
    assert torch.equal(dict(named)["w"].grad, 5 * torch.eye(3))
    assert clipper.steps == 0 and [layer.steps for layer in clipper.report()] == [0, 0]


def test_an_expanded_gradient_elsewhere():
    w, x = with_gradient(5 * torch.eye(3)), expanded()
    with pytest.raises(ValueError, match="expanded"):
        clip_grad_spectral_([w, x], 1.0)
    assert torch.equal(w.grad, 5 * torch.eye(3))
    with pytest.raises(ValueError, match="expanded"):
        clip_singular_values_(x.grad, 1.0)
    # Where nothing will be written it is fine.
    assert float(SpectralClipper([("x", x)], 1.0, rules=skip("x")).step().total_norm) == pytest.approx(300**0.5)
    observed = SpectralClipper([("x", x)], 1.0, observe_only=True).step()
    assert observed.layers[0].sigma_max == pytest.approx(300**0.5)

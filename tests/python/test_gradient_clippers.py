# SPDX-License-Identifier: Apache-2.0
"""The clippers and optimizers that LibTorch has, from Python: against their formulas and torch's own."""

from __future__ import annotations

import pytest
import torch
from small_training import STEPS, backward, model_of, soft_by_svd, values
from torch import nn

from spectralclip import Agc, Coordinate, GlobalNorm, GradientClipper, MomentumSgd, Muon, PerLayerNorm, Soft


@pytest.mark.parametrize("clip", [Soft(0.3), PerLayerNorm(0.3), Agc(0.02), Coordinate(0.05), GlobalNorm(0.3)], ids=str)
def test_gradient_clippers_against_formulas(clip):
    model = model_of()
    backward(model, 2)
    before = [p.grad.clone() for p in model.parameters()]
    total = GradientClipper(model, clip).step()
    assert float(total) == pytest.approx(float(torch.linalg.vector_norm(torch.stack([g.norm() for g in before]))))
    for p, G in zip(model.parameters(), before):
        if isinstance(clip, Soft):
            expected = soft_by_svd(G, 0.3)
        elif isinstance(clip, PerLayerNorm):
            expected = G * min(1.0, 0.3 / (float(G.norm()) + 1e-6))
        elif isinstance(clip, Coordinate):
            expected = G.clamp(-0.05, 0.05)
        elif isinstance(clip, GlobalNorm):
            expected = G * min(1.0, 0.3 / (float(total) + 1e-6))
        else:
            w = p.detach()
            units = (w.norm(), G.norm()) if G.dim() < 2 else (w.norm(dim=1, keepdim=True), G.norm(dim=1, keepdim=True))
            expected = G * (units[0].clamp(min=1e-3) * 0.02 / units[1].clamp(min=1e-6)).clamp(max=1)
        assert torch.allclose(p.grad, expected, rtol=1e-9, atol=1e-12)
        assert not torch.equal(p.grad, G) or (isinstance(clip, Soft) and G.dim() < 2)


def test_a_clipper_by_norm_follows_its_model_and_refuses_what_it_cannot_write():
    model = model_of()
    clipper = GradientClipper(model, Agc(0.01))
    model[0].weight = nn.Parameter(100 * model[0].weight.detach())
    backward(model, 0)
    clipper.step()
    norms = model[0].weight.grad.norm(dim=1) / model[0].weight.detach().norm(dim=1)
    assert float(norms.max()) <= 0.01 * (1 + 1e-6)
    kept = model[0].weight.grad.clone()
    model[2].weight.grad = torch.full((1, 1), 9.0, dtype=torch.float64).expand(4, 9)
    with pytest.raises(ValueError, match="expanded gradient"):
        clipper.step()
    assert torch.equal(model[0].weight.grad, kept)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_momentum_sgd_and_muon_are_those_of_torch(decay):
    def run(make):
        model = model_of()
        optimizer = make(model)
        for step in range(STEPS):
            backward(model, step)
            optimizer.step()
        return values(model)

    def agree(a, b):
        return all(torch.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in zip(run(a), run(b)))

    for nesterov in (False, True):
        sgd = {"lr": 0.01, "momentum": 0.9, "weight_decay": decay, "nesterov": nesterov}
        assert agree(
            lambda m, sgd=sgd: MomentumSgd(m.parameters(), form="classic", **sgd),
            lambda m, sgd=sgd: torch.optim.SGD(m.parameters(), **sgd),
        )
    # torch's Muon works in bfloat16: hold ours to the formula it is, with AdamW's groups held to torch's.
    adamw = {"lr": 0.01, "weight_decay": decay, "betas": (0.9, 0.95)}
    assert agree(
        lambda m: Muon([{"params": list(m.parameters()), "use_adamw": True, **adamw}]),
        lambda m: torch.optim.AdamW(m.parameters(), **adamw),
    )


def test_muon_against_a_float64_svd_of_its_polynomial():
    W = nn.Parameter(torch.zeros(5, 8, dtype=torch.float64))
    W.grad = torch.randn(5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    U, s, Vt = torch.linalg.svd(0.05 * W.grad, full_matrices=False)
    x = s / s.norm()
    for _ in range(5):
        x = 3.4445 * x - 4.7750 * x**3 + 2.0315 * x**5
    Muon([W], lr=0.5, weight_decay=0.0, nesterov=False, scale="match_rms").step()
    assert torch.allclose(W.detach(), -0.5 * 0.2 * 8**0.5 * (U * x) @ Vt, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match=r"shape \(3,\), which is no matrix.*use_adamw=True"):
        Muon([nn.Parameter(torch.zeros(3))])

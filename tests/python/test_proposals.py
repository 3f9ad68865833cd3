# SPDX-License-Identifier: Apache-2.0
"""``propose``: the constants that would have clipped a share of the observed steps, per layer and as one number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from spectralclip import Constant, SpectralClipper, skip


def observed(sigmas: torch.Tensor, **options) -> SpectralClipper:
    """A clipper that saw gradients of exactly these sigma_max: steps x layers, layers of different shapes."""
    parameters = [(f"layer{i}", nn.Parameter(torch.zeros(4 + i, 3))) for i in range(sigmas.shape[1])]
    clipper = SpectralClipper(parameters, observe_only=True, method="exact", **options)
    for row in sigmas.tolist():
        for (_, p), sigma in zip(parameters, row):
            if math.isnan(sigma):
                p.grad = None
            else:
                p.grad = torch.zeros_like(p)
                p.grad[0, 0], p.grad[1, 1] = sigma, sigma / 2
        clipper.step()
    return clipper


def pareto(steps: int, layers: int, seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-1, 1, layers)
    return scale * (torch.rand(steps, layers, generator=generator) ** (-1 / 1.5))


def share_clipped(sigmas: torch.Tensor, taus: dict[str, float]) -> list[float]:
    """By a clipper that really clips with those thresholds."""
    parameters = [(f"layer{i}", nn.Parameter(torch.zeros(4 + i, 3))) for i in range(sigmas.shape[1])]
    clipper = SpectralClipper(parameters, threshold=taus, method="exact")
    for row in sigmas.tolist():
        for (_, p), sigma in zip(parameters, row):
            p.grad = torch.zeros_like(p)
            p.grad[0, 0], p.grad[1, 1] = sigma, sigma / 2
        clipper.step()
    return [layer.clipped_share for layer in clipper.report()]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.05, 0.2, 0.5])
def test_the_proposed_thresholds_clip_the_share(share):
    sigmas = pareto(100, 3)
    proposals = observed(sigmas).propose(share)
    assert [p.share for p in proposals] == pytest.approx([share] * 3)
    assert share_clipped(sigmas, proposals.thresholds) == pytest.approx([share] * 3)
    assert proposals.thresholds == {p.name: p.tau for p in proposals}
    tau = proposals.model.tau
    seen = sigmas.float().double()
    assert float((seen > tau).any(1).double().mean()) == pytest.approx(share) == proposals.model.share
    assert [p.share_at_model for p in proposals] == pytest.approx((seen > tau).double().mean(0).tolist())
    pooled = float((seen > proposals.pooled.tau).double().mean())
    assert pooled == pytest.approx(share, abs=1 / 300) and pooled <= share + 1e-12


def test_a_share_of_too_few_steps_is_none():
    proposals = observed(pareto(7, 1)).propose(0.05)
    assert proposals[0].share == 0 and proposals[0].high == math.inf and proposals[0].steps == 7


def test_the_interval_holds_the_true_quantile_as_often_as_it_says():
    """Pareto(1.5): the value that 10 % exceed is 0.1^(-1/1.5).  95 % of 400 intervals, within four deviations."""
    truth, hits = 0.1 ** (-1 / 1.5), 0
    columns = pareto(200, 1, seed=1).repeat(1, 400)
    generator = torch.Generator().manual_seed(9)
    columns = torch.rand(200, 400, generator=generator, dtype=torch.float64) ** (-1 / 1.5)
    for steps, _tau, _share, low, high, _early, _late in torch.ops.spectralclip.propose(columns, 0.1).tolist():
        hits += low <= truth < high
        assert steps == 200
    assert hits / 400 > 0.95 - 4 * (0.95 * 0.05 / 400) ** 0.5
    assert hits < 400


def test_a_drift_shows():
    sigmas = torch.linspace(1, 3, 60).view(-1, 1)
    proposal = observed(sigmas).propose(0.1)[0]
    assert proposal.early == pytest.approx(float(sigmas[26]), rel=1e-5)
    assert proposal.late == pytest.approx(float(sigmas[56]), rel=1e-5)
    assert proposal.drift == pytest.approx(proposal.late / proposal.early) and proposal.drift > 1.5


def test_what_has_no_gradient_is_not_finite_or_is_skipped_does_not_count():
    sigmas = pareto(20, 3)
    sigmas[::2, 1] = torch.nan
    sigmas[3, 2] = torch.inf
    proposals = observed(sigmas, rules=skip("layer0")).propose(0.1)
    assert [p.name for p in proposals] == ["layer1", "layer2"] and [p.steps for p in proposals] == [10, 19]
    assert set(proposals.thresholds) == {"layer1", "layer2"}


def test_matrices_of_one_parameter_share_a_threshold():
    p = nn.Parameter(torch.zeros(2, 3, 3))
    clipper = SpectralClipper([("mlp.experts.w", p)], observe_only=True)
    for scale in range(1, 11):
        p.grad = torch.stack([scale * torch.eye(3), 10 * scale * torch.eye(3)])
        clipper.step()
    proposals = clipper.propose(0.1)
    assert [x.name for x in proposals] == ["mlp.experts.w[0]", "mlp.experts.w[1]"]
    assert [x.tau for x in proposals] == pytest.approx([9, 90]) and {x.parameter for x in proposals} == {
        "mlp.experts.w"
    }
    assert proposals.thresholds == {"mlp.experts.w": pytest.approx(80)}  # 2 of 20 above
    SpectralClipper([("mlp.experts.w", p)], proposals.thresholds)


def test_the_table():
    text = str(observed(pareto(100, 2)).propose(0.05))
    assert text.startswith("constant thresholds that would have clipped 5% of 100 steps\n")
    lines = text.splitlines()
    assert lines[1].split()[:3] == ["layer", "steps", "tau"] and "by the one number" in lines[1]
    assert lines[3].startswith("layer0") and lines[5].startswith("any layer at all") and "5%" in lines[5]
    assert "<table>" in observed(pareto(9, 1)).propose()._repr_html_()


def test_inside_backward_too():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    clipper, outside = (SpectralClipper(model, observe_only=True, method="exact") for _ in range(2))
    clipper.hook_each_parameter()
    for step in range(12):
        model.zero_grad()
        (model(torch.ones(2, 3)).square().sum() * (step + 1)).backward()
        outside.step()
    inside, after = clipper.propose(0.25), outside.propose(0.25)
    assert [(p.name, p.steps, p.tau) for p in inside] == [(p.name, p.steps, p.tau) for p in after]
    assert inside.model == after.model


def test_observations_are_part_of_the_state():
    sigmas = pareto(30, 2)
    clipper = observed(sigmas[:20])
    resumed = observed(sigmas[:0])
    resumed.load_state_dict(clipper.state_dict())
    assert [p.tau for p in resumed.propose(0.1)] == [p.tau for p in clipper.propose(0.1)]
    plain = SpectralClipper([(f"layer{i}", nn.Parameter(torch.zeros(4 + i, 3))) for i in range(2)], Constant(1.0))
    assert "observed" not in plain.state_dict()


def test_what_it_needs_is_said():
    model = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match=r"needs what SpectralClipper\(model, observe_only=True\)"):
        SpectralClipper(model).propose()
    with pytest.raises(RuntimeError, match="there was none yet"):
        SpectralClipper(model, observe_only=True).propose()
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="share = "):
            observed(pareto(5, 1)).propose(share)

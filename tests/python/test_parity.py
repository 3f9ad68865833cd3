# SPDX-License-Identifier: Apache-2.0
"""The published clipper, step by step: thresholds and gradients of a training run equal an independent float64
re-implementation (reference.py) to rounding, for each policy, when the published variants are selected."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reference import (
    DEAD_BAND,
    EPS,
    ConstantRule,
    EmaRule,
    PublishedClipper,
    QuantileRule,
    clip_tolerance,
    distance,
    is_skipped,
)  # fmt: skip
from torch import nn
from torch.nn import functional as F

from spectralclip import Constant, Ema, Quantile, Rule, SpectralClipper

STEPS = 200
POLICIES = {
    "constant": (Constant(0.05), lambda: ConstantRule(0.05)),
    "ema": (Ema(0.9, first_step="unclipped", observe_zeros=True), lambda: EmaRule(0.9)),
    "quantile": (
        Quantile(0.85, window=100, interpolation="lower", first_step="unclipped", observe_zeros=True),
        lambda: QuantileRule(0.85, 100),
    ),
}
# The package skips embeddings by type as well; the published code by name alone, so `table` is clipped there.
RULES = [Rule("table.weight")]


class SmallModel(nn.Module):
    """Convolution, linear layers with biases, two embeddings, a norm whose name saves it from being skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(11, 6)
        self.table = nn.Embedding(7, 6)
        self.conv = nn.Conv2d(1, 5, 3)
        self.wte_LayerNorm = nn.LayerNorm(20)
        self.hidden = nn.Linear(20, 9)
        self.lm_head = nn.Linear(9, 11)
        self.unused = nn.Linear(2, 2)  # never has a gradient

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = (self.wte(tokens) + self.table(tokens % 7)).unsqueeze(1)
        x = F.gelu(self.conv(x)).flatten(1)
        return self.lm_head(F.gelu(self.hidden(self.wte_LayerNorm(x[:, :20]))))


def gradients_of(model: nn.Module) -> dict[str, np.ndarray]:
    return {n: p.grad.numpy().copy() for n, p in model.named_parameters() if p.grad is not None}


def make_gradients(model: nn.Module, step: int, generator: torch.Generator) -> None:
    """Those of a batch, and a rank-one spike at every ninth step; `conv` rests at every seventh."""
    tokens = torch.randint(0, 11, (8, 3), generator=generator)
    model.zero_grad()
    F.cross_entropy(model(tokens), tokens[:, 0]).backward()
    if step % 9 == 4:
        G = model.hidden.weight.grad
        G += 5 * torch.outer(torch.randn(9, generator=generator), torch.randn(20, generator=generator)).to(G.dtype)
    if step % 7 == 3:
        model.conv.weight.grad = None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("policy", POLICIES)
def test_200_steps_equal_the_published_clipper(policy, dtype, generator):
    threshold, make_rule = POLICIES[policy]
    model = SmallModel().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    clipper = SpectralClipper(model, threshold, method="exact", rules=RULES)
    published = PublishedClipper([name for name, _ in model.named_parameters()], make_rule)
    largest = dict.fromkeys(published.rules, 0.0)  # ||G||_F over the past: what the thresholds were rounded at
    clipped_layers: dict[str, int] = dict.fromkeys(published.rules, 0)
    for step in range(STEPS):
        make_gradients(model, step, generator)
        before = gradients_of(model)
        clipper.step()
        taus, expected = published.clip(before)
        layers = {layer.name: layer for layer in clipper.report()}
        for name, parameter in model.named_parameters():
            if name not in before:
                assert layers[name].clip is None
                continue
            G = torch.from_numpy(before[name])
            if is_skipped(name):
                assert layers[name].treatment == "skip", name
                assert torch.equal(parameter.grad, G), name
                continue
            M = G.reshape(G.shape[0], -1)
            # sigma_1 of matrices is computed in float64 from the same stored numbers, norms of vectors in the storage
            # type; an average or a quantile of such values errs no more than the worst of them.  Measured: below 1.
            largest[name] = max(largest[name], float(M.double().norm()))
            sigma_error = 4 * max(M.shape) ** 0.5 * EPS[torch.float64 if G.ndim > 1 else dtype] * largest[name]
            tau = layers[name].tau
            if math.isinf(tau):  # the first call: tau = sigma_1 or none in the published code, infinity here
                assert layers[name].steps == 1
                assert np.array_equal(parameter.grad.numpy(), before[name])
            else:
                assert abs(tau - taus[name]) <= sigma_error, (step, name)
                clipped_layers[name] += layers[name].clipped > 0
            bound = clip_tolerance(M, tau) + min(M.shape) ** 0.5 * sigma_error
            error = distance(parameter.grad.reshape(M.shape), torch.from_numpy(expected[name]).reshape(M.shape))
            assert error <= bound, (step, name, error, bound)
        optimizer.step()
    # Teeth: had nothing been clipped, everything above would hold of an idle clipper.
    assert all(count >= 5 for name, count in clipped_layers.items() if not name.startswith("unused")), clipped_layers


def test_a_zero_first_gradient_erases_the_second_and_cuts_the_third_as_published():
    """EMA with observe_zeros: tau is 0, 0, then 0.1 sigma / (1 - 0.81) = 0.526 sigma."""
    weight = nn.Parameter(torch.zeros(4, 3, dtype=torch.float64))
    clipper = SpectralClipper([("w", weight)], Ema(0.9, observe_zeros=True), method="exact")
    published = PublishedClipper(["w"], EmaRule)
    G = torch.randn(4, 3, dtype=torch.float64)
    for gradient in (torch.zeros_like(G), G, G):
        weight.grad = gradient.clone()
        clipper.step()
        expected = torch.from_numpy(published.clip({"w": gradient.numpy()})[1]["w"])
        assert distance(weight.grad, expected) <= clip_tolerance(G, float(G.norm()))
    sigma = float(torch.linalg.matrix_norm(G, 2))
    assert clipper.report()[0].tau == pytest.approx(0.1 / 0.19 * sigma, rel=16 * EPS[torch.float64])
    # ... and without observe_zeros, the default, the zero does not count and the second gradient is left whole.
    other = SpectralClipper([("w", weight)], Ema(0.9), method="exact")
    for gradient in (torch.zeros_like(G), G):
        weight.grad = gradient.clone()
        other.step()
    assert torch.equal(weight.grad, G)


def test_biases_are_matrices_of_one_column_which_is_norm_clipping():
    bias = nn.Parameter(torch.zeros(7, dtype=torch.float64))
    bias.grad = torch.randn(7, dtype=torch.float64)
    G = bias.grad.clone()
    SpectralClipper([("b", bias)], 0.25, method="exact").step()
    expected = torch.from_numpy(PublishedClipper(["b"], lambda: ConstantRule(0.25)).clip({"b": G.numpy()})[1]["b"])
    assert float(G.norm()) > 1
    assert distance(bias.grad, expected) <= clip_tolerance(G.reshape(7, 1), 0.25)


def test_quantile_forgets_what_left_the_window():
    weight = nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
    clipper = SpectralClipper([("w", weight)], Quantile(0.85, window=10, interpolation="lower"), method="exact")
    rule = QuantileRule(0.85, 10)
    for value in np.random.default_rng(3).pareto(1.1, 40) + 1:
        weight.grad = torch.full((1, 1), float(value), dtype=torch.float64)
        clipper.step()
        expected = rule.threshold(value)
        if expected is not None:
            assert clipper.report()[0].tau == expected  # a value that occurred: no rounding
        rule.observe(float(value))


def test_dead_bands_are_those_of_the_core(generator):
    """Sigma inside the band is left, above it is clipped: the constants in reference.py are not wishes."""
    for dtype in (torch.float64, torch.float32):
        for factor, count in ((0.5, 0), (2.0, 1)):
            G = torch.diag(torch.tensor([1 + factor * DEAD_BAND[dtype], 0.5], dtype=dtype))
            weight = nn.Parameter(torch.zeros_like(G))
            weight.grad = G
            SpectralClipper([weight], 1.0, method="exact").step()
            assert (weight.grad[0, 0] != 1 + factor * DEAD_BAND[dtype]) == bool(count)

# SPDX-License-Identifier: Apache-2.0
"""``preset="published"`` against the published rules, step by step: thresholds in float64, gradients by a full SVD."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from spectralclip import Constant, Ema, Quantile, Rule, SpectralClipper

SKIPPED = ("word_embeddings", "position_embeddings", "token_type_embeddings", "embed_tokens", "lm_head", "wpe", "wte")


class Published:
    """The rules in words: past sigma only; EMA's first call returns sigma itself and changes nothing, later ones the
    bias-corrected average; the quantile's first call leaves the layer untouched, later ones take the value at
    int(q (len - 1)) of the sorted window; zeros count like any value; steps are those with a gradient."""

    def __init__(self, kind: str, value: float, window: int = 100) -> None:
        self.kind, self.value, self.window = kind, value, window
        self.average, self.steps, self.history = 0.0, 0, []

    def tau(self, sigma: float) -> float:
        if self.kind == "constant":
            return self.value
        if self.kind == "ema":
            tau = sigma if self.steps == 0 else self.average / (1 - self.value**self.steps)
            self.average = self.value * self.average + (1 - self.value) * sigma
            self.steps += 1
            return tau
        tau = sorted(self.history)[int(self.value * (len(self.history) - 1))] if self.history else math.inf
        self.history = [*self.history, sigma][-self.window :]
        return tau


def clipped_by_svd(G: np.ndarray, tau: float) -> np.ndarray:
    U, s, Vt = np.linalg.svd(G.reshape(G.shape[0], -1), full_matrices=False)
    return ((U * np.minimum(s, tau)) @ Vt).reshape(G.shape)


SHAPES = {
    "bert.word_embeddings.weight": (9, 4), "bert.embeddings.LayerNorm.wte": (6,), "layer.weight": (7, 5),
    "layer.bias": (7,), "conv.weight": (4, 3, 2, 2), "lm_head.weight": (9, 4), "head.weight": (9, 4),
    "mlp.experts.w1": (2, 4, 3), "scale": (),
}  # fmt: skip


def expected_to_be_skipped(name: str) -> bool:
    return any(part in name for part in SKIPPED) and "LayerNorm" not in name


@pytest.mark.parametrize(
    ("threshold", "kind", "value", "window"),
    [
        (Constant(1.5), "constant", 1.5, 0),
        (Ema(0.9), "ema", 0.9, 0),
        (Ema(0.5), "ema", 0.5, 0),
        (Quantile(0.85), "quantile", 0.85, 100),
        (Quantile(0.5, window=5), "quantile", 0.5, 5),
    ],
    ids=str,
)
def test_every_step_is_the_published_one(threshold, kind, value, window):
    rng = np.random.default_rng(7)
    parameters = {name: nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for name, shape in SHAPES.items()}
    clipper = SpectralClipper(list(parameters.items()), threshold, preset="published")
    published = {name: Published(kind, value, window) for name in SHAPES}
    clips = 0
    for step in range(25):
        gradients = {}
        for name, p in parameters.items():
            scale = 0.0 if step in (0, 11, 12) else float(rng.pareto(1.5)) + 0.1  # zero first gradients included
            gradients[name] = scale * rng.standard_normal(SHAPES[name])
            absent = name == "layer.weight" and step % 4 == 1  # a layer without a gradient does not advance
            p.grad = None if absent else torch.tensor(gradients[name])
        report = {layer.name: layer for layer in clipper.step()}
        for name, p in parameters.items():
            if p.grad is None:
                continue
            G, found = np.asarray(gradients[name]), report[name]
            if expected_to_be_skipped(name):
                assert found.treatment == "skip" and np.array_equal(p.grad.numpy(), G)
                continue
            sigma = np.linalg.norm(G.reshape(G.shape[0] if G.ndim else 1, -1), 2)
            tau = published[name].tau(float(sigma))
            tolerance = 1e-9 * max(1.0, sigma)
            if step == 0 and kind != "constant":
                assert np.array_equal(p.grad.numpy(), G)  # "first call tau = sigma1, nothing changes", or untouched
            else:
                assert found.tau == pytest.approx(tau, rel=1e-9, abs=1e-12), (name, step)
            wanted = clipped_by_svd(np.atleast_1d(G), tau).reshape(G.shape) if math.isfinite(tau) else G
            assert np.abs(p.grad.numpy() - wanted).max(initial=0) <= tolerance, (name, step)
            clips += found.clipped > 0
    assert clips > 20


def test_a_zero_first_gradient_as_published():
    """tau is 0 on the first two calls: the second gradient is erased, the third cut to 0.1 / 0.19 of itself."""
    p = nn.Parameter(torch.zeros(3, 3, dtype=torch.float64))
    clipper = SpectralClipper([("w", p)], Ema(0.9), preset="published")
    norms = []
    for scale in (0.0, 2.0, 2.0):
        p.grad = scale * torch.eye(3, dtype=torch.float64)
        clipper.step()
        norms.append(float(p.grad[0, 0]))
    assert norms == pytest.approx([0.0, 0.0, 2 * 0.1 / 0.19])


def test_what_the_preset_sets_and_what_may_be_set_beside_it():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3))
    clipper = SpectralClipper(model, preset="published")
    assert [layer.treatment for layer in clipper.report()] == ["spectral", "spectral", "norm"]  # by name, not by type
    model(torch.tensor([1, 2])).sum().backward()
    assert {layer.method for layer in clipper.step() if layer.treatment == "spectral"} == {"exact"}
    theirs = {"method": "sketched", "rank": 3, "oversampling": 5, "power_passes": 1}
    randomized = SpectralClipper(model, 1e-3, preset="published", **theirs)
    assert {layer.method for layer in randomized.step() if layer.treatment == "spectral"} == {"sketched"}
    own = SpectralClipper(model, preset="published", rules=[Rule("0.weight", treatment="skip")])
    assert own.report()[0].treatment == "skip"
    for contradiction in (Ema(first_step="zero"), Quantile(interpolation="linear"), {"*": Quantile(first_step="zero")}):
        with pytest.raises(ValueError, match="contradicts"):
            SpectralClipper(model, contradiction, preset="published")

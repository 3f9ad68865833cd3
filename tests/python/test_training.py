# SPDX-License-Identifier: Apache-2.0
"""`tracked` trains like `exact`: a small character GPT on tiny Shakespeare, some of whose batches are noise, ends at
the same loss within the noise of seeds; and on one stream of gradients both hold the same thresholds."""

from __future__ import annotations

import statistics

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from spectralclip import Ema, SpectralClipper

STEPS, LAST = 300, 50
BATCH, BLOCK, WIDTH, HEADS, LAYERS = 8, 32, 48, 4, 2
SEEDS = (0, 1, 2)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = (t.view(shape).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CharGPT(nn.Module):
    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(symbols, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, symbols, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        return self.lm_head(self.norm(self.blocks(x)))


@pytest.fixture(scope="module")
def tokens(shakespeare) -> torch.Tensor:
    symbols = {symbol: i for i, symbol in enumerate(sorted(set(shakespeare)))}
    return torch.tensor([symbols[symbol] for symbol in shakespeare[:200_000]])


def train(tokens: torch.Tensor, seed: int, method: str, watch=lambda model: []) -> tuple[float, SpectralClipper, list]:
    """300 steps: mean loss of the last 50 on good batches, the clipper, and those that watched its gradients."""
    torch.manual_seed(seed)
    symbols = int(tokens.max()) + 1
    model = CharGPT(symbols)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    clipper = SpectralClipper(model, Ema(0.9), method=method)
    watchers = watch(model)
    losses = []
    for step in range(STEPS):
        starts = torch.randint(0, len(tokens) - BLOCK - 1, (BATCH, 1))
        batch = tokens[starts + torch.arange(BLOCK + 1)]
        if step % 10 == 9:
            batch = torch.randint(0, symbols, batch.shape)  # bad tokens: what clipping is for
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        for watcher in watchers:
            watcher.step()  # observe_only: before the clip, the same gradients
        clipper.step()
        optimizer.step()
        if step % 10 != 9:
            losses.append(float(loss.detach()))
    assert statistics.mean(losses[-LAST:]) < 0.8 * losses[0]  # it learnt something
    return statistics.mean(losses[-LAST:]), clipper, watchers


@pytest.fixture(scope="module")
def runs(tokens) -> dict:
    def watchers(model):
        exact = SpectralClipper(model, Ema(0.9), method="exact", observe_only=True)
        coarse = SpectralClipper(
            model, Ema(0.9), method="sketched", rank=1, oversampling=0, power_passes=0, observe_only=True
        )
        return [exact, coarse]

    return {
        "exact": [train(tokens, seed, "exact") for seed in SEEDS],
        "tracked": [train(tokens, SEEDS[0], "tracked", watchers)] + [train(tokens, s, "tracked") for s in SEEDS[1:]],
    }


def test_tracked_ends_at_the_loss_of_exact_within_the_noise_of_seeds(runs):
    exact, tracked = ([loss for loss, _, _ in runs[name]] for name in ("exact", "tracked"))
    noise = statistics.stdev(exact)
    assert noise > 0
    # Means of three, each of that noise: their difference has a deviation of noise sqrt(2 / 3); three of them.
    assert abs(statistics.mean(tracked) - statistics.mean(exact)) <= 3 * noise * (2 / 3) ** 0.5, (exact, tracked)


def test_both_clip_as_often(runs):
    """The same steps are cut: shares per kind of treatment within a tenth, and neither is idle."""
    for seed in range(len(SEEDS)):
        a, b = ([layer.clipped_share for layer in runs[name][seed][1].report() if layer.treatment == "spectral"]
                for name in ("exact", "tracked"))  # fmt: skip
        assert 0.05 < statistics.mean(a) < 0.9
        assert abs(statistics.mean(a) - statistics.mean(b)) < 0.1


def thresholds(clipper: SpectralClipper) -> dict[str, float]:
    return {layer.name: layer.tau for layer in clipper.report() if layer.treatment != "skip"}


def test_tracked_holds_the_thresholds_of_exact_on_the_same_gradients(runs):
    _, tracked, (exact, coarse) = runs["tracked"][0]
    found, expected, rough = (thresholds(c) for c in (tracked, exact, coarse))
    assert found.keys() == expected.keys() and len(found) > 8 * LAYERS
    worst = max(abs(found[name] / expected[name] - 1) for name in expected)
    assert worst <= 0.01, worst
    # The control: one random column does not know sigma_max, and this comparison says so.
    matrices = [layer.name for layer in exact.report() if layer.treatment == "spectral"]
    assert max(abs(rough[name] / expected[name] - 1) for name in matrices) > 0.05

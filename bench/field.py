# SPDX - License - Identifier : Apache - 2.0
"""What `tracked` says of a network in training, against float64: python bench/field.py --help.

Trains a small GPT (AdamW, one threshold a layer by EMA) on a text, or on a made-up one, and in every step compares each
layer's report with the eigenvalues of its gradient in float64: clips that were missed, statuses, how far off sigma_max
is, how tight the bound is.  Exits with 1 when a status `ok` was not true.
"""

from __future__ import annotations

import argparse
import collections
import math
import pathlib
import sys

import torch

import spectralclip
from compare.gpt import GPT, GptShape, batches
from compare.timing import median

MARGIN = 1e-3  # the default of ClipOptions
ROUNDING = 1e-5  # of float32, in sums of thousands of entries


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60, help="training steps (60)")
    parser.add_argument("--text", type=pathlib.Path, help="a text to learn, by characters; default: a Markov chain")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def text_batches(
    path: pathlib.Path, shape: GptShape, batch: int, count: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    text = path.read_text(encoding="utf-8")
    places = {symbol: place for place, symbol in enumerate(sorted(set(text)))}
    if len(places) > shape.vocabulary:
        raise SystemExit(f"{path}: {len(places)} different symbols, at most {shape.vocabulary} were expected")
    tokens = torch.tensor([places[symbol] for symbol in text])
    starts = torch.randint(len(tokens) - shape.context - 1, (count, batch), generator=torch.Generator().manual_seed(1))
    rows = tokens[starts[..., None] + torch.arange(shape.context + 1)]
    return [(row[:, :-1], row[:, 1:]) for row in rows]


def eigenvalues(gradient: torch.Tensor) -> torch.Tensor:
    """Singular values in float64, largest first, by the smaller Gram matrix."""
    G = gradient.detach().double()
    gram = G @ G.T if G.shape[0] <= G.shape[1] else G.T @ G
    return torch.linalg.eigvalsh(gram).clamp(min=0).sqrt().flip(0)


class Findings:
    def __init__(self) -> None:
        self.statuses: collections.Counter[str] = collections.Counter()
        self.steps = self.clips = self.missed = self.broken_bounds = 0
        self.worst_left = 0.0
        self.sigma_errors: list[float] = []
        self.tightness: list[float] = []
        self.passes: list[float] = []

    def add(self, clip: spectralclip.ClipReport, before: torch.Tensor, after: torch.Tensor) -> None:
        self.steps += 1
        self.statuses[clip.status] += 1
        sigma, left = before[0].item(), after[0].item()
        self.clips += int(sigma > clip.tau)
        self.sigma_errors.append(abs(clip.sigma_max / sigma - 1))
        self.tightness.append(clip.sigma_bound / left)
        self.passes.append(float(clip.passes))
        self.broken_bounds += int(clip.sigma_bound < left * (1 - ROUNDING))
        if math.isfinite(clip.tau):
            over = left / clip.tau - 1
            self.worst_left = max(self.worst_left, over)
            self.missed += int(clip.status == "ok" and over > MARGIN + ROUNDING)

    def print(self) -> None:
        def spread(values: list[float], show: str) -> str:
            ordered = sorted(values)
            nine = ordered[math.ceil(0.9 * len(ordered)) - 1]
            return " / ".join(format(value, show) for value in (median(values), nine, ordered[-1]))

        print(f"layer-steps {self.steps}, true clips {self.clips}; statuses {dict(self.statuses)}")
        print(f"missed under ok: {self.missed}; largest left above tau: {100 * self.worst_left:.3f} %")
        print(f"sigma_max off, median / 90 % / worst: {spread(self.sigma_errors, '.1e')}")
        print(f"sigma_bound / sigma_max left, median / 90 % / worst: {spread(self.tightness, '.3f')}")
        print(f"bounds below what was left: {self.broken_bounds}; passes a step: {sum(self.passes) / self.steps:.2f}")


def run(options: argparse.Namespace) -> Findings:
    torch.manual_seed(options.seed)
    shape = GptShape(layers=options.layers, heads=4, width=options.width, context=128, vocabulary=96)
    model = GPT(shape)
    data = (text_batches(options.text, shape, options.batch, options.steps) if options.text
            else batches(shape, options.batch, options.steps))  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))
    watched = dict(model.matrices())
    findings = Findings()
    for step, (x, y) in enumerate(data, start=1):
        optimizer.zero_grad()
        loss = model.loss(x, y)
        loss.backward()
        before = {name: eigenvalues(parameter.grad) for name, parameter in watched.items()}
        report = clipper.step()
        for layer in report.layers:
            if layer.parameter in watched and layer.clip is not None:
                findings.add(layer.clip, before[layer.parameter], eigenvalues(watched[layer.parameter].grad))
        optimizer.step()
        if sys.stderr.isatty() or step == options.steps:
            print(f"\rstep {step}/{options.steps}, loss {loss.item():.3f} ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return findings


def main() -> int:
    findings = run(parse())
    findings.print()
    return 1 if findings.missed or 1000 * findings.broken_bounds > findings.steps else 0


if __name__ == "__main__":
    sys.exit(main())

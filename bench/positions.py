# SPDX-License-Identifier: Apache-2.0
"""What a clip costs where it stands: python bench/positions.py [--rounds N].

One optimizer step over GPT-2 124M's 48 weight matrices (85 M float32), clipped at the gradient, at the update or at the
momentum, beside the same step unclipped and beside SPECTRA's soft clip of the update by Newton-Schulz products.
Rounds are interleaved; medians, and ratios to the unclipped step of the same round.  What takes seconds is timed on one
block of the twelve and scaled.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable

import torch
from torch import nn

from compare import rivals
from compare.timing import interleave, median, milliseconds, paired_ratio
from spectralclip import ClippedOptimizer, Ema, GlobalNorm, GradientClipper, MomentumSgd, Muon, Soft, SpectralClipper

BLOCK = {"attn.c_attn": (2304, 768), "attn.c_proj": (768, 768), "mlp.c_fc": (3072, 768), "mlp.c_proj": (768, 3072)}
BLOCKS = 12


@dataclasses.dataclass
class Contender:
    """``step`` makes one optimizer step; ``scale``: how many times its model goes into GPT-2."""

    name: str
    parameters: list[nn.Parameter]
    step: Callable[[], object]
    against: str
    scale: int
    times: list[float] = dataclasses.field(default_factory=list)
    clipped: str = ""


def model_of(blocks: int) -> nn.ParameterDict:
    named = {f"h{i}_{name.replace('.', '_')}": shape for i in range(blocks) for name, shape in BLOCK.items()}
    return nn.ParameterDict({name: nn.Parameter(0.02 * torch.randn(shape)) for name, shape in named.items()})


def draw_gradients(parameters: list[nn.Parameter], round_: int) -> None:
    """Three strong directions that turn slowly above a flat bulk, and every fifth round one twenty times as high."""
    for place, p in enumerate(parameters):
        generator = torch.Generator().manual_seed(place)
        m, n = p.shape
        U, V = torch.randn(m, 3, generator=generator), torch.randn(n, 3, generator=generator)
        generator.manual_seed(1000 * (round_ + 1) + place)
        U += 0.3 * torch.randn(m, 3, generator=generator)
        height = 20.0 if (round_ + place) % 5 == 4 else 1.0
        p.grad = 0.02 * torch.randn(m, n, generator=generator) + height * (U / m**0.5) @ (V / n**0.5).T


def soft_updates_by_products(model: nn.ParameterDict, optimizer: torch.optim.Optimizer, scale: float) -> None:
    """SPECTRA's post-clip as published: the whole update through ten Newton-Schulz steps, on a copy of the model."""
    parameters = list(model.values())
    lr = optimizer.param_groups[0]["lr"]
    before = [p.detach().clone() for p in parameters]
    optimizer.step()
    with torch.no_grad():
        for p, old in zip(parameters, before):
            p.copy_(old + lr * rivals.soft_clip((p - old) / lr, scale))


def contenders() -> list[Contender]:
    made = []

    def add(
        name: str, against: str, build: Callable[[nn.ParameterDict], Callable[[], object]], blocks: int = BLOCKS
    ) -> None:
        model = model_of(blocks)
        step = build(model)
        made.append(Contender(name, list(model.values()), step, against, BLOCKS // blocks))

    def adamw(model: nn.ParameterDict) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def wrapped(position: str, optimizer: Callable, clip: Callable) -> Callable:
        return lambda model: ClippedOptimizer(optimizer(model), clip(model), position).step

    def spectral(model: nn.ParameterDict) -> SpectralClipper:
        return SpectralClipper(model, Ema(0.9))

    def sgd(model: nn.ParameterDict) -> MomentumSgd:
        return MomentumSgd(model.parameters(), lr=1e-3)

    def norm_then_step(model: nn.ParameterDict) -> Callable[[], object]:
        optimizer, parameters = adamw(model), list(model.values())
        return lambda: (nn.utils.clip_grad_norm_(parameters, 1.0), optimizer.step())

    def soft_by_products(model: nn.ParameterDict) -> Callable[[], object]:
        optimizer = adamw(model)
        return lambda: soft_updates_by_products(model, optimizer, 1.0)

    plain, plain_sgd = "AdamW (fused)", "momentum SGD"
    add(plain, plain, lambda model: adamw(model).step)
    add("AdamW, clip_grad_norm_", plain, norm_then_step)
    add("AdamW, gradient: spectral, EMA", plain, wrapped("gradient", adamw, spectral))
    add("AdamW, update: spectral, EMA", plain, wrapped("update", adamw, spectral))
    add("AdamW, update: global norm", plain, wrapped("update", adamw, lambda m: GradientClipper(m, GlobalNorm(1.0))))
    add(plain_sgd, plain_sgd, lambda model: sgd(model).step)
    add("momentum SGD, momentum: spectral, EMA", plain_sgd, wrapped("momentum", sgd, spectral))
    one = "AdamW, one block"
    add(one, one, lambda model: adamw(model).step, blocks=1)
    add(
        "AdamW, update: soft (float64) *",
        one,
        wrapped("update", adamw, lambda m: GradientClipper(m, Soft(1.0))),
        blocks=1,
    )
    add("AdamW, update: SPECTRA's Newton-Schulz *", one, soft_by_products, blocks=1)
    add("Muon (Newton-Schulz of the momentum) *", one, lambda model: Muon(model.parameters(), lr=1e-3).step, blocks=1)
    return made


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=9)
    rounds = arguments.parse_args().rounds
    torch.manual_seed(0)
    torch.set_num_threads(2)
    all_ = contenders()
    by_name = {contender.name: contender for contender in all_}
    current = [0]

    def run(place: int, round_: int) -> None:
        contender = all_[place]
        draw_gradients(contender.parameters, round_)
        contender.times.append(milliseconds(contender.step))
        for p in contender.parameters:
            p.grad = None

    interleave([c.name for c in all_], rounds + 2, lambda round_: current.__setitem__(0, round_), run, "positions")
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, 2 threads, {rounds} rounds\n")
    print(f"{'a step over 48 matrices, 85 M float32':<42} {'ms':>8} {'of the plain step':>18}")
    for contender in all_:
        times = [contender.scale * t for t in contender.times[2:]]  # two rounds to warm up
        base = by_name[contender.against]
        ratio = paired_ratio(times, [base.scale * t for t in base.times[2:]])
        if contender.name != "AdamW, one block":
            print(f"{contender.name:<42} {median(times):>8.0f} {ratio:>16.2f} x")
    print("\n* timed on one block of twelve, scaled")


if __name__ == "__main__":
    main()

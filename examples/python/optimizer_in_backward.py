# SPDX-License-Identifier: Apache-2.0
"""Optimizer in backward: each gradient is clipped, applied and freed as soon as it exists.

A global norm cannot be known there; a spectral threshold belongs to one layer, so nothing is lost.  Hooks run in the
order in which they were registered: the clipper's first, the optimizers' after.
"""

import argparse

import torch

import spectralclip
from spectralclip.integrations import metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))
    clipper.hook_each_parameter()

    optimizers = {p: torch.optim.AdamW([p], lr=1e-3) for p in model.parameters()}

    def step_and_free(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_and_free)

    for step in range(1, options.steps + 1):
        x, y = torch.randn(64, 32), torch.randn(64, 8)
        torch.nn.functional.mse_loss(model(x), y).backward()  # clips and steps
        found = metrics(clipper.report(), prefix="")
        norms = f"norm {found['total_norm']:.4f}, after {found['norm_after']:.4f}"
        print(f"step {step}: {norms}, clipped {found['layers_clipped']:.0%} of the layers")
    print(f"gradients left in memory: {sum(p.grad is not None for p in model.parameters())}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Gradient accumulation: clip the sum once, after the last micro-batch.

One clip per optimizer step is one observation per threshold; clipping every micro-batch would clip other gradients
than the one that is applied, and teach the thresholds the size of parts.
"""

import argparse

import torch

import spectralclip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5, help="optimizer steps")
    parser.add_argument("--accumulate", type=int, default=4, help="micro-batches per step")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))

    for batch in range(1, options.steps * options.accumulate + 1):
        x, y = torch.randn(16, 32), torch.randn(16, 8)
        loss = torch.nn.functional.mse_loss(model(x), y) / options.accumulate
        loss.backward()
        if batch % options.accumulate == 0:
            report = clipper.step()
            optimizer.step()
            optimizer.zero_grad()
            norms = f"norm {float(report.total_norm):.4f}, after {report.norm_after:.4f}"
            print(f"step {report.step}: {norms}, clipped {report.clipped}")
    print(f"{options.steps * options.accumulate} micro-batches, {clipper.steps} clips")


if __name__ == "__main__":
    main()

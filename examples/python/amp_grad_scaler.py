# SPDX-License-Identifier: Apache-2.0
"""Mixed precision with torch.amp.GradScaler: unscale_, clip, step, update, in this order.

Thresholds are learnt from true gradients, so the scale may change without disturbing them.  When the loss overflows,
layers with Inf or NaN are left alone, their thresholds learn nothing, and the scaler skips the optimizer's step.
"""

import argparse

import torch

import spectralclip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--overflow-at", type=int, default=4, help="the step whose loss overflows (default 4)")
    options = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**14)
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))

    for step in range(1, options.steps + 1):
        x, y = torch.randn(64, 32, device=device), torch.randn(64, 8, device=device)
        with torch.autocast(device, dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x).float(), y)
        if step == options.overflow_at:
            loss = loss * 1e36
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # first: thresholds speak of unscaled gradients
        report = clipper.step()  # then clip
        scaler.step(optimizer)  # skips the step if unscale_ met Inf or NaN
        scaler.update()
        optimizer.zero_grad()
        print(
            f"step {step}: norm {float(report.total_norm):.4f}, clipped {len(report.clipped)} of {len(report.layers)}, "
            f"not finite {len(report.not_finite)}, scale {scaler.get_scale():g}"
        )


if __name__ == "__main__":
    main()

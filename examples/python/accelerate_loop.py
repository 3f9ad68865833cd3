# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate: accumulation, clipping, metrics and a checkpoint that includes the clipper."""

import argparse
import tempfile

import torch
from accelerate import Accelerator

import spectralclip
from spectralclip.integrations import metrics
from spectralclip.integrations.accelerate import clip_gradients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--accumulate", type=int, default=2)
    options = parser.parse_args()

    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=options.accumulate)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = [(torch.randn(32), torch.randn(8)) for _ in range(16 * options.batches)]
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=16))
    accelerator.register_for_checkpointing(clipper)

    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            report = clip_gradients(accelerator, clipper)  # None while accumulating
            if report is not None:
                found = metrics(report, prefix="")
                accelerator.log(found, step=report.step)  # to the trackers, if any
                norms = f"norm {found['total_norm']:.4f}, after {found['norm_after']:.4f}"
                accelerator.print(f"step {report.step}: {norms}")
            optimizer.step()
            optimizer.zero_grad()

    with tempfile.TemporaryDirectory() as directory:
        accelerator.save_state(directory)
        accelerator.load_state(directory)
    accelerator.print(f"saved and restored at step {clipper.steps}")


if __name__ == "__main__":
    main()

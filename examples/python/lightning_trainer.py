# SPDX-License-Identifier: Apache-2.0
"""Lightning: spectral clipping as a callback, logged and kept in the checkpoint."""

import argparse
import tempfile

import lightning.pytorch as pl
import torch

import spectralclip
from spectralclip.integrations.lightning import SpectralClipCallback


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> torch.Tensor:
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()

    pl.seed_everything(0, verbose=False)
    data = [(torch.randn(32), torch.randn(8)) for _ in range(256)]
    loader = torch.utils.data.DataLoader(data, batch_size=16)

    def make_trainer(steps: int) -> tuple[pl.Trainer, SpectralClipCallback]:
        clip = SpectralClipCallback(threshold=spectralclip.Ema(0.9))
        trainer = pl.Trainer(
            max_steps=steps, max_epochs=-1, accelerator="cpu", callbacks=[clip], log_every_n_steps=1, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        return trainer, clip

    with tempfile.TemporaryDirectory() as directory:
        trainer, clip = make_trainer(options.steps)
        trainer.fit(Model(), loader)
        for name, value in trainer.logged_metrics.items():
            print(f"{name} = {float(value):.4f}")
        trainer.save_checkpoint(f"{directory}/half.ckpt")

        trainer, clip = make_trainer(2 * options.steps)
        trainer.fit(Model(), loader, ckpt_path=f"{directory}/half.ckpt")
        print(f"resumed; the clipper is at step {clip.clipper.steps}")


if __name__ == "__main__":
    main()

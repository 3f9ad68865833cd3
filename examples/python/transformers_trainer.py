# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer: a tiny GPT-2 from its config, trained, stopped and resumed with spectral clipping."""

import argparse
import functools
import os
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import spectralclip
from spectralclip.integrations import metrics
from spectralclip.integrations.transformers import attach


def make_trainer(directory: str, steps: int) -> Trainer:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    tokens = [torch.randint(0, 64, (32,)) for _ in range(64)]
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=TrainingArguments(
            directory, max_steps=steps, per_device_train_batch_size=4, gradient_accumulation_steps=2, logging_steps=2,
            save_steps=max(steps // 2, 1), report_to=[], disable_tqdm=True, use_cpu=True, dataloader_pin_memory=False,
        ),
        train_dataset=[{"input_ids": t, "labels": t} for t in tokens],
    )  # fmt: skip
    attach(
        trainer,
        threshold=spectralclip.Quantile(0.85, window=50),
        log=functools.partial(metrics, layers="*.c_attn.weight", fields=["sigma_max", "tau"]),  # and the summary
    )
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as directory:
        make_trainer(directory, options.steps).train()
        half = os.path.join(directory, f"checkpoint-{max(options.steps // 2, 1)}")
        print(f"checkpoint: {sorted(os.listdir(half))}")
        make_trainer(directory, options.steps).train(resume_from_checkpoint=half)


if __name__ == "__main__":
    main()

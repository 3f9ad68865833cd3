# SPDX-License-Identifier: Apache-2.0
"""Accelerate: one clip per optimizer step, of unscaled gradients; the clipper's state goes with the others."""

import types

import pytest
import torch

pytest.importorskip("accelerate", reason="needs accelerate")
from accelerate import Accelerator
from accelerate.utils import DistributedType

import spectralclip
from spectralclip.integrations.accelerate import clip_gradients


def set_up(**options):
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, **options)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9, slack=0.9))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return accelerator, model, optimizer, clipper


def data(batches):
    generator = torch.Generator().manual_seed(1)
    pairs = [(torch.randn(8, generator=generator), torch.randn(4, generator=generator)) for _ in range(6 * batches)]
    return torch.utils.data.DataLoader(pairs, batch_size=6)


def train(accelerator, model, optimizer, clipper, loader):
    reports = []
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(torch.nn.functional.mse_loss(model(x).float(), y))
            reports.append(clip_gradients(accelerator, clipper))
            optimizer.step()
            optimizer.zero_grad()
    return reports


def weights(model):
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def test_one_clip_per_optimizer_step():
    accelerator, model, optimizer, clipper = set_up(gradient_accumulation_steps=3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, data(8))
    reports = train(accelerator, model, optimizer, clipper, loader)
    assert [i for i, r in enumerate(reports, 1) if r is not None] == [3, 6, 8]  # the last one is short
    assert clipper.steps == 3


def test_gradients_are_unscaled_first():
    """Accelerate has no scaler for fp16 on the CPU, so one is put in; all code that scales is Accelerate's."""

    def run(scale):
        accelerator, model, optimizer, clipper = set_up()
        if scale is not None:
            accelerator.state._mixed_precision = "fp16"
            accelerator.native_amp = True
            accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        try:
            optimizer = accelerator.prepare(optimizer)  # the model stays in float32: only the scale shall differ
            reports = train(accelerator, model, optimizer, clipper, data(4))
        finally:
            accelerator.state._mixed_precision = "no"
        return reports[-1].total_norm, weights(model), clipper.state_dict()

    norm, plain, state = run(None)
    scaled_norm, scaled, scaled_state = run(2.0**12)
    assert torch.equal(norm, scaled_norm)
    assert torch.equal(plain, scaled)
    assert state == scaled_state


def test_checkpoint_round_trip_continues_bit_for_bit(tmp_path):
    first, second = list(data(6))[:3], list(data(6))[3:]
    accelerator, model, optimizer, clipper = set_up()
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.register_for_checkpointing(clipper)
    train(accelerator, model, optimizer, clipper, first)
    accelerator.save_state(str(tmp_path))
    train(accelerator, model, optimizer, clipper, second)

    def resumed(with_clipper):
        accelerator, model, optimizer, clipper = set_up()
        model, optimizer = accelerator.prepare(model, optimizer)
        if with_clipper:
            accelerator.register_for_checkpointing(clipper)
        accelerator.load_state(str(tmp_path))
        train(accelerator, model, optimizer, clipper, second)
        return model, clipper

    again, its_clipper = resumed(True)
    assert torch.equal(weights(again), weights(model))
    assert its_clipper.state_dict() == clipper.state_dict()

    (tmp_path / "custom_checkpoint_0.pkl").unlink()
    forgetful, _ = resumed(False)
    assert not torch.equal(weights(forgetful), weights(model))  # so the state did matter


@pytest.mark.parametrize(
    ("kind", "text"), [(DistributedType.DEEPSPEED, "keeps them to itself"), (DistributedType.FSDP, "fsdp_version=2")]
)
def test_hidden_gradients_are_refused(kind, text):
    _, _, _, clipper = set_up()
    fake = types.SimpleNamespace(sync_gradients=True, distributed_type=kind, is_fsdp2=False)
    with pytest.raises(RuntimeError, match=text):
        clip_gradients(fake, clipper)
    assert clipper.steps == 0

# SPDX-License-Identifier: Apache-2.0
"""Plain torch: GradScaler, gradient accumulation, optimizer in backward."""

import math

import pytest
import torch

import spectralclip


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))


def batches(count):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(12, 8, generator=generator), torch.randn(12, 4, generator=generator)) for _ in range(count)]


def loss_of(model, batch):
    return torch.nn.functional.mse_loss(model(batch[0]), batch[1])


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


def train_with_scaler(scale, steps=5, unscale=True):
    """A power of two for a scale, which float32 undoes without rounding."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))
    for batch in batches(steps):
        scaler.scale(loss_of(model, batch)).backward()
        if unscale:
            scaler.unscale_(optimizer)
        report = clipper.step()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return model, clipper, report


def test_the_scale_leaves_no_trace_when_unscaled_first():
    runs = [train_with_scaler(scale) for scale in (1.0, 2.0**16)]
    for one, other in zip(runs[0][0].parameters(), runs[1][0].parameters()):
        assert torch.equal(one, other)
    assert runs[0][1].state_dict() == runs[1][1].state_dict()
    assert runs[0][2].total_norm == runs[1][2].total_norm


def test_clipping_scaled_gradients_is_the_mistake_it_is_said_to_be():
    taus = [train_with_scaler(scale, unscale=False)[2].layers[0].tau for scale in (1.0, 2.0**16)]
    assert taus[1] > 1000 * taus[0]


def test_overflow_step_is_skipped_and_teaches_nothing():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))

    def step(batch, factor=1.0):
        scaler.scale(loss_of(model, batch) * factor).backward()
        scaler.unscale_(optimizer)
        report = clipper.step()
        layers = report.layers
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return report, layers

    data = batches(4)
    step(data[0])
    step(data[1])
    weights = [p.clone() for p in model.parameters()]
    report, overflowed = step(data[2], factor=1e38)
    assert not math.isfinite(report.total_norm)
    assert report.not_finite == [layer.name for layer in report.layers]
    assert all(torch.equal(w, p) for w, p in zip(weights, model.parameters()))
    assert scaler.get_scale() == 2.0**9
    report, after = step(data[2])
    assert math.isfinite(report.total_norm)
    assert [layer.tau for layer in after] == [layer.tau for layer in overflowed]  # nothing was learnt in between
    assert [layer.steps for layer in after] == [3] * 4
    assert not all(torch.equal(w, p) for w, p in zip(weights, model.parameters()))


def test_only_the_layer_with_inf_is_left_alone():
    model = make_model()
    clipper = spectralclip.SpectralClipper(model, threshold=1e-3)
    loss_of(model, batches(1)[0]).backward()
    model[0].weight.grad[3, 5] = math.inf
    before = gradients(model)
    report = clipper.step()
    assert report.not_finite == ["0.weight"]
    assert torch.equal(model[0].weight.grad, before[0])
    assert torch.linalg.matrix_norm(model[2].weight.grad, 2) <= 1e-3 * (1 + 1e-4)
    assert torch.linalg.matrix_norm(before[2], 2) > 1e-2


@pytest.mark.parametrize("accumulate", [2, 4])
def test_accumulation_clips_the_sum_once(accumulate):
    """Micro-batches and one large batch: the same gradients, thresholds and weights up to the rounding of the sum."""
    data = batches(3)

    def train(parts):
        model = make_model().double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.5, slack=0.8), method="exact")
        reports = []
        for x, y in data:
            for x_part, y_part in zip(x.double().chunk(parts), y.double().chunk(parts)):
                (loss_of(model, (x_part, y_part)) / parts).backward()
            report = clipper.step()
            reports.append([layer.tau for layer in report])
            optimizer.step()
            optimizer.zero_grad()
        return torch.nn.utils.parameters_to_vector(model.parameters()), reports, clipper

    weights, taus, clipper = train(accumulate)
    whole, whole_taus, _ = train(1)
    assert clipper.steps == len(data)
    torch.testing.assert_close(weights, whole, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(torch.tensor(taus[1:]), torch.tensor(whole_taus[1:]), rtol=1e-6, atol=0)


def test_optimizer_in_backward_equals_clipping_after_it():
    data = batches(6)
    model = make_model()
    clipper = spectralclip.SpectralClipper(model, threshold=spectralclip.Ema(0.9))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    clipped = 0
    for batch in data:
        loss_of(model, batch).backward()
        clipped += len(clipper.step().clipped)
        optimizer.step()
        optimizer.zero_grad()
    assert clipped > 0

    inside = make_model()
    hooked = spectralclip.SpectralClipper(inside, threshold=spectralclip.Ema(0.9))
    hooked.hook_each_parameter()
    optimizers = {p: torch.optim.AdamW([p], lr=1e-2) for p in inside.parameters()}

    def step_and_free(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for p in inside.parameters():
        p.register_post_accumulate_grad_hook(step_and_free)
    for batch in data:
        loss_of(inside, batch).backward()
        assert all(p.grad is None for p in inside.parameters())

    for one, other in zip(model.parameters(), inside.parameters()):
        assert torch.equal(one, other)
    assert sum(layer.steps_clipped for layer in hooked.report()) == clipped
    with pytest.raises(RuntimeError, match="twice"):
        hooked.step()

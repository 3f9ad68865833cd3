# SPDX-License-Identifier: Apache-2.0
"""``ClippedOptimizer``: gradient, update and momentum, against formulas in float64; and that it is an optimizer."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from small_training import STEPS, backward, by_svd, model_of, soft_by_svd, values
from torch import nn

from spectralclip import (
    Agc,
    ClippedOptimizer,
    Coordinate,
    Ema,
    GlobalNorm,
    GradientClipper,
    MomentumSgd,
    Muon,
    PerLayerNorm,
    Soft,
    SpectralClipper,
    muon_param_groups,
    skip,
)  # fmt: skip

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamw foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "adam amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "own sgd": lambda p: MomentumSgd(p, lr=0.05),
}


# --- update ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_is_the_clipped_update(name):
    """Two runs in step: the wrapped one's parameters are set back to old + lr C(D), D from the plain optimizer."""
    tau = 0.5
    model, plain = model_of(), model_of()
    optimizer = ClippedOptimizer(
        OPTIMIZERS[name](model.parameters()), SpectralClipper(model, tau, method="exact"), "update"
    )
    assert not optimizer.copies_parameters
    inner = OPTIMIZERS[name](plain.parameters())
    clipped = 0
    for step in range(STEPS):
        with torch.no_grad():  # so that both see the same gradients
            for p, q in zip(plain.parameters(), model.parameters()):
                p.copy_(q)
        backward(model, step)
        backward(plain, step)
        old, lr = values(plain), inner.param_groups[0]["lr"]
        inner.step()
        optimizer.step()
        squares = 0.0
        for p, q, before in zip(model.parameters(), plain.parameters(), old):
            D = (q.detach() - before) / lr
            expected = before + lr * by_svd(D, tau)
            assert torch.allclose(p.detach(), expected, rtol=1e-9, atol=1e-12), (name, step)
            clipped += not torch.allclose(q.detach(), expected)
            squares += float(D.square().sum())
        assert float(optimizer.total_norm) == pytest.approx(squares**0.5, rel=1e-6)
    assert clipped > STEPS  # of 4 per step


@pytest.mark.parametrize("clip", [Soft(0.3), PerLayerNorm(0.3), Agc(0.02), Coordinate(0.05), GlobalNorm(0.3)], ids=str)
def test_every_clip_of_an_update(clip):
    model, plain = model_of(), model_of()
    optimizer = ClippedOptimizer(OPTIMIZERS["adamw"](model.parameters()), GradientClipper(model, clip), "update")
    assert optimizer.copies_parameters == isinstance(clip, GlobalNorm)
    inner = OPTIMIZERS["adamw"](plain.parameters())
    backward(model, 2), backward(plain, 2)
    old = values(plain)
    inner.step(), optimizer.step()
    updates = [(q.detach() - before) / 0.01 for q, before in zip(plain.parameters(), old)]
    total = torch.linalg.vector_norm(torch.stack([D.norm() for D in updates]))

    def unit(x):
        return x.norm() if x.dim() < 2 else x.flatten(1).norm(dim=1, keepdim=True)

    def expected(D, w):
        match clip:
            case Soft(c):
                return soft_by_svd(D, c)
            case PerLayerNorm(most):
                return D * min(1.0, most / (float(D.norm()) + 1e-6))
            case Coordinate(most):
                return D.clamp(-most, most)
            case GlobalNorm(most):
                return D * min(1.0, most / (float(total) + 1e-6))
            case Agc(factor, epsilon):  # weights as they are after the step
                return D * (unit(w).clamp(min=epsilon) * factor / unit(D).clamp(min=1e-6)).clamp(max=1)

    for p, q, before, D in zip(model.parameters(), plain.parameters(), old, updates):
        result = before + 0.01 * expected(D, q.detach())
        assert torch.allclose(p.detach(), result, rtol=1e-9, atol=1e-12)
        assert not torch.equal(p.detach(), q.detach()) or (isinstance(clip, Soft) and D.dim() < 2)


def test_parts_and_a_whole_copy_agree(monkeypatch):
    def run(how: str) -> tuple[list[torch.Tensor], list]:
        model = model_of()
        clip = SpectralClipper(model, Ema(0.5, slack=0.7), method="exact")
        inner = torch.optim.AdamW(model.parameters(), lr=0.01)
        optimizer = ClippedOptimizer(inner, clip, "update")
        if how == "one by one":
            monkeypatch.setattr("spectralclip.clipped_optimizer._CHUNK_BYTES", 1)
        if how == "copy":
            inner.register_step_post_hook(lambda *_: None)  # counts on one call a step
            assert optimizer.copies_parameters
        for step in range(STEPS):
            backward(model, step)
            optimizer.step()
        return values(model), [(layer.tau, layer.steps, layer.steps_clipped) for layer in clip.report()]

    parts, ones, copied = run("parts"), run("one by one"), run("copy")
    for other in (ones, copied):
        assert all(torch.equal(a, b) for a, b in zip(parts[0], other[0])) and parts[1] == other[1]
    assert sum(steps for _, _, steps in parts[1]) > STEPS


def test_parts_need_no_second_model(monkeypatch):
    """What is alive beside model, gradients and state, at its highest, is a few times the largest parameter."""
    model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(20)))
    optimizer = ClippedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), SpectralClipper(model, 1.0), "update")
    monkeypatch.setattr("spectralclip.clipped_optimizer._CHUNK_BYTES", 1)
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()  # gradients and workspace are there now
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        optimizer.step()
    alive = highest = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        highest = max(highest, alive)
    one, whole = 64 * 64 * 4, 20 * 64 * 64 * 4
    assert one <= highest < 6 * one < whole


def test_an_update_that_is_not_clipped_keeps_its_bits():
    for position in ("gradient", "update", "momentum"):
        model, plain = model_of(torch.float32), model_of(torch.float32)
        optimizer = ClippedOptimizer(MomentumSgd(model.parameters()), SpectralClipper(model, 1e9), position)
        inner = MomentumSgd(plain.parameters())
        for step in range(3):
            backward(model, step), backward(plain, step)
            optimizer.step(), inner.step()
        assert all(torch.equal(a, b) for a, b in zip(values(model), values(plain))), position


def test_a_learning_rate_of_zero_moves_nothing_and_schedules_do_not_reach_the_threshold():
    model = model_of()
    clip = SpectralClipper(model, 0.5, method="exact")
    optimizer = ClippedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), clip, "update")
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: [1.0, 0.5, 0.0, 0.1][min(step, 3)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "lr_scheduler.step() before optimizer.step()"
        for step, lr in enumerate([0.1, 0.05, 0.0, 0.01]):
            assert optimizer.param_groups[0]["lr"] == pytest.approx(lr)
            before = values(model)
            backward(model, step)
            optimizer.step()
            schedule.step()
            moved = torch.linalg.matrix_norm(model[0].weight.detach() - before[0], 2)
            assert float(moved) == pytest.approx(0.5 * lr, rel=1e-6)


def test_what_is_not_finite_is_left_as_the_optimizer_made_it():
    model, plain = model_of(), model_of()
    optimizer = ClippedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), SpectralClipper(model, 0.1), "update")
    inner = torch.optim.SGD(plain.parameters(), lr=0.1)
    for m in (model, plain):
        backward(m, 1)
        m[0].weight.grad[1, 1] = torch.nan
    optimizer.step(), inner.step()
    assert torch.equal(model[0].weight.isnan(), plain[0].weight.isnan())
    finite = ~plain[0].weight.isnan()
    assert torch.equal(model[0].weight[finite], plain[0].weight[finite])
    assert not torch.equal(model[2].weight, plain[2].weight)


def test_groups_frozen_and_skipped_parameters_and_16_bits():
    model = model_of(torch.bfloat16)
    model[2].bias.requires_grad_(False)
    clip = SpectralClipper(model, 0.25, rules=skip("0.weight"), method="exact")
    groups = [{"params": [model[0].weight], "lr": 0.5}, {"params": [*model[2].parameters(), model[0].bias]}]
    optimizer = ClippedOptimizer(torch.optim.SGD(groups, lr=0.125), clip, "update")
    before = values(model)
    backward(model, 2)
    gradient = model[0].weight.grad.clone()
    optimizer.step()
    assert torch.equal(model[0].weight, before[0] - 0.5 * gradient) and torch.equal(model[2].bias, before[3])
    moved = torch.linalg.matrix_norm((model[2].weight - before[2]).float(), 2)
    assert float(moved.detach()) == pytest.approx(0.125 * 0.25, rel=0.1)


# --- gradient and momentum ------------------------------------------------------------------------------------------


def test_gradient_is_clip_and_step():
    model, plain = model_of(), model_of()
    optimizer = ClippedOptimizer(OPTIMIZERS["adamw fused"](model.parameters()), SpectralClipper(model, Ema(0.5)))
    inner, clipper = OPTIMIZERS["adamw fused"](plain.parameters()), SpectralClipper(plain, Ema(0.5))
    for step in range(STEPS):
        backward(model, step), backward(plain, step)
        optimizer.step()
        report = clipper.step()
        inner.step()
        assert optimizer.total_norm == report.total_norm and optimizer.report.clipped == report.clipped
    assert all(torch.equal(a, b) for a, b in zip(values(model), values(plain)))


@pytest.mark.parametrize("clip", ["spectral", "global norm"])
def test_momentum_is_clipped_and_the_buffer_is_not(clip):
    """p -= lr C(B), B = 0.9 B + 0.1 G."""
    model = model_of()
    tau = 0.5
    by = SpectralClipper(model, tau, method="exact") if clip == "spectral" else GradientClipper(model, GlobalNorm(tau))
    optimizer = ClippedOptimizer(MomentumSgd(model.parameters(), lr=0.1), by, "momentum")
    buffers = [torch.zeros_like(p) for p in model.parameters()]
    expected = values(model)
    for step in range(STEPS):
        backward(model, step)
        for B, p in zip(buffers, model.parameters()):
            B.mul_(0.9).add_(p.grad, alpha=0.1)
        total = float(torch.linalg.vector_norm(torch.stack([B.norm() for B in buffers])))
        for e, B in zip(expected, buffers):
            e -= 0.1 * (by_svd(B, tau) if clip == "spectral" else B * min(1.0, tau / (total + 1e-6)))
        optimizer.step()
        assert float(optimizer.total_norm) == pytest.approx(total, rel=1e-6)
        for p, e, B in zip(model.parameters(), expected, buffers):
            assert torch.allclose(p.detach(), e, rtol=1e-9, atol=1e-12)
            assert torch.allclose(optimizer.state[p]["momentum_buffer"], B, rtol=1e-12, atol=1e-15)


def test_momentum_of_muon_is_clipped_before_it_is_orthogonalised():
    model, plain = model_of(), model_of()
    clip = SpectralClipper(model, 0.1, method="exact")
    optimizer = ClippedOptimizer(Muon(muon_param_groups(model), lr=0.02, nesterov=False), clip, "momentum")
    inner = Muon(muon_param_groups(plain), lr=0.02, nesterov=False)
    backward(model, 2), backward(plain, 2)
    plain[0].weight.grad = by_svd(0.05 * plain[0].weight.grad, 0.1)  # scale divides out
    plain[2].weight.grad = by_svd(0.05 * plain[2].weight.grad, 0.1)
    optimizer.step(), inner.step()
    assert all(torch.allclose(a, b, rtol=1e-6, atol=1e-9) for a, b in zip(values(model), values(plain)))
    assert [layer.steps for layer in clip.report()] == [1, 0, 1, 0]


# --- an optimizer in every respect ----------------------------------------------------------------------------------


@pytest.mark.parametrize("position", ["gradient", "update"])
def test_closures(position):
    def run(optimizer_of, with_closure: bool) -> tuple[list[torch.Tensor], float]:
        model = model_of()
        optimizer = ClippedOptimizer(optimizer_of(model.parameters()), SpectralClipper(model, 0.3), position)
        for step in range(3):
            if with_closure:
                loss = optimizer.step(lambda step=step: backward(model, step))
            else:
                loss = backward(model, step)
                optimizer.step()
        return values(model), float(loss)

    with_closure, without = run(OPTIMIZERS["adamw"], True), run(OPTIMIZERS["adamw"], False)
    assert all(torch.equal(a, b) for a, b in zip(with_closure[0], without[0])) and with_closure[1] == without[1]
    model = model_of()
    lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    optimizer = ClippedOptimizer(lbfgs, SpectralClipper(model, 0.2, method="exact"), position)
    before = values(model)
    optimizer.step(lambda: backward(model, 1))
    moved = [torch.linalg.matrix_norm(p.detach() - b, 2) for p, b in zip(model.parameters(), before) if b.dim() == 2]
    assert all(float(m) > 0 for m in moved)
    if position == "update":
        assert optimizer.copies_parameters and all(float(m) <= 0.1 * 0.2 * (1 + 1e-6) for m in moved)


@pytest.mark.parametrize("position", ["gradient", "update", "momentum"])
def test_a_state_continues_bit_for_bit(position, tmp_path):
    def make():
        model = model_of(torch.float32)
        return model, ClippedOptimizer(MomentumSgd(model.parameters()), SpectralClipper(model, Ema(0.9)), position)

    def train(model, optimizer, first, last):
        for step in range(first, last):
            backward(model, step)
            optimizer.step()
            optimizer.zero_grad()

    whole, optimizer = make()
    train(whole, optimizer, 0, 8)
    half, half_optimizer = make()
    train(half, half_optimizer, 0, 4)
    torch.save({"model": half.state_dict(), "optimizer": half_optimizer.state_dict()}, tmp_path / "half.pt")
    saved = torch.load(tmp_path / "half.pt", weights_only=True)
    resumed, its = make()
    resumed.load_state_dict(saved["model"])
    its.load_state_dict(saved["optimizer"])
    train(resumed, its, 4, 8)
    assert all(torch.equal(a, b) for a, b in zip(values(whole), values(resumed)))
    assert its.state_dict()["clip"] == optimizer.state_dict()["clip"]

    plain = MomentumSgd(resumed.parameters())  # each reads the other's
    plain.load_state_dict({k: v for k, v in saved["optimizer"].items() if k != "clip"})
    with pytest.warns(UserWarning, match="without a clip: thresholds start anew"):
        make()[1].load_state_dict(plain.state_dict())
    broken = make()[1]
    before = broken.state_dict()
    with pytest.raises(ValueError, match="no state of a SpectralClipper"):
        broken.load_state_dict({**saved["optimizer"], "clip": {"format": "x"}})
    assert broken.state_dict()["state"] == before["state"] == {}


def test_grad_scaler_and_a_fused_optimizer():
    """It unscales before the step, so that even a fused optimizer sees gradients that were clipped at their scale."""

    def train(scale: float):
        model = model_of(torch.float32)
        inner = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
        optimizer = ClippedOptimizer(inner, SpectralClipper(model, Ema(0.9)))
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        for step in range(5):
            generator = torch.Generator().manual_seed(step)
            optimizer.zero_grad()
            loss = model(torch.randn(12, 6, generator=generator)).square().sum()
            scaler.scale(loss * (1e38 if step == 3 and scale > 1 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
        return model, optimizer, scaler

    _, optimizer, scaler = train(2.0**10)
    assert scaler.get_scale() == 2.0**9  # the overflow of step 3 was seen and skipped
    assert optimizer.clip.steps == 4
    taus = [layer.tau for layer in optimizer.clip.report()]
    reference = [layer.tau for layer in train(1.0)[1].clip.report()]
    assert all(0.1 < a / b < 10 for a, b in zip(taus, reference))  # not 1024 times as much


def test_hooks_groups_and_copies():
    model = model_of()
    optimizer = ClippedOptimizer(torch.optim.SGD(model[0].parameters(), lr=0.1), SpectralClipper(model, 0.1), "update")
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("pre"))
    optimizer.register_step_post_hook(lambda *_: calls.append("post"))
    assert isinstance(optimizer, torch.optim.Optimizer) and not optimizer.copies_parameters
    backward(model, 0)
    before = values(model)
    optimizer.step()
    assert calls == ["pre", "post"] and torch.equal(model[2].weight, before[2])
    optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.01})
    optimizer.step()
    assert not torch.equal(model[2].weight, before[2])
    twin_model, twin = copy.deepcopy((model, optimizer))
    assert twin.param_groups[0]["params"][0] is twin_model[0].weight and twin.clip.parameters[0] is twin_model[0].weight
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    assert "position='update'" in repr(optimizer)


def test_mistakes_are_named():
    model, other = model_of(), model_of()
    inner, clip = torch.optim.SGD(model.parameters(), lr=0.1), SpectralClipper(model)
    with pytest.raises(TypeError, match=r"optimizer must be a torch\.optim\.Optimizer, not Sequential"):
        ClippedOptimizer(model, clip)
    with pytest.raises(TypeError, match=r"clip must be a SpectralClipper\(model, ...\) or.*not Soft"):
        ClippedOptimizer(inner, Soft(1.0))
    with pytest.raises(ValueError, match="position = 'updates' is none of gradient, update, momentum"):
        ClippedOptimizer(inner, clip, "updates")
    with pytest.raises(
        TypeError, match=r"needs an optimizer that shows its momentum.*of SGD the update can be clipped"
    ):
        ClippedOptimizer(inner, clip, "momentum")
    with pytest.raises(ValueError, match="none of the clipper's: both must be built from the same model"):
        ClippedOptimizer(inner, SpectralClipper(other))
    with pytest.warns(UserWarning, match=r"2 parameters of the optimizer are unknown.*of shapes \(4, 9\), \(4,\)"):
        ClippedOptimizer(inner, SpectralClipper(model[0]))
    with pytest.raises(TypeError, match="already"):
        ClippedOptimizer(ClippedOptimizer(inner, clip), clip)
    with pytest.raises(ValueError, match="keeps no state"):
        GradientClipper(model, Soft()).load_state_dict({"state": 1})
    with pytest.raises(TypeError, match="clip must be GlobalNorm"):
        GradientClipper(model, 1.0)
    with pytest.raises(ValueError, match="max_norm = -1"):
        GradientClipper(model, GlobalNorm(-1.0))

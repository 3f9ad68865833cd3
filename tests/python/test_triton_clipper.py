# SPDX-License-Identifier: Apache-2.0
"""The clipper on its kernels: thresholds, states, reports and refusals as with the core; and what a step costs in
launches, loads and stores."""

from __future__ import annotations

import copy
import io
import math
import subprocess
import sys

import pytest
import torch
from reference import EPS, spectrum, svd_clip
from torch import nn
from triton_support import clip, decaying, engine_of, field, status

import spectralclip
from spectralclip import Constant, Ema, Quantile, Rule, SpectralClipper

THRESHOLDS = {
    "constant": Constant(2.0, warmup_steps=3),
    "ema": Ema(0.9),
    "ema with limits": Ema(0.8, slack=1.2, floor=2.0, cap=3.5, warmup_steps=2, observe_zeros=True, first_step="zero"),
    "quantile": Quantile(0.85, window=7),
    "linear quantile": Quantile(0.4, window=40, interpolation="linear", slack=1.1, first_step="zero"),
}


def parameters(shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, nn.Parameter]]:
    return [(name, nn.Parameter(torch.zeros(shape))) for name, shape in shapes.items()]


def give(named: list[tuple[str, nn.Parameter]], gradients: list[torch.Tensor]) -> None:
    for (_, p), gradient in zip(named, gradients):
        p.grad = gradient.clone()


def step_both(named, clippers, gradients) -> list[tuple[object, list[torch.Tensor]]]:
    results = []
    for clipper in clippers:
        give(named, gradients)
        report = clipper.step()
        results.append((report, [p.grad for _, p in named]))
    return results


# --- thresholds


def test_a_hundred_steps_of_thresholds_equal_the_core(generator):
    """Vectors, whose sigma_max is exact: what is left is the arithmetic of the policies."""
    shapes = [(9,), (1, 6), (), (5, 1), (3,)]
    named = parameters({f"p{i}": shape for i, shape in enumerate(shapes)})
    rules = [
        Rule(f"p{i}", treatment="norm", threshold=threshold, row_axes=0)
        for i, threshold in enumerate(THRESHOLDS.values())
    ]
    clippers = [SpectralClipper(named, rules=rules, backend=backend) for backend in ("core", "triton")]
    for step in range(100):
        scale = 1 + 5 * (step % 7 == 3) + 0.1 * step
        gradients = [scale * torch.randn(p.shape, generator=generator) for _, p in named]
        if step % 11 == 5:
            gradients[0].zero_()
            gradients[2].zero_()
        (core, a), (kernels, b) = step_both(named, clippers, gradients)
        assert float(core.total_norm) == pytest.approx(float(kernels.total_norm), rel=4 * EPS[torch.float32])
        for x, y in zip(core.layers, kernels.layers):
            assert x.tau == pytest.approx(y.tau, rel=2e-6), (step, x.name)
            assert (x.steps, x.steps_clipped, x.clipped) == (y.steps, y.steps_clipped, y.clipped)
            assert x.norm_after == pytest.approx(y.norm_after, rel=2e-6)
        for x, y in zip(a, b):
            assert torch.allclose(x, y, rtol=2e-6, atol=1e-30)


def test_matrices_that_the_columns_span_equal_the_core(generator):
    """Everything is found in one pass: sigma_max is known to rounding, and so are the thresholds that learn of it."""
    named = parameters({"w": (30, 9), "v": (7, 20)})
    clippers = [SpectralClipper(named, Ema(0.9), backend=backend, method="tracked") for backend in ("core", "triton")]
    clipped = 0
    for _ in range(8):
        gradients = [torch.randn(p.shape, generator=generator) for _, p in named]
        (core, a), (kernels, b) = step_both(named, clippers, gradients)
        for x, y, G, after, mine in zip(core.layers, kernels.layers, gradients, a, b):
            assert y.sigma_max == pytest.approx(x.sigma_max, rel=1e-5) and y.clip.status == "ok"
            assert x.tau == pytest.approx(y.tau, rel=1e-5)
            assert float((after - mine).norm()) <= 2e-4 * float(G.norm())
            clipped += y.clipped
    assert clipped >= 4


# --- what a step does not do


class Memory:
    """Counts the entries of these tensors that the interpreter loads and stores."""

    def __init__(self, monkeypatch, tensors: list[torch.Tensor]) -> None:
        from triton.runtime import interpreter

        self.loads = self.stores = 0
        self.ranges = [(t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in tensors]
        real = interpreter._interpreter
        counter = self

        class Counting:
            def __getattr__(self, name):
                return getattr(real, name)

            def load(self, pointers, mask, other, dtype):
                counter.loads += counter.inside(pointers, mask)
                return real.load(pointers, mask, other, dtype)

            def store(self, pointers, value, mask):
                counter.stores += counter.inside(pointers, mask)
                return real.store(pointers, value, mask)

        monkeypatch.setattr(interpreter, "_interpreter", Counting())

    def inside(self, pointers, mask) -> int:
        addresses = pointers[mask] if mask is not None else pointers
        return sum(int(((addresses >= first) & (addresses < last)).sum()) for first, last in self.ranges)


def test_a_quiet_step_reads_once_and_writes_nothing(monkeypatch, generator):
    """An entry is loaded twice a pass, the second time as soon as its block of rows is through: from the cache."""
    G = decaying(80, 40, [0.9, 0.5], generator)
    engine = engine_of([G])
    clip(engine, [G])
    held = G.clone()
    memory = Memory(monkeypatch, [held])
    engine.launches = 0
    engine.step([held.data_ptr()])
    assert (memory.loads, memory.stores) == (2 * G.numel(), 0)
    assert field(engine, 0, "PASSES") == 1 and status(engine, 0) == "ok" and torch.equal(held, G)
    assert engine.launches == 10


def test_a_clipped_step_reads_at_most_twice_more_and_writes_once(monkeypatch, generator):
    spikes = [decaying(80, 40, [4.0, 0.5], generator) for _ in range(3)]
    engine = engine_of(spikes[:1])
    passes = set()
    for G in spikes:  # three other matrices: nothing of the last one helps
        held = G.clone()
        with monkeypatch.context() as patch:
            memory = Memory(patch, [held])
            engine.step([held.data_ptr()])
        reads = int(field(engine, 0, "PASSES"))
        passes.add(reads)
        assert reads <= 2 and field(engine, 0, "CLIPPED") == 1
        assert (memory.loads, memory.stores) == ((2 * reads + 2) * G.numel(), G.numel())
    assert 2 in passes


def test_launches_do_not_depend_on_the_number_of_matrices():
    few, many = ([torch.zeros(6 + i % 3, 5) for i in range(count)] for count in (2, 11))
    engines = [engine_of(gradients) for gradients in (few, many)]
    for engine, gradients in zip(engines, (few, many)):
        engine.launches = 0
        clip(engine, gradients)
    assert [engine.launches for engine in engines] == [10, 10]


def test_work_memory_of_gpt2_is_below_a_twentieth():
    from triton_support import options

    from spectralclip.triton import engine as engines
    from spectralclip.triton.windows import Window

    shapes = [(2304, 768), (768, 768), (3072, 768), (3072, 768)] * 12
    matrices = [engines.Matrix(str(i), m, n, 0, options(), i, torch.float32) for i, (m, n) in enumerate(shapes)]
    engine = engines.Engine(matrices, [Window(0, m, n, n, False) for m, n in shapes], torch.device("cpu"))
    assert engine.work_bytes <= 0.05 * 4 * sum(m * n for m, n in shapes)


def test_equal_bits_from_run_to_run(generator):
    gradients = [[decaying(60, 30, [3.0, 2.0], generator), decaying(30, 50, [5.0], generator)] for _ in range(2)]
    runs = []
    for _ in range(2):
        engine = engine_of(gradients[0])
        runs.append([clip(engine, step) for step in gradients] + [[engine.state, engine.V, engine.report]])
    for one, other in zip(*runs):
        assert all(torch.equal(a, b) for a, b in zip(one, other))


def test_shards_of_rows_that_add_up_their_sums_clip_as_one(generator):
    """The packed buffer of two halves, added between the two halves of reduce, as one all_reduce would."""
    G = decaying(90, 40, [3.0, 2.0], generator)
    halves = [G[:50].contiguous(), G[50:].contiguous()]
    engines = [engine_of([half]) for half in halves]
    copies = [half.clone() for half in halves]
    for engine, half in zip(engines, copies):
        engine.V.copy_(engines[0].V)
        engine._layers[:, 0].clamp_(min=half.shape[0])
        engine._point_at([half.data_ptr()])
    for number in range(2):
        for engine in engines:
            engine.run_pass(number)
            engine.reduce(number, add=True, multiply=False)
        total = engines[0].sums + engines[1].sums
        for engine in engines:
            engine.sums.copy_(total)
            engine.reduce(number, add=False, multiply=True)
            engine.decide(number)
    for engine in engines:
        engine.update()
    assert torch.equal(engines[0].V, engines[1].V)
    exact = svd_clip(G, 1.0)
    assert float((torch.cat(copies).double() - exact).norm()) <= 1e-3 * float((G.double() - exact).norm())


# --- states


def test_a_resumed_run_continues_with_equal_bits(generator):
    """Killed after three steps; and the same bytes warm a clipper on the core."""
    named = parameters({"w": (40, 24), "b": (24,)})
    threshold = Quantile(0.5, window=3)
    first = SpectralClipper(named, threshold, backend="triton")
    sizes = [1.0, 3.0, 2.0, 4.0, 1.5]
    steps = [[s * decaying(40, 24, [1.0, 0.8], generator), torch.randn(24, generator=generator)] for s in sizes]
    for gradients in steps[:3]:
        give(named, gradients)
        first.step()
    saved = io.BytesIO()
    torch.save(first.state_dict(), saved)
    saved.seek(0)
    state = torch.load(saved, weights_only=True)
    resumed = SpectralClipper(named, threshold, backend="triton")
    resumed.load_state_dict(state)
    core = SpectralClipper(named, threshold, backend="core")
    core.load_state_dict(state)
    twin = copy.deepcopy(first)
    for gradients in steps[3:]:
        (report, mine), (other, theirs), (on_core, _) = step_both(named, [first, resumed, core], gradients)
        for a, b in zip(mine, theirs):
            assert torch.equal(a, b)
        assert [x.clip for x in report.layers] == [x.clip for x in other.layers]
        assert [x.steps for x in report.layers] == [x.steps for x in other.layers] == [x.steps for x in on_core.layers]
        assert [x.tau for x in on_core.layers] == pytest.approx([x.tau for x in report.layers], rel=1e-4)
        give([("w", twin.parameters[0]), ("b", twin.parameters[1])], gradients)
        twin.step()
        assert all(torch.equal(a, p.grad) for a, p in zip(mine, twin.parameters))
    assert first.steps == resumed.steps == core.steps == 5


def test_parameters_that_come_later_start_then(generator):
    named = parameters({"a": (5,), "b": (4,)})
    clipper = SpectralClipper(named[:1], Ema(0.9), backend="triton")
    for _ in range(2):
        give(named, [torch.randn(5, generator=generator), torch.randn(4, generator=generator)])
        clipper.step()
    assert clipper.add_parameters(named[1:]) == ["b"]
    give(named, [torch.randn(5, generator=generator), torch.randn(4, generator=generator)])
    report = clipper.step()
    assert [layer.steps for layer in report.layers] == [3, 1]
    named[0][1].grad = None
    report = clipper.step()
    assert [layer.steps for layer in report.layers] == [3, 2] and report.layers[0].clip is None


# --- tensors as models have them


def test_stacks_convolutions_and_layouts(generator):
    """Experts, channels_last, a view that needs a working copy, and a skipped embedding that is only measured."""
    shapes = {"experts": (3, 12, 8), "conv": (6, 4, 3, 3), "odd": (10, 4, 6), "wte": (11, 4)}
    named = parameters(shapes)
    rules = [Rule("experts", batch_axes=1), Rule("odd", row_axes=2)]
    clipper = SpectralClipper(named, 0.5, rules=rules, backend="triton")
    gradients = [torch.randn(shape, generator=generator) for shape in shapes.values()]
    for (_, p), gradient in zip(named, gradients):
        p.grad = gradient.clone()
    named[1][1].grad = gradients[1].to(memory_format=torch.channels_last)
    named[2][1].grad = gradients[2].permute(2, 0, 1).contiguous().permute(1, 2, 0)
    report = clipper.step()
    assert [layer.treatment for layer in report.layers] == ["spectral"] * 5 + ["skip"]
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
    assert float(report.total_norm) == pytest.approx(norm, rel=1e-6)
    assert torch.equal(named[3][1].grad, gradients[3])
    matrices = [*gradients[0], gradients[1].reshape(6, -1), gradients[2].reshape(40, 6)]
    afters = [*named[0][1].grad, named[1][1].grad.reshape(6, -1), named[2][1].grad.reshape(40, 6)]
    for G, after, layer in zip(matrices, afters, report.layers):
        exact = svd_clip(G, 0.5)
        assert layer.clip.status == "ok", layer
        assert float((after.double() - exact).norm()) <= 1e-3 * float((G.double() - exact).norm()), layer.name


def test_non_finite_gradients_as_asked_for(generator):
    shapes = {"a": (5,), "b": (12, 8)}

    def gradients() -> list[torch.Tensor]:
        bad = torch.randn(5, generator=generator)
        bad[1] = float("nan")
        return [bad, 10 * torch.randn(12, 8, generator=generator)]

    for how in ("leave_layer", "leave_all", "raise"):
        named = parameters(shapes)
        clipper = SpectralClipper(named, 1.0, backend="triton", on_nonfinite=how)
        given = gradients()
        give(named, given)
        if how == "raise":
            with pytest.raises(RuntimeError, match="gradients of a are not finite"):
                clipper.step()
        else:
            report = clipper.step()
            assert report.not_finite == ["a"] and not bool(torch.isfinite(report.total_norm))
            assert report.clipped == (["b"] if how == "leave_layer" else [])
        assert torch.equal(named[1][1].grad, given[1]) == (how != "leave_layer")


def test_observing_writes_nothing(generator):
    named = parameters({"w": (20, 12)})
    clipper = SpectralClipper(named, 0.5, backend="triton", observe_only=True)
    G = torch.randn(20, 12, generator=generator)
    give(named, [G])
    report = clipper.step()
    assert (
        report.clipped == ["w"] and torch.equal(named[0][1].grad, G) and report.layers[0].norm_after < float(G.norm())
    )


# --- stateless


def test_functions_without_a_memory(generator):
    batch = torch.stack([spectrum(16, 10, [3.0, 2.0, 0.5], generator, torch.float32) for _ in range(2)])
    clipped, reports = spectralclip.clip_singular_values(batch, 1.0, backend="triton")
    for G, after, report in zip(batch, clipped, reports):
        assert report.status == "ok" and report.clipped == 2
        assert float((after.double() - svd_clip(G, 1.0)).norm()) < 1e-4
    w, b = nn.Parameter(torch.zeros(40, 40)), nn.Parameter(torch.zeros(5))
    w.grad, b.grad = spectrum(40, 40, [3 * 0.97**i for i in range(40)], generator, torch.float32), torch.ones(5)
    exact = svd_clip(w.grad, 1.0)  # more above than columns: finished by a dense method
    norm = spectralclip.clip_grad_spectral_([w, b], 1.0, backend="triton")
    assert float(norm) == pytest.approx(
        math.sqrt(float(torch.sum((3 * 0.97 ** torch.arange(40.0)) ** 2)) + 5), rel=1e-5
    )
    assert float((w.grad.double() - exact).norm()) < 1e-3 and float(b.grad.norm()) == pytest.approx(1.0)


# --- refusals


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "gram"}, 'method = "gram"'),
        ({"method": "sketched"}, "sketched"),
        ({"max_columns": 32}, "device_columns = 16 or 32"),
        ({"max_passes": 7}, "max_passes = 7"),
        ({"rank": 13}, "rank = 13"),
        ({"exhausted": "go_exact"}, "go_exact"),
        ({"device_columns": 24}, "device_columns = 24"),
        ({"threshold": Quantile(0.5, window=2000)}, "window of 2000"),
    ],
)
def test_what_cannot_be_honoured_is_refused_when_the_clipper_is_made(given, says):
    with pytest.raises(ValueError, match=says):
        SpectralClipper([nn.Parameter(torch.zeros(40, 30))], backend="triton", **given)


def test_gradients_without_kernels_are_refused_by_name():
    p = nn.Parameter(torch.zeros(4, 3, dtype=torch.float64))
    p.grad = torch.ones_like(p)
    with pytest.raises(ValueError, match=r'parameter "0": .*float64'):
        SpectralClipper([p], backend="triton").step()


def test_thirty_two_columns_lower_more_at_once(generator):
    """And `device_columns` is refused where nobody looks at it."""
    G = spectrum(60, 50, [3.0 * 0.95**i for i in range(18)] + [0.05] * 20, generator, torch.float32)
    p = nn.Parameter(torch.zeros(60, 50))
    p.grad = G.clone()
    clipper = SpectralClipper([p], 1.0, backend="triton", device_columns=32)
    layer = clipper.step().layers[0]
    assert layer.clipped == 18 and layer.clip.columns == 32 and layer.clip.status == "ok"
    assert float((p.grad.double() - svd_clip(G, 1.0)).norm()) <= 1e-3 * float((p.grad - G).norm())
    with pytest.raises(ValueError, match="device_columns"):
        SpectralClipper([p], 1.0, backend="core", device_columns=32)


def test_triton_is_not_imported_before_it_is_asked_for():
    """Nor does a clipper on the CPU need it."""
    code = "import sys, torch, spectralclip; spectralclip.SpectralClipper([torch.zeros(3, 3)]); " + (
        "assert not any(name.startswith(('triton', 'spectralclip.triton')) for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

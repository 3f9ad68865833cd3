# SPDX-License-Identifier: Apache-2.0
"""Every kind of gradient has a stated behaviour: types, shapes, strides, tied and frozen and sparse ones, NaN and Inf,
late parameters, wrapped names, groups, and what is refused."""

from __future__ import annotations

import math
import re

import pytest
import torch
from reference import EPS, bits, clip_tolerance, distance, promised, spectrum, svd_clip
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import spectralclip
from spectralclip import Constant, Ema, Quantile, Rule, SpectralClipper, clip_singular_values_

BACKENDS = pytest.mark.parametrize("backend", ["core", "aten"])
TAU = 1.0
CLIPPER_STEP = torch.ops.spectralclip.clipper_step_.default


def with_gradient(G: torch.Tensor) -> nn.Parameter:
    p = nn.Parameter(torch.zeros_like(G))
    p.grad = G
    return p


def clipped(G: torch.Tensor, tau: float = TAU, **options) -> torch.Tensor:
    """The gradient G (kept) after one step of a clipper of its own."""
    p = with_gradient(G.clone())  # clone keeps the strides of dense tensors
    SpectralClipper([("w", p)], tau, **{"method": "exact", **options}).step()
    return p.grad


def assert_exact(result: torch.Tensor, G: torch.Tensor, tau: float = TAU) -> None:
    M = G.reshape(G.shape[0], -1)
    assert float(torch.linalg.matrix_norm(M.double(), 2)) > 1.5 * tau
    assert distance(result.reshape(M.shape), svd_clip(M, tau)) <= clip_tolerance(M, tau)


class Recorded(TorchDispatchMode):
    """Names of the operators that a step calls, below the step itself."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function._schema.name)
        return function(*args, **(kwargs or {}))


def operators_of_a_step(clipper: SpectralClipper, gradients: list[torch.Tensor]) -> list[str]:
    with Recorded() as recorded:
        CLIPPER_STEP._op_dk(
            torch._C.DispatchKey.CompositeExplicitAutograd, clipper._handle, gradients, list(range(len(gradients)))
        )
    return recorded.names


COPIES = {"aten::clone", "aten::copy_", "aten::_to_copy", "aten::contiguous"}

# --- types ----------------------------------------------------------------------------------------------------------


@BACKENDS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("method", ["exact", "gram", "tracked", "sketched", "newton_schulz", "auto"])
def test_every_type_is_clipped_in_its_own_storage(dtype, method, backend, generator):
    G = spectrum(24, 17, [6.0, 3.0, 2.0, 0.7, 0.3], generator, dtype)
    result = clipped(G, method=method, backend=backend)
    assert result.dtype == dtype
    # Subspace methods stop at what they promise, dense ones at rounding.
    sought = promised(G, TAU, method)
    work_type = torch.float64 if dtype == torch.float64 else torch.float32
    work = 4 * G.shape[0] ** 0.5 * EPS[work_type] * float(G.double().norm())
    assert distance(result, svd_clip(G, TAU)) <= clip_tolerance(G, TAU) + sought + work


@BACKENDS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bit_gradients_of_the_largest_size_do_not_overflow(dtype, backend):
    top = 2.0**15 if dtype == torch.float16 else 2.0**120
    G = torch.full((8, 8), top, dtype=dtype)
    result = clipped(G, tau=top, backend=backend)  # rank one: sigma_max = 8 top
    assert distance(result / top, torch.full((8, 8), 1 / 8)) <= clip_tolerance(G / top, 1.0)


@BACKENDS
def test_complex_gradients_are_refused_with_their_name(backend):
    p = with_gradient(torch.randn(3, 3, dtype=torch.complex64))
    before = bits(torch.view_as_real(p.grad))
    with pytest.raises(ValueError, match=r'"layer\.w".*ComplexFloat; float32, float64, bfloat16 and float16'):
        SpectralClipper([("layer.w", p)], backend=backend).step()
    assert bits(torch.view_as_real(p.grad)) == before


# --- shapes ---------------------------------------------------------------------------------------------------------


@BACKENDS
def test_scalars_and_vectors_are_clipped_by_norm(backend):
    scalar, vector = torch.tensor(-4.0), torch.randn(50)
    assert float(clipped(scalar, backend=backend)) == pytest.approx(-TAU, rel=2 * EPS[torch.float32])
    assert_exact(clipped(vector, backend=backend), vector)
    small = vector * 0.01
    assert bits(clipped(small, backend=backend)) == bits(small)


@BACKENDS
def test_convolutions_are_out_by_rest(backend):
    G = torch.randn(6, 5, 3, 3)
    result = clipped(G, backend=backend)
    assert_exact(result, G)
    p = with_gradient(G)
    assert SpectralClipper([p], TAU).report()[0].shape == (6, 45)


@BACKENDS
@pytest.mark.parametrize("method", ["exact", "tracked"])
def test_channels_last_equals_contiguous_and_keeps_storage_and_strides(method, backend):
    G = torch.randn(6, 5, 3, 3)
    p = with_gradient(G.clone(memory_format=torch.channels_last))
    pointer, strides = p.grad.data_ptr(), p.grad.stride()
    assert strides != G.stride()
    SpectralClipper([("w", p)], TAU, method=method, backend=backend).step()
    assert p.grad.data_ptr() == pointer and p.grad.stride() == strides
    # The columns are permuted: the same numbers up to the order of sums, and to what tracked promises.
    slack = 2 * promised(G.reshape(6, 45), TAU, method)
    error = distance(p.grad.reshape(6, 45), clipped(G, method=method, backend=backend).reshape(6, 45))
    assert error <= 2 * clip_tolerance(G.reshape(6, 45), TAU) + slack


def test_channels_last_goes_without_a_copy_and_transposed_does_not():
    """What operators the core's step calls: none that copies, but for strides that leave no rows (the control)."""
    convolution = torch.randn(6, 5, 3, 3).to(memory_format=torch.channels_last)
    gradients = [convolution, torch.randn(8, 6)[:, :5], torch.randn(4, 4)]
    assert not gradients[0].is_contiguous() and not gradients[1].is_contiguous()
    clipper = SpectralClipper([torch.zeros_like(g) for g in gradients], TAU, method="exact")
    assert not COPIES & set(operators_of_a_step(clipper, gradients))
    assert all(layer.clipped > 0 for layer in clipper.report())
    turned = torch.randn(5, 8).t()
    control = SpectralClipper([torch.zeros(8, 5)], TAU, method="exact")
    assert COPIES & set(operators_of_a_step(control, [turned]))


STRIDED = {
    "transposed": lambda: torch.randn(7, 9).t(),
    "rows of a larger matrix": lambda: torch.randn(9, 20)[:, :7],
    "every other column": lambda: torch.randn(9, 14)[:, ::2],
    "every other row": lambda: torch.randn(18, 7)[::2],
    "permuted convolution": lambda: torch.randn(3, 3, 7, 9).permute(3, 2, 0, 1),
    "every other entry": lambda: torch.randn(30)[::2],
}


@BACKENDS
@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED)
def test_strided_gradients_are_written_where_they_are(make, backend):
    p = nn.Parameter(torch.zeros(make().shape))
    G = make()
    whole = torch.as_strided(G, (G.untyped_storage().nbytes() // 4,), (1,), 0)
    before, values, strides = whole.clone(), G.clone(), G.stride()
    p.grad = G
    SpectralClipper([p], TAU, method="exact", backend=backend).step()
    assert p.grad.data_ptr() == G.data_ptr() and p.grad.stride() == strides
    assert_exact(p.grad, values)
    G.copy_(values)  # put back: nothing around it may have changed
    assert bits(whole) == bits(before)


@BACKENDS
def test_strided_gradients_below_tau_are_not_written(backend):
    G = 1e-3 * torch.randn(7, 9).t()
    p = nn.Parameter(torch.zeros(9, 7))
    p.grad = G.clone(memory_format=torch.preserve_format)
    SpectralClipper([p], TAU, method="exact", backend=backend).step()
    assert bits(p.grad) == bits(G)


@BACKENDS
def test_expert_stacks_are_separate_matrices_by_rule(backend):
    G = torch.stack([torch.randn(8, 6) * scale for scale in (0.01, 1.0, 5.0)])
    p = with_gradient(G.clone())
    rules = [Rule("*.experts.*", batch_axes=1, label="experts")]
    clipper = SpectralClipper([("mlp.experts.w", p)], TAU, method="exact", rules=rules, backend=backend)
    report = clipper.step()
    assert [layer.name for layer in report.layers] == [f"mlp.experts.w[{i}]" for i in range(3)]
    assert {layer.parameter for layer in report.layers} == {"mlp.experts.w"}
    assert {layer.rule for layer in report.layers} == {"experts"}
    assert {layer.shape for layer in report.layers} == {(8, 6)}
    assert bits(p.grad[0]) == bits(G[0])
    for i in (1, 2):
        assert_exact(p.grad[i], G[i])
    # Without the rule the stack is one (3, 48) matrix: another result, so the rule did something.
    assert distance(clipped(G, backend=backend), p.grad) > 0.1


@BACKENDS
def test_row_axes_choose_the_matrix(backend):
    G = torch.randn(4, 3, 5, 2)
    p = with_gradient(G.clone())
    SpectralClipper([("w", p)], TAU, method="exact", rules=[Rule("w", row_axes=2)], backend=backend).step()
    assert distance(p.grad.reshape(12, 10), svd_clip(G.reshape(12, 10), TAU)) <= clip_tolerance(G.reshape(12, 10), TAU)


@BACKENDS
def test_parameters_without_entries_are_ignored(backend):
    empty, p = with_gradient(torch.zeros(0, 4)), with_gradient(torch.randn(4, 4))
    G = p.grad.clone()
    clipper = SpectralClipper([("empty", empty), ("w", p)], TAU, method="exact", backend=backend)
    report = clipper.step()
    assert [layer.name for layer in report.layers] == ["w"]
    assert_exact(p.grad, G)


# --- tied, frozen, absent, sparse -----------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5, bias=False)
        self.second.weight = self.first.weight


@BACKENDS
def test_tied_weights_are_clipped_once_under_their_first_name(backend):
    model = Tied()
    G = torch.randn(5, 5)
    model.first.weight.grad = G.clone()
    for source in (model, list(model.named_parameters(remove_duplicate=False))):
        model.first.weight.grad = G.clone()
        clipper = SpectralClipper(source, TAU, method="exact", backend=backend)
        report = clipper.step()
        assert [layer.name for layer in report.layers] == ["first.weight", "first.bias"]
        assert report.layers[0].steps == 1
        assert_exact(model.second.weight.grad, G)
        assert float(report.total_norm) == pytest.approx(float(G.norm()), rel=8 * EPS[torch.float32])


@BACKENDS
def test_parameters_without_gradient_do_not_advance(backend):
    frozen, p = nn.Parameter(torch.ones(3, 3), requires_grad=False), nn.Parameter(torch.zeros(3, 3))
    clipper = SpectralClipper([("frozen", frozen), ("w", p)], Ema(0.9), method="exact", backend=backend)
    for _ in range(3):
        p.grad = torch.randn(3, 3)
        report = clipper.step()
    assert [layer.steps for layer in report.layers] == [0, 3]
    assert report.layers[0].clip is None and math.isnan(report.layers[0].sigma_max)
    frozen.requires_grad_(True)  # thawed: its threshold starts now
    frozen.grad = 10 * torch.randn(3, 3)
    G = frozen.grad.clone()
    report = clipper.step()
    assert torch.equal(frozen.grad, G) and math.isinf(report.layers[0].tau)
    assert [layer.steps for layer in report.layers] == [1, 4]


@BACKENDS
def test_a_step_without_any_gradient_reports_none(backend):
    p = with_gradient(torch.randn(4, 4))
    clipper = SpectralClipper([p], TAU, backend=backend)
    assert clipper.step().layers[0].clip is not None
    p.grad = None
    report = clipper.step()
    assert report.layers[0].clip is None and report.clipped == []
    assert torch.equal(report.total_norm, torch.tensor(0.0))
    assert report.layers[0].steps == 1 and clipper.steps == 2


@BACKENDS
def test_a_gradient_that_comes_and_goes_reports_only_its_own_steps(backend):
    a, b = nn.Parameter(torch.zeros(4, 4)), nn.Parameter(torch.zeros(4, 4))
    clipper = SpectralClipper([("a", a), ("b", b)], Ema(0.9), method="exact", backend=backend)
    alone = SpectralClipper([("b", b)], Ema(0.9), method="exact", backend=backend)
    stream = [torch.randn(4, 4) * scale for scale in (1.0, 2.0, 0.5, 3.0, 1.5)]
    for step, G in enumerate(stream):
        a.grad = torch.randn(4, 4)
        b.grad = G.clone() if step % 2 == 0 else None
        layers = {layer.name: layer for layer in clipper.step().layers}
        assert (layers["b"].clip is None) == (step % 2 == 1)
        if step % 2 == 0:
            here = b.grad
            b.grad = G.clone()
            other = alone.step().layers[0]
            assert layers["b"].tau == other.tau and layers["b"].steps == other.steps
            assert bits(here) == bits(b.grad)
    assert layers["a"].steps == 5 and layers["b"].steps == 3


@BACKENDS
def test_sparse_gradients_are_skipped_and_say_so(backend):
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 3))
    model(torch.tensor([1, 2, 2])).square().sum().backward()
    assert model[0].weight.grad.is_sparse
    before, dense = model[0].weight.grad.clone(), [p.grad.clone() for p in model[1].parameters()]
    # A rule that would clip embeddings: it is the layout that decides.
    clipper = SpectralClipper(model, 1e-3, method="exact", rules=[Rule("0.weight")], backend=backend)
    report = clipper.step()
    layer = report.layers[0]
    assert layer.rule == "sparse gradient: skipped" and layer.clipped == 0 and layer.steps == 0
    assert layer.norm_before == pytest.approx(float(before.to_dense().norm()), rel=8 * EPS[torch.float32])
    assert torch.equal(model[0].weight.grad.to_dense(), before.to_dense())
    assert report.clipped == ["1.weight", "1.bias"]
    expected = math.sqrt(sum(float(g.double().norm()) ** 2 for g in [*dense, before.to_dense()]))
    assert float(report.total_norm) == pytest.approx(expected, rel=8 * EPS[torch.float32])
    # A dense gradient later is clipped, and the rule that does it is named again.
    model[0].weight.grad = before.to_dense()
    layer = clipper.step().layers[0]
    assert layer.rule != "sparse gradient: skipped" and layer.clipped > 0 and layer.steps == 1


@BACKENDS
def test_embeddings_are_skipped_by_type_and_by_name_and_can_be_asked_for(backend):
    model = nn.ModuleDict({"tokens": nn.Embedding(6, 4), "bag": nn.EmbeddingBag(6, 4), "lm_head": nn.Linear(4, 6)})
    for p in model.parameters():
        p.grad = 10 * torch.randn_like(p)
    before = [bits(p.grad) for p in model.parameters()]
    report = SpectralClipper(model, 1e-3, backend=backend).step()
    assert [layer.rule for layer in report.layers][:3] == ["embedding by type: skipped"] * 2 + ["head by name: skipped"]
    assert [bits(p.grad) for p in model.parameters()] == before
    report = SpectralClipper(model, 1e-3, rules=[Rule("tokens.weight", label="mine")], backend=backend).step()
    assert report.layers[0].rule == "mine" and report.clipped == ["tokens.weight"]


# --- NaN and Inf ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[math.nan, math.inf, -math.inf], ids=["nan", "inf", "-inf"])
def poisoned(request):
    """Three layers, the middle one with a bad entry; and what they were."""
    p = [with_gradient(3 * torch.randn(5, 5)) for _ in range(3)]
    p[1].grad[4, 4] = request.param
    return p, [x.grad.clone() for x in p]


@BACKENDS
@pytest.mark.parametrize("method", ["exact", "tracked", "gram", "sketched", "newton_schulz"])
def test_leave_layer_leaves_that_layer_and_its_threshold(poisoned, backend, method):
    p, before = poisoned
    clipper = SpectralClipper([("a", p[0]), ("b", p[1]), ("c", p[2])], Ema(0.9), method=method, backend=backend)
    for x, G in zip(p, before):
        x.grad = torch.nan_to_num(G, 0.0, 0.0, 0.0) * 0.1
    clipper.step()  # tau is now known
    for x, G in zip(p, before):
        x.grad = G.clone()
    report = clipper.step()
    assert report.not_finite == ["b"] and report.clipped == ["a", "c"]
    assert bits(p[1].grad) == bits(before[1])
    assert not math.isfinite(report.total_norm)
    tau = report.layers[1].tau
    assert [layer.steps for layer in report.layers] == [2, 1, 2]
    p[1].grad = torch.randn(5, 5)
    again = clipper.step().layers[1]
    assert again.tau == tau and again.status == "ok" and again.steps == 2  # it learnt nothing, and goes on


@BACKENDS
def test_leave_all_touches_nothing_and_learns_nothing(poisoned, backend):
    p, before = poisoned
    clipper = SpectralClipper(p, Ema(0.9), method="exact", on_nonfinite="leave_all", backend=backend)
    for x in p:
        x.grad = torch.eye(5)
    clipper.step()
    for x, G in zip(p, before):
        x.grad = G.clone()
    report = clipper.step()
    assert [bits(x.grad) for x in p] == [bits(G) for G in before]
    assert report.not_finite == ["1"] and report.clipped == []
    assert not math.isfinite(report.total_norm)
    assert [layer.steps for layer in report.layers] == [1, 1, 1]
    for x in p:
        x.grad = 3 * torch.eye(5)
    report = clipper.step()
    assert report.clipped == ["0", "1", "2"]
    assert [layer.tau for layer in report.layers] == pytest.approx([1.0] * 3, rel=16 * EPS[torch.float64])


@BACKENDS
def test_raise_raises_before_anything_is_touched(poisoned, backend):
    p, before = poisoned
    clipper = SpectralClipper(
        [("a", p[0]), ("bad.one", p[1]), ("c", p[2])], 1e-3, method="exact", on_nonfinite="raise", backend=backend
    )
    with pytest.raises(RuntimeError, match=re.escape("bad.one")):
        clipper.step()
    assert [bits(x.grad) for x in p] == [bits(G) for G in before]
    p[1].grad = torch.ones(5, 5)
    assert clipper.step().clipped == ["a", "bad.one", "c"]  # and it can go on


# --- late parameters, wrapped names, groups -------------------------------------------------------------------------


@BACKENDS
def test_parameters_added_later_start_their_own_thresholds(backend):
    model = nn.Sequential(nn.Linear(4, 4))
    clipper = SpectralClipper(model, Ema(0.9), method="exact", backend=backend)
    model[0].weight.grad = torch.eye(4)
    clipper.step()
    model.append(nn.Linear(4, 3))
    assert clipper.add_parameters() == ["1.weight", "1.bias"]
    assert clipper.add_parameters() == []
    model[0].weight.grad, model[1].weight.grad = 5 * torch.eye(4), 5 * torch.ones(3, 4)
    report = clipper.step()
    assert report.clipped == ["0.weight"]  # its tau is 1; the new one has none yet
    assert torch.equal(model[1].weight.grad, 5 * torch.ones(3, 4))
    model[1].weight.grad = 50 * torch.ones(3, 4)
    assert clipper.step().clipped == ["1.weight"]


def test_a_refused_addition_changes_nothing():
    p, q = with_gradient(torch.randn(4, 4)), with_gradient(torch.randn(4, 4))
    clipper = SpectralClipper([("w", p)], TAU, method="exact")
    with pytest.raises(ValueError, match='two parameters are called "w"'):
        clipper.add_parameters([("w", q)])
    G, H = p.grad.clone(), q.grad.clone()
    report = clipper.step()
    assert [layer.name for layer in report.layers] == ["w"]
    assert_exact(p.grad, G)
    assert torch.equal(q.grad, H)
    assert clipper.add_parameters([("v", q)]) == ["v"]
    assert [layer.name for layer in clipper.step().layers] == ["w", "v"]


class Wrapper(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@pytest.mark.parametrize("method", ["tracked", "sketched"])
def test_states_load_across_wrapping_and_continue_bit_for_bit(method):
    """plain -> DDP-like `module.` -> torch.compile's `_orig_mod.`: the same layers, the same random columns."""
    stream = [torch.randn(12, 10) * (1 + 5 * (i % 3 == 2)) for i in range(9)]

    def run(wrappers):
        layer = nn.Linear(10, 12, bias=False)
        results, state = [], None
        for first, wrap in zip((0, 3, 6), wrappers):
            model = wrap(layer)
            clipper = SpectralClipper(model, Quantile(0.5, window=4), method=method)
            if state is not None:
                clipper.load_state_dict(state)
            for G in stream[first : first + 3]:
                layer.weight.grad = G.clone()
                report = clipper.step()
                results.append((report.layers[0].name, report.layers[0].tau, bits(layer.weight.grad)))
            state = clipper.state_dict()
        return results

    plain = run([lambda m: m] * 3)
    wrapped = run([lambda m: m, Wrapper, lambda m: torch.compile(Wrapper(m))])
    assert plain == wrapped
    assert len({tau for _, tau, _ in plain}) > 3  # thresholds moved: an idle clipper would agree with anything


def test_rules_may_be_written_for_either_name():
    p = with_gradient(torch.randn(4, 4))
    for pattern in ("module.fc.weight", "fc.weight"):
        (layer,) = SpectralClipper([("module.fc.weight", p)], rules=spectralclip.skip(pattern)).report()
        assert (layer.treatment, layer.name, layer.parameter) == ("skip", "fc.weight", "module.fc.weight")


@BACKENDS
def test_groups_have_settings_of_their_own(backend):
    a, b, c = (with_gradient(torch.randn(6, 6)) for _ in range(3))
    before = [x.grad.clone() for x in (a, b, c)]
    groups = [
        {"params": [a], "threshold": 0.5, "lr": 0.1},
        {"params": [("named", b)], "threshold": Constant(0.25), "method": "gram"},
        {"params": [c], "names": ["third"], "weight_decay": 0.0},
    ]
    report = SpectralClipper(groups, 0.125, method="exact", backend=backend).step()
    assert [layer.name for layer in report.layers] == ["0.0", "named", "third"]
    assert [layer.tau for layer in report.layers] == [0.5, 0.25, 0.125]
    assert [layer.clip.method for layer in report.layers] == ["exact", "gram", "exact"]
    for x, G, tau in zip((a, b, c), before, (0.5, 0.25, 0.125)):
        assert_exact(x.grad, G, tau)


def test_groups_of_an_optimizer_may_be_given_as_they_are():
    """Whatever optimizers and schedulers of torch keep in them."""
    model = nn.Linear(4, 3)
    makers = [c for c in vars(torch.optim).values() if isinstance(c, type) and issubclass(c, torch.optim.Optimizer)]
    makers = [c for c in makers if c not in (torch.optim.Optimizer, torch.optim.Muon)]  # Muon takes matrices only
    assert len(makers) >= 12
    refused = {}
    for make in makers:
        optimizer = make(model.parameters(), lr=0.1)
        if make is torch.optim.SGD:
            optimizer = make(model.parameters(), lr=0.1, momentum=0.9)
            torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=9)
            torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05)
            assert {"max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr"} <= set(optimizer.param_groups[0])
        try:
            assert len(SpectralClipper(optimizer.param_groups).report()) == 2, make
        except ValueError as error:
            refused[make.__name__] = str(error)
    assert not refused
    named = torch.optim.SGD(model.named_parameters(), lr=0.1)
    assert [layer.name for layer in SpectralClipper(named.param_groups).report()] == ["weight", "bias"]


def test_rules_may_bring_thresholds_and_options():
    p, q = with_gradient(torch.randn(5, 5)), with_gradient(torch.randn(5, 5))
    rules = [Rule("q", threshold=0.25, clip={"method": "gram"})]
    report = SpectralClipper([("p", p), ("q", q)], 0.5, method="exact", rules=rules).step()
    assert [(layer.tau, layer.clip.method) for layer in report.layers] == [(0.5, "exact"), (0.25, "gram")]


@BACKENDS
def test_observe_only_measures_and_writes_nothing(backend):
    for make in (lambda: torch.randn(6, 5), lambda: torch.randn(5, 6).t(), lambda: torch.randn(6)):
        G = make()
        p = nn.Parameter(torch.zeros(G.shape))
        p.grad = G
        before, clipper = bits(G), SpectralClipper([p], 0.1, method="exact", observe_only=True, backend=backend)
        layer = clipper.step().layers[0]
        assert bits(p.grad) == before
        expected = float(torch.linalg.matrix_norm(G.double().reshape(G.shape[0], -1), 2))
        assert layer.clipped > 0 and layer.sigma_max == pytest.approx(expected, rel=8 * EPS[torch.float32])


# --- inside backward ------------------------------------------------------------------------------------------------


def test_hooks_clip_inside_backward_as_step_does_after_it():
    torch.manual_seed(3)
    stepped, hooked = nn.Linear(6, 5), nn.Linear(6, 5)
    hooked.load_state_dict(stepped.state_dict())
    one, other = (SpectralClipper(m, Ema(0.9), method="tracked") for m in (stepped, hooked))
    other.hook_each_parameter()
    with pytest.raises(RuntimeError, match="clip them twice"):
        other.step()
    for i in range(6):
        x = torch.randn(4, 6) * (1 + 4 * (i % 3 == 2))
        for model in (stepped, hooked):
            model.zero_grad()
            model(x).square().sum().backward()
        one.step()
        assert [bits(p.grad) for p in stepped.parameters()] == [bits(p.grad) for p in hooked.parameters()]
    assert one.report()[0].steps_clipped > 0
    other.remove_hooks()
    assert other.step().step == 1


# --- misuse: ValueError that names the value and what is allowed ----------------------------------------------------

REFUSED = {
    "method": (dict(method="exac"), r'method = "exac" is not exact, gram, sketched, tracked, newton_schulz, auto'),
    "rank": (dict(rank=0), r"rank = 0"),
    "oversampling": (dict(oversampling=-1), r"oversampling = -1"),
    "power_passes": (dict(power_passes=17), r"power_passes = 17.*16"),
    "tolerance": (dict(tolerance=1.5), r"tolerance = 1.5.*\(0, 1\)"),
    "margin": (dict(margin=0.2), r"margin = 0.2.*\(0, 0.1\]"),
    "max_passes": (dict(max_passes=0), r"max_passes = 0.*\[1, 64\]"),
    "max_columns": (dict(max_columns=4), r"max_columns = 4.*\[8, 512\]"),
    "exhausted": (dict(exhausted="retry"), r'exhausted = "retry" is not go_exact, report, auto'),
    "seed": (dict(seed=-1), r'seed = "?-1'),
    "on_nonfinite": (dict(on_nonfinite="ignore"), r'on_nonfinite = "ignore" is none of leave_layer, leave_all, raise'),
    "backend": (dict(backend="gpu"), r'backend "gpu" is none of auto, core, aten'),
    "tau": (dict(threshold=-0.5), r"tau = -0.5"),
    "tau nan": (dict(threshold=math.nan), r"tau = nan"),
    "decay": (dict(threshold=Ema(1.0)), r"decay = 1 must lie in \(0, 1\)"),
    "quantile": (dict(threshold=Quantile(1.5)), r"quantile = 1.5 must lie in \[0, 1\]"),
    "window": (dict(threshold=Quantile(0.5, window=0)), r"window = 0 must lie in \[1"),
    "interpolation": (dict(threshold=Quantile(interpolation="mid")), r'interpolation = "mid" is not lower, linear'),
    "first_step": (dict(threshold=Ema(first_step="skip")), r'first_step = "skip" is not unclipped, zero'),
    "slack": (dict(threshold=Ema(slack=0.0)), r"slack = 0"),
    "cap": (dict(threshold=Ema(floor=2.0, cap=1.0)), r"cap = 1.*2|floor = 2.*1"),
    "treatment": (dict(rules=[Rule("*", treatment="skp")]), r'treatment = "skp" is not spectral, norm, skip'),
    "rule option": (dict(rules=[Rule("*", clip={"metod": "gram"})]), r'"metod"; did you mean "method"'),
    "batch_axes": (dict(rules=[Rule("*", batch_axes=5)]), r"batch_axes = 5|5"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_bad_values_are_named_with_what_is_allowed(case):
    options, message = case
    with pytest.raises(ValueError, match=message):
        SpectralClipper(nn.Linear(3, 2), **options)


def test_other_misuse():
    with pytest.raises(TypeError, match="threshold must be a number, Constant, Ema or Quantile, not str"):
        SpectralClipper(nn.Linear(3, 2), "auto")
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        SpectralClipper(nn.Linear(3, 2), tolerence=1e-3)
    with pytest.raises(ValueError, match=r"parameter group 1 has unknown settings \['treshold'\]; known: threshold"):
        SpectralClipper([{"params": []}, {"params": [torch.zeros(2, 2)], "treshold": 1.0}])
    with pytest.raises(ValueError, match='two parameters are called "a"'):
        SpectralClipper([("a", torch.zeros(2, 2)), ("module.a", torch.zeros(2, 2))])
    with pytest.raises(TypeError, match="model must be a module"):
        SpectralClipper([torch.zeros(2, 2), "x"])
    with pytest.raises(ValueError, match="which parameters"):
        SpectralClipper([torch.zeros(2, 2)]).add_parameters()
    with pytest.raises(ValueError, match=r"shape \[5\]"):
        clip_singular_values_(torch.randn(5), 1.0)
    with pytest.raises(ValueError, match="rank = 9 is above min"):
        clip_singular_values_(torch.randn(6, 5), 1.0, rank=9)
    with pytest.raises(ValueError, match="accumulation_steps = 0"):
        SpectralClipper(nn.Linear(3, 2)).hook_each_parameter(0)


@BACKENDS
def test_a_gradient_of_another_shape_is_refused_and_nothing_is_touched(backend):
    p, q = with_gradient(torch.randn(4, 4)), with_gradient(torch.randn(4, 4))
    clipper = SpectralClipper([("p", p), ("q", q)], 0.1, backend=backend)
    before = bits(p.grad)
    with pytest.raises(ValueError, match=r'"q" of shape \[4, 4\] has a gradient of shape \[2, 8\]'):
        torch.ops.spectralclip.clipper_step_(clipper._handle, [p.grad, q.grad.reshape(2, 8)], [0, 1])
    assert bits(p.grad) == before and clipper.steps == 0

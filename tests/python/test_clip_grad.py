# SPDX-License-Identifier: Apache-2.0
"""clip_grad_spectral_ stands where clip_grad_norm_ stood: same arguments, warnings and errors, same return value."""

from __future__ import annotations

import functools
import inspect
import math
import warnings

import pytest
import torch
from reference import EPS, MARGIN, bits, clip_tolerance, distance, promised, spectrum, svd_clip
from torch import nn
from torch.nn.utils import clip_grad_norm_, get_total_norm

from spectralclip import clip_grad_spectral_

TAU = 0.5
BOTH = pytest.mark.parametrize("clip", [clip_grad_norm_, clip_grad_spectral_])


def parameter(*shape: int, dtype=torch.float32, scale: float = 1.0) -> nn.Parameter:
    p = nn.Parameter(torch.zeros(shape, dtype=dtype))
    p.grad = scale * torch.randn(shape).to(dtype)
    return p


def expected_clip(G: torch.Tensor, tau: float = TAU) -> torch.Tensor:
    M = G.reshape(G.shape[0], -1) if G.ndim else G.reshape(1, 1)
    return svd_clip(M, tau).reshape(G.shape)


def assert_clipped(p: nn.Parameter, before: torch.Tensor, tau: float = TAU) -> None:
    M = before.reshape(before.shape[0], -1) if before.ndim else before.reshape(1, 1)
    assert float(torch.linalg.matrix_norm(M.double(), 2)) > 1.5 * tau  # there was something to clip
    assert distance(p.grad.reshape(M.shape), expected_clip(before, tau).reshape(M.shape)) <= clip_tolerance(M, tau)


def norm_tolerance(gradients: list[torch.Tensor]) -> float:
    """Relative: torch sums squares in the gradients' type by a tree and rounds each norm; ours sums in float64."""
    entries = sum(g.numel() for g in gradients)
    return (2 + math.log2(entries)) * max(EPS[g.dtype] for g in gradients)


# --- what is accepted -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["tensor", "list", "tuple", "generator", "set", "parameters()"])
def test_tensor_or_any_iterable(form):
    layer = nn.Linear(6, 5)
    layer(torch.randn(8, 6)).square().sum().backward()
    before = [p.grad.clone() for p in layer.parameters()]
    forms = {
        "tensor": lambda: layer.weight,
        "list": lambda: [layer.weight, layer.bias],
        "tuple": lambda: (layer.weight, layer.bias),
        "generator": lambda: (p for p in (layer.weight, layer.bias)),
        "set": lambda: {layer.weight, layer.bias},
        "parameters()": layer.parameters,
    }
    norm = clip_grad_spectral_(forms[form](), TAU, method="exact")
    assert_clipped(layer.weight, before[0])
    if form == "tensor":
        assert torch.equal(layer.bias.grad, before[1])
        assert float(norm) == pytest.approx(float(before[0].norm()), rel=norm_tolerance(before))
    else:
        assert_clipped(layer.bias, before[1])


@BOTH
def test_an_empty_generator_warns(clip):
    with pytest.warns(UserWarning, match="empty generator, no gradient clipping will occur"):
        norm = clip((p for p in ()), 1.0)
    assert norm.shape == () and norm.dtype == torch.float32 and norm.device.type == "cpu" and float(norm) == 0


@BOTH
@pytest.mark.parametrize("empty", [[], (), [nn.Parameter(torch.zeros(3))]], ids=["list", "tuple", "grad is None"])
def test_nothing_to_clip_is_silent_and_zero(clip, empty):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        norm = clip(empty, 1.0)
    assert torch.equal(norm, torch.tensor(0.0)) and norm.dtype == torch.float32


def test_gradients_that_are_none_are_ignored():
    with_gradient, without = parameter(4, 3), nn.Parameter(torch.ones(4, 3))
    before = with_gradient.grad.clone()
    norm = clip_grad_spectral_([without, with_gradient], TAU, method="exact")
    assert without.grad is None
    assert float(norm) == pytest.approx(float(before.norm()), rel=norm_tolerance([before]))
    assert_clipped(with_gradient, before)


@BOTH
@pytest.mark.parametrize("foreach", [None, True, False])
def test_foreach_is_accepted(clip, foreach):
    p = parameter(4, 3)
    before = p.grad.clone()
    clip([p], TAU, foreach=foreach)
    assert not torch.equal(p.grad, before)


@BOTH
def test_foreach_true_raises_where_torch_cannot(clip):
    p = nn.Parameter(torch.zeros(3, 3, device="meta"))
    p.grad = torch.zeros(3, 3, device="meta")
    with pytest.raises(RuntimeError, match="foreach"):
        clip([p], 1.0, foreach=True)


def test_signatures_agree_on_what_they_share():
    ours, torchs = (inspect.signature(f).parameters for f in (clip_grad_spectral_, clip_grad_norm_))
    for name in ("parameters", "error_if_nonfinite", "foreach"):
        assert ours[name].default == torchs[name].default
    assert next(iter(ours)) == next(iter(torchs)) == "parameters"


def test_the_threshold_may_be_a_tensor():
    p = parameter(4, 3)
    before = p.grad.clone()
    clip_grad_spectral_([p], torch.tensor(TAU), method="exact")
    assert_clipped(p, before)


# --- what is returned -----------------------------------------------------------------------------------------------

LISTS = {
    "float32": [torch.float32, torch.float32],
    "float64": [torch.float64],
    "bfloat16": [torch.bfloat16, torch.bfloat16],
    "float16": [torch.float16],
    "bfloat16 and float32": [torch.bfloat16, torch.float32],
    "float16 and bfloat16": [torch.float16, torch.bfloat16],
    "float32 and float64": [torch.float32, torch.float64],
}


@pytest.mark.parametrize("dtypes", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("backend", ["core", "aten"])
def test_returns_the_total_norm_before_clipping_as_get_total_norm(dtypes, backend):
    parameters = [parameter(7, 5, dtype=t) for t in dtypes]
    parameters += [parameter(9, dtype=dtypes[0]), parameter(2, 3, 2, 2, dtype=dtypes[-1])]
    gradients = [p.grad.clone() for p in parameters]
    expected = get_total_norm(gradients)
    norm = clip_grad_spectral_(parameters, TAU, backend=backend)
    assert norm.shape == () and norm.dtype == expected.dtype and norm.device == expected.device
    assert float(norm) == pytest.approx(float(expected), rel=norm_tolerance(gradients))
    assert float(get_total_norm([p.grad for p in parameters])) < float(norm)  # it is the one before


def test_a_gradient_without_entries_keeps_the_type_of_the_norm():
    p = nn.Parameter(torch.zeros(0, 3, dtype=torch.float64))
    p.grad = torch.zeros(0, 3, dtype=torch.float64)
    expected = clip_grad_norm_([p], 1.0)
    norm = clip_grad_spectral_([p], 1.0)
    assert float(norm) == 0 and norm.dtype == expected.dtype


@pytest.mark.parametrize("backend", ["core", "aten"])
def test_a_parameter_given_twice_counts_twice_in_the_norm(backend):
    """As it does in torch: [wte.weight, lm_head.weight] of a tied model is one tensor in two places."""
    p = parameter(16, 12)
    before = [p.grad.clone(), p.grad.clone()]
    norm = clip_grad_spectral_([p, p], TAU, method="exact", backend=backend)
    assert float(norm) == pytest.approx(float(get_total_norm(before)), rel=norm_tolerance(before))


@pytest.mark.parametrize("method", ["sketched", "tracked", "exact"])
@pytest.mark.parametrize("backend", ["core", "aten"])
def test_a_parameter_given_twice_is_clipped_once(method, backend, generator):
    """Both entries are the same memory: clipped together, what is above tau would be taken off twice."""
    torch.set_num_threads(2 if backend == "core" else 1)
    for _ in range(3):
        G = spectrum(150, 100, [9, 5, 3, 0.5, 0.2], generator, torch.float32)
        p = nn.Parameter(torch.zeros_like(G))
        p.grad = G.clone()
        clip_grad_spectral_([p, p], 1.0, method=method, backend=backend)
        assert distance(p.grad, svd_clip(G, 1.0)) <= promised(G, 1.0, method) + clip_tolerance(G, 1.0)


@pytest.mark.parametrize("repeated", [1, 2])
@pytest.mark.parametrize("backend", ["core", "aten"])
def test_sparse_gradients_are_left_alone_and_counted(backend, repeated):
    """torch's own refuses them; here the others are clipped, and the norm is of all."""
    table = nn.Embedding(6, 4, sparse=True)
    table(torch.tensor([1, 2])).sum().backward()
    before = table.weight.grad.to_dense()
    p = parameter(5, 4)
    gradients = [p.grad.clone()] * repeated
    norm = clip_grad_spectral_([p] * repeated + [table.weight], TAU, method="exact", backend=backend)
    counted = [*gradients, before]
    assert float(norm) == pytest.approx(float(get_total_norm(counted)), rel=norm_tolerance(counted))
    assert torch.equal(table.weight.grad.to_dense(), before)
    assert_clipped(p, gradients[0])


# --- how it is done -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["core", "aten"])
def test_in_place_with_storage_and_strides_kept(backend):
    p = nn.Parameter(torch.zeros(6, 5))
    bucket = torch.randn(64)
    p.grad = bucket[7:37].view(6, 5)  # as DDP's gradient_as_bucket_view does
    around = bucket.clone()
    gradient, pointer, strides = p.grad, p.grad.data_ptr(), p.grad.stride()
    clip_grad_spectral_([p], TAU, method="exact", backend=backend)
    assert p.grad is gradient and p.grad.data_ptr() == pointer and p.grad.stride() == strides
    assert torch.equal(bucket[:7], around[:7]) and torch.equal(bucket[37:], around[37:])
    assert_clipped(p, around[7:37].view(6, 5))
    assert torch.equal(bucket[7:37].view(6, 5), p.grad)


def test_runs_under_no_grad():
    weight = nn.Parameter(torch.randn(5, 4))
    (gradient,) = torch.autograd.grad((weight @ torch.randn(4, 8)).pow(3).sum(), weight, create_graph=True)
    weight.grad = gradient
    history, before = gradient.grad_fn, gradient.detach().clone()
    norm = clip_grad_spectral_([weight], TAU, method="exact")
    assert not norm.requires_grad
    assert weight.grad.grad_fn is history  # nothing was recorded
    assert_clipped(weight, before)


@pytest.mark.parametrize(
    "clip",
    [clip_grad_norm_, clip_grad_spectral_, functools.partial(clip_grad_spectral_, backend="aten")],
    ids=["norm", "core", "aten"],
)
def test_autograd_is_told_of_the_write(clip):
    """A backward that saved the gradient must notice that it was changed, as after any in-place operator of torch."""
    p = parameter(5, 4)
    version = p.grad._version
    clip([p], 0.1)
    assert p.grad._version > version
    x = torch.randn(5, 4, requires_grad=True)
    product = (x * p.grad).sum()
    clip([p], 0.01)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_nothing_above_tau_is_not_written():
    p = parameter(5, 4)
    before, version = bits(p.grad), p.grad._version
    clip_grad_spectral_([p], 1e3)
    assert bits(p.grad) == before and p.grad._version == version


def test_vectors_are_clipped_by_norm_and_scalars_by_size():
    vector, scalar = parameter(9), parameter()
    scalar.grad.fill_(-3.0)
    before = vector.grad.clone()
    clip_grad_spectral_([vector, scalar], TAU)
    assert_clipped(vector, before)
    assert float(scalar.grad) == pytest.approx(-TAU, rel=2 * EPS[torch.float32])


# --- nothing is left above max_sigma --------------------------------------------------------------------------------

SPECTRA = {
    "gaussian, 33 above": lambda g: (torch.randn(64, 48, generator=g), 5.0),
    "gaussian, all above": lambda g: (torch.randn(300, 200, generator=g), 1.0),
    "slow decay": lambda g: (spectrum(129, 130, [0.97**i for i in range(129)], g, torch.float32), 0.9),
    "three over a plateau": lambda g: (spectrum(400, 200, [1.05] * 3 + [0.999] * 197, g, torch.float32), 1.0),
    "one over a plateau": lambda g: (spectrum(300, 200, [1.5] + [0.9] * 199, g, torch.float32), 1.0),
    "flat, just above": lambda g: (spectrum(90, 70, [1.01] * 70, g, torch.float32), 1.0),
    "tall": lambda g: (torch.randn(1000, 37, generator=g), 37.0),
}


@pytest.mark.parametrize("backend", ["core", "aten"])
@pytest.mark.parametrize("make", SPECTRA.values(), ids=SPECTRA)
def test_nothing_is_left_above_max_sigma_whatever_the_spectrum(make, backend, generator):
    G, tau = make(generator)
    p = nn.Parameter(torch.zeros_like(G))
    p.grad = G.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clip_grad_spectral_([p], tau, backend=backend)
    assert float(torch.linalg.matrix_norm(G.double(), 2)) > tau  # there was something to clip
    assert float(torch.linalg.matrix_norm(p.grad.double(), 2)) <= tau * (1 + MARGIN) * (1 + 8 * EPS[torch.float32])
    assert distance(p.grad, svd_clip(G, tau)) <= promised(G, tau, "auto") + clip_tolerance(G, tau)


@pytest.mark.parametrize("backend", ["core", "aten"])
@pytest.mark.parametrize("options", [{"method": "sketched"}, {"rank": 4}, {"method": "tracked", "rank": 3}], ids=str)
def test_a_rank_that_is_used_up_is_warned_of_once_with_the_parameters(options, backend):
    """Parameter 0 has no gradient, 1 is a vector, 2 and 3 have more above max_sigma than ten, 4 has nothing above."""
    parameters = [nn.Parameter(torch.zeros(3)), parameter(7), parameter(64, 48), parameter(50, 40), parameter(9, 8)]
    parameters[4].grad *= 1e-3
    with pytest.warns(UserWarning, match="above max_sigma = 5 may remain") as caught:
        clip_grad_spectral_(parameters, 5.0, backend=backend, **options)
    assert len(caught) == 1 and caught[0].filename == __file__
    text = str(caught[0].message)
    assert "parameter 2 (64, 48): rank_exhausted; parameter 3 (50, 40): rank_exhausted)" in text and "rank" in text


def test_a_rank_that_suffices_is_not_warned_of(generator):
    p = nn.Parameter(torch.zeros(60, 50))
    p.grad = spectrum(60, 50, [9, 5, 3] + [0.01] * 47, generator, torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clip_grad_spectral_([p], 1.0, method="sketched")
        clip_grad_spectral_([p], 0.5, rank=6)


# --- NaN and Inf ----------------------------------------------------------------------------------------------------

BAD = pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
BACKENDS = pytest.mark.parametrize("backend", ["core", "aten"])


@BAD
@BACKENDS
def test_error_if_nonfinite_raises_before_anything_is_touched(bad, backend):
    parameters = [parameter(6, 5), parameter(4, 4), parameter(5)]
    parameters[1].grad[2, 3] = bad
    before = [bits(p.grad) for p in parameters]
    with pytest.raises(RuntimeError, match="finite"):
        clip_grad_norm_(parameters, 1e-3, error_if_nonfinite=True)  # torch's own does the same
    with pytest.raises(RuntimeError, match="not finite") as caught:
        clip_grad_spectral_(parameters, 1e-3, error_if_nonfinite=True, backend=backend)
    assert not isinstance(caught.value, ValueError)
    assert [bits(p.grad) for p in parameters] == before


@BAD
@BACKENDS
def test_without_it_that_layer_is_left_alone_and_the_norm_is_not_finite(bad, backend):
    parameters = [parameter(6, 5), parameter(4, 4), parameter(5)]
    parameters[1].grad[2, 3] = bad
    before = [p.grad.clone() for p in parameters]
    norm = clip_grad_spectral_(parameters, TAU, method="exact", backend=backend)
    assert not math.isfinite(norm)
    assert bits(parameters[1].grad) == bits(before[1])
    assert_clipped(parameters[0], before[0])
    assert_clipped(parameters[2], before[2])


@BACKENDS
def test_error_if_nonfinite_is_quiet_when_all_is_finite(backend):
    p = parameter(6, 5)
    before = p.grad.clone()
    clip_grad_spectral_([p], TAU, method="exact", error_if_nonfinite=True, backend=backend)
    assert_clipped(p, before)


# --- misuse ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_a_bad_threshold_is_named(bad):
    with pytest.raises(ValueError, match=r"max_sigma = (-1|nan)"):
        clip_grad_spectral_([parameter(3, 3)], bad)


def test_unknown_options_name_the_nearest():
    with pytest.raises(ValueError, match='"tolerence"; did you mean "tolerance"'):
        clip_grad_spectral_([parameter(3, 3)], 1.0, tolerence=1e-3)
    with pytest.raises(ValueError, match='method = "svd" is not exact, gram, sketched'):
        clip_grad_spectral_([parameter(3, 3)], 1.0, method="svd")
    with pytest.raises(ValueError, match='"cuda" is none of auto, core, aten'):
        clip_grad_spectral_([parameter(3, 3)], 1.0, backend="cuda")
    with pytest.raises(TypeError, match="an option is a number"):
        clip_grad_spectral_([parameter(3, 3)], 1.0, rank=[3])

# SPDX-License-Identifier: Apache-2.0
"""The operators as torch sees them: schemas, fake kernels and dispatch checked by opcheck, and torch.compile of
functions that contain the clip, in one graph and equal to eager."""

from __future__ import annotations

import dataclasses
import os

import pytest
import torch
from reference import bits, clip_tolerance, distance, svd_clip
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import spectralclip
from spectralclip import Ema, SpectralClipper, clip_grad_spectral_, clip_singular_values, clip_singular_values_

ops = torch.ops.spectralclip
EXACT = ["method=exact"]
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")

MATRICES = {
    "matrix": lambda: torch.randn(6, 5),
    "float64": lambda: torch.randn(6, 5, dtype=torch.float64),
    "bfloat16": lambda: torch.randn(6, 5).bfloat16(),
    "batch": lambda: torch.randn(2, 3, 6, 5),
    "transposed": lambda: torch.randn(5, 6).t(),
}
# Two mutable tensors that need a copy: every list has a vector and a matrix of another type.
LISTS = {
    "one": lambda: [torch.randn(6, 5)],
    "several": lambda: [torch.randn(6, 5), torch.randn(5), torch.randn(3, 2, 2, 2), torch.randn(())],
    "mixed types": lambda: [torch.randn(6, 5).bfloat16(), torch.randn(5), torch.randn(4, 3).half()],
    "none": list,
}
BACKENDS = pytest.mark.parametrize("backend", ["core", "aten"])


def assert_opcheck(op, arguments) -> None:
    results = torch.library.opcheck(op, arguments, test_utils=CHECKS)
    assert results == dict.fromkeys(CHECKS, "SUCCESS")


@BACKENDS
@pytest.mark.parametrize("make", MATRICES.values(), ids=MATRICES)
def test_opcheck_of_the_functions_of_a_matrix(make, backend):
    assert_opcheck(ops.clip_singular_values_.default, (make(), 0.5, EXACT, backend))
    assert_opcheck(ops.clip_singular_values.default, (make(), 0.5, EXACT, backend))


def test_opcheck_of_proposals():
    assert_opcheck(ops.propose.default, (torch.rand(20, 3, dtype=torch.float64), 0.1))


@BACKENDS
@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
def test_opcheck_of_the_functions_of_gradients(make, backend):
    assert_opcheck(ops.clip_grads_.default, (make(), 0.5, EXACT, backend, False))
    gradients = make()
    # A constant threshold: opcheck calls the operator several times and compares.
    clipper = SpectralClipper([torch.zeros_like(g) for g in gradients], 0.5, method="exact", backend=backend)
    assert_opcheck(ops.clipper_step_.default, (clipper._handle, gradients, list(range(len(gradients)))))


def test_every_operator_is_checked():
    """An operator added later must be added above."""
    known = {name for name in dir(ops) if not name.startswith("__")} - {"name"}
    schemas = {s.name.split("::")[1] for s in torch._C._jit_get_all_schemas() if s.name.startswith("spectralclip::")}
    without_tensors = {"report_fields", "simd_target", "core_version"}
    checked = {"clip_singular_values", "clip_singular_values_", "clip_grads_", "clipper_step_", "propose"}
    assert schemas == checked | without_tensors | {"set_simd_target"}  # the last one is tested below
    assert all(isinstance(getattr(ops, name)(), (str, list)) for name in without_tensors)
    assert known  # loaded


def test_simd_target_is_chosen_by_name():
    widest = ops.simd_target()
    ops.set_simd_target(widest)
    with pytest.raises(ValueError, match=f'no SIMD target "AVX9" here, expected one of .*{widest}'):
        ops.set_simd_target("AVX9")
    ops.set_simd_target(os.environ.get("SPECTRALCLIP_SIMD_TARGET", ""))
    assert ops.simd_target() == widest


def test_schemas_mark_what_is_written():
    for name, mutated in {"clip_singular_values": [], "clip_singular_values_": ["G"], "clip_grads_": ["gradients"],
                          "clipper_step_": ["gradients"]}.items():  # fmt: skip
        arguments = getattr(ops, name).default._schema.arguments
        assert [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write] == mutated


CORNERS = {
    "empty matrix": lambda: (ops.clip_singular_values_, (torch.randn(0, 5), 0.5, EXACT, "auto")),
    "empty batch": lambda: (ops.clip_singular_values_, (torch.randn(0, 4, 5), 0.5, EXACT, "auto")),
    "batch of empty ones": lambda: (ops.clip_singular_values_, (torch.randn(3, 4, 0), 0.5, EXACT, "auto")),
    "empty copied": lambda: (ops.clip_singular_values, (torch.randn(3, 0), 0.5, EXACT, "auto")),
    "empty gradient": lambda: (ops.clip_grads_, ([torch.randn(0, 5, dtype=torch.float64)], 0.5, EXACT, "auto", False)),
    "empty first": lambda: (ops.clip_grads_, ([torch.zeros(0).double(), torch.randn(4)], 0.5, EXACT, "auto", False)),
}


@pytest.mark.parametrize("make", CORNERS.values(), ids=CORNERS)
def test_fake_kernels_know_the_corners(make):
    op, arguments = make()
    real = op(*arguments)
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = op(*arguments)
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (real, fake))):
        assert (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)


def test_fake_reports_have_the_fields_of_real_ones():
    report = ops.clip_singular_values_(torch.randn(4, 3), 0.5, EXACT, "auto")
    assert report.shape == (1, len(spectralclip.reports.FIELDS))
    assert tuple(ops.report_fields()) == spectralclip.reports.FIELDS
    fields = {field.name for field in dataclasses.fields(spectralclip.ClipReport)}
    assert fields == {*spectralclip.reports.FIELDS, "batch"}


# --- torch.compile --------------------------------------------------------------------------------------------------


def functional(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    clipped, report = ops.clip_singular_values(x * 2, 0.5, EXACT, "auto")
    return clipped.relu() + 1, report


def in_place(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    ops.clip_singular_values_(y, 0.5, EXACT, "auto")
    norm, _ = ops.clip_grads_([y], 0.25, EXACT, "auto", False)
    return y + 1, norm


@pytest.mark.parametrize("function", [functional, in_place])
@pytest.mark.parametrize("backend", ["aot_eager"])
def test_compiled_functions_equal_eager(function, backend):
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for shape in ((6, 5), (6, 5), (7, 3)):  # the third has other sizes: dynamic shapes
        x = torch.randn(shape)
        for a, b in zip(compiled(x), function(x)):
            assert bits(a) == bits(b)
    expected = svd_clip(2 * x, 0.5 if function is functional else 0.25)
    result = function(x)[0] - 1
    expected = expected.relu() if function is functional else expected
    assert distance(result, expected) <= 2 * clip_tolerance(2 * x, 0.5) + 4 * 2.0**-23 * x.numel() ** 0.5


def make_step(compiled: bool):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    clipper = SpectralClipper(model, Ema(0.9), method="exact")

    def clip_all():
        return clipper.step().total_norm

    return model, clipper, torch.compile(clip_all, fullgraph=True, backend="aot_eager") if compiled else clip_all


def test_a_compiled_step_of_the_clipper_equals_eager():
    """The thresholds live behind a handle: each call of the compiled function advances them once."""
    torch._dynamo.reset()
    records = []
    for compiled in (False, True):
        model, clipper, clip_all = make_step(compiled)
        record = []
        for i in range(5):
            x = torch.randn(16, 6, generator=torch.Generator().manual_seed(i)) * (1 + 4 * (i % 2))
            model.zero_grad(set_to_none=False)
            model(x).square().sum().backward()
            norm = clip_all()
            gradients = [bits(p.grad) for p in model.parameters()]
            record.append((float(norm), gradients, [layer.tau for layer in clipper.report()]))
        assert clipper.steps == 5
        records.append(record)
    assert records[0] == records[1]
    assert any(layer.steps_clipped for layer in clipper.report())


@pytest.mark.parametrize("function", ["clip_grad_spectral_", "clip_singular_values_", "clip_singular_values"])
def test_the_packages_functions_compile(function):
    """What users call, not the operator below: in one graph where the result is tensors."""
    torch._dynamo.reset()
    weight = nn.Parameter(torch.zeros(6, 5))

    def run(G):
        if function == "clip_grad_spectral_":
            weight.grad = G
            return clip_grad_spectral_([weight], 0.5, method="exact")
        if function == "clip_singular_values_":
            clip_singular_values_(G, 0.5, method="exact")
            return G
        return clip_singular_values(G, 0.5, method="exact")[0]

    # Reports are Python values: reading them breaks the graph, so only the first can be whole.
    compiled = torch.compile(run, fullgraph=function == "clip_grad_spectral_", backend="aot_eager")
    G = torch.randn(6, 5)
    one, other = G.clone(), G.clone()
    a, b = run(one), compiled(other)
    assert bits(a) == bits(b) and bits(one) == bits(other)
    if function != "clip_singular_values":
        assert not torch.equal(one, G)


def test_inductor():
    torch._dynamo.reset()
    x = torch.randn(6, 5)
    try:
        result = torch.compile(in_place, fullgraph=True, backend="inductor")(x)
    except Exception as error:  # a machine without a C++ compiler
        if "InvalidCxxCompiler" in repr(error) or "No working C++ compiler" in str(error):
            pytest.skip(f"inductor needs a C++ compiler: {error}")
        raise
    for a, b in zip(result, in_place(x)):
        assert distance(a, b) <= 8 * 2.0**-23 * float(b.norm())

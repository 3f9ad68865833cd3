# SPDX-License-Identifier: Apache-2.0
"""The path of every device but the CPU, run here by backend="aten", on the meta device and on fake tensors: nothing
that waits for the device, no shape that depends on data, and the results of the core."""

from __future__ import annotations

import math

import pytest
import torch
from reference import EIGENVALUE_GAP, EPS, clip_tolerance, distance, spectrum, svd_clip
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)  # fmt: skip
from torch.utils._python_dispatch import TorchDispatchMode

from spectralclip import Constant, Ema, Quantile, Rule, SpectralClipper

METHODS = ["exact", "gram", "sketched", "tracked", "newton_schulz", "auto"]
THRESHOLDS = {
    "constant": Constant(0.5),
    "zero": Constant(0.0),
    "ema": Ema(0.9),
    "ema from zero": Ema(0.9, first_step="zero", observe_zeros=True),
    "quantile": Quantile(0.85, window=3),
    "linear quantile": Quantile(0.5, window=3, interpolation="linear"),
}
# One batch of two matrices and one of vectors: fake operators cost a Python call each.
SHAPES = {"a": (12, 7), "b": (12, 7), "bias": (9,)}
ALL_SHAPES = {**SHAPES, "wide": (7, 12), "experts": (3, 5, 4), "conv": (6, 2, 3, 3), "scalar": ()}
VECTORS = {"bias": (9,), "gain": (4,), "scalar": ()}
RULES = [Rule("experts", batch_axes=1)]
STEP = torch.ops.spectralclip.clipper_step_.default


def make_clipper(shapes: dict[str, tuple], parameters: list[torch.Tensor], **options) -> SpectralClipper:
    return SpectralClipper(list(zip(shapes, parameters)), rules=RULES, **options)


def empty(shapes: dict[str, tuple], dtype=torch.float32) -> list[torch.Tensor]:
    return [torch.empty(shape, device="meta", dtype=dtype) for shape in shapes.values()]


def random(shapes: dict[str, tuple]) -> list[torch.Tensor]:
    return [torch.randn(shape) for shape in shapes.values()]


def real_step(clipper: SpectralClipper, gradients: list[torch.Tensor]) -> torch.Tensor:
    """The operator's own kernel: its fake one would stand before it for meta and fake tensors, and a dispatch mode
    would see one operator instead of what is inside."""
    key = torch._C.DispatchKey.CompositeExplicitAutograd
    return STEP._op_dk(key, clipper._handle, gradients, list(range(len(gradients))))


# --- (a) no data, no waiting ----------------------------------------------------------------------------------------


def three_steps_on_meta(shapes: dict[str, tuple], **options) -> None:
    """A device without data: .item(), a copy to the host or a shape from values would raise."""
    gradients = empty(shapes)
    clipper = make_clipper(shapes, gradients, **options)
    for _ in range(3):
        norm = real_step(clipper, gradients)
        assert norm.device.type == "meta" and norm.shape == ()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_on_the_meta_device(method):
    three_steps_on_meta(SHAPES, method=method)


@pytest.mark.parametrize("threshold", THRESHOLDS.values(), ids=THRESHOLDS)
def test_every_threshold_runs_on_the_meta_device(threshold):
    """Thresholds do not know the method: vectors have the same ones."""
    three_steps_on_meta(VECTORS, threshold=threshold)
    three_steps_on_meta(SHAPES, threshold=threshold, method="gram")


def test_every_shape_runs_on_the_meta_device():
    three_steps_on_meta(ALL_SHAPES, method="sketched", rank=2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("option", [{}, {"on_nonfinite": "leave_all"}, {"observe_only": True}], ids=str)
def test_other_types_and_options_run_on_the_meta_device(dtype, option):
    gradients = empty(SHAPES, dtype)
    gradients[0] = torch.empty(7, 12, device="meta", dtype=dtype).t()  # a working copy
    clipper = make_clipper(SHAPES, gradients, method="sketched", **option)
    for _ in range(2):
        assert real_step(clipper, gradients).dtype == dtype


def steps_on_fake(shapes: dict[str, tuple], **options) -> None:
    """The first step is real and gives the batches their states; two fake ones follow."""
    real = random(shapes)
    clipper = make_clipper(shapes, real, backend="aten", **options)
    real_step(clipper, real)
    with FakeTensorMode(allow_non_fake_inputs=True):
        gradients = random(shapes)
        for _ in range(2):
            norm = real_step(clipper, gradients)
        assert norm.shape == () and norm.dtype == torch.float32 and isinstance(norm, FakeTensor)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_on_fake_tensors(method):
    steps_on_fake(SHAPES, method=method)


@pytest.mark.parametrize("threshold", THRESHOLDS.values(), ids=THRESHOLDS)
def test_every_threshold_runs_on_fake_tensors(threshold):
    steps_on_fake(VECTORS, threshold=threshold)


def test_the_first_step_runs_on_fake_tensors_too():
    """Cold: no state of the batches may be written through a host pointer."""
    with FakeTensorMode():
        gradients = random(SHAPES)
        clipper = make_clipper(SHAPES, gradients, backend="aten")
        assert real_step(clipper, gradients).shape == ()


def test_waiting_would_have_been_noticed():
    """The control: raising on a non-finite gradient must look at it, and does not get away with it."""
    meta = empty(VECTORS)
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        real_step(make_clipper(VECTORS, meta, on_nonfinite="raise"), meta)
    real = random(VECTORS)
    clipper = make_clipper(VECTORS, real, on_nonfinite="raise", backend="aten")
    real_step(clipper, real)
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = random(VECTORS)
        with pytest.raises((RuntimeError, DataDependentOutputException)):
            real_step(clipper, fake)
        with pytest.raises(DynamicOutputShapeException):
            torch.nonzero(fake[0])


# --- (b) no operator that checks on the host ------------------------------------------------------------------------

# What synchronises on CUDA, by the beginning of its name: reads of values, shapes from values, and factorisations whose
# info is checked on the host.  linalg_solve_triangular, cholesky_ex and *_ex without check do not.
WAITS = (
    "_local_scalar_dense", "item", "is_nonzero", "equal", "allclose", "nonzero", "masked_select", "unique", "_unique",
    "bincount", "repeat_interleave.Tensor", "linalg_eig", "_linalg_eig", "linalg_svd", "_linalg_svd", "svd",
    "linalg_inv.",
    "inverse", "linalg_lu.", "linalg_lu_factor.", "linalg_cholesky.", "cholesky.", "linalg_solve.", "_linalg_solve_ex",
    "linalg_qr", "qr", "linalg_lstsq", "linalg_matrix_rank", "linalg_pinv", "linalg_det", "_linalg_det",
    "_assert_async",
    "_linalg_check_errors", "lu_unpack", "geqrf", "ormqr", "linalg_householder_product", "multinomial", "_to_cpu",
)  # fmt: skip


class Waiting(Exception):
    pass


class NoWaiting(TorchDispatchMode):
    """Refuses operators that make the host wait; collects the names of all."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = str(function).removeprefix("aten.")
        self.names.add(name)
        if name.startswith(WAITS):
            raise Waiting(name)
        if name.startswith(("index.", "index_put")) and self.by_mask(args[1]):
            raise Waiting(f"{name} by a mask")
        if name.startswith(("_to_copy", "copy_")) and self.leaves_device(args, kwargs):
            raise Waiting(f"{name} from the device")
        if kwargs.get("check_errors"):
            raise Waiting(f"{name} with check")
        return function(*args, **kwargs)

    @staticmethod
    def by_mask(indices) -> bool:
        return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)

    @staticmethod
    def leaves_device(args, kwargs) -> bool:
        source = args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else args[0]
        target = args[0].device if source is not args[0] else torch.device(kwargs.get("device") or source.device)
        return source.device.type != "cpu" and target.type == "cpu"


@pytest.mark.parametrize("threshold", THRESHOLDS.values(), ids=THRESHOLDS)
@pytest.mark.parametrize("method", METHODS)
def test_no_operator_waits_for_the_device(method, threshold):
    clipper = make_clipper(SHAPES, random(SHAPES), method=method, threshold=threshold, backend="aten")
    with NoWaiting() as mode:
        for _ in range(3):
            real_step(clipper, random(SHAPES))
    assert {"bmm.default", "where.self"} <= mode.names  # it looked inside


def test_no_operator_waits_whatever_the_shape():
    clipper = make_clipper(ALL_SHAPES, random(ALL_SHAPES), backend="aten")
    with NoWaiting():
        for _ in range(2):
            real_step(clipper, random(ALL_SHAPES))


def test_no_copy_leaves_the_device():
    """On the meta device a copy to the CPU is told from one within the CPU."""
    gradients = empty(SHAPES)
    clipper = make_clipper(SHAPES, gradients, threshold=Quantile(0.5, window=3))
    with NoWaiting():
        for _ in range(2):
            real_step(clipper, gradients)


CONTROLS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.sum() > 0),
    "nonzero": lambda x: torch.nonzero(x),
    "mask": lambda x: x[x > 0],
    "masked assignment": lambda x: torch.ops.aten.index_put_(x, [x > 0], torch.tensor(1.0)),
    "masked_select": lambda x: torch.masked_select(x, x > 0),
    "eigh": lambda x: torch.linalg.eigh(x @ x.T),
    "svd": lambda x: torch.linalg.svd(x),
    "qr": lambda x: torch.linalg.qr(x),
    "solve": lambda x: torch.linalg.solve(x @ x.T + torch.eye(x.shape[0]), x),
    "inv": lambda x: torch.linalg.inv(x @ x.T + torch.eye(x.shape[0])),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(x.shape[0])),
    "cholesky with check": lambda x: torch.linalg.cholesky_ex(x @ x.T + torch.eye(x.shape[0]), check_errors=True),
    "unique": lambda x: torch.unique(x),
    "equal": lambda x: torch.equal(x, x),
    "lstsq": lambda x: torch.linalg.lstsq(x, x),
    "nonfinite check of the clipper": lambda x: real_step(
        SpectralClipper([x], on_nonfinite="raise", backend="aten"), [x.clone()]
    ),
}


@pytest.mark.parametrize("waits", CONTROLS.values(), ids=CONTROLS)
def test_the_mode_bites(waits):
    x = torch.randn(6, 6)
    with NoWaiting(), pytest.raises(Waiting):
        waits(x)


def test_the_mode_lets_pass_what_does_not_wait():
    x = torch.randn(5, 5)
    with NoWaiting():
        L, _ = torch.linalg.cholesky_ex(x @ x.T + 5 * torch.eye(5))
        torch.linalg.solve_triangular(L, x, upper=False)
        x[torch.tensor([0, 2])]
        x.to(torch.float64)
        torch.empty(3).to("meta")


# --- (c) the results of the core ------------------------------------------------------------------------------------


def sequence(dtype, count: int, generator: torch.Generator) -> list[list[torch.Tensor]]:
    """Gradients whose leading directions drift and that spike at times: what training gives."""
    tall, wide = torch.randn(2, 30, 5, generator=generator), torch.randn(2, 20, 5, generator=generator)
    steps = []
    for step in range(count):
        decay = torch.tensor([3.0, 2.0, 1.0, 0.5, 0.3]) * (1 + 4 * (step % 5 == 3))
        drift = 0.05 * torch.randn(30, 5, generator=generator)
        tall = tall + drift
        matrices = [((a / 30**0.5) * decay) @ (b / 20**0.5).T for a, b in zip(tall, wide)]
        noisy = [m + 0.02 * torch.randn(m.shape, generator=generator) for m in matrices]
        vector = torch.randn(13, generator=generator)
        steps.append([noisy[0].to(dtype), noisy[1].T.contiguous().to(dtype), vector.to(dtype)])
    return steps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_sequences_equal_the_core(method, dtype, generator):
    gradients = sequence(dtype, 15, generator)
    parameters = [nn.Parameter(torch.zeros_like(G)) for G in gradients[0]]
    clippers = [
        SpectralClipper(parameters, Ema(0.9), method=method, backend=backend, tolerance=1e-4)
        for backend in ("core", "aten")
    ]
    clipped = 0
    work = EPS[torch.float64 if dtype == torch.float64 else torch.float32]
    for step, given in enumerate(gradients):
        results, reports = [], []
        for clipper in clippers:
            for p, G in zip(parameters, given):
                p.grad = G.clone()
            reports.append(clipper.step().layers)
            results.append([p.grad.clone() for p in parameters])
        for G, core, aten, a, b in zip(given, *results, *reports):
            M = G.reshape(G.shape[0], -1)
            tau = a.tau
            assert math.isinf(tau) == math.isinf(b.tau)
            sigma_error = 8 * max(M.shape) ** 0.5 * work * 20  # 20: the largest norm of the sequence, see below
            assert float(M.double().norm()) < 20
            if method == "newton_schulz":
                sigma_error += EIGENVALUE_GAP / 2 * a.sigma_max
            if method in ("tracked", "sketched", "auto") and G.ndim > 1:
                # Both promise 1e-4 of what they remove; sigma_max, quadratic in the vectors' error, is better still.
                sigma_error += 1e-4 * a.sigma_max
            assert abs(a.sigma_max - b.sigma_max) <= sigma_error, (step, a, b)
            if math.isinf(tau):
                assert torch.equal(core, aten) and torch.equal(core, G)
                continue
            assert abs(tau - b.tau) <= sigma_error, (step, a, b)
            removed = distance(svd_clip(M, tau), M) if G.ndim > 1 else 0.0
            allowed = 2e-4 * removed if method in ("tracked", "sketched", "auto") else 0.0
            allowed += 2 * clip_tolerance(M, tau) + min(M.shape) ** 0.5 * sigma_error
            assert distance(core.reshape(M.shape), aten.reshape(M.shape)) <= allowed, (step, a, b)
            clipped += a.clipped > 0
    assert clipped > 10


def test_a_layer_of_rank_beyond_what_is_kept_says_so(generator):
    """What the core would finish by gram, the device reports: nothing is silently left above tau."""
    G = spectrum(40, 40, [3.0] * 30, generator, torch.float32)
    p = nn.Parameter(torch.zeros_like(G))
    p.grad = G.clone()
    report = SpectralClipper([p], 1.0, method="tracked", backend="aten").step()
    left = float(torch.linalg.matrix_norm(p.grad.double(), 2))
    assert left <= report.layers[0].sigma_bound * (1 + 8 * EPS[torch.float32])
    assert (left > 1.01) == (report.rank_exhausted == ["0"])

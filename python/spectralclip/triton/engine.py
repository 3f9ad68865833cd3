# SPDX-License-Identifier: Apache-2.0
"""The step of all matrices on one device: tables, work memory and ten launches.

Everything is allocated when the engine is made.  A step compares the addresses of the gradients with those of the last
one, copies the table of addresses where they moved, and launches; nothing waits for the device, no launch depends on
data."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Optional

import torch
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction

from . import layout
from .columns import combine_kernel, draw_kernel, reduce_kernel
from .decide import decide_kernel
from .sweeps import pass_kernel, update_kernel
from .thresholds import finish_kernel
from .windows import Window

FRESH = 4  # random columns of a pass: kFreshColumns of subspace/search.h
FAILURE = 1e-3  # of the probe: kEstimateFailure of report.h
CHUNK = 32  # values of a quantile window that are compared at a time
LARGEST_WINDOW = 1024
HOST_TABLES = 4  # of addresses, in turn

ELEMENT = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
STORED_EPSILON = {torch.float32: 0.0, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter: TRITON_INTERPRET=1 before the first import."""
    return isinstance(pass_kernel, InterpretedFunction)


def small_ball_radius_squared(fresh: int, failure: float) -> float:
    """As subspace/certificate.cpp."""
    log_volume = 0.5 * fresh * math.log(math.pi / 6) - math.lgamma(fresh / 2 + 1)
    return math.exp(2 / fresh * (math.log(failure) - log_volume))


@dataclasses.dataclass(frozen=True)
class Blocking:
    """Sizes of the programs; docs/devices.md argues for them.  From shapes and types alone: they decide the bits."""

    columns: int  # K, of a pass
    span: int  # rows of a program of the sweeps …
    rows: int  # … and of a block of it, which is read twice, the second time from the cache
    cols: int  # columns of a tile
    column_span: int = 256  # columns of a program of the others …
    column_tile: int = 64  # … and of a tile
    sweep_warps: int = 8
    sweep_stages: int = 2  # more would spill registers
    small_warps: int = 4

    @classmethod
    def of(cls, columns: int, dtypes: Sequence[torch.dtype], widest: int) -> Blocking:
        """``widest``: bytes of the longest row.  Rows of a block times multiprocessors times that should stay below the
        32 MB of second-level cache that every device of concern has."""
        half = all(dtype.itemsize == 2 for dtype in dtypes)
        rows, cols = (64, 32) if widest <= 4608 else (32, 64)
        return cls(columns=columns, span=1024 if half else 768, rows=rows, cols=cols, small_warps=columns // 4)


@dataclasses.dataclass
class Matrix:
    """What the engine has to know of a matrix: its sides (rows >= cols), its treatment, its options (layout.py) and
    the key of its random columns."""

    name: str
    rows: int
    cols: int
    treatment: int
    options: list[float]
    key: int
    dtype: torch.dtype


@dataclasses.dataclass
class Tables:
    layers: list[list[int]]
    programs: dict[torch.dtype, list[tuple[int, int]]]
    blocks: list[tuple[int, int]]
    columns: int = 0
    slots: int = 0
    windows: int = 0


def tables_of(matrices: Sequence[Matrix], windows: Sequence[Window], blocking: Blocking) -> Tables:
    tables = Tables([], {}, [])
    program = block = 0
    for number, (matrix, window) in enumerate(zip(matrices, windows)):
        programs = -(-window.rows // blocking.span)
        spectral = matrix.treatment == int(layout.SPECTRAL.value)
        blocks = -(-window.cols // blocking.column_span) if spectral else 1
        quantile = int(matrix.options[layout.WINDOW.value]) if matrix.options[layout.KIND.value] == 2 else 0
        tables.layers.append([
            window.rows, window.cols, window.stride, int(window.turned), window.count, matrix.treatment, tables.columns,
            tables.slots, program, programs, block, blocks, matrix.key, tables.windows,
        ])  # fmt: skip
        mine = tables.programs.setdefault(matrix.dtype, [])
        mine += [(program + i, number) for i in range(programs)]
        tables.blocks += [(block + i, number) for i in range(blocks)]
        program, block = program + programs, block + blocks
        tables.columns += window.cols if spectral else 0
        tables.slots += programs * window.cols if spectral else 0
        tables.windows += quantile
    for mine in tables.programs.values():  # the longest first: none is left alone at the end
        mine.sort(key=lambda entry: -tables.layers[entry[1]][1])
    return tables


class Engine:
    """``step(addresses)``: one address a matrix, 0 where it has no gradient."""

    def __init__(
        self,
        matrices: Sequence[Matrix],
        windows: Sequence[Window],
        device: torch.device,
        *,
        columns: int = 16,
        passes: int = 2,
        leave_all: bool = False,
        blocking: Optional[Blocking] = None,
    ) -> None:
        self.matrices, self.windows, self.device = list(matrices), list(windows), device
        self.passes, self.leave_all = passes, leave_all
        widest = max((m.cols * m.dtype.itemsize for m in matrices if m.treatment == layout.SPECTRAL.value), default=1)
        self.blocking = blocking or Blocking.of(columns, [m.dtype for m in matrices], widest)
        self.launches = 0
        self._tables = tables_of(self.matrices, self.windows, self.blocking)
        self._allocate()
        self._constants: dict[str, Any] = dict(K=self.blocking.columns)
        self._held = self.blocking.columns - FRESH
        self._radius = small_ball_radius_squared(FRESH, FAILURE)
        self._precision = "tf32x3" if device.type == "cuda" and torch.version.hip is None else "ieee"

    # ---- memory

    def _allocate(self) -> None:
        t, k, count = self._tables, self.blocking.columns, len(self.matrices)

        def zeros(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=self.device)

        programs = sum(len(mine) for mine in t.programs.values())
        single = torch.float32
        self._first_total = t.columns * k
        self.state = zeros(count, layout.STATE_FIELDS.value)
        self.state[:, layout.SCALE.value] = 1
        self.V = zeros(max(t.columns, 1), k, dtype=single)
        self.quantiles = zeros(max(t.windows, 1))
        self.sums = zeros(self._first_total + count * (k * k + 2), dtype=single)  # the packed buffer
        self._slots = zeros(max(t.slots, 1), k, dtype=single)
        self._grams = zeros(programs, k, k)
        self._norms = zeros(programs)
        self._products = zeros(len(t.blocks), layout.GRAMS.value, k, k)
        self._mixes = zeros(count, layout.MIXES.value, k, k)
        self._coefficients = zeros(count, k, dtype=single)
        self._flags = zeros(count, layout.FLAG_FIELDS.value, dtype=torch.int32)
        self._left_all = zeros(1, dtype=torch.int32)
        self.report = torch.full((count, layout.REPORT_FIELDS.value), math.nan, dtype=torch.float64, device=self.device)
        self.total = zeros()
        self._layers = self._on_device(torch.tensor(t.layers, dtype=torch.int64))
        self._options = self._on_device(torch.tensor([m.options for m in self.matrices], dtype=torch.float64))
        self._blocks = self._on_device(torch.tensor(t.blocks, dtype=torch.int32))
        self._programs = {
            dtype: self._on_device(torch.tensor(mine, dtype=torch.int32)) for dtype, mine in t.programs.items()
        }
        self._addresses: list[int] = [0] * count
        pinned = self.device.type != "cpu"
        self._tables_on_host = [torch.zeros(count, dtype=torch.int64, pin_memory=pinned) for _ in range(HOST_TABLES)]
        self._copied: list[Any] = [None] * HOST_TABLES  # events: a table is written again when its copy is over
        self._moves = 0
        self._table_on_device = torch.zeros(count, dtype=torch.int64, device=self.device)
        self._aligned = False
        # Rows of folded vectors hang together, so that only their count matters.
        self._fits_vectors = all(
            w.stride % 8 == 0 and w.cols % 8 == 0 and (w.rows % 8 == 0 or not w.turned) and w.count % 8 == 0
            for w in self.windows
        )

    def _on_device(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self.device)

    @property
    def work_bytes(self) -> int:
        """What the engine holds beside what it remembers."""
        held = (self.sums, self._slots, self._grams, self._norms, self._products, self._mixes)
        return sum(tensor.numel() * tensor.element_size() for tensor in held)

    # ---- a step

    def _launch(self, kernel: Any, programs: int, *arguments: Any, warps: int, stages: int = 3,
                **constants: Any) -> None:  # fmt: skip
        self.launches += 1
        kernel[(programs,)](*arguments, num_warps=warps, num_stages=stages, **constants)

    def _point_at(self, addresses: Sequence[int]) -> None:
        """Gradients move when they are freed between steps: then the table follows, by one asynchronous copy."""
        if list(addresses) == self._addresses:
            return
        self._addresses = list(addresses)
        slot = self._moves % HOST_TABLES
        self._moves += 1
        if self._copied[slot] is not None:
            self._copied[slot].synchronize()  # of a copy several steps ago
        table = self._tables_on_host[slot]
        table.copy_(torch.tensor(self._addresses, dtype=torch.int64))
        self._table_on_device.copy_(table, non_blocking=True)
        if self.device.type != "cpu":
            self._copied[slot] = torch.Event(self.device)
            self._copied[slot].record()
        self._aligned = self._fits_vectors and all(address % 16 == 0 for address in addresses)

    def step(self, addresses: Sequence[int]) -> None:
        self._point_at(addresses)
        context: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if self.device.type == "cuda":
            context = torch.cuda.device(self.device)
        with context:
            for number in range(self.passes):
                self.run_pass(number)
                self.reduce(number, add=True, multiply=True)
                self.decide(number)
            self.update()

    def run_pass(self, number: int) -> None:
        b = self.blocking
        for dtype, programs in self._programs.items():
            self._launch(
                pass_kernel, len(programs), self._table_on_device, self._layers, programs, self._flags, self.state,
                self.V, self._slots, self._grams, self._norms, NUMBER=number, ENTRY=ELEMENT[dtype],
                ALIGNED=self._aligned, SPAN=b.span, BM=b.rows, BN=b.cols, PRECISION=self._precision,
                warps=b.sweep_warps, stages=b.sweep_stages, **self._constants,
            )  # fmt: skip

    def reduce(self, number: int, *, add: bool, multiply: bool) -> None:
        """Partial sums into the packed buffer ``sums``, and the products of its columns.  Of sharded matrices the
        buffer is added up over ranks between the two."""
        b = self.blocking
        self._launch(
            reduce_kernel, len(self._blocks), self._table_on_device, self._layers, self._blocks, self._flags,
            self.state, self.V, self._slots, self._grams, self._norms, self.sums, self._first_total, self._products,
            NUMBER=number, ADD=add, MULTIPLY=multiply, SPAN=b.column_span, BN=b.column_tile, HELD=self._held,
            warps=4, **self._constants,
        )  # fmt: skip

    def decide(self, number: int) -> None:
        b, count = self.blocking, len(self.matrices)
        last = number == self.passes - 1
        self._launch(
            decide_kernel, count, self._table_on_device, self._layers, self._options, self.state, self._flags,
            self.sums, self._first_total, self._products, self._mixes, self._coefficients, self.report,
            NUMBER=number, LAST=int(last), HELD=self._held, RADIUS_SQUARED=self._radius, warps=b.small_warps,
            **self._constants,
        )  # fmt: skip
        self._launch(
            combine_kernel, len(self._blocks) + int(last), self._table_on_device, self._layers, self._blocks,
            self._flags, self.state, self.V, self.sums, self._mixes, self.report, self.total, self._left_all, count,
            NUMBER=number, LAST=last, LEAVE_ALL=self.leave_all, SPAN=b.column_span, BN=b.column_tile, warps=4,
            **self._constants,
        )  # fmt: skip

    def update(self) -> None:
        b = self.blocking
        for dtype, programs in self._programs.items():
            self._launch(
                update_kernel, len(programs), self._table_on_device, self._layers, programs, self._flags, self.state,
                self.sums, self._coefficients, self._left_all, self._norms, ENTRY=ELEMENT[dtype],
                ALIGNED=self._aligned, SPAN=b.span, BM=b.rows, BN=b.cols, PRECISION=self._precision,
                warps=b.sweep_warps, stages=b.sweep_stages, **self._constants,
            )  # fmt: skip
        self._finish(learn=True)

    def _finish(self, *, learn: bool) -> None:
        self._launch(
            finish_kernel, len(self.matrices), self._table_on_device, self._layers, self._options, self.state,
            self.quantiles, self._flags, self._norms, self._left_all, self.report, LEARN=learn, CHUNK=CHUNK, warps=1,
        )  # fmt: skip

    # ---- what it remembers

    def forget(self) -> None:
        self.state.zero_()
        self.state[:, layout.SCALE.value] = 1
        self.start(torch.ones(len(self.matrices), dtype=torch.int32))

    def table_row(self, i: int) -> list[int]:
        """Of matrix i (layout.py)."""
        return self._tables.layers[i]

    def start(self, cold: torch.Tensor) -> None:
        """Random columns for the matrices that know nothing yet, and tau of the next step of all."""
        if self._tables.columns:
            b = self.blocking
            self._launch(
                draw_kernel, len(self._blocks), self._layers, self._blocks, self.state, self.V,
                cold.to(self.device), SPAN=b.column_span, BN=b.column_tile, warps=4, **self._constants,
            )  # fmt: skip
        self.state[:, layout.DRAWS.value] += cold.to(self.device)
        self._finish(learn=False)

# SPDX-License-Identifier: Apache-2.0
"""Time of a step from launches, bytes and flops: a model, not a measurement.

A kernel takes the longest of: bytes over the bandwidth of the memory, bytes over that of the second-level cache,
flops over the peak of the units that do them; and a launch each.  Nothing overlaps, nothing is late, no tail."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

K, SPAN = 16, 768
EFFICIENCY = 0.85  # of the data sheets' bandwidths: what copies reach


@dataclasses.dataclass(frozen=True)
class Device:
    """Bytes and flops a second, from the vendors' data sheets; the cache's bandwidth from published microbenchmarks."""

    name: str
    memory: float
    cache: float
    cache_bytes: float
    products: float  # float32 products as passes make them: tf32 over 3 on NVIDIA, float32 matrix units on AMD
    half: float  # bf16 products, for Muon
    double: float  # float64, of K x K work and of columns
    processors: int


DEVICES = (
    Device("A100", 2.0e12, 5.0e12, 40e6, 156e12 / 3, 312e12, 9.7e12, 108),
    Device("H100", 3.35e12, 7.0e12, 50e6, 495e12 / 3, 989e12, 34e12, 132),
    Device("MI300X", 5.3e12, 10.0e12, 256e6, 163e12, 1307e12, 81e12, 304),
)


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    shapes: tuple[tuple[int, int], ...]
    bytes_an_entry: int
    vectors: int  # entries of one axis
    tensors: int

    @property
    def entries(self) -> int:
        return sum(m * n for m, n in self.shapes)


def gpt2() -> Model:
    """124 M: its 48 matrices in float32; embeddings are skipped but measured."""
    return Model("GPT-2 124M, float32", ((2304, 768), (768, 768), (3072, 768), (3072, 768)) * 12, 4, 121_000, 148)


def seven_billion() -> Model:
    """32 blocks of 4096 x 4096 and 11008 x 4096, in bf16."""
    block = ((4096, 4096),) * 4 + ((11008, 4096),) * 3
    return Model("7 B, bf16", block * 32, 2, 266_000, 291)


@dataclasses.dataclass(frozen=True)
class Work:
    """Of one kernel, over the whole model."""

    name: str
    launches: int = 1
    memory: float = 0.0
    cache: float = 0.0
    products: float = 0.0
    double: float = 0.0
    half: float = 0.0
    latency: float = 0.0  # of dependent steps that no width hides

    def seconds(self, device: Device, launch: float) -> float:
        busy = max(
            self.memory / (device.memory * EFFICIENCY), self.cache / device.cache, self.products / device.products,
            self.double / device.double, self.half / device.half, self.latency,
        )  # fmt: skip
        return busy + self.launches * launch


ROTATION = (
    0.7e-6  # seconds of a round of Jacobi: about a thousand cycles of gathers, sums and roots, counted in the PTX
)
SWEEPS = 7


def _rows_of_block(model: Model) -> int:
    return 64 if max(min(shape) for shape in model.shapes) * model.bytes_an_entry <= 4608 else 32


def _falls_out(model: Model, device: Device) -> bool:
    """Whether a block's second use comes from memory."""
    row = max(min(shape) for shape in model.shapes) * model.bytes_an_entry
    return _rows_of_block(model) * row * device.processors > 0.8 * device.cache_bytes


def a_pass(model: Model, device: Device, share: float) -> list[Work]:
    """Pass, reduce, decide, combine over `share` of the entries."""
    entries, size, block = share * model.entries, model.bytes_an_entry, _rows_of_block(model)
    columns = share * sum(min(shape) for shape in model.shapes)
    slots = 4 * K * entries / SPAN
    reads = 2 if _falls_out(model, device) else 1
    columns_again = entries / block * 4 * K  # V, and twice a slot of Z, for each block of rows
    sweep = Work("pass", memory=reads * entries * size + slots, cache=2 * entries * size + 3 * columns_again,
                 products=4 * K * entries)  # fmt: skip
    reduce = Work("reduce", memory=slots + 8 * K * columns, double=2 * 5 * K * K * columns)
    decide = Work("decide", latency=(K - 1) * SWEEPS * ROTATION * 1.3 if share else 0.0)
    combine = Work("combine", memory=16 * K * columns, double=2 * 3 * K * K * columns)
    return [sweep, reduce, decide, combine]


def an_update(model: Model, device: Device, share: float) -> list[Work]:
    entries, size = share * model.entries, model.bytes_an_entry
    reads = 2 if _falls_out(model, device) else 1
    sweep = Work("update", memory=(reads + 1) * entries * size, cache=3 * entries * size, products=4 * K * entries)
    return [sweep, Work("finish")]


def ours(model: Model, device: Device, clipped: float, again: float) -> list[Work]:
    """``clipped`` of the entries are lowered, ``again`` are read a second time."""
    return a_pass(model, device, 1.0) + a_pass(model, device, again) + an_update(model, device, clipped)


def by_norm(model: Model) -> list[Work]:
    """clip_grad_norm_ with foreach: norms, their norm, a factor, and every gradient read and written, clipped or
    not."""
    size = model.entries * model.bytes_an_entry
    lists = -(-model.tensors // 60) + 1  # launches of foreach operators, that many tensors each
    return [Work("norm", lists + 4, memory=size), Work("scale", lists + 3, memory=2 * size)]


def published(model: Model) -> list[Work]:
    """svd_lowrank(q = 15, niter = 1) a matrix: four products with G, three QR, an SVD of 15 x n that waits for the
    host, and the update: a product, a read and a write."""
    works = []
    for m, n in model.shapes:
        size = m * n * 4  # in float32, whatever the gradients are
        wait = 4 * 60e-6 + 400e-6  # three QR and an SVD with their checks on the host: what small ones take on a GPU
        works.append(Work("lowrank", 40, memory=5 * size + 2 * size, products=2 * 15 * 5 * m * n, latency=wait))
    return works


def muon(model: Model) -> list[Work]:
    """Five Newton-Schulz steps a matrix in bf16: X X^T, its square, and a product back."""
    works = []
    for m, n in model.shapes:
        short, long = min(m, n), max(m, n)
        flops = 5 * (2 * short * short * long * 2 + 2 * short**3)
        works.append(Work("newton-schulz", 5 * 5, memory=5 * 6 * 2 * m * n, half=flops / 0.6))
    return works


def total(works: Sequence[Work], device: Device, launch: float) -> float:
    return sum(work.seconds(device, launch) for work in works)

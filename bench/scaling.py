#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clipping costs on the wire, from 8 to 4,096 ranks: this scheme beside gathering, layer-wise distribution and
clip_grad_norm_.  docs/scaling.md is what it prints.

    python bench/scaling.py                 # the model: bytes and seconds per step, and docs/scaling.svg with --figure
    python bench/scaling.py --measure       # fit its constants here, on 2 and 4 processes; check them on 3
    python bench/scaling.py --steps         # a step on 2 processes pinned to a core each, beside one process
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "python")]

COLUMNS = 8  # of a pass: four kept vectors and four random columns
ROUNDS = 3  # of a step: the comparison of ranks, two passes for the layer that takes longest …
PASSES = 1.5  # … and one for the others, on average
MODELS = {"1 B": (2048, 20), "70 B": (8192, 87), "1 T": (25600, 127)}  # width, blocks: 12 width^2 parameters a block
RANKS = (8, 64, 512, 4096)


def matrices(width: int, blocks: int) -> list[tuple[int, int]]:
    """qkv, out, up, down of each block, rows first."""
    return [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)] * blocks


def ours(shapes: list[tuple[int, int]], ranks: int) -> tuple[float, float]:
    """Bytes that a rank sends in a step, and exchanges one after another.  Rows are split; sums go round a ring."""
    sums = sum(PASSES * (4 * COLUMNS * n + 8 * (1 + COLUMNS**2)) + 8 for _, n in shapes)
    return 2 * (ranks - 1) / ranks * sums, 2 * ROUNDS + 1


def gathered(shapes: list[tuple[int, int]], ranks: int) -> tuple[float, float]:
    """Every rank gathers every matrix (what an SVD of a DTensor does): it receives all but its own part."""
    return (ranks - 1) / ranks * sum(4 * m * n for m, n in shapes), len(shapes)


def layerwise(shapes: list[tuple[int, int]], ranks: int) -> tuple[float, float]:
    """Each matrix is sent to one owner, and the result back (what distributed Muon does with updates).  The busiest
    owner counts: it receives no less than a whole matrix, however many ranks there are."""
    loads = [0.0] * min(ranks, len(shapes))
    for entries in sorted((4.0 * m * n for m, n in shapes), reverse=True):
        loads[loads.index(min(loads))] += entries
    return 2 * (ranks - 1) / ranks * max(loads), 2 * math.ceil(len(shapes) / ranks)


def norm(shapes: list[tuple[int, int]], ranks: int) -> tuple[float, float]:
    del shapes
    return 2 * (ranks - 1) / ranks * 4, 1


SCHEMES = {"this scheme": ours, "gathering": gathered, "layer-wise": layerwise, "clip_grad_norm_": norm}


def seconds(cost: tuple[float, float], ranks: int, latency: float, bandwidth: float) -> float:
    """An exchange takes about 2 log2(ranks) messages one after another."""
    sent, exchanges = cost
    return exchanges * 2 * math.log2(max(ranks, 2)) * latency + sent / bandwidth


def print_model(latency: float, bandwidth: float) -> None:
    print(f"latency {latency * 1e6:.1f} us a message, {bandwidth / 1e9:.2f} GB/s a rank\n")
    print("| model | ranks | " + " | ".join(SCHEMES) + " |")
    print("|---|---|" + "---|" * len(SCHEMES))
    for model, (width, blocks) in MODELS.items():
        shapes = matrices(width, blocks)
        for ranks in RANKS:
            cells = []
            for scheme in SCHEMES.values():
                cost = scheme(shapes, ranks)
                cells.append(f"{cost[0] / 1e6:,.4g} MB, {1e3 * seconds(cost, ranks, latency, bandwidth):,.4g} ms")
            print(f"| {model} | {ranks:,} | " + " | ".join(cells) + " |")


def write_figure(path: pathlib.Path, latency: float, bandwidth: float) -> None:
    """Seconds a step over ranks for the 70 B model, both axes logarithmic."""
    left, top, width, height = 80, 20, 560, 320
    ranks = [2**e for e in range(3, 13)]
    shapes = matrices(*MODELS["70 B"])
    curves = {
        name: [seconds(scheme(shapes, p), p, latency, bandwidth) for p in ranks] for name, scheme in SCHEMES.items()
    }
    low = math.floor(math.log10(min(min(c) for c in curves.values())))
    high = math.ceil(math.log10(max(max(c) for c in curves.values())))
    x = [left + width * (math.log2(p) - 3) / 9 for p in ranks]

    def y(value: float) -> float:
        return top + height * (high - math.log10(value)) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 150} {top + height + 60}" '
        'font-family="sans-serif" font-size="13">'
    ]
    for e in range(low, high + 1):
        parts.append(
            f'<line x1="{left}" x2="{left + width}" y1="{y(10.0**e):.1f}" y2="{y(10.0**e):.1f}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="{left - 8}" y="{y(10.0**e) + 4:.1f}" text-anchor="end">{10.0**e:g} s</text>')
    for p, at in zip(ranks, x):
        parts.append(f'<text x="{at:.1f}" y="{top + height + 20}" text-anchor="middle">{p}</text>')
    parts.append(
        f'<text x="{left + width / 2}" y="{top + height + 45}" text-anchor="middle">ranks (70 B parameters)</text>'
    )
    for colour, (name, values) in zip(("#0b6", "#c33", "#36c", "#888"), curves.items()):
        points = " ".join(f"{at:.1f},{y(v):.1f}" for at, v in zip(x, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x[-1] + 8:.1f}" y="{y(values[-1]) + 4:.1f}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


# ---- measured here

SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 21)  # bytes; fitted
CHECKED = (1 << 16, 1 << 20)


def time_sums(rank: int, sizes: tuple[int, ...], repetitions: int) -> dict[int, float]:
    import torch
    from torch import distributed

    found = {}
    for size in sizes:
        data = torch.ones(size // 4)
        times = []
        for _ in range(repetitions):
            distributed.barrier()
            begin = time.perf_counter()
            distributed.all_reduce(data.clone())
            times.append(time.perf_counter() - begin)
        found[size] = statistics.median(times)
    return found


def measure() -> tuple[float, float]:
    """Least squares of relative errors over 2 and 4 processes, in latency and 1 / bandwidth."""
    import ranks as processes

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count, sizes in ((2, SIZES), (4, SIZES), (3, CHECKED)):
            found = processes.run(time_sums, count, pathlib.Path(folder) / str(count), sizes, 40)
            for size in sizes:
                rows.append((count, size, max(rank[size] for rank in found)))
    a11 = a12 = a22 = b1 = b2 = 0.0
    for count, size, taken in rows:
        if count == 3:
            continue
        u, v = 2 * math.log2(count) / taken, 2 * (count - 1) / count * size / taken
        a11, a12, a22, b1, b2 = a11 + u * u, a12 + u * v, a22 + v * v, b1 + u, b2 + v
    determinant = a11 * a22 - a12 * a12
    latency, per_byte = (b1 * a22 - b2 * a12) / determinant, (a11 * b2 - a12 * b1) / determinant
    print("| processes | bytes | measured | model | |\n|---|---|---|---|---|")
    for count, size, taken in rows:
        model = 2 * math.log2(count) * latency + 2 * (count - 1) / count * size * per_byte
        note = "checked" if count == 3 else "fitted"
        print(f"| {count} | {size:,} | {1e3 * taken:.3f} ms | {1e3 * model:.3f} ms | {note} |")
    return latency, 1 / per_byte


STEP_SHAPES = [(3 * 768, 768), (768, 768), (4 * 768, 768), (768, 4 * 768)] * 3  # three blocks of GPT-2


def loud(number: int, step: int) -> object:
    """A gradient: noise, and in every other layer and step a direction that stands out."""
    import torch

    shape = STEP_SHAPES[number]
    generator = torch.Generator().manual_seed(100 * number + step)
    G = torch.randn(shape, generator=generator) * 0.02
    if (number + step) % 2:
        G += (
            3
            * torch.outer(torch.randn(shape[0], generator=generator), torch.randn(shape[1], generator=generator))
            / shape[0]
        )
    return G


def time_steps(rank: int, kind: str, steps: int) -> float:
    """Median milliseconds of a step: "replicated", "shared" (DDP's gradients) or "split" (by rows)."""
    import torch
    from torch import distributed, nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    import spectralclip

    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    named = []
    for number, shape in enumerate(STEP_SHAPES):
        whole = torch.zeros(shape)
        value = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None) if kind == "split" else whole
        named.append((f"{number}.weight", nn.Parameter(value)))
    clipper = spectralclip.SpectralClipper(named, spectralclip.Ema(0.9), share_work=kind == "shared")
    times = []
    for step in range(steps):
        for number, (_, parameter) in enumerate(named):
            full = loud(number, step)
            if kind == "split":
                full = distribute_tensor(full, mesh, [Shard(0)], src_data_rank=None)
                full = type(full).from_local(full.to_local().clone(), mesh, [Shard(0)], run_check=False)
            parameter.grad = full
        distributed.barrier()
        begin = time.perf_counter()
        clipper.step()
        distributed.barrier()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times[2:])


def time_kinds(rank: int, steps: int) -> dict[str, float]:
    import torch

    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    return {kind: time_steps(rank, kind, steps) for kind in ("replicated", "shared", "split", "replicated")}


def measure_steps() -> None:
    import ranks as processes

    with tempfile.TemporaryDirectory() as folder:
        found = processes.run(time_kinds, 2, pathlib.Path(folder), 14)
    base = max(rank["replicated"] for rank in found)
    for kind in ("replicated", "shared", "split"):
        taken = max(rank[kind] for rank in found)
        print(f"{kind:>11}: {taken:7.2f} ms a step, {taken / base:.2f} of one process doing everything")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="fit latency and bandwidth here")
    parser.add_argument("--steps", action="store_true", help="time steps on two processes")
    parser.add_argument("--figure", action="store_true", help="write docs/scaling.svg")
    parser.add_argument("--latency", type=float, default=10e-6, help="seconds a message")
    parser.add_argument("--bandwidth", type=float, default=25e9, help="bytes a second and rank")
    options = parser.parse_args()
    if options.steps:
        measure_steps()
        return
    if options.measure:
        latency, bandwidth = measure()
        print(f"\nfitted: latency {latency * 1e6:.1f} us a message, {bandwidth / 1e9:.2f} GB/s\n")
    print_model(options.latency, options.bandwidth)
    if options.figure:
        write_figure(ROOT / "docs" / "scaling.svg", options.latency, options.bandwidth)


if __name__ == "__main__":
    main()

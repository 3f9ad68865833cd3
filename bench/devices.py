# SPDX-License-Identifier: Apache-2.0
"""What a step costs on devices that are not here: launches, bytes and flops a kernel, and a model of the time.

    PYTHONPATH=python .venv/bin/python bench/devices.py              # the tables of docs/devices.md
    PYTHONPATH=python .venv/bin/python bench/devices.py --registers  # and every kernel compiled: a minute and a half

Nothing in these tables was measured on a GPU.  `bench/compare.py --device cuda` measures, on a machine that has one."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from device_cost import model as cost

LAUNCHES = {"launch 4 us": 4e-6, "Triton's launcher, 25 us": 25e-6, "in a graph, 1.5 us": 1.5e-6}


def rows(model: cost.Model, device: cost.Device) -> list[tuple[str, list[cost.Work]]]:
    return [
        ("quiet step", cost.ours(model, device, 0.0, 0.0)),
        ("45 % clipped, half of them read again", cost.ours(model, device, 0.45, 0.225)),
        ("every layer clipped and read again", cost.ours(model, device, 1.0, 1.0)),
        ("clip_grad_norm_", cost.by_norm(model)),
        ("published clipper, svd_lowrank", cost.published(model)),
        ("Muon's Newton-Schulz", cost.muon(model)),
    ]


def launch_of(name: str, label: str) -> float:
    """Only our kernels go through Triton's launcher."""
    eager = name in ("clip_grad_norm_", "published clipper, svd_lowrank", "Muon's Newton-Schulz")
    return LAUNCHES["launch 4 us"] if eager and label == "Triton's launcher, 25 us" else LAUNCHES[label]


def print_times(model: cost.Model) -> None:
    print(f"\n{model.name}: {model.entries / 1e6:.0f} M entries in {len(model.shapes)} matrices. MODEL, ms\n")
    labels = ("Triton's launcher, 25 us", "in a graph, 1.5 us")
    print(
        "| | launches | GB moved | "
        + " | ".join(f"{d.name}, {x}" for d in cost.DEVICES for x in ("eager", "graph"))
        + " |"
    )
    print("|---|---|---|" + "---|" * (2 * len(cost.DEVICES)))
    for name, works in rows(model, cost.DEVICES[0]):
        cells = [str(sum(w.launches for w in works)), f"{sum(w.memory for w in works) / 1e9:.2f}"]
        for device in cost.DEVICES:
            own = dict(rows(model, device))[name]
            for label in labels:
                graph = label.startswith("in a graph")
                if graph and name.startswith("published"):
                    cells.append("cannot")  # it waits for the device
                else:
                    cells.append(f"{1e3 * cost.total(own, device, launch_of(name, label)):.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def print_kernels(model: cost.Model, device: cost.Device) -> None:
    print(
        f"\n{model.name} on {device.name}, a quiet step and, from the second pass on, of a step that clips all. MODEL\n"
    )
    print("| kernel | GB from memory | GB from cache | Gflop | us without the launch |")
    print("|---|---|---|---|---|")
    for work in cost.a_pass(model, device, 1.0) + cost.an_update(model, device, 1.0):
        flops = (work.products + work.double) / 1e9
        print(f"| {work.name} | {work.memory / 1e9:.3f} | {work.cache / 1e9:.3f} | {flops:.2f} | "
              f"{1e6 * work.seconds(device, 0.0):.0f} |")  # fmt: skip


def print_assumptions() -> None:
    print(f"\nAssumed: {cost.EFFICIENCY} of the data sheets' bandwidth of memory; launches of 4 us (eager operators),")
    print("25 us (Triton's launcher, host-bound; 10 to 50 are reported) or 1.5 us (in a CUDA graph);")
    for d in cost.DEVICES:
        caches = f"cache {d.cache / 1e12:.0f} TB/s and {d.cache_bytes / 1e6:.0f} MB"
        peaks = f"products {d.products / 1e12:.0f} Tflop/s, float64 {d.double / 1e12:.0f}, bf16 {d.half / 1e12:.0f}"
        print(f"  {d.name}: memory {d.memory / 1e12:.2f} TB/s, {caches}, {peaks}")


def print_registers() -> None:
    path = os.path.dirname(os.path.abspath(__file__))
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    environment["PYTHONPATH"] = os.pathsep.join([path, environment.get("PYTHONPATH", "")])
    print("\nCompiled, not run: a line a kernel\n", flush=True)
    subprocess.run([sys.executable, "-W", "ignore", "-m", "device_cost.compile_all"], env=environment, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--registers", action="store_true", help="compile every kernel and say what it takes")
    arguments = parser.parse_args()
    print("A MODEL of the cost, not a measurement: no GPU has run this.")
    for model in (cost.gpt2(), cost.seven_billion()):
        print_times(model)
        print_kernels(model, cost.DEVICES[0])
    print_assumptions()
    if arguments.registers:
        print_registers()


if __name__ == "__main__":
    main()

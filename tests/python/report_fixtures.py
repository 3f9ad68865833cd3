# SPDX-License-Identifier: Apache-2.0
"""Run and sweep directories as the laboratory writes them, made from formulas: several tasks and seeds, a run that
diverged, a torn and a damaged line, a name that is HTML, two grids and a search."""

from __future__ import annotations

import json
import math
import pathlib
import random
from typing import Any, Optional

BOLD = "<b>bold</b><script>alert(1)</script>"
LAYERS = [f"network.W_{i}.weight" for i in range(4)]
METHODS = ["EMA", "Quantile", "constant_tau_0.05", "constant_tau_0.5", "constant_tau_5.0"]
STEPS, LOG_EVERY, EVAL_EVERY = 10_000, 25, 250
GRID = 8


def write_lines(path: pathlib.Path, lines: list[dict[str, Any]], tail: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail, encoding="utf-8")


def write_summary(folder: pathlib.Path, **values: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(values), encoding="utf-8")


def loss_at(step: int, floor: float, noise: random.Random) -> float:
    return (floor + math.exp(-step / 1500)) * math.exp(noise.gauss(0, 0.1))


def metric_lines(floor: float, seed: int, last: int) -> list[dict[str, Any]]:
    noise, lines = random.Random(seed), []
    for step in range(LOG_EVERY, last + 1, LOG_EVERY):
        line = {"step": step, "seconds": step * 7e-4 * (1 + seed / 50), "loss": loss_at(step, floor, noise), "lr": 0.01}
        norm = math.exp(noise.gauss(0, 1))
        line |= {"grad_norm_pre": norm, "grad_norm_post": min(1.0, norm)}
        if step % EVAL_EVERY == 0:
            own = floor * (1 + seed / 5)
            line |= {"train_loss": own + math.exp(-step / 1500), "val_loss": 1.2 * own + math.exp(-step / 1600)}
        lines.append(line)
    return lines


def layer_lines(seed: int, clipped: bool) -> list[dict[str, Any]]:
    noise, lines = random.Random(seed), []
    for step in range(EVAL_EVERY, STEPS + 1, EVAL_EVERY):
        layers = []
        for i, name in enumerate(LAYERS):
            tau = (0.3 + 0.1 * i) * math.exp(-step / 8000) if clipped else None
            count = int(step * (0.1 + 0.05 * i + seed / 100)) if clipped else 0
            sigma = 0.3 * math.exp(noise.gauss(0, 0.8))
            layers.append(dict(name=name, sigma1=sigma, tau=tau, n_clipped=1, status="ok", steps=step))
            layers[-1] |= dict(steps_clipped=count, removed_energy=0.1)
        lines.append({"step": step, "layers": layers})
    return lines


def spectra_lines() -> list[dict[str, Any]]:
    lines = []
    for step in range(1000, STEPS + 1, 1000):
        before = [5 * math.exp(-i / 9) for i in range(60)]
        layers = [dict(name=name, before=before, after=[min(1.5, s) for s in before]) for name in LAYERS]
        lines.append({"step": step, "layers": layers})
    return lines


def write_run(
    root: pathlib.Path, name: str, seed: int, floor: float, diverged_at: Optional[int] = None
) -> pathlib.Path:
    folder = root / name.replace("/", "_").replace("<", "_") / f"seed-{seed}"
    kind = "spectral" if "spectral" in name else "global_norm"
    settings = {
        "optimizer.kind": "sgdm",
        "optimizer.lr": "0.01",
        "clip.kind": kind,
        "train.steps": str(STEPS),
        "seed": str(seed),
    }
    summary = dict(task="mlp-heavy-tail", name=name, seed=seed, step=diverged_at or STEPS, steps=STEPS, version="0.1.0")
    summary |= dict(command=f"spectralclip run {name} --seed {seed}", settings=settings, main_result="train_loss")
    if diverged_at:
        summary |= dict(status="diverged", diverged_at=diverged_at, seconds=2.5, results={})
    else:
        results = {"train_loss": floor * (1 + seed / 100), "val_loss": 1.2 * floor, "baseline_loss": 1.0}
        summary |= dict(status="finished", seconds=7.0 + seed / 10, results=results)
    write_summary(folder, **summary)
    write_lines(folder / "metrics.jsonl", metric_lines(floor, seed, diverged_at or STEPS))
    write_lines(folder / "layers.jsonl", layer_lines(seed, clipped=kind == "spectral"))
    return folder


def write_training(root: pathlib.Path) -> None:
    """Four names; "norm" lost its third seed at step 5000; one torn and one damaged line."""
    for seed in (1, 2, 3):
        write_run(root, "mlp-norm", seed, 0.05, diverged_at=5000 if seed == 3 else None)
        spectral = write_run(root, "mlp-spectral-quantile", seed, 0.01)
        write_lines(spectral / "spectra.jsonl", spectra_lines())
        write_run(root, "mlp-spectral-ema", seed, 0.015)
    write_run(root, BOLD, 1, 0.03)
    torn = root / "mlp-spectral-quantile" / "seed-1" / "metrics.jsonl"
    torn.write_text(torn.read_text() + '{"step": 10025, "lo')
    damaged = root / "mlp-norm" / "seed-1" / "layers.jsonl"
    damaged.write_text("\x00\x00 not json\n" + damaged.read_text())


def write_trace(root: pathlib.Path) -> None:
    for seed in (11, 12, 13):
        folder = root / f"seed-{seed}"
        steps = [*range(1, 21), *range(100, 100_001, 50)]
        lines = []
        for step in steps:
            values = {m: (1 + seed / 50) * (0.3 / step if i < 2 else 0.02 / i) for i, m in enumerate(METHODS)}
            values[METHODS[-1]] = 0.0
            lines.append({"step": step, "seconds": step * 1e-5, **values})
        write_lines(folder / "metrics.jsonl", lines)
        results = {method: lines[-1][method] for method in METHODS}
        results |= {method + "_last_tenth": lines[-1][method] / 3 for method in METHODS}
        write_summary(folder, task="trace-regression", name="trace", seed=seed, status="finished", step=100_000,
                      steps=100_000, seconds=1.0, results=results, main_result="EMA", version="0.1.0",
                      command=f"spectralclip run trace --seed {seed}", settings={"trace.n": "3"})  # fmt: skip


def write_rates(root: pathlib.Path) -> None:
    lines: list[dict[str, Any]] = []
    results: dict[str, Any] = {}
    for theorem in (2, 1):
        for place, method in enumerate(("spectral", "norm", "none")):
            prefix = method + ("_" if theorem == 2 else "_theorem1_")
            results |= {prefix + "exponent": -0.5, prefix + "exponent_low": -0.6, prefix + "exponent_high": -0.4}
            results |= {prefix + "theory": None if method == "none" else -0.4}
            for K in (100, 215, 464, 1000, 2154, 4642, 10000):
                value = (1 + place) * K**-0.5
                line = dict(method=method, theorem=theorem, K=K, measured=value, low=0.8 * value, high=1.3 * value)
                line |= dict(average=2 * value, average_low=1.5 * value, average_high=2.5 * value)
                lines.append({"step": len(lines) + 1, **line, "bound": None if method == "none" else 40 * K**-0.4})
    write_lines(root / "metrics.jsonl", lines)
    write_summary(root, task="rates", name="rates", seed=1, status="finished", step=42, steps=42, seconds=3.0,
                  results=results, main_result="spectral_exponent", version="0.1.0",
                  command="spectralclip run rates --seed 1", settings={"rates.alpha": "1.5"})  # fmt: skip


def write_grid(root: pathlib.Path, name: str, shift: float, lost_above: float) -> None:
    """An 8 x 8 grid over lr and a threshold; cells with a large product diverge."""
    rates = [10 ** (-4 + 3 * i / (GRID - 1)) for i in range(GRID)]
    limits = [10 ** (-2 + 3 * i / (GRID - 1)) for i in range(GRID)]
    lines = []
    for lr in rates:
        for limit in limits:
            lost = lr * limit > lost_above
            distance = abs(math.log10(lr) + 2.2 + shift) + 0.4 * abs(math.log10(limit) + shift)
            values = {"optimizer.lr": lr, "clip.limit": limit}
            value = None if lost else 0.01 * 10**distance
            lines.append(dict(trial=len(lines) + 1, values=values, seed=1, value=value, seconds=2.0))
            lines[-1]["status"] = "diverged" if lost else "finished"
    write_lines(root / name / "trials.jsonl", lines)
    axis = dict(scale="log", points=GRID)
    space = [dict(key="optimizer.lr", low=1e-4, high=0.1, **axis), dict(key="clip.limit", low=0.01, high=10, **axis)]
    write_summary(root / name, kind="sweep", name=name, search="grid", trials=len(lines), metric="train_loss",
                  best=None, space=space, command=f"spectralclip sweep {name}")  # fmt: skip
    write_summary(root / name / "trials" / "0001", task="mlp-heavy-tail", name=name, seed=1, status="finished",
                  results={"train_loss": 0.1, "baseline_loss": 0.5})  # fmt: skip


def write_search(root: pathlib.Path, name: str = "tune-quantile") -> None:
    noise, lines = random.Random(5), []
    for trial in range(1, 61):
        values = {"optimizer.lr": 10 ** noise.uniform(-4, -1), "clip.quantile": noise.uniform(0.5, 0.99)}
        lost = values["optimizer.lr"] > 0.05
        value = 0.01 * 10 ** (abs(math.log10(values["optimizer.lr"]) + 2.5) + values["clip.quantile"])
        lines.append(dict(trial=trial, values=values, seed=1, seconds=2.0, value=None if lost else value))
        lines[-1]["status"] = "diverged" if lost else "finished"
    write_lines(root / name / "trials.jsonl", lines, tail='{"trial": 61, "val')
    space = [dict(key="optimizer.lr", scale="log"), dict(key="clip.quantile", scale="linear")]
    write_summary(root / name, kind="sweep", name=name, search="global", trials=60, metric="train_loss", space=space,
                  command=f"spectralclip sweep {name}")  # fmt: skip
    for seed in (1, 2):
        best = root / name / "best" / f"seed-{seed}"
        write_summary(best, task="mlp-heavy-tail", name="x", seed=seed, status="finished", seconds=2.0,
                      main_result="train_loss", results={"train_loss": 0.02}, settings={"optimizer.lr": "0.003"},
                      command="spectralclip run x")  # fmt: skip


def write_everything(root: pathlib.Path) -> list[pathlib.Path]:
    """All of it; returns the directories to report on."""
    write_training(root / "mlp")
    write_trace(root / "trace")
    write_rates(root / "rates")
    write_grid(root / "sweeps", "grid-norm", 0.0, 0.02)
    write_grid(root / "sweeps", "grid-spectral", 0.3, 0.2)
    write_search(root / "sweeps")
    return [root / name for name in ("mlp", "trace", "rates", "sweeps")]

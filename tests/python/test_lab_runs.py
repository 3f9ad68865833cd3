# SPDX-License-Identifier: Apache-2.0
"""`spectralclip run` on the real engine: kills, resumes, equal bits, divergence, several seeds."""

from __future__ import annotations

import random
import signal
import time

import pytest
from lab_tool import (
    SPECTRAL,
    call,
    checkpoint_sections,
    lines,
    metrics_without_time,
    needs_program,
    settings,
    start,
    summary,
)

pytestmark = needs_program

# Heavy-tailed noise at the presets' learning rates is chaotic: after some eighty steps the losses of two instruction
# sets share one digit, and one run may diverge where the other does not. A run that has to finish here takes steps so
# small that rounding stays rounding.
CALM = 1e-5

SHORT = settings(
    optimizer__lr=CALM,
    train__steps=3000,
    record__checkpoint_every=100,
    record__layers_every=50,
    record__spectra_every=1000,
    mlp__samples=500,
)


def assert_same_run(one, other):
    assert summary(one)["results"] == summary(other)["results"]
    assert metrics_without_time(one) == metrics_without_time(other)
    assert (one / "layers.jsonl").read_bytes() == (other / "layers.jsonl").read_bytes()
    assert (one / "spectra.jsonl").read_bytes() == (other / "spectra.jsonl").read_bytes()
    first, second = checkpoint_sections(one), checkpoint_sections(other)
    assert first["weights"] == second["weights"]
    assert first["clipper"] == second["clipper"]
    assert first["progress"] == second["progress"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = tmp_path_factory.mktemp("whole") / "run"
    done = call("run", SPECTRAL, *SHORT, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


def test_a_run_leaves_what_it_says(whole):
    facts = summary(whole)
    assert facts["status"] == "finished" and facts["step"] == facts["steps"] == 3000
    assert facts["settings"]["optimizer.lr"] == "1e-05" and facts["command"].startswith("spectralclip run ")
    assert {"train_loss", "val_loss", "min_loss", "baseline_loss"} <= facts["results"].keys()
    logged = [line["step"] for line in lines(whole / "metrics.jsonl")]
    assert logged == [*range(1, 21), *range(25, 3001, 25)]
    layers = lines(whole / "layers.jsonl")[-1]["layers"]
    assert [layer["name"] for layer in layers] == [f"network.W_{i}.weight" for i in range(4)]
    assert all(layer["sigma1"] > 0 and layer["tau"] > 0 for layer in layers)
    spectrum = lines(whole / "spectra.jsonl")[0]["layers"][0]
    tau = next(line for line in lines(whole / "layers.jsonl") if line["step"] == 1000)["layers"][0]["tau"]
    assert max(spectrum["after"]) <= tau * (1 + 1e-4)
    assert spectrum["after"] == pytest.approx([min(value, tau) for value in spectrum["before"]], rel=1e-3, abs=1e-6)


def test_one_seed_gives_equal_bits(whole, tmp_path):
    assert call("run", SPECTRAL, *SHORT, "--out", tmp_path / "run").returncode == 0
    assert_same_run(whole, tmp_path / "run")


def test_two_threads_give_the_same_thresholds(whole, tmp_path):
    """The first tenth: threads that wait for each other on a busy machine take minutes for all of it."""
    done = call("run", SPECTRAL, *SHORT, *settings(threads=2, train__steps=300), "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "run" / "layers.jsonl").read_bytes()
    assert len(first.splitlines()) >= 300 // 50
    assert (whole / "layers.jsonl").read_bytes().startswith(first)


def test_sigkill_at_twenty_moments(whole, tmp_path):
    """Killed without warning twenty times and resumed each time: the same bits in the end, no gap, no repeat."""
    run, moments = tmp_path / "run", random.Random(1)
    seconds = summary(whole)["seconds"]
    kills = 0
    for _ in range(20):
        process = start("run", SPECTRAL, *SHORT, "--out", run, "--resume", "--quiet")
        time.sleep(0.2 + moments.random() * (0.2 + seconds / 4))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if run.is_dir() and (run / "summary.json").exists() and summary(run)["status"] == "finished":
            kept = run.with_name(f"finished-{kills}")
            run.rename(kept)
            assert_same_run(whole, kept)
    assert kills >= 10, "most runs were over before they could be killed"
    assert call("run", SPECTRAL, *SHORT, "--out", run, "--resume").returncode == 0
    assert_same_run(whole, run)


def test_ctrl_c_stops_with_a_checkpoint(whole, tmp_path):
    run = tmp_path / "run"
    process = start("run", SPECTRAL, *SHORT, "--out", run, "--quiet")
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert "--resume" in out and summary(run)["status"] == "stopped"
    assert call("run", SPECTRAL, *SHORT, "--out", run, "--resume").returncode == 0
    assert_same_run(whole, run)


def test_a_finished_run_is_neither_repeated_nor_overwritten(whole):
    before = (whole / "metrics.jsonl").read_bytes()
    refused = call("run", SPECTRAL, *SHORT, "--out", whole)
    assert refused.returncode == 2 and "already holds a run (finished, 3000 of 3000 steps)" in refused.stderr
    again = call("run", SPECTRAL, *SHORT, "--out", whole, "--resume")
    assert again.returncode == 0 and "already finished" in again.stdout
    assert (whole / "metrics.jsonl").read_bytes() == before


def test_a_diverged_run_is_recorded(tmp_path):
    done = call(
        "run",
        "mlp-heavy-tail",
        *settings(optimizer__lr=1e4, optimizer__kind="sgd", train__steps=500),
        "--out",
        tmp_path / "run",
    )
    assert done.returncode == 3 and "diverged at step" in done.stdout
    facts = summary(tmp_path / "run")
    assert facts["status"] == "diverged" and facts["diverged_at"] >= 2


@pytest.mark.parametrize("optimizer", ["sgd", "sgdm", "adam", "adamw", "muon"])
def test_every_optimizer_trains_and_resumes(tmp_path, optimizer):
    words = [
        "mlp-heavy-tail",
        *settings(optimizer__kind=optimizer, optimizer__lr=CALM, train__steps=400, mlp__samples=500),
    ]
    assert call("run", *words, "--out", tmp_path / "whole").returncode == 0
    process = start("run", *words, "--out", tmp_path / "run", "--quiet")
    while not (tmp_path / "run" / "metrics.jsonl").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert call("run", *words, "--out", tmp_path / "run", "--resume").returncode == 0
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize(
    "clip", ["none", "global_norm", "layer_norm", "agc", "coordinate", "spectral", "soft", "soft_update"]
)
def test_every_clipper_trains(tmp_path, clip):
    done = call(
        "run",
        "mlp-heavy-tail",
        *settings(clip__kind=clip, optimizer__lr=CALM, train__steps=300, mlp__samples=500),
        "--out",
        tmp_path / "run",
    )
    assert done.returncode == 0, done.stderr
    last = lines(tmp_path / "run" / "metrics.jsonl")[-1]
    if clip in ("global_norm", "layer_norm", "agc", "coordinate", "soft"):
        assert last["grad_norm_post"] <= last["grad_norm_pre"] * (1 + 1e-6)


@pytest.mark.parametrize("method", ["exact", "gram", "sketched", "tracked", "newton_schulz", "auto"])
def test_every_method_clips_to_the_threshold(tmp_path, method):
    words = settings(clip__method=method, train__steps=200, record__spectra_every=100, mlp__samples=500, clip__tau=0.02)
    words += settings(optimizer__lr=CALM)
    done = call("run", "mlp-heavy-tail-sgdm-spectral-constant", *words, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    for layer in lines(tmp_path / "run" / "spectra.jsonl")[-1]["layers"]:
        if method == "sketched":  # clips its rank and leaves the rest
            continue
        assert max(layer["after"]) <= 0.02 * (1 + 1e-3), layer["name"]


@pytest.mark.parametrize("noise", ["none", "gaussian", "pareto", "rank_gaussian", "rank_pareto"])
def test_every_noise_reaches_the_gradients(tmp_path, noise):
    words = settings(train__steps=100, mlp__samples=500, optimizer__lr=CALM)
    given = {} if noise == "none" else {"noise__probability": 1, "noise__scale": 0.01}
    noisy = settings(noise__kind=noise, **given)
    assert call("run", SPECTRAL, *words, *noisy, "--out", tmp_path / "run").returncode == 0
    assert call("run", SPECTRAL, *words, *settings(noise__kind="none"), "--out", tmp_path / "clean").returncode == 0
    first, clean = (lines(tmp_path / name / "metrics.jsonl")[0] for name in ("run", "clean"))
    assert first["loss"] == clean["loss"]
    assert (first["grad_norm_pre"] == clean["grad_norm_pre"]) == (noise == "none")


def test_several_presets_and_seeds(tmp_path):
    names = ["mlp-heavy-tail-sgdm-norm", SPECTRAL]
    words = [
        *names,
        *settings(train__steps=200, mlp__samples=500, optimizer__lr=CALM),
        "--seeds",
        "1..2",
        "--out",
        tmp_path,
    ]
    done = call("run", *words)
    assert done.returncode == 0, done.stderr
    for name in names:
        assert name in done.stdout
        results = [summary(tmp_path / name / f"seed-{seed}")["results"]["train_loss"] for seed in (1, 2)]
        assert results[0] != results[1]
    again = call("run", *words)
    assert again.returncode == 2 and "already holds a run" in again.stderr
    assert call("run", *words, "--resume").returncode == 0


def test_trace_regression_writes_the_published_table(tmp_path):
    done = call("run", "trace-regression", *settings(train__steps=300), "--seeds", "11..13", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "tracereg_sigma0.01_seeds3.csv").read_text().splitlines()
    assert rows[0] == "method,iteration,mean,std,min,max"
    assert {row.split(",")[0] for row in rows[1:]} >= {"EMA", "Quantile", "constant_tau_0.05", "constant_tau_1.0"}
    assert call("run", "trace-regression", *settings(train__steps=50), "--out", tmp_path / "one").returncode == 0
    assert (tmp_path / "one" / "tracereg_sigma0.01_seeds1.csv").is_file()

# SPDX-License-Identifier: Apache-2.0
"""The program as a newcomer meets it: words it does not know, settings that do nothing, places that are taken, narrow
terminals, pipes, hang-ups, tables for other programs."""

from __future__ import annotations

import csv
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import time

import pytest
from lab_tool import PROGRAM, SPECTRAL, call, lines, needs_program, settings, start, summary

pytestmark = needs_program

SMALL = settings(train__steps=60, mlp__samples=300, optimizer__lr=1e-5)
EMA = "mlp-heavy-tail-sgdm-spectral-ema"

SWEEP = """
preset = "mlp-heavy-tail-sgdm-norm"
[set]
"train.steps" = 30
"mlp.samples" = 300
[sweep]
search = "random"
trials = 2
best_seeds = 1
[space."optimizer.lr"]
low = 1e-7
high = 1e-6
scale = "log"
"""


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["rnu", SPECTRAL], ['"rnu"', 'did you mean "run"?']),
        (["run", EMA, "--set", "clip.tau=3"], ["clip.tau has no effect while clip.threshold = ema"]),
        (
            ["run", "mlp-heavy-tail-adam-norm", "--set", "optimizer.momentum=0.5"],
            ["no effect while optimizer.kind = adam"],
        ),
        (["run", SPECTRAL, "--set", "clip.max_norm=1"], ["clip.max_norm has no effect while clip.kind = spectral"]),
        (["run", SPECTRAL, "--set", "optimizer.lr=inf"], ['optimizer.lr = "inf"', "expected number"]),
        (["run", SPECTRAL, "--set", "xyzzy=1"], ["`spectralclip list --keys`"]),
        (["sweep", SPECTRAL], ["is no sweep but a single run", f"spectralclip run {SPECTRAL}"]),
    ],
)
def test_misuse_is_named_with_what_was_meant(tmp_path, words, parts):
    out = [] if words[0] == "rnu" else ["--out", tmp_path / "out"]
    done = call(*words, *out)
    assert done.returncode == 2, done.stdout + done.stderr
    for part in parts:
        assert part in done.stderr + done.stdout
    assert not (tmp_path / "out").exists()


def test_a_sweep_refuses_what_does_nothing_and_files_that_are_none(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SWEEP.replace("optimizer.lr", "clip.tau").replace("1e-7", "0.1").replace("1e-6", "1.0"))
    done = call("sweep", file, "--out", tmp_path / "out")
    assert done.returncode == 2 and "clip.tau has no effect while" in done.stderr
    file.write_text(SWEEP)
    done = call("sweep", file, "--set", "seed=3", "--out", tmp_path / "out")
    assert done.returncode == 2 and "--seed" in done.stderr
    file.write_text(f'extends = "{SPECTRAL}"\n')
    done = call("sweep", file, "--out", tmp_path / "out")
    assert done.returncode == 2 and "defines no sweep" in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_error_of_the_library_below_is_a_line_and_no_dump(tmp_path):
    done = call("run", SPECTRAL, *settings(mlp__width=100_000_000, train__steps=1), "--out", tmp_path / "out")
    assert done.returncode != 0
    assert "frame #" not in done.stderr and len(done.stderr.splitlines()) < 8, done.stderr


def test_results_of_another_kind_are_not_overwritten(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SWEEP)
    assert call("run", SPECTRAL, *SMALL, "--out", tmp_path / "run").returncode == 0
    assert call("run", SPECTRAL, *SMALL, "--seeds", "1,2", "--out", tmp_path / "several").returncode == 0
    assert call("sweep", file, "--out", tmp_path / "sweep").returncode == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json*")}
    attempts = {
        ("sweep", file, "--out", tmp_path / "run"): "holds a run",
        ("sweep", file, "--out", tmp_path / "several"): "holds a folder of runs",
        ("run", SPECTRAL, *SMALL, "--out", tmp_path / "sweep"): "holds a sweep",
        ("run", SPECTRAL, *SMALL, "--out", tmp_path / "several"): "holds a folder of runs",
        ("run", SPECTRAL, *SMALL, "--seeds", "1,2", "--out", tmp_path / "run"): "holds a run",
        ("run", SPECTRAL, *SMALL, "--out", tmp_path / "run" / "inner"): "lies inside of",
    }
    for words, message in attempts.items():
        done = call(*words)
        assert done.returncode == 2 and message in done.stderr, (words, done.stderr)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json*")} == before


def test_a_killed_run_is_called_interrupted_where_it_stood(tmp_path):
    run = tmp_path / "run"
    process = start("run", SPECTRAL, *settings(train__steps=200000, mlp__samples=300), "--out", run, "--quiet")
    while not (run / "metrics.jsonl").exists() or len(lines_so_far(run)) < 30:
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert summary(run)["status"] == "running"  # it could not say more
    assert "unfinished" in call("report", run).stdout
    call("export", run)
    with (run / "csv" / "runs.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["status"] == "interrupted" and float(row["step"]) >= 20


def lines_so_far(run):
    return (run / "metrics.jsonl").read_text().splitlines()


def test_lost_lines_are_said_by_the_report(tmp_path):
    run = tmp_path / "run"
    assert call("run", SPECTRAL, *settings(train__steps=300, mlp__samples=300), "--out", run).returncode in (0, 3)
    kept = lines_so_far(run)
    (run / "metrics.jsonl").write_text("\n".join(kept[:22] + kept[26:]) + "\n")
    done = call("report", run)
    assert "lines are missing" in done.stderr and "metrics.jsonl" in done.stderr


@pytest.mark.parametrize("words", [[], ["--seeds", "1,2"]])
def test_a_pipe_gets_each_line_once(tmp_path, words):
    done = call("run", SPECTRAL, *SMALL, *words, "--out", tmp_path / "run")
    said = [line for line in done.stderr.splitlines() if "%" in line]
    assert said and len(set(said)) == len(said), said
    assert "100 %" in said[-1] and "\r" not in done.stderr and "\x1b" not in done.stderr


def in_terminal(columns, words, **environment):
    """What the program writes on a terminal of so many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    surroundings = {**os.environ, "TERM": "xterm", **environment}
    process = subprocess.Popen([str(PROGRAM), *map(str, words)], stdout=follower, stderr=follower, env=surroundings)
    os.close(follower)
    text = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        text += piece
    os.close(leader)
    assert process.wait(timeout=300) == 0, text
    return text.decode()


def test_a_narrow_terminal_keeps_the_numbers(tmp_path):
    words = ["run", SPECTRAL, *settings(train__steps=2000, mlp__samples=300, optimizer__lr=1e-5)]
    drawn = [part for part in in_terminal(60, [*words, "--out", tmp_path / "a"]).split("\r") if " % " in part]
    assert drawn
    for part in drawn:
        assert len(part.replace("\x1b[K", "").split("\n")[0]) <= 60
        assert "/2000" in part and "loss" in part


def test_colours_and_redrawing_only_where_they_are_wanted(tmp_path):
    words = ["run", SPECTRAL, *SMALL, "--seeds", "1,2"]
    assert "\x1b[" in in_terminal(100, [*words, "--out", tmp_path / "a"])
    assert "\x1b" not in in_terminal(100, [*words, "--out", tmp_path / "b"], TERM="dumb")
    plain = in_terminal(100, [*words, "--out", tmp_path / "c"], NO_COLOR="1")
    assert "\x1b[1m" not in plain and "\x1b[3" not in plain


def test_a_hang_up_is_a_stop_with_a_checkpoint(tmp_path):
    run = tmp_path / "run"
    words = ["run", SPECTRAL, *settings(train__steps=200000, mlp__samples=300), "--out", run, "--quiet"]
    process = start(*words)
    while not (run / "metrics.jsonl").exists() or not lines_so_far(run):
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert summary(run)["status"] == "stopped" and (run / "checkpoint.bin").exists()


def test_everything_is_exported_as_numbers_that_read_back(tmp_path):
    assert call("run", SPECTRAL, *SMALL, "--seeds", "1,2", "--out", tmp_path / "runs").returncode == 0
    done = call("export", tmp_path / "runs", "--out", tmp_path / "csv")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "csv" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for seed in ("1", "2"):
        losses = [float(row["value"]) for row in rows if row["seed"] == seed and row["metric"] == "loss"]
        assert losses == [line["loss"] for line in lines(tmp_path / "runs" / f"seed-{seed}" / "metrics.jsonl")]
    with (tmp_path / "csv" / "runs.csv").open(newline="") as file:
        first = next(iter(csv.DictReader(file)))
    run = summary(tmp_path / "runs" / "seed-1")
    assert float(first["result.train_loss"]) == run["results"]["train_loss"]
    assert float(first["optimizer.lr"]) == 1e-5

# SPDX-License-Identifier: Apache-2.0
"""Bad input and bad weather: every one ends in a clear message, and what was there before is still there."""

from __future__ import annotations

import os
import resource
import subprocess
import time

import pytest
from lab_tool import PROGRAM, SPECTRAL, call, lines, needs_program, settings, start, summary

pytestmark = needs_program

SHORT = settings(
    train__steps=2000, record__checkpoint_every=100, mlp__samples=500, optimizer__lr=1e-5
)  # calm: test_lab_runs


@pytest.fixture
def stopped(tmp_path):
    """A run that was interrupted after some checkpoints."""
    run = tmp_path / "run"
    process = start("run", SPECTRAL, *SHORT, "--out", run, "--quiet")
    while not (run / "checkpoint.bin").exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    return run


def contents(run):
    return {path.name: path.read_bytes() for path in sorted(run.iterdir()) if path.name != "lock"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "train.stps=3"], 'no key is called "train.stps"; did you mean "train.steps"?'),
        (["--set", "train.steps=many"], 'train.steps = "many": expected integer in [1, 1000000000]'),
        (["--set", "train.steps=0"], 'train.steps = "0": expected integer in [1, 1000000000]'),
        (["--set", "optimizer.kind=adm"], "expected sgd, sgdm, adam, adamw, muon"),
        (["--set", "clip.method=svd"], "exact, gram, sketched, tracked, newton_schulz, auto"),
        (["--set", "clip.decay=2"], "clip.decay"),
        (["--set", "optimizer.lr"], "expected key=value"),
        (["--set", "trace.n=4"], "trace.n has no effect on the task mlp-heavy-tail"),
        (["--set", "task=mlp"], 'no task is called "mlp"'),
        (["--seeds", "3..1"], 'seeds "3..1"'),
        (["--seeds", "1,x"], 'seeds "1,x"'),
        (["--seeds", "1,1"], "named twice"),
        (["--jobs", "0"], "--jobs"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_bad_words_are_refused(tmp_path, words, message):
    done = call("run", SPECTRAL, *words, "--out", tmp_path / "run")
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr + done.stdout
    assert not (tmp_path / "run").exists(), "something was left behind"


def test_bad_files_are_refused(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[train]\nsteps = = 4\n")
    assert "line 2" in call("run", file, "--out", tmp_path / "run").stderr
    file.write_text('[train]\nsteps = "4"\n')
    assert "expected an integer, without quotes" in call("run", file, "--out", tmp_path / "run").stderr
    assert "no-such.toml" in call("run", tmp_path / "no-such.toml").stderr
    assert 'did you mean "mlp-heavy-tail-adam"?' in call("run", "mlp-heavy-tail-adm").stderr


def test_a_file_of_the_users_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(f'extends = "{SPECTRAL}"\n[train]\nsteps = 50\n[mlp]\nsamples = 300\n')
    done = call("run", file, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "run")["name"] == "mine" and summary(tmp_path / "run")["steps"] == 50
    # What was recorded can be given back.
    again = call("run", tmp_path / "run" / "config.toml", "--out", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert summary(tmp_path / "again")["results"] == summary(tmp_path / "run")["results"]


def test_a_full_disk(stopped):
    """The kernel refuses to let a file grow, as a full disk does: a clear error, and the run goes on later."""
    before = summary(stopped)

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        [str(PROGRAM), "run", SPECTRAL, *SHORT, "--out", str(stopped), "--resume", "--quiet"],
        capture_output=True,
        text=True,
        preexec_fn=small_files,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "cannot write" in done.stderr and str(stopped) in done.stderr
    assert summary(stopped)["settings"] == before["settings"]
    assert call("run", SPECTRAL, *SHORT, "--out", stopped, "--resume").returncode == 0
    assert [line["step"] for line in lines(stopped / "metrics.jsonl")] == [*range(1, 21), *range(25, 2001, 25)]


def test_a_read_only_run_directory(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    nobody = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}  # root may write everywhere
    for part in [tmp_path, *tmp_path.parents]:
        if nobody and not part.stat().st_mode & 0o001:
            part.chmod(part.stat().st_mode | 0o011)
    try:
        done = call("run", SPECTRAL, *SHORT, "--out", folder / "run", **nobody)
    except PermissionError:
        pytest.skip("nobody may not run the program here")
    if "error while loading shared libraries" in done.stderr or "ermission denied" not in done.stderr:
        pytest.skip("nobody may not read the program's libraries here")
    assert done.returncode == 1
    assert "cannot make the directory" in done.stderr and "closed/run" in done.stderr


def test_a_truncated_checkpoint(stopped):
    checkpoint = stopped / "checkpoint.bin"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    before = contents(stopped)
    done = call("run", SPECTRAL, *SHORT, "--out", stopped, "--resume")
    assert done.returncode == 1 and "checkpoint.bin" in done.stderr and "truncated or damaged" in done.stderr
    assert contents(stopped) == before


def test_a_corrupted_metrics_line(stopped):
    path = stopped / "metrics.jsonl"
    text = path.read_text().splitlines(keepends=True)
    text[2] = text[2].replace('"loss"', '"lo\x00')
    path.write_text("".join(text))
    before = contents(stopped)
    done = call("run", SPECTRAL, *SHORT, "--out", stopped, "--resume")
    assert done.returncode == 1 and "metrics.jsonl, line 3 is damaged" in done.stderr
    assert contents(stopped) == before


def test_two_processes_on_one_directory(tmp_path):
    run = tmp_path / "run"
    first = start("run", SPECTRAL, *SHORT, *settings(train__steps=200000), "--out", run, "--quiet")
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.01)
    second = call("run", SPECTRAL, *SHORT, *settings(train__steps=200000), "--out", run, "--resume")
    first.terminate()
    first.communicate(timeout=60)
    assert second.returncode == 1 and f"is in use by process {first.pid}" in second.stderr
    assert first.returncode == 130


def test_help_list_doctor_data_and_completion(tmp_path):
    for command in ("run", "sweep", "report", "list", "data", "bench", "doctor", "completion"):
        done = call(command, "--help")
        assert done.returncode == 0 and len(done.stdout) > 100, command
    listed = call("list").stdout
    for word in (SPECTRAL, "trace-regression", "rates", "newton_schulz", "muon", "quantile", "heatmap-mlp-norm"):
        assert word in listed
    keys = call("list", "--keys").stdout
    for key in ("train.steps", "optimizer.lr", "clip.tau", "clip.method", "noise.alpha"):
        assert key in keys
    doctor = call("doctor")
    assert doctor.returncode == 0 and "LibTorch" in doctor.stdout and "SIMD" in doctor.stdout
    nowhere = {**os.environ, "SPECTRALCLIP_DATA": str(tmp_path), "HOME": str(tmp_path)}
    assert "To get it" in call("data", env=nowhere, cwd=tmp_path).stdout
    script = call("completion", "bash").stdout
    typed = "COMP_WORDS=(spectralclip run mlp-heavy-tail-sgdm-sp); COMP_CWORD=2; _spectralclip"
    script += typed + '; printf "%s\\n" "${COMPREPLY[@]}"'
    words = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert words.split() == sorted(word for word in words.split() if word.startswith("mlp-heavy-tail-sgdm-sp"))
    assert SPECTRAL in words.split()

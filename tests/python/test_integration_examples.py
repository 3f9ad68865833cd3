# SPDX-License-Identifier: Apache-2.0
"""The examples run, and say what they promise to say."""

import concurrent.futures
import importlib.util
import pathlib
import runpy
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "python"
# Example -> what its output must contain, and the package it needs.
EXAMPLES = {
    "amp_grad_scaler": (["not finite 4, scale 8192"], None),
    "gradient_accumulation": (["20 micro-batches, 5 clips"], None),
    "optimizer_in_backward": (["gradients left in memory: 0"], None),
    "accelerate_loop": (["saved and restored at step 6"], "accelerate"),
    "transformers_trainer": (["'grad_norm'", "'spectralclip/max_sigma_over_tau'", "spectralclip.pt"], "transformers"),
    "lightning_trainer": (["spectralclip/total_norm = ", "the clipper is at step 12"], "lightning"),
}


def is_here(package):
    return package is None or importlib.util.find_spec(package) is not None


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All examples, two at a time, each in an empty directory: name -> (directory, its finished process to come)."""

    def run(name, directory):
        command = [sys.executable, FOLDER / f"{name}.py"]
        return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600)

    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        folders = {name: tmp_path_factory.mktemp(name) for name, (_, package) in EXAMPLES.items() if is_here(package)}
        yield {name: (folder, pool.submit(run, name, folder)) for name, folder in folders.items()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name, runs):
    expected, package = EXAMPLES[name]
    if not is_here(package):
        pytest.skip(f"needs {package}")
    directory, future = runs[name]
    finished = future.result()
    assert finished.returncode == 0, finished.stderr
    for text in expected:
        assert text in finished.stdout
    assert list(directory.iterdir()) == []  # leaves nothing behind


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_has_help(name, monkeypatch, capsys):
    if not is_here(EXAMPLES[name][1]):
        pytest.skip(f"needs {EXAMPLES[name][1]}")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 0
    assert "usage: " in capsys.readouterr().out


def test_every_example_is_tested():
    texts = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")}
    assert {name for name, text in texts.items() if "spectralclip.integrations" in text} <= set(EXAMPLES)

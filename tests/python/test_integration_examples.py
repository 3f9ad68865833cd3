# SPDX-License-Identifier: Apache-2.0
"""The examples run, and say what they promise to say."""

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


def needs(package):
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name, tmp_path):
    expected, package = EXAMPLES[name]
    needs(package)
    run = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    for text in expected:
        assert text in run.stdout
    assert list(tmp_path.iterdir()) == []  # leaves nothing behind


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_has_help(name, monkeypatch, capsys):
    needs(EXAMPLES[name][1])
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 0
    assert "usage: " in capsys.readouterr().out


def test_every_example_is_tested():
    ours = {path.stem for path in FOLDER.glob("*.py") if "spectralclip.integrations" in path.read_text(encoding="utf-8")}
    assert ours <= set(EXAMPLES)

# SPDX-License-Identifier: Apache-2.0
"""spectralclip.lab.read: run directories as data frames."""

from __future__ import annotations

import builtins
import json

import pytest

from spectralclip import lab


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps({"status": "running", "results": {}}))
    metrics = [{"step": 1, "loss": 2.5}, {"step": 2, "loss": None, "val_loss": 2.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics) + '{"step": 3, "lo')
    layers = {
        "step": 2,
        "layers": [{"name": "a", "sigma1": 1.5, "tau": 1.0}, {"name": "b", "sigma1": 0.5, "tau": None}],
    }
    (tmp_path / "layers.jsonl").write_text(json.dumps(layers) + "\n")
    return tmp_path


def test_a_run_as_frames(folder):
    pytest.importorskip("pandas", reason="pandas is not installed")
    run = lab.read(folder)
    assert run.summary["status"] == "running" and run.path == folder
    assert list(run.metrics["step"]) == [1, 2], "the torn line is left out"
    assert run.metrics["val_loss"].isna().tolist() == [True, False]
    assert run.layers.set_index("name")["sigma1"].to_dict() == {"a": 1.5, "b": 0.5}
    assert list(run.layers["step"]) == [2, 2]
    (folder / "layers.jsonl").unlink()
    assert lab.read(folder).layers.empty


def test_what_is_no_run_is_refused(folder, tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2 is damaged"):
        lab.read(folder)
    with pytest.raises(FileNotFoundError, match=r"no run directory: it has no summary\.json"):
        lab.read(tmp_path / "elsewhere")


def test_without_pandas_the_error_says_what_to_install(folder, monkeypatch):
    load = builtins.__import__

    def no_pandas(name, *rest):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'")
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_pandas)
    with pytest.raises(ImportError, match="pip install pandas"):
        lab.read(folder)

# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings, in the README and in the documents do what they show."""

from __future__ import annotations

import ast
import doctest
import importlib
import pathlib
import pkgutil
import re
import sys
import textwrap

import pytest
import torch

import spectralclip

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = sorted(
    {"spectralclip"} | {m.name for m in pkgutil.walk_packages(spectralclip.__path__, "spectralclip.") if not m.ispkg}
)
# Public functions and classes; each shows an example somewhere in its module.
WITH_EXAMPLES = {
    "spectralclip.clipper", "spectralclip.functional", "spectralclip.reports", "spectralclip.rules",
    "spectralclip.thresholds", "spectralclip._settings", "spectralclip.integrations.logging",
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if not name.startswith(("spectralclip.integrations", "spectralclip.triton")):
            raise
        pytest.skip(f"{name} needs a package that is not installed: {error}")
    failed, attempted = doctest.testmod(module)
    assert failed == 0
    if name in WITH_EXAMPLES:
        assert attempted > 0


@pytest.mark.parametrize("name", ["compare.timing", "compare.findings"])
def test_examples_of_the_benchmark(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert failed == 0 and attempted > 0


def test_what_is_exported_exists_and_is_documented():
    for name in spectralclip.__all__:
        assert getattr(spectralclip, name).__doc__, name


def python_blocks(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


def test_the_readme_runs():
    model = torch.nn.Linear(4, 3)
    names = {
        "spectralclip": spectralclip,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss": model(torch.ones(2, 4)).square().sum(),
        "G": torch.randn(5, 4),
    }
    (block,) = python_blocks("README.md")
    exec(block, names)
    assert torch.linalg.matrix_norm(names["clipped"], 2) <= 1.001
    assert model.weight.grad is not None


def test_the_documents_call_what_exists():
    """Their blocks are parts of programs, so they are read, not run: are the names of the package there?"""
    blocks = [*python_blocks("docs/integrations.md"), *python_blocks("docs/where_to_clip.md")]
    assert len(blocks) >= 9
    seen = 0
    for tree in map(ast.parse, blocks):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("spectralclip", "sc"):
                assert hasattr(spectralclip, node.attr), node.attr
                seen += 1
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "spectralclip":
                for alias in node.names:
                    module = sys.modules.get(node.module) or pytest.importorskip(node.module)
                    assert hasattr(module, alias.name), alias.name
                    seen += 1
    assert seen >= 8

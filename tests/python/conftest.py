# SPDX-License-Identifier: Apache-2.0
"""What the tests share.  Run from the project root: ``python -m pytest tests/python``."""

from __future__ import annotations

import os
import pathlib

import hypothesis
import pytest
import torch

# The same examples on every run and no deadline: the machine may be busy.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None, max_examples=30)
hypothesis.settings.load_profile("tests")


# One thread: the models are tiny, and on a busy machine two threads wait for each other. Tests of threads ask for two.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded():
    """Every test starts from the same global generator and on one thread."""
    torch.manual_seed(0)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20)


@pytest.fixture(scope="session")
def shakespeare() -> str:
    """Tiny Shakespeare: SPECTRALCLIP_DATA/shakespeare/input.txt, or ../shared/data beside the project."""
    root = pathlib.Path(__file__).resolve().parents[2]
    data = pathlib.Path(os.environ.get("SPECTRALCLIP_DATA", root.parent / "shared" / "data"))
    path = data / "shakespeare" / "input.txt"
    if not path.is_file():
        pytest.skip(f"tiny Shakespeare is absent ({path}); SPECTRALCLIP_DATA names the folder of shakespeare/input.txt")
    return path.read_text(encoding="utf-8")

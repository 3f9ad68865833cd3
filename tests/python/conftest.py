# SPDX-License-Identifier: Apache-2.0
"""What the tests share.  Run from the project root: ``python -m pytest tests/python``."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import tempfile

import hypothesis
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What torch must be told on this processor before its first product, as `make test-python` exports it: a pytest that
# was started by hand needs it too. Before torch is imported.
for name, value in re.findall(
    r"export (\w+)=(\S+)", subprocess.run([ROOT / "tools" / "cpu_limits.sh"], capture_output=True, text=True).stdout
):
    os.environ.setdefault(name, value)

# Kernels of Triton run in its interpreter here; it decides when it is first imported.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Inductor's cache keeps precompiled headers of other instruction sets: one of this process alone.
_inductor_cache = tempfile.TemporaryDirectory(prefix="spectralclip-inductor-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _inductor_cache.name

import torch  # noqa: E402

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
    data = pathlib.Path(os.environ.get("SPECTRALCLIP_DATA", ROOT.parent / "shared" / "data"))
    path = data / "shakespeare" / "input.txt"
    if not path.is_file():
        pytest.skip(f"tiny Shakespeare is absent ({path}); SPECTRALCLIP_DATA names the folder of shakespeare/input.txt")
    return path.read_text(encoding="utf-8")

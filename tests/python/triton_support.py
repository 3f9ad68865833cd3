# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Triton backend share: matrices of an engine without a clipper, and the exact clip."""

from __future__ import annotations

import math

import pytest
import torch
from reference import spectrum, svd_clip

pytest.importorskip("triton", reason="triton is missing: make setup installs it (requirements-dev.txt)")

from spectralclip.triton import engine as engines
from spectralclip.triton import layout, windows

SMALL = engines.Blocking(columns=16, span=128, rows=64, cols=64, column_span=64, column_tile=64)
CPU = torch.device("cpu")
STATUS = ("ok", "not_finite", "rank_exhausted", "factorization_failed", "not_converged", "out_of_range")


def options(**given: float) -> list[float]:
    """In the order of layout.py; a constant threshold of 1."""
    known = {
        "kind": 0, "tau": 1.0, "decay": 0.9, "quantile": 0.85, "window": 100, "first_zero": 0, "linear": 0,
        "slack": 1.0, "floor": 0.0, "cap": math.inf, "warmup": 0, "observe_zeros": 0, "rank": 0, "tolerance": 1e-4,
        "margin": 1e-3, "observe_only": 0, "stored": 0.0,
    }  # fmt: skip
    assert set(given) <= set(known)
    return list({**known, **given}.values())


def engine_of(gradients: list[torch.Tensor], taus: list[float] | None = None, *, passes: int = 2, leave_all=False,
              blocking: engines.Blocking = SMALL, **given: float) -> engines.Engine:  # fmt: skip
    """One matrix a gradient."""
    matrices, places = [], []
    for i, gradient in enumerate(gradients):
        (window,) = windows.spectral_windows(gradient, 0, 1)
        stored = engines.STORED_EPSILON[gradient.dtype]
        own = options(**{"tau": taus[i] if taus else 1.0, "stored": stored, **given})
        matrices.append(engines.Matrix(str(i), window.rows, window.cols, 0, own, 1000 + i, gradient.dtype))
        places.append(window)
    engine = engines.Engine(matrices, places, CPU, passes=passes, leave_all=leave_all, blocking=blocking)
    engine.start(torch.ones(len(matrices), dtype=torch.int32))
    return engine


def clip(engine: engines.Engine, gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of the same strides, clipped."""
    copies = [torch.empty_strided(g.shape, g.stride(), dtype=g.dtype).copy_(g) for g in gradients]
    engine.step([c.data_ptr() for c in copies])
    return copies


def field(engine: engines.Engine, matrix: int, name: str) -> float:
    return float(engine.report[matrix, getattr(layout, name).value])


def status(engine: engines.Engine, matrix: int) -> str:
    return STATUS[int(field(engine, matrix, "STATUS"))]


def error_of_removed(G: torch.Tensor, clipped: torch.Tensor, tau: float) -> float:
    """Relative; 0 where nothing was to be removed and nothing was."""
    exact = svd_clip(G, tau)
    removed = float((G.double() - exact).norm())
    wrong = float((clipped.double() - exact).norm())
    return wrong / removed if removed > 0 else wrong


def decaying(m: int, n: int, leading: list[float], generator: torch.Generator, dtype=torch.float32) -> torch.Tensor:
    """Leading values over a bulk that falls by a tenth each."""
    bulk = [0.4 * 0.9**i for i in range(min(m, n) - len(leading))]
    return spectrum(m, n, leading + bulk, generator, dtype)

# SPDX-License-Identifier: Apache-2.0
"""The kernels in Triton's interpreter against float64 SVDs: accuracy of what is removed, the bound on what is left,
hard matrices, every storage type and layout of memory.  Shapes are small: a program of the interpreter takes a
third of a second."""

from __future__ import annotations

import os
import pathlib
import statistics

import numpy as np
import pytest
import torch
from conftest import ROOT
from reference import EPS, spectrum, svd_clip
from triton_support import clip, decaying, engine_of, engines, error_of_removed, field, status

MEDIAN, NINETY = 1e-4, 1e-3  # the bars of the core


def sequence(generator, steps: int, dtype) -> list[list[torch.Tensor]]:
    """Two matrices whose leading directions turn, whose sizes change and which spike at times."""
    tall, wide = torch.randn(72, 6, generator=generator), torch.randn(90, 6, generator=generator)
    sides = torch.randn(40, 6, generator=generator), torch.randn(56, 6, generator=generator)
    result = []
    for step in range(steps):
        sizes = torch.tensor([1.6, 1.1, 0.8, 0.5, 0.3, 0.2]) * (1 + 40 * (step % 4 == 2))
        tall = tall + 0.2 * torch.randn(tall.shape, generator=generator)
        wide = wide + 0.2 * torch.randn(wide.shape, generator=generator)
        pair = []
        for a, b in ((tall, sides[0]), (wide, sides[1])):
            a, b = torch.linalg.qr(a)[0], torch.linalg.qr(b)[0]
            bulk = decaying(a.shape[0], b.shape[0], [], generator, torch.float32)
            pair.append(((a * sizes) @ b.T + 0.5 * bulk).to(dtype))
        result.append([pair[0], pair[1].T.contiguous()])
    return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_removed_part_is_within_the_bars(dtype, generator):
    gradients = sequence(generator, 6, dtype)
    engine = engine_of(gradients[0])
    errors, written = [], 0
    for step in gradients:
        for i, (G, after) in enumerate(zip(step, clip(engine, step))):
            exact = svd_clip(G, 1.0)
            removed = float((G.double() - exact).norm())
            storing = EPS[dtype] / 2 * float(exact.norm()) if dtype != torch.float32 else 0.0
            errors.append(max(error_of_removed(G, after, 1.0) - storing / removed, 0.0))
            assert field(engine, i, "SIGMA_MAX") == pytest.approx(
                float(torch.linalg.matrix_norm(G.double(), 2)), rel=1e-3
            )
            written += field(engine, i, "CLIPPED") > 0
    assert written == len(errors)
    assert statistics.median(errors) <= MEDIAN and statistics.quantiles(errors, n=10)[-1] <= NINETY, errors


def hard(generator) -> dict[str, torch.Tensor]:
    one = {f"spike {10.0**e:g}": decaying(64, 40, [10.0**e], generator) for e in (1, 2, 4, 6)}
    return {
        **one,
        "two spikes": decaying(64, 40, [1e4, 3.0], generator),
        "zero": torch.zeros(40, 24),
        "rank three": spectrum(50, 30, [3.0, 2.0, 0.5], generator, torch.float32),
        "more than are kept": spectrum(48, 48, [3 * 0.97**i for i in range(48)], generator, torch.float32),
        "flat bulk": spectrum(64, 64, [2.0] + [0.1] * 63, generator, torch.float32),
        "five columns": spectrum(64, 5, [3.0, 2.0, 1.5, 0.4, 0.1], generator, torch.float32),
        "two rows": spectrum(2, 50, [3.0, 0.5], generator, torch.float32),
    }


def test_hard_matrices_twice(generator):
    """Cold and warm: what is left is below the bound, `ok` is kept, and nothing that was found is left."""
    cases = hard(generator)
    gradients = list(cases.values())
    engine = engine_of(gradients)
    for _ in range(2):
        for i, (name, G, after) in enumerate(zip(cases, gradients, clip(engine, gradients))):
            left = float(torch.linalg.matrix_norm(after.double(), 2))
            rounding = 8 * EPS[torch.float32] * field(engine, i, "SIGMA_MAX")
            assert left <= field(engine, i, "SIGMA_BOUND") * (1 + 1e-6) + rounding, name
            if status(engine, i) == "ok":
                assert left <= 1 + 1e-3 + rounding, name
            removed = float((G.double() - svd_clip(G, 1.0)).norm())
            if name.startswith("spike"):
                assert error_of_removed(G, after, 1.0) <= 1e-4, name
            if name == "zero":
                assert removed == 0 and status(engine, i) == "ok" and torch.equal(G, after)
            assert float(after.double().norm()) == pytest.approx(field(engine, i, "NORM_AFTER"), rel=1e-5, abs=rounding)
    names = list(cases)
    assert status(engine, names.index("more than are kept")) == "rank_exhausted"
    assert status(engine, names.index("rank three")) == status(engine, names.index("five columns")) == "ok"
    assert status(engine, names.index("spike 1e+06")) == "not_converged"  # rounding of the update is above tau's margin


def test_what_is_not_finite_is_left_alone(generator):
    gradients = [decaying(40, 24, [3.0], generator) for _ in range(3)]
    gradients[0][3, 4], gradients[1][7, 0] = float("nan"), float("inf")
    engine = engine_of(gradients, kind=1)
    state, V = engine.state.clone(), engine.V.clone()
    after = clip(engine, gradients)
    assert [status(engine, i) for i in range(3)] == ["not_finite", "not_finite", "ok"]
    assert torch.equal(gradients[0].nan_to_num(9.0), after[0].nan_to_num(9.0)) and torch.equal(gradients[1], after[1])
    assert torch.equal(engine.V[:48], V[:48]) and not torch.equal(engine.V[48:], V[48:])
    assert torch.equal(engine.state[:2, :5], state[:2, :5]) and float(engine.state[2, 0]) == 1  # nothing observed
    assert not bool(torch.isfinite(engine.total))


def test_squares_out_of_range_are_scaled(generator):
    tiny, huge = (decaying(40, 24, [3.0], generator, torch.float64) for _ in range(2))
    gradients = [(1e-16 * tiny).float(), (1e17 * huge).float()]
    engine = engine_of(gradients, taus=[1e-16, 1e17])
    for _ in range(2):  # the first step spends a pass on the scale
        after = clip(engine, gradients)
    for i, (G, tau) in enumerate(zip(gradients, (1e-16, 1e17))):
        assert error_of_removed(G, after[i], tau) <= 1e-4 and status(engine, i) == "ok"
        assert field(engine, i, "SIGMA_MAX") == pytest.approx(3 * tau, rel=1e-4)


def test_strides_do_not_matter(generator):
    """Rows apart, columns apart, transposed: the same values to rounding, nothing beside the matrix is touched."""
    G = decaying(56, 36, [3.0, 2.0], generator)
    padded = torch.zeros(56, 48)
    padded[:, :36] = G
    views = [G, padded[:, :36], G.T.contiguous().T, G.T.contiguous(), padded.T.contiguous().T[:, :36]]
    engine = engine_of(views)
    copies = [torch.zeros(56, 48).as_strided((56, 36), v.stride()) if v.stride(0) == 48 else None for v in views]
    exact = svd_clip(G, 1.0)
    addresses, holders = [], []
    for view, copy in zip(views, copies):
        held = copy if copy is not None else torch.empty_strided(view.shape, view.stride())
        holders.append(held.copy_(view))
        addresses.append(held.data_ptr())
    engine.step(addresses)
    for view, held in zip(views, holders):
        result = held if held.shape == exact.shape else held.T
        assert float((result.double() - exact).norm()) <= 1e-3 * float((G.double() - exact).norm()), view.stride()
    assert float(holders[1].as_strided((56, 12), (48, 1), 36).abs().max()) == 0


def test_wide_and_tall_have_the_same_values(generator):
    G = decaying(60, 20, [3.0, 2.0], generator)
    engine = engine_of([G, G.T.contiguous()])
    tall, wide = clip(engine, [G, G.T.contiguous()])
    assert float((tall - wide.T).norm()) <= 1e-4 * float((G - tall).norm())


def recorded(name: str) -> torch.Tensor:
    """Consecutive gradients of a small GPT: SPECTRALCLIP_DATA/gradients, or ../shared/data beside the project."""
    folder = pathlib.Path(os.environ.get("SPECTRALCLIP_DATA", ROOT.parent / "shared" / "data")) / "gradients"
    if not (folder / name).is_file():
        pytest.skip(f"no recorded gradients ({folder / name}); SPECTRALCLIP_DATA names the folder of gradients/")
    return torch.from_numpy(np.load(folder / name))


def test_recorded_gradients_are_certified_and_quiet_ones_read_once():
    """Real spectra under an EMA: what makes one read enough."""
    sequences = recorded("attn_c_proj_256x256.npy"), recorded("mlp_c_fc_1024x256.npy")
    large = engines.Blocking(columns=16, span=512, rows=256, cols=256)
    engine = engine_of([s[0] for s in sequences], kind=1, blocking=large)
    quiet = 0
    for step in range(5):
        gradients = [s[step].contiguous() for s in sequences]
        for i, (G, after) in enumerate(zip(gradients, clip(engine, gradients))):
            sigma_max = float(torch.linalg.matrix_norm(G.double(), 2))
            assert field(engine, i, "SIGMA_MAX") == pytest.approx(sigma_max, rel=1e-4)
            if step == 0:
                continue
            assert status(engine, i) == "ok"
            if field(engine, i, "CLIPPED") == 0:
                quiet += 1
                assert field(engine, i, "PASSES") == 1 and torch.equal(G, after)
            else:
                assert error_of_removed(G, after, field(engine, i, "REPORT_TAU")) <= NINETY
    assert quiet >= 2

# SPDX-License-Identifier: Apache-2.0
"""Equal bits for any number of threads and on every repetition; torch's own random generator is left alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from reference import bits
from torch import nn

from spectralclip import Ema, SpectralClipper, clip_grad_spectral_, clip_singular_values_

METHODS = ["exact", "gram", "sketched", "tracked", "newton_schulz", "auto"]
SHAPES = [(300, 170), (64, 48), (64, 48), (33, 129), (16, 3, 3, 3), (77,)]  # the first is cut into row blocks


def run(method: str, backend: str, threads: int, steps: int = 4, dtype=torch.float32) -> list:
    torch.set_num_threads(threads)
    parameters = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in SHAPES]
    clipper = SpectralClipper(parameters, Ema(0.9), method=method, backend=backend)
    record = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        for p in parameters:
            p.grad = (torch.randn(p.shape, generator=generator) * (1 + 3 * (step % 2))).to(dtype)
        report = clipper.step()
        record.append([float(report.total_norm)])
        record.append([(layer.tau, layer.clip) for layer in report.layers])
        record.append([bits(p.grad) for p in parameters])
    assert {layer.steps_clipped for layer in clipper.report()} == {steps // 2}  # every layer, in every loud step
    return record


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_the_core_gives_equal_bits_for_one_and_two_threads(method, dtype):
    one, two, again = (run(method, "core", threads, dtype=dtype) for threads in (1, 2, 2))
    assert one == two == again


@pytest.mark.parametrize("method", ["sketched", "tracked", "gram"])
def test_the_device_path_repeats_itself(method):
    """Its products are the vendor's, so only repetition is promised, not independence of threads."""
    assert run(method, "aten", 1) == run(method, "aten", 1)


def test_seeds_and_names_choose_the_random_columns():
    """Teeth: with another seed or name a coarse sketch gives other bits, so equality above says something."""
    G = torch.randn(60, 40)
    results = []
    for name, seed in (("w", 0), ("w", 1), ("v", 0), ("module.w", 0)):
        p = nn.Parameter(torch.zeros_like(G))
        p.grad = G.clone()
        SpectralClipper([(name, p)], 1.0, method="sketched", rank=3, power_passes=0, oversampling=0, seed=seed).step()
        results.append(bits(p.grad))
    assert results[0] == results[3]
    assert len(set(results)) == 3


@pytest.mark.parametrize("backend", ["core", "aten"])
@pytest.mark.parametrize("method", METHODS)
def test_global_generators_are_left_alone(method, backend):
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tobytes()
    p = nn.Parameter(torch.zeros(20, 12))
    generator = torch.Generator().manual_seed(1)
    clipper = SpectralClipper([p], Ema(0.9), method=method, backend=backend)
    for _ in range(3):
        p.grad = torch.randn(20, 12, generator=generator)
        clipper.step()
    clip_grad_spectral_([p], 0.1, method=method, backend=backend)
    clip_singular_values_(p.grad, 0.01, method=method, backend=backend)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1] and np.random.get_state()[1].tobytes() == before[2]


@pytest.mark.parametrize("backend", ["core", "aten"])
def test_results_do_not_depend_on_the_global_generator(backend):
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        G = torch.randn(30, 20, generator=torch.Generator().manual_seed(0))
        clip_singular_values_(G, 1.0, method="sketched", rank=3, power_passes=0, backend=backend)
        results.append(bits(G))
    assert results[0] == results[1]

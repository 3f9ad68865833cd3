# SPDX-License-Identifier: Apache-2.0
"""The parts that kernels are made of, against NumPy: factorisations of K x K, random bits, ranks of values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton_support import engine_of

from spectralclip.triton import columns, small, thresholds

K = 16


@triton.jit
def factor_kernel(A, L, inverse, values, vectors, largest, K: tl.constexpr):
    i = tl.arange(0, K)
    row, col = i[:, None], i[None, :]
    at = row * K + col
    matrix = tl.load(A + at)
    one, other = small.inverse_cholesky(matrix, row, col, K)
    tl.store(L + at, one)
    tl.store(inverse + at, other)
    eigenvalues, X = small.sorted_eigenpairs(matrix, row, col, K, 14)
    tl.store(values + i, eigenvalues)
    tl.store(vectors + at, X)
    tl.store(largest, small.largest_eigenvalue(matrix, row, col, 7))


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e12])
def test_small_factorisations(condition):
    generator = np.random.default_rng(5)
    Q = np.linalg.qr(generator.standard_normal((K, K)))[0]
    exact = np.geomspace(1, 1 / condition, K) * (1 + 0.01 * generator.random(K))
    matrix = (Q * exact) @ Q.T
    matrix = (matrix + matrix.T) / 2
    out = [torch.zeros(K, K, dtype=torch.float64) for _ in range(3)]
    values, largest = torch.zeros(K, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    factor_kernel[(1,)](torch.tensor(matrix), out[0], out[1], values, out[2], largest, K=K)
    L, inverse, X = (t.numpy() for t in out)
    eps = np.finfo(float).eps
    assert np.linalg.norm(L @ L.T - matrix) <= 4 * K * eps * np.linalg.norm(matrix)
    assert np.linalg.norm(inverse @ L - np.eye(K)) <= 4 * K * eps * np.sqrt(condition)
    reference = np.sort(np.linalg.eigvalsh(matrix))[::-1]
    assert np.abs(values.numpy() - np.maximum(reference, 0)).max() <= 4 * K * eps * reference[0]
    assert np.linalg.norm(X @ X.T - np.eye(K)) <= 40 * K * eps
    assert np.linalg.norm(X @ matrix @ X.T - np.diag(values.numpy())) <= 1e-12 * np.linalg.norm(matrix)
    assert reference[0] <= float(largest) * (1 + 1e-12) and float(largest) <= reference[0] * K ** (2.0**-7)


def philox(counter: list[int], key: tuple[int, int]) -> list[int]:
    """Salmon et al. (2011), ten rounds, in Python's integers."""
    c, (k0, k1), mask = list(counter), key, 0xFFFFFFFF
    for _ in range(10):
        low, high = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(high >> 32) ^ c[1] ^ k0, high & mask, (low >> 32) ^ c[3] ^ k1, low & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c


def core_columns(key: int, draw: int, n: int, k: int) -> np.ndarray:
    """As src/random/uniform.cpp lays them out: 16 counters give 64 entries, word after word."""
    out = np.empty((n, k))
    for column in range(k):
        for j in range(n):
            words = philox([(j // 64) * 16 + j % 16, column, draw, 0], (key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF))
            bits = words[(j % 64) // 16] | 1
            out[j, column] = (bits - (1 << 32) if bits >= 1 << 31 else bits) * 3**0.5 * 2.0**-31
    return out


def test_random_columns_are_the_bits_of_the_core():
    engine = engine_of([torch.zeros(90, 70)])
    key = engine.matrices[0].key & 0xFFFFFFFFFFFFFFFF
    expected = core_columns(key, 0, 70, K) / 70**0.5
    assert np.abs(engine.V.numpy() - expected).max() <= 2.0**-22 * 3**0.5 / 70**0.5
    assert philox([0, 0, 0, 0], (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # the paper's known answer


@triton.jit
def rank_kernel(window, count, out, CHUNK: tl.constexpr):
    tl.store(out + tl.program_id(0), thresholds.value_of_rank(window, count, tl.program_id(0), CHUNK))


@pytest.mark.parametrize("count", [1, 31, 32, 33, 100])
def test_values_of_every_rank(count):
    window = torch.randint(0, 40, (count,), dtype=torch.float64)  # with ties
    out = torch.zeros(count, dtype=torch.float64)
    rank_kernel[(count,)](window, count, out, CHUNK=32)
    assert torch.equal(out, window.sort().values)


def test_blocks_cover_every_column_once():
    engine = engine_of([torch.zeros(70, 65), torch.zeros(10, 9)])
    assert [block for block, _ in engine._tables.blocks] == list(range(len(engine._tables.blocks)))
    assert columns.random_columns is not None and engine._tables.columns == 65 + 9

# SPDX-License-Identifier: Apache-2.0
"""What the sums of a pass say about a matrix: triplets, what rounding may have done to them, how far they may be off,
and how large the rest can be.  The core's src/subspace/ritz.cpp and search.cpp for a fixed number of columns, in
float64."""

from __future__ import annotations

import triton
import triton.language as tl

from .small import diagonal, inverse_cholesky, largest_eigenvalue, product, sorted_eigenpairs

EPS = tl.constexpr(2.0**-23)  # of float32, in which passes work
EPS64 = tl.constexpr(2.0**-52)
RIDGE = tl.constexpr(2.0**-20)  # 8 EPS: how far columns of W may depend before their products are rounding
SWEEPS = tl.constexpr(14)
SQUARES = tl.constexpr(7)


@triton.jit
def root(x):
    return tl.sqrt(tl.maximum(x, 0.0))


@triton.jit
def over(a, b):
    """a / b, and 0 where b is 0."""
    return tl.where(b != 0, a / tl.where(b != 0, b, 1.0), 0.0)


@triton.jit
def element(vector, i, at):
    return tl.sum(tl.where(i == at, vector, 0.0), 0)


@triton.jit
def triplets(S, T, lengths, row, col, K: tl.constexpr):
    """With W = Q R and B = Q^T G = (Z R^-1)^T: the factor L of the cosines of W, A = B B^T, its eigenvalues (squares of
    the values found, descending) with the eigenvectors as rows of X, and the right vectors as rows of mixes times
    Z^T."""
    inverse = over(1.0, root(lengths))
    cosines = S * inverse[:, None] * inverse[None, :] * (1.0 - RIDGE)  # a ridge: columns that depend are no failure
    L, L_inverse = inverse_cholesky(tl.where(row == col, 1.0, cosines), row, col, K)
    R = tl.trans(L_inverse) * inverse[:, None]
    A = product(tl.trans(R), product(T, R))
    A = 0.5 * (A + tl.trans(A))
    values, X = sorted_eigenpairs(A, row, col, K, SWEEPS)
    mixes = product(X, tl.trans(R)) * over(1.0, tl.sqrt(values))[:, None]
    return L, A, values, X, mixes


@triton.jit
def noise_of(values, mixes, lengths):
    """What rounding may move the squares by (search.cpp, noise_of): left vectors grow rounding of W by their gain."""
    sigma = tl.sqrt(values)
    sigma_1 = tl.max(sigma, 0)
    gain = sigma * root(tl.sum(mixes * mixes * lengths[None, :], 1))
    shifted = 4 * EPS * sigma_1 * gain
    stretched = 4 * EPS * values + 8 * EPS64 * sigma_1 * sigma_1
    return (2 * sigma + shifted) * shifted + stretched * gain * gain


@triton.jit
def sines(N, P, T, mixes, row, col, K: tl.constexpr):
    """The sine of each vector's angle with span V, free of cancellation down to rounding of float64.  Beside it the
    squared length inside that span, and as rows the combinations of V that make it up (ritz.cpp, solve_sines)."""
    sizes = diagonal(N, row, col)
    steady = tl.where(row == col, tl.where(sizes > 0, sizes * (1.0 + 1e-12), 1.0)[:, None], N)
    _, N_inverse = inverse_cholesky(steady, row, col, K)
    within = product(product(mixes, tl.trans(P)), tl.trans(N_inverse))
    inside = tl.sum(within * within, 1)
    length = tl.sum(product(mixes, T) * mixes, 1)  # one, up to rounding
    sine = tl.sqrt(tl.minimum(tl.maximum(length - inside, 4 * EPS64), 1.0))
    return sine, inside, product(within, N_inverse)


@triton.jit
def probe_root(L, A, lengths, norm_squared, sigma_1, row, col, HELD: tl.constexpr):
    """Fourth root of the probe of the fresh columns, for what the HELD before them do not hold (ritz.cpp,
    probe_largest): the largest eigenvalue of (H^T H Omega)^T (H^T H Omega), from the trailing blocks of L and A."""
    fresh = (row >= HELD) & (col >= HELD)
    tail = tl.where(fresh, L * root(lengths)[:, None], 0.0)
    largest = largest_eigenvalue(product(tail, product(A, tl.trans(tail))), row, col, SQUARES)
    rounding = 16 * EPS * norm_squared * sigma_1 * sigma_1
    return tl.sqrt(tl.sqrt(largest + rounding * EPS))


@triton.jit
def sigma_correction(S, sigma_1, sine, inside, turns, typical, i):
    """By how much sigma_max is seen short, relatively (search.cpp, sigma_correction): by the angle its vector
    turned."""
    before = over(tl.sum(product(turns, S) * turns, 1), inside)
    gain = 1.0 - over(element(before, i, 0), sigma_1 * sigma_1)
    gain = tl.minimum(tl.maximum(gain, 0.0), 1.0)
    first = element(sine, i, 0)
    rho = tl.minimum(over(typical, sigma_1), 1.0)
    turned = tl.minimum(first * first, gain / tl.maximum(1.0 - rho * rho, 1.0 / 16))
    lacking = rho * rho * turned / tl.maximum(1.0 - first * first, 1e-3)
    return tl.where(sigma_1 == 0, 0.0, 0.5 * lacking / (1.0 + lacking))

# SPDX-License-Identifier: Apache-2.0
"""K x K work inside one program, in float64: a program holds its few matrices in registers.

Shapes: matrices are (K, K), vectors (K,); ``row`` and ``col`` are their index vectors as (K, 1) and (1, K)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(A, B):
    """A B in float64."""
    return tl.dot(A, B, out_dtype=tl.float64)


@triton.jit
def diagonal(A, row, col):
    return tl.sum(tl.where(row == col, A, 0.0), 1)


@triton.jit
def trace(A, row, col):
    return tl.sum(diagonal(A, row, col), 0)


@triton.jit
def inverse_cholesky(A, row, col, K: tl.constexpr):
    """L and its inverse for A = L L^T.  The caller's ridge keeps pivots positive; rounding below it is cut off."""
    i = tl.arange(0, K)
    L = tl.zeros((K, K), tl.float64)
    inverse = tl.where(row == col, 1.0, 0.0).to(tl.float64)
    for j in range(K):
        column = tl.sum(tl.where(col == j, A, 0.0), 1)
        pivot = tl.maximum(tl.sum(tl.where(i == j, column, 0.0), 0), 1e-14)
        root = tl.sqrt(pivot)
        column = tl.where(i > j, column / root, 0.0)
        L += tl.where(col == j, tl.where(i == j, root, column)[:, None], 0.0)
        A -= column[:, None] * column[None, :]
        line = tl.sum(tl.where(row == j, inverse, 0.0), 0) / root
        inverse = tl.where(row == j, line[None, :], inverse - column[:, None] * line[None, :])
    return L, inverse


@triton.jit
def jacobi(A, row, col, K: tl.constexpr, SWEEPS: tl.constexpr):
    """Eigenvalues of a symmetric A and its eigenvectors as the rows of X: X A X^T is diagonal.

    Round r of a sweep turns the pairs (i, i XOR r), which are disjoint: K / 2 rotations at a time, K - 1 rounds, and no
    table of pairs.  Ends when a sweep has left less than 1e-14 of the norm off the diagonal, or after SWEEPS."""
    i = tl.arange(0, K)
    X = tl.where(row == col, 1.0, 0.0).to(tl.float64)
    left = tl.full((), 1.0, tl.float64)
    sweep = 0
    while (sweep < SWEEPS) & (left > 0):
        for r in range(1, K):
            partner = i ^ r
            rows = tl.broadcast_to(partner[:, None], (K, K))
            cols = tl.broadcast_to(partner[None, :], (K, K))
            mine = diagonal(A, row, col)
            other = tl.gather(mine, partner, 0)
            first = i < partner
            beside = tl.sum(tl.where(col == (row ^ r), A, 0.0), 1)
            beside = tl.where(
                first, beside, tl.gather(beside, partner, 0)
            )  # one number for both, or X loses its angles
            # The smaller angle with tan 2 phi = 2 beside / gap, the same of both partners but for its sign.
            gap = tl.where(first, other - mine, mine - other)
            reach = tl.abs(gap) + tl.sqrt(gap * gap + 4.0 * beside * beside)
            tangent = tl.where(reach > 0, 2.0 * beside / tl.where(reach > 0, reach, 1.0), 0.0)
            tangent = tl.where(gap < 0, -tangent, tangent)
            c = 1.0 / tl.sqrt(1.0 + tangent * tangent)
            s = tl.where(first, -tangent * c, tangent * c)
            A = c[:, None] * A + s[:, None] * tl.gather(A, rows, 0)
            A = c[None, :] * A + s[None, :] * tl.gather(A, cols, 1)
            X = c[:, None] * X + s[:, None] * tl.gather(X, rows, 0)
        square = A * A
        off = tl.sum(tl.sum(tl.where(row == col, 0.0, square), 1), 0)
        left = tl.where(off > 1e-28 * tl.sum(tl.sum(square, 1), 0), off, 0.0).to(tl.float64)
        sweep += 1
    return diagonal(A, row, col), X


@triton.jit
def sorted_eigenpairs(A, row, col, K: tl.constexpr, SWEEPS: tl.constexpr):
    """Eigenvalues in descending order, none negative, and the eigenvectors as rows."""
    values, X = jacobi(A, row, col, K, SWEEPS)
    across = values[None, :]
    ahead = (across > values[:, None]) | ((across == values[:, None]) & (col < row))
    place = tl.sum(ahead.to(tl.int32), 1)
    order = tl.where(place[None, :] == row, 1.0, 0.0).to(tl.float64)  # row p picks the value whose place is p
    return tl.maximum(tl.sum(order * across, 1), 0.0), product(order, X)


@triton.jit
def largest_eigenvalue(A, row, col, SQUARES: tl.constexpr):
    """At least lambda_max(A) of a positive semidefinite A, and at most K^(2^-SQUARES) times it: the root of the trace
    of a power.  Zero for a zero matrix."""
    logarithm = tl.full((), 0.0, tl.float64)
    share = tl.full((), 1.0, tl.float64)
    first = trace(A, row, col)
    for _ in range(SQUARES):
        size = tl.maximum(trace(A, row, col), 1e-280)
        logarithm += share * tl.log(size)
        share *= 0.5
        A = A / size
        A = product(A, A)
    logarithm += share * tl.log(tl.maximum(trace(A, row, col), 1e-280))
    return tl.where(first > 1e-280, tl.exp(logarithm), 0.0)


@triton.jit
def add_up(numbers, count, CHUNK: tl.constexpr):
    """Their sum, in an order that their count decides."""
    i = tl.arange(0, CHUNK)
    total = tl.zeros((CHUNK,), tl.float64)
    for first in range(0, count, CHUNK):
        total += tl.load(numbers + first + i, mask=first + i < count, other=0.0)
    return tl.sum(total, 0)

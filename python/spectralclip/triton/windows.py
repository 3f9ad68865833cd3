# SPDX-License-Identifier: Apache-2.0
"""How the matrices of a tensor lie in memory, as the kernels' tables say it."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Optional

import torch

FOLDED = 1024  # entries of a row of a vector, folded so that a tile is full


@dataclasses.dataclass(frozen=True)
class Window:
    """``rows >= cols``: entry (i, j) lies at ``offset + i * stride + j``, or ``offset + j * stride + i`` where turned.
    Which side of the matrix counts as rows does not matter to its singular values, nor does the order within it."""

    offset: int
    rows: int
    cols: int
    stride: int
    turned: bool
    count: int = 1 << 62


def _merged(sizes: list[int], strides: list[int]) -> Optional[tuple[int, int]]:
    """Axes as one of (size, stride), in whatever order they lie in memory; None where they do not."""
    axes = sorted((stride, size) for size, stride in zip(sizes, strides) if size > 1)
    if not axes:
        return 1, 1
    for (stride, size), (outer, _) in itertools.pairwise(axes):
        if outer != stride * size:
            return None
    total = 1
    for _, size in axes:
        total *= size
    return (total, axes[0][0]) if axes[0][0] > 0 else None


def _oriented(offset: int, rows: tuple[int, int], cols: tuple[int, int]) -> Optional[Window]:
    (m, row_stride), (n, col_stride) = rows, cols
    if m < n:
        (m, row_stride), (n, col_stride) = (n, col_stride), (m, row_stride)
    if col_stride == 1 or n == 1:
        return Window(offset, m, n, row_stride, turned=False)
    if row_stride == 1:
        return Window(offset, m, n, col_stride, turned=True)
    return None


def spectral_windows(tensor: torch.Tensor, batch_axes: int, row_axes: int) -> Optional[list[Window]]:
    """The matrices of a tensor whose first axes count them; None where a copy is needed."""
    sizes, strides = list(tensor.shape), list(tensor.stride())
    middle = batch_axes + row_axes
    rows = _merged(sizes[batch_axes:middle], strides[batch_axes:middle])
    cols = _merged(sizes[middle:], strides[middle:])
    if rows is None or cols is None:
        return None
    windows = []
    for place in itertools.product(*(range(size) for size in sizes[:batch_axes])):
        offset = sum(i * stride for i, stride in zip(place, strides))
        window = _oriented(offset, rows, cols)
        if window is None:
            return None
        windows.append(window)
    return windows


def folded_windows(tensor: torch.Tensor, batch_axes: int) -> Optional[list[Window]]:
    """Vectors, and what is only measured: entries in any order, as rows of a length that fills tiles."""
    sizes, strides = list(tensor.shape), list(tensor.stride())
    inner = _merged(sizes[batch_axes:], strides[batch_axes:])
    if inner is None or (inner[0] > 1 and inner[1] != 1):
        return None
    count = inner[0]
    cols = min(count, FOLDED)
    windows = []
    for place in itertools.product(*(range(size) for size in sizes[:batch_axes])):
        offset = sum(i * stride for i, stride in zip(place, strides))
        windows.append(Window(offset, -(-count // cols), cols, cols, turned=False, count=count))
    return windows

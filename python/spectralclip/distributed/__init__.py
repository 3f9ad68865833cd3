# SPDX-License-Identifier: Apache-2.0
"""Gradients that are split over processes: DTensors of FSDP2 (``fully_shard``) and tensor parallelism.

Nothing here needs to be called: :class:`spectralclip.SpectralClipper` and :func:`spectralclip.clip_grad_spectral_`
notice DTensors.  The matrix is never gathered.  A pass of k columns over a matrix that is split by rows sums
k (n + k) + 1 numbers over the ranks (by columns: k (m + k) + 1), and all layers of a round travel together.
"""

from __future__ import annotations

from .core import ShardedCore, clip_gradients, group_to_share
from .layout import is_distributed, refuse_flat_parameters

__all__ = ["ShardedCore", "clip_gradients", "group_to_share", "is_distributed", "refuse_flat_parameters"]

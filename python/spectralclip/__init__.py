# SPDX-License-Identifier: Apache-2.0
"""Spectral gradient clipping: singular values clamped at tau, certified, at about the price of clip_grad_norm_."""

from . import _library
from .clipper import SpectralClipper
from .functional import clip_grad_spectral_, clip_singular_values, clip_singular_values_
from .options import ClipOptions
from .reports import ClipReport, LayerReport, StepReport
from .rules import Rule, skip, skip_embeddings
from .thresholds import Constant, Ema, Quantile, Threshold

__version__ = _library.ops.core_version()

__all__ = [
    "ClipOptions",
    "ClipReport",
    "Constant",
    "Ema",
    "LayerReport",
    "Quantile",
    "Rule",
    "SpectralClipper",
    "StepReport",
    "Threshold",
    "clip_grad_spectral_",
    "clip_singular_values",
    "clip_singular_values_",
    "skip",
    "skip_embeddings",
]

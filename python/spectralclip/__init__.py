# SPDX-License-Identifier: Apache-2.0
"""Spectral gradient clipping: singular values clamped at tau, certified, at about the price of clip_grad_norm_."""

from . import _library
from .clipped_optimizer import ClippedOptimizer
from .clipper import SpectralClipper
from .description import Description, ParameterPlan
from .functional import clip_grad_spectral_, clip_singular_values, clip_singular_values_
from .gradient_clippers import Agc, Coordinate, GlobalNorm, GradientClipper, PerLayerNorm, Soft
from .optim import MomentumSgd, Muon, muon_param_groups
from .options import ClipOptions
from .proposals import LayerProposal, Proposal, Proposals
from .reports import ClipReport, LayerReport, StepReport
from .rules import Rule, skip, skip_embeddings
from .thresholds import Constant, Ema, Quantile, Threshold

__version__ = _library.ops.core_version()

__all__ = [
    "Agc",
    "ClipOptions",
    "ClipReport",
    "ClippedOptimizer",
    "Constant",
    "Coordinate",
    "Description",
    "Ema",
    "GlobalNorm",
    "GradientClipper",
    "LayerProposal",
    "LayerReport",
    "MomentumSgd",
    "Muon",
    "ParameterPlan",
    "PerLayerNorm",
    "Proposal",
    "Proposals",
    "Quantile",
    "Rule",
    "Soft",
    "SpectralClipper",
    "StepReport",
    "Threshold",
    "clip_grad_spectral_",
    "clip_singular_values",
    "clip_singular_values_",
    "muon_param_groups",
    "skip",
    "skip_embeddings",
]

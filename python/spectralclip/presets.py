# SPDX-License-Identifier: Apache-2.0
"""The published behaviour (the experiment code of arXiv 2605.11838) by one word: ``preset="published"``."""

from __future__ import annotations

import dataclasses
from typing import Literal, Union

from .rules import Rule, skip
from .thresholds import Constant, Ema, Quantile, Threshold

Preset = Literal["published"]


def published_rules() -> list[Rule]:
    """Skipped are the names that the published clipper skips, and nothing else: a name that contains ``LayerNorm``
    never is.  Everything becomes (first axis, rest); a vector is a matrix of one column, whose singular value is its
    norm.  They leave no parameter to the default rules."""
    skipped = (
        "word_embeddings",
        "position_embeddings",
        "token_type_embeddings",
        "embed_tokens",
        "lm_head",
        "wpe",
        "wte",
    )

    def taken(pattern: str) -> list[Rule]:
        return [
            Rule(pattern, max_dims=1, treatment="norm", label="published: (n, 1)"),
            Rule(pattern, min_dims=2, label="published: (first axis, rest)"),
        ]

    return [*taken("*LayerNorm*"), *skip(*(f"*{name}*" for name in skipped)), *taken("*")]


def published_threshold(threshold: Threshold) -> Threshold:
    """The same policy as published: the first gradient is left alone, zeros are observed, the quantile is a value that
    occurred.  Raises ValueError where something else was asked for."""
    if isinstance(threshold, (Ema, Quantile)) and threshold.first_step != "unclipped":
        raise ValueError('preset="published" leaves the first gradient alone: first_step="zero" contradicts it')
    if isinstance(threshold, Quantile) and threshold.interpolation != "lower":
        raise ValueError('preset="published" takes a value that occurred: interpolation="linear" contradicts it')
    return threshold if isinstance(threshold, Constant) else dataclasses.replace(threshold, observe_zeros=True)


def check_preset(preset: Union[Preset, None]) -> None:
    if preset not in (None, "published"):
        raise ValueError(f'preset = {preset!r} is neither None nor "published"')

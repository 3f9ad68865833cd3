# SPDX-License-Identifier: Apache-2.0
"""Which parameters are clipped, how, and as which matrices: data, in order, the first match wins."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Literal, Optional, Union

from torch import nn

from . import _settings
from .thresholds import ThresholdLike, as_threshold


@dataclasses.dataclass(frozen=True)
class Rule:
    """Applies to parameters whose name matches the glob ``pattern`` and whose number of axes lies in
    [``min_dims``, ``max_dims``].

    ``treatment`` is ``"spectral"`` (clamp singular values), ``"norm"`` (clamp the Frobenius norm) or ``"skip"``.  The
    first ``batch_axes`` axes count matrices, the next ``row_axes`` are rows, the rest columns: experts (e, m, n) are
    ``Rule("*.experts.*", batch_axes=1)``.  ``threshold`` and ``clip`` (a mapping of clip options such as
    ``{"method": "gram"}``) replace the clipper's own.

    >>> Rule("*.experts.*", batch_axes=1, label="experts").texts()[0]
    'name_pattern=*.experts.*'
    """

    pattern: str = "*"
    min_dims: int = 0
    max_dims: int = 1 << 20
    treatment: Literal["spectral", "norm", "skip"] = "spectral"
    batch_axes: int = 0
    row_axes: int = 1
    label: str = ""
    threshold: Optional[ThresholdLike] = None
    clip: Optional[Mapping[str, object]] = None

    @property
    def shown_label(self) -> str:
        """What reports call it."""
        return self.label or f"rule {self.pattern!r}"

    def texts(self) -> list[str]:
        own = {
            "name_pattern": self.pattern,
            "min_dims": self.min_dims,
            "max_dims": self.max_dims,
            "treatment": self.treatment,
            "batch_axes": self.batch_axes,
            "row_axes": self.row_axes,
            "label": self.shown_label,
        }
        result = _settings.texts(own)
        if self.threshold is not None:
            result += _settings.texts(as_threshold(self.threshold).settings(), "threshold.")
        if self.clip is not None:
            result += _settings.texts(self.clip, "clip.")
        return result


Rules = Union[Rule, Iterable[Rule]]


def as_rules(rules: Rules) -> list[Rule]:
    """A list of rules from a list or from a single one; what is something else is named."""
    if isinstance(rules, Rule):
        return [rules]
    if isinstance(rules, str):
        raise TypeError(f"rules is a list of Rule, not the text {rules!r}: rules=[Rule({rules!r})] or skip({rules!r})")
    if not isinstance(rules, Iterable):
        raise TypeError(f"rules is a list of Rule, not {type(rules).__name__}")
    listed = list(rules)
    for place, rule in enumerate(listed):
        if isinstance(rule, list):
            raise TypeError(f"rules[{place}] is a list; unpack it: rules=[*skip(...), ...]")
        if not isinstance(rule, Rule):
            raise TypeError(f"rules[{place}] must be a Rule, not {type(rule).__name__} ({rule!r})")
    return listed


def skip(*patterns: str) -> list[Rule]:
    """Rules that leave parameters alone.

    >>> [rule.treatment for rule in skip("lm_head.*", "*.wte.*")]
    ['skip', 'skip']
    """
    return [Rule(pattern, treatment="skip", label=f"skipped by {pattern!r}") for pattern in patterns]


def skip_embeddings(model: nn.Module) -> list[Rule]:
    """Rules that leave the weights of embeddings alone, known by the type of their modules.  A clipper that is built
    from a module has them already; one that is given names or parameter groups cannot know.

    >>> model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 2))
    >>> [rule.pattern for rule in skip_embeddings(model)]
    ['0.weight']
    """
    tables = {id(m.weight) for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in tables]
    return [Rule(_literal(name), treatment="skip", label="embedding by type: skipped") for name in names]


def _literal(name: str) -> str:
    """A glob for this name alone: the globs here know * and ? only."""
    return name.replace("*", "?")

# SPDX-License-Identifier: Apache-2.0
"""What a clipper says when something was given that does not fit, or will not be clipped."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Optional, Union

from ._parameters import Thresholds, threshold_of
from .presets import Preset, published_threshold
from .reports import LayerReport
from .rules import Rule
from .thresholds import Threshold, ThresholdLike, as_threshold


def checked_thresholds(
    threshold: Union[ThresholdLike, Thresholds], preset: Optional[Preset]
) -> Union[Threshold, dict[str, ThresholdLike]]:
    """One, or a dictionary of them; under a preset as it wants them."""

    def one(value: ThresholdLike) -> Threshold:
        found = as_threshold(value)
        return published_threshold(found) if preset == "published" else found

    if not isinstance(threshold, Mapping):
        return one(threshold)
    strangers = [key for key in threshold if not isinstance(key, str)]
    if strangers or not threshold:
        what = f"{strangers[0]!r}" if strangers else "nothing"
        raise TypeError(f"a dictionary of thresholds has names or globs for keys, not {what}")
    return {name: one(value) for name, value in threshold.items()}


def check_names(options: Iterable[str], known: Sequence[str]) -> None:
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f'; did you mean "{near[0]}"?' if near else f" (known: {', '.join(known)})"
            raise TypeError(f'SpectralClipper has no option "{name}"{hint}')


def require_thresholds(
    thresholds: Thresholds, layers: Sequence[LayerReport], names: Sequence[str], has_own: Sequence[bool]
) -> None:
    """A dictionary of thresholds has one for whatever is clipped, and nothing that fits no parameter."""
    provided = {name for name, own in zip(names, has_own) if own}
    clipped = list(dict.fromkeys(layer.parameter for layer in layers if layer.treatment != "skip"))
    without = [name for name in clipped if name not in provided and threshold_of(name, thresholds) is None]
    if without:
        raise ValueError(
            f'the dictionary of thresholds has none for {few(without)}; add them, or "*" for all the others'
        )
    for glob in thresholds:
        if all(threshold_of(name, {glob: 1.0}) is None for name in names):
            raise ValueError(
                f"the dictionary of thresholds has {glob!r}, which fits no parameter; names are {few(names)}"
            )


def warn_of_idle_rules(rules: Sequence[Rule], layers: Sequence[LayerReport], names: Sequence[str]) -> None:
    """A rule that decides for no parameter is a slip of the pen, mostly."""
    at_work = {layer.rule for layer in layers}
    idle = [repr(rule.pattern) for rule in rules if rule.shown_label not in at_work]
    if idle and names:
        verb = "decides" if len(idle) == 1 else "decide"
        warnings.warn(
            f"rules: {', '.join(idle)} {verb} for no parameter: no name (or number of axes) fits, or earlier rules "
            f"take them all. Names are {few(names)}",
            stacklevel=3,
        )


def few(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def no_gradient_text(names: Sequence[str]) -> str:
    if not names:
        return "step(): this clipper has no parameters, and clips nothing"
    return (
        f"step(): none of the {len(names)} parameters ({few(names)}) has a gradient, so nothing was clipped. Is it "
        "called after backward() and before zero_grad(), and are these the parameters that are trained?"
    )


def reshaped_text(changes: Sequence[str]) -> str:
    return (
        f"parameters were replaced by others of another shape: {'; '.join(changes)}. They are NOT clipped: build a new "
        "SpectralClipper"
    )

# SPDX-License-Identifier: Apache-2.0
"""Where tau comes from: a constant, an exponential moving average, or a quantile of past largest singular values.

Every policy knows only the past: tau is asked first, the gradient is clipped, then its unclipped ``sigma_max`` is
observed.  Ranges are checked when a clipper is built; the messages name the value and what is allowed.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, Union

from ._settings import plain

FirstStep = Literal["unclipped", "zero"]


@dataclasses.dataclass(frozen=True)
class Threshold:
    """Common options: ``slack`` multiplies tau, ``floor`` and ``cap`` bound it, ``warmup_steps`` values are observed
    before the first clip, ``observe_zeros`` lets zero gradients count (the published clipper does)."""

    slack: float = dataclasses.field(default=1.0, kw_only=True)
    floor: float = dataclasses.field(default=0.0, kw_only=True)
    cap: float = dataclasses.field(default=math.inf, kw_only=True)
    warmup_steps: int = dataclasses.field(default=0, kw_only=True)
    observe_zeros: bool = dataclasses.field(default=False, kw_only=True)

    def settings(self) -> dict[str, object]:
        """Option names of the core and their values."""
        return {"kind": type(self).__name__.lower(), **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class Constant(Threshold):
    """The same tau at every step.

    >>> Constant(1.0).settings()["tau"]
    1.0
    """

    tau: float = 1.0


@dataclasses.dataclass(frozen=True)
class Ema(Threshold):
    """Bias-corrected exponential moving average of sigma_max, ``decay`` being the weight of the past.

    ``first_step="unclipped"`` leaves the first gradient alone (the published clipper); ``"zero"`` is the paper's
    tau_{-1} = 0, which erases it.

    >>> Ema(0.95, first_step="zero").settings()["decay"]
    0.95
    """

    decay: float = 0.9
    first_step: FirstStep = dataclasses.field(default="unclipped", kw_only=True)


@dataclasses.dataclass(frozen=True)
class Quantile(Threshold):
    """The ``quantile`` of the last ``window`` values of sigma_max.

    ``interpolation="lower"`` takes a value that occurred (the published clipper), ``"linear"`` is numpy's default.

    >>> Quantile(0.85, window=100).settings()["window"]
    100
    """

    quantile: float = 0.85
    window: int = 100
    interpolation: Literal["lower", "linear"] = dataclasses.field(default="lower", kw_only=True)
    first_step: FirstStep = dataclasses.field(default="unclipped", kw_only=True)


ThresholdLike = Union[Threshold, float, int]


def as_threshold(value: ThresholdLike) -> Threshold:
    """A threshold, or a number (NumPy's and tensors without axes included) as a constant one."""
    if isinstance(value, Threshold):
        return value
    number = plain(value)
    if isinstance(number, (int, float)) and not isinstance(number, bool):
        return Constant(float(number))
    wanted = "a number, Constant, Ema or Quantile"
    if isinstance(value, type) and issubclass(value, Threshold):
        raise TypeError(f"threshold must be {wanted}, not the class {value.__name__}: write {value.__name__}()")
    raise TypeError(f"threshold must be {wanted}, not {type(value).__name__} ({value!r})")

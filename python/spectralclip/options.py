# SPDX-License-Identifier: Apache-2.0
"""Names of the options that every clip takes, for type checkers.  Defaults and ranges are the core's."""

from __future__ import annotations

from typing import Literal, Optional, TypedDict

Method = Literal["exact", "gram", "sketched", "tracked", "newton_schulz", "auto"]
Backend = Literal["auto", "core", "aten", "triton"]
Exhausted = Literal["auto", "go_exact", "report"]


class ClipOptions(TypedDict, total=False):
    """How singular values are found.  What is not given has the core's default (``include/spectralclip/options.h``).

    - ``method``: "exact" and "gram" factorise, "newton_schulz" multiplies, "sketched" and "tracked" look at a subspace
      only, "auto" (the default) is tracked, or gram where that is cheaper
    - ``rank``: the most directions that are clipped; None for as many as needed (sketched: 10)
    - ``oversampling``, ``power_passes``: of sketched
    - ``tolerance``: wanted relative error of the removed part; ``margin``: values within tau (1 + margin) need not be
      lowered; ``max_passes``: the budget, in reads of the matrix; ``max_columns``: widest subspace; ``exhausted``: what
      to do when they are used up, "go_exact" (finish by gram), "report" (say so in the status), or "auto": stateless
      calls finish, clippers report.  Of tracked
    - ``seed``: of the random columns
    """

    method: Method
    rank: Optional[int]
    oversampling: int
    power_passes: int
    tolerance: float
    margin: float
    max_passes: int
    max_columns: int
    exhausted: Exhausted
    seed: int

# SPDX-License-Identifier: Apache-2.0
"""Names of the options that every clip takes, for type checkers.  Defaults and ranges are the core's."""

from __future__ import annotations

from typing import Literal, Optional, TypedDict

Method = Literal["exact", "gram", "sketched", "tracked", "newton_schulz", "auto"]
Backend = Literal["auto", "core", "aten"]
Exhausted = Literal["go_exact", "report"]


class ClipOptions(TypedDict, total=False):
    """How singular values are found.  What is not given has the core's default, in brackets.

    - ``method`` ("tracked"): "exact" and "gram" factorise, "newton_schulz" multiplies, "sketched" and "tracked" look
      at a subspace only, "auto" chooses
    - ``rank`` (None): as many directions as needed; sketched: 10
    - ``oversampling`` (5), ``power_passes`` (1): of sketched
    - ``tolerance`` (1e-4): wanted relative error of the removed part; ``max_passes`` (4): reads of the matrix;
      ``max_columns`` (64): widest subspace; ``exhausted`` ("go_exact"): what to do beyond it, or "report".  Of tracked
    - ``seed`` (0): of the random columns
    """

    method: Method
    rank: Optional[int]
    oversampling: int
    power_passes: int
    tolerance: float
    max_passes: int
    max_columns: int
    exhausted: Exhausted
    seed: int

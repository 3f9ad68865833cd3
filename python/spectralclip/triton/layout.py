# SPDX-License-Identifier: Apache-2.0
"""Columns of the tables that kernels and host share.  A constexpr each, so that both say the same word."""

from __future__ import annotations

import triton.language as tl

# layers: int64, one row a matrix.  Oriented: cols <= rows, so vectors and work memory have the short length.
ROWS = tl.constexpr(0)
COLS = tl.constexpr(1)
STRIDE = tl.constexpr(2)  # entries between rows (of columns where TRANSPOSED)
TRANSPOSED = tl.constexpr(3)  # a column, not a row, is contiguous
COUNT = tl.constexpr(4)  # entries of a vector that was folded into rows; otherwise beyond the last
TREATMENT = tl.constexpr(5)
FIRST_COLUMN = tl.constexpr(6)  # of V and Z
FIRST_SLOT = tl.constexpr(7)  # of partial Z, in columns
FIRST_PROGRAM = tl.constexpr(8)
PROGRAMS = tl.constexpr(9)
FIRST_BLOCK = tl.constexpr(10)  # of columns
BLOCKS = tl.constexpr(11)
KEY = tl.constexpr(12)  # of random columns
FIRST_WINDOW = tl.constexpr(13)
LAYER_FIELDS = tl.constexpr(14)

SPECTRAL = tl.constexpr(0)
NORM = tl.constexpr(1)
SKIP = tl.constexpr(2)

# options: float64, one row a matrix.
KIND = tl.constexpr(0)  # of threshold: constant, ema, quantile
TAU = tl.constexpr(1)
DECAY = tl.constexpr(2)
QUANTILE = tl.constexpr(3)
WINDOW = tl.constexpr(4)
FIRST_ZERO = tl.constexpr(5)
LINEAR = tl.constexpr(6)
SLACK = tl.constexpr(7)
FLOOR = tl.constexpr(8)
CAP = tl.constexpr(9)
WARMUP = tl.constexpr(10)
OBSERVE_ZEROS = tl.constexpr(11)
RANK = tl.constexpr(12)  # 0: as many as there are
TOLERANCE = tl.constexpr(13)
MARGIN = tl.constexpr(14)
OBSERVE_ONLY = tl.constexpr(15)  # 1: nothing is written; 2: nothing whose status is not ok
STORED = tl.constexpr(16)  # epsilon of 16-bit storage, 0 otherwise
OPTION_FIELDS = tl.constexpr(17)

# state: float64, one row a matrix.
OBSERVED = tl.constexpr(0)
AVERAGE = tl.constexpr(1)
WEIGHT = tl.constexpr(2)  # 1 - decay^observed
STEPS = tl.constexpr(3)
STEPS_CLIPPED = tl.constexpr(4)
DRAWS = tl.constexpr(5)  # random columns drawn so far: their address
SCALE = tl.constexpr(6)  # power of two that keeps squares of float32 in range
NEXT_TAU = tl.constexpr(7)
STATE_FIELDS = tl.constexpr(8)

# flags: int32, one row a matrix: which passes are wanted (by number; the first is always), then:
LOWER = tl.constexpr(7)  # 0 leave, 1 lower, 2 erase
FLAG_FIELDS = tl.constexpr(8)

# report: float64, the fields of spectralclip's reports in their order.
STATUS = tl.constexpr(0)
METHOD = tl.constexpr(1)
REPORT_TAU = tl.constexpr(2)
SIGMA_MAX = tl.constexpr(3)
CLIPPED = tl.constexpr(4)
NORM_BEFORE = tl.constexpr(5)
NORM_AFTER = tl.constexpr(6)
REMOVED_ENERGY = tl.constexpr(7)
SIGMA_BOUND = tl.constexpr(8)
BOUND_KIND = tl.constexpr(9)
ERROR_ESTIMATE = tl.constexpr(10)
PASSES = tl.constexpr(11)
COLUMNS = tl.constexpr(12)
REPORT_FIELDS = tl.constexpr(13)

OK = tl.constexpr(0.0)
NOT_FINITE = tl.constexpr(1.0)
RANK_EXHAUSTED = tl.constexpr(2.0)
NOT_CONVERGED = tl.constexpr(4.0)
OUT_OF_RANGE = tl.constexpr(5.0)
TRACKED = tl.constexpr(3.0)
EXACT = tl.constexpr(0.0)

# gram: the products of a block of columns, K x K each.
GRAM_T = tl.constexpr(0)  # Z^T Z
GRAM_P = tl.constexpr(1)  # V^T Z
GRAM_N = tl.constexpr(2)  # V^T V
GRAM_ZO = tl.constexpr(3)  # Z^T Omega'
GRAM_VO = tl.constexpr(4)  # V^T Omega'
GRAMS = tl.constexpr(5)

# mixes: what becomes of Z and V, K x K each: V <- Z MIX_Z + V MIX_V + fresh columns, U = Z MIX_U.
MIX_Z = tl.constexpr(0)
MIX_V = tl.constexpr(1)
MIX_U = tl.constexpr(2)
MIX_O = tl.constexpr(3)  # (1, K) used: which columns are fresh
MIXES = tl.constexpr(4)

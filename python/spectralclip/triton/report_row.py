# SPDX-License-Identifier: Apache-2.0
"""A row of the report: the fields of spectralclip's reports, as the host reads them."""

from __future__ import annotations

import triton
import triton.language as tl

from .layout import (
    BOUND_KIND,
    CLIPPED,
    COLUMNS,
    ERROR_ESTIMATE,
    METHOD,
    NORM_AFTER,
    NORM_BEFORE,
    PASSES,
    REMOVED_ENERGY,
    REPORT_TAU,
    SIGMA_BOUND,
    SIGMA_MAX,
    STATUS,
    TRACKED,
)


@triton.jit
def write_report(report, status, tau, sigma_max, clipped, before, after, removed, bound, estimated, error, passes,
                 columns):  # fmt: skip
    tl.store(report + STATUS, status)
    tl.store(report + METHOD, TRACKED)
    tl.store(report + REPORT_TAU, tau)
    tl.store(report + SIGMA_MAX, sigma_max)
    tl.store(report + CLIPPED, clipped)
    tl.store(report + NORM_BEFORE, before)
    tl.store(report + NORM_AFTER, after)
    tl.store(report + REMOVED_ENERGY, removed)
    tl.store(report + SIGMA_BOUND, bound)
    tl.store(report + BOUND_KIND, estimated)
    tl.store(report + ERROR_ESTIMATE, error)
    tl.store(report + PASSES, passes)
    tl.store(report + COLUMNS, columns)

# SPDX-License-Identifier: Apache-2.0
"""How much memory a call takes beyond what was there: growth of the peak resident set (Linux; NaN elsewhere)."""

from __future__ import annotations

import ctypes
import gc
import math
import pathlib
import re
from collections.abc import Callable

_STATUS = pathlib.Path("/proc/self/status")
_CLEAR = pathlib.Path("/proc/self/clear_refs")


def _kib(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise OSError(f"no {field} in {_STATUS}")
    return int(found.group(1))


def _return_free_memory() -> None:
    """Otherwise a call could live on what an earlier one has freed, and look free."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def peak_growth(call: Callable[[], object]) -> float:
    """Runs the call once; bytes by which the resident set grew at its peak.  Good to about a mebibyte."""
    try:
        _return_free_memory()
        _CLEAR.write_text("5", encoding="utf-8")  # resets the peak to what is resident now
        before = _kib("VmRSS")
    except (OSError, AttributeError):
        call()
        return math.nan
    call()
    return 1024.0 * max(0, _kib("VmHWM") - before)

# SPDX-License-Identifier: Apache-2.0
"""Python values as the "name=value" texts that the operators take.  The core checks names and ranges."""

from __future__ import annotations

from collections.abc import Mapping


def text(value: object) -> str:
    """
    >>> [text(v) for v in (None, True, 0.1, 7, "gram")]
    ['none', 'true', '0.1', '7', 'gram']
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (int, str)):
        return str(value)
    raise TypeError(f"an option is a number, a text, a bool or None, not {type(value).__name__}")


def texts(values: Mapping[str, object], prefix: str = "") -> list[str]:
    return [f"{prefix}{name}={text(value)}" for name, value in values.items()]

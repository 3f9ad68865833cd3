# SPDX-License-Identifier: Apache-2.0
"""Python values as the "name=value" texts that the operators take.  The core checks names and ranges."""

from __future__ import annotations

import numbers
from collections.abc import Mapping


def plain(value: object) -> object:
    """Scalars of NumPy and tensors without axes as the Python values they stand for.

    >>> import torch
    >>> plain(torch.tensor(3)), plain(torch.tensor(0.5)), plain("gram")
    (3, 0.5, 'gram')
    """
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "ndim", None) == 0 else value


def text(value: object) -> str:
    """
    >>> [text(v) for v in (None, True, 0.1, 7, "gram")]
    ['none', 'true', '0.1', '7', 'gram']
    """
    value = plain(value)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"an option is a number, a text, a bool or None, not {type(value).__name__}")


def texts(values: Mapping[str, object], prefix: str = "") -> list[str]:
    result = []
    for name, value in values.items():
        try:
            result.append(f"{prefix}{name}={text(value)}")
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
    return result

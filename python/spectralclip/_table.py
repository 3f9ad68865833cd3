# SPDX-License-Identifier: Apache-2.0
"""Tables in plain text, for people."""

from __future__ import annotations

import html
from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Columns as wide as they need to be; those whose titles are in ``right`` are flush right.

    >>> print(table(["name", "n"], [["weight", "12"], ["bias", "3"]], right=["n"]))
    name     n
    ------  --
    weight  12
    bias     3
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    is_right = [title in right for title in head]

    def line(cells: Sequence[str]) -> str:
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, is_right)]
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *(line(row) for row in rows)])


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same for a notebook."""
    titles = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def number(value: float) -> str:
    """
    >>> number(0.0123456), number(123456.0), number(float("inf")), number(float("nan"))
    ('0.01235', '1.235e+05', 'inf', '-')
    """
    return "-" if value != value else f"{value:.4g}"


def share(value: float) -> str:
    """
    >>> share(0.05), share(0.00123), share(float("nan"))
    ('5%', '0.12%', '-')
    """
    return "-" if value != value else f"{100 * value:.2g}%"

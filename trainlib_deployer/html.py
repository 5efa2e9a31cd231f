"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

SCROLLS = 'style="overflow-x:auto"'
WHOLE = 'style="white-space:nowrap"'  # of each cell, as notebooks break numbers otherwise


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th {WHOLE}>{escape(h)}</th>" for h in headings)
    body = "".join("<tr>" + "".join(f"<td {WHOLE}>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    title = f'<caption style="text-align:left;white-space:normal">{escape(caption)}</caption>'
    return f"<div {SCROLLS}><table>{title}<tr>{head}</tr>{body}</table></div>"

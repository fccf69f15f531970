"""The page's frame, its sections and its tables. What comes from data is escaped in `text`."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

from thetascope.report.style import CSS, SCRIPT
from thetascope.report.text import ABSENT, esc, interval, known, num


class Cell(NamedTuple):
    """A table cell: ready HTML, what it sorts by (None: its text) and a class."""

    html: str
    value: float | None = None
    css: str = ""


class Section(NamedTuple):
    """A numbered part of the page: anchor, title, ready HTML."""

    anchor: str
    title: str
    html: str


def word(value: object, css: str = "l") -> Cell:
    """A foreign text as a cell at the left, its whole in a tooltip."""
    shown = esc(value)
    return Cell(f'<bdi title="{shown}">{shown}</bdi>', css=css)


def number(value: float | None, digits: int = 0, *, scale: float = 1.0, css: str = "") -> Cell:
    """A number alone."""
    sortable = value if value is not None and math.isfinite(value) else math.nan
    return Cell(num(value, digits, scale=scale), sortable, css)


def measured(
    value: float | None,
    low: float | None,
    high: float | None,
    digits: int = 1,
    *,
    scale: float = 1.0,
    sign: bool = False,
    mark: bool = False,
    below: str = "",
) -> Cell:
    """A value over its interval.

    Args:
        value, low, high: The estimate; no value gives an empty cell.
        digits, scale, sign: How it is written.
        mark: Whether to set it in bold where the interval excludes 0.
        below: More for the second line, ready HTML.
    """
    if value is None or not math.isfinite(value):
        return Cell(f'<span class="absent-cell">{ABSENT}</span>', math.nan)
    sure = mark and low is not None and high is not None and (low > 0 or high < 0)
    shown = interval(low, high, digits, scale) if known(low) and known(high) else "no interval"
    return Cell(
        f"{num(value, digits, scale=scale, sign=sign)}<small>{shown}{below}</small>",
        value,
        "sure" if sure else "",
    )


class Row(NamedTuple):
    """A table row and its class."""

    cells: Sequence[Cell]
    css: str = ""


def table(
    head: Sequence[str],
    rows: Sequence[Row],
    caption: str = "",
    *,
    sort: bool = True,
    tall: bool = False,
) -> str:
    """A table in its own scrolling box.

    Args:
        head: Column heads, ready HTML.
        rows: The rows.
        caption: Ready HTML above it.
        sort: Whether a click on a head sorts.
        tall: Whether it scrolls in height too.

    A head stands at the left where its first cell does.
    """
    left = [c.css.startswith("l") for c in rows[0].cells] if rows else [False] * len(head)
    heads = "".join(
        f'<th scope="col"{_class("l" if at_left else "")}>{h}</th>'
        for h, at_left in zip(head, left, strict=True)
    )
    lines = []
    for row in rows:
        cells = "".join(f"<td{_class(c.css)}{_sort_key(c.value)}>{c.html}</td>" for c in row.cells)
        lines.append(f"<tr{_class(row.css)}>{cells}</tr>")
    title = f"<figcaption>{caption}</figcaption>" if caption else ""
    return (
        f'<figure class="t">{title}<div{_class("box tall" if tall else "box")} tabindex="0">'
        f"<table{_class('sort' if sort else '')}>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div></figure>\n"
    )


def figure(svg: str, caption: str = "") -> str:
    """A figure with its caption above, ready HTML."""
    told = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure>{told}{svg}</figure>"


def key(entries: Sequence[tuple[int, str]]) -> str:
    """What the colours of a figure mean: (colour, foreign name)."""
    shown = "".join(f'<span><i class="k{c % 8}"></i>{esc(n)}</span>' for c, n in entries)
    return f'<div class="key">{shown}</div>'


def fold(summary: str, html: str) -> str:
    """What is seen on a click."""
    return f"<details><summary>{summary}</summary>{html}</details>\n"


def absent(what: str, command: str) -> str:
    """In place of what the study does not have: what it would say, and how to make it."""
    return (
        f'<div class="absent"><p>{what}</p><p>Make it with:</p>'
        f"<pre><code>{esc(command)}</code></pre></div>\n"
    )


def frame(title: str, head: str, sections: Sequence[Section], foot: str) -> str:
    """The whole page."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    links = "".join(f'<a href="#{s.anchor}">{esc(s.title)}</a>' for s in sections)
    parts = "".join(
        f'<section id="{s.anchor}"><h2><span class="no">{i}</span>{esc(s.title)}</h2>\n{s.html}'
        "</section>\n"
        for i, s in enumerate(sections, 1)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{esc(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f'<header>{head}<nav aria-label="Sections">{links}</nav></header>\n'
        f"<main>\n{parts}</main>\n<footer>{foot}</footer>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _class(css: str) -> str:
    return f' class="{css}"' if css else ""


def _sort_key(value: float | None) -> str:
    if value is None:
        return ""
    return f' data-v="{value:.10g}"' if math.isfinite(value) else ' data-v=""'

"""Figures of the section Concepts: coverage, overlap, performance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thetascope.report.figures import N_COLOURS, Scale, axis_x, axis_y, line, svg, text
from thetascope.report.text import esc, num, shorten

Array = NDArray[np.float64]
_KEY = 150
"""Pixels at the right of a figure for the names of its lines."""


def missing_curves(
    thresholds: Sequence[float], shares: Sequence[Sequence[float]], names: Sequence[str],
    chosen: float | None, width: float = 560, height: float = 270,
) -> str:  # fmt: skip
    """Share of concepts that are missing, by threshold, a line a benchmark and one for all.

    Args:
        thresholds: Shares of a concept's maximum.
        shares: A row a name. names: Of the lines.
        chosen: The threshold in use, marked.
    """
    right = width - _KEY
    across = Scale(min(thresholds), max(thresholds), 40, right)
    up = Scale(0, 100, height - 42, 22)
    body = axis_x(across, 22, height - 42, "threshold, share of the concept's maximum")
    body += axis_y(up, 40, right, "missing concepts %")
    if chosen is not None:
        body.append(line(across(chosen), 22, across(chosen), height - 42, "mark"))
    for turn, (row, name) in enumerate(zip(shares, names, strict=True)):
        tone = f"c{turn % N_COLOURS}"
        places = [(t, 100 * s) for t, s in zip(thresholds, row, strict=True)]
        for (t1, s1), (t2, s2) in pairwise(places):
            tip = f"{name}: {num(s2, 1)} % at {num(t2, 1)}"
            body.append(line(across(t1), up(s1), across(t2), up(s2), f"bar {tone}", tip))
        y = 32 + 16 * turn
        if y < height - 30:
            body.append(line(right + 12, y - 4, right + 26, y - 4, f"bar {tone}"))
            body.append(text(right + 31, y, shorten(name, 16), "label"))
    return svg(width, height, "Share of concepts missing by threshold", body)


def steps(
    values: Sequence[Array], names: Sequence[str], label: str, title: str, *, unit: float = 1.0,
    low: float | None = None, high: float | None = None, n_bins: int = 40, width: float = 560,
    height: float = 250,
) -> str:  # fmt: skip
    """Histograms as step lines over one axis, a line a series; counts in concepts.

    Args:
        values: A series a name. names: Of the series.
        label, title: Of the axis; what the figure shows.
        unit: Factor on the values.
        low, high: Ends of the axis; those of the values where None.
        n_bins: Bins over it.
    """
    every = np.concatenate([v * unit for v in values]) if values else np.zeros(0)
    every = every[np.isfinite(every)]
    start = float(every.min()) if low is None and len(every) else (low or 0.0)
    end = float(every.max()) if high is None and len(every) else (high or 1.0)
    end = end if end > start else start + 1
    edges = np.linspace(start, end, n_bins + 1)
    counts = [np.histogram(v[np.isfinite(v)] * unit, edges)[0] for v in values]
    right = width - _KEY
    across = Scale(start, end, 44, right)
    up = Scale(0, max(1.0, *(float(c.max()) for c in counts)) * 1.04, height - 42, 22)
    body = axis_x(across, 22, height - 42, label)
    body += axis_y(up, 44, right, "concepts")
    for turn, (count, name) in enumerate(zip(counts, names, strict=True)):
        tone, before = f"c{turn % N_COLOURS}", up(0)
        for k, n in enumerate(count.tolist()):
            y, x = up(n), across(edges[k])
            body.append(line(x, before, x, y, f"bar {tone}"))
            tip = f"{name}: {n:,} concepts from {num(edges[k], 2)} to {num(edges[k + 1], 2)}"
            body.append(line(x, y, across(edges[k + 1]), y, f"bar {tone}", tip))
            before = y
        body.append(line(across(end), before, across(end), up(0), f"bar {tone}"))
        y = 32 + 16 * turn
        if y < height - 30:
            body.append(line(right + 12, y - 4, right + 26, y - 4, f"bar {tone}"))
            body.append(text(right + 31, y, shorten(name, 16), "label"))
    return svg(width, height, title, body)


def heat_map(
    values: Sequence[Sequence[float]], names: Sequence[str], title: str, digits: int = 2
) -> str:
    """A square of shares from 0 to 1: darker is more, the number in each cell.

    Args:
        values: (n, n) in [0, 1]. names: n names.
        title: What it shows.
        digits: Of the numbers; they are left out where the cells are small.
    """
    n = len(names)
    side = 46.0 if n <= 8 else max(14.0, 400 / n)
    left, top = 118.0, 8.0
    width, height = left + n * side + 70, top + n * side + 92
    body = []
    for i, row in enumerate(values):
        y = top + i * side
        body.append(text(left - 6, y + side / 2 + 4, shorten(names[i], 17), "label", "end"))
        for k, value in enumerate(row):
            x = left + k * side
            tip = f"{names[i]} and {names[k]}: {num(value, 3)}"
            body.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}"'
                f' class="c0 heat" fill-opacity="{0.06 + 0.6 * min(max(value, 0.0), 1.0):.3f}">'
                f"<title>{esc(tip)}</title></rect>"
            )
            if side >= 30:
                body.append(
                    text(x + side / 2, y + side / 2 + 4, num(value, digits), "value", "middle")
                )
    for k, name in enumerate(names):
        x, y = left + (k + 0.5) * side, top + n * side + 12
        body.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="label" text-anchor="start"'
            f' transform="rotate(38 {x:.1f} {y:.1f})">{esc(shorten(name, 17))}</text>'
        )
    return svg(width, height, title, body)

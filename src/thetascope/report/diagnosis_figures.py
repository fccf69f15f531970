"""Figures of the section Why one number is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from thetascope.report.figures import Scale, axis_x, axis_y, line, svg, text
from thetascope.report.text import esc, num

_Z2 = 1.959963984540054**2
_ROUND = [0, *(k * 10**e for e in range(7) for k in (1, 2, 5))]


def discriminations(histogram: dict[str, list[float]], *, width: float = 560) -> str:
    """Items by discrimination as a step line, noise alone as a band; counts on a root scale.

    Args:
        histogram: edges, count and, where there were bootstraps, noise_low and noise_high.
        width: In pixels.
    """
    height, left = 250.0, 44.0
    edges, count = histogram["edges"], histogram["count"]
    low, high = histogram.get("noise_low"), histogram.get("noise_high")
    most = max(1.0, *count, *(high or [0.0]))
    across = Scale(edges[0], edges[-1], left, width - 10)
    root = Scale(0, float(np.sqrt(most)) * 1.04, height - 40, 20)

    def up(value: float) -> float:
        return root(float(np.sqrt(value)))

    body = axis_x(across, 20, height - 40, "discrimination a", 7)
    last = height
    for mark in _ROUND:
        if mark <= most and last - up(mark) >= 14:
            last = up(mark)
            body.append(line(left, last, width - 10, last, "grid"))
            body.append(text(left - 5, last + 3.5, f"{mark:,}", "tick", "end"))
    body.append(text(2, 11, "items (square-root scale)", "axis"))
    if low and high:
        for k, (a, b) in enumerate(zip(low, high, strict=True)):
            x, top = across(edges[k]), up(b)
            tall = max(up(a) - top, 1.0 if b > 0 else 0.0)
            body.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{across(edges[k + 1]) - x:.1f}"'
                f' height="{tall:.1f}" class="count c1"/>'
            )
    before = up(0)
    for k, n in enumerate(count):
        x, end, y = across(edges[k]), across(edges[k + 1]), up(n)
        body.append(line(x, before, x, y, "bar c0"))
        tip = f"a from {num(edges[k], 1)} to {num(edges[k + 1], 1)}: {n:,} items"
        body.append(line(x, y, end, y, "bar c0", tip))
        before = y
    body.append(line(across(edges[-1]), before, across(edges[-1]), up(0), "bar c0"))
    body.append(line(across(0), 20, across(0), height - 40, "mark"))
    return svg(width, height, "Items by discrimination, beside noise alone", body)


def curve(found: dict[str, Any], label: str, *, width: float = 240) -> str:
    """One item's mean score by rest score, with Wilson intervals and the isotonic fit."""
    height = 190.0
    rest: Sequence[float] = found["rest"]
    room = max((max(rest) - min(rest)) * 0.08, 0.02)
    across = Scale(min(rest) - room, max(rest) + room, 34, width - 10)
    up = Scale(0, 1, height - 38, 20)
    body = axis_x(across, 20, height - 38, "rest score", 4)
    body += axis_y(up, 34, width - 10, "mean score", 4)
    places = [(across(x), up(y)) for x, y in zip(rest, found["isotonic"], strict=True)]
    for (x1, y1), (x2, y2) in pairwise(places):
        body.append(line(x1, y1, x2, y2, "bar c1"))
    for x, y, n in zip(rest, found["mean"], found["n"], strict=True):
        middle = (y + _Z2 / (2 * n)) / (1 + _Z2 / n)
        half = np.sqrt(_Z2 * (y * (1 - y) / n + _Z2 / (4 * n * n))) / (1 + _Z2 / n)
        body.append(line(across(x), up(middle - half), across(x), up(middle + half), "bar c0"))
        tip = f"rest score {num(x, 3)}, mean score {num(y, 3)}, {n} models"
        body.append(
            f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3.4" class="dot c0">'
            f"<title>{esc(tip)}</title></circle>"
        )
    return svg(width, height, f"Characteristic curve of {label}", body)

"""Small SVG figures as strings: they take their colours from the page, light or dark.

Every function returns one `<svg>` element that is valid XML; text is escaped here. Series are
told apart by the classes c0 to c7, which the page's style sheet gives colour-blind-safe hues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.report.text import esc, known, num, shorten

N_COLOURS = 8


class Scale(NamedTuple):
    """A linear scale from data [low, high] to pixels [start, end]."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.start + min(max(part, -0.02), 1.02) * (self.end - self.start)


class Dot(NamedTuple):
    """One row of a dot plot: a label, a value with its interval, a colour and a group."""

    label: str
    value: float
    low: float | None
    high: float | None
    colour: int = 0
    faint: bool = False


def padded(values: Sequence[float | None], share: float = 0.06) -> tuple[float, float]:
    """Range of the known values with some room; (0, 1) where there are none."""
    found = [float(v) for v in values if v is not None and known(v)]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    room = (high - low) * share or max(abs(high) * share, 0.02)
    return low - room, high + room


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Round numbers in [low, high], about n of them."""
    raw = (high - low) / max(n, 1)
    power = 10.0 ** np.floor(np.log10(raw))
    step = float(power * min((s for s in (1, 2, 2.5, 5, 10) if s * power >= raw), default=10))
    first = int(np.ceil(low / step - 1e-9))
    return [i * step for i in range(first, int(np.floor(high / step + 1e-9)) + 1)]


def _digits(values: Sequence[float]) -> int:
    for digits in range(5):
        if all(abs(v * 10**digits - round(v * 10**digits)) < 1e-6 for v in values):
            return digits
    return 4


def svg(width: float, height: float, title: str, body: list[str], css: str = "") -> str:
    """The figure around its parts; `title` is for a screen reader."""
    return (
        f'<svg class="{f"fig {css}".strip()}" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        f' height="{height:g}" role="img" aria-label="{esc(title)}">'
        f"<title>{esc(title)}</title>{''.join(body)}</svg>"
    )


def line(x1: float, y1: float, x2: float, y2: float, css: str, tip: str = "") -> str:
    """A straight line; `tip` is told where the pointer rests on it."""
    end = f"><title>{esc(tip)}</title></line>" if tip else "/>"
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"{end}'


def text(x: float, y: float, value: str, css: str, anchor: str = "start") -> str:
    """A line of writing, escaped."""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}"{place}>{esc(value)}</text>'


def axis_x(scale: Scale, top: float, bottom: float, label: str, n: int = 5) -> list[str]:
    """Grid lines, numbers below and the axis' name under them."""
    marks = ticks(scale.low, scale.high, n)
    digits = _digits(marks)
    out = []
    for mark in marks:
        x = scale(mark)
        out.append(line(x, top, x, bottom, "grid"))
        out.append(text(x, bottom + 13, num(mark, digits), "tick", "middle"))
    out.append(text((scale.start + scale.end) / 2, bottom + 29, label, "axis", "middle"))
    return out


def axis_y(scale: Scale, left: float, right: float, label: str, n: int = 5) -> list[str]:
    """Grid lines, numbers at the left and the axis' name above them."""
    marks = ticks(scale.low, scale.high, n)
    digits = _digits(marks)
    out = []
    for mark in marks:
        y = scale(mark)
        out.append(line(left, y, right, y, "grid"))
        out.append(text(left - 5, y + 3.5, num(mark, digits), "tick", "end"))
    out.append(text(2, 11, label, "axis"))
    return out


def dots(
    rows: Sequence[Dot],
    label: str,
    title: str,
    *,
    width: float = 340,
    label_width: float = 112,
    digits: int = 1,
    unit: float = 1.0,
    reference: float | None = None,
) -> str:
    """One row a dot with its interval, the value written at the right.

    Args:
        rows: From top to bottom.
        label, title: Name of the axis; what the figure shows, for a screen reader.
        width, label_width: Of the figure and of its labels, in pixels.
        digits: Of the values written.
        unit: Factor on the values for showing (100 for per cent).
        reference: Value of a dashed line.
    """
    step, top = 19.0, 6.0
    bottom = top + step * len(rows) + 2
    values = [v * unit for r in rows for v in (r.value, r.low, r.high) if v is not None]
    more = [] if reference is None else [reference * unit]
    scale = Scale(*padded([*values, *more]), label_width, width - 46)
    body = axis_x(scale, top, bottom, label, 4)
    if reference is not None:
        body.append(line(scale(reference * unit), top, scale(reference * unit), bottom, "mark"))
    for i, row in enumerate(rows):
        y = top + step * (i + 0.5) + 1
        room = int((label_width - 8) / 6.7)
        body.append(text(label_width - 8, y + 4, shorten(row.label, room), "label", "end"))
        if not known(row.value):
            continue
        x, tone = scale(row.value * unit), f"c{row.colour % N_COLOURS}"
        if row.low is not None and row.high is not None and known(row.low) and known(row.high):
            body.append(line(scale(row.low * unit), y, scale(row.high * unit), y, f"bar {tone}"))
        shape = "dot hollow" if row.faint else "dot"
        tip = f"{row.label}: {num(row.value * unit, digits)}"
        body.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" class="{shape} {tone}">'
            f"<title>{esc(tip)}</title></circle>"
        )
        body.append(text(width - 2, y + 4, num(row.value * unit, digits), "value", "end"))
    return svg(width, bottom + 36, title, body)


def scatter(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    colour: NDArray[np.int64],
    label_x: str,
    label_y: str,
    title: str,
    *,
    width: float = 340,
    height: float = 300,
) -> str:
    """A cloud of points on equal axes from 0 to 1 (wider where the data are)."""
    every = np.concatenate([x, y]) if len(x) else np.array([0.0, 1.0])
    low, high = min(0.0, float(every.min())), max(1.0, float(every.max()))
    across = Scale(low, high, 40, width - 16)
    up = Scale(low, high, height - 40, 20)
    body = axis_x(across, 20, height - 40, label_x) + axis_y(up, 40, width - 16, label_y)
    body.append(line(across(low), up(low), across(high), up(high), "mark"))
    for tone in np.unique(colour).tolist():
        here = colour == tone
        marks = "".join(
            f"M{across(a):.1f} {up(b):.1f}h0"
            for a, b in zip(x[here].tolist(), y[here].tolist(), strict=True)
        )
        body.append(f'<path d="{marks}" class="cloud c{tone % N_COLOURS}"/>')
    return svg(width, height, title, body)


def reliability(
    mean_p: NDArray[np.float64],
    mean_s: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    n: NDArray[np.int64],
    name: str,
    *,
    colour: int = 0,
    width: float = 230,
) -> str:
    """Observed against predicted in bins, with intervals and, below, the bins' sizes."""
    height, plot = width + 78, width - 8
    across, up = Scale(0, 1, 34, plot), Scale(0, 1, width - 4, 20)
    title = f"Reliability diagram of {name}"
    body = axis_y(up, 34, plot, "observed")
    for mark in ticks(0, 1):
        body.append(line(across(mark), 20, across(mark), width - 4, "grid"))
    body.append(line(across(0), up(0), across(1), up(1), "mark"))
    tone, most = f"c{colour % N_COLOURS}", max(int(n.max(initial=1)), 1)
    floor = height - 32
    for p, s, a, b, size in zip(
        mean_p.tolist(), mean_s.tolist(), low.tolist(), high.tolist(), n.tolist(), strict=True
    ):
        tip = f"{name}: predicted {num(p, 3)}, observed {num(s, 3)}, n = {size:,}"
        if known(a) and known(b):
            body.append(line(across(p), up(a), across(p), up(b), f"bar {tone}"))
        body.append(
            f'<circle cx="{across(p):.1f}" cy="{up(s):.1f}" r="3.2" class="dot {tone}">'
            f"<title>{esc(tip)}</title></circle>"
        )
        tall = 24.0 * size / most
        body.append(
            f'<rect x="{across(p) - 2:.1f}" y="{floor - tall:.1f}" width="4" height="{tall:.1f}"'
            f' class="count {tone}"/>'
        )
    body.append(text(2, floor - 12, "n", "axis"))
    body.append(
        text(plot, floor - 27, f"{int(n.min(initial=most)):,} to {most:,} a bin", "tick", "end")
    )
    for mark in ticks(0, 1):
        body.append(text(across(mark), floor + 13, num(mark, 1), "tick", "middle"))
    body.append(text((34 + plot) / 2, floor + 28, "predicted", "axis", "middle"))
    return svg(width, height, title, body)

"""Figures of the space section: named points, and curves with a band."""

from __future__ import annotations

from collections.abc import Sequence

from thetascope.report.figures import N_COLOURS, Scale, axis_x, axis_y, line, padded, svg, text
from thetascope.report.text import esc, shorten

_LETTER, _LINE = 6.0, 11.0
"""Width and height in pixels that a letter of a label takes."""


def named_points(
    x: Sequence[float], y: Sequence[float], names: Sequence[str], tips: Sequence[str],
    label_x: str, label_y: str, title: str, *, colours: Sequence[int] | None = None,
    width: float = 620, height: float = 420, zero: bool = False,
) -> str:  # fmt: skip
    """Points with their names beside them; a name that would lie on another is left to the tip.

    Args:
        x, y: n places.
        names, tips: n names; what is told where the pointer rests.
        label_x, label_y, title: Names of the axes; what the figure shows, for a screen reader.
        colours: n series.
        width, height: In pixels.
        zero: Whether to draw a line at y = 0.
    """
    across = Scale(*padded(x, 0.08), 46, width - 16)
    up = Scale(*padded([*y, 0.0] if zero else y, 0.08), height - 40, 20)
    body = axis_x(across, 20, height - 40, label_x) + axis_y(up, 46, width - 16, label_y)
    if zero:
        body.append(line(46, up(0.0), width - 16, up(0.0), "mark"))
    taken: list[tuple[float, float, float, float]] = []
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        px, py = across(a), up(b)
        tone = 0 if colours is None else colours[i] % N_COLOURS
        body.append(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.6" class="dot c{tone}">'
            f"<title>{esc(tips[i])}</title></circle>"
        )
        taken.append((px - 4, py - 4, px + 4, py + 4))
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        shown = shorten(names[i], 24)
        px, py, wide = across(a), up(b), _LETTER * len(shown)
        for left, anchor in ((px + 7, "start"), (px - 7 - wide, "end")):
            box = (left, py - 5, left + wide, py - 5 + _LINE)
            if left < 48 or left + wide > width - 4 or any(_meet(box, t) for t in taken if t):
                continue
            taken.append(box)
            body.append(
                text(px + 7 if anchor == "start" else px - 7, py + 4, shown, "tick", anchor)
            )
            break
    return svg(width, height, title, body)


def _meet(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def curve(
    x: Sequence[float], series: Sequence[tuple[str, int, Sequence[float]]], label_x: str,
    label_y: str, title: str, *, bars: Sequence[tuple[float, float]] | None = None,
    reference: float | None = None, width: float = 420, height: float = 280,
) -> str:  # fmt: skip
    """Lines through points, with bars at the first series' points.

    Args:
        x: n places.
        series: (name, colour, n values) each.
        label_x, label_y, title: As in `named_points`.
        bars: n (low, high) of the first series.
        reference: Height of a dashed line.
        width, height: In pixels.
    """
    every = [v for _, _, values in series for v in values]
    every += [v for bar in bars or [] for v in bar] + ([] if reference is None else [reference])
    across = Scale(*padded(x, 0.04), 46, width - 16)
    up = Scale(*padded(every, 0.08), height - 40, 20)
    body = axis_x(across, 20, height - 40, label_x) + axis_y(up, 46, width - 16, label_y)
    if reference is not None:
        body.append(line(46, up(reference), width - 16, up(reference), "mark"))
    for place, (low, high) in zip(x, bars or [], strict=False):
        body.append(line(across(place), up(low), across(place), up(high), f"bar c{series[0][1]}"))
    for name, tone, values in series:
        path = "M" + "L".join(
            f"{across(a):.1f} {up(b):.1f}" for a, b in zip(x, values, strict=True)
        )
        body.append(f'<path d="{path}" class="curve c{tone % N_COLOURS}" fill="none"/>')
        for a, b in zip(x, values, strict=True):
            body.append(
                f'<circle cx="{across(a):.1f}" cy="{up(b):.1f}" r="3" class="dot c{tone}">'
                f"<title>{esc(f'{name}: {a:g}, {b:.3g}')}</title></circle>"
            )
    return svg(width, height, title, body)

"""Section Which model to ask: every policy on unseen questions, and score against cost."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from thetascope.decisions.routing.wording import (
    POLICIES,
    bases_of,
    policy_name,
    rows_of,
    sentences,
    tested_sentence,
)
from thetascope.report.figures import N_COLOURS, Scale, axis_x, axis_y, line, padded, svg, text
from thetascope.report.gather import Material
from thetascope.report.page import Row, Section, absent, measured, number, table, word
from thetascope.report.text import esc, num

TITLE = "Which model to ask"
LEGEND = 250
"""Pixels at the right of the figure for the names."""


def render(material: Material) -> list[Section]:
    """The section, where the study holds a routing evaluation or once did; else none."""
    if material.routing is None:
        lack = material.missing.get("routing")
        if lack is None:
            return []
        return [Section("routing", TITLE, absent(lack.why, lack.command))]
    found = material.routing.table
    told = [
        f"{tested_sentence(found)}. No response to a tested item was seen. A policy names one"
        " model for each item, and every policy chooses among the same.",
        *sentences(found),
    ]
    listed = "".join(f"<li>{esc(s)}</li>" for s in told[1:])
    html = f"<p>{esc(told[0])}</p>\n<ul>{listed}</ul>\n" + _table(found)
    if found["frontier"] is not None:
        html += f'<div class="figs">{frontier_figure(found)}</div>\n'
    return [Section("routing", TITLE, html)]


def _table(found: dict[str, Any]) -> str:
    rows = rows_of(found, "all")
    bases = bases_of(found)
    head = ["policy", "score", *(f"minus {esc(POLICIES[b])}" for b in bases), "cost",
            "left the default, %"]  # fmt: skip
    out: list[Row] = []
    for r in rows:
        cells = [word(policy_name(r["policy"], found["router"])), _measured(r, "score")]
        cells += [_measured(r, f"minus_{b}", sign=True) for b in bases]
        cells += [number(r["cost"], 4), number(r["left_default"], 0, scale=100.0)]
        out.append(Row(cells))
    unit = found["costs"]["unit"]
    caption = (
        "Scores in per cent with 95 % intervals over near-duplicate groups; differences are"
        " paired. The oracle knows who is right. " + (f"Cost: {esc(unit)}." if unit else "")
    )
    return table(head, out, caption)


def _measured(row: dict[str, Any], key: str, sign: bool = False) -> Any:
    return measured(row[key], row[f"{key}_low"], row[f"{key}_high"], 1, scale=100.0, sign=sign)


def frontier_figure(found: dict[str, Any], width: float = 680, height: float = 330) -> str:
    """Mean score against mean cost: a line a router over lambda, a dot a fixed policy."""
    frontier, router = found["frontier"], found["router"]
    curves, points = frontier["curves"], frontier["points"]
    costs = [c for k in curves for c in k["cost"]] + [p["cost"] for p in points]
    scores = [100 * s for k in curves for s in k["score"]] + [100 * p["score"] for p in points]
    across = Scale(*padded(costs), 44, width - LEGEND)
    up = Scale(*padded(scores), height - 44, 22)
    body = axis_x(across, 22, height - 44, f"mean cost ({found['costs']['unit']})")
    body += axis_y(up, 44, width - LEGEND, "score %")
    for turn, curve in enumerate(curves):
        tone, name = f"c{turn % N_COLOURS}", policy_name(curve["policy"], router)
        places = [
            (across(c), up(100 * s)) for c, s in zip(curve["cost"], curve["score"], strict=True)
        ]
        for (x1, y1), (x2, y2) in pairwise(places):
            body.append(line(x1, y1, x2, y2, f"bar {tone}", name))
        y = 30 + 17 * turn
        body.append(line(width - LEGEND + 16, y - 4, width - LEGEND + 30, y - 4, f"bar {tone}"))
        body.append(text(width - LEGEND + 36, y, name, "label"))
    for turn, point in enumerate(points):
        name = policy_name(point["policy"], router)
        x, y = across(point["cost"]), up(100 * point["score"])
        tone = f"c{(len(curves) + turn) % N_COLOURS}"
        tip = f"{name}: {num(100 * point['score'], 1)} % at {point['cost']:.4g}"
        body.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="dot {tone}">'
            f"<title>{esc(tip)}</title></circle>"
        )
        y = 30 + 17 * (len(curves) + turn)
        body.append(
            f'<circle cx="{width - LEGEND + 23:.1f}" cy="{y - 4:.1f}" r="4" class="dot {tone}"/>'
        )
        body.append(text(width - LEGEND + 36, y, name, "label"))
    return svg(width, height, "Mean score against mean cost of every policy", body)

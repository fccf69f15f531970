"""Groups of concepts and the written interpretation, in the section What is tested."""

from __future__ import annotations

from typing import Any

import polars as pl

from thetascope.gaps.grouping_saved import SavedGroups
from thetascope.report.page import Cell, Row, fold, measured, number, table, word
from thetascope.report.text import esc, name, plural, q_value

N_LISTED = 10


def interpretation(found: dict[str, Any]) -> str:
    """Every sentence with the findings that it rests on; the findings are listed below."""
    said = "".join(
        f"<li>{esc(s['text'])} <small>{esc(', '.join(s['evidence']))}</small></li>"
        for s in found["sentences"]
    )
    by = "from the figures alone" if found["by"] == "findings" else f"by {name(found['by'])}"
    why = f" ({esc(found['why'])})" if found["why"] else ""
    return f"<h3>In words</h3>\n<p>Written {by}{why}.</p>\n<ul>{said}</ul>\n"


def groups(found: SavedGroups, focus: list[str]) -> str:
    """The groups with what covers them, and how the models in focus do on them."""
    figures = found.figures
    covered = found.coverage
    share = {
        (r["benchmark"], r["group"]): r["n_covered"] / r["n_concepts"] if r["n_concepts"] else None
        for r in covered.iter_rows(named=True)
        if r["n_covered"] is not None
    }
    rows = [
        Row([
            word(g["name"]), word("; ".join(g["labels"][:2])), number(g["size"]),
            *(number(share.get((b, g["group"])), 0, scale=100) for b in figures["benchmarks"]),
        ])
        for g in figures["groups"]
    ]  # fmt: skip
    html = (
        f"<h3>Groups of concepts</h3>\n<p>{plural(len(figures['groups']), 'group')} by"
        f" {esc(figures['by'])}, named by their commonest words or by a language model; flagged"
        " concepts stand apart. Which concepts fall together differs between runs: two seeds agree"
        f" at an adjusted Rand index of {figures['stability'] or 0:.2f}.</p>\n"
    )
    html += fold(
        "All groups, and the share of their concepts that each benchmark covers, %",
        table(["group", "labels of typical concepts", "concepts",
               *(name(b) for b in figures["benchmarks"])], rows, tall=True),
    )  # fmt: skip
    names = {g["group"]: g["name"] for g in figures["groups"]}
    scope = found.performance["scope"][0] if found.performance.height else None
    for model in focus:
        mine = found.performance.filter(pl.col("scope") == scope, pl.col("model") == model)
        if not mine.height:
            continue
        mine = mine.sort("shrunk")
        ends = pl.concat([mine.head(N_LISTED // 2), mine.tail(N_LISTED // 2)]).unique(
            "group", maintain_order=True
        )
        lines = [
            Row([
                word(names.get(r["group"], r["group"])),
                measured(r["score"], r["low"], r["high"], scale=100),
                number(r["effect"], 1, scale=100), number(r["shrunk"], 1, scale=100),
                Cell(q_value(r["q_low"]), r["q_low"]), Cell(q_value(r["q_high"]), r["q_high"]),
                number(r["n_active"]), number(r["n_eff"]),
            ])
            for r in ends.iter_rows(named=True)
        ]  # fmt: skip
        html += table(
            ["group", "score", "effect", "shrunk", "q weak", "q strong", "items", "n effective"],
            lines, f"{name(model)}: weakest and strongest groups, effects in points.",
        )  # fmt: skip
    return html

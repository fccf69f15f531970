"""Section Models: mean scores with intervals, model by benchmark."""

from __future__ import annotations

import numpy as np

from thetascope.evaluation.columns import Estimates
from thetascope.report import figures
from thetascope.report.gather import Material
from thetascope.report.page import Cell, Row, Section, measured, number, table, word
from thetascope.report.ranking import COMPLETE, Ranking
from thetascope.report.text import ABSENT, esc, names, plural

TOP = 25
PANELS = 4
"""Up to this many benchmarks get a panel of their own beside the mean."""


def render(material: Material, ranking: Ranking) -> Section:
    """Order, figure, table."""
    html = _order(material, ranking) + _figure(material, ranking) + _table(material, ranking)
    return Section("models", "Models", html)


def _order(material: Material, ranking: Ranking) -> str:
    core = [material.benchmarks[b] for b in ranking.core]
    others = [b for b in material.benchmarks if b not in core]
    n_ranked = int(ranking.ranked.sum())
    share = f"{COMPLETE * 100:.0f}&#8239;%"
    over = "score" if len(core) == 1 else "plain mean over the benchmarks"
    text = f"Ordered by the {over} {'on ' if len(core) == 1 else ''}{names(core, 20)}"
    text += f", of which {n_ranked:,} of {plural(len(material.models), 'model')} answered {share}"
    text += " of the items." if len(core) == 1 else " of the items of each."
    if others:
        text += (
            f" {names(others, 20)} {'is' if len(others) == 1 else 'are'} left out of the order:"
            " too few of these models ran it as well."
        )
    if n_ranked < len(material.models) and n_ranked >= 2:
        text += (
            " The other models stand below them without a rank (hollow dots), with the mean over"
            " what they did run of these; compare those within a column."
        )
    elif n_ranked < len(material.models):
        text += " Means rest on different items: compare within a column."
    return (
        f"<p>{text} Intervals: bootstrap over groups of near-duplicate items. An absent result is"
        " a dash, never 0.</p>\n"
    )


def _figure(material: Material, ranking: Ranking) -> str:
    top = [m for m in ranking.order if ranking.n_core[m]][:TOP]
    if not top:
        return ""
    several = len(material.benchmarks) > 1
    panels = several and len(material.benchmarks) <= PANELS
    first = "mean" if len(ranking.core) > 1 else material.benchmarks[ranking.core[0]]
    shown: list[tuple[str, Estimates]] = [(first, ranking.mean)]
    if panels:
        alone = ranking.core[0] if len(ranking.core) == 1 else -1
        pairs = zip(material.benchmarks, material.benchmark_scores, strict=True)
        shown += [pair for b, pair in enumerate(pairs) if b != alone]
    parts = []
    for k, (label, scores) in enumerate(shown):
        rows = [
            figures.Dot(
                material.models[m] if k == 0 else "",
                float(scores.value[m]),
                float(scores.low[m]),
                float(scores.high[m]),
                0 if k == 0 else 7,
                not bool(ranking.ranked[m]),
            )
            for m in top
        ]
        width, label_width = (158, 10) if k else (346, 178) if panels else (640, 260)
        parts.append(
            figures.dots(
                rows,
                figures.shorten(label, 34 if k == 0 else 18),
                f"Mean scores of models, {label}",
                width=width,
                label_width=label_width,
                unit=100,
            )
        )
    more = len(ranking.order) - len(top)
    rest = f" The other {plural(more, 'model')} are in the table below." if more > 0 else ""
    caption = f"Mean score x 100 with 95 % interval of the first {plural(len(top), 'model')}.{rest}"
    return (
        f'<figure><figcaption>{caption}</figcaption><div class="row keep">{"".join(parts)}</div>'
        "</figure>\n"
    )


def _table(material: Material, ranking: Ranking) -> str:
    several = len(ranking.core) > 1
    items = [int((material.benchmark == b).sum()) for b in range(len(material.benchmarks))]
    rows, rank = [], 0
    for m in ranking.order:
        ranked = bool(ranking.ranked[m])
        rank += ranked
        line = [
            word(material.models[m], "l name"),
            Cell(str(rank) if ranked else ABSENT, rank if ranked else float("nan")),
        ]
        if several:
            part = "" if ranked else f" · {ranking.n_core[m]} of {len(ranking.core)}"
            line.append(_value(ranking.mean, m, part))
        for b, scores in enumerate(material.benchmark_scores):
            n = int(scores.n[m])
            line.append(_value(scores, m, f" · n&#8239;{n:,}" if n != items[b] else ""))
        line.append(number(int(material.observed[:, m].sum())))
        rows.append(Row(line))
    head = ["model", "rank"]
    head += [f"mean<small>over {plural(len(ranking.core), 'benchmark')}</small>"] if several else []
    head += [
        f"{esc(b)}<small>n {n:,}</small>" for b, n in zip(material.benchmarks, items, strict=True)
    ]
    head.append("responses")
    more = ""
    if len(rows) > TOP:
        scrolls = '<span class="screen">: the table scrolls</span>'
        more = f" {plural(len(rows), 'model')}{scrolls}."
    caption = (
        "Mean score x 100 over its 95&#8239;% interval. n (items) is that of the column's head"
        f" where the cell gives none; 'k of B': the mean is over k of the B benchmarks.{more}"
    )
    return table(head, rows, caption, tall=len(rows) > TOP)


def _value(scores: Estimates, m: int, below: str) -> Cell:
    if not np.isfinite(scores.value[m]):
        return measured(None, None, None)
    return measured(
        float(scores.value[m]), float(scores.low[m]), float(scores.high[m]), scale=100, below=below
    )

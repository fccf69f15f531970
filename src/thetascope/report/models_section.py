"""Section Models: mean scores with intervals, model by benchmark."""

from __future__ import annotations

import numpy as np

from thetascope.report import figures
from thetascope.report.gather import Material
from thetascope.report.numbers import Estimates
from thetascope.report.page import Cell, Row, Section, measured, number, table, word
from thetascope.report.ranking import COMPLETE, Ranking
from thetascope.report.text import ABSENT, esc, names, plural

TOP = 25
PANELS = 4
"""Up to this many benchmarks get a panel of their own beside the mean."""


def render(material: Material, ranking: Ranking) -> Section:
    """Order, figure, table."""
    several = len(material.benchmarks) > 1
    if not several:
        over = f"Ordered by the mean score on {names(material.benchmarks)}."
    else:
        over = f"Ordered by the plain mean over the benchmarks {names(material.benchmarks, 20)}."
    incomplete = int((~ranking.complete).sum())
    share = f"{COMPLETE * 100:.0f}&#8239;%"
    if incomplete and ranking.comparable:
        over += (
            f" {plural(incomplete, 'model')} did not answer {share} of the items of every benchmark:"
            " they stand below the others, without a rank, with the mean over what they ran"
            " (hollow dots)."
        )
    elif incomplete:
        over += (
            f" Hardly any model answered {share} of the items of every benchmark, so means rest on"
            " different items: compare within a column."
        )
    html = (
        f"<p>{over} Intervals: bootstrap over groups of near-duplicate items. An absent result is"
        " a dash, never 0.</p>\n"
    )
    return Section(
        "models", "Models", html + _figure(material, ranking) + _table(material, ranking)
    )


def _figure(material: Material, ranking: Ranking) -> str:
    top = [m for m in ranking.order if ranking.n_run[m]][:TOP]
    if not top:
        return ""
    several = len(material.benchmarks) > 1
    panels = several and len(material.benchmarks) <= PANELS
    shown: list[tuple[str, Estimates]] = [
        ("mean over benchmarks" if several else material.benchmarks[0], ranking.mean)
    ]
    if panels:
        shown += list(zip(material.benchmarks, material.benchmark_scores, strict=True))
    parts = []
    for k, (label, scores) in enumerate(shown):
        rows = [
            figures.Dot(
                material.models[m] if k == 0 else "",
                float(scores.value[m]),
                float(scores.low[m]),
                float(scores.high[m]),
                0 if k == 0 else 7,
                bool(several and not ranking.complete[m]),
            )
            for m in top
        ]
        wide = (352 if panels else 620) if k == 0 else 158
        parts.append(
            figures.dots(
                rows, figures.shorten(label, 34 if k == 0 else 20),
                f"Mean scores of models, {label}",
                width=wide, label_width=(168 if panels else 250) if k == 0 else 10, unit=100,
            )
        )  # fmt: skip
    more = len(ranking.order) - len(top)
    rest = f" The other {plural(more, 'model')} are in the table below." if more > 0 else ""
    caption = f"Mean score x 100 with 95 % interval of the first {plural(len(top), 'model')}.{rest}"
    return (
        f'<figure><figcaption>{caption}</figcaption><div class="row keep">{"".join(parts)}</div>'
        "</figure>\n"
    )


def _table(material: Material, ranking: Ranking) -> str:
    several = len(material.benchmarks) > 1
    items = [int((material.benchmark == b).sum()) for b in range(len(material.benchmarks))]
    rows, rank = [], 0
    for m in ranking.order:
        ranked = bool(ranking.n_run[m]) and (ranking.complete[m] or not ranking.comparable)
        rank += ranked
        line = [
            word(material.models[m], "l name"),
            Cell(str(rank) if ranked else ABSENT, rank if ranked else float("nan")),
        ]
        if several:
            mean, part = ranking.mean, ""
            if not ranking.complete[m]:
                part = f" · {ranking.n_run[m]} of {len(items)}"
            line.append(_value(mean, m, part))
        for b, scores in enumerate(material.benchmark_scores):
            n = int(scores.n[m])
            line.append(_value(scores, m, f" · n&#8239;{n:,}" if n != items[b] else ""))
        line.append(number(int(material.observed[:, m].sum())))
        rows.append(Row(line))
    head = ["model", "rank"]
    head += ["mean<small>over benchmarks</small>"] if several else []
    head += [
        f"{esc(b)}<small>n {n:,}</small>" for b, n in zip(material.benchmarks, items, strict=True)
    ]
    head.append("responses")
    caption = (
        "Mean score x 100 over its 95&#8239;% interval. n is that of the column's head where the"
        " cell gives none; 'k of B' counts the benchmarks that a mean is over."
    )
    html = table(head, rows, caption)
    return html.replace('class="box"', 'class="box tall"', 1) if len(rows) > TOP else html


def _value(scores: Estimates, m: int, below: str) -> Cell:
    if not np.isfinite(scores.value[m]):
        return measured(None, None, None)
    return measured(
        float(scores.value[m]), float(scores.low[m]), float(scores.high[m]), scale=100, below=below
    )

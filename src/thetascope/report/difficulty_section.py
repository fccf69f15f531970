"""Section Difficulty: what the text says beforehand about how hard an item is."""

from __future__ import annotations

import numpy as np

from thetascope.evaluation.columns import Estimates
from thetascope.report import figures
from thetascope.report.difficulty import Difficulty
from thetascope.report.gather import Material
from thetascope.report.page import Cell, Row, Section, absent, figure, key, measured, number, table
from thetascope.report.tested import Tested
from thetascope.report.text import esc, plural

TITLE = "Difficulty"
MOST_POINTS = 4000
_NAMES = {"r": "norm r of the fit", "r_minus": "r − u·m̄ of the fit"}


def render(material: Material, cells: Tested | None, found: Difficulty | None) -> Section:
    """Rank correlations and scatter."""
    if cells is None:
        lack = material.missing["comparison"]
        what = (
            f"{lack.why} Predicted difficulty is set against the observed error of items whose"
            " responses the predictor had not seen."
        )
        return Section("difficulty", TITLE, absent(what, lack.command))
    if found is None:
        why = "No predictor that reads texts is in the comparison, or too few items were tested."
        if "vectors" in material.missing:
            lack = material.missing["vectors"]
            return Section("difficulty", TITLE, absent(f"{why} {lack.why}", lack.command))
        return Section("difficulty", TITLE, f'<p class="absent">{why}</p>\n')
    unseen = (
        "none of whose responses the predictor had seen"
        if cells.cold
        else "<b>some of whose other responses the predictor had seen</b> (split"
        f" {esc(cells.table['split'])}; for unseen items run: thetascope compare)"
    )
    html = (
        f"<p>Predicted difficulty is 1 minus the mean predicted probability over an item's models;"
        f" observed error is 1 minus their mean score. Both leave out what each model does on the"
        f" benchmark beyond its models' mean, so it does not matter who happened to answer."
        f" {plural(len(found.item), 'item')}, {unseen}.</p>\n"
        + _table(found)
        + _scatter(material, found)
    )
    return Section("difficulty", TITLE, html)


def _table(found: Difficulty) -> str:
    rows, kind = [], found.ranks.kind
    for k, name in enumerate(found.ranks.names):
        from_fit = k >= len(found.ranks.names) - found.n_from_fit
        label = _NAMES.get(name, name)
        told = "<small>has seen most of these items' responses: no test</small>" if from_fit else ""
        line = [Cell(f"{esc(label)}{told}", css="l"), _cell(found.ranks.overall, k)]
        line.append(
            measured(None, None, None)
            if found.ranks.within is None
            else _cell(found.ranks.within, k)
        )
        line += [_cell(part, k) for part in found.ranks.parts.values()]
        line.append(number(len(found.item)))
        rows.append(Row(line, "part" if from_fit else ""))
    head = ["predicted by", "all items", f"within {found.ranks.kind}<small>mean over them</small>"]
    head += [
        f"{esc(p)}<small>n {int(e.n[0]):,} in {found.ranks.n_groups[p]:,} groups</small>"
        for p, e in found.ranks.parts.items()
    ]
    head.append("n<small>items</small>")
    caption = (
        "Spearman rank correlation of predicted difficulty with observed error, 95&#8239;% interval"
        f" over groups of items. Over all items it also rewards knowing which {kind} is hard;"
        f" within a {kind} only the item itself counts."
    )
    return table(head, rows, caption, sort=False)


def _cell(part: Estimates, k: int) -> Cell:
    return measured(float(part.value[k]), float(part.low[k]), float(part.high[k]), 2)


def _scatter(material: Material, found: Difficulty) -> str:
    n = len(found.item)
    step = -(-n // MOST_POINTS)
    shown = np.arange(0, n, step)
    codes = material.benchmark[found.item]
    own = found.ranks.names[: len(found.ranks.names) - found.n_from_fit]
    chosen = own[:1] + [n for n in own[1:] if n.startswith("knn")][-1:]
    parts = []
    for name in chosen:
        k = found.ranks.names.index(name)
        svg = figures.scatter(
            found.ranks.predicted[shown, k], found.ranks.observed[shown], _tones(codes)[shown],
            f"difficulty predicted by {name}", "observed error",
            f"Observed error against the difficulty that {name} predicted", width=400, height=360,
        )  # fmt: skip
        parts.append(figure(svg))
    tones = dict(zip(codes.tolist(), _tones(codes).tolist(), strict=True))
    most = np.bincount(codes).argsort(kind="stable")[::-1].tolist()
    entries = [(tones[b], material.benchmarks[b]) for b in most if b in tones and tones[b] < 7]
    if len(tones) > 7:
        entries.append((7, "other benchmarks"))
    legend = key(entries) if len(material.benchmarks) > 1 else ""
    sampled = (
        f" {len(shown):,} of {n:,} items are drawn (one in {step}); the correlations use all."
        if step > 1
        else f" All {n:,} items are drawn."
    )
    note = (
        '<p class="note">One dot an item; on the dashed line prediction and outcome agree.'
        f"{sampled}</p>\n"
    )
    return f'{legend}<div class="row">{"".join(parts)}</div>{note}'


def _tones(codes: np.ndarray) -> np.ndarray:
    """Colour of each item: the seven largest benchmarks apart, the rest grey."""
    sizes = np.bincount(codes)
    tone = np.full(len(sizes), 7)
    for rank, b in enumerate(sizes.argsort(kind="stable")[::-1][:7].tolist()):
        tone[b] = rank
    return tone[codes]

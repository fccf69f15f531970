"""Section Who gets what right: the comparison of predictors on unseen data."""

from __future__ import annotations

from typing import Any

from thetascope.evaluation.metrics import entropy
from thetascope.report import figures, wording
from thetascope.report.gather import Material
from thetascope.report.page import (
    Cell,
    Row,
    Section,
    absent,
    figure,
    fold,
    measured,
    number,
    table,
)
from thetascope.report.tested import VARIANTS, Tested, verdict
from thetascope.report.text import esc, num, plural

TITLE = "Who gets what right"
SHOWN = (
    ("log_loss", "log-loss", 3, 1.0),
    ("accuracy", "accuracy", 1, 100.0),
    ("auc", "AUC", 3, 1.0),
    ("auc_within_model", "AUC within model", 3, 1.0),
    ("ece", "ECE", 3, 1.0),
)
WIDE = 8
"""From this many parts on the tables by part are folded."""


def render(material: Material, cells: Tested | None) -> Section:
    """Table, figures, parts, choices."""
    if cells is None:
        lack = material.missing["comparison"]
        what = (
            f"{lack.why} A comparison sets JE-IRT beside nearest neighbours and plain means on"
            " items that none of them has seen, with intervals and paired differences."
        )
        return Section("predictors", TITLE, absent(what, lack.command))
    html = (
        _setting(material, cells)
        + _pooled(cells, material.graded)
        + _figures(cells)
        + _differences(cells)
        + _by_part(material, cells)
        + _choices(cells)
    )
    return Section("predictors", TITLE, html)


def _setting(material: Material, cells: Tested) -> str:
    t = cells.table
    encoder = f"text vectors <b>{esc(t['encoder'])}</b>" if t["encoder"] else "no text vectors"
    groups = t["groups"]
    cosine = "" if groups["cosine"] is None else f", cosine ≥ {groups['cosine']:g}"
    text = (
        f"<p>Split: {esc(wording.SPLITS.get(t['split'], t['split']))}."
        f" {plural(t['seeds'], 'split')} (split seed {t['split_seed']}), together"
        f" {plural(cells.n_items, 'item')} and {plural(len(cells.score), 'response')}, each"
        f" predicted once; {encoder}; {groups['n_groups']:,} groups of near-duplicates"
        f"{cosine}, never cut by a split. Choices were made on validation items, never on the"
        " tested ones."
    )
    if t.get("n_items_left_out"):
        text += f" {t['n_items_left_out']:,} near-duplicates of tested items were left out."
    text += (
        f" Differences are to <b>{esc(t['reference'])}</b>.</p>\n" if t["reference"] else "</p>\n"
    )
    if material.graded:
        text += (
            f"<p>Scores are graded: no predictor can have a log-loss below the mean entropy of the"
            f' scores, <b class="n">{num(t["score_entropy"], 3)}</b>; the reducible log-loss is'
            " what lies above it. Accuracy compares the sides of 50&#8239;% and leaves out"
            f" {plural(t['n_responses_of_one_half'], 'response')} of exactly one half; AUC counts"
            " each response as right with the weight of its score.</p>\n"
        )
    return text


def _estimate(row: dict[str, Any], metric: str, digits: int, scale: float) -> Cell:
    return measured(
        row.get(metric), row.get(f"{metric}_low"), row.get(f"{metric}_high"), digits, scale=scale
    )


def _difference(row: dict[str, Any], metric: str, digits: int, scale: float) -> Cell:
    d = row.get("difference", {})
    return measured(
        d.get(metric), d.get(f"{metric}_low"), d.get(f"{metric}_high"), digits,
        scale=scale, sign=True, mark=True,
    )  # fmt: skip


def _who(predictor: str) -> Cell:
    meaning = wording.PREDICTORS.get(predictor, "")
    return Cell(f"{esc(predictor)}<small>{esc(meaning)}</small>", css="l")


def _pooled(cells: Tested, graded: bool) -> str:
    spread = cells.table["seed_spread"]
    rows = []
    for predictor, row in _sorted(cells.rows()):
        line = [_who(predictor)]
        for metric, _, digits, scale in SHOWN:
            line.append(_estimate(row, metric, digits, scale))
            if graded and metric == "log_loss":
                floor = cells.table["score_entropy"]
                low, high = row.get("log_loss_low"), row.get("log_loss_high")
                line.append(
                    measured(
                        row["log_loss"] - floor,
                        None if low is None else low - floor,
                        None if high is None else high - floor,
                        3,
                    )
                )
                line.append(_estimate(row, "absolute_error", 3, 1.0))
        seen = spread.get(predictor, {}).get("log_loss")
        line.append(Cell("" if seen is None else f"{num(seen[0], 3)} to {num(seen[1], 3)}"))
        line.append(number(row["n_responses"]))
        css = "ref" if predictor == cells.table["reference"] else ""
        rows.append(Row(line, css))
    head = ["predictor"]
    for metric, label, _, _ in SHOWN:
        better = "lower is better" if metric in ("log_loss", "ece") else "higher is better"
        head.append(f"{label}<small>{better}</small>")
        if graded and metric == "log_loss":
            head += ["reducible log-loss<small>above the floor</small>",
                     "absolute error<small>lower is better</small>"]  # fmt: skip
    head += ["splits<small>log-loss, least to greatest</small>", "n<small>responses</small>"]
    caption = (
        f"All {plural(cells.n_items, 'tested item')} together, best log-loss first; 95&#8239;%"
        " intervals over groups of items. The spread over splits is not an interval."
    )
    return table(head, rows, caption)


def _figures(cells: Tested) -> str:
    parts = []
    shown = (("log_loss", "log-loss, lower is better", 3, 1.0),
             ("accuracy", "accuracy, %, higher is better", 1, 100.0))  # fmt: skip
    for metric, label, digits, unit in shown:
        rows = [
            figures.Dot(
                predictor, row[metric], row.get(f"{metric}_low"), row.get(f"{metric}_high"),
                0 if predictor in VARIANTS else 7,
            )
            for predictor, row in _sorted(cells.rows())
        ]  # fmt: skip
        svg = figures.dots(
            rows, label, f"{label} by predictor", width=350, digits=digits, unit=unit
        )
        parts.append(figure(svg))
    caption = (
        '<p class="note">JE-IRT and the blend in colour, rivals in grey; n'
        f" {len(cells.score):,} responses. Intervals of single predictors overlap even where the"
        " paired difference is sure: read the next table for who is better.</p>\n"
    )
    return f'<div class="row">{"".join(parts)}</div>{caption}'


def _sorted(rows: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(rows.items(), key=lambda r: r[1]["log_loss"])


def _differences(cells: Tested) -> str:
    reference = cells.table["reference"]
    if reference is None:
        return ""
    rows = []
    for predictor, row in _sorted(cells.rows()):
        if predictor == reference:
            continue
        d = row["difference"]
        line = [Cell(esc(predictor), css="l")]
        line += [_difference(row, metric, digits, scale) for metric, _, digits, scale in SHOWN]
        triple = tuple(
            float("nan") if d.get(f"log_loss{end}") is None else d[f"log_loss{end}"]
            for end in ("", "_low", "_high")
        )
        line.append(Cell(esc(verdict((triple[0], triple[1], triple[2]), "log_loss")), css="l"))
        line.append(number(row["n_responses"]))
        rows.append(Row(line))
    if not rows:
        return ""
    head = ["predictor", *(label for _, label, _, _ in SHOWN)]
    head += ["by log-loss", "n<small>responses</small>"]
    caption = (
        f"Paired difference to <b>{esc(reference)}</b> (predictor minus {esc(reference)}; accuracy"
        " in points) on the same responses. Bold: the interval leaves out 0."
    )
    return table(head, rows, caption)


def _by_part(material: Material, cells: Tested) -> str:
    kind, parts = cells.parts()
    if not parts:
        return ""
    reference = cells.table["reference"]
    html = ""
    rows = {shown: cells.rows(b, s) for shown, b, s in parts}
    heads = []
    for shown, _, _ in parts:
        any_row = next(iter(rows[shown].values()))
        heads.append(f"{esc(shown)}<small>n {any_row['n_responses']:,}</small>")
    order = [predictor for predictor, _ in _sorted(cells.rows())]
    views = [("log_loss", "Log-loss", 3, 1.0, False), ("accuracy", "Accuracy", 1, 100.0, False)]
    if reference is not None:
        views.append(("log_loss", f"Log-loss minus that of {esc(reference)}", 3, 1.0, True))
    for metric, label, digits, scale, paired in views:
        lines = []
        for predictor in order:
            if paired and predictor == reference:
                continue
            line = [Cell(esc(predictor), css="l")]
            for shown, _, _ in parts:
                row = rows[shown].get(predictor, {})
                make = _difference if paired else _estimate
                line.append(make(row, metric, digits, scale))
            lines.append(Row(line, "ref" if predictor == reference else ""))
        bold = " Bold: the interval leaves out 0." if paired else ""
        html += table(["predictor", *heads], lines, f"{label} by {kind}.{bold} n: responses.")
    html = f'<div class="row">{html}</div>'
    if material.graded:
        html += _floors(material, cells)
    if len(parts) >= WIDE:
        return fold(f"By {kind}: log-loss, paired differences, accuracy ({len(parts)})", html)
    return f"<h3>By {kind}</h3>{html}"


def _floors(material: Material, cells: Tested) -> str:
    floor = entropy(cells.score)
    told = [
        f"{esc(b)} {num(float(floor[cells.benchmark == k].mean()), 3)}"
        for k, b in enumerate(material.benchmarks)
        if (cells.benchmark == k).any()
    ]
    return f'<p class="note">Floor of the log-loss (mean entropy of scores): {", ".join(told)}.</p>'


def _choices(cells: Tested) -> str:
    rows = []
    for predictor, splits in sorted(cells.table["choices"].items()):
        chosen: dict[str, list[str]] = {}
        for choices in splits.values():
            for setting, value in choices.items():
                shown = f"{value:.4g}" if isinstance(value, float) else str(value)
                chosen.setdefault(setting, []).append(shown)
        if chosen:
            told = "; ".join(f"{esc(k)} {esc(', '.join(v))}" for k, v in sorted(chosen.items()))
            rows.append(Row([Cell(esc(predictor), css="l"), Cell(told, css="l prose")]))
    html = table(["predictor", "chosen on validation data, split by split"], rows, sort=False)
    html = fold("What was chosen on validation data", html) if rows else ""
    skipped = cells.table["skipped"]
    if skipped:
        told = "; ".join(f"{esc(k)}: {esc(v)}" for k, v in sorted(skipped.items()))
        html += f'<p class="note"><b>Not run.</b> {told}.</p>\n'
    return html

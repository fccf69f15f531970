"""Section Items: the hardest, the easiest and the suspect ones."""

from __future__ import annotations

import numpy as np
import polars as pl

from thetascope.predictors.knn import unit_rows
from thetascope.report.gather import Material
from thetascope.report.page import Cell, Row, Section, number, table, word
from thetascope.report.text import esc, name, num, plural, q_value, shorten
from thetascope.study.doctor import SUSPECT_Q
from thetascope.study.itemstats import MIN_MODELS

N_SHOWN = 15
TEXT_LENGTH = 160
N_NEAR = 3


def render(material: Material) -> Section:
    """Three tables."""
    items = material.items.with_row_index("row").with_columns((1 - pl.col("mean")).alias("error"))
    enough = pl.max_horizontal(pl.lit(2), pl.col("n_models").max().over("benchmark") / 2)
    asked = items.filter(pl.col("n_models") >= enough) if len(material.models) > 1 else items
    asked = asked.filter(pl.col("n_models") > 0)
    order = ["error", "n_models", "item_id"]
    right = asked.filter(pl.col("constant") & (pl.col("mean") == 1)).height
    hardest = asked.sort(order, descending=[True, True, False]).head(N_SHOWN)
    easiest = asked.filter(pl.col("mean") < 1).sort(order, descending=[False, True, False])
    tested = items.filter(pl.col("item_rest").is_not_null())
    negative = tested.filter(pl.col("item_rest") < 0).sort("item_rest", "item_id")
    sure = negative.filter(pl.col("q_negative") < SUSPECT_Q)
    html = _intro(material)
    html += "<h3>Suspect items</h3>\n"
    if not tested.height:
        html += f"<p>No item was answered by the {MIN_MODELS} models that the check needs.</p>\n"
    elif not negative.height:
        html += f"<p>None of {tested.height:,} tested items has a negative correlation.</p>\n"
    else:
        html += (
            f"<p>{plural(negative.height, 'item')} of {tested.height:,} tested have a negative"
            f" item-rest correlation: better models fail them more often. <b>{sure.height:,}</b>"
            f" of them beyond chance (q &lt; {SUSPECT_Q:g}). A wrong key, an ambiguous question or"
            " a trap; read the surest first.</p>\n"
        )
        html += _table(material, negative.head(N_SHOWN), "Lowest item-rest correlation first.")
    html += "<h3>Hardest items</h3>\n" + _table(
        material, hardest, "Greatest error first. An item that all models fail can be a wrong key."
    )
    html += "<h3>Easiest items that some model fails</h3>\n"
    verb = "is" if right == 1 else "are"
    if right:
        html += f"<p>{plural(right, 'item')} more {verb} right for all models.</p>\n"
    html += _table(material, easiest.head(N_SHOWN), "Smallest error first.")
    return Section("items", "Items", html)


def _intro(material: Material) -> str:
    text = (
        "Error is 1 minus the mean score over the n models that answered; an item's difficulty is"
        " known no better than n allows. Hardest and easiest are among items that at least half of"
        " the most frequent number of a benchmark's models answered."
    )
    if not material.has_texts:
        text += " The study has no texts."
    if material.vectors is None:
        lack = material.missing["vectors"]
        text += (
            " Nearest neighbours need text vectors: make them with"
            f" <code>{esc(lack.command)}</code>."
        )
    return f"<p>{text}</p>\n"


def _table(material: Material, chosen: pl.DataFrame, caption: str) -> str:
    if not chosen.height:
        return "<p>There are none.</p>\n"
    near = _neighbours(material, chosen["row"].to_numpy().astype(np.int64))
    ids = material.matrix.item_ids
    rows = []
    for row, close in zip(chosen.iter_rows(named=True), near, strict=True):
        under = f"<small>{name(row['subject'])}</small>" if row["subject"] else ""
        line = [
            word(row["item_id"].removeprefix(f"{row['benchmark']}:"), "l id"),
            Cell(name(row["benchmark"]) + under, css="l"),
        ]
        line += [
            number(row["n_models"]),
            number(row["error"], 1, scale=100),
            Cell(num(row["item_rest"], 2, sign=True), _value(row["item_rest"])),
            Cell(q_value(row["q_negative"]), _value(row["q_negative"])),
        ]
        if material.has_texts:
            text = esc(shorten(row["text"] or "", TEXT_LENGTH))
            line.append(Cell(f'<span dir="auto">{text}</span>', css="l wide"))
        if material.vectors is not None:
            near_ids = [ids[i].removeprefix(f"{row['benchmark']}:") for i in close]
            shown = "".join(
                f'<bdi class="cut" title="{esc(ids[i])}">{esc(short)}</bdi>'
                for i, short in zip(close, near_ids, strict=True)
            )
            line.append(Cell(shown, css="l near"))
        rows.append(Row(line))
    head = ["item", "benchmark<small>subject</small>"]
    head += ["n<small>models</small>", "error<small>%</small>", "item-rest r", "q"]
    head += [f"text<small>first {TEXT_LENGTH} characters</small>"] if material.has_texts else []
    head += ["nearest by text"] if material.vectors is not None else []
    return table(head, rows, caption)


def _value(value: float | None) -> float:
    return float("nan") if value is None else value


def _neighbours(material: Material, rows: np.ndarray) -> list[list[int]]:
    """Up to three nearest items by cosine of text vectors, none for an item without one."""
    if material.vectors is None:
        return [[] for _ in rows]
    unit = unit_rows(material.vectors.vectors)
    cosine = unit[rows] @ unit.T
    cosine[:, ~material.vectors.has] = -np.inf
    cosine[np.arange(len(rows)), rows] = -np.inf
    out: list[list[int]] = []
    for k, row in enumerate(rows.tolist()):
        order = np.argsort(-cosine[k], kind="stable")[:N_NEAR]
        known = material.vectors.has[row]
        out.append([int(i) for i in order if known and np.isfinite(cosine[k, i])])
    return out

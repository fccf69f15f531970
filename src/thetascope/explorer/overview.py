"""What to look at first, one sentence a finding, each with the page that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import numpy as np
import polars as pl

from thetascope.concepts.store import Concepts
from thetascope.explorer.models import benchmark_cells, cell
from thetascope.explorer.sources import Sources
from thetascope.explorer.tables import significant
from thetascope.gaps.performance import LEVEL
from thetascope.report.ranking import two_strongest
from thetascope.report.text import plural
from thetascope.study.doctor import Finding

N_EACH = 3
"""Findings of a kind."""
SUSPECT = 0.05
"""q below which an item is called mislabelled on the overview."""

_TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

First = dict[str, str | None]


def overview_json(sources: Sources) -> dict[str, Any]:
    """The object of `overview.json`."""
    ranking = sources.ranking
    cells = benchmark_cells(sources)
    models = []
    for m in ranking.order:
        mean = cell(ranking.mean, m)
        value = mean or [None, None, None, 0]
        models.append(
            dict(zip(("model", "mean", "low", "high", "n"), [m, *value], strict=True))
            | {"ranked": bool(ranking.ranked[m]), "benchmarks": cells[m]}
        )
    first = [*_gaps(sources), *_missing(sources), *_items(sources), *_pairs(sources),
             *_tie(sources), *_limits(sources)]  # fmt: skip
    return {
        "models": models, "core": ranking.core, "first": first, "focus": _focus(sources),
        "findings": [_finding(f) for f in sources.material.findings],
    }  # fmt: skip


def address(page: str, **state: Any) -> str:
    """A page's hash address with its state."""
    return f"#/{page}?{urlencode({k: v for k, v in state.items() if v is not None})}"


def alone(name: str) -> str:
    """A name inside of a sentence: one that turns the direction of writing turns itself alone."""
    if not _TURNS.search(name):
        return name
    open_, unopened = 0, 0
    for c in name:
        if c in "\u2066\u2067\u2068":
            open_ += 1
        elif c == "\u2069" and open_:
            open_ -= 1
        elif c == "\u2069":
            unopened += 1
    return "\u2068" * (1 + unopened) + name + "\u2069" * (1 + open_)


def _first(kind: str, text: str, link: str | None) -> First:
    return {"kind": kind, "text": text, "link": link}


def _finding(found: Finding) -> dict[str, Any]:
    return {"check": found.check, "level": found.level, "text": found.summary, "n": found.n,
            "total": found.total, "fix": found.meaning, "examples": found.examples}  # fmt: skip


def _focus(sources: Sources) -> list[str]:
    """The models that the kept gaps look at the closest."""
    kept = sources.kept
    named = [] if kept is None else kept.saved.figures["focus"]
    return [m for m in named if m in sources.model_code]


def _gaps(sources: Sources) -> Iterator[First]:
    """The surest gaps of the models in focus, those that are theirs alone first.

    Where they have none, those of any model.
    """
    kept, held = sources.kept, sources.concepts
    if kept is None or held is None:
        return
    saved = kept.saved
    known = _focus(sources)
    weak = [_plain(saved.list(m), held).head(2) for m in known]
    if not any(w.height for w in weak):
        low = pl.col("q_low").fill_nan(None) < LEVEL
        weak = [_plain(saved.performance(saved.scopes[0]).filter(low), held).head(N_EACH)]
    for row in pl.concat(weak, how="diagonal").iter_rows(named=True):
        c, model = row["concept"], row["model"]
        text = (
            f"{alone(model)} is weak on {alone(held.labels[c])}: {_points(row['effect'])} points"
            f" against the rest of the same benchmarks (q {_q(row['q_low'])},"
            f" {row['n_active']:,} items)"
        )
        if row["own"]:
            text += (
                f", and {_points(row['adjusted'])} once what the other models score there is"
                f" taken off (q {_q(row['q_adjusted_low'])})"
            )
        elif row["adjusted"] is not None:
            text += "; other models are weak there too, or it is too small to tell"
        link = address("concepts", mode="model", model=sources.model_code[model], concept=c)
        yield _first("gap", f"{text}.", link)


def _plain(weak: pl.DataFrame, held: Concepts) -> pl.DataFrame:
    """Weak concepts without a flag: a model's own first, then by shrunk effect."""
    flags = held.flags
    plain = pl.Series([not flags[c] for c in weak["concept"].to_list()], dtype=pl.Boolean)
    own = pl.col("q_adjusted_low").fill_null(1.0).fill_nan(1.0) < LEVEL
    return weak.filter(plain).with_columns(own=own).sort(
        "own", "shrunk", descending=[True, False], maintain_order=True
    )  # fmt: skip


def _missing(sources: Sources) -> Iterator[First]:
    """Benchmarks that leave out the most, and the concepts that none of them touches."""
    kept = sources.kept
    if kept is None:
        return
    c = kept.saved.figures["coverage"]
    if c["n_missing"] is None:
        return
    whole = max(1, c["n_concepts"])
    n = c["n_missing_from_all"]
    if len(c["benchmarks"]) > 1 and n:
        yield _first(
            "missing",
            f"{n:,} of {c['n_concepts']:,} concepts ({100 * n / whole:.0f} %) reach the threshold"
            f" in none of the {len(c['benchmarks'])} benchmarks: missing from all.",
            address("concepts", mode="benchmark"),
        )
    rows = sorted(zip(c["n_missing"], c["benchmarks"], c["n_items"], strict=True), reverse=True)
    for n, benchmark, size in rows[:1]:
        if n:
            yield _first(
                "missing",
                f"No item of {alone(benchmark)} ({size:,} items) brings {n:,} of"
                f" {c['n_concepts']:,} concepts to the threshold ({100 * n / whole:.0f} %).",
                address("concepts", mode="benchmark", benchmark=sources.benchmark_code[benchmark]),
            )


def _items(sources: Sources) -> Iterator[First]:
    """Items that better models fail beyond chance."""
    items = sources.material.items.with_row_index("row")
    sure = items.filter((pl.col("item_rest") < 0) & (pl.col("q_negative") < SUSPECT))
    sure = sure.sort("q_negative", "item_rest", "row")
    for row in sure.head(N_EACH).iter_rows(named=True):
        yield _first(
            "item",
            f"{alone(row['item_id'])} is failed by the better models: correlation with the rest"
            f" of its benchmark {row['item_rest']:+.2f} over {row['n_models']:,} models"
            f" (q {_q(row['q_negative'])}). The key may be wrong, or the question ambiguous.",
            address("items", item=row["row"]),
        )
    if sure.height > N_EACH:
        yield _first(
            "item",
            f"{sure.height:,} items in all are failed by the better models beyond chance"
            f" (q < {SUSPECT:g}).",
            address("items", show="mislabelled"),
        )


def _pairs(sources: Sources) -> Iterator[First]:
    """The most redundant pairs of models, where the map of models was kept."""
    found = sources.material.spaces.get("models")
    code = sources.model_code
    pairs = [] if found is None else [p for p in found["pairs"] if p["redundant"]]
    for pair in pairs[:2]:
        if pair["first"] in code and pair["second"] in code:
            kappa, low, high = pair["kappa"]
            yield _first(
                "pair",
                f"{alone(pair['first'])} and {alone(pair['second'])} answer as one model served"
                f" twice does: error consistency {kappa:.2f} [{low:.2f}, {high:.2f}] on"
                f" {pair['n']:,} items.",
                address("models", a=code[pair["first"]], b=code[pair["second"]]),
            )


def _tie(sources: Sources) -> Iterator[First]:
    """The two strongest models: ahead beyond noise, or a tie."""
    study = sources.study  # without subjects, which are not told: their tests take the longest
    plain = replace(study, items=study.items.drop("subject", strict=False))
    pair = two_strongest(replace(sources.material, study=plain), sources.ranking)
    if pair is None:
        return
    first, second, changes = pair
    whole = changes[0]
    d = whole.difference
    if not np.isfinite(d.low) or d.low == d.high:  # too few items to resample
        return
    a, b = alone(sources.models[first]), alone(sources.models[second])
    if whole.verdict == "no clear change":
        said = "a tie within noise"
    else:
        said = f"{a if d.value > 0 else b} is ahead beyond noise"
    parts = [c for c in changes[1:] if c.subject == "all" and c.verdict != "no clear change"]
    text = (
        f"The two strongest models, {a} and {b}: {100 * whole.after:.1f} and"
        f" {100 * whole.before:.1f} % of the {whole.n_items:,} items that both answered, each item"
        " counted alike; difference"
        f" {100 * d.value:+.1f} [{100 * d.low:+.1f}, {100 * d.high:+.1f}] points"
        f" (p {_q(whole.p)}): {said}."
    )
    if parts:
        named = ", ".join(
            f"{alone(c.benchmark)} {100 * c.difference.value:+.1f}" for c in parts[:3]
        )
        text += f" They part beyond noise on {named} points."
    yield _first("tie", text, address("models", a=first, b=second))


def _limits(sources: Sources) -> Iterator[First]:
    """One line on what the data cannot tell."""
    material = sources.material
    told = []
    if len(material.models) < 20:
        told.append(
            f"{plural(len(material.models), 'model')} alone: what is said of an item is rough"
        )
    if material.study.responses.height == int(material.observed.sum()):
        told.append("one run a pair: no interval covers a model's own run-to-run noise")
    n = int((~sources.ranking.complete).sum())
    if n:
        told.append(f"{n:,} of {len(material.models):,} models did not run everything")
    told.append("whether items leaked into training is not visible in answers")
    text = "; ".join(told)
    yield _first("limit", f"{text[0].upper()}{text[1:]}.", None)


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


def _q(value: float | None) -> str:
    found = significant(value)
    if found is None:
        return "unknown"
    return "< 1e-6" if found < 1e-6 else f"{found:g}"

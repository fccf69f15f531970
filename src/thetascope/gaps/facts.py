"""What can be said of kept gaps, one sentence a finding, each with the items that show it.

A finding is numbered F1, F2, ...; a text about them cites these numbers. A model is called weak
only where q < 0.05, and what the data cannot tell is a finding as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from thetascope.gaps.cards import evidence
from thetascope.gaps.data import GapData
from thetascope.gaps.performance import LEVEL
from thetascope.gaps.saved import SavedGaps

N_CONCEPTS, N_GROUPS, N_ITEMS = 3, 3, 3


@dataclass(frozen=True)
class Fact:
    """One finding.

    Attributes:
        id: F1, F2, ...
        kind: model, flagged, concept, group, nothing, detectable or missing.
        text: The sentence.
        model: Whom it is about, where it is about one.
        concept, group: What it is about.
        items: Item ids that show it, the strongest first.
    """

    id: str
    kind: str
    text: str
    model: str | None = None
    concept: int | None = None
    group: int | None = None
    items: tuple[str, ...] = ()


def facts(
    found: SavedGaps, data: GapData, groups: Any | None = None, grouped: GapData | None = None
) -> list[Fact]:
    """The findings on the models in focus, and on what is missing.

    Args:
        found: Kept gaps.
        data: The activations and scores that they are from.
        groups: Kept groups (`SavedGroups`) of the same concepts, where there are any.
        grouped: The data with these groups in the place of concepts.
    """
    out: list[Fact] = []

    def add(kind: str, text: str, **more: Any) -> None:
        out.append(Fact(f"F{len(out) + 1}", kind, text, **more))

    scope = found.scopes[0]
    summary = {m["model"]: m for m in found.figures["scopes"][0]["models"]}
    for model in found.figures["focus"]:
        mine = summary[model]
        if not mine["n_items"]:
            continue
        add("model", _of_model(model, mine, scope), model=model)
        weak = found.list(model)
        flagged = sum(bool(data.flags[c]) for c in weak["concept"].to_list())
        if flagged:
            add("flagged", f"Of the {weak.height:,} concepts that {model} is weak on {flagged:,}"
                " are flagged as format or near-universal: they say little of what is asked.",
                model=model)  # fmt: skip
        if weak.height and mine["n_own"] is not None:
            add("own", f"Once what the other models score on the same items is taken off,"
                f" {mine['n_own']:,} of these {weak.height:,} stay (q < {LEVEL}): the others are"
                " hard for everyone, or too small to tell.", model=model)  # fmt: skip
        said = [r for r in weak.iter_rows(named=True) if not data.flags[r["concept"]]]
        said.sort(key=lambda r: not _own(r))
        for row in said[:N_CONCEPTS]:
            c = row["concept"]
            shown = evidence(data, data.model(model), c, n=N_ITEMS)
            add("concept", f"{model} is weak on concept {c} ({data.labels[c]})"
                f" by {_effect(row)}.", model=model, concept=c,
                items=tuple(e.item_id for e in shown))  # fmt: skip
        if groups is not None and grouped is not None:
            for row in weak_groups(groups.performance, model, scope, N_GROUPS):
                g = row["group"]
                shown = evidence(grouped, grouped.model(model), g, n=N_ITEMS)
                add("group", f"{model} is weak on the group {grouped.labels[g]!r} by"
                    f" {_effect(row)}.", model=model, group=g,
                    items=tuple(e.item_id for e in shown))  # fmt: skip
        if not weak.height and mine["n_tested"]:
            add("nothing", f"No concept can be called a gap of {model}.", model=model)
        if mine["detectable"] is not None:
            add("detectable", f"A gap of {model} on a concept of median size is found with 80 %"
                f" power only from {100 * mine['detectable']:.1f} points on, and"
                f" {mine['n_untestable']:,} concepts are on too few items to be tested:"
                f" smaller or rarer gaps may be there unseen.", model=model)  # fmt: skip
    _coverage(found, add)
    return out


def weak_groups(
    performance: pl.DataFrame, model: str, scope: str, n: int | None = None
) -> list[dict[str, Any]]:
    """A model's surely weak groups (q < 0.05), the weakest first."""
    mine = performance.filter(
        (pl.col("model") == model) & (pl.col("scope") == scope) & (pl.col("q_low") < LEVEL)
    ).sort("shrunk")
    return (mine if n is None else mine.head(n)).to_dicts()


def known_names(listed: Sequence[Fact], found: SavedGaps, data: GapData,
                more: Sequence[str] = ()) -> list[str]:  # fmt: skip
    """Names that may hold digits: models, benchmarks, items, labels; the longest first."""
    names = {*found.figures["models"], *data.benchmarks, *more}
    for fact in listed:
        names |= {*fact.items} | ({fact.model} if fact.model else set())
        if fact.concept is not None:
            names |= {data.labels[fact.concept], f"concept {fact.concept}"}
    whole = (n for n in names if len(n) > 2 and any(c.isalpha() for c in n))
    return sorted(whole, key=lambda n: (-len(n), n))


def _of_model(model: str, mine: dict[str, Any], scope: str) -> str:
    where = "over all benchmarks" if scope == "all" else f"on {scope}"
    return (
        f"{model} scores {100 * mine['mean']:.1f} % on {mine['n_items']:,} items {where}; of"
        f" {mine['n_tested']:,} tested concepts it is surely weak on {mine['n_weak']:,} and surely"
        f" strong on {mine['n_strong']:,}."
    )


def _own(row: dict[str, Any]) -> bool:
    """Whether a weak concept stays weak once the other models' scores are taken off."""
    q = row.get("q_adjusted_low")
    return q is not None and q < LEVEL


def _effect(row: dict[str, Any]) -> str:
    rest = ""
    if row.get("adjusted") is not None and row.get("q_adjusted_low") is not None:
        rest = (
            f"; {100 * row['adjusted']:+.1f} points less what the other models score"
            f" (q = {row['q_adjusted_low']:.2g})"
        )
    return (
        f"{-100 * row['shrunk']:.1f} points against the rest of the same benchmarks (before"
        f" shrinkage {-100 * row['effect']:.1f}; q = {row['q_low']:.2g}), on"
        f" {row['n_active']:,} items (effective n {row['n_eff']:.0f}){rest}"
    )


def _coverage(found: SavedGaps, add: Any) -> None:
    c = found.figures["coverage"]
    if c["n_missing"] is None:
        add("missing", "Without a reference no concept can be called missing.")
        return
    for b, n, size in zip(c["benchmarks"], c["n_missing"], c["n_items"], strict=True):
        add("missing", f"{b} ({size:,} items) does not touch {n:,} of {c['n_concepts']:,}"
            f" concepts, {100 * n / max(1, c['n_concepts']):.1f} %.")  # fmt: skip
    if len(c["benchmarks"]) > 1:
        add("missing", f"{c['n_missing_from_all']:,} concepts are in none of the benchmarks.")

"""Files about how models do on concepts: one model, two models, groups of concepts."""

from __future__ import annotations

from typing import Any

import polars as pl

from thetascope.errors import InputError
from thetascope.explorer.concepts import ConceptFiles
from thetascope.explorer.sources import Sources
from thetascope.explorer.tables import q_values, rounded, short, small
from thetascope.gaps.versus import versus

COMPARED = 4
"""Of the strongest models, that a published page compares with one another."""


def performance_table(files: ConceptFiles, model: int) -> pl.DataFrame:
    """Tested concepts of one model in all scopes."""
    name = files.sources.models[model]
    saved = files.kept.saved
    if name not in saved.figures["models"]:
        nothing = saved.performance(model=saved.figures["models"][0]).clear()
        return _shown(nothing, files, saved.familywise.clear())
    mine = saved.performance(model=name)
    return _shown(mine, files, saved.familywise.filter(model=name))


def _shown(mine: pl.DataFrame, files: ConceptFiles, family: pl.DataFrame) -> pl.DataFrame:
    family = family.select("concept", p_family_low="p_low", p_family_high="p_high")
    whole = files.figures["scopes"][0]["scope"]
    table = mine.join(family, on="concept", how="left", maintain_order="left")
    only = pl.when(pl.col("scope") == whole)
    table = table.with_columns(only.then(c).alias(c) for c in ("p_family_low", "p_family_high"))
    code = {s["scope"]: files.scope_code(s["scope"]) for s in files.figures["scopes"]}
    scope = table["scope"].replace_strict(code, return_dtype=pl.Int64)
    return table.select(
        small("scope", scope), small("concept", table["concept"]),
        rounded("score", "low", "high", "effect", "shrunk"), q_values("q_low", "q_high"),
        small("n_active", table["n_active"]),
        pl.col("n_eff").cast(pl.Float64).round_sig_figs(2).cast(pl.Float32),
        rounded("adjusted"), q_values("q_adjusted_low", "q_adjusted_high"),
        rounded("p_family_low", "p_family_high"),
    )  # fmt: skip


def versus_table(files: ConceptFiles, first: int, second: int) -> pl.DataFrame:
    """Two models on the items that both answered, the first less the second.

    No rows where they answered none in common.
    """
    names = files.sources.models
    try:
        found = versus(files.sources.gap_data, names[first], names[second],
                       length=files.figures["settings"]["length"]).table  # fmt: skip
    except InputError:
        return _versus_columns(_NOTHING)
    return _versus_columns(found)


_FIGURES = (
    "difference",
    "low",
    "high",
    "q_worse",
    "q_better",
    "effect",
    "q_low",
    "q_high",
    "n_eff",
)
_NOTHING = pl.DataFrame(
    schema={"concept": pl.Int32, "n_active": pl.Int32, **dict.fromkeys(_FIGURES, pl.Float64)}
)


def _versus_columns(found: pl.DataFrame) -> pl.DataFrame:
    return found.select(
        small("concept", found["concept"]), rounded("difference", "low", "high"),
        q_values("q_worse", "q_better"), rounded("effect"), q_values("q_low", "q_high"),
        small("n_active", found["n_active"]),
        pl.col("n_eff").round_sig_figs(3).cast(pl.Float32),
    )  # fmt: skip


def compared(sources: Sources) -> list[tuple[int, int]]:
    """The pairs that a published page compares: the strongest models and those in focus."""
    if sources.kept is None:
        return []
    known = [m for m in sources.ranking.order if sources.ranking.n_core[m]]
    focus = [sources.model_code[m] for m in sources.kept.saved.figures["focus"]]
    chosen = list(dict.fromkeys([*known[:COMPARED], *focus]))[: COMPARED + 2]
    return sorted({(min(i, k), max(i, k)) for i in chosen for k in chosen if i != k})


def groups_json(files: ConceptFiles) -> dict[str, Any]:
    """The object of `groups.json`."""
    assert files.kept.groups is not None
    held = files.kept.groups.figures
    groups = [
        {k: g[k] for k in ("name", "about", "named_by", "size", "concepts")} | {"kind": g["kind"]}
        for g in held["groups"]
    ]
    table = files.kept.groups.coverage
    code = files.sources.benchmark_code
    coverage: list[Any] = [None] * len(code)
    for (benchmark,), part in table.partition_by("benchmark", as_dict=True).items():
        rows: list[Any] = [None] * len(groups)
        for r in part.iter_rows(named=True):
            rows[r["group"]] = short({k: r[k] for k in ("chi", "n_active", "n_covered",
                                                        "n_concepts")})  # fmt: skip
        coverage[code[str(benchmark)]] = rows
    return {"by": held["by"], "groups": groups, "coverage": coverage}


def groups_table(files: ConceptFiles) -> pl.DataFrame:
    """How models do on groups."""
    assert files.kept.groups is not None
    table = files.kept.groups.performance
    scopes = {s["scope"]: files.scope_code(s["scope"]) for s in files.figures["scopes"]}
    model = table["model"].replace_strict(files.sources.model_code, return_dtype=pl.Int64)
    scope = table["scope"].replace_strict(scopes, return_dtype=pl.Int64)
    return table.select(
        small("scope", scope), small("model", model), small("group", table["group"]),
        rounded("score", "low", "high", "effect"), q_values("q_low", "q_high"),
        small("n_active", table["n_active"]),
        pl.col("n_eff").round_sig_figs(3).cast(pl.Float32),
    )  # fmt: skip

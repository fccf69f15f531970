"""Counts what a format cannot hold."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from thetascope.study import Study


def counted(what: str, n: int, of: str) -> list[str]:
    """One phrase 'what (n of)', none where n is 0; `of` begins with a plural in s."""
    return [f"{what} ({_number(n, of)})"] if n else []


def _number(n: int, of: str) -> str:
    noun, space, rest = of.partition(" ")
    return f"{n:,} {noun.removesuffix('s') if n == 1 else noun}{space}{rest}"


def column_losses(table: pl.DataFrame, held: Collection[str], rows: str) -> list[str]:
    """A phrase for every column that is not held and says something."""
    lost: list[str] = []
    for name in table.columns:
        if name not in held:
            lost += counted(name, table[name].drop_nulls().len(), rows)
    return lost


def unused_rows(study: Study) -> list[str]:
    """Phrases for items, models and runs that no response points to."""
    lost: list[str] = []
    for table, key in (("items", "item_id"), ("models", "model"), ("runs", "run_id")):
        rows: pl.DataFrame = getattr(study, table)
        n = rows.join(study.responses, on=key, how="anti").height
        lost += [_number(n, f"{table} without responses")] if n else []
    return lost


def empty_texts(study: Study, column: str) -> list[str]:
    """A phrase for the items where the column is there and holds no character."""
    if column not in study.items.columns:
        return []
    return counted(f"empty {column}", int((study.items[column] == "").sum()), "items")


def log_losses(
    study: Study,
    items: Collection[str],
    runs: Collection[str],
    responses: Collection[str] = (),
    *,
    harness: str,
) -> list[str]:
    """Phrases for what logs of one run and benchmark do not hold.

    Args:
        study: The study.
        items, runs, responses: Columns that the format holds beside the keys and the score.
        harness: The tool, as whose runs all come back; only its own versions are held.
    """
    lost = unused_rows(study)
    answers = study.responses
    lost += counted("trials", answers.filter(pl.col("trials") > 1).height, "responses")
    kept = {"item_id", "model", "run_id", "score", "trials", *responses}
    lost += column_losses(answers, kept, "responses")
    known = {"item_id", "source_id", "benchmark", *items}
    lost += column_losses(study.items, {*known, "text_hash"}, "items")
    if "text_hash" in study.items.columns:
        bare = study.items
        if "text" in bare.columns:  # the hash of a text is made again
            bare = bare.filter(pl.col("text").is_null())
        lost += counted("text_hash", bare["text_hash"].drop_nulls().len(), "items without text")
    lost += column_losses(study.models, {"model"}, "models")
    lost += counted("run_id", study.runs.height, "runs")
    own = {"harness", "harness_version"}
    lost += column_losses(study.runs, {"run_id", "model", *runs, *own}, "runs")
    for name in sorted(own & set(study.runs.columns)):
        others = study.runs
        if "harness" in others.columns:
            others = others.filter(pl.col("harness").ne_missing(harness))
        lost += counted(name, others[name].drop_nulls().len(), f"runs not of {harness}")
    benchmarks = answers.join(study.items.select("item_id", "benchmark"), on="item_id")
    several = benchmarks.group_by("run_id").agg(pl.col("benchmark").n_unique().alias("n"))
    n = several.filter(pl.col("n") > 1).height
    lost += counted("that a run spans several benchmarks, a log each", n, "runs")
    return lost

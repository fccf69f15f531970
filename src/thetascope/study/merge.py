"""Rows of one table from two studies: the same facts once, contradictions refused."""

from __future__ import annotations

from typing import Any

import polars as pl

from thetascope.errors import InputError
from thetascope.study.schema import TableName


def merge_rows(name: TableName, here: pl.DataFrame, there: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of both, one a key: known facts are kept and gaps filled.

    Args:
        name: Which table it is.
        here, there: The table of either study.

    Raises:
        InputError: Two values of one fact differ; names table, column and both values.
    """
    key = {"items": "item_id", "models": "model", "runs": "run_id"}[name]
    both = pl.concat([here, there], how="diagonal_relaxed")
    shared = here.join(there, on=key, how="inner", suffix="_there")
    for column in there.columns:
        if column == key or column not in here.columns:
            continue
        clash = shared.filter(pl.col(column) != pl.col(f"{column}_there"))
        if clash.height:
            row: dict[str, Any] = clash.row(0, named=True)
            if name == "items" and column == "text":  # equal but for white space
                clash = clash.filter(pl.col("text_hash") != pl.col("text_hash_there"))
                if not clash.height:
                    continue
            if name == "runs" and column == "source":  # the same file under another name
                continue
            raise InputError(
                f"{row[key]!r} has two different values,"
                f" {_short(row[column])} here and {_short(row[f'{column}_there'])} there"
                f" ({clash.height} such rows)",
                file=f"table {name}",
                field=column,
            )
    others = [c for c in both.columns if c != key]
    return (
        both.group_by(key, maintain_order=True)
        .agg(pl.col(c).drop_nulls().first() for c in others)
        .select(both.columns)
    )


def _short(value: Any, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."

"""Tables as users have them, made into the study's own: types, ids, columns that follow."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v1 as nw
import polars as pl

from thetascope.errors import InputError
from thetascope.study.schema import check_ids, check_key
from thetascope.study.text import text_hashes

GIVEN_ID = "_given_id"
"""Column of the ids as they were given, where `complete_items` put the benchmark in front."""


def to_polars(table: Any, name: str) -> pl.DataFrame:
    """Returns a polars or pandas table (any that narwhals knows) as polars, or InputError."""
    if isinstance(table, pl.DataFrame):
        return table
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise InputError(
            f"expected a polars or pandas table, found {type(table).__name__}",
            file=f"table {name}",
        ) from None
    return pl.DataFrame(frame.to_dict(as_series=False), strict=False)


def complete_responses(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the responses with run_id (the model where there is none) and trials (1).

    Raises:
        InputError: item_id, model or score is missing, or ids are decimals.
    """
    for column in ("item_id", "model", "score"):
        if column not in frame.columns:
            raise InputError(
                f"the column is missing; found {', '.join(frame.columns) or 'none'}",
                file="table responses",
                field=column,
            )
    if frame["item_id"].dtype.is_float():
        check_ids("responses", frame["item_id"])
    if "run_id" not in frame.columns:
        frame = frame.with_columns(pl.col("model").cast(pl.String).alias("run_id"))
    if "trials" not in frame.columns:
        frame = frame.with_columns(pl.lit(1, pl.Int64).alias("trials"))
    return frame


def complete_items(frame: pl.DataFrame) -> pl.DataFrame:
    """Returns the items with benchmark, source_id and text_hash.

    An id that does not begin with its benchmark gets it in front, and stands as it was given
    in the column `GIVEN_ID`.

    Raises:
        InputError: An id occurs twice, or there is no benchmark to tell.
    """
    if "item_id" in frame.columns:
        ids = pl.col("item_id").cast(pl.String)
        if "benchmark" not in frame.columns:
            frame = frame.with_columns(
                pl.when(ids.str.contains(":", literal=True))
                .then(ids.str.extract(r"^(.*?):", 1))
                .alias("benchmark")
            )
            lone = frame.filter(pl.col("benchmark").is_null())
            if lone.height:
                raise InputError(
                    f"cannot tell the benchmark of item {lone['item_id'][0]!r};"
                    " expected a benchmark column or ids like 'benchmark:source_id'",
                    file="table items",
                    field="benchmark",
                )
        if "source_id" not in frame.columns:
            check_key("items", frame)
            prefix = pl.col("benchmark").cast(pl.String) + ":"
            source = (
                pl.when(ids.str.starts_with(prefix))
                .then(ids.str.slice(prefix.str.len_chars()))
                .otherwise(ids)
            )
            frame = frame.with_columns(source.alias("source_id"), ids.alias(GIVEN_ID))
            frame = frame.with_columns((prefix + pl.col("source_id")).alias("item_id"))
    if "text" in frame.columns and "text_hash" not in frame.columns:
        hashes = pl.Series("text_hash", text_hashes(frame["text"]), dtype=pl.String)
        frame = frame.with_columns(hashes)
    return frame

"""The four tables of a study and the rules that each row must keep.

`items` (one row an item), `models` (one a language model), `runs` (one a file of results of
one model) and `responses` (one a graded answer). `check_table` names the table, the row, the
column and the rule that is broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from thetascope.errors import InputError
from thetascope.study.keys import n_distinct

TableName = Literal["items", "models", "runs", "responses"]
TABLES: tuple[TableName, ...] = ("items", "models", "runs", "responses")


@dataclass(frozen=True)
class Column:
    """One column of a table: its type, whether it may be absent or null, and what it means."""

    name: str
    dtype: pl.DataType
    meaning: str
    required: bool = False
    low: float | None = None
    high: float | None = None


_STRING, _REAL, _COUNT = pl.String(), pl.Float64(), pl.Int64()

SCHEMA: Mapping[TableName, tuple[Column, ...]] = {
    "items": (
        Column("item_id", _STRING, "'benchmark:source_id', unique", required=True),
        Column("source_id", _STRING, "the item's id in its source", required=True),
        Column("benchmark", _STRING, "the benchmark it belongs to", required=True),
        Column("subject", _STRING, "a subject within the benchmark"),
        Column("text", _STRING, "the question with its options, no few-shot examples"),
        Column("reference", _STRING, "the reference answer"),
        Column("chance", _REAL, "score of a random answer", low=0.0, high=1.0),
        Column("text_hash", _STRING, "hash of the normalised text"),
        Column("n_tokens", _COUNT, "tokens of the text", low=0),
    ),
    "models": (
        Column("model", _STRING, "name, unique", required=True),
        Column("family", _STRING, "model family"),
        Column("params_b", _REAL, "parameters in billions", low=0.0),
        Column("price_in_usd_per_mtok", _REAL, "USD per million input tokens", low=0.0),
        Column("price_out_usd_per_mtok", _REAL, "USD per million output tokens", low=0.0),
        Column("release", _STRING, "release date"),
        Column("twin_of", _STRING, "canonical name shared by copies of one model"),
    ),
    "runs": (
        Column("run_id", _STRING, "unique", required=True),
        Column("model", _STRING, "the model that answered", required=True),
        Column("source", _STRING, "the file that it was read from"),
        Column("source_hash", _STRING, "SHA-256 of that file, 16 digits"),
        Column("date", _STRING, "date of the run"),
        Column("harness", _STRING, "the tool that ran it"),
        Column("harness_version", _STRING, "its version"),
        Column("shots", _COUNT, "few-shot examples", low=0),
        Column("prompt_hash", _STRING, "hash of the prompts"),
    ),
    "responses": (
        Column("item_id", _STRING, "the item", required=True),
        Column("model", _STRING, "the model", required=True),
        Column("run_id", _STRING, "the run", required=True),
        Column("score", _REAL, "0 wrong to 1 right", required=True, low=0.0, high=1.0),
        Column("trials", _COUNT, "attempts that the score averages", required=True, low=1),
        Column("n_tokens_in", _COUNT, "input tokens", low=0),
        Column("n_tokens_out", _COUNT, "output tokens", low=0),
        Column("cost_usd", _REAL, "cost of the answer in USD", low=0.0),
    ),
}

KEYS: Mapping[TableName, tuple[str, ...]] = {
    "items": ("item_id",),
    "models": ("model",),
    "runs": ("run_id",),
    "responses": ("item_id", "model", "run_id"),
}


def empty_table(name: TableName) -> pl.DataFrame:
    """Returns the table with its required columns and no rows."""
    return pl.DataFrame(schema={c.name: c.dtype for c in SCHEMA[name] if c.required})


def check_table(name: TableName, frame: pl.DataFrame) -> pl.DataFrame:
    """Returns `frame` with its columns in order and of the right type.

    Columns outside the schema are allowed in `items` and `models` (the source's own) and are
    kept behind the known ones; elsewhere they are refused.

    Raises:
        InputError: A column is missing or of the wrong type, a value is null or outside its
            range, or a key occurs twice; the message names table, row, column and rule.
    """
    known = {column.name: column for column in SCHEMA[name]}
    for column in known.values():
        if column.name in frame.columns:
            frame = _check_column(name, frame, column)
        elif column.required:
            raise InputError(
                f"the column is missing ({column.meaning}); found {_listed(frame.columns)}",
                file=f"table {name}",
                field=column.name,
            )
    own = [c for c in frame.columns if c not in known]
    if own and name in ("runs", "responses"):
        raise InputError(
            f"unknown column; known are {_listed(list(known))}",
            file=f"table {name}",
            field=own[0],
        )
    frame = frame.select([c for c in known if c in frame.columns] + own)
    check_key(name, frame)
    if name == "items":
        _check_item_ids(frame)
        _check_benchmarks(frame)
    return frame


def check_references(tables: Mapping[TableName, pl.DataFrame]) -> None:
    """Checks that every response names a known item, model and run, and every run a model.

    Raises:
        InputError: The first response or run that names something unknown.
    """
    pairs: tuple[tuple[TableName, TableName, str], ...] = (
        ("responses", "items", "item_id"),
        ("responses", "runs", "run_id"),
        ("responses", "models", "model"),
        ("runs", "models", "model"),
    )
    for child, parent, key in pairs:
        unknown = (
            tables[child]
            .select(pl.col(key).unique())
            .join(tables[parent].select(key), on=key, how="anti")
        )
        if unknown.height:
            value: str = unknown[key].sort()[0]
            row = int(tables[child][key].eq(value).arg_max() or 0) + 1
            raise InputError(
                f"{value!r} is not in table {parent}",
                file=f"table {child}",
                record=row,
                field=key,
            )


def _check_column(name: TableName, frame: pl.DataFrame, column: Column) -> pl.DataFrame:
    where = f"table {name}"
    series = frame[column.name]
    if series.dtype != column.dtype:
        series = _cast(where, series, column)
        frame = frame.with_columns(series)
    if column.required and series.null_count():
        row = int(series.is_null().arg_max() or 0) + 1
        raise InputError("must not be null", file=where, record=row, field=column.name)
    if column.dtype == _REAL and series.is_nan().any():
        row = int(series.is_nan().fill_null(False).arg_max() or 0) + 1
        raise InputError(
            "is NaN; leave the row out where there is no value",
            file=where,
            record=row,
            field=column.name,
        )
    for bound, bad in (
        (column.low, None if column.low is None else series < column.low),
        (column.high, None if column.high is None else series > column.high),
    ):
        if bad is not None and bad.any():
            row = int(bad.fill_null(False).arg_max() or 0) + 1
            raise InputError(
                f"must be {_range(column)}, found {series[row - 1]!r}",
                file=where,
                record=row,
                field=column.name,
                fix=None if bound is None else _range_fix(column),
            )
    return frame


def _cast(where: str, series: pl.Series, column: Column) -> pl.Series:
    if column.dtype == _STRING:
        check_ids(where.removeprefix("table "), series)
    cast = series.cast(column.dtype, strict=False)
    lost = cast.is_null() & series.is_not_null()
    if lost.any():
        row = int(lost.arg_max() or 0) + 1
        kind = {"Float64": "a number", "Int64": "a whole number"}.get(str(column.dtype), "text")
        raise InputError(
            f"must be {kind}, found {series[row - 1]!r}",
            file=where,
            record=row,
            field=column.name,
        )
    return cast


def check_ids(table: str, series: pl.Series) -> None:
    """Raises InputError where ids or names are decimals: 7.0 and 7 would be two items."""
    if series.dtype.is_numeric() and not series.dtype.is_integer():
        raise InputError(
            f"ids and names must be strings, found {series.dtype}",
            file=f"table {table}",
            field=series.name,
            fix="read the column as text: 7.0 and 7 would be two items",
        )


def check_key(name: TableName, frame: pl.DataFrame) -> None:
    """Raises InputError where a key of the table occurs twice."""
    key = list(KEYS[name])
    if len(key) == 1:
        repeated = frame.filter(pl.col(key[0]).is_duplicated())
    elif n_distinct(frame, key) == frame.height:
        return
    else:
        repeated = frame.filter(pl.struct(key).is_duplicated())
    if repeated.height:
        first: dict[str, Any] = repeated.select(key).row(0, named=True)
        shown = ", ".join(f"{k}={v!r}" for k, v in first.items())
        raise InputError(
            f"{shown} occurs {repeated.filter(**first).height} times, must be unique",
            file=f"table {name}",
            field=" + ".join(key),
        )


def _check_benchmarks(frame: pl.DataFrame) -> None:
    """'all' stands for all benchmarks together in every table of results."""
    if frame["benchmark"].n_unique() > 1 and (frame["benchmark"] == "all").any():
        raise InputError(
            "a benchmark cannot be called 'all' beside others: results of all benchmarks together"
            " have that name",
            file="table items",
            record=int((frame["benchmark"] == "all").arg_max() or 0) + 1,
            field="benchmark",
            fix="give it another name, and its ids with it",
        )


def _check_item_ids(frame: pl.DataFrame) -> None:
    expected = pl.concat_str("benchmark", "source_id", separator=":")
    wrong = frame.with_row_index("row").filter(pl.col("item_id") != expected)
    if wrong.height:
        row: dict[str, Any] = wrong.row(0, named=True)
        raise InputError(
            f"must be 'benchmark:source_id' = '{row['benchmark']}:{row['source_id']}',"
            f" found {row['item_id']!r}",
            file="table items",
            record=int(row["row"]) + 1,
            field="item_id",
        )


def _range(column: Column) -> str:
    if column.high is None:
        return f"at least {column.low:g}"
    return f"between {column.low:g} and {column.high:g}"


def _range_fix(column: Column) -> str | None:
    return "scale it to [0, 1] first" if column.name == "score" else None


def _listed(names: list[str], limit: int = 12) -> str:
    shown = ", ".join(names[:limit]) or "none"
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")

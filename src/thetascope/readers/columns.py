"""Whole columns of ids and scores, checked; the column `_row` says where a row stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.values import parse_score

_FAULTS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What a damaged table raises; a panic of polars is no ordinary exception."""


@contextmanager
def reading_table(path: Path) -> Iterator[None]:
    """Turns the faults of reading a table into an InputError that names the file."""
    try:
        yield
    except _FAULTS as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, pl.exceptions.PanicException):
            reason = "the file is damaged"
        raise InputError(f"cannot be read as a table: {reason}", file=path) from None


def parquet_columns(path: Path) -> list[str]:
    """The columns of a Parquet file by its footer, none where it cannot be read."""
    if path.suffix != ".parquet" or not path.is_file():
        return []
    try:
        return list(pl.read_parquet_schema(path))
    except _FAULTS:
        return []


def with_ids(path: Path, frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns the frame with these columns as text.

    Raises:
        InputError: An id is empty, or stands as a decimal number.
    """
    for column in columns:
        series = frame[column]
        if series.dtype.is_float():
            raise InputError(
                "ids must be text or whole numbers, found decimals",
                file=path,
                field=column,
                fix="write the column as text",
            )
        bad = series.is_null() | (series.cast(pl.String) == "")
        if bad.any():
            row = int(frame["_row"][int(bad.arg_max() or 0)])
            raise InputError("is empty", file=path, record=row, field=column)
        frame = frame.with_columns(series.cast(pl.String))
    return frame


def with_scores(
    path: Path, frame: pl.DataFrame, builder: StudyBuilder, called: str = "score"
) -> pl.DataFrame:
    """Returns the frame with scores in [0, 1], rows without one dropped and counted.

    The column is `score`; errors name it as the source does, `called`.

    Each distinct value is parsed once.

    Raises:
        InputError: A value is no score (see `parse_score`).
    """
    scale = builder.options.scale
    values = frame["score"].unique(maintain_order=True)
    parsed: list[float | None] = []
    for value in values:
        try:
            parsed.append(parse_score(value, file=path, record="?", field=called, scale=scale))
        except InputError as error:
            same = frame["score"].eq_missing(pl.Series([value], dtype=values.dtype))
            row = int(frame["_row"][int(same.arg_max() or 0)])
            raise InputError(
                error.problem, file=path, record=row, field=called, fix=error.fix
            ) from None
    table = pl.DataFrame({"score": values, "_score": pl.Series(parsed, dtype=pl.Float64)})
    frame = frame.join(table, on="score", how="left", nulls_equal=True, maintain_order="left")
    missing = frame.filter(pl.col("_score").is_null())
    if missing.height:
        builder.report.drop(
            "no score (null or NaN)", builder.name(path), int(missing["_row"][0]), missing.height
        )
    return frame.filter(pl.col("_score").is_not_null()).drop("score").rename({"_score": "score"})

"""Whole columns of ids and scores, checked; the column `_row` says where a row stands."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.values import parse_score

_FAULTS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What a damaged table raises; a panic of polars is no ordinary exception."""

_LONGEST_HEADER = 16 << 20
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""What a gzip or Zstandard file begins with."""


@contextmanager
def reading_table(path: Path) -> Iterator[None]:
    """Turns the faults of reading a table into an InputError that names the file."""
    if not _is_utf8(path):  # polars takes no other names
        raise InputError("has a name that is not UTF-8", file=path, fix="rename it")
    try:
        yield
    except _FAULTS as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(error, pl.exceptions.PanicException):
            reason = "the file is damaged"
        raise InputError(f"cannot be read as a table: {reason}", file=path) from None


def parquet_columns(path: Path) -> list[str]:
    """The columns of a Parquet file by its footer, none where it cannot be read."""
    if path.suffix != ".parquet" or not path.is_file() or not _is_utf8(path):
        return []
    try:
        return list(pl.read_parquet_schema(path))
    except _FAULTS:
        return []


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def header_names(line: str, separator: str = ",") -> list[str]:
    """The names in the first line of a CSV file, none where it is no such line."""
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=separator), [])
    except csv.Error:  # a carriage return between the names
        return []


def csv_header(path: Path) -> str:
    """Returns the first line of a CSV file.

    Raises:
        InputError: The file cannot be read, is packed, not UTF-8 or empty.
    """
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_HEADER)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if line.startswith(_PACKED):  # polars would unpack it, whatever its size then
        raise InputError("is a compressed file", file=path, fix="unpack it first")
    try:
        first = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 (byte {error.start})", file=path) from None
    if not first.strip():
        raise InputError("is empty", file=path)
    return first


def check_names(path: Path, names: list[str]) -> None:
    """Raises InputError where a column's name stands twice: either could be meant."""
    twice = next((name for name, n in Counter(names).items() if n > 1 and name), None)
    if twice is not None:
        raise InputError("the column stands twice in the header", file=path, field=twice)


def as_text(path: Path, series: pl.Series, called: str | None = None) -> pl.Series:
    """Returns a column of ids, names or texts as text.

    Raises:
        InputError: It holds decimals (7.0 and 7 would be two ids), lists, objects or bytes.
    """
    dtype = series.dtype
    if dtype.is_float():
        raise InputError(
            "ids must be text or whole numbers, found decimals",
            file=path,
            field=called or series.name,
            fix="write the column as text",
        )
    check_plain(path, series, "text or whole numbers", called or series.name)
    return series.cast(pl.String)


def check_plain(path: Path, series: pl.Series, expected: str, called: str) -> None:
    """Raises InputError where the cells of a column are lists, objects, bytes or durations."""
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object, pl.Duration):
        raise InputError(f"expected {expected}, found {series.dtype}", file=path, field=called)


def with_ids(
    path: Path, frame: pl.DataFrame, *columns: str, called: str | None = None
) -> pl.DataFrame:
    """Returns the frame with these columns as text.

    Errors name a column as it stands here, or as the source does, `called`.

    Raises:
        InputError: An id is empty, or stands as a decimal number.
    """
    for column in columns:
        series = as_text(path, frame[column], called)
        bad = series.is_null() | (series == "")
        if bad.any():
            row = int(frame["_row"][int(bad.arg_max() or 0)])
            raise InputError("is empty", file=path, record=row, field=called or column)
        frame = frame.with_columns(series)
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
    scale, dtype = builder.options.scale, frame["score"].dtype
    check_plain(path, frame["score"], "numbers", called)
    if dtype.is_decimal():
        frame = frame.with_columns(pl.col("score").cast(pl.Float64))
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

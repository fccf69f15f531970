"""Files of rows: CSV, TSV, JSON lines and Parquet into frames, ids as the text that they are.

A table of responses may repeat an item's text on every row. It is read in parts, the columns
that nobody uses are left on the disk, and each text is held once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.columns import (
    as_text,
    check_names,
    csv_header,
    header_names,
    reading_table,
)
from thetascope.readers.parquet import try_out
from thetascope.readers.values import clean_text, iter_jsonl

ITEM_COLUMNS = ("subject", "text", "reference", "chance", "n_tokens", "text_hash")
NUMBERS = {
    "trials": pl.Int64,
    "n_tokens_in": pl.Int64,
    "n_tokens_out": pl.Int64,
    "cost_usd": pl.Float64,
}
KNOWN = ("item_id", "model", "score", "benchmark", "run_id", *ITEM_COLUMNS, *NUMBERS)
"""The columns of a table of responses that are used."""

_TEXTS = ("benchmark", "run_id", "subject", "text", "reference", "text_hash")
_TEXTS += ("family", "release", "twin_of")
_REPEATED = "text"
_ROWS_AT_ONCE = 20_000


def load_table(path: Path, columns: Mapping[str, str]) -> pl.DataFrame:
    """Reads a table file; of a text file every column is text.

    Args:
        path: CSV, TSV, JSONL or Parquet.
        columns: Our column name -> the file's.

    Raises:
        InputError: It is empty, not UTF-8, or no table.
    """
    return _load(path, columns, None)[0]


def load_known_columns(path: Path, columns: Mapping[str, str]) -> tuple[pl.DataFrame, list[str]]:
    """Reads the columns in `KNOWN`, and returns the names of all with them.

    The column `text` comes as categories.

    Raises:
        InputError: As `load_table`.
    """
    return _load(path, columns, KNOWN)


def _load(
    path: Path, columns: Mapping[str, str], known: Collection[str] | None
) -> tuple[pl.DataFrame, list[str]]:
    for ours in columns:
        if ours not in KNOWN:
            raise InputError(f"unknown column {ours!r}; ours are {', '.join(KNOWN)}")
    try:
        if path.suffix in (".jsonl", ".ndjson"):
            rows, names = _read_jsonl(path, None if known is None else {*known, *columns.values()})
        else:
            if path.suffix == ".parquet":
                with reading_table(path):
                    names = list(pl.read_parquet_schema(path))
            else:
                names = _csv_names(path)
            rows = None
        ours = _our_names(names, columns)
        taken = {theirs: name for theirs, name in ours.items() if known is None or name in known}
        with reading_table(path):
            frame = _collect(_scan(path, taken) if rows is None else rows, taken, known is not None)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if not frame.height or not names:
        raise InputError("has no rows", file=path)
    texts = [c for c in _TEXTS if c in frame.columns and frame[c].dtype != pl.Categorical]
    frame = frame.with_columns(as_text(path, frame[c]) for c in texts)
    return frame, list(ours.values())


def _csv_names(path: Path) -> list[str]:
    first = csv_header(path)
    names = header_names(first, separator(first))
    check_names(path, names)
    with reading_table(path):
        return _scan_csv(path).collect_schema().names()


def _scan_csv(path: Path) -> pl.LazyFrame:
    mark = separator(csv_header(path))
    return pl.scan_csv(path, separator=mark, infer_schema=False, low_memory=True, glob=False)


def _scan(path: Path, taken: Mapping[str, str]) -> pl.LazyFrame:
    if path.suffix != ".parquet":
        return _scan_csv(path)
    try_out(path, list(taken))
    return pl.scan_parquet(path, glob=False)


def _collect(rows: pl.LazyFrame, taken: Mapping[str, str], once: bool) -> pl.DataFrame:
    """The columns `taken`, under our names; with `once` each text is held once."""
    schema = rows.collect_schema()
    columns = []
    for theirs, name in taken.items():
        column = pl.col(theirs).alias(name)
        if once and name == _REPEATED and schema[theirs] == pl.String:
            column = column.cast(pl.Categorical)
        columns.append(column)
    if not columns:  # of no column there are no rows to count
        return rows.head(1).collect(engine="streaming").select(pl.lit(None).alias("_none"))
    return rows.select(columns).collect(engine="streaming")


def _our_names(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """By the file's name of a column ours; one that another takes the name of is left out."""
    ours = {name: name for name in names}
    for name, theirs in columns.items():
        if theirs in names and name != theirs:
            ours.pop(name, None)
            ours[theirs] = name
    return ours


def _read_jsonl(path: Path, kept: Collection[str] | None) -> tuple[pl.LazyFrame, list[str]]:
    """The columns `kept` (None for all) as text, and the names of all, in order."""
    names: dict[str, None] = {}
    parts: list[pl.DataFrame] = []
    rows: list[dict[str, str | None]] = []

    def flush() -> None:
        columns = {n: [r.get(n) for r in rows] for n in names if kept is None or n in kept}
        part = pl.DataFrame({k: pl.Series(v, dtype=pl.String) for k, v in columns.items()})
        if kept is not None and _REPEATED in columns:
            part = part.with_columns(pl.col(_REPEATED).cast(pl.Categorical))
        parts.append(part)
        rows.clear()

    for number, record in iter_jsonl(path):
        if not isinstance(record, dict):
            raise InputError(
                f"expected an object, found {type(record).__name__}", file=path, record=number
            )
        row: dict[str, str | None] = {}
        for key, value in record.items():
            names.setdefault(key)
            if isinstance(value, (dict, list)):
                raise InputError(
                    "expected a plain value, found a list or an object",
                    file=path,
                    record=number,
                    field=key,
                )
            if kept is None or key in kept:
                row[key] = _as_text(value)
        rows.append(row)
        if len(rows) == _ROWS_AT_ONCE:
            flush()
    flush()
    return pl.concat(parts, how="diagonal").lazy(), list(names)


def _as_text(value: object) -> str | None:
    if isinstance(value, str):
        return clean_text(value)
    return None if value is None else repr(value)


def separator(header: str) -> str:
    """The separator of a line of names: the mark that it has most of."""
    counts = {s: header.count(s) for s in (",", "\t", ";", "|")}
    return max(counts, key=lambda s: counts[s])

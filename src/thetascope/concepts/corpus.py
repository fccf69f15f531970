"""Texts to train on or to take as a reference: txt, jsonl, csv, parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import polars as pl

from thetascope.errors import InputError


class Corpus(NamedTuple):
    """Texts of a file.

    Attributes:
        texts: They, in the file's order.
        n_empty: Texts left out because they are empty or missing.
        name: The file's name, for records.
    """

    texts: list[str]
    n_empty: int
    name: str


def read_corpus(file: Path, column: str = "text") -> Corpus:
    """Reads the texts of a file.

    A .txt file's texts are its paragraphs, parted by empty lines; the other kinds have a text
    in each row, under `column`.

    Raises:
        InputError: It is missing, damaged, of another kind, without that column, or has no text.
    """
    if not file.is_file():
        raise InputError("no such file", file=file)
    kind = file.suffix.lower()
    if kind == ".txt":
        found = _paragraphs(file)
    elif kind in (".jsonl", ".ndjson"):
        found = _lines(file, column)
    elif kind in (".parquet", ".csv"):
        found = _table(file, kind, column)
    else:
        raise InputError("expected .txt, .jsonl, .csv or .parquet", file=file)
    texts = [t for t in found if t is not None and t.strip()]
    if not texts:
        raise InputError("holds no text", file=file)
    return Corpus(texts, len(found) - len(texts), file.name)


def _paragraphs(file: Path) -> list[str | None]:
    try:
        whole = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8: {error.reason} at byte {error.start}", file=file) from None
    return [p.strip("\n") for p in whole.replace("\r\n", "\n").split("\n\n") if p.strip()]


def _lines(file: Path, column: str) -> list[str | None]:
    out: list[str | None] = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"is not JSON: {error}", file=file, record=number) from None
            if not isinstance(row, dict) or column not in row:
                raise InputError("is not there", file=file, record=number, field=column)
            value = row[column]
            if value is not None and not isinstance(value, str):
                raise InputError(
                    f"expected a text, found {type(value).__name__}",
                    file=file, record=number, field=column,
                )  # fmt: skip
            out.append(value)
    return out


def _table(file: Path, kind: str, column: str) -> list[str | None]:
    try:
        if kind == ".parquet":
            rows = pl.scan_parquet(file)
        else:
            rows = pl.scan_csv(file, infer_schema=False)
        names = rows.collect_schema().names()
        if column not in names:
            raise InputError(
                f"there is no such column; there are {', '.join(names)}", file=file, field=column
            )
        found = rows.select(column).collect()[column]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"cannot be read: {error}", file=file) from None
    if found.dtype != pl.String:
        raise InputError(f"expected texts, found {found.dtype}", file=file, field=column)
    return found.to_list()

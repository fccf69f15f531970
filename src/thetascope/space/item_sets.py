"""Sets of items by a short word: what a probe is made from.

    subject:NAME[,NAME]     benchmark:NAME[,NAME]
    text:REGEX              the item's text matches (case counts not)
    ids:FILE                item ids, one a line
    csv:FILE:COLUMN=VALUE   rows of a table with item_id where a column has a value
    rest                    every item that the other set does not hold (negative side only)

Words joined by ' & ' must all hold; a word after '!' must not. A regular expression that needs
' & ' itself writes it as '\\s&\\s'.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.errors import InputError

Bools = NDArray[np.bool_]
_KINDS = "subject:, benchmark:, text:, ids:, csv:"


def item_set(items: pl.DataFrame, words: str) -> Bools:
    """(N,) which items the words choose.

    Args:
        items: A study's items table.
        words: As above, without 'rest'.

    Raises:
        InputError: A word is unknown, names nothing in the study, or a file lacks something.
    """
    chosen = np.ones(items.height, bool)
    for word in words.split(" & "):
        word = word.strip()
        turned = word.startswith("!")
        found = _one(items, word[1:].strip() if turned else word)
        chosen &= ~found if turned else found
    return chosen


def _one(items: pl.DataFrame, word: str) -> Bools:
    kind, colon, value = word.partition(":")
    if not colon or not value:
        raise InputError(f"expected one of {_KINDS} with a value, found {word!r}")
    if kind in ("subject", "benchmark"):
        return _named(items, kind, value)
    if kind == "text":
        return _matching(items, value)
    if kind == "ids":
        return _listed(items, _lines(value), value)
    if kind == "csv":
        return _table(items, value)
    raise InputError(f"expected one of {_KINDS}, found {word!r}")


def _named(items: pl.DataFrame, column: str, value: str) -> Bools:
    if column not in items.columns:
        raise InputError(f"the study's items have no {column}")
    known = set(items[column].drop_nulls().to_list())
    whole = value in known  # a name may hold a comma itself
    asked = [value] if whole else [v.strip() for v in value.split(",")]
    for name in asked:
        if name not in known:
            raise InputError(f"no {column} {name!r}; there are {', '.join(sorted(known))}")
    return items[column].is_in(asked).fill_null(False).to_numpy()


def _matching(items: pl.DataFrame, pattern: str) -> Bools:
    if "text" not in items.columns:
        raise InputError("the study's items have no text to match")
    try:
        found = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    except re.error as error:
        raise InputError(f"is no regular expression: {error}", field=f"text:{pattern}") from None
    return np.array([t is not None and bool(found.search(t)) for t in items["text"]], bool)


def _lines(file: str) -> list[str]:
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", file=file) from None
    return [line.strip() for line in lines if line.strip()]


def _listed(items: pl.DataFrame, ids: list[str], file: str) -> Bools:
    known = set(items["item_id"].to_list())
    unknown = [i for i in ids if i not in known]
    if unknown:
        raise InputError(
            f"{len(unknown):,} of {len(ids):,} ids are not in the study, first {unknown[0]!r}",
            file=file,
        )
    return items["item_id"].is_in(ids).to_numpy()


def _table(items: pl.DataFrame, value: str) -> Bools:
    file, _, rule = value.rpartition(":")
    column, equals, wanted = rule.partition("=")
    if not file or not equals:
        raise InputError(f"expected csv:FILE:COLUMN=VALUE, found {'csv:' + value!r}")
    try:
        table = pl.read_csv(file, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot be read: {str(error).splitlines()[0]}", file=file) from None
    for need in ("item_id", column):
        if need not in table.columns:
            raise InputError(f"has no column {need!r}", file=file)
    ids = table.filter(pl.col(column) == wanted)["item_id"].to_list()
    if not ids:
        raise InputError(f"has no row where {column} is {wanted!r}", file=file)
    return _listed(items, ids, file)

"""Small tables beside the results: texts by item, names of models in another harness."""

from __future__ import annotations

from pathlib import Path

from thetascope.errors import InputError
from thetascope.readers.table_files import load_table


def read_texts(path: Path) -> dict[str, str]:
    """Reads texts by item id from a table (CSV, TSV, JSONL, Parquet) with item_id and text.

    Raises:
        InputError: A column is missing, an id is empty, or an id has two different texts.
    """
    return _pairs(path, "item_id", "text")


def read_crosswalk(path: Path) -> dict[str, str]:
    """Reads new names of models from a table with columns model and canonical.

    Raises:
        InputError: A column is missing, a name is empty, a model has two new names, or a new
            name is itself one to rename.
    """
    renames = _pairs(path, "model", "canonical")
    for old, new in renames.items():
        if renames.get(new, new) != new:  # would be renamed again by the next import
            raise InputError(
                f"{old!r} becomes {new!r}, which becomes {renames[new]!r}",
                file=path,
                field="canonical",
                fix=f"give {renames[new]!r} for both" if renames[new] != old else "keep one line",
            )
    return renames


def _pairs(path: Path, key: str, value: str) -> dict[str, str]:
    frame = load_table(path, {})
    for column in (key, value):
        if column not in frame.columns:
            raise InputError(
                f"the column is missing; found {', '.join(frame.columns)}", file=path, field=column
            )
    found: dict[str, str] = {}
    for row, (name, given) in enumerate(frame.select(key, value).iter_rows(), start=1):
        if name is None or str(name) == "":
            raise InputError("is empty", file=path, record=row, field=key)
        if given is None or str(given) == "":
            continue
        if found.setdefault(str(name), str(given)) != str(given):
            raise InputError(
                f"{name!r} has two different values", file=path, record=row, field=value
            )
    return found

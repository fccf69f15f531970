"""Small tables beside the results: texts by item, questions, names of models elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from thetascope.errors import InputError
from thetascope.readers.table_files import load_table


def read_texts(path: Path) -> dict[str, str]:
    """Reads texts by item id from a table (CSV, TSV, JSONL, Parquet) with item_id and text.

    Raises:
        InputError: A column is missing, an id is empty, or an id has two different texts.
    """
    return _pairs(path, "item_id", "text")


class Questions(NamedTuple):
    """New questions: n texts, and the benchmark and subject of each, None where not given."""

    texts: list[str]
    benchmarks: list[str | None]
    subjects: list[str | None]


def read_questions(path: Path) -> Questions:
    """Reads questions from a table with a column text (benchmark and subject where given), or
    from a .txt file with one on each line.

    Raises:
        InputError: There is no such column, no row, or an empty text.
    """
    if path.suffix == ".txt":
        lines = read_lines(path)
        return Questions(lines, [None] * len(lines), [None] * len(lines))
    frame = load_table(path, {})
    if "text" not in frame.columns:
        raise InputError(
            f"the column is missing; found {', '.join(frame.columns)}", file=path, field="text"
        )
    texts = [t or "" for t in frame["text"].to_list()]
    empty = next((i for i, t in enumerate(texts, 1) if not t.strip()), None)
    if empty is not None:
        raise InputError("is empty", file=path, record=empty, field="text")
    nothing: list[str | None] = [None] * len(texts)
    benchmarks, subjects = (
        frame[c].to_list() if c in frame.columns else nothing for c in ("benchmark", "subject")
    )
    return Questions(texts, benchmarks, subjects)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty.

    Raises:
        InputError: It cannot be read, is not UTF-8, or has no such line.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 (byte {error.start})", file=path) from None
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        raise InputError("has no lines", file=path)
    return lines


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

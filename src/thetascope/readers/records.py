"""What readers of JSON records share: a look at the first record, the records, their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.json_stream import iter_pieces
from thetascope.readers.texts import field_text
from thetascope.readers.values import clean_text, describe, iter_jsonl

Record = Mapping[str, Any]

# A string that the end cuts off is a token too, even behind a backslash: possessive, because
# trying it again from each of its quotes would take minutes.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


class NoItems(InputError):
    """A known file that holds no graded items: refused alone, noted in a folder with others."""


class Outline(NamedTuple):
    """The first record of a file, by its beginning.

    Attributes:
        frame: '[' for an array of records, '{' for one object or an object a line, else ''.
        kinds: By key of that record the first character of its value, such as '{' or '"'.
    """

    frame: str
    kinds: Mapping[str, str]

    def has(self, *keys: str) -> bool:
        """Whether the record has all these keys."""
        return all(k in self.kinds for k in keys)


@lru_cache(maxsize=4)
def outline(head: bytes) -> Outline:
    """Outlines the record that a file begins with; `head` may end anywhere, and hold anything."""
    tokens = _TOKEN.finditer(head.decode("utf-8-sig", "replace"))
    first = next(tokens, None)
    frame = first[0] if first else ""
    if frame == "[":
        first = next(tokens, None)
    kinds: dict[str, str] = {}
    if first is None or first[0] != "{":
        return Outline("", kinds)
    depth, key, at_value = 1, "", False
    for token in tokens:
        text = token[0]
        if text[0] == '"' and (len(text) == 1 or text[-1] != '"'):
            if at_value:
                kinds[key] = '"'
            break  # cut off inside a string
        if depth == 1 and at_value and text not in ":,":
            kinds[key], at_value = text[0], False
        elif depth == 1 and text[0] == '"':
            key = text[1:-1]
        elif depth == 1 and text == ":":
            at_value = True
        depth += (text in "{[") - (text in "}]")
        if depth == 0:
            break
    return Outline(frame, kinds)


def objects(path: Path) -> Iterator[tuple[int, Record]]:
    """Yields (place from 1, record) of one JSON array or of JSON lines, streamed.

    Raises:
        InputError: The file is broken, holds no records, or a record is no object.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    try:
        with path.open("rb") as file:
            first = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    number = 0
    for number, record in _array(path) if first.startswith(b"[") else iter_jsonl(path):
        yield number, as_object(record, file=path, record=number)
    if not number:
        raise InputError("has no records", file=path)


def _array(path: Path) -> Iterator[tuple[int, Any]]:
    return ((int(p.number or 0), p.value) for p in iter_pieces(path))


def as_object(value: Any, *, file: Path, record: int | str, field: str | None = None) -> Record:
    """Returns the value if it is an object, or raises InputError."""
    if not isinstance(value, Mapping):
        raise InputError(
            f"expected an object, found {describe(value)}", file=file, record=record, field=field
        )
    return value


def identifier(record: Record, key: str, *, file: Path, number: int | str) -> str:
    """Returns the id in the field `key`: text or a whole number, as text."""
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InputError(
            f"expected a number or text, found {describe(value)}",
            file=file,
            record=number,
            field=key,
        )
    if value == "":
        raise InputError("is empty", file=file, record=number, field=key)
    return clean_text(str(value))


def name(record: Record, key: str, *, file: Path, number: int | str) -> str:
    """Returns the text in the field `key`, which must not be empty."""
    value = record.get(key)
    if not isinstance(value, str):
        raise InputError(
            f"expected a name, found {describe(value)}", file=file, record=number, field=key
        )
    if not value.strip():
        raise InputError("is empty", file=file, record=number, field=key)
    return clean_text(value)


def optional_name(value: Any) -> str | None:
    """Returns the value if it is text that says something, else None."""
    return clean_text(value) if isinstance(value, str) and value.strip() else None


def item_text(
    record: Record,
    own: str | None,
    rule: str,
    *,
    benchmark: str,
    builder: StudyBuilder,
    file: Path,
    number: int | str,
) -> str | None:
    """Returns the item's text: the field that the user chose, else the reader's `own`.

    Notes the rule by which it was made.
    """
    option = builder.options.text_field
    if option is not None:
        builder.rule("text", benchmark, f"the field {option!r}")
        return field_text(record, option, file=file, record_name=number)
    if own is not None:
        builder.rule("text", benchmark, rule)
    return own


def needs_model(builder: StudyBuilder, file: Path, why: str = "the file does not say it") -> str:
    """Returns the model that the user named, or raises InputError with the way out."""
    if builder.options.model is None:
        raise InputError(
            f"cannot tell the model: {why}", file=file, field="model", fix="name it with --model"
        )
    return builder.options.model

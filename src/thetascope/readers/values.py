"""Values as evaluation tools write them, made into numbers or refused."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thetascope.errors import InputError

_WORDS = {
    "true": 1.0,
    "false": 0.0,
    "nan": math.nan,
    "none": math.nan,
    "null": math.nan,
    "": math.nan,
}


def parse_score(
    value: Any,
    *,
    file: str | Path,
    record: int | str,
    field: str,
    scale: float = 1.0,
    own_scale: bool = False,
) -> float | None:
    """Returns the score in [0, 1], or None where the value says that there is none.

    Numbers, booleans and their spellings ("True", "1.0") count; null, NaN and empty text are
    'no score'. `own_scale` says that the format fixes the scale, not the user.

    Raises:
        InputError: The value is something else, infinite, or outside [0, scale].
    """
    if value is None:
        return None
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _WORDS:
            number = _WORDS[word]
        else:
            try:
                number = float(word)
            except ValueError:
                number = None
    elif isinstance(value, (bool, int, float)):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    else:
        number = None
    if number is None:
        raise InputError(
            f"expected a number from 0 to {scale:g}, found {_short(value)}",
            file=file,
            record=record,
            field=field,
        )
    if math.isnan(number):
        return None
    if not 0.0 <= number <= scale:
        raise InputError(
            f"must be between 0 and {scale:g}, found {number:g}",
            file=file,
            record=record,
            field=field,
            fix=None if own_scale or math.isinf(number) else "say what stands for 1 with --scale",
        )
    return number / scale


def read_json_file(path: Path) -> Any:
    """Reads a JSON file (NaN allowed, UTF-8 with or without a byte order mark).

    Raises:
        InputError: It is not UTF-8 or not JSON; the message gives the place.
    """
    return loads(read_bytes(path), file=path, record=None)


def read_bytes(path: Path) -> bytes:
    """Reads a file's bytes, or raises InputError with the system's reason."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None


def loads(data: bytes, *, file: str | Path, record: int | str | None) -> Any:
    """Parses JSON bytes; an error names file, record and place."""
    try:
        # As 'utf-8-sig', whose codec is slow.
        return json.loads(data.removeprefix(codecs.BOM_UTF8).decode())
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 (byte {error.start})", file=file, record=record) from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if b"\n" in data else ""
        problem = f"is not JSON: {error.msg.removesuffix(' at')} at {line}column {error.colno}"
        raise InputError(problem, file=file, record=record) from None
    except ValueError:  # Python reads no integer of more than 4,300 digits
        raise InputError("holds a number too long to read", file=file, record=record) from None
    except RecursionError:
        raise InputError("is nested too deeply to read", file=file, record=record) from None


def iter_jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields (line number from 1, value) of a JSON-lines file, one line in memory at a time.

    Lines end at LF only (U+2028 and U+0085 inside a string are text). Empty lines are skipped.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, loads(line.rstrip(b"\r\n"), file=path, record=number)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None


def clean_text(text: str) -> str:
    """Returns the text with lone surrogates (half of a broken emoji) as U+FFFD.

    JSON can spell them, no file in UTF-8 can hold them.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def choose(option: str | None, found: Sequence[str]) -> str | None:
    """Returns the name in `found` that a choice means, None where it means none.

    A choice is a name, or several with commas: the first one that is there counts, so that
    one import can read benchmarks with different metrics.
    """
    if option is None:
        return None
    wanted = [option, *(part.strip() for part in option.split(","))]
    return next((name for name in wanted if name in found), None)


def listing(value: Any) -> Sequence[Any]:
    """Returns the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def count(value: Any) -> int | None:
    """Returns the value if it is a number of things (whole, not negative), else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(value) if 0 <= value < 1 << 53 else None


def mapping(value: Any) -> Mapping[str, Any]:
    """Returns the value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def describe(value: Any) -> str:
    """Names a value's kind for an error: 'an object', 'a list', 'text', ..."""
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return kinds.get(type(value), "null" if value is None else "a number")


def _short(value: Any, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."

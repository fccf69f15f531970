"""Large JSON documents read piece by piece: no file has to fit in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from thetascope.errors import InputError

_CHUNK = 1 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_NEAR_END = 16
"""A fault this close to the end of the buffer may only be a value cut by it."""

_NUMBER_TAIL = 3
"""A number before less than this may go on: '1', '1.' and '1e-' all read as 1."""


class Piece(NamedTuple):
    """A part of a document: a member of the top object, or an element of an array.

    `number` counts the elements of the array from 1; it is None for a whole member.
    """

    key: str
    number: int | None
    value: Any


def iter_pieces(path: Path, arrays: Collection[str] = ()) -> Iterator[Piece]:
    """Yields the elements of a top-level array (key ''), or the members of a top-level object.

    Members whose key is in `arrays` come element by element if they are arrays. Only one
    element (or one whole member) and a buffer of about a megabyte are in memory at a time.

    Raises:
        InputError: The file cannot be read, is not UTF-8, not JSON, or is cut off; the
            message names the element.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _Stream(path, file).pieces(arrays)
    except UnicodeDecodeError:
        raise InputError("is not UTF-8", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None


def iter_entries(path: Path, key: str) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) of what the member `key` of a top-level object holds, streamed.

    A name is a key of the object, or the place in the array, from 0.

    Raises:
        InputError: As `iter_pieces`.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _Stream(path, file).entries(key)
    except UnicodeDecodeError:
        raise InputError("is not UTF-8", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None


class _Stream:
    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path, self.file = path, file
        self.buffer, self.at, self.ended = "", 0, False
        self.decode = json.JSONDecoder().raw_decode
        self.record: int | str | None = None

    def pieces(self, arrays: Collection[str]) -> Iterator[Piece]:
        first = self.peek()
        if first == "[":
            yield from self.elements("")
        elif first == "{":
            yield from self.members(arrays)
        else:
            raise self.fault("expected an array or an object")
        self.record = None
        if self.peek():
            raise self.fault("has text behind the end of its JSON")

    def entries(self, wanted: str) -> Iterator[tuple[str, Any]]:
        if self.peek() != "{":
            raise self.fault("expected an object")
        for key in self.keys():
            if key == wanted and self.peek() == "{":
                for name in self.keys():
                    self.record = name
                    value = self.value()
                    self.record = None
                    yield name, value
            elif key == wanted and self.peek() == "[":
                for piece in self.elements(key):
                    yield str((piece.number or 1) - 1), piece.value
                self.record = None
            else:
                self.record = key
                self.value()
                self.record = None
        if self.peek():
            raise self.fault("has text behind the end of its JSON")

    def keys(self) -> Iterator[str]:
        """Yields the keys of the object that starts here; the caller reads their values."""
        self.at += 1
        if self.peek() == "}":
            self.at += 1
            return
        while True:
            key = self.value()
            if not isinstance(key, str):
                raise self.fault("is not JSON: expected a key")
            self.expect(":")
            yield key
            if self.expect(",}") == "}":
                return

    def members(self, arrays: Collection[str]) -> Iterator[Piece]:
        for key in self.keys():
            if key in arrays and self.peek() == "[":
                yield from self.elements(key)
                self.record = None
            else:
                self.record = key
                value = self.value()
                self.record = None
                yield Piece(key, None, value)

    def elements(self, key: str) -> Iterator[Piece]:
        self.at += 1
        if self.peek() == "]":
            self.at += 1
            return
        number = 0
        while True:
            number += 1
            self.record = number
            value = self.value()
            stop = self.expect(",]")
            yield Piece(key, number, value)
            if stop == "]":
                return

    def value(self) -> Any:
        """Decodes the value that starts here, reading on until all of it is in the buffer."""
        self.peek()
        while True:
            try:
                value, end = self.decode(self.buffer, self.at)
            except json.JSONDecodeError as error:
                near = error.pos >= len(self.buffer) - _NEAR_END
                if not self.ended and (near or error.msg.startswith("Unterminated string")):
                    self.more()
                    continue
                if self.ended and (near or error.msg.startswith("Unterminated string")):
                    raise self.fault("is cut off: the file ends inside it") from None
                raise self.fault(f"is not JSON: {error.msg}") from None
            except ValueError:  # Python reads no integer of more than 4,300 digits
                raise self.fault("holds a number too long to read") from None
            except RecursionError:
                raise self.fault("is nested too deeply to read") from None
            if len(self.buffer) - end < _NUMBER_TAIL and not self.ended:
                self.more()
                continue
            self.at = end
            return value

    def peek(self) -> str:
        """Returns the next character that is no white space, '' at the end of the file."""
        while True:
            match = _SPACE.match(self.buffer, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.buffer):
                return self.buffer[self.at]
            if self.ended:
                return ""
            self.more()

    def expect(self, characters: str) -> str:
        found = self.peek()
        if not found:
            raise self.fault("is cut off: the file ends inside it")
        if found not in characters:
            raise self.fault(f"is not JSON: expected {' or '.join(characters)}, found {found!r}")
        self.at += 1
        return found

    def more(self) -> None:
        # As much again as is waiting: a long value costs time in proportion to its length.
        waiting = self.buffer[self.at :]
        chunk = self.file.read(max(_CHUNK, len(waiting)))
        self.ended = not chunk
        self.buffer, self.at = waiting + chunk, 0

    def fault(self, problem: str) -> InputError:
        return InputError(problem, file=self.path, record=self.record)

"""JSON as a tree that may be what no parser would give: keys twice, tokens that are no JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class Raw(str):
    """Text that is written as it stands."""


class Members(list[list[Any]]):
    """An object as a list of [key, value]."""


@dataclass
class Document:
    """A JSON file: one value, or (`lines`) a value a line in a list."""

    value: Any
    lines: bool

    def encode(self) -> bytes:
        text = "".join(dump(v) + "\n" for v in self.value) if self.lines else dump(self.value)
        return text.encode("utf-8", "surrogatepass")

    def holder(self, at: str) -> list[Any] | None:
        """The list (of elements or members) that holds the records: the top, or a member of it."""
        if not at:
            return self.value if isinstance(self.value, list) else None
        if isinstance(self.value, Members):
            found = [v for k, v in self.value if k == at]
            return found[0] if found and isinstance(found[0], list) else None
        return None


def parse(data: bytes) -> Document | None:
    """The file as a document, None where it is no JSON."""
    text = data.decode("utf-8", "replace")
    try:
        return Document(_load(text), False)
    except (ValueError, RecursionError):
        pass
    try:
        return Document([_load(line) for line in text.split("\n") if line.strip()], True)
    except (ValueError, RecursionError):
        return None


def _load(text: str) -> Any:
    return json.loads(text, object_pairs_hook=lambda pairs: Members([k, v] for k, v in pairs))


def dump(value: Any) -> str:
    """The value as text."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Members):
        return "{" + ", ".join(f"{_key(k)}: {dump(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dump, value)) + "]"
    return json.dumps(value)


def _key(key: Any) -> str:
    return str(key) if isinstance(key, Raw) else json.dumps(key)


@dataclass(frozen=True)
class Place:
    """Where a value stands: `holder[index]`, and inside which record of which holder."""

    holder: list[Any]
    index: int
    path: tuple[int, ...]


def places(value: Any, path: tuple[int, ...] = ()) -> Iterator[Place]:
    """Every place in the tree, outer ones first; a path counts members and elements."""
    if not isinstance(value, list) or len(path) > 40:
        return
    for index, entry in enumerate(value):
        here = (*path, index)
        yield Place(value, index, here)
        yield from places(entry[1] if isinstance(value, Members) else entry, here)

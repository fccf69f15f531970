"""What an import read, kept and dropped, and why: nothing happens in silence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from thetascope.errors import one_line
from thetascope.readers.values import clean_text


@dataclass
class Dropped:
    """Records left out for one reason: how many, and where the first one stands."""

    reason: str
    n: int
    first: str


@dataclass
class ImportReport:
    """The account of one import.

    Attributes:
        sources: Files read, by name, each with its format.
        read: Records read.
        kept: Responses kept.
        dropped: Records left out, by reason.
        ignored: Files in the source folder that no reader claims.
        notes: Choices made on the way, one line each (metric, filter, duplicates).
        text_rule: How the items' texts were made; empty where there are none.
        texts: Up to three (item_id, text) made by that rule, to look at.
    """

    sources: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    read: int = 0
    kept: int = 0
    dropped: dict[str, Dropped] = field(default_factory=dict[str, Dropped])
    ignored: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    text_rule: str = ""
    texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def drop(self, reason: str, file: str, record: int | str, n: int = 1) -> None:
        """Counts `n` records left out for `reason`, remembering where the first stands."""
        if n == 0:
            return
        reason = clean_text(reason)
        if reason in self.dropped:
            self.dropped[reason].n += n
        else:
            self.dropped[reason] = Dropped(reason, n, clean_text(f"{file}, record {record}"))

    def note(self, text: str) -> None:
        """Adds a line to the notes, once."""
        text = clean_text(text)
        if text not in self.notes:
            self.notes.append(text)

    def to_json(self) -> dict[str, Any]:
        """The account without texts and absolute paths, as kept in `study.json`."""
        return {
            "sources": [{"file": f, "format": fmt} for f, fmt in self.sources],
            "read": self.read,
            "kept": self.kept,
            "dropped": [vars(d) for d in self.dropped.values()],
            "ignored": self.ignored,
            "notes": self.notes,
            "text_rule": self.text_rule,
        }

    def lines(self) -> list[str]:
        """The account as lines for a person."""
        formats = sorted({fmt for _, fmt in self.sources})
        lines = [
            f"read     {self.read:,} records from {len(self.sources)} file"
            f"{'' if len(self.sources) == 1 else 's'} ({', '.join(formats)})",
            f"kept     {self.kept:,} responses",
        ]
        lines += [
            f"dropped  {d.n:,}: {one_line(d.reason)} (first: {one_line(d.first)})"
            for d in self.dropped.values()
        ]
        if self.ignored:
            more = f" and {len(self.ignored) - 1} more" if len(self.ignored) > 1 else ""
            lines.append(f"ignored  {one_line(self.ignored[0])}{more}: no known format")
        lines += [f"note     {one_line(note)}" for note in self.notes]
        if self.text_rule:
            lines.append(f"texts    {one_line(self.text_rule)}")
            lines += [
                f"         {one_line(item, 200)}: {_shorten(text)}" for item, text in self.texts
            ]
        return lines


def _shorten(text: str, limit: int = 100) -> str:
    flat = " ".join(text.split())
    return one_line(flat if len(flat) <= limit else flat[: limit - 3] + "...")

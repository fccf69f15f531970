"""Printing: lines and tables for a person, one JSON object for a program."""

from __future__ import annotations

import json
import math
import sys
import time
import unicodedata
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from thetascope.evaluation import Estimate
from thetascope.study.derived import Made


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Lets `main` end quietly, as every filter of lines does."""
        raise BrokenPipeError


console = _Console(highlight=False, soft_wrap=True)
_EVERY = 0.2
_UNFOLDED = 100_000
"""Characters a line that no row reaches."""


def print_json(value: Any) -> None:
    """Prints one JSON object."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def visible(text: str) -> str:
    """The text with control characters, line breaks and direction marks as escapes.

    A name from a file must not move the cursor or turn the line of the person who reads it.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or unicodedata.category(c) == "Zs"
        else c.encode("unicode_escape").decode("ascii")
        for c in text
    )  # fmt: skip


def say(*lines: str) -> None:
    """Prints lines as they are: ids with brackets are no markup."""
    for line in lines:
        console.print(Text(visible(line)))


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Prints a table; the first `left` columns are text, the others numbers.

    In a terminal long cells fold at its width; into a file or a pipe every row is one line.
    """
    out = Table(
        title=Text(visible(title)),
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for i, name in enumerate(header):
        out.add_column(
            Text(visible(name)), justify="left" if i < left else "right", overflow="fold"
        )
    for row in rows:
        out.add_row(*(Text(visible(cell)) for cell in row))
    wide = console.width if console.is_terminal else _UNFOLDED
    _Console(highlight=False, width=wide).print(out)


def percent(estimate: Estimate, digits: int = 1) -> str:
    """'78.5 [77.1, 79.8]' in percent."""
    return _interval(estimate, 100.0, digits)


def number(estimate: Estimate, digits: int = 3) -> str:
    """'0.461 [0.450, 0.473]'."""
    return _interval(estimate, 1.0, digits)


def _interval(e: Estimate, scale: float, digits: int) -> str:
    if e.value != e.value:
        return "-"
    text = f"{scale * e.value:.{digits}f}"
    if e.low == e.low:
        text += f" [{scale * e.low:.{digits}f}, {scale * e.high:.{digits}f}]"
    return text


def triple(values: Any, digits: int, sign: str = "") -> str:
    """'0.44 [0.41, 0.47]' from [value, low, high]."""
    if values is None or values[0] is None or not math.isfinite(values[0]):
        return "-"
    text = f"{values[0]:{sign}.{digits}f}"
    if values[1] is None or not math.isfinite(values[1]):
        return text
    return f"{text} [{values[1]:{sign}.{digits}f}, {values[2]:{sign}.{digits}f}]"


def kept(made: Made) -> None:
    say("", f"{'kept in' if made.new else 'was already in'} {made.folder}")


class Progress:
    """A line on standard error that follows long work; silent where nobody looks."""

    def __init__(self) -> None:
        self.shown, self.start, self.last = sys.stderr.isatty(), time.monotonic(), 0.0

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if not self.shown or (now - self.last < _EVERY and done != total):
            return
        self.last = now
        share = f"{done}/{total} " if total > 0 else ""
        left = ""
        if total > 0 and 0 < done < total:
            left = f", {(now - self.start) / done * (total - done):.0f} s left"
        print(f"\r\x1b[K{share}{what}{left}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clears the line."""
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def progress() -> Generator[Progress]:
    """A progress line that is cleared at the end, also on an error."""
    line = Progress()
    try:
        yield line
    finally:
        line.close()

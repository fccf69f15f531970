"""The errors that thetascope raises on purpose.

Each message is one line that says where the fault is, what was expected and what was found,
written for the person who reads it. The command line prints it and exits with `exit_code`.
"""

from __future__ import annotations

from pathlib import Path


class ThetascopeError(Exception):
    """Base of every error raised on purpose; `exit_code` is the command line's exit status."""

    exit_code = 2


def one_line(text: str, limit: int = 2_000) -> str:
    """Returns the text as one line that any terminal can show, its middle left out if it is long.

    White space becomes single spaces, control characters and the like become escapes: what stood
    in a file must not move the cursor of the person who reads about it.
    """
    line = _shortened(" ".join(text.split()), limit)
    if line.isprintable():
        return line
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
    return _shortened("".join(shown), limit)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3]} ... {text[-(limit // 4) :]}"


class InputError(ThetascopeError):
    """Input that cannot be used as it is.

    Args:
        problem: What was expected and what was found.
        file: The file (or table) at fault.
        record: The record in it: a line or row number counted from 1, or a name.
        field: The field (column, key) at fault.
        fix: What the user can do about it.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        record: int | str | None = None,
        field: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = None if file is None else str(file)
        self.record = record
        self.field = field
        self.fix = fix
        place = [str(file)] if file is not None else []
        if record is not None:
            place.append(one_line(f"record {record}", 200))
        if field is not None:
            place.append(one_line(f"field {field!r}", 200))
        text = ": ".join([", ".join(place), problem] if place else [problem])
        if fix:
            text += f" ({fix})"
        super().__init__(one_line(text))


class MissingExtra(ThetascopeError):
    """A part of thetascope that needs packages outside the core install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs packages that are not installed; install them with:"
            f" pip install 'thetascope[{extra}]'"
        )


class StaleError(ThetascopeError):
    """A derived folder was made from other inputs than the study now holds."""


class LockedError(ThetascopeError):
    """Another process is writing to the study."""


class CheckFailed(ThetascopeError):
    """A check that the user asked for failed (exit status 1, not bad input)."""

    exit_code = 1

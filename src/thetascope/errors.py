"""The errors that thetascope raises on purpose.

Each message is one line that says where the fault is, what was expected and what was found,
written for the person who reads it. The command line prints it and exits with `exit_code`.
"""

from __future__ import annotations

from pathlib import Path


class ThetascopeError(Exception):
    """Base of every error raised on purpose; `exit_code` is the command line's exit status."""

    exit_code = 2


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
            place.append(f"record {record}")
        if field is not None:
            place.append(f"field {field!r}")
        text = ": ".join([", ".join(place), problem] if place else [problem])
        if fix:
            text += f" ({fix})"
        # One line that any terminal can show, whatever stood in the input.
        line = " ".join(text.split())
        super().__init__(line.encode("utf-8", "backslashreplace").decode("utf-8"))


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

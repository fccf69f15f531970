"""Writes a study in another format, into a new folder, and says what the format cannot hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from thetascope.errors import InputError
from thetascope.study import Study
from thetascope.study.files import is_free, new_folder
from thetascope.study.policies import repeated_pairs
from thetascope.writers import inspect, lm_eval, tables


class Writer(Protocol):
    """One foreign format: a module with these two functions."""

    @staticmethod
    def write(study: Study, folder: Path) -> None:
        """Writes the study's files into an empty folder."""
        ...

    @staticmethod
    def left_out(study: Study) -> list[str]:
        """What is not in the files, or not found again in them, each with its number."""
        ...


FORMATS: dict[str, Writer] = {"csv": tables, "lm-eval": lm_eval, "inspect": inspect}
"""Every writer by its format's name."""


def export_study(
    study: Study, to: Path, format: str, writers: Mapping[str, Writer] = FORMATS
) -> list[Path]:
    """Writes the study in a format into a new folder.

    The files are written aside and the folder is renamed at the end: `to` is complete or not
    there. Equal studies give equal bytes.

    Args:
        study: The study.
        to: The folder, which must not exist or be empty.
        format: 'csv', 'lm-eval' or 'inspect', or what else `writers` has.
        writers: By format; rooms that come later have writers of their own.

    Returns:
        The files, sorted. What they do not hold is told by `left_out`.

    Raises:
        InputError: The format is unknown, the folder holds something, the study is empty or
            has a nameless model or item, or the files cannot be written.
    """
    writer = _writer(format, writers)
    _check(study)
    target = Path(os.path.abspath(to))
    try:
        if not is_free(target):
            raise InputError("is there already: nothing is overwritten", file=to,
                             fix="name a new folder with --to")  # fmt: skip
        target.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(target) as aside:
            writer.write(study, aside)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=to) from None
    folder = Path(to)
    return sorted(folder / p.relative_to(target) for p in target.rglob("*") if p.is_file())


def left_out(study: Study, format: str, writers: Mapping[str, Writer] = FORMATS) -> list[str]:
    """Returns what an export does not hold, or a reader does not find in it, with numbers."""
    found = _writer(format, writers).left_out(study)
    n = repeated_pairs(study.responses).height
    if n:
        found.append(
            f"the policy '{study.policy}' for {n:,} (item, model) pairs with several runs:"
            " name it with --on-duplicate when the files are read"
        )
    return found


def _writer(format: str, writers: Mapping[str, Writer]) -> Writer:
    if format not in writers:
        raise InputError(f"unknown format {format!r}; known are {', '.join(writers)}")
    return writers[format]


def _check(study: Study) -> None:
    if not study.responses.height:
        raise InputError("the study has no responses: there is nothing to export")
    for table, column in (("models", "model"), ("items", "benchmark"), ("items", "source_id"),
                          ("runs", "run_id")):  # fmt: skip
        if (getattr(study, table)[column] == "").any():
            raise InputError("is empty: no reader takes it", file=f"table {table}", field=column)

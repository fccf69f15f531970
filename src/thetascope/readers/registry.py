"""All readers in one place, and `read`, which finds the right one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.options import ReadOptions
from thetascope.readers.records import NoItems
from thetascope.study import Study

HEAD = 1 << 16
_DEEPEST = 100
"""Folders inside folders: results lie a few deep."""


class Reader(Protocol):
    """One foreign format: a module with these three names."""

    @property
    def FORMAT(self) -> str:
        """Name of the format, as in `--format`."""
        ...

    @staticmethod
    def claims(path: Path, head: bytes) -> bool:
        """Whether this file (or folder, then `head` is empty) is of this format.

        `head` is the first 64 KiB of the file. Must be cheap and must not raise.
        """
        ...

    @staticmethod
    def read(path: Path, builder: StudyBuilder) -> None:
        """Reads the file or folder into the builder; raises InputError on what is wrong."""
        ...


def readers() -> dict[str, Reader]:
    """Every reader by its format's name, in the order in which they are asked."""
    from thetascope.readers import (
        alpaca_eval,
        bfcl,
        embedllm,
        evalplus,
        every_eval_ever,
        helm,
        inspect,
        lighteval,
        livecodebench,
        llm_router,
        lm_eval,
        lm_eval_old,
        mmlu_pro,
        mt_bench,
        openai_evals,
        opencompass,
        router_tables,
        swe_bench,
        tables,
        zeroeval,
    )

    modules: tuple[Reader, ...] = (
        helm,
        lm_eval,
        inspect,
        embedllm,
        alpaca_eval,
        llm_router,
        router_tables,
        openai_evals,
        swe_bench,
        lm_eval_old,
        livecodebench,
        mt_bench,
        bfcl,
        mmlu_pro,
        zeroeval,
        opencompass,
        lighteval,
        every_eval_ever,
        evalplus,
        tables,
    )
    return {m.FORMAT: m for m in modules}


def read(
    source: str | Path, *, format: str | None = None, options: ReadOptions | None = None
) -> Study:
    """Reads evaluation results from a file or folder into a Study.

    Args:
        source: A file, or a folder whose files are looked through.
        format: Name of the format; found by looking at the files where None.
        options: Choices about metric, filter, names and duplicates.

    Returns:
        The study; `study.report` is the ImportReport: read, kept, dropped and why.

    Raises:
        InputError: There is nothing readable, or a file is wrong; names file, record, field.
    """
    path = Path(source)
    known = readers()
    if format is not None and format not in known:
        raise InputError(f"unknown format {format!r}; known are {', '.join(known)}")
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise InputError("does not exist", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if path.suffix in (".pkl", ".pickle"):
        raise InputError(
            "is a pickle, which can run any program when it is opened: it is not read",
            file=path,
            fix="save its table as CSV or Parquet where you trust it",
        )
    builder = StudyBuilder(options or ReadOptions(), root=path if path.is_dir() else path.parent)
    candidates = {format: known[format]} if format else known
    if format is not None and path.is_file():
        found = [(known[format], path)]
    else:
        try:
            found = list(_claimed(path, candidates, builder))
        except OSError as error:
            place, problem = error.filename or path, error.strerror or error
            raise InputError(f"cannot be read: {problem}", file=place) from None
    if not found:
        raise InputError(
            "no file of a known format here" if path.is_dir() else "is of no known format",
            file=path,
            fix=f"name it with --format; known are {', '.join(known)}",
        )
    refusals: list[tuple[str, NoItems]] = []
    for reader, place in found:
        try:
            reader.read(place, builder)
        except NoItems as refusal:
            if len(found) == 1:
                raise
            refusals.append((builder.name(place), refusal))
    sources = {name for name, _ in builder.report.sources}
    for name, refusal in refusals:
        if name not in sources:  # a file may still tell what the records beside it leave out
            builder.report.note(f"not read: {name}: {refusal.problem}")
    return builder.build()


def _claimed(
    path: Path, known: dict[str, Reader], builder: StudyBuilder, depth: int = 0
) -> Iterator[tuple[Reader, Path]]:
    """Walks the folder in order of names; a claimed folder is not walked into."""
    if path.is_dir():
        for reader in known.values():
            if reader.claims(path, b""):
                yield reader, path
                return
        if depth == _DEEPEST:
            raise InputError(f"folders inside each other, more than {_DEEPEST} deep", file=path)
        with os.scandir(path) as entries:
            names = sorted(e.name for e in entries if not e.name.startswith("."))
        for name in names:
            child = path / name
            if child.is_dir() and child.is_symlink():
                builder.report.note(f"folder link not followed: {builder.name(child)}")
            else:
                yield from _claimed(child, known, builder, depth + 1)
        return
    if not path.is_file():  # a pipe or a device may never end; a link may lead nowhere
        builder.report.ignored.append(builder.name(path))
        return
    with path.open("rb") as file:
        head = file.read(HEAD)
    for reader in known.values():
        if reader.claims(path, head):
            yield reader, path
            return
    builder.report.ignored.append(builder.name(path))

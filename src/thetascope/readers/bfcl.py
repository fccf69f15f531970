"""BFCL's score files (`BFCL_v3_{category}_score.json`): a summary, then the failures only.

The first line has accuracy, correct_count and total_count; every other line is one failed
entry. What is not listed was right, but its id is told only by the failures' own ids: they must
be `{category}_{n}` with n below the total, and the counts must add up. Else the file is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.records import (
    NoItems,
    Record,
    identifier,
    item_text,
    name,
    needs_model,
    objects,
    outline,
)
from thetascope.readers.values import count, listing, mapping

FORMAT = "bfcl"

_NUMBERED = re.compile(r"(.+)_(\d{1,9})")
_MOST = 1_000_000
"""More entries than any category has: a total above it is a broken file."""


def claims(path: Path, head: bytes) -> bool:
    """JSON lines whose first record has accuracy, correct_count and total_count."""
    found = outline(head)
    keys = found.has("accuracy", "correct_count", "total_count")
    return path.suffix in (".json", ".jsonl") and found.frame == "{" and keys


@dataclass(frozen=True)
class _Failure:
    line: int
    source_id: str
    category: str
    number: int
    text: str | None


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one score file.

    Raises:
        InputError: The file is broken, or its counts do not add up.
        NoItems: The ids of the right answers cannot be told.
    """
    records = objects(path)
    first, summary = next(records)
    n_right, n = (_count(summary, key, path, first) for key in ("correct_count", "total_count"))
    failures: dict[str, _Failure] = {}
    model = builder.options.model
    for number, record in records:
        failure = _failure(record, builder, path, number)
        if failure.source_id in failures:
            raise InputError(
                f"{failure.source_id!r} is listed twice", file=path, record=number, field="id"
            )
        failures[failure.source_id] = failure
        if "model_name" in record and model is None:
            model = name(record, "model_name", file=path, number=number)
    if n_right + len(failures) != n:
        raise InputError(
            f"lists {len(failures):,} failures, but counts {n_right:,} right of {n:,}", file=path
        )
    category = _category(failures, n, path)
    benchmark = builder.options.benchmark or f"bfcl/{category}"
    run = builder.run(model or needs_model(builder, path), path, harness="bfcl")
    for record, source_id, text, score in _answers(failures, category, n):
        item = builder.item(benchmark, source_id, file=path, record=record, text=text)
        builder.respond(run, item, score, file=path, record=record, one=1.0)
    builder.report.read += n
    builder.rule("score", benchmark, "0 for the failures listed, 1 for the others")
    builder.report.note(
        f"{builder.name(path)}: {n_right:,} right answers are not in the file: they are the ids"
        f" from {category}_0 to {category}_{n - 1} that it does not list"
    )
    builder.source(path, FORMAT)


def _count(summary: Record, key: str, path: Path, number: int) -> int:
    value = summary.get(key)
    found = count(value)
    if found is None or found != value or found > _MOST:
        raise InputError("expected a whole number", file=path, record=number, field=key)
    return found


def _failure(record: Record, builder: StudyBuilder, path: Path, number: int) -> _Failure:
    source_id = identifier(record, "id", file=path, number=number)
    if record.get("valid") is not False:
        raise InputError(
            "expected false: only failures are listed", file=path, record=number, field="valid"
        )
    match = _NUMBERED.fullmatch(source_id)
    if match is None:
        raise NoItems(
            f"lists only failures, and from ids such as {source_id!r} those of the right answers"
            " cannot be told",
            file=path,
            record=number,
            fix="grade the result files, which list every entry, into a table",
        )
    text = item_text(
        record,
        _asked(record.get("prompt")),
        "the user's messages, of failures only",
        benchmark=builder.options.benchmark or f"bfcl/{match[1]}",
        builder=builder,
        file=path,
        number=number,
    )
    return _Failure(number, source_id, match[1], int(match[2]), text)


def _category(failures: dict[str, _Failure], n: int, path: Path) -> str:
    categories = list(dict.fromkeys(f.category for f in failures.values()))
    if len(categories) > 1:
        raise InputError(f"lists entries of {categories[0]} and of {categories[1]}", file=path)
    if not categories:
        raise NoItems(
            "lists no failures, so the ids of the right answers cannot be told",
            file=path,
            fix="grade the result files, which list every entry, into a table",
        )
    for failure in failures.values():
        if failure.number >= n or failure.source_id != f"{categories[0]}_{failure.number}":
            raise NoItems(
                f"lists the failure {failure.source_id!r} of {n:,} entries, so the ids of the right"
                " answers cannot be told",
                file=path,
                record=failure.line,
                fix="grade the result files, which list every entry, into a table",
            )
    return categories[0]


def _answers(
    failures: dict[str, _Failure], category: str, n: int
) -> Iterator[tuple[int, str, str | None, int]]:
    """(record, id, text, score) of every entry; what is not listed stands in the summary."""
    for number in range(n):
        source_id = f"{category}_{number}"
        failure = failures.get(source_id)
        yield (
            (1, source_id, None, 1)
            if failure is None
            else (failure.line, source_id, failure.text, 0)
        )


def _asked(prompt: Any) -> str | None:
    """The user's messages of all turns: {"question": [[{"role": "user", "content": ...}]]}."""
    turns = mapping(prompt).get("question")
    messages = [m for turn in listing(turns) for m in listing(turn)]
    said = [mapping(m).get("content") for m in messages if mapping(m).get("role") == "user"]
    return "\n".join(s for s in said if isinstance(s, str)) or None

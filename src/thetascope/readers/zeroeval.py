"""ZeroEval's outputs (`result_dirs/{data set}/{model}.json`): one array of raw answers.

The files hold no grades, and an answer is not graded here: only where somebody added a field
with a grade, and the user names it with `--metric`, is there a score.
"""

from __future__ import annotations

from pathlib import Path

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.records import (
    NoItems,
    Record,
    identifier,
    item_text,
    name,
    objects,
    optional_name,
    outline,
)
from thetascope.readers.texts import doc_text
from thetascope.readers.values import choose

FORMAT = "zeroeval"

_NOT_GRADES = {"session_id", "chat_history", "model_input", "output", "generator", "configs"}
_NOT_GRADES |= {"dataset", "id", "question", "answer", "choices", "source", "config", "task_type"}
_GRADES = ("correct", "is_correct", "matched", "score", "acc", "solved")


def claims(path: Path, head: bytes) -> bool:
    """An array of records with session_id, output and generator."""
    found = outline(head)
    keys = found.has("session_id", "chat_history", "output")
    return path.suffix == ".json" and found.frame == "[" and keys and b'"generator"' in head


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one file of outputs.

    Raises:
        NoItems: There is no grade, or the user did not name it.
        InputError: A record is broken, or a grade is none.
    """
    metric: str | None = None
    for number, record in objects(path):
        if metric is None:
            metric = _metric(record, builder.options.metric, path)
        builder.report.read += 1
        source_id = identifier(record, "id", file=path, number=number)
        model = name(record, "generator", file=path, number=number)
        benchmark = builder.options.benchmark or name(record, "dataset", file=path, number=number)
        if metric not in record:
            builder.report.drop(
                f"{benchmark}: no {metric} in the record", builder.name(path), number
            )
            continue
        builder.rule("score", benchmark, f"field {metric}")
        text, rule = doc_text(record) or (None, "")
        item = builder.item(
            benchmark,
            source_id,
            file=path,
            record=number,
            text=item_text(
                record,
                text,
                rule,
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=number,
            ),
            reference=optional_name(record.get("answer")),
        )
        run = builder.run(model, path, harness="zeroeval")
        builder.respond(run, item, record[metric], file=path, record=number, field=metric)
    builder.source(path, FORMAT)


def _metric(record: Record, option: str | None, path: Path) -> str:
    """The field that the user named as the grade; never one that was there all along."""
    fields = [key for key in record if key not in _NOT_GRADES]
    chosen = choose(option, fields)
    if chosen is not None:
        return chosen
    likely = [key for key in fields if key in _GRADES]
    if option is not None and likely:
        raise InputError(f"has no metric {option!r}; there are {', '.join(likely)}", file=path)
    raise NoItems(
        "holds answers, not grades",
        file=path,
        fix=f"if {likely[0]!r} is the grade, say so with --metric {likely[0]}"
        if likely
        else "grade them first, and add the grade to each record as a field 'correct'",
    )

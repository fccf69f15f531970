"""LiveCodeBench's performances_{scenario}.json: pass@1 in percent, by question and model.

One object; its array `performances` is streamed. pass@1 is a mean over several attempts whose
number is not in the file; -1 stands for a question that the model did not get.
"""

from __future__ import annotations

from pathlib import Path

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.json_stream import iter_pieces
from thetascope.readers.records import as_object, identifier, name, optional_name, outline
from thetascope.readers.values import clean_text

FORMAT = "livecodebench"

_METRIC = "pass@1"
_PERCENT = 100.0


def claims(path: Path, head: bytes) -> bool:
    """An object that begins with an array of performances, with pass@1 in it."""
    kinds = outline(head).kinds
    return path.suffix == ".json" and kinds.get("performances") == "[" and b'"pass@1"' in head


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one file.

    Raises:
        InputError: A record is broken, or a pass@1 is no percentage.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    scenario = clean_text(path.stem.removeprefix("performances_"))
    benchmark = builder.options.benchmark or f"livecodebench/{scenario}"
    builder.rule("score", benchmark, "pass@1 in percent, divided by 100")
    found = False
    for key, number, value in iter_pieces(path, ("performances",)):
        if number is None or key != "performances":
            continue
        found = True
        builder.report.read += 1
        record = as_object(value, file=path, record=number, field=None)
        question = identifier(record, "question_id", file=path, number=number)
        model = name(record, "model", file=path, number=number)
        score = record.get(_METRIC)
        if _METRIC not in record:
            raise InputError("is missing", file=path, record=number, field=_METRIC)
        if score == -1 and not isinstance(score, bool):
            builder.report.drop(
                "pass@1 is -1: the question was not evaluated", builder.name(path), number
            )
            continue
        item = builder.item(
            benchmark,
            question,
            file=path,
            record=number,
            subject=optional_name(record.get("platform")),
            difficulty=optional_name(record.get("difficulty")),
        )
        builder.respond(
            builder.run(model, path, harness="livecodebench"),
            item,
            score,
            file=path,
            record=number,
            field=_METRIC,
            one=_PERCENT,
        )
    if not found:
        raise InputError("has no performances", file=path)
    builder.source(path, FORMAT)

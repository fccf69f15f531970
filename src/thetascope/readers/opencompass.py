"""OpenCompass results with details: `results/{model}/{data set}.json`.

One object of averages and `details`: {"type": ..., "0": {prompt, predictions, references,
correct, ...}}, or a list of such entries. Some evaluators give no grade; those files, and the
predictions beside them, hold answers alone and are refused. Entries are streamed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.json_stream import iter_entries
from thetascope.readers.records import (
    NoItems,
    Record,
    as_object,
    item_text,
    needs_model,
    optional_name,
    outline,
)
from thetascope.readers.texts import common_start
from thetascope.readers.values import choose, clean_text

FORMAT = "opencompass"

_GRADE = "correct"
_SUMMARY = b"task,model_name,score"
"""LawBench's table of averages, made from OpenCompass predictions."""

_MARKS = (b'"origin_prompt"', b'"origin_prediction"', b'"predictions"', b'"pred"', b'"prompt"')


def claims(path: Path, head: bytes) -> bool:
    """An object with details, an object of predictions by number, or a summary."""
    if path.suffix == ".csv":
        return head.removeprefix(b"\xef\xbb\xbf").startswith(_SUMMARY)
    if path.suffix != ".json":
        return False
    frame, kinds = outline(head)
    if frame != "{" or not any(mark in head for mark in _MARKS):
        return False
    return kinds.get("details") in ("{", "[") or _are_predictions(kinds)


def _are_predictions(kinds: Record) -> bool:
    return bool(kinds) and all(k.isdecimal() and kind == "{" for k, kind in kinds.items())


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads the results of one model on one data set.

    Raises:
        InputError: The model cannot be told, or an entry is broken.
        NoItems: There are no grades.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    if path.suffix == ".csv":
        raise NoItems("is a summary: averages, not the items' results", file=path)
    try:
        with path.open("rb") as file:
            kinds = outline(file.read(1 << 16)).kinds
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if _are_predictions(kinds):
        raise NoItems(
            "holds predictions without grades",
            file=path,
            fix="give the file of the same name under results/, written with details",
        )
    _read_details(path, builder)


def _read_details(path: Path, builder: StudyBuilder) -> None:
    benchmark = clean_text(builder.options.benchmark or path.stem)
    metric: str | None = None
    run = cut = 0
    rule = ""
    for name, value in iter_entries(path, "details"):
        if name == "type" and isinstance(value, str):
            continue
        place = clean_text(name)
        entry = as_object(value, file=path, record=place)
        if metric is None:
            metric = _metric(entry, builder, path, place)
            builder.rule("score", benchmark, f"field {metric}")
            run = builder.run(_model(path, builder), path, harness="opencompass")
            cut = _shared_start(path) if builder.options.text_field is None else 0
            rule = f" without the first {cut:,} characters, common to all" if cut else ""
        builder.report.read += 1
        if metric not in entry:
            builder.report.drop(f"{benchmark}: no {metric} in the entry", builder.name(path), place)
            continue
        own, whole = _asked(entry)
        if own is not None and not whole:
            own = own[cut:].strip()
        item = builder.item(
            benchmark,
            name,
            file=path,
            record=place,
            text=item_text(
                entry,
                own,
                "the last message of the user" if whole else "the prompt" + rule,
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=place,
            ),
            reference=_reference(entry),
        )
        builder.respond(run, item, entry[metric], file=path, record=place, field=metric)
    if metric is None:
        raise NoItems(
            "has no details, only averages", file=path, fix="run again with --dump-eval-details"
        )
    builder.source(path, FORMAT)


def _metric(entry: Record, builder: StudyBuilder, path: Path, place: str) -> str:
    option = builder.options.metric
    if option is None and _GRADE in entry:
        return _GRADE
    chosen = choose(option, list(entry))
    if chosen is not None:
        return chosen
    if option is not None and _GRADE in entry:
        raise InputError(
            f"has no metric {option!r}; there are {', '.join(sorted(entry))}",
            file=path,
            record=place,
        )
    raise NoItems(
        "has details without a grade for each item",
        file=path,
        fix="evaluate again with an evaluator that writes 'correct', or name the field with the"
        " grade with --metric",
    )


def _model(path: Path, builder: StudyBuilder) -> str:
    folder = path.resolve().parent
    if builder.options.model is None and folder.parent.name == "results":
        builder.report.note("the model is the folder's name under results/")
        return folder.name
    return needs_model(builder, path, "the file does not lie in results/MODEL/")


def _asked(entry: Record) -> tuple[str | None, bool]:
    """The question, and whether it stands alone: a chat's last message, not a whole prompt."""
    prompt: Any = next((entry[k] for k in ("prompt", "origin_prompt") if k in entry), None)
    if isinstance(prompt, list):
        said = [m for m in prompt if isinstance(m, dict) and optional_name(m.get("prompt"))]
        users = [m for m in said if m.get("role") in ("HUMAN", "user")]
        return ((users or said)[-1]["prompt"] if said else None), True
    return optional_name(prompt), False


def _shared_start(path: Path) -> int:
    entries = (_asked(e) for _, e in iter_entries(path, "details") if isinstance(e, dict))
    return common_start(text for text, whole in entries if text is not None and not whole)


def _reference(entry: Record) -> str | None:
    value = next((entry[k] for k in ("references", "gold", "answer") if k in entry), None)
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

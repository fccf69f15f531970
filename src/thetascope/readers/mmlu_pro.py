"""MMLU-Pro's outputs (`model_outputs_{model}_{n}shots.json`): answers beside the right ones.

The files hold no grades. They are graded only if the user says so (`--metric pred`): 1 where
the stored `pred` is the stored `answer`. Where no answer was found in the output, `pred` is
null; MMLU-Pro then guesses at random, here the record is dropped and counted.
"""

from __future__ import annotations

import re
from pathlib import Path

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.records import (
    NoItems,
    identifier,
    item_text,
    name,
    needs_model,
    objects,
    optional_name,
    outline,
)
from thetascope.readers.texts import doc_text
from thetascope.readers.values import choose, clean_text, describe

FORMAT = "mmlu-pro"

_METRIC = "pred"
_NAME = re.compile(r"model_outputs_(?P<model>.+)_(?P<shots>\d+)shots?")


def claims(path: Path, head: bytes) -> bool:
    """An array of records with question_id, options, answer and pred."""
    found = outline(head)
    keys = found.has("question_id", "options", "answer")
    return path.suffix == ".json" and found.frame == "[" and keys and b'"pred"' in head


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one file of outputs.

    Raises:
        NoItems: The user did not ask for grading.
        InputError: The model cannot be told, or a record is broken.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    if choose(builder.options.metric, [_METRIC]) is None:
        raise NoItems(
            "holds answers, not grades",
            file=path,
            fix="--metric pred grades them: 1 where the stored 'pred' is the stored 'answer'",
        )
    match = _NAME.fullmatch(path.stem)
    if builder.options.model is None and match:
        builder.report.note(f"{builder.name(path)}: the model is from the file's name")
    model = clean_text(match["model"]) if match else needs_model(builder, path)
    benchmark = builder.options.benchmark or "mmlu_pro"
    run = builder.run(model, path, shots=int(match["shots"][:6]) if match else None)
    builder.rule("score", benchmark, "1 where 'pred' is 'answer', graded here")
    for number, record in objects(path):
        builder.report.read += 1
        question = identifier(record, "question_id", file=path, number=number)
        answer, picked = name(record, "answer", file=path, number=number), record.get(_METRIC)
        if picked is None or picked == "":
            builder.report.drop(
                "no answer was found in the output (pred is null)", builder.name(path), number
            )
            continue
        if not isinstance(picked, str):
            raise InputError(
                f"expected a letter, found {describe(picked)}",
                file=path,
                record=number,
                field=_METRIC,
            )
        text, rule = doc_text(record) or (None, "")
        item = builder.item(
            benchmark,
            question,
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
            subject=optional_name(record.get("category")),
            reference=answer,
        )
        builder.respond(run, item, picked == answer, file=path, record=number, one=1.0)
    builder.source(path, FORMAT)

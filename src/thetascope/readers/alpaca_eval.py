"""AlpacaEval's annotations.json: a judge's preference between a baseline and a model.

One array; `generator_1` is the baseline, `generator_2` the model. `preference` goes from 1 (the
baseline) to 2 (the model), with fractions in the weighted annotators; 1.5 is a tie, as is 0 in
the oldest files; null is an answer of the judge that could not be read. A preference says
something only beside its judge and its baseline, so both are in the benchmark's name.
"""

from __future__ import annotations

from pathlib import Path

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.records import NoItems, item_text, name, objects, optional_name, outline
from thetascope.readers.values import parse_score
from thetascope.study.text import text_hash

FORMAT = "alpaca-eval"

_LEADERBOARD = b",win_rate,standard_error,"


def claims(path: Path, head: bytes) -> bool:
    """An array of records with preference, generator_1 and generator_2, or a leaderboard."""
    if path.suffix == ".csv":
        return head.removeprefix(b"\xef\xbb\xbf").startswith(_LEADERBOARD)
    if path.suffix != ".json":
        return False
    found = outline(head)
    return found.frame == "[" and found.has("instruction", "generator_1", "generator_2")


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one file of annotations.

    Raises:
        InputError: A record is broken, or a preference is none.
        NoItems: It is a leaderboard.
    """
    if path.suffix == ".csv":
        raise NoItems(
            "is a leaderboard: averages over all items, not the items' results",
            file=path,
            fix="give the annotations.json of each model",
        )
    for number, record in objects(path):
        builder.report.read += 1
        instruction = name(record, "instruction", file=path, number=number)
        model = name(record, "generator_2", file=path, number=number)
        benchmark = builder.options.benchmark
        if benchmark is None:
            judge = name(record, "annotator", file=path, number=number)
            baseline = name(record, "generator_1", file=path, number=number)
            benchmark = f"alpaca_eval/{judge}/{baseline}"
        score = _score(record.get("preference"), path, number)
        if score is None:
            builder.report.drop(
                "no preference: the judge's answer could not be read", builder.name(path), number
            )
            continue
        item = builder.item(
            benchmark,
            text_hash(instruction),
            file=path,
            record=number,
            text=item_text(
                record,
                instruction,
                "the instruction",
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=number,
            ),
            subject=optional_name(record.get("dataset")),
        )
        builder.rule("score", benchmark, "preference - 1: 1 the model, 0.5 a tie, 0 the baseline")
        run = builder.run(model, path, harness="alpaca_eval")
        builder.respond(run, item, score, file=path, record=number, one=1.0)
    builder.source(path, FORMAT)


def _score(value: object, path: Path, number: int) -> float | None:
    half = parse_score(
        value, file=path, record=number, field="preference", scale=2.0, own_scale=True
    )
    if half is None:
        return None
    preference = 2 * half
    if preference == 0:  # the oldest files' tie
        return 0.5
    if preference < 1:
        raise InputError(
            f"must be from 1 (the baseline) to 2 (the model), found {preference:g}",
            file=path,
            record=number,
            field="preference",
        )
    return preference - 1

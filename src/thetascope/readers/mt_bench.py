"""MT-Bench judgements: JSON lines, a judge's grade from 1 to 10 for each turn of a dialogue.

A turn is an item of its own. Grades are scaled to (grade - 1) / 9; -1 stands for a judgement
without a grade. The questions stand only in the judge's prompt, between its instructions and
the model's answers, and are taken from there.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from thetascope.readers.values import describe, listing, parse_score

FORMAT = "mt-bench"

_BEST = 10
_QUESTION, _QUESTION_END = "[Question]\n", "\n\n[The Start of "
_DIALOGUE = "Assistant A's Conversation with User|>"
_ASKED, _ASKED_END = "### User:\n", "\n\n### Assistant A:\n"


def claims(path: Path, head: bytes) -> bool:
    """JSON or JSON lines whose records have question_id, judge, turn, and a score or a winner."""
    if path.suffix not in (".jsonl", ".json"):
        return False
    found = outline(head)
    return found.has("question_id", "judge") and (
        found.has("model", "score", "turn") or found.has("g1_winner")
    )


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one file of judgements.

    Raises:
        InputError: A record is broken, or a grade is not from 1 to 10.
        NoItems: The judgements compare two models.
    """
    for number, record in objects(path):
        if "g1_winner" in record:
            raise NoItems(
                "compares pairs of models, which is no score of one",
                file=path,
                record=number,
                fix="give the single-answer grades",
            )
        builder.report.read += 1
        question = identifier(record, "question_id", file=path, number=number)
        turn = record.get("turn")
        if isinstance(turn, bool) or not isinstance(turn, int) or turn < 1:
            found = str(turn) if isinstance(turn, int) else describe(turn)
            raise InputError(
                f"expected 1 or 2, found {found}", file=path, record=number, field="turn"
            )
        model = name(record, "model", file=path, number=number)
        benchmark = builder.options.benchmark or f"mt_bench/{_judge(record, path, number)}"
        score = _score(record.get("score"), path, number)
        if score is None:
            builder.report.drop("no grade in the judgement", builder.name(path), number)
            continue
        builder.rule("score", benchmark, "grade from 1 to 10, as (grade - 1) / 9")
        item = builder.item(
            benchmark,
            f"{question}/turn-{turn}",
            file=path,
            record=number,
            text=item_text(
                record,
                _text(record, turn),
                "the questions in the judge's prompt, up to the turn",
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=number,
            ),
        )
        run = builder.run(model, path, harness="mt-bench")
        builder.respond(run, item, score, file=path, record=number, one=1.0)
    builder.source(path, FORMAT)


def _judge(record: Record, path: Path, number: int) -> str:
    """The judging model; the prompt beside it differs between turns and kinds of question."""
    judge = record.get("judge")
    named = optional_name(next(iter(listing(judge)), judge))
    if named is None:
        raise InputError(
            f"expected a name, found {describe(judge)}", file=path, record=number, field="judge"
        )
    return named


def _score(value: object, path: Path, number: int) -> float | None:
    if value == -1 and not isinstance(value, bool):
        return None
    share = parse_score(value, file=path, record=number, field="score", scale=_BEST, own_scale=True)
    if share is None:
        return None
    grade = share * _BEST
    if grade < 1:
        raise InputError(
            f"must be from 1 to 10, found {grade:g}", file=path, record=number, field="score"
        )
    return (grade - 1) / (_BEST - 1)


def _between(text: str, start: str, end: str) -> Iterator[str]:
    """What stands between the marks, each time; a regular expression would take n² steps."""
    at = 0
    while (begin := text.find(start, at)) >= 0:
        begin += len(start)
        stop = text.find(end, begin)
        if stop < 0:
            return
        yield text[begin:stop]
        at = stop + len(end)


def _text(record: Record, turn: int) -> str | None:
    prompt = record.get("user_prompt")
    if not isinstance(prompt, str):
        return None
    single = next(_between(prompt, _QUESTION, _QUESTION_END), None)
    if single is not None:
        return single if turn == 1 else None
    asked = list(_between(prompt.partition(_DIALOGUE)[2], _ASKED, _ASKED_END))
    return "\n".join(asked[:turn]) if len(asked) >= turn else None

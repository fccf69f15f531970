"""MT-Bench judgements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

DIALOGUE = (
    "<|The Start of Reference Answer|>\n\n### User:\nRef?\n\n### Reference answer:\nx\n\n"
    "<|The Start of Assistant A's Conversation with User|>\n\n### User:\nWhy?\n\n### Assistant A:\n"
    "{}\n\n### User:\nAnd\nthen?\n\n### Assistant A:\n{}\n\n<|The End of Assistant A's"
    " Conversation with User|>"
)
SINGLE = "[Instruction]\nJudge.\n\n[Question]\nWhy?\n\n[The Start of Assistant's Answer]\n{}\n"


def record(question: Any, turn: Any, score: Any, **more: Any) -> dict[str, Any]:
    made = {"question_id": question, "model": "m", "judge": ["gpt-4", "single-v1"], "turn": turn}
    return {**made, "score": score, **more}


def write(folder: Path, *records: Any) -> Path:
    path = folder / "gpt-4_single.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def test_real_file(shared: Path) -> None:
    study = read(shared / "data/formats/mt_bench/judgements.jsonl")
    assert scores(study) == {"mt_bench/gpt-4:141/turn-2": 1.0, "mt_bench/gpt-4:117/turn-1": 1.0}
    assert study.models["model"].to_list() == ["gpt-4-1106-preview"]
    texts = dict(study.items.select("source_id", "text").iter_rows())
    assert texts["141/turn-2"] == (
        "In the field of quantum physics, what is superposition, and how does it relate to the"
        " phenomenon of quantum entanglement?\n"
        "What assumptions have you made in your response? Are they valid?"
    )
    assert texts["117/turn-1"] == (
        "How many integers are in the solution of the inequality |x + 5| < 10"
    )
    assert "score = grade from 1 to 10, as (grade - 1) / 9 (mt_bench/gpt-4)" in study.report.notes


def test_turns_are_items_and_grades_are_scaled(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        record(81, 1, 1, user_prompt=SINGLE.format("a")),
        record(81, 2, 5.5, user_prompt=DIALOGUE.format("a", "b")),
        record(82, 1, "10.0"),
        record(82, 2, -1),
        record(83, 1, None),
        record(81, 1, 7, model="n", user_prompt=SINGLE.format("b")),
        record(81, 2, 4, model="n", user_prompt=DIALOGUE.format("c", "d")),
    )
    study = read(path, options=ReadOptions(scale=10))
    assert study.responses.select("item_id", "model", "score").rows() == [
        ("mt_bench/gpt-4:81/turn-1", "m", 0.0),
        ("mt_bench/gpt-4:81/turn-2", "m", 0.5),
        ("mt_bench/gpt-4:82/turn-1", "m", 1.0),
        ("mt_bench/gpt-4:81/turn-1", "n", pytest.approx(6 / 9)),
        ("mt_bench/gpt-4:81/turn-2", "n", pytest.approx(3 / 9)),
    ]
    assert study.items["text"].to_list() == ["Why?", "Why?\nAnd\nthen?", None]
    dropped = study.report.dropped["no grade in the judgement"]
    assert (dropped.n, dropped.first) == (2, "gpt-4_single.jsonl, record 4")


def test_judges_are_benchmarks(tmp_path: Path) -> None:
    path = write(tmp_path, record(81, 1, 1), record(81, 1, 10, judge=["claude", "x"]))
    assert scores(read(path)) == {"mt_bench/gpt-4:81/turn-1": 0, "mt_bench/claude:81/turn-1": 1}


BROKEN = [
    (record(1, 1, 0.5), "record 1, field 'score': must be from 1 to 10, found 0.5"),
    (record(1, 1, 11), "record 1, field 'score': must be between 0 and 10, found 11"),
    (record(1, 1, "good"), "record 1, field 'score': expected a number from 0 to 10, found 'good'"),
    (record(1, 0, 5), "record 1, field 'turn': expected 1 or 2, found 0"),
    (record(1, "1", 5), "record 1, field 'turn': expected 1 or 2, found text"),
    (record(1, 1, 5, judge=[]), "record 1, field 'judge': expected a name, found a list"),
    (record([], 1, 5), "record 1, field 'question_id': expected a number or text, found a list"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_records(tmp_path: Path, broken: Any, message: str) -> None:
    path = write(tmp_path, broken)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, {message}")


def test_pairs_are_refused(tmp_path: Path) -> None:
    pair = {"question_id": 1, "model_1": "m", "model_2": "n", "g1_winner": "tie", "judge": ["j"]}
    path = write(tmp_path, pair)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}, record 1: compares pairs of models, which is no score of one"
        " (give the single-answer grades)"
    )

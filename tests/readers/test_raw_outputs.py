"""Files that hold answers, not grades: graded only where the user says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

PRED = ReadOptions(metric="pred")


def put(path: Path, *records: Any) -> Path:
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def test_real_mmlu_pro(shared: Path) -> None:
    path = shared / "data/formats/mmlu_pro/model_outputs_Yi-6B_5shots.json"
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: holds answers, not grades"
        " (--metric pred grades them: 1 where the stored 'pred' is the stored 'answer')"
    )
    study = read(path, options=PRED)
    assert scores(study) == {"mmlu_pro:70": 0.0, "mmlu_pro:71": 1.0, "mmlu_pro:72": 0.0}
    run = study.runs.row(0, named=True)
    assert (run["model"], run["shots"]) == ("Yi-6B", 5)
    row = study.items.row(0, named=True)
    assert (row["subject"], row["reference"]) == ("business", "I")
    assert row["text"].startswith("Typical advertising regulatory bodies suggest")
    assert "\nI. " in row["text"]


def test_real_zeroeval(shared: Path) -> None:
    path = shared / "data/formats/zeroeval/gsm_gpt-4o-2024-05-13.json"
    for options in (None, ReadOptions(metric="answer"), ReadOptions(metric="correct")):
        with pytest.raises(InputError) as caught:
            read(path, options=options)
        assert str(caught.value) == (
            f"{path}: holds answers, not grades"
            " (grade them first, and add the grade to each record as a field 'correct')"
        )


def pro(key: Any, picked: Any, **more: Any) -> dict[str, Any]:
    made = {"question_id": key, "question": "Why?", "options": ["a", "b"], "answer": "A"}
    return {**made, "answer_index": 0, "category": "law", "pred": picked, **more}


def test_mmlu_pro_without_an_answer(tmp_path: Path) -> None:
    path = put(tmp_path / "out.json", pro(1, "A"), pro(2, "B"), pro(3, None), pro(4, ""))
    with pytest.raises(InputError, match="cannot tell the model: the file does not say it"):
        read(path, options=PRED)
    study = read(path, options=ReadOptions(metric="acc,pred", model="m"))
    assert scores(study) == {"mmlu_pro:1": 1, "mmlu_pro:2": 0}
    dropped = study.report.dropped["no answer was found in the output (pred is null)"]
    assert (dropped.n, dropped.first) == (2, "out.json, record 3")
    assert "score = 1 where 'pred' is 'answer', graded here (mmlu_pro)" in study.report.notes


MMLU_PRO = [
    (pro(None, "A"), "field 'question_id': expected a number or text, found null"),
    (pro(1, 3), "field 'pred': expected a letter, found a number"),
    (pro(1, "A", answer=None), "field 'answer': expected a name, found null"),
]


@pytest.mark.parametrize(("broken", "message"), MMLU_PRO, ids=[m for _, m in MMLU_PRO])
def test_broken_mmlu_pro(tmp_path: Path, broken: Any, message: str) -> None:
    path = put(tmp_path / "model_outputs_m_0shots.json", pro(0, "A"), broken)
    with pytest.raises(InputError) as caught:
        read(path, options=PRED)
    assert str(caught.value) == f"{path}, record 2, {message}"


def zero(key: Any, **more: Any) -> dict[str, Any]:
    made = {"session_id": "s", "chat_history": ["long"], "output": ["18"], "generator": "maker/m"}
    return {**made, "dataset": "gsm", "id": key, "question": "Why?", "answer": "# 18", **more}


def test_zeroeval_with_a_grade(tmp_path: Path) -> None:
    path = put(
        tmp_path / "m.json",
        zero("a", correct=True),
        zero("b", correct="0.5"),
        zero("c", correct=None),
        zero("d"),
    )
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: holds answers, not grades"
        " (if 'correct' is the grade, say so with --metric correct)"
    )
    with pytest.raises(InputError, match="has no metric 'acc'; there are correct"):
        read(path, options=ReadOptions(metric="acc"))
    study = read(path, options=ReadOptions(metric="correct"))
    assert scores(study) == {"gsm:a": 1, "gsm:b": 0.5}
    assert study.models["model"].to_list() == ["maker/m"]
    assert study.items["text"].to_list() == ["Why?", "Why?"]
    assert {d.reason: d.n for d in study.report.dropped.values()} == {
        "no score (null or NaN)": 1,
        "gsm: no correct in the record": 1,
    }


ZEROEVAL = [
    (zero(None, correct=1), "field 'id': expected a number or text, found null"),
    (zero("b", correct="yes"), "field 'correct': expected a number from 0 to 1, found 'yes'"),
    (zero("b", correct=1, generator=1), "field 'generator': expected a name, found a number"),
    (zero("b", correct=1, dataset=""), "field 'dataset': is empty"),
]


@pytest.mark.parametrize(("broken", "message"), ZEROEVAL, ids=[m for _, m in ZEROEVAL])
def test_broken_zeroeval(tmp_path: Path, broken: Any, message: str) -> None:
    path = put(tmp_path / "m.json", zero("a", correct=1), broken)
    with pytest.raises(InputError) as caught:
        read(path, options=ReadOptions(metric="correct"))
    assert str(caught.value) == f"{path}, record 2, {message}"


def test_in_a_folder_they_are_noted(tmp_path: Path) -> None:
    put(tmp_path / "m.json", zero("a"))
    (tmp_path / "a.csv").write_text("item_id,model,score\nb:1,m,0\n", encoding="utf-8")
    study = read(tmp_path)
    assert scores(study) == {"b:1": 0}
    assert study.report.notes == ["not read: m.json: holds answers, not grades"]
    assert study.report.read == 1

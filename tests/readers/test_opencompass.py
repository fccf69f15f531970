"""OpenCompass results with details, and what beside them holds no grades."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study


def entry(prompt: Any = "Why?", **more: Any) -> dict[str, Any]:
    answer = {"origin_prediction": "So.", "predictions": "B", "references": "B"}
    return {"prompt": prompt, **answer, **more}


def write(folder: Path, details: Any, name: str = "quiz", model: str = "m-hf") -> Path:
    path = folder / "results" / model / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"accuracy": 50.0, "details": details}), encoding="utf-8")
    return path


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def test_real_files_hold_no_grades(shared: Path) -> None:
    folder = shared / "data/formats/opencompass"
    path = folder / "predictions/GPT4/1-2.json"
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: holds predictions without grades"
        " (give the file of the same name under results/, written with details)"
    )
    path = folder / "lawbench_results.csv"
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: is a summary: averages, not the items' results"


def test_details(tmp_path: Path) -> None:
    shots = "Q: 1+1?\nA: 2\n"
    write(
        tmp_path,
        {
            "type": "GEN",
            "0": entry(f"{shots}Q: Why?", correct=True),
            "1": entry(f"{shots}Q: How?", correct="False", references=0),
            "2": entry(f"{shots}Q: So?", correct=None),
            "3": entry(f"{shots}Q: When?"),
        },
    )
    study = read(tmp_path)
    assert scores(study) == {"quiz:0": 1.0, "quiz:1": 0.0}
    assert study.items["text"].to_list() == ["Q: Why?", "Q: How?"]
    assert study.items["reference"].to_list() == ["B", "0"]
    assert study.models["model"].to_list() == ["m-hf"]
    assert (study.report.read, study.report.kept) == (4, 2)
    assert {d.reason: d.n for d in study.report.dropped.values()} == {
        "no score (null or NaN)": 1,
        "quiz: no correct in the entry": 1,
    }
    assert study.report.notes[0] == "the model is the folder's name under results/"


def test_chats_lists_and_other_grades(tmp_path: Path) -> None:
    chat = [{"role": "HUMAN", "prompt": "1+1?"}, {"role": "BOT", "prompt": "2"}]
    asked = [*chat, {"role": "HUMAN", "prompt": "Why?"}]
    path = write(tmp_path, [entry(asked, judge_score=7)])
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: has details without a grade for each item (evaluate again with an evaluator"
        " that writes 'correct', or name the field with the grade with --metric)"
    )
    study = read(path, options=ReadOptions(metric="judge_score", scale=10))
    assert scores(study) == {"quiz:0": 0.7}
    assert study.items["text"].to_list() == ["Why?"]


def test_models_need_a_folder_or_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, {"0": entry(correct=True)})
    moved = path.rename(tmp_path / "quiz.json")
    with pytest.raises(InputError, match="the file does not lie in results/MODEL/"):
        read(moved)
    assert scores(read(moved, options=ReadOptions(model="m"))) == {"quiz:0": 1}


BROKEN: list[tuple[Any, str]] = [
    ({"0": entry(correct=True), "1": 1}, ", record 1: expected an object, found a number"),
    (
        {"0": entry(correct=[True])},
        ", record 0, field 'correct': expected a number from 0 to 1, found [True]",
    ),
    ({}, ": has no details, only averages (run again with --dump-eval-details)"),
    (None, ": has no details, only averages (run again with --dump-eval-details)"),
]


@pytest.mark.parametrize(("details", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_details(tmp_path: Path, details: Any, message: str) -> None:
    path = write(tmp_path, details)
    with pytest.raises(InputError) as caught:
        read(path, format="opencompass")
    assert str(caught.value) == f"{path}{message}"


def test_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path, {"0": entry(correct=True), "1": entry(correct=True)})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="record 1: is cut off: the file ends inside it"):
        read(path)

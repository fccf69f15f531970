"""Logs of OpenAI's evals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

SPEC = {"spec": {"completion_fns": ["maker/m"], "eval_name": "quiz.dev.v0", "run_id": "r"}}


def event(kind: str, sample: Any, **data: Any) -> dict[str, Any]:
    return {"run_id": "r", "event_id": 0, "sample_id": sample, "type": kind, "data": data}


def write(folder: Path, *records: Any, spec: Any = SPEC) -> Path:
    path = folder / "log.jsonl"
    lines = [spec, *records, {"final_report": {"accuracy": 1.0}, "run_id": "r"}]
    path.write_text("".join(json.dumps(r) + "\n" for r in lines), encoding="utf-8")
    return path


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def test_real_file(shared: Path) -> None:
    study = read(shared / "data/formats/openai_evals")
    assert scores(study) == {
        "test-match.s1.simple-v0:test-match.s1.2": 0.0,
        "test-match.s1.simple-v0:test-match.s1.1": 1.0,
        "test-match.s1.simple-v0:test-match.s1.0": 0.0,
    }
    row = study.items.filter(source_id="test-match.s1.1").row(0, named=True)
    assert row["text"] == "User: The first US president was \nAssistant:"
    assert row["reference"] == "George Washington"
    run = study.runs.row(0, named=True)
    assert (run["model"], run["date"]) == ("auto_gpt_completion_fn", "2023-04-17 22:08:21.904498")
    assert study.report.read == 3


def test_metrics(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        event("metrics", "q.0", accuracy=0.5, choice="A"),
        event("metrics", "q.1", accuracy=None, choice="B"),
        event("sampling", "q.2", prompt="Why?"),
        event("error", None, message="x"),
    )
    study = read(path)
    assert scores(study) == {"quiz.dev.v0:q.0": 0.5}
    assert (study.report.read, study.report.kept) == (3, 1)
    assert {d.reason: (d.n, d.first) for d in study.report.dropped.values()} == {
        "no score (null or NaN)": (1, "log.jsonl, record 3"),
        "quiz.dev.v0: sample without a grade (accuracy)": (1, "log.jsonl, record 4"),
    }


def test_several_metrics_need_a_choice(tmp_path: Path) -> None:
    path = write(tmp_path, event("metrics", "q.0", f1=0.5, em=0), event("match", "q.0", correct=1))
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: has the metrics f1, em, match (choose one with --metric, e.g. --metric f1)"
    )
    assert scores(read(path, options=ReadOptions(metric="match"))) == {"quiz.dev.v0:q.0": 1.0}
    assert scores(read(path, options=ReadOptions(metric="f1"))) == {"quiz.dev.v0:q.0": 0.5}
    with pytest.raises(InputError, match="has no metric 'acc'; there are f1, em, match"):
        read(path, options=ReadOptions(metric="acc"))


def test_several_events_of_a_sample_are_repeats(tmp_path: Path) -> None:
    path = write(tmp_path, *(event("match", "q.0", correct=c) for c in (True, True, False)))
    with pytest.raises(InputError, match="choose what counts with --on-duplicate"):
        read(path)
    study = read(path, options=ReadOptions(on_duplicate="mean"))
    assert study.pairs().select("score", "trials").row(0) == (pytest.approx(2 / 3), 3)


def test_texts(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    asked = [{"role": "system", "content": "Be brief."}, {"role": "system", "content": "How?"}]
    path = write(
        tmp_path,
        event("sampling", "q.0", prompt=chat, sampled="x"),
        event("sampling", "q.0", prompt="a grader's prompt", sampled="x"),
        event("sampling", "q.1", prompt=asked, sampled="x"),
        *(event("match", f"q.{i}", correct=True, expected=["a", 1]) for i in range(3)),
    )
    study = read(path)
    assert dict(study.items.select("source_id", "text").iter_rows()) == {
        "q.0": "Why?",
        "q.1": "How?",
        "q.2": None,
    }
    assert study.items["reference"][0] == "a | 1"
    assert study.report.text_rule == "the last user message (quiz.dev.v0)"


def test_grading_functions_are_no_models(tmp_path: Path) -> None:
    spec = {"spec": {"completion_fns": ["m", "grader"], "eval_name": "quiz"}}
    study = read(write(tmp_path, event("match", "q.0", correct=False), spec=spec))
    assert study.models["model"].to_list() == ["m"]
    assert "log.jsonl: of the completion functions m, grader the first is the model" in (
        study.report.notes
    )


BROKEN = [
    ([SPEC], "record 2: has a second spec: two logs in one file (split it)"),
    ([event("match", None, correct=1)], "record 2, field 'sample_id': expected a number or text"),
    ([event("match", "q.0")], "record 2, field 'data.correct': is missing"),
    (
        [event("match", "q.0", correct="x")],
        "record 2, field 'data.correct': expected a number from 0 to 1, found 'x'",
    ),
    ([event("metrics", "q.0", a=7)], "record 2, field 'data.a': must be between 0 and 1, found 7"),
    ([[]], "record 2: expected an object, found a list"),
    ([], "no responses were found; read 0 records"),
    (
        [event("sampling", "q.0", prompt="Why?")],
        "dropped 1: quiz.dev.v0: sample without a grade (first: log.jsonl, record 2)",
    ),
]


@pytest.mark.parametrize(("records", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_logs(tmp_path: Path, records: list[Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(write(tmp_path, *records))
    assert message in str(caught.value)


def test_logs_without_a_spec_or_a_model(tmp_path: Path) -> None:
    path = write(tmp_path, spec=event("match", "q.0", correct=1))
    with pytest.raises(InputError, match="record 1: expected the spec of a run"):
        read(path, format="openai-evals")
    path = write(tmp_path, spec={"spec": {"eval_name": "quiz"}})
    with pytest.raises(InputError, match="names no model"):
        read(path)

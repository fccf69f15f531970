"""Every Eval Ever's samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study


def record(sample: Any, score: Any, **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "0.3.0",
        "evaluation_id": "quiz/m/1",
        "model_id": "maker/m",
        "evaluation_name": "quiz",
        "sample_id": sample,
        "sample_hash": "h",
        "interaction_type": "single_turn",
        "input": {"raw": "Why?", "reference": ["B", "b"], "choices": ["red", "blue"]},
        "output": {"raw": ["B"]},
        "evaluation": {"score": score, "is_correct": True},
        "token_usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        **more,
    }


def write(folder: Path, *records: Any) -> Path:
    path = folder / "uuid_samples.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def test_samples(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        record("007", 1.0),
        record(7, 0.25, input={"raw": "How?\u2028", "formatted": "shots How?"}),
        record("8", None),
        record("9", 1, evaluation={"is_correct": False}),
        record("10", "True", messages=[], input=None),
    )
    study = read(path)
    assert scores(study) == {"quiz:007": 1.0, "quiz:7": 0.25, "quiz:10": 1.0}
    assert study.items["text"].to_list() == ["Why?\nA. red\nB. blue", "How?\u2028", None]
    assert study.items["reference"].to_list() == ["B | b", None, None]
    assert study.responses["n_tokens_in"].to_list() == [5, 5, 5]
    assert study.models["model"].to_list() == ["maker/m"]
    assert {d.reason: (d.n, d.first) for d in study.report.dropped.values()} == {
        "no score (null or NaN)": (1, "uuid_samples.jsonl, record 3"),
        "quiz: no score in the record": (1, "uuid_samples.jsonl, record 4"),
    }
    assert "score = evaluation.score (quiz)" in study.report.notes


def test_metric_and_scale(tmp_path: Path) -> None:
    path = write(tmp_path, record("1", 7))
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}, record 1, field 'evaluation.score': must be between 0 and 1, found 7"
        " (say what stands for 1 with --scale)"
    )
    assert scores(read(path, options=ReadOptions(scale=10))) == {"quiz:1": 0.7}
    assert scores(read(path, options=ReadOptions(metric="is_correct"))) == {"quiz:1": 1.0}
    with pytest.raises(InputError, match="has no metric 'acc'; there are score, is_correct"):
        read(path, options=ReadOptions(metric="acc"))


def test_the_summary_beside_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, record("1", 1))
    summary = {"schema_version": "0.3.0", "evaluation_id": "e", "evaluation_results": []}
    (tmp_path / "uuid.json").write_text(json.dumps(summary), encoding="utf-8")
    study = read(tmp_path)
    assert scores(study) == {"quiz:1": 1}
    assert "not read: uuid.json: is a summary: averages, not the items' results" in (
        study.report.notes
    )
    with pytest.raises(InputError, match="give the samples file"):
        read(tmp_path / "uuid.json")


BROKEN = [
    (record(None, 1), "field 'sample_id': expected a number or text, found null"),
    (record("1", 1, model_id=""), "field 'model_id': is empty"),
    (record("1", 1, evaluation_name=3), "field 'evaluation_name': expected a name, found a number"),
    (record("1", 1, evaluation=[]), "field 'evaluation': expected an object, found a list"),
    (record("1", "x"), "field 'evaluation.score': expected a number from 0 to 1, found 'x'"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_records(tmp_path: Path, broken: Any, message: str) -> None:
    path = write(tmp_path, record("0", 1), broken)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}, record 2, {message}"

"""EvalPlus and EvalPerf."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read

PLUS = ReadOptions(metric="plus", on_duplicate="mean")


def write(folder: Path, tasks: Any, **more: Any) -> Path:
    path = folder / "maker--m_vllm_temp_0.0_eval_results.json"
    path.write_text(json.dumps({"date": "2025", "eval": tasks, **more}), encoding="utf-8")
    return path


def sample(base: Any, plus: Any) -> dict[str, Any]:
    return {"task_id": "x", "solution": "def f(): ...", "base_status": base, "plus_status": plus}


def test_real_file(shared: Path) -> None:
    folder = shared / "data/formats/evalplus"
    study = read(folder)
    assert study.responses.select("item_id", "score", "trials").rows() == [
        ("evalperf:HumanEval/119", 0.06, 100),
        ("evalperf:Mbpp/16", 0.04, 100),
    ]
    assert study.models["model"].to_list() == ["01-ai/Yi-Coder-9B-Chat"]
    assert "score = pass@1 in percent, divided by 100 (evalperf)" in study.report.notes
    with pytest.raises(InputError, match="dropped 2: no score"):
        read(folder, options=ReadOptions(metric="dps"))


def test_samples(tmp_path: Path) -> None:
    tasks = {
        "HumanEval/0": [sample("pass", "pass"), sample("pass", "fail")],
        "HumanEval/1": [sample("pass", "timeout"), sample("fail", None)],
    }
    path = write(tmp_path, tasks)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}, record HumanEval/0: has the metrics base, plus"
        " (choose one with --metric, e.g. --metric plus)"
    )
    study = read(path, options=PLUS)
    assert study.pairs().sort("item_id").select("score", "trials").rows() == [(0.5, 2), (0.0, 1)]
    assert study.items["item_id"].to_list() == ["HumanEval+:HumanEval/0", "HumanEval+:HumanEval/1"]
    study = read(path, options=ReadOptions(metric="base", on_duplicate="first"))
    assert study.items["benchmark"].unique().to_list() == ["HumanEval"]
    assert study.models["model"].to_list() == ["maker/m"]


BROKEN: list[tuple[Any, str]] = [
    (
        {"HumanEval/0": [sample("pass", "ok")]},
        ", record HumanEval/0, field 'plus_status': expected pass, fail or timeout, found 'ok'",
    ),
    ({"HumanEval/0": [1]}, ", record HumanEval/0: expected an object, found a number"),
    ({"HumanEval/0": 1}, ", record HumanEval/0: expected an object, found a number"),
    ({"HumanEval/0": {}}, ", record HumanEval/0: has no metric 'plus'; there are none"),
    ({}, ", field 'eval': has no tasks"),
]


@pytest.mark.parametrize(("tasks", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_tasks(tmp_path: Path, tasks: Any, message: str) -> None:
    path = write(tmp_path, tasks)
    with pytest.raises(InputError) as caught:
        read(path, format="evalplus", options=PLUS)
    assert str(caught.value) == f"{path}{message}"


def test_a_name_without_a_model(tmp_path: Path) -> None:
    path = write(tmp_path, {"a/1": [sample("pass", "pass")]}).rename(tmp_path / "eval_results.json")
    with pytest.raises(InputError, match="the file's name is not MODEL_BACKEND_temp_"):
        read(path, options=PLUS)

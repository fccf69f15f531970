"""LiveCodeBench's performances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read


def record(question: Any, score: Any, **more: Any) -> dict[str, Any]:
    made = {"question_id": question, "model": "m", "difficulty": "easy", "platform": "atcoder"}
    return {**made, "date": 1, "pass@1": score, **more}


def write(folder: Path, *records: Any, **more: Any) -> Path:
    path = folder / "performances_generation.json"
    path.write_text(json.dumps({"performances": records, "models": [], **more}), encoding="utf-8")
    return path


def test_real_file(shared: Path) -> None:
    study = read(shared / "data/formats/livecodebench/performances_repair.json")
    assert dict(study.responses.select("item_id", "score").iter_rows()) == {
        "livecodebench/repair:1873_A": 0.8,
        "livecodebench/repair:1873_B": 0.3,
        "livecodebench/repair:1873_D": 0.0,
        "livecodebench/repair:1883_B": 0.7,
        "livecodebench/repair:1883_C": 0.0,
    }
    assert study.models["model"].to_list() == ["Qwen2-Ins-72B"]
    row = study.items.row(0, named=True)
    assert (row["subject"], row["difficulty"]) == ("codeforces", "easy")
    assert study.report.notes == [
        "score = pass@1 in percent, divided by 100 (livecodebench/repair)"
    ]


def test_questions_that_were_not_evaluated(tmp_path: Path) -> None:
    path = write(tmp_path, record("1", 1), record("01", -1), record(2, -1.0), record(3, None))
    study = read(path, options=ReadOptions(scale=10))
    assert study.responses.select("item_id", "score").rows() == [
        ("livecodebench/generation:1", 0.01)
    ]
    assert {d.reason: (d.n, d.first) for d in study.report.dropped.values()} == {
        "pass@1 is -1: the question was not evaluated": (
            2,
            "performances_generation.json, record 2",
        ),
        "no score (null or NaN)": (1, "performances_generation.json, record 4"),
    }


BROKEN = [
    (record("1", 101), "record 1, field 'pass@1': must be between 0 and 100, found 101"),
    (record("1", -2), "record 1, field 'pass@1': must be between 0 and 100, found -2"),
    (record("1", "x"), "record 1, field 'pass@1': expected a number from 0 to 100, found 'x'"),
    (record(None, 1), "record 1, field 'question_id': expected a number or text, found null"),
    (record("1", 1, model=""), "record 1, field 'model': is empty"),
    ({"question_id": "1", "model": "m"}, "record 1, field 'pass@1': is missing"),
    ("x", "record 1: expected an object, found text"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_records(tmp_path: Path, broken: Any, message: str) -> None:
    path = write(tmp_path, broken)
    with pytest.raises(InputError) as caught:
        read(path, format="livecodebench")
    assert str(caught.value).startswith(f"{path}, {message}")


def test_files_without_performances(tmp_path: Path) -> None:
    for performances in ([], None, {}):
        path = write(tmp_path, performances=performances)
        with pytest.raises(InputError, match="has no performances"):
            read(path, format="livecodebench")

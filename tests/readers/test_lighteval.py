"""lighteval's details."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

DATE = "2025-01-02T03-04-05.678901"


def doc(key: Any, query: Any = "Why?", **more: Any) -> dict[str, Any]:
    made = {"query": query, "choices": [" red", " blue"], "gold_index": [1], "instruction": "Hi."}
    return {**made, "id": key, "task_name": "leaderboard|arc:challenge|25", **more}


def write(folder: Path, docs: list[Any], metrics: list[Any], *, around: str = "") -> Path:
    path = folder / f"details/maker/m/{DATE}/details_leaderboard|arc:challenge|25_{DATE}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"doc": docs, "model_response": [{"text": ["x"]}] * len(docs), "metric": metrics}
    pl.DataFrame({f"{around}{k}{around}": v for k, v in columns.items()}).write_parquet(path)
    return path


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


@pytest.mark.parametrize("around", ["", "__"])
def test_details(tmp_path: Path, around: str) -> None:
    docs = [doc("0", "Hi. Why?"), doc("00"), doc("1", "How?", gold_index=[0, 1]), doc("2")]
    write(tmp_path, docs, [{"acc": v} for v in (1.0, 0.25, 0.0, float("nan"))], around=around)
    study = read(tmp_path)
    assert scores(study) == {
        "arc:challenge:0": 1.0,
        "arc:challenge:00": 0.25,
        "arc:challenge:1": 0.0,
    }
    assert study.items["text"].to_list() == ["Why?\nA. red\nB. blue"] * 2 + ["How?"]
    assert study.items["reference"].to_list() == ["blue", "blue", "red | blue"]
    run = study.runs.row(0, named=True)
    assert (run["model"], run["shots"], run["date"]) == ("maker/m", 25, DATE)
    assert study.report.dropped["no score (null or NaN)"].n == 1
    assert study.report.notes[0] == "the model is the folder's name under details/"


def test_metrics(tmp_path: Path) -> None:
    path = write(tmp_path, [doc("0")], [{"acc": 1, "acc_norm": 0, "pairs": [1, 0]}])
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: has the metrics acc, acc_norm (choose one with --metric, e.g. --metric acc)"
    )
    assert scores(read(path, options=ReadOptions(metric="acc_norm"))) == {"arc:challenge:0": 0}
    with pytest.raises(InputError, match="has no metric 'f1'; there are acc, acc_norm, pairs"):
        read(path, options=ReadOptions(metric="f1"))
    with pytest.raises(InputError, match=r"record 1, field 'pairs': expected a number from 0 to 1"):
        read(path, options=ReadOptions(metric="pairs"))


def test_models_need_a_folder_or_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, [doc("0", task_name="gsm8k|5")], [{"em": 1}])
    moved = path.rename(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="the file does not lie in details/MODEL/DATE/"):
        read(moved)
    assert scores(read(moved, options=ReadOptions(model="m"))) == {"gsm8k:0": 1}


BROKEN = [
    (doc(None), ", record 1, field 'id': expected a number or text, found null"),
    (doc(""), ", record 1, field 'id': is empty"),
    (doc(1.5), ", record 1, field 'id': expected a number or text, found a number"),
    (doc("0", task_name=None), ", record 1, field 'task_name': expected a name, found null"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_rows(tmp_path: Path, broken: Any, message: str) -> None:
    path = write(tmp_path, [broken], [{"acc": 1}])
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}{message}"


def test_other_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"doc": ["x"], "metric": ["y"]}).write_parquet(path)
    with pytest.raises(InputError, match="field 'doc': expected fields, found String"):
        read(path)
    pl.DataFrame({"full_prompt": ["x"], "metrics": ["y"]}).write_parquet(path)
    with pytest.raises(InputError, match="has the details of an earlier version of lighteval"):
        read(path)
    pl.DataFrame({"doc": ["x"], "other": ["y"]}).write_parquet(path)
    with pytest.raises(InputError, match="field 'doc': expected fields, found String"):
        read(path, format="lighteval")
    pl.DataFrame({"other": ["y"]}).write_parquet(path)
    with pytest.raises(InputError, match="field 'doc': the column is missing; found other"):
        read(path, format="lighteval")
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="cannot be read as a table"):
        read(path, format="lighteval")
    write(tmp_path, [doc("0")], [{"acc": 1}])
    cut = next(tmp_path.rglob("details_*"))
    cut.write_bytes(cut.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot be read as a table"):
        read(cut, format="lighteval")

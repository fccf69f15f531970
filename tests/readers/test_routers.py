"""LLMRouter's JSON, and the wide tables of RouterBench and RouteLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study


def scores(study: Study) -> dict[tuple[str, str], float]:
    rows = study.responses.join(study.items.select("item_id", "text"), on="item_id")
    return {(t, m): s for t, m, s in rows.select("text", "model", "score").iter_rows()}


def test_real_llmrouter(shared: Path) -> None:
    study = read(shared / "data/formats/llmrouter/dcrouter_test.json")
    found = scores(study)
    assert len(found) == 27
    assert found["Which statement is true?", "qwen2.5-7b-instruct"] == 1.0
    assert found["Which statement is true?", "gemma-2-9b-it"] == 0.0
    assert found["Identity refers to one's", "qwen2.5-7b-instruct"] == 0.0
    assert found["Identity refers to one's", "gemma-2-9b-it"] == 1.0
    assert study.report.read == 27
    assert study.items["benchmark"].unique().to_list() == ["llmrouter"]
    assert study.report.notes == ["the files name no benchmark: it is 'llmrouter'; see --benchmark"]


def test_real_route_llm(shared: Path) -> None:
    study = read(shared / "data/formats/routellm/mmlu_abstract_algebra.csv")
    found = {(t[:12], m[:5]): s for (t, m), s in scores(study).items()}
    assert found == {
        ("Find the deg", "mistr"): 1.0,
        ("Find the deg", "gpt-4"): 1.0,
        ("Let p = (1, ", "mistr"): 0.0,
        ("Let p = (1, ", "gpt-4"): 0.0,
        ("Find all zer", "mistr"): 0.0,
        ("Find all zer", "gpt-4"): 0.0,
    }
    assert study.items["benchmark"].unique().to_list() == ["mmlu_abstract_algebra"]
    assert sorted(study.models["model"]) == [
        "gpt-4-1106-preview",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
    ]


def llmrouter(folder: Path, *records: Any) -> Path:
    path = folder / "a.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def test_llmrouter_values(tmp_path: Path) -> None:
    given = {"a": 0.25, "b": "True", "c": "1.0", "d": None, "e": float("nan"), "f": False}
    path = llmrouter(
        tmp_path,
        {"question": "Why?", "scores": given, "task_name": "quiz"},
        {"question": "How?", "scores": {}, "task_name": "quiz"},
    )
    kept = {"a": 0.25, "b": 1, "c": 1, "f": 0}
    study = read(path)
    assert scores(study) == {("Why?", k): v for k, v in kept.items()}
    assert study.items["benchmark"].to_list() == ["quiz"]
    assert study.report.dropped["no score (null or NaN)"].n == 2


LLMROUTER = [
    (
        {"question": "Why?", "scores": {"m": "good"}},
        "field 'scores.m': expected a number from 0 to 1, found 'good'",
    ),
    (
        {"question": "Why?", "scores": {"m": 7}},
        ("field 'scores.m': must be between 0 and 1, found 7 (say what stands for 1 with --scale)"),
    ),
    ({"question": 1, "scores": {"m": 1}}, "field 'question': expected a name, found a number"),
    ({"question": "Why?", "scores": [1]}, "field 'scores': expected an object, found a list"),
]


@pytest.mark.parametrize(("broken", "message"), LLMROUTER, ids=[m for _, m in LLMROUTER])
def test_broken_llmrouter(tmp_path: Path, broken: Any, message: str) -> None:
    path = llmrouter(tmp_path, {"question": "So?", "scores": {"m": 1}}, broken)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}, record 2, {message}"


BENCH = (
    "sample_id,prompt,eval_name,m/1,n,m/1|model_response,n|model_response,m/1|total_cost,"
    "n|total_cost,oracle_model_to_route_to\n"
    '007,"[\'Be brief.\', ""It\'s\\nso?""]",quiz,1.0,0.25,"long, \n text",x,0.001,0.5,m/1\n'
    "7,[not a list,quiz,True,,x,x,,free,n\n"
    "7,So?,maths,0,1,x,x,-1,0,n\n"
)


def test_router_bench(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(BENCH, encoding="utf-8")
    study = read(tmp_path / "a.csv")
    assert study.responses.select("item_id", "model", "score", "cost_usd").rows() == [
        ("quiz:007", "m/1", 1.0, 0.001),
        ("quiz:7", "m/1", 1.0, None),
        ("maths:7", "m/1", 0.0, None),
        ("quiz:007", "n", 0.25, 0.5),
        ("maths:7", "n", 1.0, 0.0),
    ]
    texts = dict(study.items.select("item_id", "text").iter_rows())
    assert texts == {"quiz:007": "Be brief.\nIt's\nso?", "quiz:7": "[not a list", "maths:7": "So?"}
    assert (study.report.read, study.report.kept) == (6, 5)
    dropped = study.report.dropped["no score (null or NaN)"]
    assert (dropped.n, dropped.first) == (1, "a.csv, record 2")
    assert "m/1: 1 costs are no amount of money: not kept" in study.report.notes


def test_router_bench_in_parquet(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "sample_id": ["a", "b"],
            "prompt": ["Why?", "How?"],
            "eval_name": ["quiz", "quiz"],
            "m": [1.0, None],
            "m|model_response": ["x", "y"],
            "m|total_cost": [0.5, 0.25],
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    study = read(tmp_path / "a.parquet")
    assert study.responses.select("item_id", "score", "cost_usd").rows() == [("quiz:a", 1.0, 0.5)]


ODD = [
    "",
    "\u2028",
    "NaN",
    "inf",
    "-1",
    "1e999",
    "True",
    "1.0",
    "x" * 1_000_000,
    "['a'",
    "[" * 9999,
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:9])
def test_router_bench_with_odd_cells(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(BENCH, encoding="utf-8")
    frame = pl.read_csv(path, infer_schema=False)
    refused: set[str] = set()
    for column in frame.columns:
        cells = [odd, *frame[column].to_list()[1:]]
        frame.with_columns(pl.Series(column, cells)).write_csv(path)
        try:
            study = read(path, format="router-tables")
        except InputError:
            refused.add(column)
        else:
            assert study.responses["score"].is_between(0, 1).all()
    assert refused <= {"sample_id", "eval_name", "m/1", "n"}


def test_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    keys = {"sample_id": ["a"] * 9, "prompt": ["Why?"] * 9, "eval_name": ["quiz"] * 9}
    pl.DataFrame({**keys, "m": [1.0] * 9, "m|total_cost": [0.5] * 9}).write_parquet(path)
    data = path.read_bytes()
    for cut in range(0, len(data), 37):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError, match="cannot be read as a table"):
            read(path, format="router-tables")


def test_router_bench_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "routerbench_0shot.pkl").write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError, match="save its table as CSV or Parquet where you trust it"):
        read(tmp_path / "routerbench_0shot.pkl")


TABLES = [
    (
        BENCH.replace(",n,", ",o,", 1),
        "a.csv, field 'n': the column is missing, though there is 'n|total_cost'",
    ),
    (
        BENCH.replace("0.25", "good"),
        "a.csv, record 1, field 'n': expected a number from 0 to 1, found 'good'",
    ),
    (BENCH.replace("\n7,[", "\n,["), "a.csv, record 2, field 'sample_id': is empty"),
    (
        BENCH.replace("So?,maths", "So?,").replace("\n7,[", "\n8,["),
        "a.csv, record 3, field 'eval_name': is empty",
    ),
    (BENCH.splitlines()[0] + "\n", "a.csv: has no rows"),
    ("prompt,m,n\n,True,False\n", "a.csv, record 1, field 'prompt': is empty"),
    (
        "a,b\n1,2\n",
        (
            "a.csv: expected the columns sample_id, eval_name and MODEL|total_cost, or prompt"
            " and two models; found a, b"
        ),
    ),
    (BENCH.encode() + b"\xff,\n", "a.csv: cannot be read as a table: "),
]


@pytest.mark.parametrize(("data", "message"), TABLES, ids=[m for _, m in TABLES])
def test_broken_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str | bytes, message: str
) -> None:
    (tmp_path / "a.csv").write_bytes(data.encode() if isinstance(data, str) else data)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        read("a.csv", format="router-tables")
    assert str(caught.value).startswith(message)


def test_route_llm_benchmark_by_option(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt,m,n\nWhy?,True,False\n", encoding="utf-8")
    study = read(tmp_path / "a.csv", options=ReadOptions(benchmark="quiz"))
    assert study.items["benchmark"].to_list() == ["quiz"]
    assert study.report.notes == []


def test_other_tables_are_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt,answer,note\nWhy?,So,x\n", encoding="utf-8")
    with pytest.raises(InputError, match="is of no known format"):
        read(tmp_path / "a.csv")

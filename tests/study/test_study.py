"""Studies in memory: validation, policies, merging, filtering, renaming, texts, matrices."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest

from thetascope.errors import InputError
from thetascope.study import MISSING, RUN_POLICIES, Study, text_hash

ROWS = [
    ("a:1", "x", 1.0), ("a:2", "x", 0.0), ("b:1", "x", 1.0),
    ("a:1", "y", 0.0), ("a:2", "y", 1.0),
]  # fmt: skip


def responses(rows: list[tuple[Any, ...]] = ROWS, **columns: list[Any]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    return frame.with_columns(pl.Series(k, v) for k, v in columns.items())


def items(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"item_id": ["a:1", "a:2", "b:1"], "benchmark": ["a", "a", "b"], **columns})


def test_a_study_from_a_table_of_responses() -> None:
    study = Study.from_tables(responses())
    assert study.benchmarks == ["a", "b"]
    assert study.items["source_id"].to_list() == ["1", "2", "1"]
    assert study.models["model"].to_list() == ["x", "y"]
    assert study.responses["trials"].to_list() == [1] * 5
    matrix = study.matrix()
    assert matrix.scores.dtype == np.uint8
    assert matrix.scores.tolist() == [[1, 0], [0, 1], [1, MISSING]]  # absent is not wrong


def test_graded_scores_stay_numbers_and_absent_stays_absent() -> None:
    study = Study.from_tables(responses([("a:1", "x", 0.25), ("a:2", "x", 1.0), ("a:1", "y", 0.5)]))
    matrix = study.matrix()
    assert matrix.scores.dtype == np.float32
    assert matrix.observed.tolist() == [[True, True], [True, False]]
    assert not matrix.binary


def test_pandas_tables_are_welcome() -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(ROWS, columns=["item_id", "model", "score"])
    assert Study.from_tables(frame).responses.equals(Study.from_tables(responses()).responses)


def test_ids_of_two_benchmarks_never_meet() -> None:
    table = pl.DataFrame({"item_id": ["1", "q1"], "benchmark": ["a", "b"]})
    study = Study.from_tables(responses([("1", "x", 1.0), ("q1", "x", 0.0)]), table)
    assert study.items["item_id"].to_list() == ["a:1", "b:q1"]
    assert study.responses["item_id"].to_list() == ["a:1", "b:q1"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Study.from_tables([1, 2]), "table responses: expected a polars or pandas table, found list"),
        (lambda: Study.from_tables(responses().drop("score")), "table responses, field 'score': the column is missing; found item_id, model"),
        (lambda: Study.from_tables(responses([("a:1", "x", 1.5)])), "table responses, record 1, field 'score': must be between 0 and 1, found 1.5 (scale it to [0, 1] first)"),
        (lambda: Study.from_tables(responses([("a:1", "x", 1.0), ("a:2", "x", -0.1)])), "table responses, record 2, field 'score': must be between 0 and 1, found -0.1"),
        (lambda: Study.from_tables(responses([("a:1", "x", float("nan"))])), "table responses, record 1, field 'score': is NaN; leave the row out"),
        (lambda: Study.from_tables(responses([("a:1", "x", None), ("a:2", "x", 1.0)])), "table responses, record 1, field 'score': must not be null"),
        (lambda: Study.from_tables(responses([("a:1", None, 1.0)])), "table responses, record 1, field 'model': must not be null"),
        (lambda: Study.from_tables(responses([("a:1", "x", "good")])), "table responses, record 1, field 'score': must be a number, found 'good'"),
        (lambda: Study.from_tables(responses(trials=[1, 1, 0, 1, 1])), "table responses, record 3, field 'trials': must be at least 1, found 0"),
        (lambda: Study.from_tables(responses(trials=[1, 1, None, 1, 1])), "table responses, record 3, field 'trials': must not be null"),
        (lambda: Study.from_tables(responses(cost_usd=[0, 0, 0, 0, -2])), "table responses, record 5, field 'cost_usd': must be at least 0, found -2.0"),
        (lambda: Study.from_tables(responses(colour=["r"] * 5)), "table responses, field 'colour': unknown column; known are item_id, model, run_id"),
        (lambda: Study.from_tables(responses([("a:1", "x", 1.0), ("a:1", "x", 0.0)])), "table responses, field 'item_id + model + run_id': item_id='a:1', model='x', run_id='x' occurs 2 times, must be unique"),
        (lambda: Study.from_tables(responses([("lonely", "x", 1.0)])), "table items, field 'benchmark': cannot tell the benchmark of item 'lonely'"),
        (lambda: Study.from_tables(responses(), items().head(2)), "table responses, record 3, field 'item_id': 'b:1' is not in table items"),
        (lambda: Study.from_tables(responses(), models=pl.DataFrame({"model": ["x"]})), "table responses, record 4, field 'model': 'y' is not in table models"),
        (lambda: Study.from_tables(responses(), models=pl.DataFrame({"model": ["x", "y", "x"]})), "table models, field 'model': model='x' occurs 2 times, must be unique"),
        (lambda: Study.from_tables(responses(), items(chance=[0.25, 2.0, 0.5])), "table items, record 2, field 'chance': must be between 0 and 1, found 2.0"),
        (lambda: Study.from_tables(responses(), pl.concat([items(), items().head(1)])), "table items, field 'item_id': item_id='a:1' occurs 2 times, must be unique"),
        (lambda: Study.from_tables(responses(), items(source_id=["1", "2", "9"])), "table items, record 3, field 'item_id': must be 'benchmark:source_id' = 'b:9', found 'b:1'"),
        (lambda: Study.from_tables(responses([("a:1", "x", 1.0), ("all:1", "x", 1.0)])), "table items, record 2, field 'benchmark': a benchmark cannot be called 'all' beside others"),
        (lambda: Study.from_tables(responses([(1.5, "x", 1.0)]), pl.DataFrame({"item_id": ["a:1"], "benchmark": ["a"]})), "table responses, field 'item_id': ids and names must be strings, found Float64"),
        (lambda: Study.from_tables(responses(), policy="best"), "unknown policy 'best' for two runs of one pair, expected one of error, first, last, mean, keep"),  # type: ignore[arg-type]
        (lambda: Study.from_tables(responses()).filter(models=["z"]), "no model named 'z'; there are x, y"),
        (lambda: Study.from_tables(responses()).filter(benchmarks=["b"], models=["y"]), "no responses are left after the filter"),
        (lambda: Study.from_tables(responses()).rename_models({"q": "r"}), "no model named 'q'; there are x, y"),
        (lambda: Study.from_tables(responses(), items(text=["p", "q", "r"])).attach_texts({"a:1": "other"}), "the text given for 'a:1' is not the one that was evaluated"),
    ],
)  # fmt: skip
def test_bad_tables_name_table_row_column_and_rule(make: Any, message: str) -> None:
    with pytest.raises(InputError, match="^" + re.escape(message)) as caught:
        make()
    assert "\n" not in str(caught.value)


def _two_runs(policy: str) -> Study:
    table = responses(
        [("a:1", "x", 1.0), ("a:1", "x", 0.0), ("a:1", "x", 0.0), ("a:2", "x", 1.0)],
        run_id=["r1", "r2", "r3", "r1"], trials=[1, 1, 2, 1],
    )  # fmt: skip
    runs = pl.DataFrame({"run_id": ["r1", "r2", "r3"], "model": ["x"] * 3})
    return Study.from_tables(table, runs=runs, policy=policy)  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "score"), [("first", 1.0), ("last", 0.0), ("mean", 0.25)])
def test_two_runs_of_one_pair_follow_the_policy(policy: str, score: float) -> None:
    study = _two_runs(policy)
    assert study.pairs().filter(item_id="a:1")["score"].to_list() == [score]
    assert study.responses.height == 4  # all runs are kept
    assert study.matrix().filled()[0, 0] == score


def test_no_policy_is_an_error_that_names_them() -> None:
    study = _two_runs("error")
    with pytest.raises(InputError, match=r"'a:1' x 'x' in runs r1, r2, r3; choose .*first\|last"):
        study.matrix()
    assert RUN_POLICIES == ("error", "first", "last", "mean", "keep")


def test_keep_scores_every_row_and_weighs_the_pair_by_its_rows() -> None:
    matrix = _two_runs("keep").matrix()
    assert matrix.rows is not None
    item, model, score = matrix.rows
    assert sorted(zip(item, model, score, strict=True)) == [
        (0, 0, 0.0), (0, 0, 0.0), (0, 0, 1.0), (1, 0, 1.0),
    ]  # fmt: skip
    assert matrix.scores[0, 0] == np.float32(0.25)
    assert matrix.weights is not None
    assert matrix.weights.tolist() == [[4.0], [1.0]]


def test_merging_next_weeks_run() -> None:
    first = Study.from_tables(responses(), items(text=["p", None, None]))
    second = Study.from_tables(
        responses([("a:1", "z", 1.0), ("c:9", "z", 0.0)]),
        pl.DataFrame({"item_id": ["a:1", "c:9"], "benchmark": ["a", "c"], "text": ["p", "t"]}),
    )
    merged = first.merge(second)
    assert merged.items["item_id"].to_list() == ["a:1", "a:2", "b:1", "c:9"]
    assert merged.items["text"].to_list() == ["p", None, None, "t"]
    assert merged.models["model"].to_list() == ["x", "y", "z"]
    assert merged.responses.height == 7
    assert merged.merge(second).responses.equals(merged.responses)  # once is enough


def test_merging_refuses_contradictions() -> None:
    first = Study.from_tables(responses(), items(text=["p", "q", "r"]))
    other_text = Study.from_tables(
        responses([("a:1", "z", 1.0)]),
        pl.DataFrame({"item_id": ["a:1"], "benchmark": ["a"], "text": ["another"]}),
    )
    with pytest.raises(InputError, match="table items, field 'text': 'a:1' has two different"):
        first.merge(other_text)
    changed = Study.from_tables(responses([("a:1", "x", 0.0)]))
    with pytest.raises(InputError, match="run 'x' is already in the study with score 1, now 0"):
        first.merge(changed)
    again = Study.from_tables(responses([("a:1", "x", 0.0)], run_id=["later"]))
    with pytest.raises(InputError, match="more than one response, first 'a:1' x 'x'"):
        first.merge(again)
    assert first.merge(again, "last").pairs().filter(item_id="a:1", model="x")["score"][0] == 0.0


def test_texts_that_differ_in_white_space_alone_are_one() -> None:
    first = Study.from_tables(responses(), items(text=["p  q", "q", "r"]))
    second = Study.from_tables(
        responses([("a:1", "z", 1.0)]),
        pl.DataFrame({"item_id": ["a:1"], "benchmark": ["a"], "text": [" p\nq "]}),
    )
    assert first.merge(second).items["text"][0] == "p  q"
    assert text_hash("p  q") == text_hash(" p\nq ") != text_hash("P q")


def test_filter_keeps_what_belongs_together() -> None:
    study = Study.from_tables(responses(), items(subject=["s", "t", "s"]))
    part = study.filter(benchmarks=["a"], models=["y"])
    assert part.responses["item_id"].to_list() == ["a:1", "a:2"]
    assert part.runs["run_id"].to_list() == ["y"]
    assert study.filter(subjects=["s"]).items["item_id"].to_list() == ["a:1", "b:1"]
    assert study.filter(items=["b:1"]).models["model"].to_list() == ["x", "y"]


def test_renaming_two_models_to_one_keeps_their_runs_apart() -> None:
    study = Study.from_tables(responses()).rename_models({"y": "x"})
    assert study.models["model"].to_list() == ["x"]
    assert study.responses.height == 5
    with pytest.raises(InputError, match="more than one response"):
        study.matrix()


def test_texts_come_later_and_must_be_the_right_ones() -> None:
    hashes = [text_hash("one"), text_hash("two"), None]
    study = Study.from_tables(responses(), items(text_hash=hashes))
    filled, unknown = study.attach_texts({"a:1": "one", "a:2": " two ", "zz": "?"})
    assert filled.items["text"].to_list() == ["one", " two ", None]
    assert unknown == ["zz"]


def test_unicode_is_kept() -> None:
    name = "מודל «ü» 🜁 <script>"
    study = Study.from_tables(responses([("b:ß\u2028é", name, 1.0)]))
    assert study.items["source_id"].to_list() == ["ß\u2028é"]
    assert study.models["model"].to_list() == [name]

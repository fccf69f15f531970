"""AlpacaEval's annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study


def record(instruction: str, preference: Any, **more: Any) -> dict[str, Any]:
    made = {"instruction": instruction, "generator_1": "base", "generator_2": "maker/m"}
    return {**made, "dataset": "koala", "annotator": "judge", "preference": preference, **more}


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def scores(study: Study) -> dict[str, float]:
    rows = study.responses.join(study.items.select("item_id", "text"), on="item_id")
    return dict(rows.select("text", "score").iter_rows())


def test_real_files(shared: Path) -> None:
    folder = shared / "data/formats/alpaca_eval"
    study = read(folder / "weighted_alpaca_eval_gpt4_turbo/annotations.json")
    found = {text[:20]: score for text, score in scores(study).items()}
    assert found == {
        "What breed dog is sm": pytest.approx(0.0009697516, abs=1e-12),
        "Who created the Supe": pytest.approx(0.9808759631, abs=1e-12),
        "Hi, I'm trying to so": pytest.approx(0.0000003206, abs=1e-12),
    }
    assert study.models["model"].to_list() == ["gpt-3.5-turbo-1106_concise"]
    assert study.items["subject"].unique().to_list() == ["helpful_base"]
    benchmark = "alpaca_eval/weighted_alpaca_eval_gpt4_turbo/gpt4_1106_preview"
    assert study.items["benchmark"].unique().to_list() == [benchmark]

    study = read(folder / "alpaca_eval_gpt4/annotations.json")
    assert list(scores(study).values()) == [1.0, 1.0, 1.0]
    assert study.models["model"].to_list() == ["gpt4"]

    with pytest.raises(InputError, match="is a leaderboard: averages over all items"):
        read(folder / "leaderboard.csv")
    both = read(folder)
    assert both.n_models == 2
    assert both.report.notes[0] == (
        "not read: leaderboard.csv: is a leaderboard: averages over all items,"
        " not the items' results"
    )


def test_every_kind_of_preference(tmp_path: Path) -> None:
    given = {"a": 1, "b": 2, "c": 1.5, "d": 0, "e": 1.25, "f": None, "g": float("nan"), "h": "2.0"}
    path = write(tmp_path / "annotations.json", *(record(k, v) for k, v in given.items()))
    study = read(path)
    assert scores(study) == {"a": 0, "b": 1, "c": 0.5, "d": 0.5, "e": 0.25, "h": 1}
    assert (study.report.read, study.report.kept) == (8, 6)
    dropped = study.report.dropped["no preference: the judge's answer could not be read"]
    assert (dropped.n, dropped.first) == (2, "annotations.json, record 6")
    assert "note     score = preference - 1: 1 the model, 0.5 a tie, 0 the baseline" in "\n".join(
        study.report.lines()
    )


def test_scale_does_not_touch_preferences(tmp_path: Path) -> None:
    path = write(tmp_path / "annotations.json", record("a", 1.25))
    assert scores(read(path, options=ReadOptions(scale=10))) == {"a": 0.25}


def test_judges_and_baselines_are_benchmarks(tmp_path: Path) -> None:
    write(tmp_path / "a/annotations.json", record("Why?", 1))
    write(tmp_path / "b/annotations.json", record("Why?", 2, annotator="other"))
    write(tmp_path / "c/annotations.json", record("Why?", 2, generator_1="strong"))
    study = read(tmp_path)
    assert sorted(study.items["benchmark"]) == [
        "alpaca_eval/judge/base",
        "alpaca_eval/judge/strong",
        "alpaca_eval/other/base",
    ]
    merged = read(tmp_path / "a", options=ReadOptions(benchmark="mine"))
    assert merged.items["benchmark"].to_list() == ["mine"]


def test_models_share_items(tmp_path: Path) -> None:
    write(tmp_path / "a/annotations.json", record("Why?", 1), record("How?", 2))
    write(tmp_path / "b/annotations.json", record("How? ", 1, generator_2="n"))
    study = read(tmp_path)
    assert (study.n_items, study.n_models) == (2, 2)


BROKEN = [
    (record("a", 0.5), "field 'preference': must be from 1 (the baseline) to 2 (the model), found"),
    (record("a", 3), "field 'preference': must be between 0 and 2, found 3"),
    (record("a", "m"), "field 'preference': expected a number from 0 to 2, found 'm'"),
    (record("", 1), "field 'instruction': is empty"),
    (record("a", 1, generator_2=None), "field 'generator_2': expected a name, found null"),
    (record("a", 1, annotator=[]), "field 'annotator': expected a name, found a list"),
    ([1], "expected an object, found a list"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_records(tmp_path: Path, broken: Any, message: str) -> None:
    path = write(tmp_path / "annotations.json", record("first", 1), broken)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, record 2")
    assert message in str(caught.value)

"""`thetascope forecast` from a file of questions to expected scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encoder_cases import make_texts

from thetascope.cli import main
from thetascope.encoders import EncoderConfig, encode_study
from thetascope.evaluation import Groups
from thetascope.predictors import ItemFeatures, forecast
from thetascope.study import Study


@pytest.fixture(scope="module")
def study(st_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two benchmarks, six models; long texts are hard."""
    folder = tmp_path_factory.mktemp("forecast") / "study"
    texts = make_texts(240)
    rng = np.random.default_rng(0)
    items = pl.DataFrame(
        {
            "item_id": [f"b{i % 2}:{i}" for i in range(240)],
            "benchmark": [f"b{i % 2}" for i in range(240)],
            "text": texts,
        }
    )
    rows = [
        (item, f"m{m}", float(rng.random() < 1 / (1 + np.exp(len(t) / 80 - 0.5 * m))))
        for item, t in zip(items["item_id"], texts, strict=True)
        for m in range(6)
    ]
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    Study.from_tables(frame, items).save(folder)
    encode_study(folder, EncoderConfig(model=str(st_model)), name="tiny")
    return folder


@pytest.fixture(autouse=True)
def every_item_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights put all texts close together: they would be one group."""

    def alone(study: Study, items: ItemFeatures) -> Groups:
        return Groups(np.arange(len(items)), len(items), 0.9, 1)

    monkeypatch.setattr(forecast, "study_groups", alone)


def run(*arguments: str | Path) -> int:
    return main(["forecast", *map(str, arguments), "--predictor", "mirt_text"])


def test_expected_scores_of_new_questions(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "q.csv"
    pl.DataFrame({"text": make_texts(60, seed=9), "benchmark": ["b0", "b1"] * 30}).write_csv(
        questions
    )
    assert run(study, questions, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["questions"] == 60
    assert [r["model"] for r in found["rows"]][:1] == ["m5"]
    for row in found["rows"]:
        assert 0 <= row["low"] < row["mean"] < row["high"] <= 1
    assert run(study, questions, "--level", "0.8", "--json") == 0
    narrower = json.loads(capsys.readouterr().out)["rows"][0]
    assert narrower["high"] - narrower["low"] < found["rows"][0]["high"] - found["rows"][0]["low"]


def test_a_kept_fit_is_used_and_says_the_same(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, questions = tmp_path / "study", tmp_path / "q.txt"
    shutil.copytree(study, copy)
    questions.write_text("w1 w2 w3\nw4 w5\n")
    assert run(copy, questions) == 0
    assert f"kept with: thetascope fit {copy} --predictor mirt_text" in capsys.readouterr().out
    assert run(copy, questions, "--json") == 0
    once = json.loads(capsys.readouterr().out)
    assert main(["fit", str(copy), "--predictor", "mirt_text"]) == 0
    monkeypatch.setattr("thetascope.cli.predict.fit_with_interval", None)
    capsys.readouterr()
    assert run(copy, questions, "--json") == 0
    kept = json.loads(capsys.readouterr().out)
    assert (once.pop("saved_fit"), kept.pop("saved_fit")) == (False, True)
    assert kept == once


def test_a_text_file_of_few_questions_says_what_is_not_known(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "q.txt"
    questions.write_text("w1 w2 w3\n\nw4 w5\n")
    assert run(study, questions) == 0
    out = capsys.readouterr().out
    assert "2 questions" in out
    assert "fewer than 50 questions" in out
    assert "2 of them name no benchmark of the study" in out
    assert run(study, questions, "--benchmark", "b1") == 0
    assert "no benchmark of the study" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.csv", "question\nwhy\n", "field 'text': the column is missing"),
        ("q.csv", 'text\nw1\n""\n', "record 2, field 'text': is empty"),
        ("q.csv", "text,benchmark\nw1,b7\n", "'b7' is no benchmark of the study"),
        ("q.csv", "text,benchmark,subject\nw1,b1,s\n", "'s' is no subject of 'b1'"),
        ("q.csv", "", "is empty"),
        ("q.txt", "\n \n", "has no lines"),
        ("none.txt", None, "cannot be read"),
    ],
)
def test_bad_questions_end_in_one_line(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    name: str, content: str | None, message: str,
) -> None:  # fmt: skip
    if content is not None:
        (tmp_path / name).write_text(content)
    assert run(study, tmp_path / name) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["model_benchmark", "model_mean", "irt_2pl"])
def test_a_predictor_without_vectors_needs_none(
    name: str, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a study that was never encoded; with vectors there the answer is the same kind."""
    bare = tmp_path / "bare"
    opened = Study.open(study)
    Study.from_tables(opened.responses.drop("run_id"), opened.items.drop("text_hash")).save(bare)
    questions = tmp_path / "q.csv"
    texts = make_texts(60, seed=9)
    pl.DataFrame({"text": texts, "benchmark": ["b0", "b1"] * 30}).write_csv(questions)
    for place in (bare, study):
        command = ["forecast", str(place), str(questions), "--predictor", name, "--json"]
        assert main(command) == 0, capsys.readouterr().err
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert len(rows) == 6
        assert all(0 <= r["low"] < r["mean"] < r["high"] <= 1 for r in rows)
    assert main(["forecast", str(bare), str(questions), "--predictor", "knn"]) == 2
    assert "thetascope encode" in capsys.readouterr().err


def test_equal_texts_count_once() -> None:
    """Thirty copies of one question say no more than the question."""
    from thetascope.predictors import ItemFeatures
    from thetascope.predictors.forecast import MeanInterval

    class Half:
        def predict_proba(self, items: ItemFeatures) -> np.ndarray:
            return np.full((len(items), 1), 0.5)

    zero = np.zeros(30, np.int64)
    items = ItemFeatures(tuple(map(str, range(30))), zero, ("b",), zero, ("b",))
    interval = MeanInterval(("m",), 0.01, 0.0)
    same = forecast.forecast(Half(), interval, items, texts=["Why?  "] * 30)  # type: ignore[arg-type]
    other = forecast.forecast(Half(), interval, items, texts=[str(i) for i in range(30)])  # type: ignore[arg-type]
    width = (same.high - same.low) / (other.high - other.low)
    assert width == pytest.approx(np.sqrt(30))

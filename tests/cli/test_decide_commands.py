"""onboard, next-items, tiny and leaderboard from end to end on a small made study."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thetascope.cli import banks, main, standing
from thetascope.decisions import TinySet
from thetascope.study import store

N_ITEMS, N_MODELS = 160, 9


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two benchmarks, nine models, of which the last never ran the second."""
    folder = tmp_path_factory.mktemp("decide")
    rng = np.random.default_rng(0)
    rows = []
    for i in range(N_ITEMS):
        benchmark = "sums" if i % 2 else "words"
        for m in range(N_MODELS):
            if m == N_MODELS - 1 and benchmark == "words":
                continue
            chance = 1 / (1 + np.exp(-(0.5 * (m - 4) + rng.normal())))
            rows.append((f"{benchmark}:{i}", f"model-{m}", int(rng.random() < chance)))
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    frame.write_csv(folder / "results.csv")
    new = frame.filter(pl.col("model") == "model-6").with_columns(pl.lit("fresh").alias("model"))
    new.head(40).write_csv(folder / "new.csv")
    assert main(["import", str(folder / "results.csv"), "--into", str(folder / "study")]) == 0
    return folder / "study"


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict:  # type: ignore[type-arg]
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_onboard(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "onboard", study, study.parent / "new.csv")
    assert found["model"] == "fresh"
    assert found["n_answers"] == 40
    assert found["unknown_items"] == []
    for score in found["scores"]:
        assert 0 <= score["low"] <= score["value"] <= score["high"] <= 1
        assert score["n_items"] == 80
    assert main(["onboard", str(study), str(study.parent / "new.csv")]) == 0
    assert "fresh: 40 answers" in capsys.readouterr().out


def test_the_bank_is_made_once_and_the_study_stays_sound(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run_json(capsys, "leaderboard", study)
    folders = sorted((study / "banks").iterdir())
    assert run_json(capsys, "leaderboard", study) == first
    assert sorted((study / "banks").iterdir()) == folders
    assert main(["doctor", str(study)]) == 0
    capsys.readouterr()


def test_leaderboard_completes_holes(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "leaderboard", study)
    assert len(found["models"]) == N_MODELS
    last = next(m for m in found["models"] if m["model"] == f"model-{N_MODELS - 1}")
    words = next(s for s in last["scores"] if s["benchmark"] == "words")
    assert words["n_answered"] == 0
    assert words["mean_answered"] is None
    assert words["high"] > words["low"]
    assert main(["leaderboard", str(study)]) == 0
    assert "* no item run" in capsys.readouterr().out


def test_next_items_batch_by_batch(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state.json"
    first = run_json(capsys, "next-items", study, "--benchmark", "sums", "--n", "6",
                     "--target-sd", "0.03", "--state", state)  # fmt: skip
    assert len(first["next"]) == 6
    assert all(i.startswith("sums:") for i in first["next"])
    answers = pl.DataFrame({"item_id": first["next"], "score": [1, 0, 1, 1, 0, 1], "model": "new"})
    answers.write_csv(tmp_path / "answers.csv")
    second = run_json(capsys, "next-items", study, "--state", state,
                      "--answers", tmp_path / "answers.csv", "--n", "5")  # fmt: skip
    assert not set(first["next"]) & set(second["next"])
    assert second["progress"]["score"]["n_answered"] == 6
    assert second["progress"]["score"]["sd"] < first["progress"]["score"]["sd"]
    assert second["progress"]["corrected"] is not None
    assert main(["next-items", str(study), "--state", str(state), "--benchmark", "sums"]) == 2
    assert "the state has its own target" in capsys.readouterr().err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line that a refused command prints."""
    assert main([*map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_a_state_is_of_one_model_and_keeps_its_options(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, answers = tmp_path / "state.json", tmp_path / "answers.csv"
    step = ("next-items", study, "--state", state)
    first = run_json(capsys, *step, "--benchmark", "sums", "--every", "4", "--seed", "3")
    table = pl.DataFrame({"item_id": first["next"], "score": [1, 0] * 5, "model": "new"})
    table.write_csv(answers)
    run_json(capsys, *step, "--answers", answers, "--every", "4", "--seed", "3")
    before = state.read_bytes()
    table.with_columns(pl.lit("other").alias("model"), 1 - pl.col("score")).write_csv(answers)
    assert "model 'new', these are of 'other'" in refused(capsys, *step, "--answers", answers)
    assert "--every 4, not 5" in refused(capsys, *step, "--every", "5")
    assert "--seed 3, not 0" in refused(capsys, *step, "--seed", "0")
    assert state.read_bytes() == before
    state.write_text(json.dumps(json.loads(before) | {"seed": True}))
    error = refused(capsys, *step)
    assert "state.json" in error
    assert "'seed'" in error
    assert str(tmp_path) in refused(capsys, "next-items", study, "--state", tmp_path)


def test_only_a_choice_of_the_bank_is_called_one(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = banks.study_bank
    monkeypatch.setattr(
        banks, "study_bank", lambda *a, **k: replace(made(*a, **k), every=np.array([1, 1]))
    )
    sentence = "adaptive choice did no better"
    for more, there in (([], True), (["--every", "1"], False), (["--every", "5"], False)):
        assert main(["next-items", str(study), "--benchmark", "sums", *more]) == 0
        assert (sentence in " ".join(capsys.readouterr().out.split())) == there


def test_a_tiny_set_that_was_not_validated_says_why(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["tiny", str(study), "--benchmark", "sums", "--n", "50", "--to", str(tmp_path)]) == 0
    )
    out = " ".join(capsys.readouterr().out.split())
    assert "no left-out model answered 90 % of the benchmark and 2 x n items" in out
    assert "the design fell back to variance" in out
    assert "is left out" not in out


def test_tiny_says_that_a_list_is_left_out(
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = TinySet("sums", ("sums:a",), (1.0,), 0.0, "variance", 0.0, {}, 0)
    monkeypatch.setattr(standing, "tiny_set", lambda *a, **k: made)
    monkeypatch.setattr(standing, "left_out_folds", lambda *a, **k: [])
    (tmp_path / "lm-eval-samples.json").write_text("{}")
    assert main(["tiny", str(study), "--benchmark", "sums", "--n", "1", "--to", str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("lm-eval-samples.json is left out") == 1
    assert not (tmp_path / "lm-eval-samples.json").exists()
    assert TinySet.load(tmp_path) == made


def test_tiny_set_and_its_estimate(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run_json(capsys, "tiny", study, "--benchmark", "sums", "--n", "20", "--to", tmp_path)
    assert len(made["items"]) == 20
    answers = pl.DataFrame({"item_id": made["items"], "score": [1] * 20, "model": "new"})
    answers.write_csv(tmp_path / "answers.csv")
    found = run_json(capsys, "tiny", study, "--benchmark", "sums", "--set", tmp_path,
                     "--answers", tmp_path / "answers.csv")  # fmt: skip
    assert found["score"]["n_answered"] == 20
    assert found["score"]["value"] > 0.7
    assert main(["tiny", str(study), "--benchmark", "sums", "--set", str(tmp_path)]) == 2
    assert "--answers and --set go together" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["next-items", "{study}", "--benchmark", "nope"], "no benchmark 'nope'"),
        (["next-items", "{study}", "--against", "model-1"], "a ranking is on one benchmark"),
        (["tiny", "{study}", "--benchmark", "sums", "--n", "999"], "expected 1 to 80 items"),
        (["tiny", "{study}", "--benchmark", "sums", "--n", "999"], "field '--n'"),
        (["tiny", "{study}", "--benchmark", "sums", "--n", "0"], "field '--n'"),
        (["tiny", "{study}", "--benchmark", "sums", "--to", "{study}/../new.csv"], "--to"),
        (["next-items", "{study}", "--n", "0"], "field '--n'"),
        (["next-items", "{study}", "--target-sd", "nan"], "field '--target-sd'"),
        (["next-items", "{study}", "--target-sd", "inf"], "field '--target-sd'"),
        (["next-items", "{study}", "--every=-1"], "field '--every'"),
        (["next-items", "{study}", "--seed=-1"], "field '--seed'"),
        (["leaderboard", "{study}-not-there"], "no study"),
        (["onboard", "{study}", "{study}/none.csv"], "none.csv"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    study: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([a.format(study=study) for a in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_study_of_its_own_stands_for_results(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where results need options of `import`, they are imported first."""
    log = tmp_path / "big.csv"
    log.write_text("item_id,model,score\nsums:1,X,100\nwords:2,X,0\n")
    assert main(["onboard", str(study), str(log)]) == 2
    error = capsys.readouterr().err
    assert "--scale" in error
    assert "thetascope import" in error
    assert error.count("\n") == 1
    assert main(["import", str(log), "--into", str(tmp_path / "new"), "--scale", "100"]) == 0
    capsys.readouterr()
    assert main(["onboard", str(study), str(tmp_path / "new"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_answers"] == 2


def test_answers_without_a_score_are_counted(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "nan.csv"
    log.write_text("item_id,model,score\nsums:1,X,NaN\nwords:2,X,1\n")
    assert main(["onboard", str(study), str(log)]) == 0
    assert "left out: 1: no score" in capsys.readouterr().err
    assert main(["onboard", str(study), str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dropped"][0]["n"] == 1


def test_a_model_of_the_study_is_no_new_one(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "known.csv"
    log.write_text("item_id,model,score\nsums:1,model-3,1\n")
    assert main(["onboard", str(study), str(log)]) == 0
    assert "model-3 is in the study already" in capsys.readouterr().out


def test_a_bank_that_is_there_is_read_without_the_lock(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "one.csv"
    log.write_text("item_id,model,score\nsums:1,X,1\n")
    assert main(["onboard", str(study), str(log)]) == 0
    with store.writing(study):
        assert main(["onboard", str(study), str(log), "--wait", "0"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("wait", ["-1", "nan", "inf"])
def test_a_wait_that_is_no_time_is_refused(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], wait: str
) -> None:
    assert main(["encode", str(study), "--wait", wait]) == 2
    assert "field 'wait': expected seconds from 0" in capsys.readouterr().err


def test_names_cannot_move_the_cursor(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "hostile.csv"
    log.write_text('item_id,model,score\nsums:1,"a\nb\u202ec",1\n', "utf-8")
    assert main(["onboard", str(study), str(log)]) == 0
    out = capsys.readouterr().out
    assert "\u202e" not in out
    assert r"a\nb\u202ec" in out

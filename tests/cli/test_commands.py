"""The command line from end to end on a small made study."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thetascope.cli import app, main
from thetascope.study import Study

N_ITEMS, MODELS = 120, ("alpha", "beta", "gamma", "delta")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two benchmarks, four models; beta is better than alpha on 'sums' by 30 points."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(0)
    rows = []
    for i in range(N_ITEMS):
        benchmark = "sums" if i % 2 else "words"
        for m, model in enumerate(MODELS):
            chance = 0.5 + 0.1 * m + (0.35 if model == "beta" and benchmark == "sums" else 0)
            text = f"question {i} of {benchmark}"
            rows.append((f"{benchmark}:{i}", model, int(rng.random() < chance), text))
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score", "text"], orient="row")
    frame.write_csv(folder / "results.csv")
    vectors = rng.normal(size=(N_ITEMS, 16)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors)
    ids = frame["item_id"].unique(maintain_order=True)
    (folder / "ids.txt").write_text("\n".join(ids) + "\n", "utf-8")
    return folder


@pytest.fixture
def study(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "study"
    assert main(["import", str(source / "results.csv"), "--into", str(folder)]) == 0
    encode = ["encode", str(folder), "--vectors", str(source / "vectors.npy"), "--ids",
              str(source / "ids.txt"), "--name", "made"]  # fmt: skip
    assert main(encode) == 0
    capsys.readouterr()
    return folder


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:  # type: ignore[type-arg]
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_import_says_what_it_did(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "s"
    assert main(["import", str(source / "results.csv"), "--into", str(target), "--dry-run"]) == 0
    assert "would be" in capsys.readouterr().out
    assert not target.exists()
    assert main(["import", str(source / "results.csv"), "--into", str(target)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "read     480 records from 1 file (tables)"
    assert lines[1] == "kept     480 responses"
    assert lines[-1] == f"study    120 items of 2 benchmarks, 4 models, 480 responses in {target}"
    before = (target / "study.json").read_bytes()
    assert main(["import", str(source / "results.csv"), "--into", str(target)]) == 0
    assert "nothing new: these runs are already in the study" in capsys.readouterr().out
    assert (target / "study.json").read_bytes() == before


def test_next_weeks_run_needs_a_policy_by_name(
    source: Path, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    week = pl.read_csv(source / "results.csv").with_columns(pl.lit(1).alias("score"))
    week.filter(pl.col("model") == "alpha").write_csv(tmp_path / "week2.csv")
    command = ["import", str(tmp_path / "week2.csv"), "--into", str(study)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.startswith("thetascope: 120 (item, model) pairs have more than one response")
    assert error.count("\n") == 1
    assert Study.open(study).responses.height == 480
    assert main([*command, "--on-duplicate", "last"]) == 0
    after = Study.open(study)
    assert after.responses.height == 600  # every run is kept
    assert after.pairs().height == 480  # the last one counts
    assert after.matrix().filled()[:, 0].mean() == 1.0


def test_a_crosswalk_renames_models(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "walk.csv").write_text("model,canonical\nalpha,Alpha 1.0\nother,Other\n")
    made = run_json(capsys, "import", str(source / "results.csv"), "--into", str(tmp_path / "s"),
                    "--crosswalk", str(tmp_path / "walk.csv"))  # fmt: skip
    assert "crosswalk: 1 models renamed" in made["import"]["notes"]
    assert Study.open(tmp_path / "s").models["model"].to_list()[0] == "Alpha 1.0"


def test_doctor_finds_damage_and_fails(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "doctor", str(study))
    assert {f["check"] for f in found["findings"]} >= {"near-duplicates", "suspect items", "texts"}
    (study / ".tmp-left").write_text("x")
    cleaned = run_json(capsys, "doctor", str(study), "--clean")
    assert cleaned["deleted"] == [".tmp-left"]
    vectors = next((study / "vectors").glob("made-*")) / "items.parquet"
    vectors.write_bytes(vectors.read_bytes() + b"x")
    assert main(["doctor", str(study)]) == 1
    out = capsys.readouterr().out
    assert "BAD  damaged files: 1 files differ from the hash in their name" in out


def test_fit_compare_and_stale(
    study: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    fitted = run_json(capsys, "fit", str(study), "--dim", "4", "--max-epochs", "3")
    assert fitted["new"]
    assert fitted["settings"]["dim"] == 4
    again = run_json(capsys, "fit", str(study), "--dim", "4", "--max-epochs", "3")
    assert not again["new"]
    assert again["folder"] == fitted["folder"]
    config = tmp_path / "fit.toml"
    config.write_text("[fit]\ndim = 5\nmax-epochs = 2\n")
    configured = run_json(capsys, "fit", str(study), "--config", str(config), "--max-epochs", "1",
                          "--name", "configured")  # fmt: skip
    assert (configured["settings"]["dim"], configured["epochs"]) == (5, 1)
    preset = run_json(capsys, "fit", str(study), "--preset", "paper-mpnet", "--max-epochs", "1",
                      "--name", "paper")  # fmt: skip
    assert (preset["settings"]["dim"], preset["settings"]["init_std"]) == (256, 1.0)
    extra = pl.read_csv(source / "results.csv").filter(pl.col("model") == "alpha")
    extra = extra.with_columns(pl.lit("epsilon").alias("model"))
    extra.write_csv(tmp_path / "epsilon.csv")
    assert main(["import", str(tmp_path / "epsilon.csv"), "--into", str(study)]) == 0
    from thetascope.errors import StaleError
    from thetascope.predictors.saved import load_fit

    with pytest.raises(StaleError, match=r"renew with: thetascope fit --name jeirt"):
        load_fit(Study.open(study), "jeirt")
    capsys.readouterr()
    assert "LOOK stale folders: 3 derived folders" in _out(capsys, "doctor", str(study))


def test_compare_json_is_the_contract(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = run_json(capsys, "compare", str(study), "--predictors", "model_mean", "knn",
                    "--reference", "knn", "--seeds", "3")  # fmt: skip
    assert made["study"] == {
        "n_items": 120, "n_models": 4, "n_responses": 480, "benchmarks": ["words", "sums"],
        "policy": "error",
    }  # fmt: skip
    assert (made["split"], made["seeds"], made["encoder"]) == ("cold-items", 3, "made")
    metrics = ("accuracy", "log_loss", "brier", "auc", "auc_within_model", "ece")
    for row in made["rows"]:
        assert row.keys() >= {"predictor", "benchmark", "subject", "n_items", "n_responses"}
        for metric in metrics:
            assert row.keys() >= {metric, f"{metric}_low", f"{metric}_high"}
        if row["predictor"] == "model_mean":
            assert row["difference"].keys() >= {"log_loss", "log_loss_low", "log_loss_high"}
        else:
            assert row["difference"] == {}
    assert {r["benchmark"] for r in made["rows"]} == {"all", "words", "sums"}
    whole = [r for r in made["rows"] if r["benchmark"] == "all"]
    assert {r["n_items"] for r in whole} == {36}
    assert {r["n_responses"] for r in whole} == {144}
    text = _out(capsys, "compare", str(study), "--predictors", "model_mean,knn", "--reference",
                "knn", "--seeds", "3")  # fmt: skip
    assert "was already in" in text
    assert "95 % intervals by bootstrap over" in text


def test_diff_fails_a_build_on_a_regression(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    better = run_json(capsys, "diff", str(study), "alpha", "beta")
    rows = {r["benchmark"]: r for r in better["rows"]}
    assert rows["sums"]["verdict"] == "better"
    assert rows["sums"]["difference"] > 0.1
    assert main(["diff", str(study), "alpha", "beta", "--fail-on-regression"]) == 0
    capsys.readouterr()
    assert main(["diff", str(study), "beta", "alpha", "--fail-on-regression"]) == 1
    assert "'alpha' is worse than 'beta' beyond noise on: all, sums" in capsys.readouterr().err


def test_attach_texts(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = pl.read_csv(source / "results.csv").drop("text")
    bare.write_csv(tmp_path / "bare.csv")
    assert main(["import", str(tmp_path / "bare.csv"), "--into", str(tmp_path / "s")]) == 0
    (tmp_path / "t.csv").write_text("item_id,text\nwords:0,what is it?\nnone:1,nothing\n")
    capsys.readouterr()
    done = run_json(capsys, "attach-texts", str(tmp_path / "s"), str(tmp_path / "t.csv"))
    assert done == {"n_given": 2, "n_unknown": 1, "n_with_text": 1}
    (tmp_path / "t.csv").write_text("item_id,text\nwords:0,something else\n")
    assert main(["attach-texts", str(tmp_path / "s"), str(tmp_path / "t.csv")]) == 2
    assert "is not the one that was evaluated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "Unknown command"),
        (["import"], "requires an argument"),
        (["import", "nowhere", "--into", "s"], "thetascope: nowhere: does not exist"),
        (["doctor", "nowhere"], "nowhere: no study here (there is no study.json)"),
        (["fit", "nowhere", "--dim", "x"], 'Invalid value for --dim: unable to convert "x"'),
        (["fit", "nowhere", "--dim", "0"], "field 'dim': expected a whole number from 1, found 0"),
        (["fit", "nowhere", "--preset", "best"], "no preset 'best'; there are default, paper-"),
        (["fit", "nowhere", "--preset"], "--preset needs a value"),
        (["fit", "nowhere", "--config", "no.toml"], "no.toml: cannot be read: No such file"),
        (["fit", "nowhere", "--colour", "red"], "Unknown option: --colour"),
        (
            ["compare", "nowhere", "--split", "warm"],
            'Invalid value "warm" for --split. Choose from',
        ),
        (["encode", "nowhere"], "nowhere: no study here"),
    ],
)
def test_bad_commands_are_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("thetascope: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())  # nothing is left behind


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "@", "--predictors", "knm"], "no predictor 'knm'; there are blend, jeirt, "),
        (["compare", "@", "--seeds", "11"], "field 'seeds': expected 1 to 10 seeds, found 11"),
        (["compare", "@", "--encoder", "no"], "no vectors named 'no'; there are made"),
        (["diff", "@", "alpha", "alpha"], "expected two models, found 'alpha' twice"),
        (["diff", "@", "alpha", "betta"], "no model named 'betta'; close are beta"),
        (["report", "@", "--comparison", "no"], "no comparisons named 'no'"),
    ],
)
def test_bad_wishes_on_a_good_study(
    arguments: list[str], message: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(study) if a == "@" else a for a in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_fault_of_ours_is_one_line_too(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from thetascope.cli import data

    monkeypatch.setattr(data.Study, "open", lambda path: 1 / 0)
    assert main(["doctor", str(study)]) == 1
    assert "a fault in thetascope: ZeroDivisionError" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        main(["doctor", str(study), "--debug"])


def test_help_is_quick_and_needs_no_torch() -> None:
    code = (
        "import sys, time; t = time.perf_counter()\n"
        "from thetascope.cli import main\n"
        "main(['--help'])\n"
        "assert not {'torch', 'polars', 'sklearn', 'transformers'} & set(sys.modules)\n"
        "assert time.perf_counter() - t < 1.0\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in ("import", "doctor", "encode", "attach-texts", "fit", "compare", "diff"):
        assert command in done.stdout


def _out(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    main(list(arguments))
    return capsys.readouterr().out


def test_a_name_of_two_words_is_a_command_of_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    added = (("pair diff", "predict:diff", "What changed."), ("pair fit", "predict:fit", "Fit."))
    monkeypatch.setattr(app, "_COMMANDS", app._COMMANDS + added)
    monkeypatch.setattr(app, "_GROUPS", {**app._GROUPS, "pair": "A group."})
    config = tmp_path / "c.toml"
    config.write_text('[pair.fit]\ndim = "x"\n')
    assert main(["pair", "fit", "nowhere", "--config", str(config)]) == 2
    assert 'unable to convert "x"' in capsys.readouterr().err
    config.write_text("[pair]\ndim = 5\n")
    assert main(["pair", "fit", "nowhere", "--config", str(config)]) == 2
    assert "field 'pair.dim': expected a table per command" in capsys.readouterr().err
    assert main(["pair", "other"]) == 2
    assert "Available commands: diff, fit" in capsys.readouterr().err

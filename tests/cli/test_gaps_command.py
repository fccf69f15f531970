"""Command gaps on the bundled study and on degenerate ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thetascope.cli import main
from thetascope.demo.demo import STUDY
from thetascope.gaps.saved import load_gaps
from thetascope.study import Study

MODEL = "gpt-4o-2024-05-13"
MODELS = [
    MODEL, "gpt-4o-mini-2024-07-18", "claude-3-5-sonnet-20240620", "gemini-1.5-flash",
    "gemini-1.5-pro", "Meta-Llama-3-70B-Instruct", "Meta-Llama-3-8B-Instruct",
]  # fmt: skip


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled study with seven of its models, which is all that is needed here."""
    folder = tmp_path_factory.mktemp("gaps") / "study"
    shutil.copytree(STUDY, folder)
    Study.open(folder).filter(models=MODELS).save(folder)
    return folder


def test_lists_and_json_agree(bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gaps", str(bundled), "--model", MODEL]) == 0
    shown = capsys.readouterr().out
    assert "missing from all: 2,087 concepts" in shown
    assert main(["gaps", str(bundled), "--model", MODEL, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    weak = found["lists"][MODEL]["weak"]
    assert weak
    for row in weak:
        assert row["q_low"] < 0.05
        assert f"{100 * row['effect']:+.1f}" in shown
        assert row["p_family"] is not None
    saved = load_gaps(Study.open(bundled))
    assert saved.list(MODEL).height >= len(weak)


def test_asking_twice_makes_nothing_new(bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["gaps", str(bundled), "--model", MODEL])
    capsys.readouterr()
    assert main(["gaps", str(bundled), "--model", MODEL]) == 0
    assert "was already in" in capsys.readouterr().out


def test_card_and_tables(bundled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gaps", str(bundled), "--model", MODEL, "--json"]) == 0
    concept = json.loads(capsys.readouterr().out)["lists"][MODEL]["weak"][0]["concept"]
    args = ["gaps", str(bundled), "--model", MODEL, "--card", str(concept)]
    assert main([*args, "--json"]) == 0
    card = json.loads(capsys.readouterr().out)["cards"][0]
    assert card["worst"]
    assert all(e["score"] < 1 for e in card["worst"])
    for kind in ("csv", "parquet", "json"):
        assert main(["gaps", str(bundled), "--model", MODEL, "--to", str(tmp_path / kind),
                     "--as", kind]) == 0  # fmt: skip
    held = pl.read_parquet(tmp_path / "parquet" / "performance.parquet")
    assert held.height == pl.read_csv(tmp_path / "csv" / "performance.csv").height
    assert {"scope", "model", "concept", "label", "score", "q_low", "n_eff"} <= set(held.columns)


def test_one_benchmark(bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["gaps", str(bundled), "--model", MODEL, "--benchmark", "gsm8k"]
    assert main([*args, "--json"]) == 0
    lists = json.loads(capsys.readouterr().out)["lists"][MODEL]
    assert all(r["scope"] == "gsm8k" for side in lists.values() for r in side)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "gpt-40"], "no model named 'gpt-40'"),
        (["--benchmark", "gsm9k"], "no benchmark named 'gsm9k'"),
        (["--card", "9999"], "there are concepts 0 to 8191"),
        (["--threshold", "0"], "more than 0 and at most 1"),
        (["--threshold", "0.2"], "reduced to maxima of at least 0.4"),
        (["--concepts", "other"], "no concepts named 'other'"),
        (["--second", "offline"], "belongs to --robust"),
        (["--robust", "--second", "offline"], "the second dictionary is the first"),
    ],
)
def test_bad_input_is_one_line(
    bundled: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gaps", str(bundled), *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_a_study_without_concepts_says_how(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pl.DataFrame({"item_id": ["b:1", "b:2"], "model": ["m", "m"], "score": [1.0, 0.0]})
    Study.from_tables(rows).save(tmp_path / "s")
    assert main(["gaps", str(tmp_path / "s")]) == 2
    assert "thetascope concepts extract" in capsys.readouterr().err


@pytest.mark.parametrize("keep", ["one model", "one item", "one benchmark", "always right"])
def test_degenerate_studies(
    bundled: Path, tmp_path: Path, keep: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to find is said, not a crash and not a claim."""
    shutil.copytree(bundled, tmp_path / "s")
    study = Study.open(tmp_path / "s")
    if keep == "one model":
        part = study.filter(models=[MODEL])
    elif keep == "one item":
        part = study.filter(items=[study.items["item_id"][5]])
    elif keep == "one benchmark":
        part = study.filter(benchmarks=["numersense_v2"])
    else:
        answers = study.responses.with_columns(pl.lit(1.0).alias("score"))
        part = Study.from_tables(answers, study.items, study.models, study.runs)
    part.save(tmp_path / "s")
    assert main(["gaps", str(tmp_path / "s"), "--robust"]) == 0
    shown = capsys.readouterr().out
    if keep in ("one item", "always right"):
        assert "no concept is surely weak" in shown
    assert "nan" not in shown


def test_diff_by_concept(bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["diff", str(bundled), "gpt-4o-mini-2024-07-18", MODEL, "--by-concept"]
    assert main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["concepts"]
    assert (found["first"], found["second"]) == (MODEL, "gpt-4o-mini-2024-07-18")
    sure = [r for r in found["rows"] if r["q_better"] < 0.05]
    assert all(r["difference"] > 0 for r in sure)
    assert sure
    assert main(args) == 0
    assert f"is better on {len(sure)} concepts" in capsys.readouterr().out
    assert main(["diff", str(bundled), MODEL, "gpt-4o-mini-2024-07-18", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["concepts"] is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--rows", "0"], "expected at least 1, found 0"),
        (["--as", "csv"], "belongs to --to"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_settings_that_say_nothing_are_refused(
    bundled: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gaps", str(bundled), *more]) == 2
    assert said in capsys.readouterr().err


def test_a_concept_that_is_too_rare_says_so(
    bundled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gaps", str(bundled), "--model", MODEL, "--card", "2"]) == 0
    assert "too rare to be tested" in capsys.readouterr().out


def test_traffic_shows_what_nobody_tests(
    bundled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Word problems as the traffic, code and decimals as the benchmarks."""
    for name, kept in (("a", ["cruxeval_o", "numersense_v2"]), ("b", ["gsm8k"])):
        shutil.copytree(bundled, tmp_path / name)
        Study.open(tmp_path / name).filter(benchmarks=kept).save(tmp_path / name)
    args = ["gaps", str(tmp_path / "a"), "--against", str(tmp_path / "b")]
    assert main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["against"]["n_items"] == 1319
    assert len(found["untested"]) > 50
    assert all(r["log_ratio"] < 0 for r in found["untested"])
    assert main(args) == 0
    shown = capsys.readouterr().out
    assert "the reference: 1,319 items" in shown
    assert found["untested"][0]["label"] in shown


def test_several_encoders_are_no_hindrance(
    bundled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Near-duplicates are found by the first of them by name."""
    shutil.copytree(bundled, tmp_path / "s")
    study = Study.open(tmp_path / "s")
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(study.n_items, 8)))
    (tmp_path / "ids.txt").write_text("\n".join(study.items["item_id"]))
    assert main(["encode", str(tmp_path / "s"), "--vectors", str(tmp_path / "v.npy"), "--ids",
                 str(tmp_path / "ids.txt"), "--name", "another"]) == 0  # fmt: skip
    assert main(["gaps", str(tmp_path / "s"), "--card", "2"]) == 0
    capsys.readouterr()

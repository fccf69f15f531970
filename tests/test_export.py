from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from thetascope.cli import main
from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study
from thetascope.writers import FORMATS, export_study, left_out
from thetascope.writers.logs import unique_names

ITEMS = [
    ("quiz", "a/b", 'What is "x", really?\r\nA. é\nB. 日本\u2028line', "sets", "A, B"),
    ("quiz", "007", " spaces around; and | bars\t", None, "NA"),
    ("quiz", "7", None, "null", None),
    ("quiz", "x y", "Zwölf?", "sets", "12"),
    ("quiz", "quiz:1", "Does the prefix stay?", None, None),
    ("math:level=5", "0", "1 + 1", None, "2"),
    ("math:level=5", "-0", "1 - 1", None, "0"),
    ("math:level=5", "12345678901234567890", "Large?", None, "yes"),
]
ONCE = ReadOptions(on_duplicate="last")


@pytest.fixture
def made() -> Study:
    """Two benchmarks, three models, two runs of one of them, one response missing."""
    runs = [("m@1", "maker/m", "2025-01-02T03:04:05+00:00"), ("ü@1", "ü [x]", None),
            ("m@2", "maker/m", None), ("late@1", "maker__m", None)]  # fmt: skip
    rows = [
        (f"{b}:{i}", model, run, ((k + 3 * r) % 7) / 6, 1 + (k == 0), 10 + k if k else None, 1e-7)
        for r, (run, model, _) in enumerate(runs)
        for k, (b, i, *_) in enumerate(ITEMS)
        if (run, i) != ("ü@1", "007") and (run, b) != ("m@2", "math:level=5")
    ]
    responses = pl.DataFrame(
        rows,
        schema=["item_id", "model", "run_id", "score", "trials", "n_tokens_in", "cost_usd"],
        orient="row",
    )
    items = pl.DataFrame(
        [(f"{b}:{i}", i, b, t, s, r, 0.25) for b, i, t, s, r in ITEMS],
        schema=["item_id", "source_id", "benchmark", "text", "subject", "reference", "chance"],
        orient="row",
    )
    models = pl.DataFrame(
        {"model": ["maker/m", "ü [x]", "maker__m"], "params_b": [7.0, None, 0.1],
         "name": ["M", None, None]}
    )  # fmt: skip
    run_table = pl.DataFrame(runs, schema=["run_id", "model", "date"], orient="row")
    return Study.from_tables(responses, items, models, run_table, policy="last")


def triples(study: Study, *, counting: bool = False) -> list[tuple[str, str, float]]:
    rows = study.pairs() if counting else study.responses
    return sorted(rows.select("item_id", "model", "score").iter_rows())


def facts(study: Study, *columns: str) -> list[tuple[str | None, ...]]:
    return sorted(study.items.select("item_id", "benchmark", "text", *columns).iter_rows())


def test_csv_gives_the_same_study(made: Study, tmp_path: Path) -> None:
    paths = export_study(made, tmp_path / "out", "csv")
    assert [p.name for p in paths] == ["items.csv", "models.csv", "responses.csv"]
    again = read(tmp_path / "out", options=ONCE)
    assert again.items.equals(made.items)
    assert again.models.equals(made.models)
    assert again.responses.equals(made.responses)
    assert again.runs.select("run_id", "model").equals(made.runs.select("run_id", "model"))
    assert triples(again, counting=True) == triples(made, counting=True)
    lost = left_out(made, "csv")
    assert lost[0] == "date (1 run)"
    assert "the policy 'last' for 5 (item, model) pairs" in lost[1]
    assert len(lost) == 2


def test_csv_says_what_it_cannot_hold(made: Study, tmp_path: Path) -> None:
    items = made.items.with_columns(
        pl.lit("x").alias("a;b"), pl.lit(3).alias("level"), pl.lit(None, pl.String).alias("none"),
        pl.concat_list("text").alias("list"),
    )  # fmt: skip
    idle = pl.DataFrame({"model": ["idle"], "name": ["I"]})
    study = Study.from_tables(
        made.responses.filter(pl.col("item_id") != "quiz:7"),
        items,
        pl.concat([made.models, idle], how="diagonal"),
        made.runs,
        policy="last",
    )
    export_study(study, tmp_path / "out", "csv")
    again = read(tmp_path / "out", options=ONCE)
    assert again.models["model"].to_list() == study.models["model"].to_list()
    assert set(again.items["item_id"]) == set(study.items["item_id"]) - {"quiz:7"}
    assert set(again.items["level"]) == {"3"}  # a column of the source's own comes back as text
    assert left_out(study, "csv")[:4] == [
        "a;b (8 items)", "list (8 items)", "date (1 run)",
        "1 item without responses, written but not read",
    ]  # fmt: skip


@pytest.mark.parametrize("format", ["lm-eval", "inspect"])
def test_logs_keep_items_models_and_scores(made: Study, tmp_path: Path, format: str) -> None:
    paths = export_study(made, tmp_path / "out", format)
    again = read(tmp_path / "out", options=ONCE)
    assert {f for _, f in again.report.sources} == {format}
    assert again.report.ignored == []
    assert facts(again, "subject", "reference") == facts(made, "subject", "reference")
    assert set(again.models["model"]) == set(made.models["model"])
    assert triples(again) == triples(made)
    assert triples(again, counting=True) == triples(made, counting=True)
    # A log is a run: those of two benchmarks come back as two.
    assert again.runs.height == 7
    logs = [p for p in paths if not p.name.startswith("results_")]
    assert len(logs) == 7
    folders = {p.parent.name.partition("~")[0] for p in paths}
    assert folders == {"maker__m", "ü [x]"}  # of 'maker/m' with a hash: 'maker__m' is another
    # The run's date is kept; the others have the date of no run.
    dates = set(again.runs["date"])
    assert "2025-01-02T03:04:05+00:00" in dates
    assert len(dates) == 2
    assert all(d.startswith("1970-01-01T00") for d in dates - {"2025-01-02T03:04:05+00:00"})


def test_what_lm_eval_loses(made: Study, tmp_path: Path) -> None:
    export_study(made, tmp_path / "out", "lm-eval")
    again = read(tmp_path / "out", options=ONCE)
    assert set(again.responses["trials"]) == {1}
    assert "n_tokens_in" not in again.responses.columns
    assert "chance" not in again.items.columns
    assert left_out(made, "lm-eval")[:-1] == [
        "trials (4 responses)", "n_tokens_in (24 responses)", "cost_usd (28 responses)",
        "chance (8 items)", "params_b (2 models)", "name (1 model)", "run_id (4 runs)",
        "that a run spans several benchmarks, a log each (3 runs)",
        "doc_id as a number (6 items with other ids, written as text)",
        "the date (3 runs without one in ISO, written as 1970)",
    ]  # fmt: skip
    log = next((tmp_path / "out" / "ü [x]").glob("samples_quiz_*"))
    ids = [json.loads(line)["doc_id"] for line in log.read_text("utf-8").split("\n")[:-1]]
    assert ids == ["a/b", "x y", "quiz:1", 7]  # an item without a text stands last


def test_what_inspect_loses(made: Study, tmp_path: Path) -> None:
    export_study(made, tmp_path / "out", "inspect")
    again = read(tmp_path / "out", options=ONCE)
    assert set(again.responses["trials"]) == {1}
    assert sorted(again.responses["n_tokens_in"].drop_nulls()) == sorted(
        made.responses["n_tokens_in"].drop_nulls()
    )
    assert left_out(made, "inspect")[:-1] == [
        "trials (4 responses)", "cost_usd (28 responses)", "chance (8 items)",
        "params_b (2 models)", "name (1 model)", "run_id (4 runs)",
        "that a run spans several benchmarks, a log each (3 runs)",
        "the date (3 runs without one in ISO, written as 1970)",
    ]  # fmt: skip


def test_runs_with_equal_scores_stay_apart_and_in_order(tmp_path: Path) -> None:
    scores = {f"r{k}": k in (0, 2, 11) for k in range(12)}  # r11 is last and is right
    rows = {"item_id": ["q:1"] * 12, "model": ["m"] * 12, "run_id": list(scores),
            "score": [float(s) for s in scores.values()]}  # fmt: skip
    runs = pl.DataFrame({"run_id": list(scores), "model": ["m"] * 12})
    study = Study.from_tables(pl.DataFrame(rows), runs=runs, policy="last")
    for format in FORMATS:
        export_study(study, tmp_path / format, format)
        again = read(tmp_path / format, options=ONCE)
        assert again.responses.height == again.runs.height == 12
        assert again.responses["score"].to_list() == study.responses["score"].to_list()
        assert again.pairs()["score"].to_list() == [1.0]


def test_lm_eval_renames_benchmarks_that_no_file_can_be_called(tmp_path: Path) -> None:
    rows = {"item_id": ["a/b:1", "a__b:1"], "model": [".m", ".m"], "score": [0.0, 1.0]}
    study = Study.from_tables(pl.DataFrame(rows))
    export_study(study, tmp_path / "lm-eval", "lm-eval")
    again = read(tmp_path / "lm-eval")
    (renamed,) = set(again.benchmarks) - {"a__b"}
    assert renamed.startswith("a__b~")
    assert again.models["model"].to_list() == [".m"]
    assert any(
        "the name (1 benchmark in the files' names" in line for line in left_out(study, "lm-eval")
    )
    export_study(study, tmp_path / "inspect", "inspect")
    assert triples(read(tmp_path / "inspect")) == triples(study)


def test_file_names_are_apart() -> None:
    names = ["a/b", "a__b", "A__b", "..", "x" * 300, "x" * 301]
    made = unique_names(names)
    assert made["a__b"] == "a__b"
    assert len({n.casefold() for n in made.values()}) == len(names)
    assert all(len(n.encode()) < 150 and not n.startswith(".") for n in made.values())


@pytest.mark.parametrize("format", list(FORMATS))
def test_equal_studies_give_equal_bytes(made: Study, tmp_path: Path, format: str) -> None:
    one, two = (export_study(made, tmp_path / n, format) for n in ("one", "two"))
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "two"]  # nothing aside


def test_real_results(shared: Path, tmp_path: Path) -> None:
    study = read(shared / "data" / "zeroeval")
    for format in FORMATS:
        export_study(study, tmp_path / format, format)
        again = read(tmp_path / format)
        assert again.items.equals(study.items)
        assert triples(again) == triples(study)
        if format == "csv":
            assert again.responses.equals(study.responses)
            assert again.models.sort("model").equals(study.models.sort("model"))


def test_blank_facts(tmp_path: Path) -> None:
    items = pl.DataFrame(
        {"item_id": ["q:1", "q:2"], "text": ["", "What?"], "subject": ["", "s"],
         "reference": ["", "r"]}
    )  # fmt: skip
    answers = pl.DataFrame({"item_id": ["q:1", "q:2"], "model": ["m", "m"], "score": [0, 1]})
    study = Study.from_tables(answers, items)
    kept: dict[str, tuple[str | None, ...]] = {}
    for format in FORMATS:
        export_study(study, tmp_path / format, format)
        first = read(tmp_path / format).items.filter(item_id="q:1")
        kept[format] = first.select("text", "subject", "reference").row(0)
    assert kept == {"csv": ("", "", ""), "lm-eval": (None, None, ""), "inspect": ("", "", None)}
    lost = left_out(study, "lm-eval")
    assert "text of white space (1 item)" in lost
    assert "empty subject (1 item)" in lost
    assert "empty reference (1 item)" in left_out(study, "inspect")


def test_a_failure_leaves_nothing(
    made: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(study: Study, folder: Path) -> None:
        (folder / "half.csv").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("thetascope.writers.tables.write", full)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        export_study(made, tmp_path / "out", "csv")
    assert list(tmp_path.iterdir()) == []


def test_bad_input(made: Study, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown format 'xml'; known are csv, lm-eval, inspect"):
        export_study(made, tmp_path / "out", "xml")
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    for target in (full, full / "mine.txt"):
        with pytest.raises(InputError, match="is there already: nothing is overwritten"):
            export_study(made, target, "csv")
    assert [p.name for p in tmp_path.rglob("*")] == ["full", "mine.txt"]
    empty = Study(made.items, made.models, made.runs, made.responses.clear())
    with pytest.raises(InputError, match="no responses: there is nothing to export"):
        export_study(empty, tmp_path / "out", "csv")
    nameless = Study.from_tables(pl.DataFrame({"item_id": ["q:"], "model": ["m"], "score": [1]}))
    with pytest.raises(InputError, match="'source_id': is empty"):
        export_study(nameless, tmp_path / "out", "lm-eval")
    (tmp_path / "void").mkdir()
    assert export_study(made, tmp_path / "void", "csv")  # an empty folder is filled


def test_command(made: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.save(tmp_path / "study")
    call = ["export", str(tmp_path / "study"), "--as", "lm-eval", "--to"]
    assert main([*call, str(tmp_path / "one")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 2
    assert out[0].startswith("exported 8 items of 2 benchmarks, 3 models, 28 responses into 11")
    assert out[1].startswith("left out trials (4 responses); ")
    assert main([*call, str(tmp_path / "two"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["files"]) == 11
    assert found["left_out"]
    assert main([*call, str(tmp_path / "two")]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err

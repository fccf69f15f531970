"""A second harness's run of the same models: proposed, written, edited, applied."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import polars as pl
import pytest

from thetascope.cli import main
from thetascope.study import Study


def write(path: Path, benchmark: str, *models: str, score: int = 1) -> Path:
    rows = [(f"{benchmark}:{i}", m, score) for m in models for i in range(3)]
    pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row").write_csv(path)
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    source = write(
        tmp_path / "first.csv", "quiz", "Meta-Llama-3.1-8B-Instruct", "gpt-4o-2024-05-13"
    )
    assert main(["import", str(source), "--into", str(tmp_path / "study")]) == 0
    return tmp_path / "study"


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return write(tmp_path / "second run.csv", "maths", "llama-3.1-8b-instruct", "gpt-4o-2024-08-06")


def models(study: Path) -> list[str]:
    return Study.open(study).models["model"].to_list()


def test_nothing_is_renamed_unasked(
    study: Path, second: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["import", str(second), "--into", str(study), "--on-duplicate", "last"]) == 0
    out = capsys.readouterr().out.splitlines()
    at = out.index("names    1 model seems to have two names; none was renamed")
    assert out[at + 1].strip() == (
        "llama-3.1-8b-instruct -> Meta-Llama-3.1-8B-Instruct (likely: nothing against meta)"
    )
    assert len(models(study)) == 4
    name, command = out[at + 2].split(maxsplit=1)
    assert name == "list"
    assert shlex.split(command) == [
        "thetascope", "import", str(second), "--into", str(study), "--on-duplicate", "last",
        "--propose-crosswalk", "names.csv",
    ]  # fmt: skip


def test_the_commands_that_are_shown(
    study: Path,
    second: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["import", str(second), "--into", str(study)])
    for step in ("list", "rename"):
        shown = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
        command = next(rest for name, *rest in shown if name == step)[0]
        assert main(shlex.split(command)[1:]) == 0
    assert Path("names.csv").read_text().splitlines()[0] == "model,canonical,confidence,reason"
    opened = Study.open(study)
    assert opened.models["model"].to_list() == [
        "Meta-Llama-3.1-8B-Instruct", "gpt-4o-2024-05-13", "gpt-4o-2024-08-06",
    ]  # fmt: skip
    assert opened.responses.height == 12  # the runs are those that were there
    assert opened.runs.height == 4
    out = capsys.readouterr().out
    assert "crosswalk: 1 models of the study renamed" in out
    assert "\nnames " not in out
    # The same again changes nothing.
    before = (study / "study.json").read_bytes()
    assert main(["import", str(second), "--into", str(study), "--crosswalk", "names.csv"]) == 0
    assert (study / "study.json").read_bytes() == before


def test_within_one_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "mixed.csv", "quiz", "gpt4_0314", "openai/gpt-4-0314")
    command = ["import", str(source), "--into", str(tmp_path / "s"), "--dry-run", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["alike"] == [
        {
            "model": "openai/gpt-4-0314",
            "canonical": "gpt4_0314",
            "confidence": "sure",
            "reason": "the organisation stands in one of them; case or separators differ",
        }
    ]
    assert not (tmp_path / "s").exists()


def test_a_decided_name_is_not_proposed_again(
    study: Path, second: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walk = tmp_path / "walk.csv"
    walk.write_text("model,canonical\nllama-3.1-8b-instruct,llama-3.1-8b-instruct\n")
    command = ["import", str(second), "--into", str(study), "--crosswalk", str(walk), "--json"]
    capsys.readouterr()
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["alike"] == []
    assert len(models(study)) == 4


def test_models_that_become_one_may_need_a_policy(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = write(tmp_path / "again.csv", "quiz", "llama-3.1-8b-instruct", score=0)
    walk = tmp_path / "walk.csv"
    command = ["import", str(again), "--into", str(study)]
    assert main([*command, "--propose-crosswalk", str(walk)]) == 0
    before = (study / "study.json").read_bytes()
    capsys.readouterr()
    assert main([*command, "--crosswalk", str(walk)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("thetascope: 3 (item, model) pairs have more than one response")
    assert error.count("\n") == 1
    assert (study / "study.json").read_bytes() == before
    assert main([*command, "--crosswalk", str(walk), "--on-duplicate", "first"]) == 0
    assert models(study) == ["Meta-Llama-3.1-8B-Instruct", "gpt-4o-2024-05-13"]
    assert Study.open(study).matrix().filled()[:, 0].tolist() == [1.0, 1.0, 1.0]


def test_a_file_of_proposals_is_not_overwritten(
    study: Path, second: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walk = tmp_path / "walk.csv"
    walk.write_text("mine")
    command = ["import", str(second), "--into", str(study), "--propose-crosswalk"]
    capsys.readouterr()
    assert main([*command, str(walk)]) == 2
    assert capsys.readouterr().err == (
        f"thetascope: {walk}: is there already: nothing is overwritten\n"
    )
    assert len(models(study)) == 2
    assert main([*command, str(tmp_path / "none" / "walk.csv")]) == 2
    assert "cannot be written: its folder does not exist" in capsys.readouterr().err
    assert len(models(study)) == 2


def test_no_proposals_no_file(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, walk = write(tmp_path / "other.csv", "maths", "other"), tmp_path / "walk.csv"
    capsys.readouterr()
    command = ["import", str(other), "--into", str(study), "--propose-crosswalk", str(walk)]
    assert main(command) == 0
    assert f"names    none look alike: {walk} is not written\n" in capsys.readouterr().out
    assert not walk.exists()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("a,b\nb,c\n", "'a' becomes 'b', which becomes 'c' (give 'c' for both)"),
        ("a,b\nb,a\n", "'a' becomes 'b', which becomes 'a' (keep one line)"),
    ],
)
def test_chains_are_refused(
    study: Path,
    second: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rows: str,
    told: str,
) -> None:
    walk = tmp_path / "walk.csv"
    walk.write_text("model,canonical\n" + rows)
    capsys.readouterr()
    assert main(["import", str(second), "--into", str(study), "--crosswalk", str(walk)]) == 2
    assert capsys.readouterr().err == f"thetascope: {walk}, field 'canonical': {told}\n"


def test_a_piped_table_never_folds_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    from thetascope.cli.output import table

    names = [f"organisation/model-of-a-very-long-name-{i}-{'x' * 60}" for i in range(3)]
    scores = [f"{i}.0 [0.0, 100.0]" for i in range(9)]
    header = ["model", *(f"benchmark {i}" for i in range(9))]
    table("3 models, equal weight a benchmark", header, [[n, *scores] for n in names])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert [line.split("  ")[0] for line in lines[2:]] == names
    assert all(line.rstrip().endswith("8.0 [0.0, 100.0]") for line in lines[2:])

"""The space commands from end to end on a small made study."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thetascope.cli import main
from thetascope.predictors.saved import fits_of
from thetascope.space.saved import load_items, load_space
from thetascope.study import Study

pytest.importorskip("torch", reason="torch is not installed")
N = 240
QUICK = ("--max-epochs", "3", "--dim", "6")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One benchmark of four subjects, six models, vectors that decide both."""
    folder = tmp_path_factory.mktemp("space")
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 4, N)
    centre = rng.normal(size=(4, 16))
    vectors = (centre[topic] + 0.4 * rng.normal(size=(N, 16))).astype(np.float32)
    ability = 0.5 * rng.normal(size=(6, 16))
    chance = 1 / (1 + np.exp(-(vectors @ ability.T)))
    words = ("triangle", "verb", "enzyme", "court")
    rows = [
        (f"b:{i}", f"m{m}", int(rng.random() < chance[i, m]),
         f"question {i} on the {words[topic[i]]}", words[topic[i]])
        for i in range(N) for m in range(6)
    ]  # fmt: skip
    frame = pl.DataFrame(
        rows, schema=["item_id", "model", "score", "text", "subject"], orient="row"
    )
    frame.write_csv(folder / "results.csv")
    np.save(folder / "v.npy", vectors)
    (folder / "ids.txt").write_text("\n".join(f"b:{i}" for i in range(N)))
    study = folder / "study"
    assert main(["import", str(folder / "results.csv"), "--into", str(study)]) == 0
    assert main(["encode", str(study), "--vectors", str(folder / "v.npy"), "--ids",
                 str(folder / "ids.txt")]) == 0  # fmt: skip
    return study


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:  # type: ignore[type-arg]
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_taxonomy_makes_the_space_that_it_needs_and_keeps_both(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_json(capsys, "space", "taxonomy", str(made), "--k", "4")
    assert found["fit"] == "space"
    assert set(fits_of(Study.open(made))) == {"space"}
    assert sum(c["n_items"] for c in found["clusters"]) == N
    assert found["agreement"]["text"]["ari"][0] > 0.9
    again = run_json(capsys, "space", "taxonomy", str(made), "--k", "4")
    assert again == found
    items = load_items(Study.open(made), "taxonomy")
    assert items["cluster"].n_unique() == 4
    assert main(["space", "taxonomy", str(made), "--k", "4"]) == 0
    out = capsys.readouterr().out
    assert "was already in" in out
    assert "agreement with the 4 subjects" in out
    assert "0 items without a text vector left out" in out


def test_a_language_model_may_name_the_clusters(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The taxonomy says who named; a name that is asked for without --yes is not asked for."""
    from thetascope.llm import Endpoint

    asked: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Endpoint, "_send", lambda self, body: asked.append(str(body)) or "Law")
    command = ["space", "taxonomy", str(made), "--k", "4", "--name-with", "namer"]
    assert main(command) == 2
    assert "expected a URL, or OPENAI_BASE_URL" in capsys.readouterr().err
    command += ["--endpoint", "http://localhost:1/v1"]
    assert main(command) == 2
    assert "4 questions of about" in capsys.readouterr().err
    assert asked == []
    found = run_json(capsys, *command, "--yes")
    assert {(c["name"], c["named_by"]) for c in found["clusters"]} == {("Law", "namer")}
    assert len(asked) == 4
    assert "question" in asked[0]
    other = run_json(capsys, "space", "taxonomy", str(made), "--k", "3")  # another taxonomy
    assert {c["named_by"] for c in other["clusters"]} == {"terms"}


def test_probe_says_where_models_stand(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(
        capsys, "space", "probe", str(made), "--positive", "subject:verb", "--negative",
        "subject:court", "--name", "words",
    )  # fmt: skip
    assert found["separation"]["text"][0] > 0.95
    assert len(found["models"]) == 6
    assert load_space(Study.open(made), "probe-words")["sets"]["positive"] == "subject:verb"
    assert load_items(Study.open(made), "probe-words").height == N
    assert main(["space", "probe", str(made), "--positive", "subject:verb"]) == 0
    assert "axis of" in capsys.readouterr().out


def test_models(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "space", "models", str(made))
    assert len(found["models"]) == 6
    assert found["portfolio"]["n_items"] == N
    assert main(["space", "models", str(made)]) == 0
    out = capsys.readouterr().out
    assert "answers alike" in out
    assert "portfolio" in out


def test_ood_and_new_questions(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_json(capsys, "space", "ood", str(made), "--seeds", "4", *QUICK)
    assert found["kind"] == "subject"
    names = [p["name"] for p in found["parts"]] + found["passed_over"]
    assert sorted(names) == ["court", "enzyme", "triangle", "verb"]
    assert set(found["correlation"]) == {"mean", "best"}
    assert main(["space", "ood", str(made), "--seeds", "4", *QUICK]) == 0
    assert "left out: what is lost" in capsys.readouterr().out
    questions = tmp_path / "new.txt"
    questions.write_text("What is a verb?\n")
    command = ["space", "ood", str(made), str(questions), "--seeds", "4", *QUICK]
    assert main(command) == 2  # vectors made elsewhere: their encoder is not known
    assert "encode" in capsys.readouterr().err


def test_difficulty(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["space", "difficulty", str(made), "--seeds", "2", "--beside", "knn,model_mean",
               "--max-epochs", "3", "--dim", "6"]  # fmt: skip
    found = run_json(capsys, *command)
    assert set(found["overall"]) == {"jeirt", "knn", "model_mean", "norm", "norm - u.mbar"}
    assert found["kind"] == "subject"
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "within subject (mean)" in out
    assert "weaker models do better" in out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["taxonomy", "--k", "1"], "expected 2 to"),
        (["taxonomy", "--fit", "none"], "no fits named 'none'"),
        (["probe", "--positive", "subject:none"], "no subject 'none'"),
        (["probe", "--positive", "rest"], "one of the two sets must be named"),
        (["probe", "--positive", "subject:verb", "--negative", "subject:verb"], "in both sets"),
        (
            ["probe", "--positive", "subject:verb", "--held-negative", "subject:court"],
            "held-negative needs held-positive",
        ),
        (["probe", "--positive", "subject:verb", "--name", "../x"], "name"),
        (["models", "--seed", "-1"], "expected a whole number from 0"),
        (["ood", "--seed", "-1"], "expected a whole number from 0"),
        (["ood", "--seeds", "0"], "expected 1 to 10"),
        (["ood", "--measure", "most"], "invalid value"),
        (["difficulty", "--seeds", "11"], "expected 1 to 10"),
        (["difficulty", "--beside", "nobody"], "no predictor 'nobody'"),
        (["difficulty", "/no/such/questions.csv"], "no such file or directory"),
    ],
)
def test_bad_input_is_one_line(
    made: Path, arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    place = [arguments[0], str(made), *arguments[1:]]
    assert main(["space", *place]) == 2
    error = capsys.readouterr().err.strip()
    assert what in error.lower() or what in error
    assert "\n" not in error


def test_a_changed_study_is_refused_with_the_way_out(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    from thetascope.errors import StaleError

    study = tmp_path / "copy"
    shutil.copytree(made, study)
    assert main(["space", "models", str(study)]) == 0
    more = tmp_path / "more.csv"
    more.write_text("item_id,model,score\n" + "".join(f"b:{i},new,1\n" for i in range(N)))
    assert main(["import", str(more), "--into", str(study)]) == 0
    with pytest.raises(StaleError, match="renew with: thetascope space models"):
        load_space(Study.open(study), "models")
    assert main(["space", "models", str(study)]) == 0  # makes a new fit and a new map
    capsys.readouterr()
    assert "new" in load_space(Study.open(study), "models")["models"]


def small_study(folder: Path, rows: list[tuple[str, str, int, str]], vectors: np.ndarray) -> Path:
    """A study from (item, model, score, text) rows; a vector an item, in their order."""
    folder.mkdir()
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score", "text"], orient="row")
    frame.write_csv(folder / "r.csv")
    ids = frame["item_id"].unique(maintain_order=True)
    (folder / "ids.txt").write_text("\n".join(ids))
    np.save(folder / "v.npy", vectors[: len(ids)])
    study = folder / "study"
    assert main(["import", str(folder / "r.csv"), "--into", str(study)]) == 0
    assert main(["encode", str(study), "--vectors", str(folder / "v.npy"), "--ids",
                 str(folder / "ids.txt")]) == 0  # fmt: skip
    return study


@pytest.mark.parametrize("kind", ["all right", "one model", "equal texts", "one item"])
def test_degenerate_studies_have_an_answer_or_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, no NaN in JSON, nothing left in the study by a call that was refused."""
    rng = np.random.default_rng(0)
    n, models = (1 if kind == "one item" else 120), (1 if kind == "one model" else 4)
    vectors = rng.normal(size=(n, 8)).astype(np.float32)
    if kind == "equal texts":
        vectors[:] = vectors[0]
    rows = [
        (f"b{i % 3}:{i}", f"m{m}", 1 if kind == "all right" else int(rng.integers(2)),
         "the same" if kind == "equal texts" else f"text {i}")
        for i in range(n) for m in range(models)
    ]  # fmt: skip
    study = small_study(tmp_path / "made", rows, vectors)
    capsys.readouterr()
    for command in (
        ["difficulty", "--seeds", "1", "--beside", "knn", *QUICK],
        ["taxonomy"], ["models"], ["ood", *QUICK], ["probe", "--positive", "benchmark:b0"],
    ):  # fmt: skip
        for extra in ([], ["--json"]):
            status = main(["space", command[0], str(study), *command[1:], *extra])
            out, err = capsys.readouterr()
            assert status in (0, 2), (command, err)
            if status == 2:
                assert err.count("\n") == 1, (command, err)
                assert "a fault in thetascope" not in err
            elif extra:
                json.loads(out, parse_constant=pytest.fail)
    assert not list((study / "spaces").glob(".work-*"))
    assert main(["report", str(study), "--to", str(tmp_path / "page.html")]) == 0

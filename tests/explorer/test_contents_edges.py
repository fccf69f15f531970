"""The explorer's files where much is missing, old, damaged or named by somebody hostile."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from tests.explorer.explorer_cases import as_json, read_all, tiny

from thetascope.errors import InputError
from thetascope.explorer import Contents
from thetascope.explorer.overview import alone
from thetascope.study import Study, files, store

HOSTILE = (
    "<script>alert('x')</script>", '"><img src=x onerror=alert(1)>', "\u202eback\u200f & 'q'",
    "../../etc/passwd", "nul\x00and\x07bell", "{{mustache}} ${template} \\ \n\t", "日本語 naïve 🙂",
    "=HYPERLINK(1)",
)  # fmt: skip


def test_tables_alone_give_a_page(tmp_path: Path) -> None:
    read = read_all(Contents(tiny(tmp_path / "study")))
    assert set(read) == {
        "site.json", "overview.json", "items.parquet", "models.json", "scores/000.parquet",
        "scores/001.parquet", "scores/002.parquet", "answers/000.parquet", "texts/000.parquet",
    }  # fmt: skip
    site, items = read["site.json"], read["items.parquet"]
    assert site["has"] == {
        "space": False, "predicted": False, "texts": True, "gaps": False, "contexts": False,
        "groups": False, "routing": False, "information": False,
    }  # fmt: skip
    assert site["concept_starts"] == site["versus"] == []
    commands = {m["what"]: m["command"] for m in site["missing"]}
    assert commands["vectors"] == "thetascope encode study"
    assert commands["fit"] == "thetascope fit study"
    assert commands["concepts"] == "thetascope concepts extract study"
    for column in ("x", "y", "norm", "information"):
        assert items[column].null_count() == items.height
    assert (items["cluster"] == -1).all()
    assert items["subject"].to_list()[4] == -1
    assert read["texts/000.parquet"]["text"][7] is None
    assert read["scores/001.parquet"]["predicted"].null_count() == 30


@pytest.mark.parametrize(("n", "models"), [(1, ("a",)), (1, ("a", "b")), (30, ("a",))])
def test_one_item_or_one_model(tmp_path: Path, n: int, models: tuple[str, ...]) -> None:
    read = read_all(Contents(tiny(tmp_path / "study", n, models, benchmarks=("only",))))
    assert read["items.parquet"].height == n
    assert len(read["site.json"]["models"]) == len(models)
    assert len(read["overview.json"]["models"]) == len(models)
    assert read["overview.json"]["core"] == [0]


def test_one_item_with_a_place(tmp_path: Path) -> None:
    import numpy as np

    from thetascope.encoders import import_vectors

    tiny(tmp_path / "study", 1, ("a", "b"), benchmarks=("only",))
    np.save(tmp_path / "v.npy", np.ones((1, 4), np.float32))
    (tmp_path / "ids.txt").write_text("only:q0\n")
    import_vectors(tmp_path / "study", tmp_path / "v.npy", name="made", ids=tmp_path / "ids.txt")
    read = read_all(Contents(tmp_path / "study"))
    assert read["space.json"]["source"] == "vectors"
    assert read["items.parquet"].select("x", "y").row(0) == (0.0, 0.0)
    assert read["neighbours/000.parquet"].height == 0


def test_a_silent_model_has_nothing_rather_than_zero(tmp_path: Path) -> None:
    read = read_all(Contents(tiny(tmp_path / "study", silent=("mute",))))
    k = [m["name"] for m in read["site.json"]["models"]].index("mute")
    assert read["site.json"]["models"][k]["n_answered"] == 0
    assert read[f"scores/{k:03d}.parquet"]["observed"].null_count() == 30
    assert read["models.json"]["benchmarks"][k] == [None, None]
    row = next(r for r in read["overview.json"]["models"] if r["model"] == k)
    assert row["mean"] is None
    assert row["n"] == 0
    assert not row["ranked"]
    assert row is read["overview.json"]["models"][-1]


def test_hostile_names_come_through_as_they_are(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "study", 40, HOSTILE, benchmarks=HOSTILE[:3], subject=HOSTILE[0])
    contents = Contents(folder, title=HOSTILE[0])
    read = read_all(contents)
    site = read["site.json"]
    assert [m["name"] for m in site["models"]] == list(HOSTILE)
    assert [b["name"] for b in site["benchmarks"]] == list(HOSTILE[:3])
    assert {s["name"] for s in site["subjects"]} == {HOSTILE[0]}
    assert site["name"] == HOSTILE[0]
    assert all(p.isascii() and ".." not in p for p in contents.paths())
    for f in read["overview.json"]["first"]:
        assert f["link"] is None or set(f["link"]) <= set(
            "abcdefghijklmnopqrstuvwxyz0123456789#/?=&_"
        )


def test_without_texts_no_piece_of_one_is_there(small_study: Path) -> None:
    with_texts, without = Contents(small_study), Contents(small_study, texts=False)
    gone = set(with_texts.paths()) - set(without.paths())
    assert {p.partition("/")[0] for p in gone} == {"texts", "contexts", "item_contexts"}
    texts = Study.open(small_study).items["text"].to_list()
    words = {t.split(":")[0] for t in texts if t.startswith("Question")}
    for path in without.paths():
        data = without.read(path, keep=False)
        if path.endswith(".json"):
            assert not any(w.encode() in data for w in words), path
        assert path not in gone
    site = as_json(without.read("site.json"))
    assert not site["has"]["texts"]
    assert not site["has"]["contexts"]
    assert "texts" not in {m["what"] for m in site["missing"]}, "the study has them"


def test_what_was_made_from_other_tables_is_named_and_not_shown(
    small_study: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    shutil.copytree(small_study, folder)
    study = Study.open(folder)
    study.rename_models({study.models["model"][0]: "renamed"}).save(folder)
    read = read_all(Contents(folder))
    site = read["site.json"]
    assert not site["has"]["gaps"]
    assert not site["has"]["predicted"]
    assert site["has"]["space"], "text vectors are of texts, not of models"
    assert read["space.json"]["source"] == "vectors"
    assert read["space.json"]["models"] is None
    missing = {m["what"]: m for m in site["missing"]}
    for what in ("fit", "gaps", "bank", "space taxonomy", "space models", "the probe 'probe'"):
        assert "other tables" in missing[what]["why"], what
        assert missing[what]["command"].startswith("thetascope ")
    assert str(tmp_path) not in str([v for p, v in read.items() if p.endswith(".json")])


@pytest.mark.parametrize("kind", ["vectors", "fits", "gaps", "concepts", "banks", "spaces"])
def test_a_damaged_folder_is_named_and_the_rest_is_shown(
    small_study: Path, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "study"
    shutil.copytree(small_study, folder)
    for place in store.read_index(folder).derived[kind].values():
        for file in (folder / place).iterdir():
            if file.name not in ("manifest.json", "run.json"):
                file.write_bytes(file.read_bytes()[:-7])
    read = read_all(Contents(folder))
    assert read["items.parquet"].height == 600
    what = {"vectors": "vectors", "fits": "fit", "gaps": "gaps", "concepts": "gaps",
            "banks": "bank", "spaces": "space taxonomy"}[kind]  # fmt: skip
    missing = {m["what"]: m for m in read["site.json"]["missing"]}
    assert what in missing
    assert "damaged" in missing[what]["why"] or "read" in missing[what]["why"]
    for path, value in read.items():
        assert not path.endswith(".json") or str(tmp_path) not in str(value), path


def test_several_runs_of_a_pair_are_averaged_and_that_is_said(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "study")
    study = Study.open(folder)
    again = study.responses.with_columns(score=1 - pl.col("score"))
    both = pl.concat([study.responses, again.with_columns(run_id=pl.col("model") + "@2")])
    Study.from_tables(both.drop("trials"), study.items, study.models).save(tmp_path / "two")
    read = read_all(Contents(tmp_path / "two"))
    assert read["site.json"]["averaged"]
    assert read["site.json"]["n_responses"] == 180
    assert set(read["scores/000.parquet"]["observed"].to_list()) == {0.5}


def test_no_study_and_damaged_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no study here"):
        Contents(tmp_path)
    folder = tiny(tmp_path / "study")
    table = folder / files.read_json(folder / "study.json")["tables"]["items"]["file"]
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(InputError, match="damaged"):
        Contents(folder)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("plain", "plain"),
        ("\u202eevil", "\u2068\u202eevil\u2069"),
        ("a\u2067b", "\u2068a\u2067b\u2069\u2069"),
        ("a\u2069b", "\u2068\u2068a\u2069b\u2069"),
    ],
)
def test_a_name_that_turns_the_writing_turns_itself_alone(name: str, told: str) -> None:
    assert alone(name) == told

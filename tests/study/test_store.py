"""The study folder: content-named files, one commit point, damage and staleness."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from thetascope.errors import InputError, StaleError
from thetascope.study import Study, files, store
from thetascope.study.doctor import clean, doctor


def make_study(n: int = 6) -> Study:
    rows = [(f"a:{i}", m, float((i + k) % 2)) for i in range(n) for k, m in enumerate("xyz")]
    return Study.from_tables(pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row"))


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    study = make_study()
    saved = study.save(tmp_path / "s")
    opened = Study.open(tmp_path / "s")
    for table in ("items", "models", "runs", "responses"):
        assert getattr(opened, table).equals(getattr(study, table))
    assert saved.path == opened.path == tmp_path / "s"


def test_equal_studies_are_equal_bytes_whatever_the_order_of_rows(tmp_path: Path) -> None:
    study = make_study()
    shuffled = Study.from_tables(
        study.responses.sample(fraction=1, shuffle=True, seed=1), study.items, study.models,
        study.runs,
    )  # fmt: skip
    study.save(tmp_path / "one")
    shuffled.save(tmp_path / "two")
    assert (tmp_path / "one/study.json").read_bytes() == (tmp_path / "two/study.json").read_bytes()


def test_files_are_named_by_content_and_old_ones_wait_for_clean(tmp_path: Path) -> None:
    make_study().save(tmp_path)
    first = {p.name for p in tmp_path.glob("*.parquet")}
    for name in first:
        assert files.hash_file(tmp_path / name) == Path(name).stem.rpartition("-")[2]
    make_study(9).save(tmp_path)
    assert first <= {p.name for p in tmp_path.glob("*.parquet")}
    gone = clean(tmp_path)
    assert gone
    assert set(gone) < first  # models and runs did not change
    assert Study.open(tmp_path).n_items == 9


def test_nothing_points_to_a_table_before_commit(tmp_path: Path) -> None:
    make_study().save(tmp_path)
    with store.writing(tmp_path) as writer:
        make_study(9).write(writer)
    assert Study.open(tmp_path).n_items == 6


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: (p / "study.json").write_text("{"), "study.json: is not readable as JSON"),
        (lambda p: (p / "study.json").write_text("[]"), "study.json: is not a thetascope study"),
        (lambda p: (p / "study.json").write_text("{}"), "study.json: is not a thetascope study"),
        (lambda p: _edit(p, version=99), "field 'version': has version 99, this thetascope"),
        (lambda p: _edit(p, tables={}), r"field 'tables\.items': names no such table"),
        (lambda p: _edit(p, policy="odd"), "unknown policy 'odd'"),
        (lambda p: next(p.glob("items-*")).unlink(), "parquet: is named by study.json but missing"),
        (lambda p: next(p.glob("items-*")).write_bytes(b"PAR1"), "parquet: is damaged"),
        (lambda p: next(p.glob("items-*")).write_bytes(b""), "parquet: is damaged"),
    ],
)  # fmt: skip
def test_a_damaged_study_says_what_is_wrong(tmp_path: Path, spoil, message: str) -> None:
    make_study().save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        Study.open(tmp_path)


def test_a_folder_with_other_things_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"is not a study and not empty \(holds 'thesis\.tex'\)"):
        make_study().save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InputError, match="is a file, a study is a folder"):
        make_study().save(tmp_path / "thesis.tex")


def _derive(path: Path, name: str = "made") -> Path:
    with store.writing(path) as writer:
        inputs = {"responses": writer.index.table_hash("responses")}
        work = writer.work_folder("fits", name, {"a": 1})
        (work / "weights").write_bytes(b"123")
        (work / ".tmp-half").write_bytes(b"half")
        files.write_json(work / "run.json", {"host": "here"})
        folder = writer.put_derived("fits", name, {"a": 1}, work, {"inputs": inputs})
        writer.commit()
    return folder


def test_derived_folders_are_named_by_content_without_run_facts(tmp_path: Path) -> None:
    make_study().save(tmp_path / "s")
    folder = _derive(tmp_path / "s")
    assert folder.name == f"made-{files.hash_folder(folder)}"
    assert not list(folder.glob(".tmp-*"))
    files.write_json(folder / "run.json", {"host": "elsewhere"})
    assert folder.name == f"made-{files.hash_folder(folder)}"
    index = store.read_index(tmp_path / "s")
    assert store.derived_folder(tmp_path / "s", index, "fits") == folder
    with pytest.raises(InputError, match="no fits named 'other'; there are made"):
        store.derived_folder(tmp_path / "s", index, "fits", "other")


def test_a_finished_folder_is_found_again_after_a_kill_before_commit(tmp_path: Path) -> None:
    make_study().save(tmp_path)
    with store.writing(tmp_path) as writer:
        work = writer.work_folder("fits", "made", {"a": 1})
        folder = writer.put_derived("fits", "made", {"a": 1}, work, {"inputs": {}})
    with store.writing(tmp_path) as writer:
        assert writer.find_derived("fits", "made", {"a": 1}) == folder
        assert writer.find_derived("fits", "made", {"a": 2}) is None
        (folder / "manifest.json").write_text("{broken")
        assert writer.find_derived("fits", "made", {"a": 1}) is None


def test_stale_folders_are_refused_with_the_command_that_renews(tmp_path: Path) -> None:
    make_study().save(tmp_path)
    folder = _derive(tmp_path)
    now = {"responses": store.read_index(tmp_path).table_hash("responses")}
    assert store.check_fresh(folder, now, "thetascope fit")["inputs"] == now
    with pytest.raises(StaleError, match=r"other responses .* renew with: thetascope fit"):
        store.check_fresh(folder, {"responses": "other"}, "thetascope fit")


def test_the_doctor_sees_damage_staleness_and_leftovers(tmp_path: Path) -> None:
    make_study().save(tmp_path)
    folder = _derive(tmp_path)
    found = {f.check: f for f in doctor(Study.open(tmp_path))}
    assert found["damaged files"].level == found["stale folders"].level == "ok"
    make_study(9).save(tmp_path)
    found = {f.check: f for f in doctor(Study.open(tmp_path))}
    assert found["stale folders"].examples == [f"fits/{folder.name}"]
    assert found["leftovers"].n == 2  # the old items and responses
    (folder / "weights").write_bytes(b"124")
    found = {f.check: f for f in doctor(Study.open(tmp_path))}
    assert (found["damaged files"].level, found["damaged files"].n) == ("error", 1)


def test_the_index_is_plain_json(tmp_path: Path) -> None:
    make_study().save(tmp_path)
    data = json.loads((tmp_path / "study.json").read_text("utf-8"))
    assert data["format"] == "thetascope-study"
    assert data["tables"]["items"]["rows"] == 6


def _edit(path: Path, **changes: object) -> None:
    data = json.loads((path / "study.json").read_text("utf-8"))
    (path / "study.json").write_text(json.dumps({**data, **changes}), "utf-8")

"""Publishing: complete or not there, the same bytes each time, and no text without a word."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.explorer.explorer_cases import folder_hash, tiny

import thetascope as ts
from thetascope.cli import main
from thetascope.errors import InputError
from thetascope.explorer import Contents
from thetascope.explorer import publish as publishing
from thetascope.explorer.page import page_files
from thetascope.explorer.publish import publish


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_holds_the_page_and_the_studys_files(small_study: Path, tmp_path: Path) -> None:
    before = folder_hash(small_study)
    made = publish(small_study, tmp_path / "new" / "out", title="A <b>title</b>")
    assert folder_hash(small_study) == before
    found = tree(tmp_path / "new" / "out")
    contents = Contents(small_study, title="A <b>title</b>")
    expected = page_files() | {f"data/{p}": contents.read(p) for p in contents.paths()}
    assert found == expected
    assert made.n_files == len(found)
    assert made.n_bytes == sum(map(len, found.values()))
    assert made.n_texts == 600
    assert made.contexts
    assert json.loads(found["data/site.json"])["name"] == "A <b>title</b>"
    assert os.listdir(tmp_path / "new") == ["out"]


def test_two_zips_are_the_same_bytes_and_hold_the_folder(small_study: Path, tmp_path: Path) -> None:
    publish(small_study, tmp_path / "a.zip")
    publish(small_study, tmp_path / "b.zip")
    publish(small_study, tmp_path / "folder")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        found = {name: archive.read(name) for name in names}
    assert len(set(names)) == len(names)
    assert found == tree(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["a.zip", "b.zip", "folder"]


def test_nothing_is_overwritten_or_written_into_the_study(
    small_study: Path, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "f.zip").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for to in ("full", "f.zip", "link"):
        with pytest.raises(InputError, match="is there already"):
            publish(small_study, tmp_path / to)
    before = folder_hash(small_study)
    (tmp_path / "door").symlink_to(small_study)
    for to in (small_study, small_study / "out", small_study / "x" / "out.zip",
               tmp_path / "door" / "out"):  # fmt: skip
        with pytest.raises(InputError, match="lies in the study"):
            publish(small_study, to)
    assert folder_hash(small_study) == before
    assert (tmp_path / "full" / "mine").read_text() == "mine"
    assert (tmp_path / "f.zip").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    publish(small_study, tmp_path / "empty")
    assert (tmp_path / "empty" / "index.html").is_file()


@pytest.mark.parametrize("to", ["out", "out.zip"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, error: BaseException
) -> None:
    folder = tiny(tmp_path / "study")
    real = Contents.read

    def broken(self: Contents, path: str, **more: Any) -> bytes:
        if path.startswith("scores/001"):
            raise error
        return real(self, path, **more)

    monkeypatch.setattr(Contents, "read", broken)
    with pytest.raises((InputError, KeyboardInterrupt)) as raised:
        publish(folder, tmp_path / to)
    if isinstance(error, OSError):
        assert "No space left" in str(raised.value)
    assert os.listdir(tmp_path) == ["study"]
    monkeypatch.undo()
    publish(folder, tmp_path / to)
    assert (tmp_path / to).exists()


def test_a_fault_while_writing_is_one_line(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "study")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"cannot be (written|looked at)"):
        publish(folder, tmp_path / "file" / "out")


def test_a_study_in_memory_is_refused_and_an_opened_one_is_not(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "study")
    study = ts.open(folder)
    assert ts.publish(study, tmp_path / "out").n_texts == 29
    with pytest.raises(InputError, match="in memory"):
        publish(ts.Study.from_tables(study.responses, study.items), tmp_path / "other")


def test_an_installation_without_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thetascope.explorer.page._walk", lambda *_: [])
    with pytest.raises(InputError, match="page is not in this installation"):
        publishing.publish(tiny(tmp_path / "study"), tmp_path / "out")


def test_the_command_says_whose_texts_are_in_it(
    small_study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["publish", str(small_study), "--to", str(tmp_path / "with")]) == 0
    said = capsys.readouterr().out
    assert "the texts of 600 items and pieces of them beside concepts" in said
    assert "--no-texts" in said
    assert main(["publish", str(small_study), "--to", str(tmp_path / "x"), "--no-texts"]) == 0
    assert "no item's text is in it" in capsys.readouterr().out
    assert not (tmp_path / "x" / "data" / "texts").exists()
    assert main(["publish", str(small_study), "--to", str(tmp_path / "y.zip"), "--json",
                 "--no-texts", "--title", "T"]) == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    assert found["bytes"] == (tmp_path / "y.zip").stat().st_size
    assert found["texts"] == 0
    assert found["name"] == "T"
    assert main(["publish", str(small_study), "--to", str(tmp_path / "y.zip")]) == 2
    assert "is there already" in capsys.readouterr().err


def test_no_text_is_in_an_export_without_texts(small_study: Path, tmp_path: Path) -> None:
    publish(small_study, tmp_path / "out", texts=False)
    for path, data in tree(tmp_path / "out" / "data").items():
        if not path.endswith(".parquet"):
            assert b"given " not in data, path
            continue
        for column in pl.read_parquet(io.BytesIO(data)).select(pl.col(pl.String)).iter_columns():
            assert not column.str.contains("given |long one|window.pwned=1</script>").any(), path


def test_the_bundled_study_is_small_to_share(bundled_study: Path, tmp_path: Path) -> None:
    made = publish(bundled_study, tmp_path / "out")
    assert made.n_bytes < 12_000_000
    assert made.n_texts == 0
    most = max((tmp_path / "out" / "data").rglob("*.parquet"), key=lambda p: p.stat().st_size)
    assert most.stat().st_size < 500_000, most


CORE = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
HIDDEN = ("torch", "transformers", "sentence_transformers", "fastapi", "uvicorn", "starlette")
def hide(name, path=None, target=None):
    return None if name.split(".")[0] in HIDDEN else find(name, path, target)
PathFinder.find_spec = hide
from thetascope.cli import main
status = main(sys.argv[1:])
assert not set(HIDDEN) & set(sys.modules), set(HIDDEN) & set(sys.modules)
sys.exit(status)
"""


def test_publishing_needs_neither_torch_nor_a_server(small_study: Path, tmp_path: Path) -> None:
    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", CORE, *map(str, arguments)], capture_output=True, text=True
        )

    done = run("publish", small_study, "--to", tmp_path / "core")
    assert done.returncode == 0, done.stderr
    publish(small_study, tmp_path / "here")
    assert tree(tmp_path / "core") == tree(tmp_path / "here")
    refused = run("explore", small_study, "--port", "0")
    assert refused.returncode == 2
    assert "pip install 'thetascope[serve]'" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_the_same_study_elsewhere_gives_the_same_bytes(small_study: Path, tmp_path: Path) -> None:
    shutil.copytree(small_study, tmp_path / "study")
    publish(tmp_path / "study", tmp_path / "a.zip", title="t")
    publish(small_study, tmp_path / "b.zip", title="t")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()

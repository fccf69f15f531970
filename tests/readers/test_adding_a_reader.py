"""The page on adding a reader does what it says."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import read, readers, registry

PAGE = Path(__file__).resolve().parents[2] / "docs/adding-a-reader.md"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
LOG, MODULE, REGISTRATION, REPORT = (text for _, text in BLOCKS)


@pytest.fixture
def quiz_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / "quiz_log.py"
    path.write_text(MODULE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("thetascope.readers.quiz_log", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    known = readers()
    tables = known.pop("tables")
    monkeypatch.setattr(
        registry, "readers", lambda: {**known, module.FORMAT: module, "tables": tables}
    )
    return module


def test_the_example(quiz_log: Any, tmp_path: Path) -> None:
    path = tmp_path / "quiz.jsonl"
    path.write_text(LOG, encoding="utf-8")
    study = read(path)
    assert study.responses.select("item_id", "score").rows() == [
        ("capitals:1", 1.0),
        ("capitals:2", 0.5),
    ]
    assert study.report.lines() == REPORT.splitlines()
    head = path.read_bytes()
    assert [n for n, r in registry.readers().items() if r.claims(path, head)] == ["quiz-log"]


def test_its_errors(quiz_log: Any, tmp_path: Path) -> None:
    path = tmp_path / "quiz.jsonl"
    first = json.loads(LOG.splitlines()[0])
    path.write_text(json.dumps({**first, "points": 11}) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}, record 1, field 'points': must be between 0 and 10, found 11"
    )


def test_the_registration_is_what_the_registry_has() -> None:
    source = Path(registry.__file__).read_text(encoding="utf-8")
    last = list(readers().values())[-2].__name__.rpartition(".")[2]  # type: ignore[attr-defined]
    assert REGISTRATION.replace("quiz_log", last) in source

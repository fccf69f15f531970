"""Streamed JSON equals loaded JSON, wherever the buffer happens to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import json_stream
from thetascope.readers.json_stream import iter_entries, iter_pieces

VALUES: list[Any] = [
    {"a": [1, -2.5e10, 'quo"te \\ \u2028 \u00e9', None, True], "b": {}},
    [],
    "text, ] }",
    1234567890123456789,
    -0.125,
    {"deep": [[[[1]]]]},
    "\U0001f600 " * 30,
]


@pytest.fixture(params=[1, 2, 3, 7, 64, 1 << 20])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(json_stream, "_CHUNK", request.param)
    return request.param


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("ascii", [True, False])
def test_arrays(tmp_path: Path, chunk: int, indent: int | None, ascii: bool) -> None:
    path = tmp_path / "a.json"
    text = json.dumps(VALUES, indent=indent, ensure_ascii=ascii)
    path.write_text(text, encoding="utf-8")
    pieces = list(iter_pieces(path))
    assert [p.value for p in pieces] == VALUES
    assert [p.number for p in pieces] == list(range(1, len(VALUES) + 1))


def test_members(tmp_path: Path, chunk: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"v": 2, "samples": VALUES, "empty": [], "end": 12}), "utf-8")
    pieces = list(iter_pieces(path, ("samples", "empty")))
    assert [p for p in pieces if p.number is None] == [("v", None, 2), ("end", None, 12)]
    assert [p.value for p in pieces if p.key == "samples"] == VALUES


def test_every_cut_is_an_error(tmp_path: Path) -> None:
    text = json.dumps({"v": 2.5, "samples": VALUES[:3]})
    path = tmp_path / "a.json"
    for end in range(1, len(text)):
        path.write_text(text[:end], encoding="utf-8")
        with pytest.raises(InputError):
            list(iter_pieces(path, ("samples",)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.json: expected an array or an object"),
        ("7", "a.json: expected an array or an object"),
        ("[1] x", "a.json: has text behind the end of its JSON"),
        ("[1 2]", "a.json, record 1: is not JSON: expected , or ], found '2'"),
        ("[1, nope, 2, 3, 4, 5, 6, 7]", "a.json, record 2: is not JSON: Expecting value"),
        ("{1: 2}", "a.json: is not JSON: expected a key"),
        ("[" * 100_000, "a.json, record 1: is nested too deeply to read"),
        ("[" + "1" * 5000 + "]", "a.json, record 1: holds a number too long to read"),
    ],
)
def test_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        list(iter_pieces(Path("a.json")))
    assert str(caught.value) == message


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'["\xff"]')
    with pytest.raises(InputError, match="is not UTF-8"):
        list(iter_pieces(path))


def test_entries_of_a_member(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1], "d": {"x": {"y": 1}, "z": 2}, "b": {}}', encoding="utf-8")
    assert list(iter_entries(path, "d")) == [("x", {"y": 1}), ("z", 2)]
    assert list(iter_entries(path, "a")) == [("0", 1)]
    assert list(iter_entries(path, "b")) == []
    assert list(iter_entries(path, "c")) == []
    path.write_text('{"d": {"x": 1, "y": [1', encoding="utf-8")
    with pytest.raises(InputError, match="record y: is cut off: the file ends inside it"):
        list(iter_entries(path, "d"))
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match="expected an object"):
        list(iter_entries(path, "d"))

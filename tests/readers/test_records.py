"""A look at the first record of a file decides whose it is: whatever the file holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetascope.errors import InputError
from thetascope.readers.records import objects, outline

HEADS = [
    (b'[{"a": 1, "b": {"c": [1, {"d": 2}]}, "e": "x"}, {"f": 1}]', "[", {"a": "1", "b": "{"}),
    (b'{"a": null}\n{"b": true}\n', "{", {"a": "n"}),
    (b'\xef\xbb\xbf {"a": [], "b\\"c": false}', "{", {"a": "[", 'b\\"c': "f"}),
    (b'[{"a": "long, \\"cut', "[", {"a": '"'}),
    (b'[{"a": {"b": "cut {', "[", {"a": "{"}),
    (b'{"a": 1, "cut', "{", {"a": "1"}),
    (b"[1, 2]", "", {}),
    (b"[", "", {}),
    (b"", "", {}),
    (b"a,b\n1,2\n", "", {}),
    (b"\xff\xfe\x00", "", {}),
]


@pytest.mark.parametrize(("head", "frame", "kinds"), HEADS)
def test_outline(head: bytes, frame: str, kinds: dict[str, str]) -> None:
    found = outline(head)
    assert found.frame == frame
    assert {k: found.kinds[k] for k in kinds} == kinds
    assert "d" not in found.kinds
    assert "f" not in found.kinds


@given(st.binary(max_size=300))
def test_outline_takes_anything(head: bytes) -> None:
    outline(head)


values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


@given(st.dictionaries(st.text(alphabet="abc_ é"), values, min_size=1), st.booleans())
def test_outline_of_a_record_is_its_keys(record: dict[str, object], array: bool) -> None:
    text = json.dumps([record, {"other": 1}] if array else record, ensure_ascii=False)
    found = outline(text.encode("utf-8", "surrogatepass"))
    assert list(found.kinds) == list(record)
    assert found.frame == ("[" if array else "{")


def test_objects_of_both_frames(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a": 1},\n {"a": 2}]', encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"a": "1\u2028"}\n\n{"a": 2}\n', encoding="utf-8")
    assert list(objects(tmp_path / "a.json")) == [(1, {"a": 1}), (2, {"a": 2})]
    assert list(objects(tmp_path / "b.jsonl")) == [(1, {"a": "1\u2028"}), (3, {"a": 2})]


BROKEN = [
    (b"", "has no records"),
    (b"[]", "has no records"),
    (b"[1]", "record 1: expected an object, found a number"),
    (b'{"a": 1}\n"x"\n', "record 2: expected an object, found text"),
    (b'{"a": 1}\n{"a": \xff}\n', "record 2: is not UTF-8 (byte 6)"),
    (b'[{"a": "\xff"}]', ": is not UTF-8"),
    (b'[{"a": 1}, {"a"', "record 2: is cut off: the file ends inside it"),
    (b'[{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}]", "record 1: is nested too deeply to read"),
]


@pytest.mark.parametrize(("data", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_objects_that_are_broken(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        list(objects(path))
    assert str(caught.value).endswith(message)

"""BFCL's score files: only failures are listed, and nothing is taken for right unsaid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read


def failure(key: Any, **more: Any) -> dict[str, Any]:
    return {"id": key, "model_name": "m", "test_category": "simple", "valid": False, **more}


def write(folder: Path, right: Any, total: Any, *failures: Any) -> Path:
    path = folder / "BFCL_v3_simple_score.json"
    summary = {"accuracy": 0.5, "correct_count": right, "total_count": total}
    text = "".join(json.dumps(r) + "\n" for r in (summary, *failures))
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_not_listed_was_right(tmp_path: Path) -> None:
    asked = [[{"role": "system", "content": "x"}, {"role": "user", "content": "Add 1."}]]
    then = [{"role": "user", "content": "Add 2."}]
    failures = failure("simple_1", prompt={"question": [*asked, then]}), failure("simple_3")
    study = read(write(tmp_path, 2, 4, *failures))
    assert dict(study.responses.select("item_id", "score").iter_rows()) == {
        "bfcl/simple:simple_0": 1,
        "bfcl/simple:simple_1": 0,
        "bfcl/simple:simple_2": 1,
        "bfcl/simple:simple_3": 0,
    }
    assert study.models["model"].to_list() == ["m"]
    assert study.items["text"].to_list() == [None, "Add 1.\nAdd 2.", None, None]
    assert (study.report.read, study.report.kept) == (4, 4)
    assert (
        "BFCL_v3_simple_score.json: 2 right answers are not in the file: they are the ids from"
        " simple_0 to simple_3 that it does not list"
    ) in study.report.notes


REFUSED = [
    (
        (2, 4, failure("simple_1")),
        ": lists 1 failures, but counts 2 right of 4",
    ),
    (
        (1, 2, failure("live_simple_0-0-0")),
        (
            ", record 2: lists only failures, and from ids such as 'live_simple_0-0-0' those of"
            " the right answers cannot be told (grade the result files, which list every entry,"
            " into a table)"
        ),
    ),
    (
        (1, 2, failure("simple_7")),
        (
            ", record 2: lists the failure 'simple_7' of 2 entries, so the ids of the right"
            " answers cannot be told (grade the result files, which list every entry, into a"
            " table)"
        ),
    ),
    (
        (1, 2, failure("simple_01")),
        (
            ", record 2: lists the failure 'simple_01' of 2 entries, so the ids of the right"
            " answers cannot be told (grade the result files, which list every entry, into a"
            " table)"
        ),
    ),
    (
        (2, 2),
        (
            ": lists no failures, so the ids of the right answers cannot be told (grade the"
            " result files, which list every entry, into a table)"
        ),
    ),
    (
        (0, 2, failure("simple_1"), failure("simple_1")),
        ", record 3, field 'id': 'simple_1' is listed twice",
    ),
    (
        (0, 2, failure("simple_1"), failure("java_1")),
        ": lists entries of simple and of java",
    ),
    (
        (1, 2, failure("simple_1", valid=True)),
        ", record 2, field 'valid': expected false: only failures are listed",
    ),
    (("many", 2), ", record 1, field 'correct_count': expected a whole number"),
    ((1, 1e300), ", record 1, field 'total_count': expected a whole number"),
    ((1, 2.5), ", record 1, field 'total_count': expected a whole number"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_refused(tmp_path: Path, content: Any, message: str) -> None:
    path = write(tmp_path, *content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value) == f"{path}{message}"


def test_a_model_that_is_not_named(tmp_path: Path) -> None:
    nameless = {"id": "simple_0", "valid": False}
    path = write(tmp_path, 1, 2, nameless)
    with pytest.raises(InputError, match="cannot tell the model"):
        read(path)
    assert read(path, options=ReadOptions(model="n")).models["model"].to_list() == ["n"]

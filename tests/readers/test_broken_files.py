"""Whatever is wrong with a file, the reader says so in its own words or reads it."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.fuzz.formats import FORMATS

from thetascope.errors import InputError
from thetascope.readers import read, readers
from thetascope.study import Study

ODD: list[Any] = [
    None,
    [],
    {},
    "",
    "x",
    "\ud800",
    -1,
    1e999,
    10**400,
    True,
    float("nan"),
    [[1]],
    {"a": [None]},
]


HOSTILE: list[Any] = [
    "x" * 1_000_000,
    "a\u2028b\x85c\x00",
    "../../x",
    "True",
    "1.0",
    "NaN",
    float("inf"),
    json.loads("[" * 100 + "1" + "]" * 100),
    {"\ud800": "\udfff"},
]


def usable(study: Study) -> None:
    """A study that was read can be shown and stored."""
    "\n".join(study.report.lines()).encode()
    json.dumps(study.report.to_json(), ensure_ascii=False).encode()
    for table in (study.responses, study.items, study.models, study.runs):
        table.write_parquet(io.BytesIO())


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside `value`."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path, *(p for key, v in inner for p in places(v, (*path, key)))]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("format", FORMATS)
def test_every_value_may_be_anything(format: str, tmp_path: Path) -> None:
    assert put_everywhere(format, ODD, tmp_path) > 10


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("format", [f for f in FORMATS if f not in ("lm-eval", "inspect", "helm")])
def test_hostile_values(format: str, tmp_path: Path) -> None:
    assert put_everywhere(format, HOSTILE, tmp_path) > 5


def put_everywhere(format: str, values: list[Any], folder: Path) -> int:
    """Puts every value at every place and reads; returns how often that was refused."""
    kind = FORMATS[format]
    at, n_refused, messages = kind.number_at, 0, set[str]()
    for place in places(kind.parts):
        number = 0 if at is None or len(place) <= at else place[at]
        if not place or (isinstance(number, int) and number > 0):
            continue
        for odd in values:
            broken = copy.deepcopy(kind.parts)
            inside = broken
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = odd
            kind.write(folder, broken)
            for source in kind.sources:
                try:
                    usable(read(folder / source, format=format.split()[0], options=kind.options))
                except InputError as error:
                    n_refused += 1
                    messages.add(str(error))
                except Exception as error:
                    raise AssertionError(f"{source}: {place} = {str(odd)[:50]!r}") from error
    assert all("\n" not in m and m.isprintable() for m in messages)
    return n_refused


@pytest.mark.parametrize("format", FORMATS)
def test_no_other_reader_claims_it(format: str, tmp_path: Path) -> None:
    kind = FORMATS[format]
    kind.write(tmp_path, kind.parts)
    for source in kind.sources:
        path = tmp_path / source
        head = b"" if path.is_dir() else path.read_bytes()[: 1 << 16]
        for cut in (len(head), len(head) * 3 // 4):
            claimed = [n for n, r in readers().items() if r.claims(path, head[:cut])]
            assert claimed in ([format.split()[0]], [] if cut < len(head) else None), cut


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_bytes(format: str, tmp_path: Path) -> None:
    kind = FORMATS[format]
    rng, messages = np.random.default_rng(0), set[str]()
    kind.write(tmp_path, kind.parts)
    files = {p: p.read_bytes() for p in sorted(tmp_path.iterdir())}
    for _ in range(60):
        path = sorted(files)[int(rng.integers(len(files)))]
        data = bytearray(files[path])
        at = int(rng.integers(len(data)))
        if rng.random() < 0.5:
            data[at] = int(rng.integers(256))
        else:
            del data[at:]
        path.write_bytes(bytes(data))
        for source in kind.sources:
            try:
                read(tmp_path / source, format=format.split()[0], options=kind.options)
            except InputError as error:
                messages.add(str(error))
        path.write_bytes(files[path])
    assert len(messages) > 5
    assert all("\n" not in m for m in messages)

"""What the tests of the explorer's files share: reading them back, small studies."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from thetascope.explorer import Contents
from thetascope.study import Study

TYPES = {pl.String, pl.Boolean, pl.Float32, pl.UInt8, pl.UInt16, pl.UInt32, pl.Int8, pl.Int16,
         pl.Int32, pl.Int64}  # fmt: skip
"""What the page's reader knows."""


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def as_json(data: bytes) -> Any:
    """The object in a JSON file, which holds no NaN and no infinity."""
    return json.loads(data.decode("utf-8"), parse_constant=_refuse)


def as_table(data: bytes) -> pl.DataFrame:
    """The table in a Parquet file of types that the page reads; no number in it is NaN."""
    found = pl.read_parquet(io.BytesIO(data))
    assert set(found.dtypes) <= TYPES, found.schema
    for column in found.select(pl.col(pl.Float32)).iter_columns():
        assert not column.is_nan().any(), column.name
        assert not column.is_infinite().any(), column.name
    return found


def read_all(contents: Contents) -> dict[str, Any]:
    """Every file, read back."""
    out: dict[str, Any] = {}
    for path in contents.paths():
        data = contents.read(path)
        out[path] = as_json(data) if path.endswith(".json") else as_table(data)
    return out


def folder_hash(folder: Path) -> str:
    """Of all names and bytes in a folder, hidden files too."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        digest.update(str(file.relative_to(folder)).encode("utf-8", "surrogatepass") + b"\0")
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def tiny(
    folder: Path, n: int = 30, models: tuple[str, ...] = ("a", "b", "c"), *,
    benchmarks: tuple[str, ...] = ("first", "second"), texts: bool = True, subject: str = "s",
    silent: tuple[str, ...] = (),
) -> Path:  # fmt: skip
    """A study of tables alone; `silent` models are known and answered nothing."""
    items = pl.DataFrame(
        {
            "source_id": [f"q{j}" for j in range(n)],
            "benchmark": [benchmarks[j % len(benchmarks)] for j in range(n)],
            "subject": [None if j % 5 == 4 else subject for j in range(n)],
            **({"text": [None if j == 7 else f"question {j}" for j in range(n)]} if texts else {}),
        },
        schema_overrides={"subject": pl.String},
    ).with_columns(item_id=pl.concat_str("benchmark", "source_id", separator=":"))
    ids = items["item_id"].to_list()
    cells = [(ids[j], m, float((7 * j + 3 * k) % 5 > 1)) for j in range(n)
             for k, m in enumerate(models)]  # fmt: skip
    responses = pl.DataFrame(cells, schema=["item_id", "model", "score"], orient="row")
    known = pl.DataFrame({"model": [*models, *silent]})
    Study.from_tables(responses, items, known).save(folder)
    return folder

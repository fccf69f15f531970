"""The explorer's map for the tool embedding-atlas: one table, and a README with the command.

    data.parquet    a row an item: item_id, benchmark, subject, text, x, y, difficulty, n_answered,
                    cluster, features (list of strings), neighbours (ids and distances), and a
                    column `score: MODEL` each
    README.md       what the columns are, what is missing and why, the command that opens it

Places, clusters, features and neighbours are those of the explorer's own files, so that both
show one map. A column that the study has nothing for is not written. Names and texts stay as they
are: they are cells of a table; only in the names of columns are double quotes and control
characters replaced, because the tool puts those names into SQL.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from thetascope.explorer.contents import Contents
from thetascope.study import Study
from thetascope.study.derived import path_of

DATA, README = "data.parquet", "README.md"
_UNFIT = re.compile(r'["\x00-\x1f\x7f\u2028\u2029]')
_COLUMNS = {
    "space": "x, y, neighbours", "space taxonomy": "cluster", "texts": "text", "gaps": "features",
}  # fmt: skip
"""Columns by the part of the study that they are made from."""
_NEEDS = {"space": "vectors", "gaps": "concepts"}
"""What a part is made from, where the part itself is not named as missing."""
Read = Callable[[str], bytes]


def write(study: Study, folder: Path) -> None:
    """Writes the table and its README into an empty folder.

    Args:
        study: A study on disk.
        folder: An existing folder.

    Raises:
        InputError: The study is in memory only.
    """
    contents = Contents(path_of(study))
    table, missing = atlas_table(contents.read, study.items["item_id"])
    table.write_parquet(folder / DATA, compression="zstd", statistics=False)
    (folder / README).write_text(_readme(table, missing), encoding="utf-8")


def left_out(study: Study) -> list[str]:
    """What the table does not hold, each with its number or what makes it."""
    contents = Contents(path_of(study))
    site = _json(contents.read, "site.json")
    lost = [f"intervals ({site['n_models']:,} models)"]
    if site["averaged"]:
        lost.append("single runs: several of a pair are averaged")
    return lost + _missing(site)


def atlas_table(read: Read, item_ids: pl.Series) -> tuple[pl.DataFrame, list[str]]:
    """Puts the explorer's files of one study together as one table.

    Args:
        read: A file's bytes by its path in the contract of the explorer's files.
        item_ids: (N,) of the study's items.

    Returns:
        The table, and in words what is missing from it.
    """
    site = _json(read, "site.json")
    has, n = site["has"], site["n_items"]
    items = _table(read, "items.parquet")
    columns: dict[str, pl.Series] = {
        "item_id": item_ids,
        "benchmark": _names(items["benchmark"], [b["name"] for b in site["benchmarks"]]),
        "subject": _names(items["subject"], [s["name"] for s in site["subjects"]]),
    }
    if has["texts"]:
        columns["text"] = pl.concat(_chunks(read, site, "texts"))["text"]
    if has["space"]:
        columns |= {"x": items["x"], "y": items["y"]}
    columns |= {"difficulty": items["error"], "n_answered": items["n_answered"]}
    if has["space"]:
        clusters = {c["code"]: c["name"] for c in _json(read, "space.json")["clusters"]}
        if clusters:
            columns["cluster"] = items["cluster"].replace_strict(
                clusters, default=None, return_dtype=pl.String
            )
    if has["gaps"]:
        labels = _table(read, "concepts.parquet")["label"].to_list()
        columns["features"] = _features(_table(read, "features.parquet"), labels, n)
    if has["space"]:
        columns["neighbours"] = _neighbours(pl.concat(_chunks(read, site, "neighbours")), n)
    for k, name in enumerate(column_names([m["name"] for m in site["models"]])):
        columns[name] = _table(read, f"scores/{k:03}.parquet")["observed"]
    table = pl.DataFrame([values.alias(name) for name, values in columns.items()])
    if table["subject"].null_count() == n:
        table = table.drop("subject")
    return table, _missing(site)


def column_names(models: list[str]) -> list[str]:
    """Names of the models' columns, each once, without what ends a name in SQL."""
    taken: set[str] = set()
    out: list[str] = []
    for model in models:
        stem = name = f"score: {_UNFIT.sub(_spoken, model)}"
        turn = 1
        while name in taken:
            turn += 1
            name = f"{stem} ({turn})"
        taken.add(name)
        out.append(name)
    return out


def _spoken(found: re.Match[str]) -> str:
    return "'" if found.group() == '"' else " "


def _features(rows: pl.DataFrame, labels: list[str | None], n: int) -> pl.Series:
    """(N,) lists of labels, the strongest first, none twice."""
    concepts = rows["concept"].to_numpy().reshape(n, -1)
    lists = [
        list(dict.fromkeys(labels[c] or f"concept {c}" for c in row if c >= 0))
        for row in concepts.tolist()
    ]
    return pl.Series("features", lists, pl.List(pl.String))


def _neighbours(rows: pl.DataFrame, n: int) -> pl.Series:
    """(N,) structs of ids (rows of this table) and distances (1 - cosine), the nearest first."""
    lists = (
        rows.with_columns(distance=(1 - pl.col("cosine")).clip(0).cast(pl.Float32))
        .sort("item", "distance", maintain_order=True)
        .group_by("item", maintain_order=True)
        .agg(pl.col("neighbour").cast(pl.Int64).alias("ids"), pl.col("distance").alias("distances"))
    )
    every = pl.DataFrame({"item": np.arange(n)}).with_columns(
        pl.col("item").cast(rows["item"].dtype)
    )
    found = every.join(lists, on="item", how="left", maintain_order="left")
    return found.select(
        pl.struct(pl.col("ids").fill_null([]), pl.col("distances").fill_null([]))
    ).to_series()


def _names(codes: pl.Series, names: list[str]) -> pl.Series:
    return codes.replace_strict(
        dict(enumerate(names)), default=None, return_dtype=pl.String
    )  # -1: it has none


def _missing(site: dict[str, Any]) -> list[str]:
    """Columns that are not there, each with the reason and the command that makes them."""
    reasons = {m["what"]: m for m in site["missing"]}
    has = {**site["has"], "space taxonomy": "space taxonomy" not in reasons}
    out: list[str] = []
    for what, columns in _COLUMNS.items():
        if has[what]:
            continue
        why = reasons.get(what) or reasons.get(_NEEDS.get(what, ""))
        reason = f"the study has no {what}" if why is None else why["why"].rstrip(".")
        command = f" ({why['command']})" if why and why["command"] else ""
        out.append(f"{columns}: {reason}{command}")
    return out


def _readme(table: pl.DataFrame, missing: list[str]) -> str:
    given = {"x": "x", "y": "y", "text": "text", "neighbours": "neighbors", "features": "features"}
    options = [f"--{option} {name}" for name, option in given.items() if name in table.columns]
    if "x" not in table.columns:  # it would otherwise fetch a model and encode the texts
        options.append("--disable-projection")
    gone = [f"- {line}" for line in missing] or ["- nothing"]
    lines = [
        "# A study for embedding-atlas", "",
        f"{table.height:,} items. Open it with:", "",
        "```", "pip install embedding-atlas", f"embedding-atlas {DATA} {' '.join(options)}", "```",
        "", "Columns of `data.parquet`, where the study has them:", "",
        "- `x`, `y`: the two widest axes of the learned space (or of the text vectors), as in"
        " `thetascope explore`; empty for items without a text vector",
        "- `difficulty`: mean observed error, `n_answered`: models that answered",
        "- `features`: labels of the concepts that stand out in the item",
        "- `neighbours`: rows of the nearest items and 1 - cosine",
        "- `score: MODEL`: observed score, empty where the model did not answer", "",
        "Missing:", "", *gone, "",
    ]  # fmt: skip
    return "\n".join(lines)


def _chunks(read: Read, site: dict[str, Any], kind: str) -> list[pl.DataFrame]:
    n_chunks = -(-site["n_items"] // site["item_chunk"])
    return [_table(read, f"{kind}/{k:03}.parquet") for k in range(n_chunks)]


def _table(read: Read, path: str) -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(read(path)))


def _json(read: Read, path: str) -> dict[str, Any]:
    return json.loads(read(path))

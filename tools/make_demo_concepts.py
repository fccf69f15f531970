"""Gives the bundled study its concept activations: figures only.

    thetascope import ../shared/data/zeroeval --into out/zeroeval
    thetascope concepts extract out/zeroeval --name offline
    python tools/make_demo_concepts.py out/zeroeval src/thetascope/demo/study

What is kept: item ids, concept numbers, sums, maxima and counts, and what the dictionary's own
reference says of its concepts (single tokens). No text, no context. To stay small the rows are
those whose maximum is at least `LEAST` of the concept's `act_max` (coverage is counted at half
of it), sums and maxima in float16, counts in uint16; the manifest says so, and which share of
the activation mass the rows hold.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from thetascope.concepts.store import (
    BY_CONCEPT,
    BY_ITEM,
    DICTIONARY,
    ITEMS,
    KIND,
    ROW_GROUP,
    Concepts,
    load_concepts,
    read_part,
)
from thetascope.study import Study, files, store

LEAST = 0.4
NAME = "offline"


def main(source: Path, target: Path) -> None:
    """Puts the figures of an extracted study into the bundled one."""
    found = load_concepts(Study.open(source))
    manifest = {**found.manifest, "contexts": False}
    key = manifest.pop("key")
    with store.writing(target) as writer:
        shutil.rmtree(target / KIND, ignore_errors=True)
        work = writer.work_folder(KIND, NAME, key)
        manifest["reduced"] = write_reduced(found, work)
        final = writer.put_derived(KIND, NAME, {"extraction": key, "least": LEAST}, work, manifest)
        writer.commit()
    (target / ".lock").unlink(missing_ok=True)
    figures = pl.scan_parquet(final / BY_ITEM).select(pl.col("sum", "max").is_finite().all())
    assert all(figures.collect().row(0)), "a figure does not fit float16"
    size = sum(p.stat().st_size for p in final.iterdir()) / 1e6
    sys.stdout.write(f"{final}: {size:.1f} MB, {manifest['reduced']}\n")


def write_reduced(found: Concepts, work: Path) -> dict[str, Any]:
    """Writes the reduced tables; returns what was done to them."""
    rows = pl.read_parquet(found.folder / BY_ITEM)
    table, items = (read_part(found.folder, name) for name in (DICTIONARY, ITEMS))
    most = table["act_max"].to_numpy()[rows["concept"].to_numpy()]
    kept = rows.filter(pl.Series(rows["max"].to_numpy() >= LEAST * most))
    whole = rows["sum"].cast(pl.Float64).sum()
    share = round(kept["sum"].cast(pl.Float64).sum() / whole, 4)
    small = kept.select(
        pl.col("item", "concept").cast(pl.Int32),
        pl.col("sum", "max").cast(pl.Float16),
        pl.col("count").cast(pl.UInt16),
    )
    for name, order in ((BY_ITEM, ("item", "concept")), (BY_CONCEPT, ("concept", "item"))):
        _write(work / name, small.sort(order))
    counts = {
        column: np.bincount(kept[column].to_numpy(), minlength=n).astype(np.int32)
        for column, n in (("item", items.height), ("concept", table.height))
    }
    _write(work / ITEMS, items.with_columns(n_concepts=pl.Series(counts["item"])))
    # item_share and token_density stay those of all rows; n_items counts the rows that are here.
    _write(work / DICTIONARY, table.with_columns(n_items=pl.Series(counts["concept"])))
    return {
        "rows": kept.height,
        "rows_before": rows.height,
        "least_share_of_act_max": LEAST,
        "mass_kept": share,
        "types": "sum, max float16; count uint16",
    }


def _write(file: Path, table: pl.DataFrame) -> None:
    files.write_aside(
        file,
        lambda aside: table.write_parquet(
            aside, compression="zstd", compression_level=19, statistics=True,
            row_group_size=ROW_GROUP,
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""From an extraction's shards to its tables, in bounded memory.

Each shard's rows go to one piece of the table by item; for the table by concept, each range of
concepts is picked out of all shards, sorted and written as one piece. Then the pieces are
streamed into one file with row groups of one size, so the bytes depend on the rows alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.concepts.shards import (
    CONTEXT_BEFORE,
    ShardContexts,
    ShardRows,
    load_contexts,
    load_rows,
    load_slice,
    strongest,
)
from thetascope.concepts.store import BY_CONCEPT, BY_ITEM, CONTEXTS, ROW_GROUP
from thetascope.study import files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PIECE_ROWS = 1 << 19
"""Rows that are sorted in memory at once: 10 MB of figures."""
N_CONTEXTS = 10


class Counts:
    """How many rows each item and concept have, and on how many tokens a concept is active."""

    def __init__(self, n_items: int, n_concepts: int) -> None:
        self.of_item = np.zeros(n_items, np.int64)
        self.of_concept = np.zeros(n_concepts, np.int64)
        self.fired = np.zeros(n_concepts, np.int64)

    def add(self, rows: ShardRows) -> None:
        """Counts a shard's rows."""
        self.of_item += np.bincount(rows.item, minlength=len(self.of_item))
        self.of_concept += np.diff(rows.starts)
        fired = np.bincount(rows.concept, rows.n_active, minlength=len(self.fired))
        self.fired += fired.astype(np.int64)


def assemble(
    shards: Sequence[Path],
    work: Path,
    n_items: int,
    n_concepts: int,
    progress: Callable[[int, int, str], None] | None = None,
) -> Counts:
    """Writes the two tables of activations.

    Args:
        shards: The shards' files, in order, all of them.
        work: Folder of the tables.
        n_items, n_concepts: Of the whole extraction.
        progress: Called as the work goes on.

    Raises:
        InputError: A shard is damaged.
    """
    pieces = work / "pieces"
    shutil.rmtree(pieces, ignore_errors=True)
    pieces.mkdir()
    counts = Counts(n_items, n_concepts)
    for turn, file in enumerate(shards):
        rows = load_rows(file)
        counts.add(rows)
        _write(pieces / f"item-{turn:06d}.parquet", rows, np.argsort(rows.item, kind="stable"))
        if progress:
            progress(turn + 1, len(shards), "sorting by item")
    _join(sorted(pieces.glob("item-*")), work / BY_ITEM)
    ranges = concept_ranges(counts.of_concept)
    for turn, (first, last) in enumerate(ranges):
        parts = [load_slice(file, first, last) for file in shards]
        rows = ShardRows._make(np.concatenate(column) for column in zip(*parts, strict=True))
        # Shards hold ascending items: a stable sort by concept keeps those in order.
        _write(
            pieces / f"concept-{turn:06d}.parquet", rows, np.argsort(rows.concept, kind="stable")
        )
        if progress:
            progress(turn + 1, len(ranges), "sorting by concept")
    _join(sorted(pieces.glob("concept-*")), work / BY_CONCEPT)
    shutil.rmtree(pieces)
    return counts


def concept_ranges(rows: NDArray[np.int64], most: int | None = None) -> list[tuple[int, int]]:
    """Runs of concepts of at most `most` rows together, or of one concept with more.

    Args:
        rows: (C,) rows of each concept.
        most: Rows in a run; None is `PIECE_ROWS`.
    """
    limit = PIECE_ROWS if most is None else most
    ends = np.cumsum(rows)
    out: list[tuple[int, int]] = []
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + limit, side="right")))
        out.append((first, last))
        first = last
    return out


def write_contexts(
    shards: Sequence[Path], work: Path, item_ids: Sequence[str], words: dict[int, str]
) -> None:
    """Writes contexts.parquet: concept, item_id, value, before, token, after; the strongest first.

    Args:
        shards: The shards' files.
        work: Folder of the table.
        item_ids: Of each item number.
        words: The text of each token id.
    """
    kept: ShardContexts | None = None
    for file in shards:
        new = load_contexts(file)
        pairs = zip(kept or new, new, strict=True)
        both = new if kept is None else ShardContexts._make(np.concatenate(p) for p in pairs)
        best = strongest(both.concept, both.value, N_CONTEXTS)
        kept = ShardContexts(
            both.concept[best], both.item[best], both.value[best], both.window[best]
        )
    assert kept is not None, "no shards"

    def text(ids: NDArray[np.int32]) -> str:
        return "".join(words[i] for i in ids.tolist() if i >= 0)

    table = pl.DataFrame(
        {
            "concept": kept.concept,
            "item_id": [item_ids[i] for i in kept.item.tolist()],
            "value": kept.value,
            "before": [text(w[:CONTEXT_BEFORE]) for w in kept.window],
            "token": [text(w[CONTEXT_BEFORE : CONTEXT_BEFORE + 1]) for w in kept.window],
            "after": [text(w[CONTEXT_BEFORE + 1 :]) for w in kept.window],
        }
    )
    write_table(work / CONTEXTS, table)


def write_table(file: Path, table: pl.DataFrame) -> None:
    """Writes a small table with statistics, aside first."""
    files.write_aside(
        file,
        lambda aside: table.rechunk().write_parquet(
            aside, compression="zstd", statistics=True, row_group_size=ROW_GROUP
        ),
    )


def _write(file: Path, rows: ShardRows, order: NDArray[np.intp]) -> None:
    pl.DataFrame(
        {
            "item": rows.item[order],
            "concept": rows.concept[order],
            "sum": rows.sum[order],
            "max": rows.max[order],
            "count": rows.n_active[order],
        }
    ).write_parquet(file, compression="zstd", compression_level=1)


def _join(pieces: Sequence[Path], file: Path) -> None:
    whole = pl.concat([pl.scan_parquet(piece) for piece in pieces])
    files.write_aside(
        file,
        lambda aside: whole.sink_parquet(
            aside, compression="zstd", statistics=True, row_group_size=ROW_GROUP,
            maintain_order=True,
        ),
    )  # fmt: skip
    for piece in pieces:
        piece.unlink()

"""Concept activations on disk, and reading them without torch.

    concepts/<name>-<hash>/
      items.parquet                    a row an item, its number is its row: item_id, text_hash,
                                       n_tokens, n_cut, truncated, left_out, n_concepts
      activations-by-item.parquet      item, concept, sum, max, count; sorted by item, concept
      activations-by-concept.parquet   the same rows; sorted by concept, item
      dictionary.parquet               a row a concept, see `concept_table`
      contexts.parquet                 optional: where each concept is strongest
      manifest.json                    model, dictionary, hook, prefix, template, hashes, counts
      run.json                         when, where, how fast: outside of the folder's hash

Items are numbered in the order in which they were read, the longest first. How many rows an
item and a concept have is in their tables, so either's rows are read as one slice. Figures may
be of narrower types (the bundled study's are float16 and uint16); they are read as float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.errors import InputError, StaleError
from thetascope.study import Study, files, store

KIND = "concepts"
ITEMS, BY_ITEM, BY_CONCEPT, DICTIONARY, CONTEXTS = (
    "items.parquet",
    "activations-by-item.parquet",
    "activations-by-concept.parquet",
    "dictionary.parquet",
    "contexts.parquet",
)
ROW_GROUP = 1 << 16
RENEW = "thetascope concepts extract"
ADDED = "not read: it was added, or its text was, after the extraction"


class OfConcept(NamedTuple):
    """One concept on the items on which it is active.

    Attributes:
        items: (k,) rows of the study's items, ascending.
        mean: (k,) a_j(c), its activation averaged over the item's counted tokens.
        max: (k,) its maximum over them.
        n_active: (k,) tokens on which it is active.
    """

    items: NDArray[np.int64]
    mean: NDArray[np.float64]
    max: NDArray[np.float32]
    n_active: NDArray[np.int32]


class OfItem(NamedTuple):
    """The concepts that are active on one item.

    Attributes:
        concepts: (k,) ascending.
        mean, max, n_active: As in `OfConcept`.
    """

    concepts: NDArray[np.int32]
    mean: NDArray[np.float64]
    max: NDArray[np.float32]
    n_active: NDArray[np.int32]


@dataclass(frozen=True)
class Concepts:
    """A study's concept activations.

    Attributes:
        name: Their name in the study.
        content: Hash of the stored folder: equal hashes, equal activations.
        folder: Where they are.
        manifest: How they were made.
        item_ids: The study's items, in its order.
        n_tokens: (N,) T_j, counted tokens of each item; 0 where nothing was read.
        left_out: Why nothing was read, by item, for the items where that is so.
        dictionary: A row a concept: label, density, act_max, flags.
        numbers: (N,) each item's number in the files, -1 where it has none.
    """

    name: str
    content: str
    folder: Path
    manifest: dict[str, Any]
    item_ids: tuple[str, ...]
    n_tokens: NDArray[np.int64]
    left_out: dict[str, str]
    dictionary: pl.DataFrame
    numbers: NDArray[np.int64]

    @property
    def n_items(self) -> int:
        """Items of the study."""
        return len(self.item_ids)

    @property
    def n_concepts(self) -> int:
        """Concepts of the dictionary."""
        return self.dictionary.height

    @property
    def act_max(self) -> NDArray[np.float32] | None:
        """(C,) each concept's maximum over the reference corpus; None where there is none."""
        column = self.dictionary["act_max"]
        return None if column.null_count() else column.to_numpy()

    @property
    def labels(self) -> list[str]:
        """(C,) each concept's label, 'concept 17' where it has none."""
        known = self.dictionary["label"].to_list()
        return [f"concept {c}" if label is None else label for c, label in enumerate(known)]

    @property
    def flags(self) -> list[tuple[str, ...]]:
        """(C,) what is to be known about each concept: near-universal, format, dead, ..."""
        return [tuple(flags) for flags in self.dictionary["flags"].to_list()]

    def csr(self) -> csr_matrix:
        """Returns (N, C) a_j(c) = sum over counted tokens / T_j, float64, in the study's order."""
        frame = self._rows("sum")
        mean = frame["sum"].to_numpy().astype(np.float64) / self._tokens[frame["item"].to_numpy()]
        return self._matrix(frame, mean)

    def maxima(self) -> csr_matrix:
        """Returns (N, C) the maximum over counted tokens, float32, in the study's order."""
        frame = self._rows("max")
        return self._matrix(frame, frame["max"].to_numpy().astype(np.float32))

    def of_concept(self, concept: int) -> OfConcept:
        """Returns one concept's activations, read alone.

        Raises:
            InputError: There is no such concept.
        """
        if not 0 <= concept < self.n_concepts:
            raise InputError(
                f"there are concepts 0 to {self.n_concepts - 1}, asked for {concept}",
                field="concept",
            )
        low, high = self._concept_starts[concept : concept + 2]
        frame = self._slice(BY_CONCEPT, int(low), int(high))
        number = frame["item"].to_numpy()
        rows = self._study_rows[number]
        order = np.argsort(rows)
        order = order[rows[order] >= 0]
        mean = frame["sum"].to_numpy().astype(np.float64) / self._tokens[number]
        return OfConcept(
            rows[order], mean[order], frame["max"].to_numpy()[order].astype(np.float32),
            frame["count"].to_numpy()[order].astype(np.int32),
        )  # fmt: skip

    def of_item(self, item_id: str) -> OfItem:
        """Returns one item's activations, read alone.

        Raises:
            InputError: There is no such item.
        """
        row = self._row_of.get(item_id)
        if row is None:
            raise InputError("there is no such item", record=item_id)
        number = int(self.numbers[row])
        low, high = (0, 0) if number < 0 else self._item_starts[number : number + 2]
        frame = self._slice(BY_ITEM, int(low), int(high))
        return OfItem(
            frame["concept"].to_numpy(),
            frame["sum"].to_numpy().astype(np.float64) / max(1, int(self.n_tokens[row])),
            frame["max"].to_numpy().astype(np.float32),
            frame["count"].to_numpy().astype(np.int32),
        )

    def contexts(self, concept: int) -> pl.DataFrame:
        """Returns where a concept is strongest: item_id, value, before, token, after.

        Raises:
            InputError: They were not kept (extract with --contexts).
        """
        file = self.folder / CONTEXTS
        if not file.is_file():
            raise InputError("no contexts were kept", file=self.folder, fix="use --contexts")
        return pl.scan_parquet(file).filter(pl.col("concept") == concept).collect()

    @cached_property
    def _stored(self) -> pl.DataFrame:
        return read_part(self.folder, ITEMS)

    @cached_property
    def _tokens(self) -> NDArray[np.int32]:
        return self._stored["n_tokens"].to_numpy()

    @cached_property
    def _study_rows(self) -> NDArray[np.int64]:
        out = np.full(self._stored.height, -1, np.int64)
        here = self.numbers >= 0
        out[self.numbers[here]] = np.flatnonzero(here)
        return out

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {item: row for row, item in enumerate(self.item_ids)}

    @cached_property
    def _item_starts(self) -> NDArray[np.int64]:
        return starts(self._stored["n_concepts"])

    @cached_property
    def _concept_starts(self) -> NDArray[np.int64]:
        return starts(self.dictionary["n_items"])

    def _slice(self, name: str, low: int, high: int) -> pl.DataFrame:
        return pl.scan_parquet(self.folder / name).slice(low, high - low).collect()

    def _rows(self, column: str) -> pl.DataFrame:
        return pl.read_parquet(self.folder / BY_ITEM, columns=["item", "concept", column])

    def _matrix(self, frame: pl.DataFrame, values: NDArray[Any]) -> csr_matrix:
        number, concept = frame["item"].to_numpy(), frame["concept"].to_numpy()
        n_stored = self._stored.height
        stored = csr_matrix(
            (values, concept, np.searchsorted(number, np.arange(n_stored + 1))),
            shape=(n_stored, self.n_concepts),
        )
        here = self.numbers >= 0
        found = csr_matrix(stored[self.numbers[here]])
        sizes = np.zeros(self.n_items, np.int64)
        sizes[here] = np.diff(found.indptr)
        pointers = np.append(0, np.cumsum(sizes))
        return csr_matrix(
            (found.data, found.indices, pointers), shape=(self.n_items, self.n_concepts)
        )


def load_concepts(
    study: Study, name: str | None = None, *, path: str | Path | None = None
) -> Concepts:
    """Loads a study's concept activations, in the order of its items.

    Args:
        study: The study; items that were added later have no activations, and say so.
        name: Their name; None where the study has only one.
        path: The study's folder, for a study that was filtered after opening.

    Raises:
        InputError: There are none, several and none was named, or a file is damaged.
        StaleError: An item has another text than the one that was read.
    """
    place = study.path if path is None else Path(path)
    if place is None:
        raise InputError("a study in memory has no concepts", fix="save it, then extract them")
    folder = store.derived_folder(place, store.read_index(place), KIND, name)
    store.check_intact(folder, f"renew with: {RENEW} {place}")
    stored = read_part(folder, ITEMS)
    number_of = {item: i for i, item in enumerate(stored["item_id"].to_list())}
    item_ids = tuple(study.items["item_id"].to_list())
    numbers = np.array([number_of.get(item, -1) for item in item_ids], np.int64)
    here = numbers >= 0
    known = stored["left_out"].to_list()
    left_out = {
        item: ADDED if number < 0 else known[number]
        for item, number in zip(item_ids, numbers.tolist(), strict=True)
        if number < 0 or known[number] is not None
    }
    _check_texts(study, stored, numbers, place)
    n_tokens = np.zeros(len(item_ids), np.int64)
    n_tokens[here] = stored["n_tokens"].to_numpy()[numbers[here]]
    label, _, content = folder.name.rpartition("-")
    return Concepts(
        name=label, content=content, folder=folder,
        manifest=files.read_json(folder / "manifest.json"), item_ids=item_ids, n_tokens=n_tokens,
        left_out=left_out, dictionary=read_part(folder, DICTIONARY), numbers=numbers,
    )  # fmt: skip


def read_part(folder: Path, name: str) -> pl.DataFrame:
    """Reads one of a folder's small tables.

    Raises:
        InputError: It is missing or damaged.
    """
    try:
        return pl.read_parquet(folder / name)
    except (OSError, pl.exceptions.PolarsError):
        raise InputError("is missing or damaged", file=folder / name, fix=RENEW) from None


def starts(sizes: pl.Series) -> NDArray[np.int64]:
    """(n + 1,) where each run of rows begins, from how many rows each has."""
    return np.append(0, np.cumsum(sizes.to_numpy().astype(np.int64)))


def _check_texts(
    study: Study, stored: pl.DataFrame, numbers: NDArray[np.int64], place: Path
) -> None:
    if "text_hash" not in study.items.columns:
        return
    held, now = stored["text_hash"].to_list(), study.items["text_hash"].to_list()
    other = sum(
        number >= 0 and held[number] is not None and code is not None and held[number] != code
        for number, code in zip(numbers.tolist(), now, strict=True)
    )
    if other:
        raise StaleError(
            f"{place}: {other:,} items have other texts than those whose concepts were extracted;"
            f" renew with: {RENEW} {place}"
        )

"""Makes vectors that were computed elsewhere part of a study, matched by item id."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.encoders.config import check_name
from thetascope.encoders.tables import RawVectors, read_vectors
from thetascope.encoders.vectors import clear_aside, write_rows
from thetascope.errors import InputError
from thetascope.study import Study, files, store


class ImportResult(NamedTuple):
    """What `import_vectors` did.

    Attributes:
        folder: The stored vectors.
        n_items: Items that have a vector now.
        n_missing: Items of the study that the file has no vector for.
        n_unknown: Vectors whose id is no item of the study; they are not stored.
        dim: Length of a vector.
    """

    folder: Path
    n_items: int
    n_missing: int
    n_unknown: int
    dim: int


def import_vectors(
    path: str | Path,
    file: str | Path,
    *,
    name: str,
    ids: str | Path | None = None,
    wait: float = 10.0,
) -> ImportResult:
    """Stores the vectors of a file for the study's items, in place of those of this name.

    Args:
        path: The study's folder.
        file: `.npz`, `.safetensors`, `.parquet` or `.npy` (see `tables`).
        name: Name of the vectors in the study.
        ids: Text file with one item id a line, for `.npy`.
        wait: Seconds to wait for another writer.

    Raises:
        InputError: The file cannot be used: shape, a number that is not finite, an id twice,
            no id that the study knows; the message names the record.
        LockedError: Another process still writes after `wait` seconds.
    """
    folder, source = Path(path), Path(file)
    check_name(name)
    store.read_index(folder)
    raw = read_vectors(source, None if ids is None else Path(ids))
    vectors = check_vectors(raw, source)
    with store.writing(folder, wait) as writer:
        study = Study.open(folder)
        items = set(study.items["item_id"].to_list())
        known = sorted((i, row) for row, i in enumerate(raw.ids) if i in items)
        if not known:
            raise InputError(
                f"none of its {len(raw.ids)} ids is an item of the study: first {raw.ids[0]!r},"
                f" expected ids like {study.items['item_id'][0]!r}",
                file=source,
            )
        keys = pl.DataFrame({"item_id": [i for i, _ in known]})
        kept = vectors[[row for _, row in known]]
        n_unknown = len(raw.ids) - len(known)
        key = {"file": files.hash_file(source), "items": files.hash_json(keys["item_id"].to_list())}
        stored = _store(writer, name, key, keys, kept, {"n_unknown": n_unknown}, source)
        writer.commit()
    n_missing = len(items) - keys.height
    return ImportResult(stored, keys.height, n_missing, n_unknown, kept.shape[1])


def check_vectors(raw: RawVectors, file: Path) -> NDArray[np.float32]:
    """Returns the vectors as (n, D) float32.

    Raises:
        InputError: They are not n rows of D finite numbers, or an id occurs twice.
    """
    found = raw.vectors
    if found.ndim != 2 or found.dtype.kind not in "fiu" or not found.size:
        raise InputError(
            f"expected (n, D) numbers, found {found.dtype} of shape {found.shape}",
            file=file,
            field="vectors",
        )
    seen: dict[str, int] = {}
    for row, name in enumerate(raw.ids):
        if name in seen:
            raise InputError(
                f"the id {name!r} is also that of record {seen[name] + 1}",
                file=file,
                record=row + 1,
            )
        seen[name] = row
    with np.errstate(over="ignore"):  # a number too large for float32 is found just below
        vectors = found.astype(np.float32)
    wrong = np.argwhere(~np.isfinite(vectors))
    if len(wrong):
        row, column = (int(v) for v in wrong[0])
        raise InputError(
            f"number {column + 1} of the vector of {raw.ids[row]!r} is {found[row, column]},"
            " expected a finite float32",
            file=file,
            record=row + 1,
        )
    return vectors


def _store(
    writer: store.Writer,
    name: str,
    key: dict[str, Any],
    keys: pl.DataFrame,
    vectors: NDArray[np.float32],
    counts: dict[str, int],
    source: Path,
) -> Path:
    work = writer.work_folder("vectors", name, key)
    clear_aside(work)
    write_rows(work, "item_id", keys, vectors)
    files.write_json(work / "run.json", {"source": str(source)})
    manifest = {
        "key_by": "item_id",
        "encoder": None,
        "n": keys.height,
        "dim": vectors.shape[1],
        **counts,
        "inputs": {"file": key["file"]},
    }
    return writer.put_derived("vectors", name, key, work, manifest)

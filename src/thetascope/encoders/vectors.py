"""Stored vectors: the folder `vectors/<name>-<hash>/`, written by `encode` and `foreign`.

    vectors.safetensors   tensor "vectors", (n, D) float32
    texts.parquet         text_hash, n_tokens, truncated; row i is vector i, sorted
    items.parquet         item_id; instead of texts.parquet for vectors made elsewhere
    manifest.json         key_by ("text_hash" or "item_id"), encoder, n, dim, counts
    run.json              where and when, outside of the folder's hash

Reading needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from thetascope.errors import InputError
from thetascope.study import Study, files, store

KeyBy = Literal["text_hash", "item_id"]
_KEY_FILES: dict[KeyBy, str] = {"text_hash": "texts.parquet", "item_id": "items.parquet"}


@dataclass(frozen=True)
class StudyVectors:
    """Vectors of a study's items.

    Attributes:
        name: Name of the vectors in the study.
        content: Hash of the stored folder: equal hashes, equal vectors.
        key_by: How vectors belong to items, "text_hash" or "item_id".
        dim: Length D of a vector.
        vectors: (N, D) float32 in the order of `study.items`; zeros where `has` is False.
        has: (N,) whether the item has a vector.
        encoder: What made them (fingerprint and settings), None for vectors made elsewhere.
        model: The encoder's preset, hub name or folder when they were made, None if unknown.
    """

    name: str
    content: str
    key_by: KeyBy
    dim: int
    vectors: NDArray[np.float32]
    has: NDArray[np.bool_]
    encoder: dict[str, Any] | None = None
    model: str | None = None

    @property
    def n_missing(self) -> int:
        """Items without a vector."""
        return int((~self.has).sum())


def load_vectors(
    study: Study, name: str | None = None, *, path: str | Path | None = None
) -> StudyVectors:
    """Loads stored vectors in the order of the study's items.

    Args:
        study: The study; an item that was added after encoding has no vector yet.
        name: Name of the vectors; None where the study has only one.
        path: The study's folder, for a study that was filtered after opening.

    Raises:
        InputError: There are none (the message has the command that makes them), several and
            none was named, none of that name, or a file is damaged.
    """
    folder = study.path if path is None else Path(path)
    if folder is None:
        raise InputError("a study in memory has no vectors", fix="save it, then encode it")
    index = store.read_index(folder)
    stored = store.derived_folder(folder, index, "vectors", name)
    store.check_intact(stored, "encode the study again")
    manifest = read_manifest(stored)
    key_by: KeyBy = manifest["key_by"]
    keys, vectors = read_rows(stored, key_by)
    place = {key: row for row, key in enumerate(keys[key_by].to_list())}
    if key_by in study.items.columns:
        wanted = study.items[key_by].to_list()
    else:
        wanted = [None] * study.n_items
    rows = np.array([place.get(key, -1) for key in wanted], np.int64)
    has = rows >= 0
    found = np.zeros((study.n_items, vectors.shape[1]), np.float32)
    found[has] = vectors[rows[has]]
    label, _, content = stored.name.rpartition("-")
    return StudyVectors(
        name=label,
        content=content,
        key_by=key_by,
        dim=vectors.shape[1],
        vectors=found,
        has=has,
        encoder=manifest.get("encoder"),
        model=_model_of(stored, manifest),
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Reads a vectors folder's manifest.

    Raises:
        InputError: It is missing or damaged.
    """
    file = folder / "manifest.json"
    try:
        manifest = files.read_json(file)
        known = manifest["key_by"] in _KEY_FILES
    except (OSError, ValueError, TypeError, KeyError):
        raise InputError("is missing or damaged", file=file, fix="encode the study again") from None
    if not known:
        raise InputError(f"expected text_hash or item_id, found {manifest['key_by']!r}", file=file)
    return manifest


def read_rows(folder: Path, key_by: KeyBy) -> tuple[pl.DataFrame, NDArray[np.float32]]:
    """Reads a vectors folder: its keys (a row a vector) and (n, D) vectors.

    Raises:
        InputError: A file is missing or damaged, or the two do not fit.
    """
    keys = read_keys(folder, key_by)
    file = folder / "vectors.safetensors"
    try:
        vectors: NDArray[np.float32] = load_file(file)["vectors"]
    except (OSError, SafetensorError, KeyError):
        raise InputError("is missing or damaged", file=file, fix="encode the study again") from None
    if vectors.ndim != 2 or len(vectors) != keys.height:
        raise InputError(f"expected {keys.height} rows, found shape {vectors.shape}", file=file)
    return keys, vectors


def read_keys(folder: Path, key_by: KeyBy) -> pl.DataFrame:
    """Reads which text or item each row of a vectors folder belongs to.

    Raises:
        InputError: The file is missing or damaged.
    """
    file = folder / _KEY_FILES[key_by]
    try:
        return pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError):
        raise InputError("is missing or damaged", file=file, fix="encode the study again") from None


def write_rows(
    folder: Path, key_by: KeyBy, keys: pl.DataFrame, vectors: NDArray[np.float32]
) -> None:
    """Writes keys (a row a vector) and (n, D) vectors, each file atomically."""
    assert len(vectors) == keys.height, (vectors.shape, keys.height)
    whole = np.ascontiguousarray(vectors, np.float32)
    files.write_aside(
        folder / "vectors.safetensors", lambda aside: save_file({"vectors": whole}, aside)
    )
    files.write_aside(
        folder / _KEY_FILES[key_by],
        lambda aside: keys.rechunk().write_parquet(aside, compression="zstd", statistics=False),
    )


def clear_aside(folder: Path) -> None:
    """Removes what a kill left half-written in a work folder, which must not be sealed with it."""
    for file in folder.rglob(".tmp-*"):
        file.unlink(missing_ok=True)


def _model_of(folder: Path, manifest: dict[str, Any]) -> str | None:
    """The preset, else the model's place on the machine that made them if that is known."""
    if manifest.get("preset"):
        return manifest["preset"]
    try:
        return files.read_json(folder / "run.json")["model"]
    except (OSError, ValueError, TypeError, KeyError):
        return manifest.get("model")

"""Files of vectors made elsewhere: ids and an (n, D) array out of each format, no pickle.

.npz          arrays "ids" (text) and "vectors"
.safetensors  tensor "vectors"; ids as a JSON list in the metadata key "ids", or in FILE.ids.json
.parquet      columns item_id and vector (a list or an array of numbers)
.npy          the array; ids in a text file, one a line
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from thetascope.errors import InputError


class RawVectors(NamedTuple):
    """Ids and their vectors as a file has them: n strings, (n, D) of any number type."""

    ids: list[str]
    vectors: NDArray[Any]


_SAVE_NPZ = "save them with: numpy.savez(FILE, ids=numpy.array(ids, dtype=str), vectors=vectors)"
_NUMPY_ERRORS = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)
_PICKLED = {".pt", ".pth", ".pkl", ".pickle", ".bin"}


def read_vectors(file: Path, ids: Path | None = None) -> RawVectors:
    """Reads a file of vectors.

    Args:
        file: The file; its ending says what it is.
        ids: Text file with one item id a line, for `.npy` (and `.safetensors` without ids).

    Raises:
        InputError: It is missing, damaged, pickled, of an unknown kind, or its parts do not fit.
    """
    if not file.is_file():
        raise InputError("no such file", file=file)
    kind = file.suffix.lower()
    if kind in _PICKLED:
        raise InputError("may hold a pickle, which is never opened", file=file, fix=_SAVE_NPZ)
    if kind not in _READERS:
        raise InputError(
            f"expected a file ending in {', '.join(_READERS)}, found {kind or 'no ending'}",
            file=file,
        )
    if ids is not None and kind in (".npz", ".parquet"):
        raise InputError(f"a {kind} file holds its own ids; leave the ids file out", file=ids)
    raw = _READERS[kind](file, ids)
    if len(raw.ids) != len(raw.vectors):
        raise InputError(f"has {len(raw.ids)} ids and {len(raw.vectors)} vectors", file=file)
    return raw


def _read_npz(file: Path, _: Path | None) -> RawVectors:
    arrays: dict[str, NDArray[Any]] = {}
    archive = _load_numpy(file)
    if isinstance(archive, np.ndarray):
        raise InputError("holds one array without ids; expected two, ids and vectors", file=file)
    with archive:
        for name in ("ids", "vectors"):
            if name not in archive.files:
                raise InputError(
                    f"has no such array; found {', '.join(archive.files) or 'none'}",
                    file=file,
                    field=name,
                    fix=_SAVE_NPZ,
                )
            try:
                arrays[name] = archive[name]
            except _NUMPY_ERRORS as error:
                raise _numpy_error(file, error, name) from None
    ids = arrays["ids"]
    if ids.ndim != 1 or ids.dtype.kind != "U":
        raise InputError(
            f"expected a list of text, found {ids.dtype} of shape {ids.shape}",
            file=file,
            field="ids",
            fix=_SAVE_NPZ,
        )
    return RawVectors([str(i) for i in ids], arrays["vectors"])


def _read_npy(file: Path, ids: Path | None) -> RawVectors:
    if ids is None:
        raise InputError("a .npy file has no ids", file=file, fix="name a text file, one id a line")
    vectors = _load_numpy(file)
    if not isinstance(vectors, np.ndarray):
        raise InputError("is an archive; expected one array", file=file, fix="name it .npz")
    return RawVectors(_read_lines(ids), vectors)


def _load_numpy(file: Path) -> Any:
    try:
        return np.load(file, allow_pickle=False)
    except _NUMPY_ERRORS as error:
        raise _numpy_error(file, error) from None


def _numpy_error(file: Path, error: Exception, field: str | None = None) -> InputError:
    if "pickle" in str(error):
        return InputError(
            "is pickled, which is never opened", file=file, field=field, fix=_SAVE_NPZ
        )
    return InputError(f"is damaged: {error}", file=file, field=field)


def _read_safetensors(file: Path, ids: Path | None) -> RawVectors:
    try:
        with safe_open(file, framework="numpy") as tensors:
            names = list(tensors.keys())
            metadata: dict[str, str] = tensors.metadata() or {}
            if "vectors" not in names:
                raise InputError(
                    f"has no such tensor; found {', '.join(names) or 'none'}",
                    file=file,
                    field="vectors",
                )
            vectors: NDArray[Any] = tensors.get_tensor("vectors")
    except (OSError, SafetensorError) as error:
        raise InputError(f"is damaged: {error}", file=file) from None
    except TypeError:  # numpy has no bfloat16
        raise InputError("expected float32 or float16", file=file, field="vectors") from None
    if ids is not None:
        return RawVectors(_read_lines(ids), vectors)
    beside = file.with_name(f"{file.name}.ids.json")
    if "ids" in metadata:
        return RawVectors(_parse_ids(metadata["ids"], file), vectors)
    if beside.is_file():
        return RawVectors(_parse_ids(beside.read_text("utf-8"), beside), vectors)
    raise InputError(
        f"has no ids: expected a JSON list in its metadata key 'ids' or in {beside.name}",
        file=file,
    )


def _parse_ids(text: str, file: Path) -> list[str]:
    try:
        ids: Any = json.loads(text)
    except ValueError as error:
        raise InputError(f"is not readable as JSON: {error}", file=file, field="ids") from None
    if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
        raise InputError("expected a JSON list of text", file=file, field="ids")
    return ids


def _read_parquet(file: Path, _: Path | None) -> RawVectors:
    try:
        frame = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"is damaged: {reason}", file=file) from None
    for name in ("item_id", "vector"):
        if name not in frame.columns:
            found = ", ".join(frame.columns)
            raise InputError(f"the column is missing; found {found}", file=file, field=name)
    if frame["item_id"].dtype != pl.String:
        found = frame["item_id"].dtype
        raise InputError(f"expected text, found {found}", file=file, field="item_id")
    column = frame["vector"]
    inner = getattr(column.dtype, "inner", None)
    if not isinstance(column.dtype, pl.List | pl.Array) or not inner or not inner.is_numeric():
        raise InputError(
            f"expected lists of numbers, found {column.dtype}", file=file, field="vector"
        )
    lists = column.cast(pl.List(pl.Float64))
    # A null, in place of a list or in one, is found here by its row.
    lengths = lists.list.len().fill_null(0)
    first = int(lengths[0]) if len(lengths) else 0
    wrong = ((lengths != first) | frame["item_id"].is_null()).arg_true()
    if len(wrong):
        row = int(wrong[0])
        name = frame["item_id"][row]
        what = (
            "the item_id is null"
            if name is None
            else f"expected {first} numbers as in the first row, found {lengths[row]}"
        )
        raise InputError(what, file=file, record=row + 1)
    flat = lists.explode(empty_as_null=False).fill_null(float("nan"))
    return RawVectors(frame["item_id"].to_list(), flat.to_numpy().reshape(len(lists), first))


def _read_lines(file: Path) -> list[str]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError:
        raise InputError("no such file", file=file) from None
    except UnicodeDecodeError:
        raise InputError("expected text in UTF-8", file=file) from None
    return [line for line in lines if line]


_READERS: Mapping[str, Callable[[Path, Path | None], RawVectors]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
}

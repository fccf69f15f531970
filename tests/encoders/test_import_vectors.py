"""Vectors made elsewhere: every format gives the same rows, every fault its message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encoder_cases import make_study
from safetensors.numpy import save_file

from thetascope.encoders import encoder_for, import_vectors, load_vectors
from thetascope.errors import InputError
from thetascope.study import Study

N, DIM = 6, 4
IDS = [f"bench:{i:04d}" for i in (4, 0, 2, 1)] + ["bench:other"]
ROWS = np.random.default_rng(3).normal(size=(5, DIM)).astype(np.float32)


def save_npz(folder: Path, ids: list[str], rows: np.ndarray) -> Path:
    np.savez(folder / "v.npz", ids=np.array(ids, dtype=str), vectors=rows)
    return folder / "v.npz"


def save_safetensors(folder: Path, ids: list[str], rows: np.ndarray) -> Path:
    save_file({"vectors": rows}, folder / "v.safetensors", metadata={"ids": json.dumps(ids)})
    return folder / "v.safetensors"


def save_sibling(folder: Path, ids: list[str], rows: np.ndarray) -> Path:
    save_file({"vectors": rows}, folder / "v.safetensors")
    (folder / "v.safetensors.ids.json").write_text(json.dumps(ids))
    return folder / "v.safetensors"


def save_lists(folder: Path, ids: list[str], rows: np.ndarray) -> Path:
    frame = pl.DataFrame({"item_id": ids, "vector": rows.tolist()})
    frame.write_parquet(folder / "v.parquet")
    return folder / "v.parquet"


def save_arrays(folder: Path, ids: list[str], rows: np.ndarray) -> Path:
    vectors = pl.Series("vector", rows, dtype=pl.Array(pl.Float32, rows.shape[1]))
    pl.DataFrame([pl.Series("item_id", ids), vectors]).write_parquet(folder / "v.parquet")
    return folder / "v.parquet"


def save_npy(folder: Path, ids: list[str], rows: np.ndarray) -> Path:
    np.save(folder / "v.npy", rows)
    (folder / "ids.txt").write_text("\n".join(ids) + "\n")
    return folder / "v.npy"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Six items without texts."""
    make_study([None] * N).save(tmp_path / "s")
    return tmp_path / "s"


@pytest.mark.parametrize(
    "save", [save_npz, save_safetensors, save_sibling, save_lists, save_arrays, save_npy]
)
def test_every_format_gives_the_same_rows(
    save: Callable[[Path, list[str], np.ndarray], Path], study: Path
) -> None:
    file = save(study.parent, IDS, ROWS)
    ids = study.parent / "ids.txt" if file.suffix == ".npy" else None
    result = import_vectors(study, file, name="mine", ids=ids)
    assert result[1:] == (4, 2, 1, DIM)
    found = load_vectors(Study.open(study), "mine")
    assert (found.key_by, found.encoder, found.dim) == ("item_id", None, DIM)
    assert found.has.tolist() == [True, True, True, False, True, False]
    assert np.array_equal(
        found.vectors, np.stack([ROWS[1], ROWS[3], ROWS[2], 0 * ROWS[0], ROWS[0], 0 * ROWS[0]])
    )
    assert (result.folder / "items.parquet").is_file()
    with pytest.raises(InputError, match="vectors 'mine' were not made here"):
        encoder_for(found)


def test_importing_again_is_the_same_folder(study: Path) -> None:
    file = save_npz(study.parent, IDS, ROWS)
    first = import_vectors(study, file, name="mine")
    assert import_vectors(study, file, name="mine") == first
    assert [p.name for p in (study / "vectors").iterdir()] == [first.folder.name]


def with_value(value: float) -> np.ndarray:
    rows = ROWS.astype(np.float64)
    rows[2, 1] = value
    return rows


def save_objects(folder: Path) -> Path:
    np.savez(folder / "v.npz", ids=np.array(IDS, dtype=object), vectors=ROWS)
    return folder / "v.npz"


def save_table(folder: Path, **columns: object) -> Path:
    pl.DataFrame(columns, strict=False).write_parquet(folder / "v.parquet")
    return folder / "v.parquet"


def save_bytes(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def save_bare(folder: Path) -> Path:
    save_file({"vectors": ROWS}, folder / "v.safetensors")
    return folder / "v.safetensors"


def save_named(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "v.npz", **arrays)  # type: ignore[arg-type]
    return folder / "v.npz"


WAY_OUT = "save them with: numpy.savez(FILE, ids=numpy.array(ids, dtype=str), vectors=vectors)"
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda d: d / "none.npz", "FILE: no such file"),
    "ending": (
        lambda d: save_bytes(d, "v.csv", b"1,2"),
        "FILE: expected a file ending in .npz, .safetensors, .parquet, .npy, found .csv",
    ),
    "torch": (
        lambda d: save_bytes(d, "v.pt", b"\x80\x02"),
        f"FILE: may hold a pickle, which is never opened ({WAY_OUT})",
    ),
    "pickled ids": (
        save_objects,
        f"FILE, field 'ids': is pickled, which is never opened ({WAY_OUT})",
    ),
    "pickle as npz": (
        lambda d: save_bytes(d, "v.npz", b"\x80\x04N."),
        f"FILE: is pickled, which is never opened ({WAY_OUT})",
    ),
    "one array": (
        lambda d: save_npy(d, IDS, ROWS).rename(d / "v.npz"),
        "FILE: holds one array without ids; expected two, ids and vectors",
    ),
    "number ids": (
        lambda d: save_named(d, ids=np.arange(5), vectors=ROWS),
        f"FILE, field 'ids': expected a list of text, found int64 of shape (5,) ({WAY_OUT})",
    ),
    "no ids": (
        lambda d: save_named(d, vectors=ROWS),
        f"FILE, field 'ids': has no such array; found vectors ({WAY_OUT})",
    ),
    "lengths": (lambda d: save_npz(d, IDS[:4], ROWS), "FILE: has 4 ids and 5 vectors"),
    "dimension": (
        lambda d: save_npz(d, IDS, ROWS[:, 0]),
        "FILE, field 'vectors': expected (n, D) numbers, found float32 of shape (5,)",
    ),
    "empty": (
        lambda d: save_npz(d, [], ROWS[:0]),
        "FILE, field 'vectors': expected (n, D) numbers, found float32 of shape (0, 4)",
    ),
    "nan": (
        lambda d: save_npz(d, IDS, with_value(np.nan)),
        "FILE, record 3: number 2 of the vector of 'bench:0002' is nan, expected a finite float32",
    ),
    "infinite": (
        lambda d: save_npz(d, IDS, with_value(np.inf)),
        "FILE, record 3: number 2 of the vector of 'bench:0002' is inf, expected a finite float32",
    ),
    "too large": (
        lambda d: save_npz(d, IDS, with_value(1e300)),
        "FILE, record 3: number 2 of the vector of 'bench:0002' is 1e+300,"
        " expected a finite float32",
    ),
    "twice": (
        lambda d: save_npz(d, [*IDS[:4], IDS[0]], ROWS),
        "FILE, record 5: the id 'bench:0004' is also that of record 1",
    ),
    "strangers": (
        lambda d: save_npz(d, list("abcde"), ROWS),
        "FILE: none of its 5 ids is an item of the study: first 'a',"
        " expected ids like 'bench:0000'",
    ),
    "npy without ids": (
        lambda d: save_npy(d, IDS, ROWS),
        "FILE: a .npy file has no ids (name a text file, one id a line)",
    ),
    "safetensors without ids": (
        save_bare,
        "FILE: has no ids: expected a JSON list in its metadata key 'ids'"
        " or in v.safetensors.ids.json",
    ),
    "column": (
        lambda d: save_table(d, id=IDS, vector=ROWS.tolist()),
        "FILE, field 'item_id': the column is missing; found id, vector",
    ),
    "not lists": (
        lambda d: save_table(d, item_id=IDS, vector=ROWS[:, 0]),
        "FILE, field 'vector': expected lists of numbers, found Float32",
    ),
    "ragged": (
        lambda d: save_table(d, item_id=IDS[:2], vector=[[1.0, 2.0], [1.0]]),
        "FILE, record 2: expected 2 numbers as in the first row, found 1",
    ),
    "null in a list": (
        lambda d: save_table(d, item_id=IDS[:2], vector=[[1.0, 2.0], [1.0, None]]),
        "FILE, record 2: number 2 of the vector of 'bench:0000' is nan, expected a finite float32",
    ),
    "null id": (
        lambda d: save_table(d, item_id=[IDS[0], None], vector=[[1.0], [2.0]]),
        "FILE, record 2: the item_id is null",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_in_one_clear_line(case: str, study: Path) -> None:
    make, message = BAD[case]
    file = make(study.parent)
    before = (study / "study.json").read_bytes()
    with pytest.raises(InputError) as caught:
        import_vectors(study, file, name="mine")
    assert str(caught.value) == message.replace("FILE", str(file), 1)
    assert (study / "study.json").read_bytes() == before
    assert not (study / "vectors").exists()


@pytest.mark.parametrize("name", ["v.npz", "v.npy", "v.parquet", "v.safetensors"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 cut", b"\x93NUMPY\x01\x00", b"PAR1"])
def test_a_damaged_file_is_refused(name: str, data: bytes, study: Path) -> None:
    file = save_bytes(study.parent, name, data)
    (study.parent / "ids.txt").write_text("a\n")
    ids = study.parent / "ids.txt" if name == "v.npy" else None
    with pytest.raises(InputError, match=r"is damaged|is pickled") as caught:
        import_vectors(study, file, name="mine", ids=ids)
    assert str(caught.value).startswith(str(file))

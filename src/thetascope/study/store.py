"""The study folder on disk: immutable files under one commit point.

`study.json` is the only file that ever changes, by rename. Everything that it names was
written and flushed before; what it does not name is left over from a kill or an older state
and goes with `clean`. One writer at a time (a file lock), any number of readers.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from filelock import FileLock, Timeout

from thetascope.errors import InputError, LockedError, StaleError
from thetascope.study import files
from thetascope.study.schema import TABLES, TableName

FORMAT = "thetascope-study"
VERSION = 1
DERIVED = (
    "vectors", "fits", "comparisons", "diagnoses", "banks", "spaces", "routings", "concepts",
    "gaps",
)  # fmt: skip


@dataclass
class Index:
    """What `study.json` says: tables, derived folders, the policy and the imports so far."""

    tables: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    derived: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    policy: str = "error"
    imports: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def table_hash(self, name: TableName) -> str:
        """The content hash in a table's file name."""
        return Path(self.tables[name]["file"]).stem.rpartition("-")[2]

    def to_json(self) -> dict[str, Any]:
        """The object that is written to `study.json`."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "tables": self.tables,
            "derived": self.derived,
            "policy": self.policy,
            "imports": self.imports,
        }


def is_study(path: Path) -> bool:
    """Whether the folder holds a study."""
    return (path / "study.json").is_file()


def read_index(path: Path) -> Index:
    """Reads `study.json`.

    Raises:
        InputError: There is none, it is damaged, or a newer thetascope wrote it.
    """
    file = path / "study.json"
    if not file.is_file():
        raise InputError(
            "no study here (there is no study.json)",
            file=path,
            fix="make one with: thetascope import SOURCE --into STUDY",
        )
    try:
        data: dict[str, Any] = files.read_json(file)
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"is not readable as JSON: {error}", file=file) from None
    if not hasattr(data, "get") or data.get("format") != FORMAT:
        raise InputError(f"is not a thetascope study (expected format {FORMAT!r})", file=file)
    if not isinstance(data.get("version"), int) or data["version"] > VERSION:
        raise InputError(
            f"has version {data.get('version')!r}, this thetascope reads up to {VERSION}",
            file=file,
            field="version",
            fix="update thetascope",
        )
    index = Index(
        data.get("tables", {}),
        data.get("derived", {}),
        data.get("policy", "error"),
        data.get("imports", []),
    )
    for name in TABLES:
        if name not in index.tables:
            raise InputError("names no such table", file=file, field=f"tables.{name}")
    return index


def read_table(path: Path, index: Index, name: TableName) -> pl.DataFrame:
    """Reads one table that the index names."""
    file = path / index.tables[name]["file"]
    if not file.is_file():
        raise InputError("is named by study.json but missing", file=file)
    if files.hash_file(file) != index.table_hash(name):
        raise InputError("is damaged: its content is not what its name says", file=file)
    try:
        return pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"is damaged: {reason}", file=file) from None


class Writer:
    """The one writer of a study; made by `writing`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = read_index(path) if is_study(path) else Index()

    def put_table(self, name: TableName, frame: pl.DataFrame) -> None:
        """Writes a table under its content's name; nothing points to it until `commit`."""
        aside = self.path / f".tmp-{os.getpid()}-{name}.parquet"
        try:
            frame.rechunk().write_parquet(aside, compression="zstd", statistics=False)
            files.fsync_path(aside)
            final = self.path / f"{name}-{files.hash_file(aside)}.parquet"
            os.replace(aside, final)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        self.index.tables[name] = {"file": final.name, "rows": frame.height}

    def work_folder(self, kind: str, name: str, key: Any) -> Path:
        """A folder for work that can go on after a kill, found again by `key` (JSON)."""
        folder = self.path / kind / f".work-{name}-{files.hash_json(key)}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def find_derived(self, kind: str, name: str, key: Any) -> Path | None:
        """A finished folder with this key, committed or left by a kill just before commit."""
        for folder in sorted((self.path / kind).glob(f"{name}-*")):
            if folder.name.rpartition("-")[0] != name:
                continue
            try:
                manifest = files.read_json(folder / "manifest.json")
            except (OSError, ValueError):  # unfinished or damaged: not to be found
                continue
            if manifest.get("key") == files.hash_json(key) and intact(folder):
                return folder
        return None

    def put_derived(
        self, kind: str, name: str, key: Any, work: Path, manifest: Mapping[str, Any]
    ) -> Path:
        """Seals a work folder: manifest last, flush, rename to its content's name."""
        for aside in work.glob(".tmp-*"):  # left by a kill in the middle of a write
            aside.unlink()
        files.write_json(work / "manifest.json", {**manifest, "key": files.hash_json(key)})
        for file in work.rglob("*"):
            if file.is_file():
                file.chmod(0o644)  # safetensors writes for its owner alone
            files.fsync_path(file)
        final = work.with_name(f"{name}-{files.hash_folder(work)}")
        if final.exists() and intact(final):
            shutil.rmtree(work)
        else:
            if final.exists():
                shutil.rmtree(final)
            os.replace(work, final)
            files.fsync_path(final.parent)
        self.point_to(kind, name, final)
        return final

    def point_to(self, kind: str, name: str, folder: Path) -> None:
        """Makes the index name this derived folder; needs `commit`."""
        self.index.derived.setdefault(kind, {})[name] = f"{kind}/{folder.name}"

    def commit(self) -> None:
        """Makes the new state the study's state, in one rename."""
        files.fsync_path(self.path)
        files.write_json(self.path / "study.json", self.index.to_json())


@contextmanager
def writing(path: Path, wait: float = 10.0) -> Generator[Writer]:
    """Locks the study (made if there is none) for one writer.

    Args:
        path: The study's folder.
        wait: Seconds to wait for another writer.

    Raises:
        LockedError: Another process still writes after `wait` seconds.
        InputError: The path is a file, or a folder with other things in it and no study.
    """
    if not 0 <= wait < math.inf:
        raise InputError(f"expected seconds from 0, found {wait!r}", field="wait")
    if path.exists() and not path.is_dir():
        raise InputError("is a file, a study is a folder", file=path)
    if path.is_dir() and not is_study(path):
        if any((path / kind).is_dir() for kind in DERIVED):
            raise InputError(
                "holds a study's vectors, fits or comparisons but no study.json: it was lost",
                file=path,
                fix="bring study.json back, or name a new folder",
            )
        strangers = [p.name for p in path.iterdir() if not _ours(p.name)]
        if strangers:
            raise InputError(
                f"is not a study and not empty (holds {sorted(strangers)[0]!r})",
                file=path,
                fix="name a new folder",
            )
    path.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path / ".lock")
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        raise LockedError(
            f"{path}: another thetascope is writing to this study (waited {wait:g} s)"
        ) from None
    try:
        yield Writer(path)
    finally:
        lock.release()


def intact(folder: Path) -> bool:
    """Whether a derived folder's content is what its name says."""
    return files.hash_folder(folder) == folder.name.rpartition("-")[2]


def check_intact(folder: Path, renew: str) -> None:
    """Raises InputError where a derived folder is missing or was changed after it was made."""
    if not folder.is_dir():
        raise InputError("is named by study.json but missing", file=folder, fix=renew)
    if not intact(folder):
        raise InputError(
            "is damaged: its content is not what its name says", file=folder, fix=renew
        )


def derived_folder(path: Path, index: Index, kind: str, name: str | None = None) -> Path:
    """Returns a derived folder by name (or the only one).

    Raises:
        InputError: There is none of that name; the message lists those there are.
    """
    known = index.derived.get(kind, {})
    commands = {"vectors": "encode", "fits": "fit", "comparisons": "compare"}
    commands |= {"diagnoses": "diagnose", "routings": "route evaluate"}
    commands |= {"concepts": "concepts extract"}
    make = f"thetascope {commands.get(kind, kind)}"
    if name is None:
        if len(known) == 1:
            return path / next(iter(known.values()))
        one = "name one with --concepts" if kind == "concepts" else "name one"
        raise InputError(
            f"{'several' if known else 'no'} {kind} in the study"
            + (f": {', '.join(sorted(known))}" if known else ""),
            file=path,
            fix=one if known else f"make one with: {make} {path}",
        )
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise InputError(f"no {kind} named {name!r}; there are {listed}", file=path)
    return path / known[name]


def check_fresh(folder: Path, inputs: Mapping[str, str], renew: str) -> dict[str, Any]:
    """Returns the manifest of a derived folder if its inputs are those of today.

    Raises:
        StaleError: An input has changed; the message names it and the command that renews.
    """
    check_intact(folder, f"renew with: {renew}")
    manifest = files.read_json(folder / "manifest.json")
    made_from = manifest.get("inputs", {})
    changed = [k for k, v in inputs.items() if made_from.get(k) != v]
    if changed:
        raise StaleError(
            f"{folder}: made from other {' and '.join(changed)} than the study holds now;"
            f" renew with: {renew}"
        )
    return manifest


def unreferenced(path: Path, index: Index) -> list[Path]:
    """Files and folders in the study that nothing points to (left by kills or older states)."""
    named = {entry["file"] for entry in index.tables.values()}
    found = [
        p
        for p in path.iterdir()
        if p.is_file()
        and p.name not in named
        and (p.name.startswith(".tmp-") or _table_file(p.name))
    ]
    for kind in DERIVED:
        folders = {path / folder for folder in index.derived.get(kind, {}).values()}
        if (path / kind).is_dir():
            found += [p for p in (path / kind).iterdir() if p not in folders]
    return sorted(found)


def _table_file(name: str) -> bool:
    return name.endswith(".parquet") and name.split("-")[0] in TABLES


def _ours(name: str) -> bool:
    return name in (".lock", "run.json", *DERIVED) or name.startswith(".tmp-") or _table_file(name)

"""Writing that survives a kill: aside, fsync, rename; names by content."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

_CHUNK = 1 << 20


def hash_file(path: Path) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 of the file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()[:16]


def hash_json(value: Any) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 of the value as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fsync_path(path: Path) -> None:
    """Flushes a file or a folder to the disk."""
    if os.name == "nt" and path.is_dir():  # folders cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_aside(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write` on a temporary file beside `path`, flushes it and renames it to `path`.

    After a kill or a full disk `path` is either as it was or complete; a temporary file may
    stay behind and is removed here when the error can be seen, else by `doctor --clean`.
    """
    aside = path.with_name(f".tmp-{secrets.token_hex(6)}-{path.name}")
    try:
        write(aside)
        fsync_path(aside)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    fsync_path(path.parent)


def is_free(target: Path) -> bool:
    """Whether nothing stands there, or an empty folder."""
    if target.is_dir() and not target.is_symlink():
        return not any(target.iterdir())
    return not os.path.lexists(target)


@contextmanager
def new_folder(target: Path) -> Generator[Path]:
    """A folder beside `target` to write into, which takes its name at the end; gone on a failure.

    Raises:
        OSError: Something was put at `target` meanwhile, or it cannot be written.
    """
    aside = target.with_name(f".tmp-{secrets.token_hex(6)}-{target.name[:100]}")
    aside.mkdir()
    try:
        yield aside
        for path in [*aside.rglob("*"), aside]:
            fsync_path(path)
        if target.is_dir():
            target.rmdir()  # fails if something was put there meanwhile
        os.rename(aside, target)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    fsync_path(target.parent)


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as indented JSON, sorted by key, atomically."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    text += "\n"
    data = text.encode("utf-8", "surrogatepass")
    write_aside(path, lambda aside: aside.write_bytes(data))


def finite(value: Any) -> Any:
    """The value with None for every number that JSON cannot hold (NaN, infinity)."""
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        return {str(k): finite(v) for k, v in pairs.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in cast("list[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> Any:
    """Reads a JSON file that `write_json` wrote."""
    return json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))


def hash_folder(folder: Path, skip: tuple[str, ...] = ("run.json",)) -> str:
    """Returns a hash over the names and contents of a folder's files, `skip` left out."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    kept = [n for n in names if Path(n).name not in skip]
    return hash_json([[n, hash_file(folder / n)] for n in kept])

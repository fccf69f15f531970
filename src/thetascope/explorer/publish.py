"""A study as a static page: a folder or a .zip that any web server shows, without a network.

It is written aside and renamed at the end: the target is complete or not there, and nothing is
overwritten. Equal studies give equal bytes.
"""

from __future__ import annotations

import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from thetascope.errors import InputError
from thetascope.explorer.contents import Contents
from thetascope.explorer.page import page_files
from thetascope.study import Study
from thetascope.study.files import fsync_path, is_free, new_folder

Progress = Callable[[int, int, str], None]
DATA = "data/"
"""Where the study's files are, beside the page."""
_DATE = (1980, 1, 1, 0, 0, 0)
_STORED = (".parquet", ".png", ".woff2")


@dataclass(frozen=True)
class Published:
    """What was written.

    Attributes:
        path: The folder or file.
        n_files, n_bytes: Files and their size; of a .zip the size of the .zip.
        n_texts: Items whose texts are in it.
        contexts: Whether pieces of texts are in it that concepts are shown with.
        name: Of the study, as the page shows it.
    """

    path: Path
    n_files: int
    n_bytes: int
    n_texts: int
    contexts: bool
    name: str

    def to_json(self) -> dict[str, object]:
        """The same as one object."""
        return {"path": str(self.path), "files": self.n_files, "bytes": self.n_bytes,
                "texts": self.n_texts, "contexts": self.contexts, "name": self.name}  # fmt: skip


def publish(
    study: str | Path | Study, to: str | Path, *, texts: bool = True, title: str | None = None,
    progress: Progress | None = None,
) -> Published:  # fmt: skip
    """Writes the explorer's page with a study's files.

    Args:
        study: The study's folder, or a study that was opened from one; it is only read.
        to: A folder that does not exist or is empty, or a FILE.zip that does not exist.
        texts: Whether items' texts and the contexts of concepts go with it.
        title: Of the page; the folder's name where None.
        progress: Called with (done, total, what).

    Raises:
        InputError: There is no study, the target is there already or lies in the study, or the
            files cannot be written.
    """
    source = folder_of(study)
    target = Path(os.path.abspath(to))
    check_target(source, target, to)
    page = page_files()
    if progress is not None:
        progress(0, -1, "reading the study")
    contents = Contents(source, texts=texts, title=title)
    write = _write_zip if target.suffix == ".zip" else _write_folder
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        n_files = write(target, _all_files(page, contents, progress))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=to) from None
    sources = contents.sources
    shown = sources.material.items["text"]
    n_texts = len(shown) - shown.null_count() if sources.texts else 0
    return Published(
        Path(to), n_files, _size(target), n_texts, contents.has["contexts"], sources.material.name
    )


def folder_of(study: str | Path | Study) -> Path:
    """The folder of a study.

    Raises:
        InputError: The study is in memory only.
    """
    if not isinstance(study, Study):
        return Path(study)
    if study.path is None:
        raise InputError("the study is in memory only", fix="save it to a folder first")
    return study.path


def check_target(source: Path, target: Path, to: str | Path) -> None:
    """Raises InputError where something is there already, or the target lies in the study."""
    whole = Path(os.path.realpath(source))
    place = Path(os.path.realpath(target))
    if place == whole or whole in place.parents:
        raise InputError("lies in the study, into which nothing is written", file=to,
                         fix="name a folder outside of it")  # fmt: skip
    try:
        free = not os.path.lexists(target) if target.suffix == ".zip" else is_free(target)
    except OSError as error:
        raise InputError(f"cannot be looked at: {error.strerror or error}", file=to) from None
    if not free:
        raise InputError("is there already: nothing is overwritten", file=to,
                         fix="name a new folder or file with --to")  # fmt: skip


def _all_files(
    page: Mapping[str, bytes], contents: Contents, progress: Progress | None
) -> Iterator[tuple[str, bytes]]:
    yield from page.items()
    paths = contents.paths()
    for k, path in enumerate(paths):
        if progress is not None:
            progress(k, len(paths), path)
        yield DATA + path, contents.read(path, keep=False)
    if progress is not None:
        progress(len(paths), len(paths), "written")


def _write_folder(target: Path, files: Iterator[tuple[str, bytes]]) -> int:
    n = 0
    with new_folder(target) as aside:
        for path, data in files:
            place = aside / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            n += 1
    return n


def _write_zip(target: Path, files: Iterator[tuple[str, bytes]]) -> int:
    aside = target.with_name(f".tmp-{secrets.token_hex(6)}-{target.name[:100]}")
    n = 0
    try:
        with zipfile.ZipFile(aside, "x") as archive:
            for path, data in files:
                entry = zipfile.ZipInfo(path, _DATE)
                entry.external_attr = 0o644 << 16
                entry.create_system = 3
                packed = zipfile.ZIP_STORED if path.endswith(_STORED) else zipfile.ZIP_DEFLATED
                archive.writestr(entry, data, packed)
                n += 1
        fsync_path(aside)
        os.link(aside, target)  # unlike a rename, it does not overwrite
        aside.unlink()
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    fsync_path(target.parent)
    return n


def _size(target: Path) -> int:
    if target.is_file():
        return target.stat().st_size
    return sum(p.stat().st_size for p in target.rglob("*") if p.is_file())

"""Results kept in a study folder: made once, named by what they were made from.

A result depends on the study's tables, its policy, and other derived folders that it names
('vectors/minilm', 'fits/jeirt'). The same question asked again is answered from the folder; a
result whose inputs have changed is refused with the command that renews it.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from thetascope.errors import InputError
from thetascope.study import files, store
from thetascope.study.schema import TABLES
from thetascope.study.study import Study


class Made(NamedTuple):
    """A derived folder, and whether this call made it or found it finished."""

    folder: Path
    new: bool


def inputs_of(index: store.Index, needs: Sequence[str] = ()) -> dict[str, str]:
    """Content hashes of the tables and of the derived folders `needs` ('kind/name')."""
    inputs = {table: index.table_hash(table) for table in TABLES} | {"policy": index.policy}
    for need in needs:
        kind, _, name = need.partition("/")
        place = index.derived.get(kind, {}).get(name)
        inputs[need] = "gone" if place is None else place.rpartition("-")[2]
    return inputs


def needs_vectors(vectors: str | None) -> list[str]:
    """The derived folder that is read with the text vectors of this name; none for None."""
    return [] if vectors is None else [f"vectors/{vectors}"]


def vectors_name(study: Study, name: str | None, *, required: bool = True) -> str | None:
    """The name of the study's text vectors; None where it has none and none are required."""
    has = study.path is not None and store.read_index(study.path).derived.get("vectors")
    if name is None and not required and not has:
        return None
    return short_name(study, "vectors", name)


def _adopt(writer: store.Writer, kind: str, name: str, folder: Path) -> None:
    """Makes the study name a finished folder that it does not name yet."""
    if writer.index.derived.get(kind, {}).get(name) != f"{kind}/{folder.name}":
        writer.point_to(kind, name, folder)
        writer.commit()


def short_name(study: Study, kind: str, name: str | None) -> str:
    """The name of a derived folder; of the only one where None.

    Raises:
        InputError: There is none, or several and none was named.
    """
    path = path_of(study)
    return store.derived_folder(path, store.read_index(path), kind, name).name.rpartition("-")[0]


def path_of(study: Study) -> Path:
    """The study's folder, or InputError where it is in memory only."""
    if study.path is None:
        raise InputError("the study is in memory only", fix="save it to a folder first")
    return study.path


def keep(
    path: str | Path,
    kind: str,
    name: str,
    make: Callable[[Study, Path], Mapping[str, Any] | None],
    *,
    needs: Sequence[str] = (),
    settings: dict[str, Any],
    wait: float = 10.0,
) -> Made:
    """Finds a result in a study folder, or makes it there.

    Args:
        path: The study's folder.
        kind, name: Where it is kept.
        make: Called with the study and an empty folder (or what a stopped call left in it),
            writes the result; what it returns stands in the manifest beside the settings, what it
            writes to run.json beside the times.
        needs: Derived folders that it reads, 'kind/name'.
        settings: All that decides the result beside the inputs.
        wait: Seconds to wait for another writer.
    """
    folder = Path(path)
    with store.writing(folder, wait) as writer:
        study = Study.open(folder)
        inputs = inputs_of(writer.index, needs)
        key = {"inputs": inputs, "settings": settings}
        found = writer.find_derived(kind, name, key)
        if found is not None:
            _adopt(writer, kind, name, found)
            return Made(found, False)
        start = time.time()
        work = writer.work_folder(kind, name, key)
        try:
            said = make(study, work)
        except InputError:  # nothing to go on with
            shutil.rmtree(work)
            raise
        run = {"started": start, "seconds": time.time() - start, "host": platform.node()}
        if (work / "run.json").is_file():
            run = files.read_json(work / "run.json") | run
        files.write_json(work / "run.json", run)
        manifest = {"kind": kind, "inputs": inputs, "settings": settings, **(said or {})}
        final = writer.put_derived(kind, name, key, work, manifest)
        writer.commit()
    return Made(final, True)


def find(study: Study, kind: str, name: str | None, renew: str) -> Path:
    """The folder of a kept result, whole and made from what the study holds today.

    Args:
        study: The study.
        kind, name: Where it is kept; the only one where the name is None.
        renew: The command that makes it, without the study.

    Raises:
        InputError: There is none.
        StaleError: The study has changed since.
    """
    path = path_of(study)
    index = store.read_index(path)
    folder = store.derived_folder(path, index, kind, name)
    command = f"{renew} {path}"
    store.check_intact(folder, f"renew with: {command}")
    held = files.read_json(folder / "manifest.json")["inputs"]
    needs = [k for k in held if "/" in k]
    store.check_fresh(folder, inputs_of(index, needs), command)
    return folder

"""A diagnosis as a derived folder of a study: made once, named by content."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.errors import InputError
from thetascope.predictors.base import ItemFeatures, item_features, study_sample
from thetascope.predictors.diagnosis.diagnose import (
    BOOTSTRAPS,
    ONE_ABILITY,
    SEEDS,
    Losses,
    check_settings,
    comparable,
    look,
    losses_of,
)
from thetascope.predictors.runs import Progress
from thetascope.predictors.saved import compare_study, load_comparison
from thetascope.study import Study, files, store
from thetascope.study.derived import Made, adopt, study_inputs, vectors_name

DIAGNOSES, NAME = "diagnoses", "diagnosis"


@dataclass(frozen=True)
class SavedDiagnosis:
    """A diagnosis read from disk.

    Attributes:
        table: The object that `Diagnosis.to_json` gave.
        items: `Diagnosis.items`.
    """

    table: dict[str, Any]
    items: pl.DataFrame


def diagnose_study(
    path: str | Path,
    *,
    seeds: int = SEEDS,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
    encoder: str | None = None,
    progress: Progress | None = None,
    wait: float = 10.0,
) -> Made:
    """Runs `diagnose` on a study folder and keeps the result there.

    The comparison is kept as one named 'diagnosis'. Asked again, both are answered from the
    folder; stopped, the comparison goes on from the first prediction that is missing.

    Raises:
        InputError, LockedError: A setting is out of range; another process writes.
    """
    check_settings(seeds, bootstraps, seed)
    folder = Path(path)
    study = Study.open(folder)
    vectors = vectors_name(study, encoder, required=False)
    items = item_features(study, vectors)
    losses, compared = _losses(folder, items, seeds, vectors, progress, wait)
    with store.writing(folder, wait) as writer:
        study = Study.open(folder)  # as it is under the lock
        inputs = study_inputs(writer.index, vectors)
        settings = {"seeds": seeds, "bootstraps": bootstraps, "seed": seed}
        key = {"inputs": inputs, **settings, "comparison": compared, "left_out": losses.left_out}
        found = writer.find_derived(DIAGNOSES, NAME, key)
        if found is not None:
            adopt(writer, DIAGNOSES, NAME, found)
            return Made(found, False)
        start = time.time()
        sample = study_sample(study, vectors)
        result = look(study, sample, losses, seeds, bootstraps, seed, progress)
        work = writer.work_folder(DIAGNOSES, NAME, key)
        files.write_json(work / "diagnosis.json", result.to_json())
        result.items.write_parquet(work / "items.parquet", statistics=False)
        run = {"started": start, "seconds": time.time() - start, "host": platform.node()}
        files.write_json(work / "run.json", run)
        manifest = {"kind": "diagnosis", "inputs": inputs, **settings, "comparison": compared}
        final = writer.put_derived(DIAGNOSES, NAME, key, work, manifest)
        writer.commit()
    return Made(final, True)


def load_diagnosis(study: Study) -> SavedDiagnosis:
    """Reads the diagnosis of a study.

    Raises:
        InputError: There is none.
        StaleError: The study has changed since.
    """
    if study.path is None:
        raise InputError("the study is in memory only", fix="save it to a folder first")
    index = store.read_index(study.path)
    folder = store.derived_folder(study.path, index, DIAGNOSES, NAME)
    renew = f"thetascope diagnose {study.path}"
    store.check_intact(folder, f"renew with: {renew}")
    manifest = files.read_json(folder / "manifest.json")
    vectors = next((k[8:] for k in manifest["inputs"] if k.startswith("vectors/")), None)
    store.check_fresh(folder, study_inputs(index, vectors), renew)
    table = files.read_json(folder / "diagnosis.json")
    return SavedDiagnosis(table, pl.read_parquet(folder / "items.parquet"))


def _losses(
    folder: Path,
    items: ItemFeatures,
    seeds: int,
    vectors: str | None,
    progress: Progress | None,
    wait: float,
) -> tuple[Losses, str | None]:
    """The comparison's losses and the name of its folder."""
    if not seeds:
        return Losses("not asked for (seeds = 0)", None, [], {}), None
    chosen, left_out = comparable(items)
    try:
        made = compare_study(
            folder, chosen, name=NAME, split="warm-cells", seeds=seeds, encoder=vectors,
            reference=ONE_ABILITY, progress=progress, wait=wait,
        )  # fmt: skip
    except InputError as error:
        return Losses(str(error), None, [], left_out), None
    saved = load_comparison(Study.open(folder), NAME)
    return losses_of(saved.table, left_out), made.folder.name

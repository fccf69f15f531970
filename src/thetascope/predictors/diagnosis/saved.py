"""A diagnosis as a derived folder of a study: made once, named by content."""

from __future__ import annotations

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
from thetascope.study import Study, files
from thetascope.study.derived import Made, find, keep, needs_vectors, vectors_name

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

    def make(study: Study, work: Path) -> None:
        sample = study_sample(study, vectors)
        result = look(study, sample, losses, seeds, bootstraps, seed, progress)
        files.write_json(work / "diagnosis.json", result.to_json())
        result.items.write_parquet(work / "items.parquet", statistics=False)

    settings = {"seeds": seeds, "bootstraps": bootstraps, "seed": seed, "comparison": compared,
                "left_out": losses.left_out}  # fmt: skip
    return keep(
        folder, DIAGNOSES, NAME, make, needs=needs_vectors(vectors), settings=settings, wait=wait
    )


def load_diagnosis(study: Study) -> SavedDiagnosis:
    """Reads the diagnosis of a study.

    Raises:
        InputError: There is none.
        StaleError: The study has changed since.
    """
    folder = find(study, DIAGNOSES, NAME, "thetascope diagnose")
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

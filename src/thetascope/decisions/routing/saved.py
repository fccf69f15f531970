"""A routing evaluation as a derived folder of a study: made once, named by content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.decisions.routing.evaluate import Items, evaluate_routing
from thetascope.encoders.config import check_name
from thetascope.predictors.base import Predictor
from thetascope.predictors.registry import make_predictor
from thetascope.predictors.runs import Progress
from thetascope.predictors.saved import find_named, fit_settings
from thetascope.study import Study, files
from thetascope.study.derived import Made, keep, needs_vectors, vectors_name

ROUTINGS, NAME = "routings", "routing"
VERSION = 1
"""Of what an evaluation says; another number makes it anew."""


@dataclass(frozen=True)
class SavedRouting:
    """An evaluation read from disk; see `evaluate.RoutingEvaluation`."""

    table: dict[str, Any]
    choices: pl.DataFrame


def evaluate_study(
    path: str | Path,
    router: str | Predictor = "blend",
    *,
    name: str = NAME,
    candidates: Sequence[str] | None = None,
    items: Items = "auto",
    seeds: int = 5,
    split_seed: int = 0,
    encoder: str | None = None,
    progress: Progress | None = None,
    wait: float = 10.0,
) -> Made:
    """Runs `evaluate_routing` on a study folder and keeps the result there.

    The same question asked again is answered from the folder; stopped in the middle, it goes
    on with the first prediction that is missing.
    """
    name, predictor = check_name(name), make_predictor(router)
    vectors = vectors_name(Study.open(Path(path)), encoder, required=False)

    def make(study: Study, work: Path) -> None:
        result = evaluate_routing(
            study, predictor, candidates=candidates, items=items, seeds=seeds,
            split_seed=split_seed, encoder=vectors, folder=work, progress=progress,
        )  # fmt: skip
        files.write_json(work / "routing.json", result.table)
        result.choices.write_parquet(work / "choices.parquet", statistics=False)
        for file in work.glob("*.safetensors"):
            file.unlink()

    settings = {
        "router": fit_settings(predictor),
        "candidates": None if candidates is None else sorted(candidates), "items": items,
        "seeds": seeds, "split_seed": split_seed, "version": VERSION,
    }  # fmt: skip
    return keep(
        path, ROUTINGS, name, make, needs=needs_vectors(vectors), settings=settings, wait=wait
    )


def load_routing(study: Study, name: str | None = None) -> SavedRouting:
    """Reads a routing evaluation of a study.

    Raises:
        InputError: There is none of that name.
        StaleError: The study has changed since.
    """
    folder = find_named(study, ROUTINGS, name, "route evaluate")
    table = files.read_json(folder / "routing.json")
    return SavedRouting(table, pl.read_parquet(folder / "choices.parquet"))

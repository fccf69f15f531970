"""A routing evaluation as a derived folder of a study: made once, named by content."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.decisions.routing.evaluate import Items, evaluate_routing
from thetascope.encoders.config import check_name
from thetascope.errors import InputError
from thetascope.predictors.base import Predictor
from thetascope.predictors.registry import make_predictor
from thetascope.predictors.runs import Progress
from thetascope.predictors.saved import Made, adopt, fresh_folder, study_inputs, vectors_name
from thetascope.study import Study, files, store

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
    folder, name, predictor = Path(path), check_name(name), make_predictor(router)
    with store.writing(folder, wait) as writer:
        study = Study.open(folder)
        vectors = vectors_name(study, encoder, required=False)
        inputs = study_inputs(writer.index, vectors)
        settings = {k: v for k, v in predictor.get_params().items() if k != "device"}
        key = {
            "inputs": inputs, "router": predictor.NAME, "settings": settings,
            "candidates": None if candidates is None else sorted(candidates), "items": items,
            "seeds": seeds, "split_seed": split_seed, "version": VERSION,
        }  # fmt: skip
        found = writer.find_derived(ROUTINGS, name, key)
        if found is not None:
            adopt(writer, ROUTINGS, name, found)
            return Made(found, False)
        start = time.time()
        work = writer.work_folder(ROUTINGS, name, key)
        try:
            result = evaluate_routing(
                study, predictor, candidates=candidates, items=items, seeds=seeds,
                split_seed=split_seed, encoder=vectors, folder=work, progress=progress,
            )  # fmt: skip
        except InputError:  # nothing to go on with
            shutil.rmtree(work)
            raise
        files.write_json(work / "routing.json", result.table)
        result.choices.write_parquet(work / "choices.parquet", statistics=False)
        run = {"started": start, "seconds": time.time() - start, "host": platform.node()}
        files.write_json(work / "run.json", run)
        for file in work.glob("*.safetensors"):
            file.unlink()
        manifest = {"kind": "routing", "inputs": inputs, "router": predictor.NAME, "seeds": seeds}
        final = writer.put_derived(ROUTINGS, name, key, work, manifest)
        writer.commit()
    return Made(final, True)


def load_routing(study: Study, name: str | None = None) -> SavedRouting:
    """Reads a routing evaluation of a study.

    Raises:
        InputError: There is none of that name.
        StaleError: The study has changed since.
    """
    folder, _ = fresh_folder(study, ROUTINGS, name, "route evaluate")
    table = files.read_json(folder / "routing.json")
    return SavedRouting(table, pl.read_parquet(folder / "choices.parquet"))

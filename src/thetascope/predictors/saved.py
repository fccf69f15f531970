"""Fits and comparisons as derived folders of a study: made once, named by content."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from thetascope.encoders.config import check_name
from thetascope.errors import InputError
from thetascope.evaluation import SplitName
from thetascope.predictors.base import ItemFeatures, item_features
from thetascope.predictors.comparison import REFERENCE, Comparison, compare
from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.registry import make_predictor
from thetascope.predictors.runs import Progress
from thetascope.predictors.setup import fit_sets
from thetascope.study import Study, files, store
from thetascope.study.schema import TABLES

FITS, COMPARISONS = "fits", "comparisons"


class Made(NamedTuple):
    """A derived folder, and whether this call made it or found it finished."""

    folder: Path
    new: bool


@dataclass(frozen=True)
class SavedComparison:
    """A comparison read from disk.

    Attributes:
        table: The object that `Comparison.to_json` gave.
        cells: item_id, model, score and one column p_<predictor> each.
    """

    table: dict[str, Any]
    cells: pl.DataFrame


def fit_study(
    path: str | Path,
    predictor: JEIRT,
    *,
    name: str | None = None,
    wait: float = 10.0,
) -> Made:
    """Fits JE-IRT on a study folder and keeps the fit there; killed, it goes on when called again.

    Args:
        path: The study's folder.
        predictor: The settings.
        name: Name of the fit; the predictor's own where None.
        wait: Seconds to wait for another writer.

    Raises:
        InputError, LockedError: The study lacks vectors; another process writes.
    """
    folder, name = Path(path), check_name(predictor.NAME if name is None else name)
    with store.writing(folder, wait) as writer:
        study = Study.open(folder)
        vectors = _vectors_name(study, predictor.vectors)
        inputs = _inputs(writer.index, vectors)
        key = {"inputs": inputs, "settings": _settings(predictor), "predictor": predictor.NAME}
        found = writer.find_derived(FITS, name, key)
        if found is not None:
            _adopt(writer, FITS, name, found)
            return Made(found, False)
        work = writer.work_folder(FITS, name, key)
        train, held = fit_sets(study, vectors)
        start = time.time()
        predictor.fit_in(train, held, work)
        predictor.save(work)
        (work / "checkpoint.safetensors").unlink(missing_ok=True)
        _write_run(work, start)
        manifest = {"kind": "fit", "inputs": inputs, "settings": _settings(predictor),
                    "predictor": predictor.NAME, "choices": predictor.choices}  # fmt: skip
        final = writer.put_derived(FITS, name, key, work, manifest)
        writer.commit()
    return Made(final, True)


def load_fit(study: Study, name: str | None = None) -> JEIRT:
    """Reads a fit of a study; needs no torch.

    Raises:
        InputError: There is no such fit.
        StaleError: It was made from other tables or vectors than the study has now.
    """
    folder, vectors = _fresh(study, FITS, name, "fit")
    fit = JEIRT.load(folder)
    fit.vectors = vectors
    return fit


def compare_study(
    path: str | Path,
    predictors: Sequence[str] | None = None,
    *,
    name: str | None = None,
    split: SplitName = "cold-items",
    seeds: int = 5,
    split_seed: int = 0,
    encoder: str | None = None,
    reference: str = REFERENCE,
    progress: Progress | None = None,
    wait: float = 10.0,
) -> Made:
    """Runs `compare` on a study folder and keeps table and cells there.

    The same question asked again is answered from the folder; stopped in the middle, it goes
    on with the first prediction that is missing.
    """
    folder, name = Path(path), check_name(split if name is None else name)
    with store.writing(folder, wait) as writer:
        study = Study.open(folder)
        vectors = _vectors_name(study, encoder, required=False)
        inputs = _inputs(writer.index, vectors)
        key = {
            "inputs": inputs,
            "predictors": None if predictors is None else list(predictors),
            "settings": _all_settings(predictors),
            "split": split, "seeds": seeds, "split_seed": split_seed, "reference": reference,
            "torch": find_spec("torch") is not None,  # without it some predictors are left out
        }  # fmt: skip
        found = writer.find_derived(COMPARISONS, name, key)
        if found is not None:
            _adopt(writer, COMPARISONS, name, found)
            return Made(found, False)
        start = time.time()
        work = writer.work_folder(COMPARISONS, name, key)
        try:
            result = compare(
                study, predictors, split=split, seeds=seeds, split_seed=split_seed,
                encoder=vectors, reference=reference, progress=progress, folder=work,
            )  # fmt: skip
        except InputError:  # nothing to go on with
            shutil.rmtree(work)
            raise
        files.write_json(work / "comparison.json", {"study": _summary(study), **result.to_json()})
        _cells_table(study, result).write_parquet(work / "cells.parquet", statistics=False)
        _write_run(work, start, {"seconds": result.seconds})
        for file in work.glob("*.safetensors"):
            file.unlink()
        manifest = {"kind": "comparison", "inputs": inputs, "split": split, "seeds": seeds}
        final = writer.put_derived(COMPARISONS, name, key, work, manifest)
        writer.commit()
    return Made(final, True)


def load_comparison(study: Study, name: str | None = None) -> SavedComparison:
    """Reads a comparison of a study.

    Raises:
        InputError: There is none of that name.
        StaleError: The study has changed since.
    """
    folder, _ = _fresh(study, COMPARISONS, name, "compare")
    table = files.read_json(folder / "comparison.json")
    return SavedComparison(table, pl.read_parquet(folder / "cells.parquet"))


def fit_features(study: Study, fit: JEIRT) -> ItemFeatures:
    """The study's items as the fit sees them."""
    return item_features(study, fit.vectors, required=True)


def _fresh(study: Study, kind: str, name: str | None, command: str) -> tuple[Path, str | None]:
    """A derived folder whose inputs are those of today, and the name of its text vectors."""
    path = _path(study)
    index = store.read_index(path)
    folder = store.derived_folder(path, index, kind, name)
    short = folder.name.rpartition("-")[0]
    renew = f"thetascope {command} {path} --name {short}"
    store.check_intact(folder, f"renew with: {renew}")
    manifest = files.read_json(folder / "manifest.json")
    vectors = next((k[8:] for k in manifest["inputs"] if k.startswith("vectors/")), None)
    store.check_fresh(folder, _inputs(index, vectors), renew)
    return folder, vectors


def _summary(study: Study) -> dict[str, Any]:
    return {
        "n_items": study.n_items,
        "n_models": study.n_models,
        "n_responses": study.responses.height,
        "benchmarks": study.benchmarks,
        "policy": study.policy,
    }


def _cells_table(study: Study, result: Comparison) -> pl.DataFrame:
    ids, models = study.items["item_id"], study.models["model"]
    return pl.DataFrame(
        {
            "item_id": ids.gather(pl.Series(result.item)),
            "model": models.gather(pl.Series(result.model)),
            "score": result.cells.score,
            **{f"p_{k}": v.astype(np.float32) for k, v in result.cells.p.items()},
        }
    )


def _adopt(writer: store.Writer, kind: str, name: str, folder: Path) -> None:
    if writer.index.derived.get(kind, {}).get(name) != f"{kind}/{folder.name}":
        writer.point_to(kind, name, folder)
        writer.commit()


def _inputs(index: store.Index, vectors: str | None) -> dict[str, str]:
    inputs = {name: index.table_hash(name) for name in TABLES} | {"policy": index.policy}
    if vectors is not None:
        place = index.derived.get("vectors", {}).get(vectors)
        inputs[f"vectors/{vectors}"] = "gone" if place is None else place.rpartition("-")[2]
    return inputs


def _vectors_name(study: Study, name: str | None, *, required: bool = True) -> str | None:
    path = _path(study)
    index = store.read_index(path)
    if name is None and not required and not index.derived.get("vectors"):
        return None
    return store.derived_folder(path, index, "vectors", name).name.rpartition("-")[0]


def _settings(predictor: Any) -> dict[str, Any]:
    return {k: v for k, v in predictor.get_params().items() if k != "device"}


def _all_settings(predictors: Sequence[str] | None) -> Mapping[str, Any]:
    from thetascope.predictors.registry import PREDICTORS

    names = list(PREDICTORS) if predictors is None else predictors
    return {n: _settings(make_predictor(n)) for n in names}


def _write_run(work: Path, start: float, more: Mapping[str, Any] | None = None) -> None:
    """Times and hosts: outside the promise of equal bytes."""
    run = {"started": start, "seconds": time.time() - start, "host": platform.node()}
    files.write_json(work / "run.json", {**run, **(more or {})})


def _path(study: Study) -> Path:
    if study.path is None:
        raise InputError("the study is in memory only", fix="save it to a folder first")
    return study.path

"""Fits and comparisons as derived folders of a study: made once, named by content."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl

from thetascope.encoders.config import check_name
from thetascope.errors import InputError
from thetascope.evaluation import SplitName
from thetascope.predictors.base import ItemFeatures, Predictor, Sample, item_features
from thetascope.predictors.comparison import REFERENCE, Comparison, compare
from thetascope.predictors.forecast import MeanInterval, interval_sets
from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.registry import make_predictor
from thetascope.predictors.runs import Progress
from thetascope.predictors.setup import fit_sets
from thetascope.study import Study, files, store
from thetascope.study.schema import TABLES

FITS, COMPARISONS = "fits", "comparisons"
FIT_VERSION = 3
"""Of a fit's files; another number makes it anew."""
INTERVAL, HELD = "interval.json", "held.json"
P = TypeVar("P", bound=Predictor)


class KeptFit(NamedTuple):
    """A fit read from a study.

    Attributes:
        fit: The predictor.
        interval: Of its forecasts.
        held: Ids of the items that it did not learn from.
        folder: Where it is.
    """

    fit: Predictor
    interval: MeanInterval
    held: tuple[str, ...]
    folder: Path


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
    predictor: Predictor,
    *,
    name: str | None = None,
    wait: float = 10.0,
) -> Made:
    """Fits a predictor on a study folder and keeps it there; killed, it goes on when called again.

    `JEIRT` has a tenth of the items for early stopping. Any other predictor has half of that for
    its choices; the other half, that no choice has seen, gives the interval of its forecasts
    (none in a study too small for that).

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
        vectors = _predictor_vectors(study, predictor)
        inputs = study_inputs(writer.index, vectors)
        key = {"inputs": inputs, "settings": _settings(predictor), "predictor": predictor.NAME,
               "version": FIT_VERSION}  # fmt: skip
        found = writer.find_derived(FITS, name, key)
        if found is not None:
            adopt(writer, FITS, name, found)
            return Made(found, False)
        work = writer.work_folder(FITS, name, key)
        train, held, rest = _sets(study, predictor, vectors)
        start, parts = time.time(), work / "parts"
        parts.mkdir(exist_ok=True)
        predictor.fit_in(train, held, parts)
        predictor.save(work)
        if rest is not None:
            interval = MeanInterval.learn(predictor.predict_proba(rest.items), rest)
            files.write_json(work / INTERVAL, asdict(interval))
            files.write_json(work / HELD, [*held.items.ids, *rest.items.ids])
        shutil.rmtree(parts)
        _write_run(work, start)
        manifest = {"kind": "fit", "inputs": inputs, "settings": _settings(predictor),
                    "predictor": predictor.NAME, "choices": predictor.choices}  # fmt: skip
        final = writer.put_derived(FITS, name, key, work, manifest)
        writer.commit()
    return Made(final, True)


def load_fit(study: Study, name: str | None = None, kind: type[P] = JEIRT) -> P:
    """Reads a fit of a study; needs no torch.

    Args:
        study: The study, in a folder.
        name: Name of the fit; None for the only one of this kind.
        kind: The predictor's class, or `Predictor` for any.

    Raises:
        InputError: There is no such fit, or it is of another kind.
        StaleError: It was made from other tables or vectors than the study has now.
    """
    if name is None:
        found = [n for n, made in fits_of(study).items() if issubclass(made, kind)]
        name = found[0] if len(found) == 1 else None
    folder, vectors = fresh_folder(study, FITS, name, "fit")
    fit = kind.load(folder)
    if "vectors" in fit.get_params():
        fit.vectors = vectors  # type: ignore[attr-defined]
    return fit


def fits_of(study: Study) -> dict[str, type[Predictor]]:
    """The study's fits by name, with the class of predictor of each; damaged ones left out."""
    from thetascope.predictors.registry import PREDICTORS

    path, out = _path(study), dict[str, type[Predictor]]()
    for name, place in store.read_index(path).derived.get(FITS, {}).items():
        try:
            made = files.read_json(path / place / "manifest.json")["predictor"]
        except (OSError, ValueError, KeyError):
            continue
        # JE-IRT with and without offset are settings of one class.
        out[name] = JEIRT if made.startswith("jeirt") else PREDICTORS.get(made, Predictor)
    return out


def find_fit(study: Study, predictor: Predictor) -> KeptFit | None:
    """A fresh fit of a study with these settings; None where there is none.

    Raises:
        InputError: There is one and it is damaged.
    """
    path = _path(study)
    index = store.read_index(path)
    inputs = study_inputs(index, _predictor_vectors(study, predictor))
    wanted = {**_settings(predictor), "vectors": None}
    for place in index.derived.get(FITS, {}).values():
        folder = path / place
        if not (folder / INTERVAL).is_file() or not (folder / HELD).is_file():
            continue
        store.check_intact(folder, f"renew with: thetascope fit {path} --predictor NAME")
        manifest = files.read_json(folder / "manifest.json")
        same = {**manifest["settings"], "vectors": None} == wanted
        if same and manifest["predictor"] == predictor.NAME and manifest["inputs"] == inputs:
            interval = files.read_json(folder / INTERVAL)
            interval["models"] = tuple(interval["models"])
            held = tuple(files.read_json(folder / HELD))
            return KeptFit(type(predictor).load(folder), MeanInterval(**interval), held, folder)
    return None


def _sets(
    study: Study, predictor: Predictor, vectors: str | None
) -> tuple[Sample, Sample, Sample | None]:
    """What to learn from, what to choose on, and what the interval is learnt on."""
    if type(predictor) is not JEIRT:
        try:
            return interval_sets(study, vectors)
        except InputError:  # too few items for three parts
            pass
    return (*fit_sets(study, vectors), None)


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
        vectors = vectors_name(study, encoder, required=False)
        inputs = study_inputs(writer.index, vectors)
        key = {
            "inputs": inputs,
            "predictors": None if predictors is None else list(predictors),
            "settings": _all_settings(predictors),
            "split": split, "seeds": seeds, "split_seed": split_seed, "reference": reference,
            "torch": find_spec("torch") is not None,  # without it some predictors are left out
        }  # fmt: skip
        found = writer.find_derived(COMPARISONS, name, key)
        if found is not None:
            adopt(writer, COMPARISONS, name, found)
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
    folder, _ = fresh_folder(study, COMPARISONS, name, "compare")
    table = files.read_json(folder / "comparison.json")
    return SavedComparison(table, pl.read_parquet(folder / "cells.parquet"))


def fit_features(study: Study, fit: JEIRT) -> ItemFeatures:
    """The study's items as the fit sees them."""
    return item_features(study, fit.vectors, required=True)


def fresh_folder(
    study: Study, kind: str, name: str | None, command: str
) -> tuple[Path, str | None]:
    """A derived folder whose inputs are those of today, and the name of its text vectors."""
    path = _path(study)
    index = store.read_index(path)
    folder = store.derived_folder(path, index, kind, name)
    short = folder.name.rpartition("-")[0]
    renew = f"thetascope {command} {path} --name {short}"
    store.check_intact(folder, f"renew with: {renew}")
    manifest = files.read_json(folder / "manifest.json")
    vectors = next((k[8:] for k in manifest["inputs"] if k.startswith("vectors/")), None)
    store.check_fresh(folder, study_inputs(index, vectors), renew)
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


def adopt(writer: store.Writer, kind: str, name: str, folder: Path) -> None:
    """Makes the study name a finished folder that it does not name yet."""
    if writer.index.derived.get(kind, {}).get(name) != f"{kind}/{folder.name}":
        writer.point_to(kind, name, folder)
        writer.commit()


def study_inputs(index: store.Index, vectors: str | None) -> dict[str, str]:
    """What a derived folder is made from: hashes of the tables, the policy, the vectors."""
    inputs = {name: index.table_hash(name) for name in TABLES} | {"policy": index.policy}
    if vectors is not None:
        place = index.derived.get("vectors", {}).get(vectors)
        inputs[f"vectors/{vectors}"] = "gone" if place is None else place.rpartition("-")[2]
    return inputs


def vectors_name(study: Study, name: str | None, *, required: bool = True) -> str | None:
    """The name of the study's text vectors; None where it has none and none are required."""
    path = _path(study)
    index = store.read_index(path)
    if name is None and not required and not index.derived.get("vectors"):
        return None
    return store.derived_folder(path, index, "vectors", name).name.rpartition("-")[0]


def _predictor_vectors(study: Study, predictor: Predictor) -> str | None:
    """Name of the text vectors that the predictor reads; None where it reads none."""
    settings = predictor.get_params()
    return vectors_name(study, settings["vectors"]) if "vectors" in settings else None


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

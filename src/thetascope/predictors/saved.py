"""Fits and comparisons as derived folders of a study: made once, named by content."""

from __future__ import annotations

import shutil
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
from thetascope.study.derived import (
    Made,
    find,
    inputs_of,
    keep,
    needs_vectors,
    path_of,
    short_name,
    vectors_name,
)

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
    vectors = _predictor_vectors(Study.open(Path(path)), predictor)

    def make(study: Study, work: Path) -> dict[str, Any]:
        train, held, rest = _sets(study, predictor, vectors)
        parts = work / "parts"
        parts.mkdir(exist_ok=True)
        predictor.fit_in(train, held, parts)
        predictor.save(work)
        if rest is not None:
            interval = MeanInterval.learn(predictor.predict_proba(rest.items), rest)
            files.write_json(work / INTERVAL, asdict(interval))
            files.write_json(work / HELD, [*held.items.ids, *rest.items.ids])
        shutil.rmtree(parts)
        return {"predictor": predictor.NAME, "choices": predictor.choices}

    return keep(
        path, FITS, check_name(predictor.NAME if name is None else name), make,
        needs=needs_vectors(vectors), settings=fit_settings(predictor), wait=wait,
    )  # fmt: skip


def fit_settings(predictor: Predictor) -> dict[str, Any]:
    """All that decides a fit beside what it is made from."""
    return {"predictor": predictor.NAME, "parameters": _parameters(predictor),
            "version": FIT_VERSION}  # fmt: skip


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
    folder = find_named(study, FITS, name, "fit")
    fit = kind.load(folder)
    if "vectors" in fit.get_params():
        inputs = files.read_json(folder / "manifest.json")["inputs"]
        vectors = next((k[8:] for k in inputs if k.startswith("vectors/")), None)
        fit.vectors = vectors  # type: ignore[attr-defined]
    return fit


def fits_of(study: Study) -> dict[str, type[Predictor]]:
    """The study's fits by name, with the class of predictor of each; damaged ones left out."""
    from thetascope.predictors.registry import PREDICTORS

    path, out = path_of(study), dict[str, type[Predictor]]()
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
    path = path_of(study)
    index = store.read_index(path)
    inputs = inputs_of(index, needs_vectors(_predictor_vectors(study, predictor)))
    wanted = _without_vectors(fit_settings(predictor))
    for place in index.derived.get(FITS, {}).values():
        folder = path / place
        if not (folder / INTERVAL).is_file() or not (folder / HELD).is_file():
            continue
        store.check_intact(folder, f"renew with: thetascope fit {path} --predictor NAME")
        manifest = files.read_json(folder / "manifest.json")
        if _without_vectors(manifest["settings"]) == wanted and manifest["inputs"] == inputs:
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
    vectors = vectors_name(Study.open(Path(path)), encoder, required=False)

    def make(study: Study, work: Path) -> None:
        result = compare(
            study, predictors, split=split, seeds=seeds, split_seed=split_seed,
            encoder=vectors, reference=reference, progress=progress, folder=work,
        )  # fmt: skip
        files.write_json(work / "comparison.json", {"study": _summary(study), **result.to_json()})
        _cells_table(study, result).write_parquet(work / "cells.parquet", statistics=False)
        files.write_json(work / "run.json", {"seconds_by_predictor": result.seconds})
        for file in work.glob("*.safetensors"):
            file.unlink()

    settings = {
        "predictors": None if predictors is None else list(predictors),
        "parameters": _all_parameters(predictors),
        "split": split, "seeds": seeds, "split_seed": split_seed, "reference": reference,
        "torch": find_spec("torch") is not None,  # without it some predictors are left out
    }  # fmt: skip
    return keep(
        path, COMPARISONS, check_name(split if name is None else name), make,
        needs=needs_vectors(vectors), settings=settings, wait=wait,
    )  # fmt: skip


def load_comparison(study: Study, name: str | None = None) -> SavedComparison:
    """Reads a comparison of a study.

    Raises:
        InputError: There is none of that name.
        StaleError: The study has changed since.
    """
    folder = find_named(study, COMPARISONS, name, "compare")
    table = files.read_json(folder / "comparison.json")
    return SavedComparison(table, pl.read_parquet(folder / "cells.parquet"))


def fit_features(study: Study, fit: JEIRT) -> ItemFeatures:
    """The study's items as the fit sees them."""
    return item_features(study, fit.vectors, required=True)


def find_named(study: Study, kind: str, name: str | None, command: str) -> Path:
    """The folder of a kept result that `command` makes with `--name`; see `find`."""
    short = short_name(study, kind, name)
    return find(study, kind, short, f"thetascope {command} --name {short}")


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


def _predictor_vectors(study: Study, predictor: Predictor) -> str | None:
    """Name of the text vectors that the predictor reads; None where it reads none."""
    settings = predictor.get_params()
    return vectors_name(study, settings["vectors"]) if "vectors" in settings else None


def _without_vectors(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a fit: which vectors it read stands in its inputs."""
    return {**settings, "parameters": {**settings.get("parameters", {}), "vectors": None}}


def _parameters(predictor: Any) -> dict[str, Any]:
    return {k: v for k, v in predictor.get_params().items() if k != "device"}


def _all_parameters(predictors: Sequence[str] | None) -> Mapping[str, Any]:
    from thetascope.predictors.registry import PREDICTORS

    names = list(PREDICTORS) if predictors is None else predictors
    return {n: _parameters(make_predictor(n)) for n in names}

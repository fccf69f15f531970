"""Item banks as derived folders of a study, and adaptive tests as JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from thetascope.decisions.adaptive import AdaptiveTest, Target
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.build import make_bank
from thetascope.decisions.calibration import Report
from thetascope.decisions.prior import AbilityPrior
from thetascope.errors import InputError
from thetascope.predictors.base import Sample, item_features
from thetascope.predictors.logit_space import LogitSpace
from thetascope.predictors.saved import fit_features, load_fit
from thetascope.study import Study, files, store
from thetascope.study.schema import TABLES

BANKS = "banks"
VERSION = 2
"""Of what a bank is made of; another number makes it anew."""


def study_sample(study: Study) -> Sample:
    """The study as a sample, without vectors."""
    return Sample(item_features(study), study.matrix())


def study_bank(
    path: str | Path,
    *,
    fit: str | None = None,
    twins: Mapping[str, str] | None = None,
    calibrate: bool = True,
    wait: float = 10.0,
    progress: Report | None = None,
) -> ItemBank:
    """The item bank of a study folder: made once, then read.

    Args:
        path: The study's folder.
        fit: Name of a JE-IRT fit to take the space of; None for 2PL by subject.
        twins: Model -> canonical name.
        calibrate: Whether to measure the misfit on left-out models.
        wait: Seconds to wait for another writer.
        progress: Called with (done, total, what).

    Raises:
        InputError, StaleError, LockedError: As `load_fit` and `make_bank`.
    """
    folder = Path(path)
    study = Study.open(folder)
    if fit is not None:
        found = load_fit(study, fit)
        sample = Sample(fit_features(study, found), study.matrix())
        return make_bank(sample, found, twins=twins, progress=progress)
    sample, index = study_sample(study), store.read_index(folder)
    name, key = _key(index, sample, twins, calibrate)
    there = _committed(folder, index, name, key)
    if there is not None:
        return load_bank(there, sample)
    with store.writing(folder, wait) as writer:
        study = Study.open(folder)
        sample = study_sample(study)
        name, key = _key(writer.index, sample, twins, calibrate)
        there = writer.find_derived(BANKS, name, key)
        if there is None:
            work = writer.work_folder(BANKS, name, key)
            bank = make_bank(sample, twins=twins, calibrate=calibrate, progress=progress)
            save_bank(bank, work)
            manifest = {"kind": "bank", "inputs": key["inputs"], "calibrate": calibrate}
            there = writer.put_derived(BANKS, name, key, work, manifest)
            writer.commit()
    return load_bank(there, sample)


def _key(
    index: store.Index, sample: Sample, twins: Mapping[str, str] | None, calibrate: bool
) -> tuple[str, dict[str, Any]]:
    """Name of a bank, and all that it is made from."""
    inputs = {t: index.table_hash(t) for t in TABLES} | {"policy": index.policy}
    own = {m: c for m, c in (twins or {}).items() if m in set(sample.responses.models)}
    key = {"inputs": inputs, "twins": own, "calibrate": calibrate, "version": VERSION}
    return "calibrated" if calibrate else "plain", key


def _committed(folder: Path, index: store.Index, name: str, key: Any) -> Path | None:
    """The study's bank of that name, if it has this key; read without the lock."""
    if name not in index.derived.get(BANKS, {}):
        return None
    place = store.derived_folder(folder, index, BANKS, name)
    try:
        manifest = files.read_json(place / "manifest.json")
    except (OSError, ValueError):
        return None
    return place if manifest.get("key") == files.hash_json(key) and store.intact(place) else None


def stored_bank(study: Study) -> ItemBank:
    """The item bank that a study folder holds already, calibrated where there are two.

    Raises:
        InputError: There is none.
        StaleError: The study has changed since.
    """
    if study.path is None:
        raise InputError("the study is in memory only", fix="save it to a folder first")
    index = store.read_index(study.path)
    known = index.derived.get(BANKS, {})
    name = next((n for n in ("calibrated", "plain") if n in known), None)
    if name is None:
        raise InputError("the study has no item bank", fix=f"thetascope leaderboard {study.path}")
    folder = store.derived_folder(study.path, index, BANKS, name)
    inputs = {t: index.table_hash(t) for t in TABLES} | {"policy": index.policy}
    store.check_fresh(folder, inputs, f"thetascope leaderboard {study.path}")
    return load_bank(folder, study_sample(study))


def save_bank(bank: ItemBank, folder: Path) -> None:
    """Writes bank.safetensors and bank.json."""
    space, prior = bank.space, bank.prior
    tensors: dict[str, Any] = {
        "design": space.design, "intercept": space.intercept, "theta": space.theta,
        "prior_mean": prior.mean, "prior_covariance": prior.covariance, "misfit": bank.misfit,
    }  # fmt: skip
    if bank.every is not None:
        tensors["every"] = bank.every
    if space.spread is not None:
        tensors["spread"] = space.spread
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()},
              folder / "bank.safetensors")  # fmt: skip
    loss = [[k, r, value] for (k, r), value in prior.loss.items()]
    files.write_json(
        folder / "bank.json",
        {"models": space.models, "blocks": space.blocks, "kappa": prior.kappa, "rho": prior.rho,
         "dispersion": prior.dispersion, "loss": loss, "calibrated": bank.calibrated},
    )  # fmt: skip


def load_bank(folder: Path, sample: Sample) -> ItemBank:
    """Reads what `save_bank` wrote; `sample` is the study that it was made from."""
    held, t = files.read_json(folder / "bank.json"), load_file(folder / "bank.safetensors")
    items = sample.items
    space = LogitSpace(
        items.ids, items.benchmark, items.benchmarks, t["design"], t["intercept"],
        tuple(held["models"]), t["theta"], spread=t.get("spread"), blocks=tuple(held["blocks"]),
    )  # fmt: skip
    loss = {(k, r): value for k, r, value in held["loss"]}
    prior = AbilityPrior(
        t["prior_mean"], t["prior_covariance"], held["kappa"], held["rho"], held["dispersion"], loss
    )
    return ItemBank(space, prior, sample.responses, t["misfit"], held["calibrated"], t.get("every"))


def save_test(test: AdaptiveTest, path: str | Path) -> None:
    """Writes an adaptive test's state as one JSON file."""
    state = {
        "version": 1, "weights": test.target.weights, "against": list(test.target.against),
        "sd": test.target.sd, "seed": test.seed, "every": test.every, "answered": test.answered,
        "trials": test.trials, "random": test.random, "pending": test.pending,
    }  # fmt: skip
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    files.write_json(Path(path), state)


def load_test(bank: ItemBank, path: str | Path) -> AdaptiveTest:
    """Reads an adaptive test's state.

    Raises:
        InputError: The file is no such state, or holds items that the bank lacks.
    """
    try:
        held = json.loads(Path(path).read_text("utf-8"))
        target = Target.make(bank, held["weights"], held["against"], held["sd"])
        test = AdaptiveTest(bank, target, held["seed"], held["every"])
        test.answer(held["answered"], held["trials"])
        test.random, test.pending = list(held["random"]), list(held["pending"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"is no state of an adaptive test: {error}", file=path) from None
    unknown = [i for i in (*test.random, *test.pending) if bank.row(i) < 0]
    if unknown:
        raise InputError(f"holds an item that the study lacks: {unknown[0]!r}", file=path)
    return test

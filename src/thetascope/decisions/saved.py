"""Item banks as derived folders of a study, and adaptive tests as JSON files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from safetensors.numpy import load_file, save_file

from thetascope.decisions.adaptive import MOST, AdaptiveTest, Target
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.build import make_bank
from thetascope.decisions.calibration import Report
from thetascope.decisions.prior import AbilityPrior
from thetascope.errors import InputError
from thetascope.predictors.base import Sample, item_features
from thetascope.predictors.logit_space import LogitSpace
from thetascope.predictors.saved import fit_features, load_fit
from thetascope.study import Study, files, store
from thetascope.study.derived import find, inputs_of, keep, path_of

BANKS = "banks"
RENEW = "thetascope leaderboard"
VERSION = 2
"""Of what a bank is made of; another number makes it anew."""
STATE_VERSION = 1
"""Of an adaptive test's file."""


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
    own = {m: c for m, c in (twins or {}).items() if m in set(sample.responses.models)}
    name = "calibrated" if calibrate else "plain"
    settings = {"twins": own, "calibrate": calibrate, "version": VERSION}
    there = _committed(folder, index, name, settings)
    if there is not None:
        return load_bank(there, sample)

    def make(study: Study, work: Path) -> None:
        bank = make_bank(study_sample(study), twins=own, calibrate=calibrate, progress=progress)
        save_bank(bank, work)

    keep(folder, BANKS, name, make, settings=settings, wait=wait)
    study = Study.open(folder)
    return load_bank(find(study, BANKS, name, RENEW), study_sample(study))


def _committed(
    folder: Path, index: store.Index, name: str, settings: Mapping[str, Any]
) -> Path | None:
    """The study's bank of that name, if it is made so; read without the lock."""
    if name not in index.derived.get(BANKS, {}):
        return None
    place = store.derived_folder(folder, index, BANKS, name)
    try:
        held = files.read_json(place / "manifest.json")
    except (OSError, ValueError):
        return None
    same = held.get("settings") == settings and held.get("inputs") == inputs_of(index)
    return place if same and store.intact(place) else None


def stored_bank(study: Study) -> ItemBank:
    """The item bank that a study folder holds already, calibrated where there are two.

    Raises:
        InputError: There is none.
        StaleError: The study has changed since.
    """
    path = path_of(study)
    known = store.read_index(path).derived.get(BANKS, {})
    name = next((n for n in ("calibrated", "plain") if n in known), None)
    if name is None:
        raise InputError("the study has no item bank", fix=f"{RENEW} {path}")
    folder = find(study, BANKS, name, RENEW)
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
    """Writes an adaptive test's state as one JSON file.

    Raises:
        InputError: The path is a folder.
    """
    place = Path(path)
    if place.is_dir():
        raise InputError("is a folder; expected a file for the state", file=place)
    state = {
        "version": STATE_VERSION, "weights": test.target.weights,
        "against": list(test.target.against), "sd": test.target.sd, "seed": test.seed,
        "every": test.every, "every_by_bank": test.every_by_bank, "model": test.model,
        "answered": test.answered, "trials": test.trials, "random": test.random,
        "pending": test.pending,
    }  # fmt: skip
    place.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(place, state)


def load_test(bank: ItemBank, path: str | Path) -> AdaptiveTest:
    """Reads an adaptive test's state.

    Raises:
        InputError: The file is no such state, a field of it cannot be, or it holds items that
            the bank lacks.
    """
    try:
        held = files.read_json(Path(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"is no state of an adaptive test: {error}", file=path) from None
    if not isinstance(held, dict):
        raise InputError("is no state of an adaptive test: expected an object", file=path)
    return _State(bank, path, cast("dict[str, Any]", held)).test()


class _State:
    """A state's fields as they stand in its file, and what each must be."""

    def __init__(self, bank: ItemBank, path: str | Path, held: dict[str, Any]) -> None:
        self.bank, self.path, self.held = bank, path, held

    def test(self) -> AdaptiveTest:
        version = self._get("version")
        if type(version) is not int or version != STATE_VERSION:
            self._wrong("version", f"expected {STATE_VERSION}, found {version!r}")
        target = self._target()
        seed, every = self._whole("seed"), self._whole("every", optional=True)
        by_bank = self.held.get("every_by_bank", False)
        if not isinstance(by_bank, bool):
            self._wrong("every_by_bank", f"expected true or false, found {by_bank!r}")
        model = self.held.get("model")
        if not (model is None or isinstance(model, str)):
            self._wrong("model", f"expected a name or null, found {model!r}")
        answered, trials = self._numbers("answered"), self._numbers("trials")
        for item, score in answered.items():
            if not 0 <= score <= 1:
                self._wrong("answered", f"expected a score from 0 to 1, found {score!r}"
                            f" for {item!r}")  # fmt: skip
        for item, count in trials.items():
            if item not in answered:
                self._wrong("trials", f"{item!r} has no score")
            if not 0 < count <= MOST:
                self._wrong("trials", f"expected a number above 0 and at most {MOST:g},"
                            f" found {count!r} for {item!r}")  # fmt: skip
        pending, random = self._ids("pending"), self._ids("random")
        self._known("answered", list(answered))
        self._known("pending", pending)
        self._known("random", random)
        codes = {self.bank.benchmark_code(b) for b in target.weights}
        for item in pending:
            if item in answered:
                self._wrong("pending", f"{item!r} is answered already")
            if int(self.bank.space.benchmark[self.bank.row(item)]) not in codes:
                self._wrong("pending", f"{item!r} is not of the target's benchmarks")
        given_out = {*answered, *pending}
        for item in random:
            if item not in given_out:
                self._wrong("random", f"{item!r} is neither answered nor pending")
        test = AdaptiveTest(self.bank, target, seed, every, model=model)
        test.every_by_bank = test.every_by_bank or by_bank
        test.answer(answered, trials)
        test.random, test.pending = random, pending
        return test

    def _target(self) -> Target:
        weights, against = self._numbers("weights"), self._strings("against")
        sd = self._get("sd")
        if sd is not None:
            sd = self._number("sd", sd)
        if not weights:
            self._wrong("weights", "expected a benchmark or more, found none")
        field = "weights"
        try:
            Target.make(self.bank, weights)
            field = "against"
            Target.make(self.bank, weights, against)
            field = "sd"
            return Target.make(self.bank, weights, against, sd)
        except InputError as error:
            self._wrong(field, error.problem)

    def _wrong(self, field: str, problem: str) -> NoReturn:
        raise InputError(problem, file=self.path, field=field) from None

    def _get(self, field: str) -> Any:
        if field not in self.held:
            self._wrong(field, "is missing: this is no state of an adaptive test")
        return self.held[field]

    def _number(self, field: str, value: Any, of: str = "") -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(field, f"expected a number, found {value!r}{of}")
        if not abs(value) < np.inf:  # NaN too
            self._wrong(field, f"expected a finite number, found {value!r}{of}")
        try:
            return float(value)
        except OverflowError:
            self._wrong(field, f"expected a finite number, found one too large{of}")

    def _numbers(self, field: str) -> dict[str, float]:
        value = self._get(field)
        if not isinstance(value, dict):
            self._wrong(field, f"expected an object of numbers, found {value!r}")
        pairs = cast("dict[str, Any]", value).items()
        return {k: self._number(field, v, f" for {k!r}") for k, v in pairs}

    def _whole(self, field: str, *, optional: bool = False) -> Any:
        value = self._get(field)
        if not (optional and value is None) and (type(value) is not int or value < 0):
            self._wrong(field, f"expected a whole number from 0, found {value!r}")
        return value

    def _strings(self, field: str) -> list[str]:
        value = self._get(field)
        if not isinstance(value, list):
            self._wrong(field, f"expected a list of strings, found {value!r}")
        found = cast("list[Any]", value)
        for v in found:
            if not isinstance(v, str):
                self._wrong(field, f"expected a list of strings, found {v!r} in it")
        return found

    def _ids(self, field: str) -> list[str]:
        found = self._strings(field)
        seen: set[str] = set()
        for item in found:
            if item in seen:
                self._wrong(field, f"holds {item!r} twice")
            seen.add(item)
        return found

    def _known(self, field: str, ids: Sequence[str]) -> None:
        for item in ids:
            if self.bank.row(item) < 0:
                self._wrong(field, f"holds an item that the study lacks: {item!r}")

"""Tiny sets: k fixed items of a benchmark, and the estimator that goes with them.

Designs
    variance  greedy: the criterion of `adaptive` with the average model's information, from
              the prior
    clusters  k-means on the items' parameters; the item nearest to each centre, weighted by
              its cluster's share (Polo et al. 2024, tinyBenchmarks)
    strata    items sorted by ability and mean score, one at random from each of k runs of
              equal length
Estimate
    lambda x weighted mean of the answers + (1 - lambda) x model-based S

Design and lambda are those with the least mean absolute error on known models that were left
out of the items' calibration. The interval's misfit is measured on errors that had no part in a
choice: each fold's models are read with the design and lambda that the other folds' models choose
(the chosen one's own errors are too small, as it was chosen for them). Of n such errors the
ceil(0.9 (n + 1))-th decides (split-conformal prediction, Vovk et al. 2005).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from thetascope.decisions.adaptive import AdaptiveTest, Target
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.calibration import Fold, Miss, answers_of, misfit, part_of_bank
from thetascope.decisions.onboarding import Given, match_answers, settle
from thetascope.decisions.posterior import Answers
from thetascope.decisions.scores import LEVEL, ScoreEstimate, score_parts
from thetascope.errors import InputError
from thetascope.predictors.base import Sample
from thetascope.predictors.logit_space import LogitSpace
from thetascope.study import files

Array = NDArray[np.float64]

DESIGNS = ("variance", "clusters", "strata")
LAMBDAS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
LM_EVAL = "lm-eval-samples.json"
FILES = ("tiny.json", LM_EVAL, "inspect-sample-ids.txt", "item-ids.txt")


@dataclass(frozen=True)
class TinySet:
    """k items that stand for a benchmark.

    Attributes:
        benchmark: Its name.
        items: k item ids.
        weights: k weights of the answers' mean; they sum to 1.
        share: lambda, the weighted mean's share in the estimate.
        design: How the items were chosen.
        misfit: Standard deviation of the estimate's error beyond the posterior's.
        validation: design -> lambda -> mean absolute error on left-out models; empty where
            nothing could be left out.
        n_validation: Left-out models behind it.
    """

    benchmark: str
    items: tuple[str, ...]
    weights: tuple[float, ...]
    share: float
    design: str
    misfit: float
    validation: dict[str, dict[str, float]]
    n_validation: int

    def save(self, folder: str | Path) -> list[Path]:
        """Writes tiny.json and the lists that other tools take.

        `lm-eval-samples.json` is for `lm_eval --samples` ({task: [indices]}; the task carries
        the benchmark's name) and is left out where a source id is no whole number;
        `inspect-sample-ids.txt` is one line for `inspect eval --sample-id`. Lists of an earlier
        set go before the new tiny.json comes, so that none ever stands beside another set's.

        Raises:
            InputError: There is a file where the folder should be.
        """
        place = Path(folder)
        if place.exists() and not place.is_dir():
            raise InputError("is no folder", file=place)
        place.mkdir(parents=True, exist_ok=True)
        source = [item.removeprefix(f"{self.benchmark}:") for item in self.items]
        texts = {
            FILES[0]: json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False),
            FILES[2]: ",".join(source),
            FILES[3]: "\n".join(self.items),
        }
        if all(s.isascii() and s.isdecimal() for s in source):
            texts[FILES[1]] = json.dumps({self.benchmark: sorted(int(s) for s in source)})
        for name in FILES[1:]:
            (place / name).unlink(missing_ok=True)
        for name, text in texts.items():
            data = (text + "\n").encode("utf-8", "surrogatepass")
            files.write_aside(place / name, partial(_write, data))
        return [place / name for name in FILES if name in texts]

    @staticmethod
    def load(path: str | Path) -> TinySet:
        """Reads a tiny.json, or the one in a folder.

        Raises:
            InputError: The file is missing or is no tiny set; a field of it cannot be.
        """
        file = Path(path)
        file = file / FILES[0] if file.is_dir() else file
        try:
            held = files.read_json(file)
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"is no tiny set: {error}", file=file) from None
        fault = _fault(held)
        if fault is not None:
            raise InputError(f"is no tiny set: {fault[1]}", file=file, field=fault[0])
        return TinySet(**held | {k: tuple(held[k]) for k in ("items", "weights")})

    def estimate(
        self, bank: ItemBank, responses: Any, *, model: str | None = None, level: float = LEVEL
    ) -> tuple[ScoreEstimate, Given]:
        """A new model's score on the benchmark from its answers to the set.

        Answers to other items of the bank inform the model's vector and are part of S. With
        some of the set unanswered the weighted mean is over the rest, reweighted.

        Raises:
            InputError: As `onboard`; or no item of the set was answered.
        """
        given = match_answers(bank, responses, model=model)
        rows = np.array([bank.row(item) for item in self.items], np.int64)
        if (rows < 0).any():
            raise InputError(f"the study lacks {int((rows < 0).sum())} items of the tiny set")
        b = bank.benchmark_code(self.benchmark)
        if (bank.space.benchmark[rows] != b).any():
            raise InputError(f"the tiny set holds items that are not of {self.benchmark!r}")
        weights = np.array(self.weights)
        if not np.isin(given.answers.rows, rows).any():
            raise InputError("no item of the tiny set was answered")
        members = np.flatnonzero(bank.space.benchmark == b)
        value, sd, rest = estimate_from(bank, given.answers, rows, weights, members, self.share)
        here = given.answers.take(np.isin(given.answers.rows, members))
        sd = float(np.hypot(sd, self.misfit * rest))
        reach = float(norm.ppf((1 + level) / 2)) * sd
        certain = float(here.score.sum()) / len(members)
        estimate = ScoreEstimate(
            self.benchmark, value, max(value - reach, certain), min(value + reach, certain + rest),
            sd, len(here), len(members), float(here.score.mean()),
        )  # fmt: skip
        return estimate, given


def _write(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _fault(held: Any) -> tuple[str | None, str] | None:
    """(field, what is wrong) of what a tiny.json holds; None for a tiny set."""
    if not isinstance(held, dict):
        return None, "expected an object"
    t = cast("dict[str, Any]", held)
    names = {f.name for f in fields(TinySet)}
    if names != set(t):
        name = min(names ^ set(t))
        return name, "is missing" if name in names else "is not known"
    for name in ("benchmark", "design"):
        if not isinstance(t[name], str):
            return name, f"expected a name, found {t[name]!r}"
    items, weights = _listed(t["items"]), _listed(t["weights"])
    if not items or not all(isinstance(i, str) for i in items) or len(set(items)) < len(items):
        return "items", "expected a list of different item ids"
    if len(weights) != len(items):
        return "weights", f"expected {len(items)} numbers as there are items, found {len(weights)}"
    if not all(_is_number(w) and w >= 0 for w in weights) or abs(sum(weights) - 1) > 1e-6:
        return "weights", "expected finite numbers from 0 that sum to 1"
    if not (_is_number(t["share"]) and t["share"] <= 1 and t["share"] >= 0):
        return "share", f"expected a number from 0 to 1, found {t['share']!r}"
    if not (_is_number(t["misfit"]) and t["misfit"] >= 0):
        return "misfit", f"expected a finite number from 0, found {t['misfit']!r}"
    if type(t["n_validation"]) is not int or t["n_validation"] < 0:
        return "n_validation", f"expected a whole number from 0, found {t['n_validation']!r}"
    rows = [*t["validation"].values()] if isinstance(t["validation"], dict) else [None]
    if not all(isinstance(r, dict) and all(map(_is_number, r.values())) for r in rows):
        return "validation", "expected objects of finite numbers"
    return None


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_number(value: Any) -> bool:
    """Whether a JSON value is a finite number that a double holds."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and abs(value) <= sys.float_info.max


def tiny_set(
    bank: ItemBank,
    k: int,
    benchmark: str,
    *,
    folds: Sequence[Fold] = (),
    sample: Sample | None = None,
    designs: Sequence[str] = DESIGNS,
    seed: int = 0,
) -> TinySet:
    """Chooses k items of a benchmark, and how to read their answers.

    Args:
        bank: The item bank.
        k: Number of items, from 1 to the benchmark's.
        benchmark: Its name.
        folds: Known models left out (`calibration.left_out_folds`), for the choice of design
            and lambda and for the misfit; without any the design is the first named and the
            estimate model-based.
        sample: What the folds were made from.
        designs: Designs to choose from.
        seed: Of k-means and of the strata.

    Raises:
        InputError: The benchmark or a design is unknown, or k is out of range.
    """
    b = bank.benchmark_code(benchmark)
    n_items = int((bank.space.benchmark == b).sum())
    if not 1 <= k <= n_items:
        raise InputError(f"expected 1 to {n_items} items, found {k}", field="k")
    for name in designs:
        if name not in DESIGNS:
            raise InputError(f"no design {name!r}; there are {', '.join(DESIGNS)}")
    tried = {
        (name, lam): found
        for name in designs
        for lam, found in _validate(folds, sample, k, b, name, seed).items()
    }
    table: dict[str, dict[str, float]] = {}
    design, share, width, n_models = designs[0], 0.0, float(bank.misfit[b]), 0
    if any(fold for found in tried.values() for fold in found):
        for (name, lam), found in tried.items():
            table.setdefault(name, {})[f"{lam:g}"] = _mean_error(found)
        design, share = _best(tried)
        honest = unchosen(tried)
        n_models = len(honest)
        width = misfit(honest, min(1.0, math.ceil(LEVEL * (n_models + 1)) / n_models))
    members = np.flatnonzero(bank.space.benchmark == b)
    rows, weights = choose_items(bank, members, k, design, seed)
    ids = tuple(bank.space.ids[j] for j in rows.tolist())
    return TinySet(benchmark, ids, tuple(weights.tolist()), share, design, width, table, n_models)


def choose_items(
    bank: ItemBank, members: NDArray[np.int64], k: int, design: str, seed: int = 0
) -> tuple[NDArray[np.int64], Array]:
    """(k,) rows of the chosen items among `members`, and their weights."""
    if design == "variance":
        part = part_of_bank(bank, members)
        name = bank.benchmarks[int(bank.space.benchmark[members[0]])]
        ids = AdaptiveTest(part, Target.make(part, name), every=0).next(k)
        return np.array([bank.row(i) for i in ids], np.int64), np.full(k, 1 / k)
    if design == "clusters":
        return _clusters(bank.space, members, k, seed)
    return _strata(bank.space, members, k, seed)


def _clusters(
    space: LogitSpace, members: NDArray[np.int64], k: int, seed: int
) -> tuple[NDArray[np.int64], Array]:
    from sklearn.cluster import KMeans

    x = np.column_stack([space.design[members], space.intercept[members]]).astype(np.float64)
    scale = np.sqrt(np.r_[np.square(space.theta).mean(axis=0), 1.0])  # to logits
    x = x * np.maximum(scale, 1e-6)
    n_clusters = min(k, len(np.unique(x.round(9), axis=0)))
    found = KMeans(n_clusters, n_init="auto", random_state=seed, max_iter=50).fit(x)
    labels = np.asarray(found.labels_)
    distance = np.square(x - found.cluster_centers_[labels]).sum(axis=1)
    order = np.lexsort((distance, labels))
    first = np.r_[True, np.diff(labels[order]) != 0]
    share = np.bincount(labels, minlength=n_clusters) / len(x)
    near, missing = order[first], k - int(first.sum())
    weights = share[labels[near]]
    if missing:  # equal items make fewer clusters than k
        others = np.setdiff1d(np.arange(len(x)), near)[:missing]
        near, weights = np.r_[near, others], np.r_[weights, np.zeros(missing)]
    return members[near], weights / weights.sum()


def _strata(
    space: LogitSpace, members: NDArray[np.int64], k: int, seed: int
) -> tuple[NDArray[np.int64], Array]:
    part = np.argmax(np.abs(space.design[members]), axis=1)
    mean = space.design[members] @ space.theta.mean(axis=0) + space.intercept[members]
    order = np.lexsort((mean, part))
    edges = np.linspace(0, len(order), k + 1).astype(np.int64)
    sizes = np.diff(edges)
    place = edges[:-1] + np.random.default_rng(seed).integers(0, sizes)
    return members[order[place]], sizes / len(order)


def estimate_from(
    bank: ItemBank,
    answers: Answers,
    rows: NDArray[np.int64],
    weights: Array,
    members: NDArray[np.int64],
    share: float,
) -> tuple[float, float, float]:
    """Estimate, the model-based standard deviation and the share of items not answered."""
    mean, model, sd, rest = _both(bank, answers, rows, weights, members)
    return share * mean + (1 - share) * model, sd, rest


def _both(
    bank: ItemBank,
    answers: Answers,
    rows: NDArray[np.int64],
    weights: Array,
    members: NDArray[np.int64],
) -> tuple[float, float, float, float]:
    """Weighted mean, model-based S, its standard deviation, share of items not answered."""
    posterior, phi = settle(bank, answers)
    parts = score_parts(bank.space, posterior.mean, answers, members, phi)
    place = {int(r): q for q, r in enumerate(answers.rows)}
    known = [(w, answers.score[place[int(r)]]) for r, w in zip(rows, weights, strict=True)
             if int(r) in place]  # fmt: skip
    total = sum(w for w, _ in known)
    mean = sum(w * s for w, s in known) / total if total > 0 else parts.value
    sd = np.sqrt(parts.gradient @ posterior.covariance @ parts.gradient + parts.noise)
    return float(mean), parts.value, float(sd), parts.rest


Tried = dict[tuple[str, float], list[list[Miss]]]
"""(design, lambda) -> the errors of each fold's models."""


def _validate(
    folds: Sequence[Fold], sample: Sample | None, k: int, b: int, design: str, seed: int
) -> dict[float, list[list[Miss]]]:
    out: dict[float, list[list[Miss]]] = {lam: [] for lam in LAMBDAS}
    for fold in folds:
        assert sample is not None
        for errors in out.values():
            errors.append([])
        bank, members = fold.bank, np.flatnonzero(fold.bank.space.benchmark == b)
        if not bank.responses.observed[members].any():
            continue
        rows, weights = choose_items(bank, members, k, design, seed)
        for i in fold.models.tolist():
            answers = answers_of(sample, i)
            own = answers.take(np.isin(answers.rows, members))
            if len(own) < max(2 * k, 0.9 * len(members)):
                continue
            given = own.take(np.isin(own.rows, rows))
            truth = float(own.score.mean())
            mean, model, sd, rest = _both(bank, given, rows, weights, own.rows)
            for lam in LAMBDAS:
                error = lam * mean + (1 - lam) * model - truth
                out[lam][-1].append(Miss(b, i, len(given), error, sd, rest))
    return out


def unchosen(tried: Tried) -> list[Miss]:
    """Each fold's errors under the design and lambda that the other folds choose.

    Where one fold alone has models, its own choice has to do.
    """
    n_folds = len(next(iter(tried.values())))
    full = [f for f in range(n_folds) if any(found[f] for found in tried.values())]
    if len(full) < 2:
        return [m for fold in tried[_best(tried)] for m in fold]
    out: list[Miss] = []
    for f in full:
        others = {way: found[:f] + found[f + 1 :] for way, found in tried.items()}
        out += tried[_best(others)][f]
    return out


def _best(tried: Tried) -> tuple[str, float]:
    return min(tried, key=lambda way: _mean_error(tried[way]))


def _mean_error(found: list[list[Miss]]) -> float:
    return float(np.mean([abs(m.error) for fold in found for m in fold]))

"""Concept profiles of left-out models from 50, 200 and 1,000 answers, against two rivals.

    python -m benchmarks.concept_profiles [--work DIR] [--draws 3] [--space] [SET or STUDY ...]

SET is a name in the folder of real results (imported, encoded and read by the offline encoder
into DIR), STUDY the folder of a study with concepts. Folds of models (twins together): item bank
and prior are learnt without the fold. Items are halved (near-duplicates whole). A left-out model
answers k random items of one half; what is predicted is its effect on every concept with
n_eff >= 30 and 10 active items on the other half (score less its own mean within benchmarks).

    profile   predicted by the bank from the k answers (`gaps.profiles`)
    direct    effects on the k answers, shrunk (RULES M7)
    average   the other models' mean scores on the other half, in place of the model's own
    none      0 everywhere
    space     with --space: the same by a JE-IRT fit without the fold, from texts alone

Error = mean absolute error over concepts; Spearman over concepts within a model; means over
models and draws; intervals by bootstrap over models (2,000). Bar: profile better than direct and
average in both, at every k: the paired interval excludes 0. `inside`: concepts whose observed
effect is within the profile's 95 % interval (unseen answers included).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix
from scipy.stats import rankdata

from benchmarks.bars import Bars
from benchmarks.compare_sets import prepared, thetascope
from benchmarks.decide_sets import SHARED, crosswalk
from thetascope.concepts.store import load_concepts
from thetascope.decisions.build import learn_items, twin_groups
from thetascope.decisions.calibration import model_folds, take_models
from thetascope.decisions.posterior import Answers, Gaussian, chances, fit_ability
from thetascope.decisions.prior import learn_prior
from thetascope.evaluation import partition
from thetascope.evaluation.splits import Cells
from thetascope.gaps import GapData, gap_data
from thetascope.gaps.inference import Z95, shrink
from thetascope.gaps.moments import by_concept, n_eff, powered
from thetascope.gaps.profiles import profile_of
from thetascope.gaps.sparse import column_sums, row_sums
from thetascope.predictors import JEIRT, Sample, study_sample
from thetascope.predictors.logit_space import LogitSpace
from thetascope.predictors.setup import study_groups
from thetascope.study import Study, store

SETS = ("zeroeval", "mmlu_pro", "llmrouter")
SIZES = (50, 200, 1000)
FOLDS, FEW = 5, 12
LEAST_EFF, LEAST_ACTIVE = 30, 10
Array = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """A study: activations, responses of the same items in the same order, halves, twins."""

    data: GapData
    sample: Sample
    groups: Codes
    half: Codes
    twins: Codes


def load(path: Path, name: str) -> Case:
    """Reads a study with concepts."""
    study = Study.open(path)
    known = list(store.read_index(path).derived["concepts"])
    whole = study_sample(study)
    labels = study_groups(study, whole.items).labels
    chosen = "offline-minilm" if "offline-minilm" in known else known[0]
    data = gap_data(study, load_concepts(study, chosen), groups=labels)
    print(f"-- {name}: concepts {chosen}, {data.n_items:,} items, {len(data.models)} models")
    groups = np.unique(data.group, return_inverse=True)[1]
    twins = twin_groups(data.models, crosswalk(name) if SHARED.is_dir() else {})
    half = partition(groups, data.benchmark, n_folds=2)
    return Case(data, whole.take(Cells(data.rows)), groups, half, twins)


class Effects:
    """Effects of concepts on items, without a length covariate, as sparse products."""

    def __init__(self, data: GapData, rows: Codes, concepts: Codes) -> None:
        self.a = csc_matrix(data.activations[rows][:, concepts].T)  # (C, n)
        self.benchmark, self.place = data.benchmark[rows], np.full(data.n_items, -1)
        self.place[rows] = np.arange(len(rows))

    def of(self, rows: Codes, scores: Array) -> tuple[Array, Array]:
        """(C,) effect sum (a - abar) s / A and its variance under permutation, NaN without mass.

        Args:
            rows: Items of data, among those given.
            scores: Their scores.
        """
        columns = self.place[rows]
        a = csr_matrix(self.a[:, columns])
        mass = row_sums(a)
        t, v = np.zeros((2, len(mass)))
        for b in np.unique(self.benchmark[columns]):
            here = np.flatnonzero(self.benchmark[columns] == b)
            part, s, n = csr_matrix(a[:, here]), scores[here], len(here)
            t += part @ (s - s.mean())
            if n > 1:
                left = row_sums(powered(part, 2)) - np.square(row_sums(part)) / n
                v += np.maximum(left, 0) * s.var(ddof=1)
        safe = np.where(mass > 0, mass, np.nan)
        return t / safe, v / safe**2


def supported(data: GapData, rows: Codes) -> Codes:
    """Concepts with enough effective and active items among these."""
    a = by_concept(data.activations[rows], slice(None))
    count = column_sums(data.active[rows])
    mass, square = row_sums(a), row_sums(powered(a, 2))
    return np.flatnonzero((n_eff(mass, square) >= LEAST_EFF) & (count >= LEAST_ACTIVE))


def others_mean(data: GapData, known: NDArray[np.bool_]) -> Array:
    """(N,) mean over the known models of their scores less their means in the benchmark."""
    out = np.zeros(data.n_items)
    for part in data.parts:
        s = data.scores[part][:, known]
        seen = np.isfinite(s)
        level = np.nan_to_num(s).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        total = np.where(seen, s - level, 0).sum(axis=1)
        out[part] = total / np.maximum(seen.sum(axis=1), 1)
    return out


def spearman(x: Array, y: Array) -> float:
    """Rank correlation; 0 where x is the same everywhere."""
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1]) if np.ptp(x) > 0 else 0.0


def text_space(case: Case, train: Sample) -> LogitSpace:
    """A JE-IRT space learnt without the fold's models."""
    folds = partition(case.groups, case.data.benchmark)
    learnt, held = (train.take(Cells(np.flatnonzero(k))) for k in (folds != 1, folds == 1))
    return JEIRT(residual=False).fit(learnt, held).logit_space(case.sample.items)


def run(case: Case, draws: int, space: bool) -> tuple[list[str], Array]:
    """Contenders, and (models, sizes, contenders, 3) error, Spearman and share inside."""
    data = case.data
    folds = model_folds(case.twins, case.twins.max() + 1 if len(case.twins) < FEW else FOLDS)
    names = ["profile", "direct", "average", "none", *(["space"] if space else [])]
    out = np.full((len(data.models), len(SIZES), len(names), 3), np.nan)
    for f in range(int(folds.max()) + 1):
        left = folds == f
        train = take_models(case.sample, ~left)
        spaces = {"profile": learn_items(train)}
        if space:
            spaces["space"] = text_space(case, train)
        priors = {
            n: learn_prior(s, train.responses, twins=case.twins[~left]).gaussian
            for n, s in spaces.items()
        }
        level = others_mean(data, ~left)
        for i in np.flatnonzero(left).tolist():
            out[i] = _model(case, i, level, spaces, priors, names, draws)
    return names, out


def _model(
    case: Case, i: int, level: Array, spaces: dict[str, LogitSpace],
    priors: dict[str, Gaussian], names: list[str], draws: int,
) -> Array:  # fmt: skip
    data = case.data
    rows = np.flatnonzero(np.isfinite(data.scores[:, i]))
    one, two = rows[case.half[rows] == 0], rows[case.half[rows] == 1]
    concepts = supported(data, two)
    on_one, on_two = (Effects(data, rows, concepts) for rows in (one, two))
    truth = on_two.of(two, data.scores[two, i])[0]
    fixed = {"average": on_two.of(two, level[two])[0], "none": 0 * truth}
    out = np.zeros((draws, len(SIZES), len(names), 3))
    for draw in range(draws):
        order = np.random.default_rng((draw, i)).permutation(one)
        for k, size in enumerate(SIZES):
            asked = order[:size]
            answers = Answers(asked, data.scores[asked, i], np.ones(len(asked)))
            found = {**fixed, "direct": _direct(*on_one.of(asked, answers.score))}
            inside = float("nan")
            for name, space in spaces.items():
                posterior = fit_ability(
                    space.design[asked], space.intercept[asked], answers.score, answers.trials,
                    priors[name],
                )  # fmt: skip
                logits = space.design[two] @ posterior.mean + space.intercept[two]
                floor = None if space.chance is None else space.chance[two]
                found[name] = on_two.of(two, chances(logits, floor)[0])[0]
                if name == "profile" and draw == 0:
                    told = profile_of(space, posterior, answers, data, two, two, concepts)
                    assert np.abs(told.value - found[name]).max() < 1e-9
                    inside = float((np.abs(truth - told.value) <= Z95 * told.sd).mean())
            for n, name in enumerate(names):
                out[draw, k, n] = (
                    np.abs(found[name] - truth).mean(), spearman(found[name], truth),
                    inside if name == "profile" else np.nan,
                )  # fmt: skip
    out[:, :, :, 2] = out[:1, :, :, 2]  # measured in the first draw
    return out.mean(axis=0)


def _direct(y: Array, v: Array) -> Array:
    """Shrunk effects; 0 where the answers say nothing."""
    known = np.isfinite(y) & (v > 0)
    out = np.zeros(len(y))
    out[known] = shrink(y[known], v[known]).mean
    return out


def _interval(x: Array) -> str:
    draws = np.random.default_rng(0).integers(0, len(x), (2000, len(x)))
    low, high = np.quantile(x[draws].mean(axis=1), [0.025, 0.975])
    return f"{x.mean():+.4f} [{low:+.4f}, {high:+.4f}]"


def main() -> None:
    """Runs the sets or studies named, or all three sets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "profiles")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--space", action="store_true")
    parser.add_argument("sets", nargs="*")
    given = parser.parse_args()
    bars = Bars()
    for name in given.sets or SETS:
        if store.is_study(Path(name)):
            path = Path(name)
        elif SHARED.is_dir():
            path = prepared(name, given.work)
            if not store.read_index(path).derived.get("concepts"):
                thetascope("concepts", "extract", str(path), "--model", "offline-minilm",
                           "--dictionary", "offline-minilm")  # fmt: skip
        else:
            print("skipped: the folder of real results beside the repository is absent")
            continue
        names, found = run(load(path, path.name), given.draws, given.space)
        for k, size in enumerate(SIZES):
            print(f"   {size:,} answers: mean absolute error (points), Spearman over concepts")
            for n, contender in enumerate(names):
                error, rho = found[:, k, n, 0], found[:, k, n, 1]
                print(f"      {contender:8s} {100 * error.mean():.2f}  {rho.mean():.3f}")
            print(f"      inside the 95 % interval: {100 * found[:, k, 0, 2].mean():.1f} %")
            for rival in ("direct", "average"):
                n = names.index(rival)
                gain = found[:, k, n, 0] - found[:, k, 0, 0]
                more = found[:, k, 0, 1] - found[:, k, n, 1]
                print(f"      {rival} less profile, error (points) {_interval(100 * gain)};"
                      f" Spearman more {_interval(more)}")  # fmt: skip
                for what, x in (("error", gain), ("Spearman", more)):
                    draws = np.random.default_rng(0).integers(0, len(x), (2000, len(x)))
                    low = float(np.quantile(x[draws].mean(axis=1), 0.025))
                    bars.at_least(f"{name}, {size}: {what} against {rival}, low end", low, 0.0)
    bars.finish()


if __name__ == "__main__":
    main()

"""Leave one part out: fits that never saw a benchmark (or a subject) beside the whole fit.

Seed s tests fold s of the one partition, validates on fold s + 1 and trains on the rest, as
everywhere. For every part b one fit learns without b (and without near-duplicates of its items
elsewhere), and both fits predict b's items of the test fold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from scipy.special import expit, logit

from thetascope.errors import InputError
from thetascope.evaluation import Groups, partition
from thetascope.evaluation.splits import N_FOLDS, Cells
from thetascope.predictors.base import ItemFeatures, Sample
from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.means import clipped_means
from thetascope.predictors.runs import Progress
from thetascope.space.alignment import alignment, covering
from thetascope.space.fitted import unit
from thetascope.study.files import write_aside

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
REPAIR = (10, 25, 50, 100, 200)
"""Answered items of the left-out part after which the loss is looked at again."""
DRAWS = 3


class Parts(NamedTuple):
    """What is left out in turn: benchmarks, or subjects where there is one benchmark.

    Attributes:
        kind: 'benchmark' or 'subject'.
        names: P names.
        code: (N,) part of each item.
    """

    kind: str
    names: tuple[str, ...]
    code: Codes


@dataclass(frozen=True)
class Tested:
    """Cells of one part in one test fold.

    Attributes:
        item: (n,) row of each tested item.
        without, whole: (n, M) chances by the fit that never saw the part and by the whole fit.
        base_without, base_whole: (M,) each model's mean in their training data.
        mean, best: (n,) alignment of each item in the space that never saw the part.
        covered: (P,) share of nearest training items in each other part.
        repaired: (len(REPAIR), n, M) chances after that many answered items of the part, mean
            over the draws' logits; NaN where the part has no more items than that.
    """

    item: Codes
    without: Array
    whole: Array
    base_without: Array
    base_whole: Array
    mean: Array
    best: Array
    covered: Array
    repaired: Array


def parts_of(items: ItemFeatures) -> Parts:
    """Benchmarks where there are two or more, else subjects.

    Raises:
        InputError: There are fewer than three of either.
    """
    used = np.unique(items.benchmark)
    kind, names, code = "benchmark", items.benchmarks, items.benchmark
    if len(used) < 2:
        kind, names, code = "subject", items.subjects, items.subject
        used = np.unique(code)
        names = tuple(n.partition("/")[2] or n for n in names)
    if len(used) < 3:
        raise InputError(
            f"leaving one out needs three benchmarks or subjects, the study has {len(used)}"
        )
    return Parts(kind, names, code)


def fold_of_part(
    sample: Sample, groups: Groups, parts: Parts, predictor: JEIRT, seed: int,
    folder: Path | None = None, progress: Progress | None = None,
) -> dict[int, Tested]:  # fmt: skip
    """Every part's tested cells in fold `seed`.

    Args:
        sample: The whole study.
        groups: Near-duplicate groups.
        parts: What is left out in turn.
        predictor: Settings of the fits.
        seed: Of the fold and of the fits, 0 to 9.
        folder: Where finished parts are kept for a stopped run, or None.
        progress: Called with (done, total, what).
    """
    folds = partition(groups.labels, sample.items.benchmark)
    test, held = folds == seed, folds == (seed + 1) % N_FOLDS
    todo = [p for p in range(len(parts.names)) if (test & (parts.code == p)).any()]
    one = replace(predictor, seed=predictor.seed + seed)
    whole: _Fit | None = None
    out: dict[int, Tested] = {}
    for turn, part in enumerate(todo):
        file = None if folder is None else folder / f"seed-{seed}-part-{part}.safetensors"
        if file is not None and file.is_file():
            out[part] = Tested(**load_file(file))
            continue
        if whole is None:
            _tell(progress, turn, len(todo), f"seed {seed}, all {parts.kind}s")
            whole = _Fit(sample, ~(test | held), held, one)
        _tell(progress, turn, len(todo), f"seed {seed}, without {parts.names[part]}")
        mine = parts.code == part
        near = np.isin(groups.labels, np.unique(groups.labels[mine]))
        apart = _Fit(sample, ~(test | held | near), held & ~near, one)
        out[part] = _tested(sample, parts, part, whole, apart, test, seed)
        if file is not None:
            write_aside(file, lambda aside, t=out[part]: save_file(_tensors(t), aside))
    return out


class _Fit:
    """A fit, what it learnt from, and each model's mean there."""

    def __init__(
        self,
        sample: Sample,
        train: NDArray[np.bool_],
        held: NDArray[np.bool_],
        predictor: JEIRT,
    ) -> None:
        self.rows = np.flatnonzero(train)
        learnt = sample.take(Cells(self.rows))
        choose = sample.take(Cells(np.flatnonzero(held)))
        self.fit = predictor.fit(learnt, choose if choose.responses.observed.any() else None)
        self.base = clipped_means(learnt)


def _tested(
    sample: Sample, parts: Parts, part: int, whole: _Fit, apart: _Fit,
    test: NDArray[np.bool_], seed: int,
) -> Tested:  # fmt: skip
    rows = np.flatnonzero(test & (parts.code == part))
    items = sample.items.take(rows)
    known = apart.fit.item_space(sample.items.take(apart.rows)).direction.astype(np.float64)
    new = apart.fit.item_space(items).direction.astype(np.float64)
    found = alignment(new, known, seed)
    without = apart.fit.predict_proba(items)
    pool = np.flatnonzero(~test & (parts.code == part))
    answered = sample.take(Cells(pool))
    before = apart.fit.predict_proba(answered.items)
    score, observed = answered.responses.filled().astype(np.float64), answered.responses.observed
    repaired = np.full((len(REPAIR), *without.shape), np.nan)
    for level, n in enumerate(REPAIR):
        if n > len(pool):
            continue
        logits = np.zeros(without.shape)
        for draw in range(DRAWS):
            chosen = np.random.default_rng((seed, part, n, draw)).permutation(len(pool))[:n]
            shift = level_shift(before[chosen], score[chosen], observed[chosen])
            logits += (logit(without) + shift) / DRAWS
        repaired[level] = expit(logits)
    centred = known - known.mean(axis=0)
    return Tested(
        rows, without, whole.fit.predict_proba(items), apart.base, whole.base,
        found.mean, found.best,
        covering(unit(new - known.mean(axis=0)), unit(centred), parts.code[apart.rows],
                 len(parts.names)),
        repaired,
    )  # fmt: skip


def level_shift(p: Array, score: Array, observed: NDArray[np.bool_], rounds: int = 30) -> Array:
    """(M,) what to add to each model's logits on a new part, from n answered items.

    delta_i ~ N(c, tau^2), c flat: a shift that all models share and each model's own, both by
    MAP; tau^2 by EM with Laplace variances. Few answers move c alone.

    Args:
        p: (n, M) predicted chances.
        score, observed: (n, M) scores, and where there are any.
    """
    base = logit(np.clip(p, 1e-6, 1 - 1e-6))
    shift, common, tau2 = np.zeros(p.shape[1]), 0.0, 0.25
    for _ in range(rounds):
        q = expit(base + shift)
        slope = ((score - q) * observed).sum(axis=0) - (shift - common) / tau2
        curve = (q * (1 - q) * observed).sum(axis=0) + 1 / tau2
        shift = shift + np.clip(slope / curve, -1, 1)
        common = float(shift.mean())
        tau2 = max(float((np.square(shift - common) + 1 / curve).mean()), 1e-3)
    return shift


def _tensors(tested: Tested) -> dict[str, NDArray[np.generic]]:
    return {k: np.ascontiguousarray(v) for k, v in vars(tested).items()}


def _tell(progress: Progress | None, done: int, total: int, what: str) -> None:
    if progress is not None:
        progress(done, total, what)

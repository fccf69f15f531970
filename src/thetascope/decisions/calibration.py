"""How far off scores of new models really are: known models onboarded as if they were new.

Five folds of models (twins together): items and prior are learnt without the fold, each model
of the fold takes the adaptive test on each benchmark, and its errors after 25, 50, 100 and 200
answers are set beside what its posterior says. The misfit m_b is the least standard deviation
that, added in quadrature, makes 90 % of the 90 % intervals hold. A benchmark with few left-out
models gets the misfit of all benchmarks together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from thetascope.decisions.adaptive import EVERY, AdaptiveTest, Target
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.posterior import Answers
from thetascope.decisions.prior import AbilityPrior, population
from thetascope.predictors.base import Sample
from thetascope.predictors.logit_space import LogitSpace

Array = NDArray[np.float64]
Report = Callable[[int, int, str], None]
Refit = Callable[[Sample], LogitSpace]
"""Learns items from a sample of models; row j of the space is the sample's item j."""

N_FOLDS = 5
SIZES = (25, 50, 100, 200)
LEVEL = 0.9
OWN = 20
"""Left-out models that a benchmark needs for a misfit of its own."""
_BATCH = 5


class Miss(NamedTuple):
    """An estimated score of a left-out model after n answers.

    Attributes:
        benchmark: Code.
        model: Index.
        n_answers: Answers given.
        error: Estimate minus truth.
        sd: What the posterior says, without a misfit.
        rest: Share of the items not answered.
    """

    benchmark: int
    model: int
    n_answers: int
    error: float
    sd: float
    rest: float


@dataclass(frozen=True)
class Fold:
    """Known models that were left out.

    Attributes:
        bank: Made without them.
        models: (n,) their indices in the whole sample.
    """

    bank: ItemBank
    models: NDArray[np.int64]


def model_folds(twins: NDArray[np.int64], n_folds: int = N_FOLDS, seed: int = 0) -> NDArray[Any]:
    """(M,) fold of each model; twins share one."""
    _, code = np.unique(twins, return_inverse=True)
    order = np.random.default_rng(seed).permutation(int(code.max()) + 1)
    return (np.argsort(order) % min(n_folds, len(order)))[code]


def take_models(sample: Sample, keep: NDArray[np.bool_]) -> Sample:
    """The sample with only the models marked in (M,)."""
    responses = sample.responses
    kept = replace(
        responses,
        models=tuple(m for m, k in zip(responses.models, keep.tolist(), strict=True) if k),
        scores=responses.scores[:, keep],
        weights=None if responses.weights is None else responses.weights[:, keep],
        rows=None,
    )
    return Sample(sample.items, kept)


def left_out_folds(
    sample: Sample,
    refit: Refit,
    prior: AbilityPrior,
    twins: NDArray[np.int64],
    *,
    seed: int = 0,
    progress: Report | None = None,
) -> Iterator[Fold]:
    """Yields banks made without a fold of the models; the prior keeps its kappa and rho."""
    folds = model_folds(twins, seed=seed)
    n_folds = int(folds.max()) + 1
    for f in range(n_folds):
        if progress is not None:
            progress(f, n_folds, "models left out")
        part = take_models(sample, folds != f)
        if len(part.responses.models) < 2:
            continue
        space = refit(part)
        found = population(space, prior.kappa, prior.rho)
        own = replace(prior, mean=found.mean, covariance=found.covariance)
        zeros = np.zeros(len(sample.items.benchmarks))
        yield Fold(ItemBank(space, own, part.responses, zeros), np.flatnonzero(folds == f))


def answers_of(sample: Sample, model: int) -> Answers:
    """All of a model's answers."""
    rows = np.flatnonzero(sample.responses.observed[:, model])
    weights = sample.responses.weights
    return Answers(
        rows,
        sample.responses.scores[rows, model].astype(np.float64),
        np.ones(len(rows)) if weights is None else weights[rows, model].astype(np.float64),
    )


def part_of_bank(bank: ItemBank, rows: NDArray[np.int64]) -> ItemBank:
    """The bank of these items only."""
    return replace(bank, space=bank.space.take(rows), responses=bank.responses.take(rows))


def misses(fold: Fold, sample: Sample, *, seed: int = 0, every: int = EVERY) -> Iterator[Miss]:
    """Yields the errors of a test for the fold's models, benchmark by benchmark."""
    benchmark = sample.items.benchmark
    for i in fold.models.tolist():
        answers = answers_of(sample, i)
        for b in np.unique(benchmark[answers.rows]).tolist():
            own = answers.take(benchmark[answers.rows] == b)
            sizes = [k for k in SIZES if 2 * k <= len(own)]
            if not sizes:
                continue
            bank = part_of_bank(fold.bank, own.rows)
            for k, test in take_test(bank, own.score, own.trials, b, sizes, seed=seed, every=every):
                score = test.progress().score
                rest = 1 - score.n_answered / score.n_items
                yield Miss(b, i, k, score.value - float(own.score.mean()), score.sd, rest)


def take_test(
    bank: ItemBank,
    score: Array,
    trials: Array,
    benchmark: int,
    sizes: list[int],
    *,
    seed: int = 0,
    every: int | None = None,
) -> Iterator[tuple[int, AdaptiveTest]]:
    """Gives a test whose answers are known; yields it whenever one of `sizes` is reached.

    Args:
        bank: Of the items that the model answered.
        score, trials: (n,) the answers, in the bank's order.
        benchmark: What is to be known.
        sizes: Numbers of answers, rising.
        seed, every: Of the random items.
    """
    target = Target.make(bank, bank.benchmarks[benchmark])
    test = AdaptiveTest(bank, target, seed=seed, every=every)
    for k in sizes:
        while len(test.answered) < k:
            ids = test.next(min(_BATCH, k - len(test.answered)))
            rows = [bank.row(item) for item in ids]
            test.answer(
                {item: float(score[r]) for item, r in zip(ids, rows, strict=True)},
                {item: float(trials[r]) for item, r in zip(ids, rows, strict=True)},
            )
        yield k, test


def calibrate(bank: ItemBank, folds: Iterable[Fold], sample: Sample, seed: int = 0) -> ItemBank:
    """The bank with `misfit` and `every` from left-out models.

    A benchmark's test is adaptive where the mean absolute error over left-out models and sizes
    is then smaller than with random items; few left-out models decide together, as for the
    misfit.
    """
    adaptive: list[Miss] = []
    random: list[Miss] = []
    for fold in folds:
        adaptive += misses(fold, sample, seed=seed)
        random += misses(fold, sample, seed=seed, every=1)
    if not adaptive:
        return bank
    n = len(bank.benchmarks)
    every = np.full(n, EVERY if _error(adaptive) < _error(random) else 1)
    for b in range(n):
        own = [[m for m in found if m.benchmark == b] for found in (adaptive, random)]
        if len({m.model for m in own[0]}) >= OWN:
            every[b] = EVERY if _error(own[0]) < _error(own[1]) else 1
    chosen = [m for m in adaptive if every[m.benchmark] != 1]
    chosen += [m for m in random if every[m.benchmark] == 1]
    return replace(bank, misfit=misfits(chosen, n), every=every, calibrated=True)


def _error(found: list[Miss]) -> float:
    return float(np.mean([abs(m.error) for m in found]))


def misfits(found: list[Miss], n_benchmarks: int) -> Array:
    """(B,) m_b from the errors of left-out models."""
    pooled = misfit(found)
    out = np.full(n_benchmarks, pooled)
    for b in range(n_benchmarks):
        own = [m for m in found if m.benchmark == b]
        if len({m.model for m in own}) >= OWN:
            out[b] = misfit(own)
    return out


def misfit(found: list[Miss], share: float = LEVEL) -> float:
    """The least m for which |error| <= z sqrt(sd^2 + (m rest)^2) holds in a share of the cases.

    z is that of a 90 % interval, whatever the share.
    """
    if not found:
        return 0.0
    z = float(norm.ppf((1 + LEVEL) / 2))
    error = np.array([m.error for m in found])
    sd = np.array([m.sd for m in found])
    rest = np.maximum(np.array([m.rest for m in found]), 1e-9)
    needed = np.sqrt(np.maximum(np.square(error / z) - sd**2, 0)) / rest
    return float(np.quantile(needed, share))

"""Policies: which of M models answers each of n questions.

    route     argmax_i U_ij,  U_ij = P_ij - lambda c_ij
    guarded   the same where max_i U_ij - U_dj > tau, else the default d

The default is the model with the best average, or with the best mean on the question's
benchmark, learnt on training data. tau is learnt on validation data: with g_j the score that
leaving the default gained on question j, it maximises mean(g 1[gap > tau]) less its standard
error, so the default is left only where that paid beyond its noise. tau = inf never leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.predictors.base import ItemFeatures, Sample
from thetascope.predictors.means import PRIOR_WEIGHT

Array = NDArray[np.float64]
Choice = NDArray[np.int64]
Mask = NDArray[np.bool_]
_TAUS = 100
_ROUNDS = 200


class Defaults(NamedTuple):
    """What is known of models without looking at a question.

    Attributes:
        average: (M,) mean score over the training items, missing responses at the model x
            benchmark mean shrunk to `additive` (an absent response is no zero).
        benchmarks: B names.
        benchmark: (M, B) mean score on each; the shrunk mean where a model has no response.
    """

    average: Array
    benchmarks: tuple[str, ...]
    benchmark: Array

    def by_average(self, n: int) -> Array:
        """(n, M) utilities of n questions of unknown benchmark."""
        return np.tile(self.average, (n, 1))

    def by_benchmark(self, items: ItemFeatures) -> Array:
        """(n, M) utilities; of a benchmark that is not known, the average."""
        place = {name: b for b, name in enumerate(self.benchmarks)}
        rows = [
            self.benchmark[:, place[b]] if b in place else self.average for b in items.benchmarks
        ]
        return np.stack(rows)[items.benchmark]


def learn_defaults(train: Sample) -> Defaults:
    """Average and benchmark means of the models on training data."""
    responses, items = train.responses, train.items
    score, observed = responses.filled().astype(np.float64), responses.observed
    width = len(items.benchmarks)
    member = np.zeros((width, len(items)))
    member[items.benchmark, np.arange(len(items))] = 1.0
    total, count = (member @ score).T, (member @ observed).T
    shrunk = (total + PRIOR_WEIGHT * additive(total, count)) / (count + PRIOR_WEIGHT)
    raw = np.where(count > 0, total / np.maximum(count, 1), shrunk)
    missing = member.sum(axis=1) - count
    average = (total + missing * shrunk).sum(axis=1) / max(len(items), 1)
    return Defaults(average, items.benchmarks, raw)


def additive(total: Array, count: Array) -> Array:
    """(M, B) least-squares fit of model + benchmark to the mean scores, kept within 0 and 1.

    A model that answered only easy benchmarks is not taken for a strong one.

    Args:
        total, count: (M, B) summed scores and their number.
    """
    n_model, n_benchmark = np.maximum(count.sum(axis=1), 1), np.maximum(count.sum(axis=0), 1)
    benchmark = total.sum(axis=0) / n_benchmark
    model = np.zeros(len(total))
    for _ in range(_ROUNDS):
        model = (total - count * benchmark).sum(axis=1) / n_model
        benchmark = (total - count * model[:, None]).sum(axis=0) / n_benchmark
    return np.clip(model[:, None] + benchmark, 0.0, 1.0)


def choose(utility: Array, allowed: Mask) -> Choice:
    """(n,) the allowed model of greatest utility, the first of equals.

    Args:
        utility: (n, M); NaN is never chosen.
        allowed: (n, M), at least one in every row.
    """
    return np.argmax(np.where(allowed & ~np.isnan(utility), utility, -np.inf), axis=1)


def gaps(utility: Array, default: Choice, allowed: Mask) -> tuple[Choice, Array]:
    """The best choice of every question and by how much its utility exceeds the default's."""
    best, rows = choose(utility, allowed), np.arange(len(utility))
    return best, utility[rows, best] - utility[rows, default]


def guarded(utility: Array, default: Choice, allowed: Mask, tau: float) -> Choice:
    """(n,) the best choice where its utility exceeds the default's by more than tau."""
    best, gap = gaps(utility, default, allowed)
    return np.where(gap > tau, best, default)


def learn_tau(gap: Array, gain: Array) -> float:
    """The threshold of the guard.

    Args:
        gap: (n,) predicted gain of leaving the default on validation questions.
        gain: (n,) score of the best choice less that of the default.

    Returns:
        tau in [0, inf]; the greatest of equals.
    """
    if not len(gap):
        return np.inf
    best, found = 0.0, np.inf
    positive = np.sort(gap[gap > 0])
    quantiles = np.quantile(positive, np.linspace(0, 1, _TAUS)) if len(positive) else positive
    for tau in np.unique(np.r_[0.0, quantiles])[::-1]:
        taken = np.where(gap > tau, gain, 0.0)
        value = taken.mean() - taken.std() / np.sqrt(len(taken))
        if value > best + 1e-12:
            best, found = float(value), float(tau)
    return found

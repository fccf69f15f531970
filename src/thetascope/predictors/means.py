"""Means: each model's overall, per benchmark and per subject.

Strong rivals: a predictor that reads texts has to beat them to be worth anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thetascope.predictors.base import ItemFeatures, Predictor, Probabilities, Sample

PRIOR_WEIGHT = 10.0
_LOW, _HIGH = 0.02, 0.98

Array = NDArray[np.float64]


def model_means(sample: Sample) -> Array:
    """(M,) mean score of each model; the mean over all responses where it has none."""
    totals, counts = _sums(sample, np.zeros(len(sample.items), np.int64), 1)
    overall = totals.sum() / max(counts.sum(), 1)
    return np.where(counts[0] > 0, totals[0] / np.maximum(counts[0], 1), overall)


def clipped_means(sample: Sample) -> Array:
    """(M,) `model_means` kept between .02 and .98, as the priors are."""
    return np.clip(model_means(sample), _LOW, _HIGH)


def benchmark_means(sample: Sample) -> Array:
    """(M, B) shrunk mean score: (sum s + 10 prior) / (n + 10).

    prior = clip(model mean + benchmark mean - mean, .02, .98); a benchmark that nobody
    answered gets the model's mean.
    """
    width = len(sample.items.benchmarks)
    totals, counts = _sums(sample, sample.items.benchmark, width)
    overall = totals.sum() / max(counts.sum(), 1)
    shift = _column_means(totals, counts, overall) - overall
    prior = np.clip(model_means(sample)[:, None] + shift[None, :], _LOW, _HIGH)
    return _shrunk(totals.T, counts.T, prior)


def subject_means(sample: Sample) -> Array:
    """(M, S) the same within a subject, shrunk to its benchmark's shrunk mean."""
    items = sample.items
    width = len(items.subjects)
    totals, counts = _sums(sample, items.subject, width)
    parent = items.subject_benchmark
    assert parent is not None
    by_benchmark, n_benchmark = _sums(sample, items.benchmark, len(items.benchmarks))
    overall = totals.sum() / max(counts.sum(), 1)
    base = _column_means(by_benchmark, n_benchmark, overall)[parent]
    own = totals.sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
    shift = np.where(counts.sum(axis=1) > 0, own - base, 0.0)
    prior = np.clip(benchmark_means(sample)[:, parent] + shift[None, :], _LOW, _HIGH)
    return _shrunk(totals.T, counts.T, prior)


def _sums(sample: Sample, code: NDArray[np.int64], width: int) -> tuple[Array, Array]:
    """Sums of scores and numbers of responses, each (width, M)."""
    scores = sample.responses.filled().astype(np.float64)
    observed = sample.responses.observed.astype(np.float64)
    totals = np.zeros((width, scores.shape[1]))
    counts = np.zeros_like(totals)
    np.add.at(totals, code, scores)
    np.add.at(counts, code, observed)
    return totals, counts


def _column_means(totals: Array, counts: Array, overall: float) -> Array:
    n = counts.sum(axis=1)
    return np.where(n > 0, totals.sum(axis=1) / np.maximum(n, 1), overall)


def _shrunk(totals: Array, counts: Array, prior: Array) -> Array:
    return (totals + PRIOR_WEIGHT * prior) / (counts + PRIOR_WEIGHT)


def _by_name(names: tuple[str, ...], known: tuple[str, ...], means: Array, default: Array) -> Array:
    """(B, M) means of the named benchmarks, `default` (M,) for one that is not known."""
    place = {name: b for b, name in enumerate(known)}
    return np.stack([means[:, place[n]] if n in place else default for n in names])


@dataclass
class ModelMean(Predictor):
    """Each model's mean score, whatever the item."""

    NAME: ClassVar[str] = "model_mean"

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        self.models_ = train.responses.models
        self.means_ = model_means(train)
        return self

    def _predict(self, items: ItemFeatures) -> Probabilities:
        return np.tile(self.means_, (len(items), 1))


@dataclass
class ModelBenchmarkMean(Predictor):
    """Each model's shrunk mean score on the item's benchmark."""

    NAME: ClassVar[str] = "model_benchmark"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"benchmarks"})

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        self.models_ = train.responses.models
        self.benchmarks_ = train.items.benchmarks
        self.means_ = benchmark_means(train)
        self.default_ = clipped_means(train)
        return self

    def _predict(self, items: ItemFeatures) -> Probabilities:
        """A benchmark that the fit does not know gets the model's mean."""
        return _by_name(items.benchmarks, self.benchmarks_, self.means_, self.default_)[
            items.benchmark
        ]


@dataclass
class ModelSubjectMean(Predictor):
    """Each model's shrunk mean score on the item's subject."""

    NAME: ClassVar[str] = "model_subject"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"subjects"})

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        self.models_ = train.responses.models
        self.subjects_, self.benchmarks_ = train.items.subjects, train.items.benchmarks
        self.means_ = subject_means(train)
        self.parents_ = benchmark_means(train)
        self.default_ = clipped_means(train)
        return self

    def _predict(self, items: ItemFeatures) -> Probabilities:
        """A subject that the fit does not know gets the benchmark's mean."""
        parent = _by_name(items.benchmarks, self.benchmarks_, self.parents_, self.default_)
        known = {name: s for s, name in enumerate(self.subjects_)}
        column = np.array([known.get(name, -1) for name in items.subjects], np.int64)
        column = column[items.subject]
        own = self.means_[:, np.maximum(column, 0)].T
        return np.where(column[:, None] >= 0, own, parent[items.benchmark])

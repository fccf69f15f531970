"""A model's mean score over questions that nobody has answered, with an interval.

    S_i = mean_j p_ij,   Var S_i = phi sum_g (sum_{j in g} sd_ij)^2 / n^2 + tau^2 sum_b (n_b / n)^2
    sd_ij^2 = p_ij (1 - p_ij)

g runs over groups of near-duplicates, whose answers stand or fall together. phi and tau are
learnt on the calibration half of the validation fold, which no choice has seen: phi is the
dispersion of single scores about p (below 1 for graded scores), tau the standard deviation of a
model's mean residual on a whole benchmark beyond what phi explains (the predictor is off there
by more than luck). Both by moments, pooled over models. It is a normal interval for the mean
score obtained on these very questions; for its coverage see docs/predicting.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from thetascope.errors import InputError
from thetascope.evaluation import near_duplicate_groups
from thetascope.evaluation.splits import Cells, halves, partition
from thetascope.predictors.base import ItemFeatures, Predictor, Sample, study_sample
from thetascope.predictors.setup import study_groups
from thetascope.study import Study
from thetascope.study.text import normalise_text

Array = NDArray[np.float64]


class Forecast(NamedTuple):
    """Expected mean scores of M models over a set of questions.

    Attributes:
        models: M names.
        mean, low, high: (M,).
        n: Questions.
    """

    models: tuple[str, ...]
    mean: Array
    low: Array
    high: Array
    n: int


@dataclass(frozen=True)
class MeanInterval:
    """What the width of an interval needs.

    Attributes:
        models: M names.
        dispersion: phi.
        shift: tau, in score units.
        n_items, n_benchmarks: What both were learnt on; with few, tau is unsure.
    """

    models: tuple[str, ...]
    dispersion: float
    shift: float
    n_items: int = 0
    n_benchmarks: int = 0

    @classmethod
    def learn(cls, p: Array, sample: Sample) -> MeanInterval:
        """Moments of the residuals on data that neither fit nor choices have seen.

        Args:
            p: (n, M) predictions for the sample's items.
            sample: n items with responses.
        """
        observed = sample.responses.observed
        score = sample.responses.filled().astype(np.float64)
        spread = np.where(observed, p * (1 - p), 0.0)
        residual = np.where(observed, score - p, 0.0)
        phi = float(np.square(residual).sum() / spread.sum())
        width = len(sample.items.benchmarks)
        member = np.zeros((width, len(p)))
        member[sample.items.benchmark, np.arange(len(p))] = 1.0
        n = member @ observed
        seen = n > 0
        mean = (member @ residual)[seen] / n[seen]
        luck = phi * (member @ spread)[seen] / n[seen] ** 2
        excess = n[seen] @ (np.square(mean) - luck) / n[seen].sum()
        tau = float(np.sqrt(max(excess, 0.0)))
        answered, parts = observed.any(axis=1).sum(), seen.any(axis=1).sum()
        return cls(sample.responses.models, phi, tau, int(answered), int(parts))

    def of(
        self,
        p: Array,
        benchmark: NDArray[np.int64],
        group: NDArray[np.int64] | None = None,
        level: float = 0.95,
    ) -> Forecast:
        """The forecast for n questions.

        Args:
            p: (n, M) predictions.
            benchmark: (n,) code of each question's benchmark.
            group: (n,) group of near-duplicates of each; each alone where None.
            level: Of the interval.
        """
        n = len(p)
        share = np.bincount(benchmark) / n
        _, own = np.unique(np.arange(n) if group is None else group, return_inverse=True)
        together = np.zeros((int(own.max()) + 1, p.shape[1]))
        np.add.at(together, own, np.sqrt(p * (1 - p)))
        variance = self.dispersion * np.square(together).sum(axis=0) / n**2
        half = ndtri((1 + level) / 2) * np.sqrt(variance + self.shift**2 * np.square(share).sum())
        mean = p.mean(axis=0)
        return Forecast(
            self.models, mean, np.maximum(mean - half, 0), np.minimum(mean + half, 1), n
        )


def fit_with_interval(
    study: Study, predictor: Predictor, *, vectors: str | None = None, split_seed: int = 0
) -> tuple[Predictor, MeanInterval]:
    """Fits on a study: nine tenths to learn from, a twentieth for choices, one for the interval.

    Args:
        study: The study.
        predictor: The settings.
        vectors: Name of the text vectors that find near-duplicates, where the predictor names
            none; None for the only ones, or none.
        split_seed: Of the parts.

    Raises:
        InputError: The study is too small to set a tenth of its items aside.
    """
    train, choose, rest = interval_sets(
        study, getattr(predictor, "vectors", None) or vectors, split_seed=split_seed
    )
    predictor.fit(train, choose)
    return predictor, MeanInterval.learn(predictor.predict_proba(rest.items), rest)


def interval_sets(
    study: Study, vectors: str | None = None, *, split_seed: int = 0
) -> tuple[Sample, Sample, Sample]:
    """Nine tenths of a study to learn from, a twentieth for choices, one for the interval.

    Raises:
        InputError: The study is too small to set a tenth of its items aside.
    """
    sample = study_sample(study, vectors)
    groups = study_groups(study, sample.items)
    benchmark = sample.items.benchmark
    folds = partition(groups.labels, benchmark, seed=split_seed)
    held = np.flatnonzero(folds == 1)
    choose, calibrate = halves(held, groups.labels, benchmark, split_seed)
    if not len(choose) or not len(calibrate) or len(held) == len(folds):
        raise InputError(
            f"{len(folds)} items in {groups.n_groups} groups of near-duplicates are too few to"
            " learn an interval from"
        )
    train = sample.take(Cells(np.flatnonzero(folds != 1)))
    return train, sample.take(Cells(choose)), sample.take(Cells(calibrate))


def forecast(
    predictor: Predictor,
    interval: MeanInterval,
    items: ItemFeatures,
    level: float = 0.95,
    texts: Sequence[str] | None = None,
) -> Forecast:
    """Expected mean scores over these questions.

    Args:
        predictor: Fitted.
        interval: What the width needs.
        items: n questions.
        level: Of the interval.
        texts: n texts: equal ones count once, as those with near vectors do.

    Raises:
        InputError: There are no questions.
    """
    if not len(items):
        raise InputError("there are no questions to forecast for")
    p = predictor.predict_proba(items)
    codes = np.full(len(items), -1, np.int64)
    if texts is not None:
        _, codes = np.unique([normalise_text(t) for t in texts], return_inverse=True)
    group = near_duplicate_groups(codes, items.vectors, items.benchmark).labels
    return interval.of(p, items.benchmark, group, level)

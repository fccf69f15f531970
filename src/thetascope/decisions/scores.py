"""A benchmark's score from some of its answers, with an interval.

    S = (sum_answered s + sum_rest P) / N_b
    Var S = g' Sigma g + phi sum_rest P (1 - P) / N_b^2 + (m_b n_rest / N_b)^2
    g = (1 / N_b) sum_rest P' x_j

m_b, the misfit, is what the space does not know of new models: the standard deviation of the
score's error beyond the first two terms, measured on known models that were left out (see
`calibration`). The last term is 0 without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from thetascope.decisions.posterior import Answers, Gaussian, chances
from thetascope.predictors.logit_space import LogitSpace

Array = NDArray[np.float64]

LEVEL = 0.9


@dataclass(frozen=True)
class ScoreEstimate:
    """An estimated mean score.

    Attributes:
        benchmark: Its name.
        value: S, in [0, 1].
        low, high: Ends of the interval.
        sd: Standard deviation behind it.
        n_answered, n_items: Items answered, and items of the benchmark.
        mean_answered: Plain mean of the answers; NaN where there are none.
    """

    benchmark: str
    value: float
    low: float
    high: float
    sd: float
    n_answered: int
    n_items: int
    mean_answered: float

    def to_json(self) -> dict[str, object]:
        """The fields by name; no answers give a null mean."""
        mean = None if self.n_answered == 0 else self.mean_answered
        return {**self.__dict__, "mean_answered": mean}


@dataclass(frozen=True)
class Parts:
    """What a score's estimate is made of, before the interval.

    Attributes:
        value: S.
        gradient: (d,) g.
        noise: Variance of the answers still unseen, over N_b^2.
        rest: Share of the items not answered.
    """

    value: float
    gradient: Array
    noise: float
    rest: float


def score_parts(
    space: LogitSpace,
    theta: Array,
    answers: Answers,
    items: NDArray[np.int64],
    dispersion: float = 1.0,
) -> Parts:
    """S, g and the unseen answers' variance.

    Args:
        space: The space.
        theta: (d,) the model's vector.
        answers: Its answers, on any items.
        items: Rows of the items that the score is the mean of.
        dispersion: phi.
    """
    there = np.isin(answers.rows, items)
    rest = np.setdiff1d(items, answers.rows[there], assume_unique=False)
    x = space.design[rest]
    floor = None if space.chance is None else space.chance[rest]
    p, slope = chances(x @ theta + space.intercept[rest], floor)
    n = len(items)
    return Parts(
        float((answers.score[there].sum() + p.sum()) / n),
        (slope @ x).astype(np.float64) / n,
        float(dispersion * (p * (1 - p)).sum() / n**2),
        len(rest) / n,
    )


def score_estimate(
    space: LogitSpace,
    posterior: Gaussian,
    answers: Answers,
    benchmark: int,
    *,
    dispersion: float = 1.0,
    misfit: float = 0.0,
    level: float = LEVEL,
) -> ScoreEstimate:
    """A benchmark's score with its interval, kept within what the answers leave possible.

    Args:
        space: The space.
        posterior: Of the model's vector.
        answers: The model's answers.
        benchmark: Code of the benchmark in the space.
        dispersion: phi of graded scores.
        misfit: m_b.
        level: Coverage of the interval.
    """
    items = np.flatnonzero(space.benchmark == benchmark)
    parts = score_parts(space, posterior.mean, answers, items, dispersion)
    g = parts.gradient
    variance = float(g @ posterior.covariance @ g) + parts.noise + (misfit * parts.rest) ** 2
    here = answers.score[np.isin(answers.rows, items)]
    certain = float(here.sum()) / len(items)
    sd = float(np.sqrt(max(variance, 0.0)))
    reach = float(norm.ppf((1 + level) / 2)) * sd
    return ScoreEstimate(
        space.benchmarks[benchmark],
        parts.value,
        max(parts.value - reach, certain),
        min(parts.value + reach, certain + parts.rest),
        sd,
        len(here),
        len(items),
        float(here.mean()) if len(here) else float("nan"),
    )

"""A leaderboard with holes: every known model's score on every benchmark, run or not.

A model's vector has a posterior from what the model did answer; the rest of each benchmark is
completed by it. The prior is that of the other models (the model itself and its twins out).
Rank intervals come from draws of all models' scores from their posteriors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.bank import ItemBank
from thetascope.decisions.onboarding import scores
from thetascope.decisions.posterior import Answers, Gaussian
from thetascope.decisions.prior import population
from thetascope.decisions.scores import LEVEL, Parts, ScoreEstimate, score_parts

Array = NDArray[np.float64]

DRAWS = 4000


@dataclass(frozen=True)
class Standing:
    """A model's line.

    Attributes:
        model: Its name.
        scores: One completed estimate a benchmark.
        mean: Weighted mean of the completed scores, with its interval.
        rank: Its rank by `mean`, 1 is best.
        rank_low, rank_high: Interval of the rank.
        raw_mean: Mean of what it answered, all items alike; NaN where it answered nothing.
        raw_rank: Its rank by `raw_mean`.
    """

    model: str
    scores: tuple[ScoreEstimate, ...]
    mean: ScoreEstimate
    rank: int
    rank_low: int
    rank_high: int
    raw_mean: float
    raw_rank: int

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        raw = None if np.isnan(self.raw_mean) else self.raw_mean
        return {
            **self.__dict__,
            "scores": [s.to_json() for s in self.scores],
            "mean": self.mean.to_json(),
            "raw_mean": raw,
        }


def leaderboard(
    bank: ItemBank,
    *,
    weights: Array | None = None,
    twins: NDArray[np.int64] | None = None,
    level: float = LEVEL,
    seed: int = 0,
) -> list[Standing]:
    """Completes a study's scores and ranks its models, best first.

    Args:
        bank: The item bank.
        weights: (B,) weight of each benchmark in the mean; equal where None.
        twins: (M,) group of each model.
        level: Coverage of the intervals.
        seed: Of the draws behind the rank intervals.
    """
    space = bank.space
    pi = np.ones(len(space.benchmarks)) if weights is None else weights
    pi = pi * (np.bincount(space.benchmark, minlength=len(pi)) > 0)
    pi = pi / pi.sum()
    groups = np.arange(len(space.models)) if twins is None else twins
    rng = np.random.default_rng(seed)
    lines: list[tuple[tuple[ScoreEstimate, ...], ScoreEstimate, float]] = []
    drawn = np.empty((DRAWS, len(space.models)))
    for i in range(len(space.models)):
        answers = bank.known_answers(i)
        prior = population(space, bank.prior.kappa, bank.prior.rho, groups == groups[i])
        found = bank.posterior(answers, prior=prior)
        phi = bank.dispersion(answers, found.mean) if len(answers) else bank.prior.dispersion
        posterior = Gaussian(found.mean, found.covariance * phi)
        own = scores(bank, posterior, answers, phi, level)
        mean, draws = _mean(bank, posterior, answers, pi, phi, level, rng)
        drawn[:, i] = draws
        raw = float(answers.score.mean()) if len(answers) else float("nan")
        lines.append((own, mean, raw))
    return _ranked(space.models, lines, drawn, level)


def _mean(
    bank: ItemBank,
    posterior: Gaussian,
    answers: Answers,
    pi: Array,
    phi: float,
    level: float,
    rng: np.random.Generator,
) -> tuple[ScoreEstimate, Array]:
    """The weighted mean's estimate, and draws of it."""
    space = bank.space
    parts: dict[int, Parts] = {}
    for b in np.flatnonzero(pi).tolist():
        members = np.flatnonzero(space.benchmark == b)
        parts[b] = score_parts(space, posterior.mean, answers, members, phi)
    value = sum(pi[b] * p.value for b, p in parts.items())
    gradient = sum((pi[b] * p.gradient for b, p in parts.items()), np.zeros(space.dim))
    variance = float(gradient @ posterior.covariance @ gradient)
    variance += sum(
        pi[b] ** 2 * (p.noise + (bank.misfit[b] * p.rest) ** 2) for b, p in parts.items()
    )
    sd = float(np.sqrt(max(variance, 0.0)))
    draws = value + sd * rng.standard_normal(DRAWS)
    edge = (1 - level) / 2
    low, high = (value, value) if sd == 0 else np.quantile(draws, [edge, 1 - edge])
    count, mean = len(answers), float(answers.score.mean()) if len(answers) else float("nan")
    estimate = ScoreEstimate(
        "mean", float(value), float(max(low, 0)), float(min(high, 1)), sd, count, len(space), mean
    )
    return estimate, draws


def _ranked(
    models: tuple[str, ...],
    lines: list[tuple[tuple[ScoreEstimate, ...], ScoreEstimate, float]],
    drawn: Array,
    level: float,
) -> list[Standing]:
    edge = (1 - level) / 2
    best = np.empty(drawn.shape, np.int64)
    worst = np.empty(drawn.shape, np.int64)
    for row, values in enumerate(drawn):  # of equal models either may stand first
        order = np.sort(values)
        best[row] = 1 + len(values) - np.searchsorted(order, values, side="right")
        worst[row] = len(values) - np.searchsorted(order, values, side="left")
    low = np.quantile(best, edge, axis=0, method="nearest")
    high = np.quantile(worst, 1 - edge, axis=0, method="nearest")
    values = np.array([mean.value for _, mean, _ in lines])
    raw = np.array([r for _, _, r in lines])
    place, raw_place = _places(values), _places(np.where(np.isnan(raw), -np.inf, raw))
    standings = [
        Standing(m, own, mean, int(place[i]), int(low[i]), int(high[i]), r, int(raw_place[i]))
        for i, (m, (own, mean, r)) in enumerate(zip(models, lines, strict=True))
    ]
    return sorted(standings, key=lambda s: (s.rank, s.model))


def _places(values: Array) -> NDArray[np.int64]:
    """Rank of each value, the greatest 1; equal values share the best."""
    return 1 + (values[None, :] > values[:, None]).sum(axis=1)

"""What is known of a new model before its first answer: a prior learnt from the known models.

    theta ~ N(mu, S0),  S0 = kappa [(1 - rho) C + rho D]

mu and C are mean and covariance of the known models' vectors. C has rank M - 1 at most, so
rho > 0 is compulsory. D is diagonal, in every block of the space (the benchmark offsets of
JE-IRT are one) the mean of C's diagonal there: blocks have scales of their own. (kappa, rho)
have the least held-out log-loss when each known model is onboarded from 20, 100 and 1,000 of
its answers with itself (and its twins) out of mu and C.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.posterior import Gaussian, chances, fit_ability
from thetascope.errors import InputError
from thetascope.evaluation.metrics import cross_entropy
from thetascope.predictors.logit_space import LogitSpace
from thetascope.study import ResponseMatrix

Array = NDArray[np.float64]

KAPPAS = (0.25, 0.5, 1.0, 2.0, 4.0)
RHOS = (0.05, 0.1, 0.3, 0.6, 1.0)
SIZES = (20, 100, 1000)
HELD_OUT = 1000
"""At most so many answers of a model are held out to be predicted."""
LEAST_PHI = 0.1
_EDGE = 1e-6


@dataclass(frozen=True)
class AbilityPrior:
    """The learnt prior.

    Attributes:
        mean: (d,) mu.
        covariance: (d, d) S0.
        kappa, rho: What was chosen.
        dispersion: phi of graded scores, the known models' quasi-likelihood factor on
            variances, not below 0.1; 1 where scores are right or wrong.
        loss: (kappa, rho) -> mean held-out log-loss.
    """

    mean: Array
    covariance: Array
    kappa: float
    rho: float
    dispersion: float
    loss: dict[tuple[float, float], float]

    @property
    def gaussian(self) -> Gaussian:
        """mu and S0."""
        return Gaussian(self.mean, self.covariance)


def population(
    space: LogitSpace, kappa: float, rho: float, out: NDArray[np.bool_] | None = None
) -> Gaussian:
    """mu and S0 of the known models without those marked in `out`, shape (M,)."""
    kept = np.ones(len(space.models), bool) if out is None else ~out
    ability = space.theta[kept]
    mean = ability.mean(axis=0)
    away = ability - mean
    c = away.T @ away / max(len(away) - 1, 1)
    if space.spread is not None:
        c = c + space.spread[kept].mean(axis=0)
    trace, start = np.empty(space.dim), 0
    for size in space.blocks or (space.dim,):
        part = slice(start, start + size)
        trace[part] = max(float(np.diag(c)[part].mean()), _EDGE)
        start += size
    s0 = (1 - rho) * c
    s0[np.diag_indices(space.dim)] += rho * trace
    return Gaussian(mean, kappa * s0)


def learn_prior(
    space: LogitSpace,
    responses: ResponseMatrix,
    *,
    twins: NDArray[np.int64] | None = None,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> AbilityPrior:
    """Chooses (kappa, rho) by onboarding the known models.

    Args:
        space: The space; row j of `responses` is its item j.
        responses: (N, M) responses of the known models.
        twins: (M,) group of each model; twins are left out together.
        seed: Of the answers drawn.
        progress: Called with (done, total, what).

    Raises:
        InputError: Fewer than 3 models (or groups of twins) are known.
    """
    n_models = len(space.models)
    groups = np.arange(n_models) if twins is None else twins
    if len(np.unique(groups)) < 3:
        raise InputError(
            f"a prior needs 3 known models that are no twins, the study has"
            f" {len(np.unique(groups))}"
        )
    score, observed = responses.filled().astype(np.float64), responses.observed
    grid = list(product(KAPPAS, RHOS))
    total, count = np.zeros(len(grid)), 0
    rng = np.random.default_rng(seed)
    for i in range(n_models):
        if progress is not None:
            progress(i, n_models, "prior")
        rows = rng.permutation(np.flatnonzero(observed[:, i]))
        priors = [population(space, k, r, groups == groups[i]) for k, r in grid]
        sizes = [min(size, len(rows) * 4 // 5) for size in SIZES]
        for size in dict.fromkeys(s for s in sizes if s > 0):
            known, held = rows[:size], rows[size : size + HELD_OUT]
            trials = _trials(responses, known, i)
            theta = None
            for g, prior in enumerate(priors):
                theta = fit_ability(
                    space.design[known], space.intercept[known], score[known, i], trials,
                    prior, _floor(space, known), theta,
                ).mean  # fmt: skip
                p = _predicted(space, held, theta)
                total[g] += cross_entropy(p, score[held, i]).mean()
            count += 1
    if not count:
        raise InputError("no known model has the two answers or more that learning the prior needs")
    best = int(np.argmin(total))
    chosen = population(space, *grid[best])
    loss = {pair: float(t / count) for pair, t in zip(grid, total, strict=True)}
    phi = 1.0 if responses.binary else dispersion(space, responses)
    return AbilityPrior(chosen.mean, chosen.covariance, *grid[best], phi, loss)


def dispersion(space: LogitSpace, responses: ResponseMatrix) -> float:
    """phi = sum trials (s - p)^2 / (p (1 - p)) / (n - df) over the known models, at least 0.1."""
    total, free = 0.0, 0.0
    score = responses.filled().astype(np.float64)
    for i in range(len(space.models)):
        rows = np.flatnonzero(responses.observed[:, i])
        p = _predicted(space, rows, space.theta[i])
        total += pearson(score[rows, i], p, _trials(responses, rows, i))
        free += max(len(rows) - space.dim, len(rows) / 2)
    return max(total / max(free, 1.0), LEAST_PHI)


def pearson(score: Array, p: Array, trials: Array) -> float:
    """Sum of squared Pearson residuals."""
    q = np.clip(p, 1e-3, 1 - 1e-3)
    return float((trials * np.square(score - q) / (q * (1 - q))).sum())


def _predicted(space: LogitSpace, rows: NDArray[np.int64], theta: Array) -> Array:
    return chances(space.design[rows] @ theta + space.intercept[rows], _floor(space, rows))[0]


def _floor(space: LogitSpace, rows: NDArray[np.int64]) -> Array | None:
    return None if space.chance is None else space.chance[rows]


def _trials(responses: ResponseMatrix, rows: NDArray[np.int64], model: int) -> Array:
    if responses.weights is None:
        return np.ones(len(rows))
    return responses.weights[rows, model].astype(np.float64)

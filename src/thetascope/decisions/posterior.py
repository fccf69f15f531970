"""MAP estimate and Laplace posterior of a model's vector, items fixed.

    P_j = f_j + (1 - f_j) sigmoid(x_j . theta + c_j),   theta ~ N(mu, S0)

Without a floor the log posterior is concave and this is Newton's method; with one it is Fisher
scoring (information weight w = P'^2 / (P (1 - P)), P' = dP / dlogit). Steps are halved until
the objective rises. With fewer answers than dimensions the same step is solved in the n x n
dual (Rasmussen & Williams 2006, algorithm 3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

Array = NDArray[np.float64]

MAX_STEPS = 100
TOLERANCE = 1e-9
"""Newton's decrement (twice the objective's expected rise) at which it has converged."""
_EDGE = 1e-12


@dataclass(frozen=True)
class Gaussian:
    """A normal distribution of a model's vector.

    Attributes:
        mean: (d,).
        covariance: (d, d), positive definite.
    """

    mean: Array
    covariance: Array


@dataclass(frozen=True)
class Answers:
    """What a model answered, in a space.

    Attributes:
        rows: (n,) rows of the space's items.
        score: (n,) in [0, 1].
        trials: (n,) trials behind each score.
    """

    rows: NDArray[np.int64]
    score: Array
    trials: Array

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, keep: NDArray[Any]) -> Answers:
        """The answers at these places."""
        return Answers(self.rows[keep], self.score[keep], self.trials[keep])


def chances(logits: Array, floor: Array | None) -> tuple[Array, Array]:
    """(n,) P and dP/dlogit."""
    sigma = expit(logits)
    slope = sigma * (1 - sigma)
    if floor is None:
        return sigma, slope
    return floor + (1 - floor) * sigma, (1 - floor) * slope


def information(p: Array, slope: Array) -> Array:
    """(n,) Fisher information of one trial about the logit, P'^2 / (P (1 - P))."""
    return np.square(slope) / np.maximum(p * (1 - p), _EDGE)


def fit_ability(
    design: NDArray[Any],
    intercept: Array,
    score: Array,
    trials: Array,
    prior: Gaussian,
    floor: Array | None = None,
    start: Array | None = None,
) -> Gaussian:
    """MAP estimate and Laplace covariance.

    Args:
        design: (n, d) x_j of the answered items.
        intercept: (n,) c_j.
        score: (n,) scores in [0, 1]; graded ones count by quasi-likelihood.
        trials: (n,) weight of each score.
        prior: mu and S0.
        floor: (n,) f_j, or None.
        start: (d,) where to start; the prior's mean where None.
    """
    n, d = design.shape
    if n == 0:
        return prior
    x = design.astype(np.float64)
    solve = _Dual(x, prior) if n < d else _Primal(x, prior)
    theta = prior.mean if start is None else start
    value = _objective(x, intercept, score, trials, floor, theta, solve)
    for _ in range(MAX_STEPS):
        p, slope = chances(x @ theta + intercept, floor)
        weight = trials * information(p, slope)
        pull = trials * (score - p) * slope / np.maximum(p * (1 - p), _EDGE)
        target = solve.step(weight, pull, theta)
        direction, share = target - theta, 1.0
        moved, new = target, _objective(x, intercept, score, trials, floor, target, solve)
        while new < value - 1e-12 * abs(value) and share > 1e-9:
            share /= 2
            moved = theta + share * direction
            new = _objective(x, intercept, score, trials, floor, moved, solve)
        theta, gain, value = moved, new - value, new
        if share == 1.0 and 2 * abs(gain) < TOLERANCE * max(1.0, abs(value) * 1e-3):
            break
    p, slope = chances(x @ theta + intercept, floor)
    return Gaussian(theta, solve.covariance(trials * information(p, slope)))


def _objective(
    x: Array,
    intercept: Array,
    score: Array,
    trials: Array,
    floor: Array | None,
    theta: Array,
    solve: _Primal | _Dual,
) -> float:
    eta = x @ theta + intercept
    if floor is None:
        fit = score * eta - np.logaddexp(0, eta)
    else:
        p = np.clip(chances(eta, floor)[0], _EDGE, 1 - _EDGE)
        fit = score * np.log(p) + (1 - score) * np.log1p(-p)
    away = theta - solve.prior.mean
    return float(trials @ fit - 0.5 * away @ solve.prior_solve(away))


class _Primal:
    """Steps in d dimensions: (X'WX + S0^-1) delta = gradient."""

    def __init__(self, x: Array, prior: Gaussian) -> None:
        self.x, self.prior = x, prior
        self.factor = cho_factor(prior.covariance)
        self.precision = cho_solve(self.factor, np.eye(len(prior.mean)))

    def prior_solve(self, v: Array) -> Array:
        return self.precision @ v

    def step(self, weight: Array, pull: Array, theta: Array) -> Array:
        gradient = self.x.T @ pull - self.precision @ (theta - self.prior.mean)
        return theta + cho_solve(cho_factor(self._hessian(weight)), gradient)

    def covariance(self, weight: Array) -> Array:
        return cho_solve(cho_factor(self._hessian(weight)), np.eye(len(self.precision)))

    def _hessian(self, weight: Array) -> Array:
        return self.precision + self.x.T @ (self.x * weight[:, None])


class _Dual:
    """The same steps in n dimensions: theta = mu + S0 X' alpha, K = X S0 X'."""

    def __init__(self, x: Array, prior: Gaussian) -> None:
        self.x, self.prior = x, prior
        self.sx = prior.covariance @ x.T  # (d, n)
        self.kernel = x @ self.sx
        self._factor: Any = None

    def prior_solve(self, v: Array) -> Array:
        if self._factor is None:
            self._factor = cho_factor(self.prior.covariance)
        return cho_solve(self._factor, v)

    def step(self, weight: Array, pull: Array, theta: Array) -> Array:
        f = self.x @ (theta - self.prior.mean)
        root, factor = self._whitened(weight)
        b = weight * f + pull
        alpha = b - root * cho_solve(factor, root * (self.kernel @ b))
        return self.prior.mean + self.sx @ alpha

    def covariance(self, weight: Array) -> Array:
        root, factor = self._whitened(weight)
        scaled = self.sx * root
        return self.prior.covariance - scaled @ cho_solve(factor, scaled.T)

    def _whitened(self, weight: Array) -> tuple[Array, Any]:
        root = np.sqrt(weight)
        return root, cho_factor(np.eye(len(root)) + root[:, None] * self.kernel * root)

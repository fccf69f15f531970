"""Scores as they would be if every item's discrimination were positive.

Drawn from the 2PL with log a ~ N(mu, sd^2), with abilities as fitted. How many unconstrained
discriminations come out negative by chance depends on how many true ones are near 0, so neither
the items' modes (which lean to the mean) nor a fixed sd will do: mu and sd are estimated by
marginal maximum likelihood (Bock and Aitkin, 1981) on a grid of log a, the intercept integrated
out by Laplace's method, and items are drawn from their posterior on that grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp

from thetascope.predictors.irt_fit import Fitted, Prior, Responses, fit_unidimensional

Array = NDArray[np.float64]

_NODES = np.linspace(-4.5, 2.25, 46)
"""Grid of log a about the fitted mean."""
_CELLS = 1 << 18


@dataclass(frozen=True)
class Noise:
    """The 2PL with a > 0 and the posterior of its items.

    Attributes:
        theta: (M,) abilities.
        mean_alpha, sd_alpha: Of log a.
        alpha: (K,) grid of log a.
        posterior: (N, K) posterior of log a on the grid, summed up along it.
        b, sd_b: (N, K) intercept given log a: mode and standard deviation.
        dispersion: (B,) variance of the scores in units of p (1 - p) / trials; None for
            right-or-wrong scores.
    """

    theta: Array
    mean_alpha: float
    sd_alpha: float
    alpha: Array
    posterior: Array
    b: Array
    sd_b: Array
    dispersion: Array | None

    def draw(self, data: Responses, rng: np.random.Generator) -> Responses:
        """The same responses with scores drawn from the model."""
        n = len(self.b)
        k = (self.posterior < rng.random((n, 1))).sum(axis=1)
        k = np.minimum(k, len(self.alpha) - 1)
        rows = np.arange(n)
        b = self.b[rows, k] + self.sd_b[rows, k] * rng.normal(size=n)
        p = expit(np.exp(self.alpha[k])[:, None] * self.theta + b[:, None])
        if self.dispersion is None:
            drawn = (rng.random(p.shape) < p).astype(np.float32)
        else:
            unit = np.maximum(data.weight / self.dispersion[data.benchmark][:, None] - 1, 0.05)
            p = np.clip(p, 1e-3, 1 - 1e-3)
            drawn = rng.beta(unit * p, unit * (1 - p)).astype(np.float32)
        return data._replace(score=np.where(data.weight > 0, drawn, np.float32(0)))


def fit_noise(data: Responses, *, graded: bool) -> Noise:
    """Fits the 2PL with a > 0 and a learnt spread of log a.

    Args:
        data: N items by M models; chance levels are not used.
        graded: Whether scores lie between 0 and 1: they are drawn from beta distributions with
            the benchmark's dispersion.
    """
    fit = fit_unidimensional(data, Prior())
    dispersion = _dispersion(data, fit) if graded else None
    alpha = fit.mean_alpha + _NODES
    table, b, sd_b = (np.empty((len(fit.b), len(alpha))) for _ in range(3))
    step = max(1, _CELLS // max(len(fit.theta), 1))
    for start in range(0, len(fit.b), step):
        part = slice(start, start + step)
        table[part], b[part], sd_b[part] = _marginal(data, fit, dispersion, alpha, part)
    mean, sd = fit.mean_alpha, fit.prior.sd
    weight = _posterior(table, alpha, mean, sd)
    for _ in range(200):  # EM
        before = sd
        mean = float((weight @ alpha).mean())
        sd = float(np.sqrt((weight @ (alpha - mean) ** 2).mean()))
        weight = _posterior(table, alpha, mean, sd)
        if abs(sd - before) < 5e-4:
            break
    return Noise(fit.theta, mean, sd, alpha, np.cumsum(weight, axis=1), b, sd_b, dispersion)


def _posterior(table: Array, alpha: Array, mean: float, sd: float) -> Array:
    logs = table - 0.5 * ((alpha - mean) / max(sd, 0.05)) ** 2
    return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))


def _marginal(
    data: Responses, fit: Fitted, dispersion: Array | None, alpha: Array, part: slice
) -> tuple[Array, Array, Array]:
    """(n, K) log-likelihood of each log a with b integrated out, and b's mode and deviation."""
    rows = data.rows(part)
    weight = rows.weight.astype(np.float64)
    if dispersion is not None:
        weight = weight / dispersion[rows.benchmark][:, None]
    mean, variance = fit.mean_b[rows.benchmark], fit.sd_b[rows.benchmark] ** 2
    right = weight * rows.score
    total, lean = right.sum(axis=1), right @ fit.theta
    b = logit(np.clip((total + 0.5) / (weight.sum(axis=1) + 1), 0.02, 0.98))
    out = tuple(np.empty((len(b), len(alpha))) for _ in range(3))
    information = 1 / variance
    for k, a in enumerate(np.exp(alpha).tolist()):
        for _ in range(6 if k == 0 else 2):
            p = expit(a * fit.theta + b[:, None])
            information = (weight * p * (1 - p)).sum(axis=1) + 1 / variance
            gradient = total - (weight * p).sum(axis=1) + (mean - b) / variance
            b = b + np.clip(gradient / information, -1, 1)
        loss = (weight * np.logaddexp(0, a * fit.theta + b[:, None])).sum(axis=1)
        fitted = a * lean + b * total - loss - 0.5 * (b - mean) ** 2 / variance
        out[0][:, k] = fitted - 0.5 * np.log(information)
        out[1][:, k], out[2][:, k] = b, 1 / np.sqrt(information)
    return out[0], out[1], out[2]


def _dispersion(data: Responses, fit: Fitted) -> Array:
    """(B,) mean of trials (s - p)^2 / (p (1 - p)) over the responses of a benchmark."""
    p = np.clip(expit(fit.a[:, None] * fit.theta + fit.b[:, None]), 1e-3, 1 - 1e-3)
    seen = data.weight > 0
    unit = np.where(seen, data.weight * (data.score - p) ** 2 / (p * (1 - p)), 0).sum(axis=1)
    width = len(fit.mean_b)
    total = np.bincount(data.benchmark, unit, minlength=width)
    n = np.bincount(data.benchmark, seen.sum(axis=1), minlength=width)
    return np.clip(total / np.maximum(n, 1), 1e-3, None)

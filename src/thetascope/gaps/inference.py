"""From moments to p-values, q-values, intervals and shrunk effects (RULES M7).

The normal tail is badly wrong for sums of few heavy activations, so tails are those of a
Pearson III (shifted gamma) distribution with the permutation skewness.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, ndtr, ndtri
from scipy.stats import false_discovery_control

Array = NDArray[np.float64]
Z95 = float(ndtri(0.975))
NORMAL_SKEW = 1e-4
POWER = 0.8


class Tails(NamedTuple):
    """One-sided p-values: of a value this low or lower, this high or higher."""

    low: Array
    high: Array


def tails(z: Array, skew: Array) -> Tails:
    """Tails of a Pearson III distribution with mean 0, variance 1 and this skewness.

    With alpha = 4 / skew^2, z = (Gamma(alpha) - alpha) / sqrt(alpha) for a positive skew, its
    mirror image for a negative one. Equal to scipy.stats.pearson3; normal where |skew| < 1e-4.
    That distribution ends at -2 / skew: the tail of a value at or beyond its end, where it is no
    description any more, is the normal one, never 0.

    Args:
        z: Standardised statistics, any shape.
        skew: Their skewness, same shape.
    """
    low, high = ndtr(z), ndtr(-z)
    skewed = np.abs(skew) >= NORMAL_SKEW
    if not skewed.any():
        return Tails(low, high)
    s = skew[skewed]
    root = 2 / np.abs(s)
    x = np.maximum(root * (root + np.sign(s) * z[skewed]), 0.0)
    below, above = gammainc(root**2, x), gammaincc(root**2, x)
    below = np.where(x > 0, below, ndtr(-np.abs(z[skewed])))
    low[skewed] = np.where(s > 0, below, above)
    high[skewed] = np.where(s > 0, above, below)
    return Tails(low, high)


def standardised(t: Array, v: Array, g: Array) -> tuple[Array, Array]:
    """z = T / sqrt V and the skewness G / V^1.5; NaN where V is 0."""
    safe = np.where(v > 0, v, np.nan)
    return t / np.sqrt(safe), g / safe**1.5


def q_values(p: Array) -> Array:
    """Benjamini-Hochberg over one family; NaN entries are not in it and stay NaN."""
    out = np.full(p.shape, np.nan)
    known = np.isfinite(p)
    if known.any():
        out[known] = false_discovery_control(np.clip(p[known], 0.0, 1.0))
    return out


def wilson(chi: Array, n: Array) -> tuple[Array, Array]:
    """Wilson's 95 % interval of a share with an effective number of items.

    Args:
        chi: In [0, 1].
        n: Effective items, above 0; same shape.
    """
    z2 = Z95**2
    centre = (chi + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * np.sqrt(chi * (1 - chi) / n + z2 / (4 * n**2))
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)


def chi_interval(
    chi: Array, mass: Array, weighted_square: Array, n_eff: Array
) -> tuple[Array, Array]:
    """Interval of chi_model: Wilson with n* = n_eff chi (1 - chi) / s2.

    s2 = sum a (s - chi)^2 / A = sum a s^2 / A - chi^2, which is chi (1 - chi) for right-or-wrong
    scores, so there n* = n_eff. NaN where chi is.
    """
    known = np.isfinite(chi) & (n_eff > 0)
    low, high = np.full(chi.shape, np.nan), np.full(chi.shape, np.nan)
    x, n = chi[known], n_eff[known]
    spread = weighted_square[known] / mass[known] - x**2
    whole = x * (1 - x)
    even = (whole > 1e-12) & (spread > 1e-12)
    n = np.where(even, n * whole / np.where(even, spread, 1.0), n)
    low[known], high[known] = wilson(x, n)
    return low, high


class Shrunk(NamedTuple):
    """Posterior means and sds of effects, and the variance between them."""

    mean: Array
    sd: Array
    tau2: float


def shrink(y: Array, v: Array) -> Shrunk:
    """Empirical-Bayes shrinkage of effects towards 0.

    tau^2 >= 0 solves sum y^2 / (tau^2 + v) = K (Paule and Mandel 1982); the posterior of an
    effect has mean y tau^2 / (tau^2 + v) and variance tau^2 v / (tau^2 + v).

    Args:
        y: (K,) effects.
        v: (K,) their variances, above 0.
    """
    k = len(y)
    if not k:
        return Shrunk(y.copy(), y.copy(), 0.0)
    squares = np.square(y)

    def excess(tau2: float) -> float:
        return float((squares / (tau2 + v)).sum()) - k

    low, high = 0.0, float(squares.sum()) / k + 1e-12
    if excess(0.0) <= 0:
        return Shrunk(np.zeros(k), np.zeros(k), 0.0)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        if high - low <= 1e-12 * high:
            break
    tau2 = (low + high) / 2
    return Shrunk(y * tau2 / (tau2 + v), np.sqrt(tau2 * v / (tau2 + v)), tau2)


def least_detectable(
    n_family: int, sigma: Array | float, n_eff: Array | float, n: Array | float
) -> Array:
    """Effect found with 80 % power at a family-wise 5 %.

    (z_{1 - .05/K} + .84) sigma sqrt(1/n_eff - 1/n).
    """
    z = ndtri(1 - 0.05 / max(n_family, 1)) + ndtri(POWER)
    return np.asarray(
        z * np.asarray(sigma) * np.sqrt(np.maximum(1 / np.asarray(n_eff) - 1 / np.asarray(n), 0.0))
    )

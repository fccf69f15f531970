"""Accuracy against cost: the frontier of a router, the area under it, cost at equal accuracy.

A point of the frontier is the router at one lambda. Two points can be mixed by a coin, so
what is attainable is the upper concave hull. Area: the hull's mean height over costs from the
cheapest model's to the dearest model's (both mean costs on the tested questions), which is the
accuracy of a budget drawn evenly from that range; from its greatest height on the hull is flat,
and below its cheapest point it counts with that point's height times the share of the budget
(a question without a model scores 0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.routing.policies import Choice, Mask, choose

Array = NDArray[np.float64]
N_LAMBDAS = 40


class Curve(NamedTuple):
    """A router at L values of lambda on n questions.

    Attributes:
        lambdas: (L,) score units per unit of cost, from 0 upwards.
        choice: (L, n).
    """

    lambdas: Array
    choice: NDArray[np.int64]


def lambda_grid(cost: Array) -> Array:
    """(L,) 0, and values at which the spread of mean costs is worth 0.001 to 100 points of P."""
    mean = np.nanmean(cost, axis=0)
    spread = float(np.nanmax(mean) - np.nanmin(mean))
    if not spread > 0:
        return np.zeros(1)
    return np.r_[0.0, np.logspace(-3, 2, N_LAMBDAS - 1) / spread]


def sweep(p: Array, cost: Array, allowed: Mask, lambdas: Array) -> Curve:
    """The router's choices at every lambda.

    Args:
        p: (n, M) predicted scores.
        cost: (n, M) predicted costs.
        allowed: (n, M).
        lambdas: (L,).
    """
    choices: list[Choice] = [choose(p - value * cost, allowed) for value in lambdas]
    return Curve(lambdas, np.stack(choices))


def hull(cost: Array, score: Array) -> tuple[Array, Array]:
    """Corners of the upper concave hull of points, up to the greatest score, cheapest first."""
    order = np.lexsort((-score, cost))
    kept: list[tuple[float, float]] = []
    for c, s in zip(cost[order].tolist(), score[order].tolist(), strict=True):
        if kept and s <= kept[-1][1]:
            continue
        while len(kept) > 1:
            (c0, s0), (c1, s1) = kept[-2:]
            if (s1 - s0) * (c - c0) > (s - s0) * (c1 - c0):
                break
            kept.pop()
        kept.append((c, s))
    corners = np.array(kept)
    return corners[:, 0], corners[:, 1]


def area(cost: Array, score: Array, low: float, high: float) -> float:
    """Mean height of the hull over costs from `low` to `high` (module docstring)."""
    if not high > low:
        return float(score.max())
    x, y = hull(cost, score)
    if x[0] > 0:
        x, y = np.r_[0.0, x], np.r_[0.0, y]
    inner = x[(x > low) & (x < high)]
    at = np.r_[low, inner, high]
    height = np.interp(at, x, y)
    return float(((height[1:] + height[:-1]) / 2 * np.diff(at)).sum() / (high - low))


def cost_at(cost: Array, score: Array, target: float) -> float:
    """Least cost at which the hull is as high as `target`; NaN where it never is."""
    x, y = hull(cost, score)
    if target > y[-1]:
        return float("nan")
    return float(np.interp(target, y, x))

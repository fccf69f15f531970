"""Pairs of models: how far apart in the space, how often apart in fact, which one adds nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.evaluation.columns import means

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
SAME = 0.65
"""Error consistency (kappa) from which on, at the low end of its interval, a pair is redundant.
One model served by three hosts reached .69, .72 and .76 on 2,100 to 2,800 items of ZeroEval."""
FEWEST = 30


class Pair(NamedTuple):
    """Two models on the items that both answered.

    Attributes:
        first, second: Names; the first has the higher mean there (by name where equal).
        n: Common items.
        distance: Root mean square difference of their predicted logits over all items.
        differ: Mean |s_1 - s_2|, the share of items on which they part, with interval.
        kappa: Error consistency (Geirhos et al. 2020): agreement beyond that of two independent
            models with these means; with interval.
        rescued: Share of the first's lost score that the second would have won, with interval.
    """

    first: str
    second: str
    n: int
    distance: float
    differ: tuple[float, float, float]
    kappa: tuple[float, float, float]
    rescued: tuple[float, float, float]

    @property
    def redundant(self) -> bool:
        """Whether the two agree as one model does that is served twice."""
        return bool(self.kappa[1] >= SAME)


def logit_distance(logits: Array) -> Array:
    """(M, M) root mean square difference over items of predicted logits (N, M)."""
    square = np.square(logits).mean(axis=0)
    gap = square[:, None] + square[None] - 2 * (logits.T @ logits) / len(logits)
    return np.sqrt(np.maximum(gap, 0))


def error_consistency(score: Array, observed: Bools) -> tuple[Array, NDArray[np.int64]]:
    """(M, M) kappa of every pair over its common items, and their number; NaN under 30 items.

    Agreement of graded scores is s_1 s_2 + (1 - s_1)(1 - s_2).
    """
    w = observed.astype(np.float64)
    s = np.where(observed, score, 0.0)
    n = w.T @ w
    safe = np.maximum(n, 1)
    first, both = (s.T @ w) / safe, (s.T @ s) / safe  # mean of i where k answered
    second = first.T
    agree = 2 * both + 1 - first - second
    chance = first * second + (1 - first) * (1 - second)
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = np.where(chance < 1 - 1e-9, (agree - chance) / (1 - chance), np.nan)
    kappa[n < FEWEST] = np.nan
    np.fill_diagonal(kappa, np.nan)
    return kappa, n.astype(np.int64)


def closest(
    models: tuple[str, ...], score: Array, observed: Bools, distance: Array,
    group: NDArray[np.int64], weights: NDArray[np.float32], most: int = 30,
) -> list[Pair]:  # fmt: skip
    """The pairs with the highest error consistency, with intervals over groups of items."""
    kappa, _ = error_consistency(score, observed)
    rows, columns = np.triu_indices(len(models), 1)
    order = np.argsort(-np.nan_to_num(kappa[rows, columns], nan=-2.0), kind="stable")
    out = []
    for t in order[:most].tolist():
        i, k = int(rows[t]), int(columns[t])
        if np.isfinite(kappa[i, k]):
            out.append(_pair(models, score, observed, distance, group, weights, i, k))
    return out


def _pair(
    models: tuple[str, ...], score: Array, observed: Bools, distance: Array,
    group: NDArray[np.int64], weights: NDArray[np.float32], i: int, k: int,
) -> Pair:  # fmt: skip
    rows = np.flatnonzero(observed[:, i] & observed[:, k])
    if (score[rows, k].mean(), models[i]) > (score[rows, i].mean(), models[k]):
        i, k = k, i
    a, b = score[rows, i], score[rows, k]
    columns = np.stack([np.abs(a - b), a, b, a * b, np.maximum(b - a, 0)], axis=1)
    e = means(columns, np.ones(columns.shape, bool), group[rows], weights)
    point, drawn = e.value[None], e.replicates
    enough = bool(np.isfinite(e.low[0]))  # groups of near-duplicates for an interval

    def kappa(v: Array) -> Array:
        _, p, q, both, _ = v.T
        chance = p * q + (1 - p) * (1 - q)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (2 * both + 1 - p - q - chance) / (1 - chance)

    def rescued(v: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return v[:, 4] / (1 - v[:, 1])

    return Pair(
        models[i], models[k], len(rows), float(distance[i, k]),
        (float(e.value[0]), float(e.low[0]), float(e.high[0])),
        _range(kappa(point)[0], kappa(drawn), enough),
        _range(rescued(point)[0], rescued(drawn), enough),
    )  # fmt: skip


def _range(value: float, drawn: Array, enough: bool) -> tuple[float, float, float]:
    known = drawn[np.isfinite(drawn)]
    if not enough or not np.isfinite(value) or len(known) < 0.95 * len(drawn):
        return float(value), float("nan"), float("nan")
    low, high = np.quantile(known, [0.025, 0.975])
    return float(value), float(low), float(high)

"""Intervals for many means and rank correlations at once, over near-duplicate groups.

The same bootstrap as `thetascope.evaluation.intervals` (percentiles of replicates that draw
groups of items), with one matrix product for a whole table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from thetascope.evaluation.intervals import LEVEL

Array = NDArray[np.float64]

MIN_GROUPS = 5
"""Fewer groups of items than this and no interval is given."""
_Z = 1.959963984540054
_CHUNK = 200


@dataclass(frozen=True)
class Estimates:
    """K values with 95 % intervals (NaN where there is none).

    Attributes:
        value, low, high: (K,).
        n: (K,) cells behind each.
        replicates: (R, K) bootstrap replicates.
    """

    value: Array
    low: Array
    high: Array
    n: NDArray[np.int64]
    replicates: Array


def means(
    score: Array,
    seen: NDArray[np.bool_],
    group: NDArray[np.int64],
    weights: NDArray[np.float32],
    *,
    proportion: bool = False,
) -> Estimates:
    """Means of K columns over the cells seen.

    Args:
        score: (n, K) values; ignored where `seen` is False.
        seen: (n, K).
        group: (n,) near-duplicate group of each row.
        weights: (R, n_groups) from `replicate_weights`.
        proportion: Whether the values are scores in [0, 1]: then a column of equal zeros or
            ones, whose bootstrap has no width, gets Wilson's interval with n = groups.
    """
    present, local = np.unique(group, return_inverse=True)
    draws = weights[:, present].astype(np.float64)
    rows = len(group)
    gather = csr_array((np.ones(rows), (local, np.arange(rows))), shape=(len(present), rows))
    total = np.asarray(gather @ np.where(seen, score, 0.0))
    count = np.asarray(gather @ seen.astype(np.float64))
    n = count.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(n > 0, total.sum(axis=0) / n, np.nan)
        replicates = (draws @ total) / (draws @ count)
    n_groups = (count > 0).sum(axis=0)
    low, high = percentiles(value, replicates, n_groups)
    if proportion:
        equal = np.ptp(replicates, axis=0) == 0  # says nothing of how far the mean could move
        low, high = np.where(equal, np.nan, low), np.where(equal, np.nan, high)
        flat = (n_groups >= 1) & ((value <= 0) | (value >= 1))
        wide = _Z**2 / (np.maximum(n_groups, 1) + _Z**2)  # Wilson at 0 or n of n
        low = np.where(flat, np.where(value >= 1, 1 - wide, 0.0), low)
        high = np.where(flat, np.where(value >= 1, 1.0, wide), high)
    return Estimates(value, low, high, n.astype(np.int64), replicates)


def percentiles(
    value: Array, replicates: Array, n_groups: NDArray[np.int64] | int
) -> tuple[Array, Array]:
    """(K,) ends of the intervals; NaN under `MIN_GROUPS` or where replicates fail."""
    finite = np.isfinite(replicates)
    usable = (
        np.isfinite(value) & (finite.mean(axis=0) >= 0.95) & (np.asarray(n_groups) >= MIN_GROUPS)
    )
    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    for k in np.flatnonzero(usable):
        low[k], high[k] = np.quantile(replicates[finite[:, k], k], ends)
    return low, high


def mean_of(parts: list[Estimates], n_groups: int) -> Estimates:
    """Plain mean of several estimates of the same columns, e.g. over benchmarks.

    A part that a column lacks is left out of its mean.
    """
    values = np.stack([p.value for p in parts])
    has = np.isfinite(values)
    k = np.maximum(has.sum(axis=0), 1)
    replicates = sum(np.where(h, p.replicates, 0.0) for h, p in zip(has, parts, strict=True)) / k
    value = np.where(has.any(axis=0), np.where(has, values, 0.0).sum(axis=0) / k, np.nan)
    low, high = percentiles(value, replicates, n_groups)
    n = np.sum([p.n for p in parts], axis=0)
    return Estimates(value, low, high, n, replicates)


def spearman(
    predicted: Array, observed: Array, group: NDArray[np.int64], weights: NDArray[np.float32]
) -> Estimates:
    """Rank correlations of K predictions with what was observed, over n items.

    Every replicate ranks its own draw anew (mid-ranks for ties).

    Args:
        predicted: (n, K).
        observed: (n,).
        group, weights: As in `means`.
    """
    present, local = np.unique(group, return_inverse=True)
    columns = [_Ranker(x) for x in (observed, *predicted.T)]
    value = _correlations(columns, np.ones((1, len(observed))))[0]
    replicates = np.concatenate(
        [
            _correlations(columns, weights[i : i + _CHUNK, present][:, local].astype(np.float64))
            for i in range(0, len(weights), _CHUNK)
        ]
    )
    low, high = percentiles(value, replicates, len(present))
    n = np.full(predicted.shape[1], len(observed), np.int64)
    return Estimates(value, low, high, n, replicates)


class _Ranker:
    """Mid-ranks of one column under many weightings of its rows."""

    def __init__(self, x: Array) -> None:
        self.order = np.argsort(x, kind="stable")
        self.back = np.argsort(self.order, kind="stable")
        ranked = x[self.order]
        first = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
        run = np.cumsum(np.r_[True, ranked[1:] != ranked[:-1]]) - 1
        self.ends = np.r_[first[1:], len(x)][run]
        self.starts = first[run]

    def ranks(self, w: Array) -> Array:
        """(r, n) mid-ranks for weights (r, n)."""
        total = np.zeros((len(w), w.shape[1] + 1))
        np.cumsum(w[:, self.order], axis=1, out=total[:, 1:])
        return ((total[:, self.ends] + total[:, self.starts]) / 2)[:, self.back]


def _correlations(columns: list[_Ranker], w: Array) -> Array:
    size = w.sum(axis=1, keepdims=True)
    out = np.empty((len(w), len(columns) - 1))
    # A replicate that draws nothing of this part has no correlation: NaN, dropped later.
    with np.errstate(invalid="ignore", divide="ignore"):
        ranked = [column.ranks(w) for column in columns]
        y, *others = [r - (w * r).sum(axis=1, keepdims=True) / size for r in ranked]
        spread = (w * y * y).sum(axis=1)
        for k, x in enumerate(others):
            norm = np.sqrt((w * x * x).sum(axis=1) * spread)
            out[:, k] = np.where(norm > 0, (w * x * y).sum(axis=1) / norm, np.nan)
    return out

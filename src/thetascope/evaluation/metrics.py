"""How well probabilities p match scores s in [0, 1], over flat arrays of cells.

On right-or-wrong scores each equals its scikit-learn namesake. On graded scores: log-loss is
the cross-entropy (its floor is the mean entropy of s), Brier the squared error; accuracy
compares the sides of 0.5 and leaves out s = 0.5; AUC uses each cell twice, weight s as a
positive and 1 - s as a negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPS = 1e-12
"""Probabilities are kept this far from 0 and 1 in the log-loss."""
N_ECE_BINS = 15


def hits(p: Array, s: Array) -> Array:
    """1 where p and s lie on one side of 0.5, else 0; NaN where s = 0.5 (p = 0.5 is 'right')."""
    hit = ((p >= 0.5) == (s > 0.5)).astype(np.float64)
    hit[s == 0.5] = np.nan
    return hit


def cross_entropy(p: Array, s: Array) -> Array:
    """-(s log p + (1 - s) log(1 - p)) of every cell."""
    q = np.clip(p, EPS, 1 - EPS)
    return -(s * np.log(q) + (1 - s) * np.log1p(-q))


def entropy(s: Array) -> Array:
    """The least cross-entropy that a graded score allows; 0 for right or wrong."""
    inner = np.clip(s, EPS, 1 - EPS)
    return np.where((s > 0) & (s < 1), cross_entropy(inner, s), 0.0)


def accuracy(p: Array, s: Array) -> float:
    """Share of cells with p and s on one side of 0.5; s = 0.5 is left out."""
    hit = hits(p, s)
    return float(np.nanmean(hit)) if np.isfinite(hit).any() else float("nan")


def log_loss(p: Array, s: Array) -> float:
    """Mean cross-entropy in nats."""
    return float(cross_entropy(p, s).mean())


def brier(p: Array, s: Array) -> float:
    """Mean squared error."""
    return float(np.square(p - s).mean())


def absolute_error(p: Array, s: Array) -> float:
    """Mean absolute error."""
    return float(np.abs(p - s).mean())


def auc(p: Array, s: Array) -> float:
    """Chance that a positive outranks a negative, ties one half; NaN with one class only."""
    order = np.argsort(p, kind="stable")
    ranked, positive = p[order], s[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    pos = np.add.reduceat(positive, starts)
    neg = np.add.reduceat(1 - positive, starts)
    total = pos.sum() * neg.sum()
    if total <= 0:
        return float("nan")
    below = np.cumsum(neg) - neg
    return float((pos * (below + 0.5 * neg)).sum() / total)


def auc_within(p: Array, s: Array, segment: NDArray[np.int64]) -> float:
    """Mean over segments (a model, in a split) of the AUC within; those of one class are left out.

    A pooled AUC is mostly the difference between model means; this one is not.
    """
    order = np.argsort(segment, kind="stable")
    cuts = np.flatnonzero(np.diff(segment[order])) + 1
    values = [auc(p[rows], s[rows]) for rows in np.split(order, cuts)]
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def calibration_bins(p: Array, n_bins: int = N_ECE_BINS) -> NDArray[np.int64]:
    """Bin of each cell: `n_bins` bins of equal mass in p; equal p share a bin."""
    edges = np.quantile(p, np.linspace(0, 1, n_bins + 1)[1:-1])
    return np.searchsorted(edges, p, side="right")


def calibration_error(p: Array, s: Array, n_bins: int = N_ECE_BINS) -> float:
    """Expected calibration error: mass-weighted |mean p - mean s| over equal-mass bins."""
    bins = calibration_bins(p, n_bins)
    gap = np.bincount(bins, p - s, minlength=n_bins)
    return float(np.abs(gap).sum() / len(p))

"""Classical statistics of items: how many answered, how well, and does it fit the rest."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import false_discovery_control, t

from thetascope.study.matrix import ResponseMatrix

MIN_MODELS = 8
"""Fewer answers than this and no item-rest correlation is reported."""

Array = NDArray[np.float64]


def item_statistics(matrix: ResponseMatrix, benchmark: NDArray[np.int64]) -> pl.DataFrame:
    """One row an item: how it was answered and how it agrees with its benchmark.

    Args:
        matrix: N items by M models.
        benchmark: (N,) code of each item's benchmark.

    Returns:
        item_id, n_models, mean (score), constant (all scores equal, two answers or more),
        item_rest (correlation over models of the item's score with the model's mean on the
        benchmark's other items; null for constant items and under `MIN_MODELS` answers), and
        q_negative: Benjamini-Hochberg over the tested items of the one-sided p that the
        correlation is negative only by chance (Student's t, n - 2 degrees of freedom).
    """
    observed = matrix.observed
    scores = matrix.filled().astype(np.float64)
    n = observed.sum(axis=1)
    mean = np.divide(scores.sum(axis=1), n, out=np.full(len(n), np.nan), where=n > 0)
    high = np.where(observed, scores, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(observed, scores, np.inf).min(axis=1, initial=np.inf)
    constant = (n >= 2) & (high == low)
    correlation = np.full(len(n), np.nan)
    for b in np.unique(benchmark):
        rows = np.flatnonzero(benchmark == b)
        correlation[rows] = _item_rest(scores[rows], observed[rows])
    correlation[(n < MIN_MODELS) | constant] = np.nan
    return pl.DataFrame(
        {
            "item_id": list(matrix.item_ids),
            "n_models": n,
            "mean": mean,
            "constant": constant,
            "item_rest": correlation,
            "q_negative": _negative_q(correlation, n),
        }
    ).with_columns(pl.col("mean", "item_rest", "q_negative").fill_nan(None))


def _item_rest(scores: Array, observed: NDArray[np.bool_]) -> Array:
    """(N,) correlation over models with the mean of the model's other answers."""
    answers = observed.sum(axis=0)
    rest_n = answers[None, :] - observed
    valid = observed & (rest_n > 0)
    rest = np.divide(
        scores.sum(axis=0)[None, :] - scores, rest_n, out=np.zeros_like(scores), where=valid
    )
    n = np.maximum(valid.sum(axis=1), 1)
    x = np.where(valid, scores - ((scores * valid).sum(axis=1) / n)[:, None], 0.0)
    y = np.where(valid, rest - ((rest * valid).sum(axis=1) / n)[:, None], 0.0)
    size = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    known = size > 1e-12
    return np.divide((x * y).sum(axis=1), size, out=np.full(len(n), np.nan), where=known)


def _negative_q(correlation: Array, n: NDArray[np.int64]) -> Array:
    q = np.full(len(n), np.nan)
    tested = np.isfinite(correlation)
    if tested.any():
        r, df = np.clip(correlation[tested], -0.999999, 0.999999), n[tested] - 2
        p = t.cdf(r * np.sqrt(df / (1 - r * r)), df)
        q[tested] = false_discovery_control(p)
    return q

"""Clusters that no subject label would have shown: where models part from their profile.

For item j of stratum s (its subject, or its benchmark) and model i

    d_ij = s_ij - mean_i s_ij - [mean of that over the items of s]

is what model i does on item j beyond what the item gives to all models and beyond what i does
on the whole stratum. A cluster says something new where the d of its items do not average to 0:
T_ic = sum of d_ij over its items. Under permutation of cluster labels within strata E T = 0 and

    V_ic = sum_s n_cs (n_s - n_cs) / (n_s (n_s - 1)) sum_{j in s} d_ij^2

Q_c = sum_i T_ic^2 / V_ic; its p comes from random permutations (models are dependent). It must
be asked of items whose responses had no part in the clustering.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
PERMUTATIONS = 999


class Profile(NamedTuple):
    """Deviations of M models on K clusters.

    Attributes:
        n: (K,) items that were tested.
        deviation: (K, M) mean d over a cluster's items, in score units; NaN where a cluster
            holds none that the model answered.
        error: (K, M) its standard error under permutation.
        p: (K,) of Q_c; NaN where a cluster cannot be tested.
    """

    n: NDArray[np.int64]
    deviation: Array
    error: Array
    p: Array


def profile(
    score: Array, observed: NDArray[np.bool_], cluster: Codes, stratum: Codes, n_clusters: int,
    unit: Codes | None = None, seed: int = 0,
) -> Profile:  # fmt: skip
    """Deviations of models on clusters beyond their strata, with a permutation test.

    Args:
        score, observed: (n, M) scores, and where there are any.
        cluster, stratum: (n,) codes.
        n_clusters: K.
        unit: (n,) near-duplicate group of each item: one item a group is kept, the first.
        seed: Of the permutations.
    """
    if unit is not None:
        _, first = np.unique(unit, return_index=True)
        kept = np.sort(first)
        score, observed = score[kept], observed[kept]
        cluster, stratum = cluster[kept], stratum[kept]
    d = _deviations(score, observed, stratum)
    _, stratum = np.unique(stratum, return_inverse=True)
    member = _indicator(cluster, n_clusters)
    total, variance = member.T @ d, _variance(d, cluster, stratum, n_clusters)
    n = member.sum(axis=0).astype(np.int64)
    answered = member.T @ observed
    known = variance > 1e-12
    square = np.where(known, np.square(total) / np.where(known, variance, 1.0), 0.0)
    q_c = square.sum(axis=1)
    rng = np.random.default_rng(seed)
    order = np.argsort(stratum, kind="stable")
    bounds = np.cumsum(np.bincount(stratum))[:-1]
    blocks = np.split(order, bounds)
    above = np.ones(n_clusters)
    for _ in range(PERMUTATIONS):
        mixed = np.empty(len(cluster), np.int64)
        for rows in blocks:
            mixed[rows] = cluster[rng.permutation(rows)]
        drawn = _indicator(mixed, n_clusters).T @ d
        above += (np.square(drawn) / np.where(known, variance, np.inf)).sum(axis=1) >= q_c - 1e-9
    testable = known.any(axis=1)
    p = np.where(testable, above / (1 + PERMUTATIONS), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(answered > 0, answered, np.nan)
        return Profile(n, total / share, np.sqrt(variance) / share, p)


def _deviations(score: Array, observed: NDArray[np.bool_], stratum: Codes) -> Array:
    """(n, M) d_ij; 0 where there is no response, which adds nothing to T."""
    seen = observed.astype(np.float64)
    level = (score * seen).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    d = np.where(observed, score - level[:, None], 0.0)
    _, local = np.unique(stratum, return_inverse=True)
    member = _indicator(local.astype(np.int64), int(local.max()) + 1)
    mean = (member.T @ d) / np.maximum(member.T @ seen, 1)
    return np.where(observed, d - mean[local], 0.0)


def _variance(d: Array, cluster: Codes, stratum: Codes, n_clusters: int) -> Array:
    """(K, M) V_ic."""
    n_strata = int(stratum.max()) + 1
    joint = np.zeros((n_clusters, n_strata))
    np.add.at(joint, (cluster, stratum), 1.0)
    n = np.bincount(stratum, minlength=n_strata).astype(np.float64)
    squares = _indicator(stratum, n_strata).T @ np.square(d)  # (S, M)
    factor = joint * (n - joint) / np.maximum(n * (n - 1), 1.0)
    return factor @ squares


def _indicator(code: Codes, width: int) -> Array:
    out = np.zeros((len(code), width))
    out[np.arange(len(code)), code] = 1.0
    return out

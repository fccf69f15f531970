"""How close new items lie to those that a fit has learnt from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
POOL = 1000
_QUANTILE = 0.99


class Alignment(NamedTuple):
    """Cosines of n new directions with the training items'.

    Attributes:
        mean: (n,) u_j . mean_l u_l.
        best: (n,) 99th percentile of the cosines with a pool of training items of fixed size
            (a maximum would grow with the pool).
    """

    mean: Array
    best: Array


def alignment(new: Array, known: Array, seed: int = 0, pool: int = POOL) -> Alignment:
    """Alignment of directions with those of training items.

    Args:
        new: (n, d) unit directions.
        known: (N, d) unit directions of training items.
        seed: Of the pool.
        pool: Training items in it, drawn without replacement; all where there are fewer.
    """
    drawn = np.random.default_rng(seed).permutation(len(known))[:pool]
    cosine = new @ known[drawn].T
    return Alignment(new @ known.mean(axis=0), np.quantile(cosine, _QUANTILE, axis=1))


def covering(
    new: Array, known: Array, part: NDArray[np.int64], n_parts: int, neighbours: int = 20
) -> Array:
    """(n_parts,) share of new items' nearest training items that lie in each part.

    Args:
        new: (n, d) unit vectors.
        known: (N, d) unit vectors of training items.
        part: (N,) benchmark or subject of each training item.
        n_parts: Number of parts.
        neighbours: Nearest items (by cosine) counted for each new one.
    """
    k = min(neighbours, len(known))
    counts = np.zeros(n_parts)
    for start in range(0, len(new), 1024):
        cosine = new[start : start + 1024] @ known.T
        near = np.argpartition(-cosine, k - 1, axis=1)[:, :k]
        counts += np.bincount(part[near].ravel(), minlength=n_parts)
    return counts / max(counts.sum(), 1)

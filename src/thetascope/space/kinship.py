"""Which models answer alike beyond what their items give away: lineage as found, not assumed.

For models i and k, rho_ik is the partial correlation of their scores over common items, given
the mean score of all other models on the item (neither i nor k in it), scores centred within
each benchmark. Related models (one family, a fine-tune and its base) share errors that the
item's difficulty does not explain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from scipy.stats import rankdata

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
FEWEST_ITEMS, FEWEST_MODELS = 30, 5
SHUFFLES = 9999


class Kinship(NamedTuple):
    """Partial correlations between M models.

    Attributes:
        rho: (M, M), NaN on the diagonal and where there are under 30 common items.
        n: (M, M) common items.
    """

    rho: Array
    n: NDArray[np.int64]


class Families(NamedTuple):
    """How far what was found agrees with the families that the models table names.

    Attributes:
        n_models, n_families: Models with a named family that another shares; such families.
        same: Share of these models whose nearest model is of their family.
        chance: The same with family names shuffled.
        p: One-sided, by 9,999 shuffles.
        auc: Chance that a pair of one family has a greater rho than a pair of two.
    """

    n_models: int
    n_families: int
    same: float
    chance: float
    p: float
    auc: float


def kinship(score: Array, observed: Bools, benchmark: NDArray[np.int64]) -> Kinship:
    """Partial correlations of all pairs of models.

    Args:
        score, observed: (N, M) scores, and where there are any.
        benchmark: (N,) codes.
    """
    centred = _centred(score, observed, benchmark)
    total, count = centred.sum(axis=1), observed.sum(axis=1)
    m = score.shape[1]
    rho, n = np.full((m, m), np.nan), np.zeros((m, m), np.int64)
    for i in range(m):
        rows = observed[:, i]
        both = observed[rows]
        others = count[rows, None] - 1 - both  # neither i nor k
        usable = both & (others >= FEWEST_MODELS - 2)
        usable[:, i] = False
        mean = (total[rows, None] - centred[rows, i : i + 1] - centred[rows]) / np.maximum(
            others, 1
        )
        rho[i], n[i] = _partial(centred[rows, i], centred[rows], mean, usable)
    few = n < FEWEST_ITEMS
    rho[few] = np.nan
    return Kinship(rho, n)


def tree(found: Kinship) -> Array:
    """(M - 1, 4) average linkage on 1 - rho, as scipy's `linkage`; an unknown pair is unrelated."""
    distance = 1 - np.where(np.isfinite(found.rho), found.rho, 0.0)
    np.fill_diagonal(distance, 0.0)
    return linkage(squareform((distance + distance.T) / 2, checks=False), "average")


def families(found: Kinship, family: list[str | None], seed: int = 0) -> Families | None:
    """Agreement with named families; None where no two models share one.

    Args:
        found: Partial correlations of M models.
        family: M names, None where the table has none.
        seed: Of the shuffles.
    """
    codes = {f: c for c, f in enumerate(dict.fromkeys(f for f in family if f))}
    code = np.array([codes[f] if f else -1 for f in family])
    sizes = np.bincount(code[code >= 0], minlength=max(len(codes), 1))
    rows = np.flatnonzero((code >= 0) & (sizes[np.maximum(code, 0)] > 1))
    rows = rows[np.isfinite(found.rho[rows][:, rows]).any(axis=1)] if len(rows) else rows
    if len(rows) < 3 or len(np.unique(code[rows])) < 2:
        return None
    rho = np.where(np.isfinite(found.rho), found.rho, -np.inf)[np.ix_(rows, rows)]
    np.fill_diagonal(rho, -np.inf)
    nearest, own = np.argmax(rho, axis=1), code[rows]
    same = float((own[nearest] == own).mean())
    rng = np.random.default_rng(seed)
    drawn = np.empty(SHUFFLES)
    for s in range(SHUFFLES):
        mixed = rng.permutation(own)
        drawn[s] = (mixed[nearest] == mixed).mean()
    upper = np.triu_indices(len(rows), 1)
    value, alike = rho[upper], (own[:, None] == own[None])[upper]
    known = np.isfinite(value)
    ranks = rankdata(value[known])
    yes, no = int(alike[known].sum()), int((~alike[known]).sum())
    area = (ranks[alike[known]].sum() - yes * (yes + 1) / 2) / (yes * no) if yes * no else np.nan
    p = (1 + int((drawn >= same - 1e-12).sum())) / (1 + SHUFFLES)
    return Families(len(rows), len(np.unique(own)), same, float(drawn.mean()), p, float(area))


def _centred(score: Array, observed: Bools, benchmark: NDArray[np.int64]) -> Array:
    """(N, M) scores less the model's mean on the benchmark; 0 where there is no response."""
    out = np.zeros(score.shape)
    for b in np.unique(benchmark):
        rows = benchmark == b
        seen = observed[rows]
        mean = np.where(seen, score[rows], 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        out[rows] = np.where(seen, score[rows] - mean, 0.0)
    return out


def _partial(x: Array, y: Array, z: Array, usable: Bools) -> tuple[Array, NDArray[np.int64]]:
    """Partial correlation of x (n,) with each column of y given that column of z, (n, M)."""
    w = usable.astype(np.float64)
    n = w.sum(axis=0)
    safe = np.maximum(n, 1)

    def gap(values: Array) -> Array:
        return (values - (w * values).sum(axis=0) / safe) * w

    a, b, c = gap(np.broadcast_to(x[:, None], y.shape)), gap(y), gap(z)
    aa, bb, cc = (np.square(v).sum(axis=0) for v in (a, b, c))
    ab, ac, bc = (a * b).sum(axis=0), (a * c).sum(axis=0), (b * c).sum(axis=0)
    cc = np.where(cc > 1e-12, cc, np.inf)
    left, right = aa - ac**2 / cc, bb - bc**2 / cc
    size = np.sqrt(np.maximum(left, 0) * np.maximum(right, 0))
    known = size > 1e-9
    return np.where(known, (ab - ac * bc / cc) / np.where(known, size, 1), np.nan), n.astype(
        np.int64
    )

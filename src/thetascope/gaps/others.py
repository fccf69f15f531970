"""How hard an item is for the other models, and which models are no 'others': twins.

The difficulty that a model's gap is set against must not come from the model itself under
another name. Twins of a model are models with the same canonical name, where names are given,
and models whose answers are nearly the same: agreement beyond chance (error consistency,
Geirhos et al. 2020)

    kappa = 1 - D / E,   D = share of common items answered differently, E = the same expected
                         from the two models' mean scores there

of at least 0.9 on at least 30 common items. Graded scores are cut at ten levels, and D and E
are summed over the cuts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetascope.gaps.data import Array, GapData

Bools = NDArray[np.bool_]
FEWEST = 5
"""Other models that must have answered an item for its difficulty to count."""
SAME = 0.9
_BEND = (2, 3, 4)
COMMON = 30
"""Common items from which on agreement counts."""


def agreement(scores: Array) -> tuple[Array, NDArray[np.int64]]:
    """(M, M) kappa, NaN where two models share no item or both always answer alike; common items.

    Args:
        scores: (N, M) in [0, 1], NaN where there is no answer.
    """
    observed = np.isfinite(scores)
    binary = bool(np.isin(scores[observed], (0.0, 1.0)).all())
    cuts = np.array([0.5]) if binary else np.arange(0.05, 1.0, 0.1)
    seen = observed.astype(np.float64)
    common = seen.T @ seen
    safe = np.maximum(common, 1)
    differ, expected = np.zeros(common.shape), np.zeros(common.shape)
    for cut in cuts.tolist():
        above = (np.nan_to_num(scores, nan=-1.0) > cut).astype(np.float64)
        mine = above.T @ seen / safe  # (i, k): share above the cut of i, on items also k answered
        both = above.T @ above / safe
        differ += mine + mine.T - 2 * both
        expected += mine + mine.T - 2 * mine * mine.T
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = 1 - differ / np.where((common > 0) & (expected > 1e-12), expected, np.nan)
    return kappa, common.astype(np.int64)


def twin_models(data: GapData, names: Mapping[str, str] | None = None) -> Bools:
    """(M, M) which models are twins of which; everyone is a twin of itself.

    Args:
        data: Scores and models.
        names: Model -> canonical name; models of one canonical name are twins.
    """
    kappa, common = agreement(data.scores)
    twins = (np.nan_to_num(kappa, nan=-1.0) >= SAME) & (common >= COMMON)
    canonical = [(names or {}).get(m, m) for m in data.models]
    code = {n: k for k, n in enumerate(dict.fromkeys(canonical))}
    own = np.array([code[n] for n in canonical])
    return twins | (own[:, None] == own[None]) | np.eye(len(own), dtype=bool)


@dataclass(frozen=True)
class Others:
    """What the other models scored on one benchmark's n items, for each of M models.

    Attributes:
        mean: (n, M) o_j, mean of s_kj - sbar_kb over the other models k that answered; NaN where
            fewer than 5 did, or one of the halves has none.
        half: Two (n, M), the same over two random halves of the others, o'_j and o''_j.
    """

    mean: Array
    half: tuple[Array, Array]


def other_models(scores: Array, twins: Bools, seed: int = 0) -> Others:
    """The others' mean scores on one benchmark's items.

    A model's mean on the benchmark is taken off, so that who has answered an item does not
    make it look easy or hard (RULES M8); where everybody answered everything this changes
    nothing but a constant.

    Args:
        scores: (n, M) NaN where there is no answer.
        twins: (M, M) from `twin_models`.
        seed: Of the halves; each model's others are divided anew.
    """
    observed = np.isfinite(scores)
    seen = observed.astype(np.float64)
    filled = np.nan_to_num(scores)
    level = filled.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    centred = np.where(observed, scores - level, 0.0)
    rng = np.random.default_rng(seed)
    present = observed.any(axis=0)
    sides = np.zeros((2, *twins.shape))
    for i in range(len(twins)):
        others = rng.permutation(np.flatnonzero(~twins[i] & present))
        sides[0, others[0::2], i] = 1
        sides[1, others[1::2], i] = 1
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = [centred @ s for s in sides]
        counts = [seen @ s for s in sides]
        first, second = (t / np.where(n > 0, n, np.nan) for t, n in zip(sums, counts, strict=True))
        total = counts[0] + counts[1]
        mean = (sums[0] + sums[1]) / np.where(total > 0, total, np.nan)
    usable = (total >= FEWEST) & (counts[0] > 0) & (counts[1] > 0)
    return Others(
        np.where(usable, mean, np.nan),
        (np.where(usable, first, np.nan), np.where(usable, second, np.nan)),
    )


def slope_on_difficulty(score: Array, others: Others) -> Array:
    """(M,) lambda_ib, how far a model's score follows the others' mean; NaN where unknown.

        lambda = [cov(s, o') + cov(s, o'')] / (2 cov(o', o''))

    The noise of o' and o'' is independent, so it cancels in the denominator and lambda is not
    drawn towards 0 as a plain slope would be. Unknown where the halves share no difficulty
    (covariance not above 0) or fewer than 3 items count.

    Args:
        score: (n, M) NaN where there is no answer.
        others: Of the same items and models.
    """
    one, two = others.half
    known = np.isfinite(score) & np.isfinite(one) & np.isfinite(two)
    n = known.sum(axis=0)
    safe = np.maximum(n, 1)

    def centred(x: Array) -> Array:
        x = np.where(known, x, 0.0)
        return np.where(known, x - x.sum(axis=0) / safe, 0.0)

    s, a, b = centred(score), centred(one), centred(two)
    between = (a * b).sum(axis=0)
    usable = (n >= 3) & (between > 1e-12 * safe)
    top = (s * a).sum(axis=0) + (s * b).sum(axis=0)
    return np.where(usable, top / np.where(usable, 2 * between, 1.0), np.nan)


def difficulty_residuals(
    score: Array, others: Others, *, curve: bool = False
) -> tuple[Array, Array]:
    """(n, M) e_ij = (s_ij - sbar_ib) - lambda_ib (o_j - obar_b), and (M,) lambda_ib.

    Means run over the items that count: answered, and with a difficulty; others are NaN.

    Args:
        score: (n, M) NaN where there is no answer.
        others: Of the same items and models.
        curve: Whether to take off how e bends with o_j too (ours, not of RULES M8): its
            regression on o^2, o^3 and o^4, each without its constant and linear part, so that
            lambda stays what it is.
    """
    slope = slope_on_difficulty(score, others)
    known = np.isfinite(score) & np.isfinite(others.mean) & np.isfinite(slope)
    n = np.maximum(known.sum(axis=0), 1)

    def centred(x: Array) -> Array:
        return x - np.where(known, x, 0.0).sum(axis=0) / n

    e = centred(score) - np.nan_to_num(slope) * centred(others.mean)
    if curve:
        for i in np.flatnonzero(n > _BEND[-1] + 1).tolist():
            rows = known[:, i]
            e[rows, i] -= _bend(e[rows, i], others.mean[rows, i])
    return np.where(known, e, np.nan), slope


def _bend(e: Array, o: Array) -> Array:
    """(n,) regression of e on powers of o, each orthogonal to a constant and o."""
    size = float(o.std())
    if size < 1e-9:
        return np.zeros_like(e)
    x = (o - o.mean()) / size
    line = np.column_stack([np.ones_like(x), x])
    powers = np.column_stack([x**k for k in _BEND])
    powers -= line @ np.linalg.lstsq(line, powers, rcond=None)[0]
    return np.asarray(powers @ np.linalg.lstsq(powers, e, rcond=None)[0], np.float64)

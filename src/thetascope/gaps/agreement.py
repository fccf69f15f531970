"""Do two dictionaries tell the same story? And one dictionary read in two ways?

*Two dictionaries*: concepts are matched by the correlation of their activations over items,
without scores: mutual best, at least 0.5. Then effects T/A of the first on one half of the items
are rank-correlated with those of the second on the other half. The halves must be apart: on the
same items pure-noise scores agree at 0.8, because matched concepts share their noise. The
ceiling is the first dictionary against itself on the two halves.

*Two readings* (raw text and chat template, say) have the same concepts, so nothing is matched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.stats import rankdata

from thetascope.errors import InputError
from thetascope.evaluation import Estimate
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.moments import moments, n_eff
from thetascope.gaps.performance import LEAST, performance

LEAST_CORRELATION = 0.5
N_HALVES = 20
_BLOCK = 512


class Matched(NamedTuple):
    """Pairs of concepts of two dictionaries.

    Attributes:
        first, second: (K,) concepts. correlation: (K,) over the items they were matched on.
        share: Of the first dictionary's concepts that are active there.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    correlation: Array
    share: float


class Agreement(NamedTuple):
    """Rank correlations of effects between disjoint halves; mean and range over halves.

    Attributes:
        n_matched, share_matched, median_correlation: Of the matching.
        n_compared: Matched concepts with n_eff >= 10 on every half, in the mean.
        between: First dictionary on one half, second on the other.
        ceiling: First dictionary against itself.
        permuted: As `between`, with the scores permuted within benchmarks.
    """

    n_matched: int
    share_matched: float
    median_correlation: float
    n_compared: float
    between: Estimate
    ceiling: Estimate
    permuted: Estimate


def match_concepts(first: csr_matrix, second: csr_matrix) -> Matched:
    """Matches concepts by the correlation of their activations over the same items.

    Args:
        first: (N, C1) activations. second: (N, C2), the same items.

    Raises:
        InputError: The items are not as many.
    """
    if first.shape[0] != second.shape[0]:
        raise InputError(
            f"concepts are matched over the same items; found {first.shape[0]:,} and"
            f" {second.shape[0]:,}"
        )
    n = first.shape[0]
    (mean1, sd1), (mean2, sd2) = _mean_sd(first), _mean_sd(second)
    rows, columns = first.T.tocsr(), second.tocsc()
    best1 = np.zeros(first.shape[1], np.int64)
    value1 = np.full(first.shape[1], -np.inf)
    value2, best2 = np.full(second.shape[1], -np.inf), np.zeros(second.shape[1], np.int64)
    for start in range(0, first.shape[1], _BLOCK):
        stop = min(start + _BLOCK, first.shape[1])
        product = (rows[start:stop] @ columns).toarray() / n
        product -= np.outer(mean1[start:stop], mean2)
        with np.errstate(divide="ignore", invalid="ignore"):
            product /= np.outer(sd1[start:stop], sd2)
        product[~np.isfinite(product)] = -1
        best1[start:stop], value1[start:stop] = product.argmax(axis=1), product.max(axis=1)
        better = product.max(axis=0) > value2
        best2[better] = start + product.argmax(axis=0)[better]
        value2[better] = product.max(axis=0)[better]
    mutual = (best2[best1] == np.arange(len(best1))) & (value1 >= LEAST_CORRELATION)
    kept = np.flatnonzero(mutual)
    return Matched(kept, best1[kept], value1[kept], len(kept) / max(1, int((sd1 > 0).sum())))


def agreement(
    first: GapData, second: GapData, model: int, matched: Matched, *, length: bool = True,
    n: int = N_HALVES, seed: int = 0,
) -> Agreement:  # fmt: skip
    """How well two dictionaries agree on one model's effects.

    Args:
        first, second: The same items in the same order, and the same scores.
        model: Its column.
        matched: Pairs of concepts (`match_concepts`).
        length: Whether text length is a covariate.
        n: Random halves.
        seed: Of halves and permutations.
    """
    if first.item_ids != second.item_ids:
        raise InputError("two dictionaries are compared on the same items, found different ones")
    rng = np.random.default_rng(seed)
    one = first.with_scores(first.scores[:, [model]], ("m",))
    two = second.with_scores(second.scores[:, [model]], ("m",))
    found: dict[str, list[float]] = {"between": [], "ceiling": [], "permuted": []}
    sizes = []
    for _ in range(n):
        here = rng.random(first.n_items) < 0.5
        halves = np.flatnonzero(here), np.flatnonzero(~here)
        shuffled = _permuted(first, one.scores, rng)
        a1, e1 = _effects(one.take(halves[0]), matched.first, length)
        a2, e2 = _effects(two.take(halves[1]), matched.second, length)
        a3, e3 = _effects(one.take(halves[1]), matched.first, length)
        b1, f1 = _effects(one.with_scores(shuffled).take(halves[0]), matched.first, length)
        b2, f2 = _effects(two.with_scores(shuffled).take(halves[1]), matched.second, length)
        sizes.append(int((a1 & a2).sum()))
        found["between"].append(_spearman(e1, e2, a1 & a2))
        found["ceiling"].append(_spearman(e1, e3, a1 & a3))
        found["permuted"].append(_spearman(f1, f2, b1 & b2))
    return Agreement(
        len(matched.first), matched.share,
        float(np.median(matched.correlation)) if len(matched.first) else float("nan"),
        float(np.mean(sizes)),
        *(_range(found[k]) for k in ("between", "ceiling", "permuted")),  # type: ignore[misc]
    )  # fmt: skip


def readings(first: GapData, second: GapData, *, length: bool = True) -> pl.DataFrame:
    """One dictionary's gaps under two readings of the same items (template, threshold, ...).

    Returns:
        A row a scope and model: scope, model, n_both (concepts tested in both), spearman (of
        effects), gaps_first, gaps_second, gaps_both (q < .1, either direction).
    """
    rows = []
    for a, b in zip(performance(first, length=length), performance(second, length=length),
                    strict=True):  # fmt: skip
        both = a.table.join(b.table, on=["model", "concept"], suffix="_second")
        called = [
            (pl.col(f"q_low{s}") < 0.1) | (pl.col(f"q_high{s}") < 0.1) for s in ("", "_second")
        ]
        for model in first.models:
            here = both.filter(model=model)
            effects = here["effect"].to_numpy(), here["effect_second"].to_numpy()
            rows.append(
                {
                    "scope": a.scope, "model": model, "n_both": here.height,
                    "spearman": _spearman(*effects, np.ones(here.height, bool)),
                    "gaps_first": here.filter(called[0]).height,
                    "gaps_second": here.filter(called[1]).height,
                    "gaps_both": here.filter(called[0] & called[1]).height,
                }
            )  # fmt: skip
    return pl.DataFrame(rows)


def _mean_sd(matrix: csr_matrix) -> tuple[Array, Array]:
    mean = np.asarray(matrix.mean(axis=0))[0]
    square = np.asarray(matrix.multiply(matrix).mean(axis=0))[0]
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _effects(
    data: GapData, concepts: NDArray[np.int64], length: bool
) -> tuple[NDArray[np.bool_], Array]:
    """(K,) whether n_eff >= 10, and T/A over benchmarks."""
    t, mass, square = np.zeros((3, data.n_concepts))
    for b in range(len(data.benchmarks)):
        found = moments(data, b, length=length)
        t, mass = t + found.t[:, 0], mass + found.mass[:, 0]
        square = square + found.square[:, 0]
    enough = n_eff(mass, square) >= LEAST
    return enough[concepts], (t / np.maximum(mass, 1e-300))[concepts]


def _permuted(data: GapData, scores: Array, rng: np.random.Generator) -> Array:
    out = scores.copy()
    for part in data.parts:
        known = np.flatnonzero(np.isfinite(out[part, 0])) + part.start
        out[known, 0] = out[rng.permutation(known), 0]
    return out


def _spearman(a: Array, b: Array, keep: NDArray[np.bool_]) -> float:
    if keep.sum() < 3:
        return float("nan")
    x, y = rankdata(a[keep]), rankdata(b[keep])
    if x.std() == 0 or y.std() == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def _range(values: list[float]) -> Estimate:
    """Mean, least and most over halves."""
    known = [v for v in values if np.isfinite(v)]
    if not known:
        return Estimate(float("nan"), float("nan"), float("nan"))
    return Estimate(float(np.mean(known)), min(known), max(known))

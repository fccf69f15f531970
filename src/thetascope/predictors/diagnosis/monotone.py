"""Empirical item characteristic curves, tested for monotonicity.

An item's models are put in bins by their rest score (mean on the other items of the benchmark
that they answered). If ability on the benchmark is one number, the mean score may not fall from
one bin to the next. The statistic is the likelihood ratio of free bin means against isotonic
ones, its distribution a parametric bootstrap from the isotonic fit (Barlow, Bartholomew, Bremner
and Brunk, Statistical Inference under Order Restrictions, 1972).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import xlogy
from scipy.stats import false_discovery_control

from thetascope.predictors.base import Sample
from thetascope.predictors.diagnosis.discrimination import Tick

Array = NDArray[np.float64]

MIN_MODELS = 25
"""Fewer answers than this and an item's curve is not tested."""
BOOTSTRAPS = 500
MORE = 20_000
"""Bootstraps for an item of which at most `_RARE` of the first 500 reach its statistic: over
thousands of items a q below 0.05 needs p below 1 / 501."""
_RARE = 5
Q = 0.05
MAX_BINS = 10
_MODELS_A_BIN = 5
N_CURVES = 8
_CELLS = 1 << 20
"""Bin means of one block of bootstraps."""


@dataclass(frozen=True)
class Monotonicity:
    """Which items' curves fall somewhere.

    Attributes:
        why_not: Why nothing is reported; None where something is.
        counts: items, constant, with too few models, tested, not_monotone (q < 0.05).
        parts: part ('all' or a benchmark) -> tested, low_p (p < 0.05) and not_monotone.
        items: item_id, n_bins, statistic, p, q (null for items not tested).
        curves: The items of least p: item_id, p, q, and by bin the number of models, mean rest
            score, mean score and isotonic mean.
    """

    why_not: str | None
    counts: dict[str, int]
    parts: dict[str, dict[str, int]]
    items: pl.DataFrame
    curves: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        listed = self.items.filter(pl.col("q") < Q).sort("q", "statistic", descending=[False, True])
        return {
            "why_not": self.why_not,
            "counts": self.counts,
            "parts": self.parts,
            "not_monotone": listed.to_dicts(),
            "curves": self.curves,
        }


def isotonic(total: Array, n: Array) -> Array:
    """Weighted isotonic regression of bin means, vectorised.

    fit_k = max_{i <= k} min_{j >= k} sum(total_i..j) / sum(n_i..j), the max-min formula.

    Args:
        total: (..., K) sums of the scores by bin.
        n: (..., K) sizes of the bins, above 0, broadcast against `total`.

    Returns:
        (..., K) means that do not fall.
    """
    k = total.shape[-1]
    sums = np.concatenate([np.zeros((*total.shape[:-1], 1)), np.cumsum(total, axis=-1)], axis=-1)
    sizes = np.concatenate([np.zeros((*n.shape[:-1], 1)), np.cumsum(n, axis=-1)], axis=-1)
    out = np.full(total.shape, -np.inf)
    for i in range(k):
        least = np.full(total.shape[:-1], np.inf)
        for j in range(k - 1, i - 1, -1):
            mean = (sums[..., j + 1] - sums[..., i]) / (sizes[..., j + 1] - sizes[..., i])
            least = np.minimum(least, mean)
            out[..., j] = np.maximum(out[..., j], least)
    return np.clip(out, 0.0, 1.0)


def likelihood_ratio(total: Array, n: Array, fitted: Array) -> Array:
    """(...) twice the binomial log-likelihood of free bin means over that of the fitted."""
    free = total / n
    terms = xlogy(total, free) + xlogy(n - total, 1 - free)
    terms -= xlogy(total, fitted) + xlogy(n - total, 1 - fitted)
    return np.maximum(2 * terms.sum(axis=-1), 0.0)


def monotonicity(
    sample: Sample, *, bootstraps: int = BOOTSTRAPS, seed: int = 0, tick: Tick | None = None
) -> Monotonicity:
    """Tests every item's characteristic curve for monotonicity.

    min(10, models / 5) bins of equal size by rest score; ties in model order. p from
    `bootstraps` draws (`MORE` where they are too few to tell), q by Benjamini-Hochberg over
    the items tested. Not reported under `MIN_MODELS` answers, nor for graded scores, whose
    spread within a bin the binomial does not describe.

    Args:
        sample: N items with the responses of M models.
        bootstraps: Bootstraps of every item.
        seed: Of the draws.
        tick: Called with (done, total).
    """
    responses, benchmark = sample.responses, sample.items.benchmark
    seen = responses.observed
    answered = seen.sum(axis=1)
    score = responses.filled().astype(np.float64)
    right = score.sum(axis=1)
    constant = (right == 0) | (right == answered)
    rest, usable = _rest_scores(score, seen, benchmark)
    enough = usable.sum(axis=1) >= MIN_MODELS
    tested = enough & ~constant & responses.binary
    if not responses.binary:
        why = "scores are graded: the binomial test of a bin's mean does not hold for them"
    elif not tested.any():
        why = f"no item whose scores differ was answered by {MIN_MODELS} models or more"
    else:
        why = None
    counts = {
        "items": len(answered),
        "constant": int((constant & (answered > 0)).sum()),
        "too_few_models": int((~enough & ~(constant & (answered > 0))).sum()),
        "tested": int(tested.sum()),
    }
    width = np.minimum(MAX_BINS, usable.sum(axis=1) // _MODELS_A_BIN)
    statistic, p = np.full(len(answered), np.nan), np.full(len(answered), np.nan)
    rng = np.random.default_rng(seed)
    done = 0
    for k in np.unique(width[tested]).tolist():
        rows = np.flatnonzero(tested & (width == k))
        step = max(1, _CELLS // (bootstraps * k))
        for part in np.split(rows, range(step, len(rows), step)):
            if tick is not None:
                tick(done, counts["tested"])
            total, n, _ = _bins(score[part], rest[part], usable[part], k)
            statistic[part], p[part] = _test(total, n, bootstraps, rng)
            done += len(part)
    q = np.full(len(answered), np.nan)
    if tested.any():
        q[tested] = false_discovery_control(p[tested])
    sure = q < Q
    counts["not_monotone"] = int(sure.sum())
    worst = np.lexsort((-np.nan_to_num(statistic), np.nan_to_num(p, nan=2.0)))
    worst = worst[tested[worst]][:N_CURVES]
    items = pl.DataFrame(
        {
            "item_id": list(sample.items.ids),
            "n_bins": pl.Series(np.where(tested, width, 0)).replace(0, None),
            "statistic": statistic,
            "p": p,
            "q": q,
        }
    ).with_columns(pl.col("statistic", "p", "q").fill_nan(None))
    parts = {"all": np.ones(len(answered), bool)}
    parts |= {name: benchmark == b for b, name in enumerate(sample.items.benchmarks)}
    by_part = {
        name: {
            "tested": int((tested & rows).sum()),
            "low_p": int(((p < 0.05) & rows).sum()),
            "not_monotone": int((sure & rows).sum()),
        }
        for name, rows in parts.items()
    }
    curves = [
        {"item_id": sample.items.ids[i], "p": float(p[i]), "q": float(q[i])}
        | _curve(score[[i]], rest[[i]], usable[[i]], int(width[i]))
        for i in worst.tolist()
    ]
    return Monotonicity(why, counts, by_part, items, curves)


def _rest_scores(
    score: Array, seen: NDArray[np.bool_], benchmark: NDArray[np.int64]
) -> tuple[Array, NDArray[np.bool_]]:
    """(N, M) mean of the model's other answers on the item's benchmark, and where there is one
    beside an answer to the item."""
    width = int(benchmark.max(initial=0)) + 1
    total, n = np.zeros((width, score.shape[1])), np.zeros((width, score.shape[1]))
    np.add.at(total, benchmark, score)
    np.add.at(n, benchmark, seen)
    left = n[benchmark] - seen
    rest = (total[benchmark] - score) / np.maximum(left, 1)
    return rest, seen & (left > 0)


def _bins(
    score: Array, rest: Array, usable: NDArray[np.bool_], k: int
) -> tuple[Array, Array, Array]:
    """(n, k) sums of scores, numbers of models and sums of rest scores by bin of rest score."""
    order = np.argsort(np.where(usable, rest, np.inf), axis=1, kind="stable")
    n = usable.sum(axis=1)
    place = np.arange(score.shape[1])
    code = np.minimum(place * k // np.maximum(n, 1)[:, None], k)  # k: not answered
    inside = [code == b for b in range(k)]
    by_rest, by_score = (np.take_along_axis(x, order, axis=1) for x in (rest, score))
    total, size, rests = (
        np.stack([np.where(i, x, 0.0).sum(axis=1) for i in inside], axis=1)
        for x in (by_score, np.ones_like(score), by_rest)
    )
    return total, size, rests


def _test(total: Array, n: Array, bootstraps: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """(n,) statistics and their p, (1 + draws that reach it) / (1 + draws)."""
    fitted = isotonic(total, n)
    statistic = likelihood_ratio(total, n, fitted)
    reached = _reached(statistic, n, fitted, bootstraps, rng)
    p = (1 + reached) / (1 + bootstraps)
    for row in np.flatnonzero(reached <= _RARE).tolist():
        one = slice(row, row + 1)
        more = _reached(statistic[one], n[one], fitted[one], MORE, rng)
        p[row] = (1 + more[0]) / (1 + MORE)
    return statistic, p


def _reached(
    statistic: Array, n: Array, fitted: Array, draws: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """How many draws from the isotonic fit have a statistic as large."""
    size = n[:, None, :]
    total = rng.binomial(
        size.astype(np.int64), fitted[:, None, :], size=(len(n), draws, n.shape[1])
    ).astype(np.float64)
    again = likelihood_ratio(total, size, isotonic(total, size))
    return (again >= statistic[:, None] - 1e-9).sum(axis=1)


def _curve(score: Array, rest: Array, usable: NDArray[np.bool_], k: int) -> dict[str, Any]:
    total, n, rests = _bins(score, rest, usable, k)
    return {
        "n": n[0].astype(int).tolist(),
        "rest": (rests[0] / n[0]).tolist(),
        "mean": (total[0] / n[0]).tolist(),
        "isotonic": isotonic(total, n)[0].tolist(),
    }

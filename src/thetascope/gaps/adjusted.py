"""Difficulty-adjusted gaps: is the model bad at a concept, or are its items hard for everyone?

For model i, benchmark b and its items j (RULES M8):

    o_j = mean score of the other models on item j (no twins; `others`)
    lambda_ib = how far the model's score follows it (errors in variables, two random halves)
    e_ij = (s_ij - sbar_ib) - lambda_ib (o_j - obar_b)
    gap_adj(c) = sum_j a_j(c) e_ij / sum_j a_j(c)

A concept whose items are hard for everyone has a low raw score and gap_adj near 0; a gap of the
model's own stays, less what the model itself shares with the others' errors. Statistics as in
`residuals`. Nothing is said of a model where fewer than 5 others answered the same items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.gaps.data import Array, GapData
from thetascope.gaps.others import FEWEST, difficulty_residuals, other_models, twin_models
from thetascope.gaps.performance import ALL, Progress
from thetascope.gaps.residuals import ResidualGaps, residual_gaps


@dataclass(frozen=True)
class Adjustment:
    """Residuals after the others' difficulty, before they are set against concepts.

    Attributes:
        residuals: (N, M) e_ij, NaN where an item does not count.
        slope: (M, B) lambda_ib, NaN where it is not known.
        twins: (M, M) models that are not among each other's 'others'.
        n_others: (M, B) other models that answered anything of the benchmark.
    """

    residuals: Array
    slope: Array
    twins: NDArray[np.bool_]
    n_others: NDArray[np.int64]


def adjust(
    data: GapData, *, twins: Mapping[str, str] | None = None, curve: bool = False, seed: int = 0
) -> Adjustment:
    """Takes what the other models score off every model's scores.

    Args:
        data: Scores of items in benchmarks.
        twins: Model -> canonical name.
        curve: As in `difficulty_residuals`.
        seed: Of the random halves of the others.
    """
    same = twin_models(data, twins)
    residuals = np.full(data.scores.shape, np.nan)
    shape = (len(data.models), len(data.benchmarks))
    slope, n_others = np.full(shape, np.nan), np.zeros(shape, np.int64)
    for b, part in enumerate(data.parts):
        score = data.scores[part]
        present = np.isfinite(score).any(axis=0)
        n_others[:, b] = (~same & present).sum(axis=1)
        if not present.any():
            continue
        others = other_models(score, same, seed)
        residuals[part], slope[:, b] = difficulty_residuals(score, others, curve=curve)
    return Adjustment(residuals, slope, same, n_others)


def adjusted(
    data: GapData, *, twins: Mapping[str, str] | None = None, length: bool = True,
    curve: bool = False, seed: int = 0, progress: Progress | None = None,
) -> list[ResidualGaps] | None:  # fmt: skip
    """Difficulty-adjusted gaps of every model on every concept.

    Args:
        data: Activations and scores.
        twins: Model -> canonical name; models of one name are not each other's 'others'.
        length: Whether text length is a covariate.
        curve: Whether to take off more than a line in the others' mean, see
            `difficulty_residuals`; for models far above or below the others.
        seed: Of the random halves of the others.
        progress: Called with (done, total, what).

    Returns:
        'all' first where there are several benchmarks, then each benchmark. `models` adds
        n_not_adjusted (items that the model answered and that do not count), slope (lambda; the
        mean over benchmarks for 'all'), n_others and twins (names). None where no model has 5
        others: nothing is reported.
    """
    found = adjust(data, twins=twins, curve=curve, seed=seed)
    if not np.isfinite(found.residuals).any():
        return None
    scopes = residual_gaps(
        data, found.residuals, length=length, progress=progress, what="adjusted gaps"
    )
    return [_described(data, found, scope) for scope in scopes]


def _described(data: GapData, found: Adjustment, scope: ResidualGaps) -> ResidualGaps:
    whole = scope.scope == ALL and len(data.benchmarks) > 1
    chosen = range(len(data.benchmarks)) if whole else [data.benchmarks.index(scope.scope)]
    answered = np.zeros(len(data.models), np.int64)
    for b in chosen:
        answered += np.isfinite(data.scores[data.parts[b]]).sum(axis=0)
    slope = found.slope[:, list(chosen)]
    known = np.isfinite(slope)
    mean = np.where(known, slope, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    level = [float(v) if k else None for v, k in zip(mean, known.sum(axis=1) > 0, strict=True)]
    names = [
        [data.models[k] for k in np.flatnonzero(row).tolist() if k != i]
        for i, row in enumerate(found.twins)
    ]
    models = scope.models.with_columns(
        (pl.Series(answered) - pl.col("n_items")).alias("n_not_adjusted"),
        pl.Series("slope", level, dtype=pl.Float64),
        pl.Series("n_others", found.n_others[:, list(chosen)].max(axis=1)),
        pl.Series("twins", names, dtype=pl.List(pl.String)),
    )  # fmt: skip
    return replace(scope, models=models, meta={"fewest_others": FEWEST})

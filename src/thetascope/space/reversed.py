"""Items that weaker models get right more often than stronger ones: where a scalar fails.

The slope of item j is the correlation over its models of their scores on it with their overall
ability (how far their means on the benchmarks they answered lie above those of all models). A
scalar difficulty says that every slope is positive; a space can foresee a negative one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from thetascope.evaluation import Estimate
from thetascope.evaluation.columns import spearman

Array = NDArray[np.float64]
FEWEST_MODELS = 8
"""Models that must have answered an item, not all alike, for it to have a slope."""


@dataclass(frozen=True)
class Reversed:
    """Slopes of the tested items.

    Attributes:
        n_items: With a slope (8 models and more, not all alike).
        n_models: Median of models behind a slope.
        negative: Items whose slope is below 0.
        surely_negative: Items whose slope is below 0 at one-sided 5 % (Fisher's z).
        by_chance: Items that would be so if every slope were 0; where slopes are mostly
            positive, fewer.
        foreseen: Rank correlation of the slopes that the space predicts with those observed.
        items: The surest (item id, slope observed, slope predicted), 20 at most.
    """

    n_items: int
    n_models: float
    negative: int
    surely_negative: int
    by_chance: float
    foreseen: Estimate
    items: list[tuple[str, float, float]]

    def to_json(self) -> dict[str, Any]:
        """Plain objects."""
        return {**vars(self), "foreseen": [None if v != v else v for v in self.foreseen]}


def slopes(value: Array, observed: NDArray[np.bool_], ability: Array) -> Array:
    """(n,) correlation over an item's models of value with ability; NaN where there is none.

    Args:
        value: (n, M) scores, or predicted chances.
        observed: (n, M) models that answered.
        ability: (M,) overall.
    """
    w = observed.astype(np.float64)
    n = w.sum(axis=1)
    safe = np.maximum(n, 1)
    x = np.where(observed, value, 0.0)
    mean_x, mean_a = x.sum(axis=1) / safe, (w @ ability) / safe
    gap_x = np.where(observed, value - mean_x[:, None], 0.0)
    gap_a = np.where(observed, ability[None, :] - mean_a[:, None], 0.0)
    size = np.sqrt(np.square(gap_x).sum(axis=1) * np.square(gap_a).sum(axis=1))
    usable = (n >= FEWEST_MODELS) & (size > 1e-12)
    return np.where(usable, (gap_x * gap_a).sum(axis=1) / np.where(usable, size, 1.0), np.nan)


def reversed_items(
    ids: list[str], expected: Array, found: Array, observed: NDArray[np.bool_],
    group: NDArray[np.int64], weights: NDArray[np.float32],
) -> Reversed:  # fmt: skip
    """Counts negative slopes and asks whether the space foresaw them.

    Args:
        ids: n item ids.
        expected, found: (n,) slopes of predictions and of scores.
        observed: (n, M).
        group, weights: Of the bootstrap.
    """
    rows = np.flatnonzero(np.isfinite(found) & np.isfinite(expected))
    n = observed[rows].sum(axis=1)
    z = np.arctanh(np.clip(found[rows], -0.999999, 0.999999)) * np.sqrt(np.maximum(n - 3, 1))
    sure = z < float(ndtri(0.05))
    foreseen = Estimate(float("nan"), float("nan"), float("nan"))
    if len(rows) >= 10:
        e = spearman(expected[rows][:, None], found[rows], group[rows], weights)
        foreseen = Estimate(float(e.value[0]), float(e.low[0]), float(e.high[0]))
    order = np.argsort(z, kind="stable")[:20]
    listed = [
        (ids[j], float(found[j]), float(expected[j])) for j in rows[order[sure[order]]].tolist()
    ]
    return Reversed(
        len(rows), float(np.median(n)) if len(rows) else 0.0, int((found[rows] < 0).sum()),
        int(sure.sum()), 0.05 * len(rows), foreseen, listed,
    )  # fmt: skip

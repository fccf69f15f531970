"""Probes: an axis of the space from two sets of items.

    v = mean_{A} u_j - mean_{B} u_j          (difference of means)

Items project on it by u_j . v / |v|. The same on raw text vectors e_j says what the space adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.errors import InputError
from thetascope.evaluation import Estimate, partition
from thetascope.evaluation.metrics import auc
from thetascope.space.fitted import Space

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int64]
REPLICATES = 1000
FOLDS = 5
FEWEST = 5
"""Items that either side needs."""


class Separation(NamedTuple):
    """How well an axis tells held-out labelled items apart.

    Attributes:
        space: Area under the curve on the axis of directions, 95 % interval over groups.
        text: The same for raw text vectors.
        difference: space - text, paired.
        n_positive, n_negative: Labelled items that the axis never saw.
    """

    space: Estimate
    text: Estimate
    difference: Estimate
    n_positive: int
    n_negative: int


@dataclass(frozen=True)
class Probe:
    """An axis, how well it separates, and where items and models lie on it.

    Attributes:
        axis: (d,) unit vector.
        n_positive, n_negative: Items that it was made from.
        separation: On labelled items that it never saw: the given ones, else by five folds of
            its own items (groups of near-duplicates whole).
        held_out: 'given' or 'five folds'.
        projection: (N,) u_j . v / |v| of every item.
        models: M rows (name, projected ability less the models' mean, low, high), highest first;
            95 % by bootstrap over the items of the two sets.
    """

    axis: Array
    n_positive: int
    n_negative: int
    separation: Separation
    held_out: str
    projection: Array
    models: list[tuple[str, float, float, float]]

    def to_json(self) -> dict[str, Any]:
        """Plain objects, without the items' projections."""
        return {
            "n_positive": self.n_positive,
            "n_negative": self.n_negative,
            "held_out": self.held_out,
            "separation": self.separation._asdict(),
            "models": self.models,
        }


def probe(
    space: Space, positive: Bools, negative: Bools, group: Codes, *,
    labels: tuple[Bools, Bools] | None = None, seed: int = 0,
) -> Probe:  # fmt: skip
    """Makes an axis from two sets of items and measures it.

    Args:
        space: N items in a fitted space.
        positive, negative: (N,) the two sets; no item in both.
        group: (N,) near-duplicate group.
        labels: (N,) positives and negatives among items that the axis must not see, to measure
            it on; None for five folds of the two sets.
        seed: Of folds and replicates.

    Raises:
        InputError: A set is too small or the sets share an item.
    """
    _check("positive", positive)
    _check("negative", negative)
    if (positive & negative).any():
        j = int(np.flatnonzero(positive & negative)[0])
        raise InputError(f"item {space.items.ids[j]!r} is in both sets")
    vectors = _vectors(space)
    if labels is None:
        scores, truth, rows = _crossfit(space.direction, vectors, positive, negative, group, seed)
        how = "five folds"
    else:
        scores, truth, rows = _given(space.direction, vectors, positive, negative, labels, group)
        how = "given"
    found = _separation(scores, truth, group[rows], seed)
    axis = difference_axis(space.direction, positive, negative)
    return Probe(
        axis, int(positive.sum()), int(negative.sum()), found, how, space.direction @ axis,
        _models(space, positive, negative, group, axis, seed),
    )  # fmt: skip


def difference_axis(x: Array, positive: Bools, negative: Bools) -> Array:
    """(d,) unit difference of the two sets' means."""
    axis = x[positive].mean(axis=0) - x[negative].mean(axis=0)
    return axis / max(float(np.linalg.norm(axis)), 1e-12)


def _check(side: str, chosen: Bools) -> None:
    n = int(chosen.sum())
    if n < FEWEST:
        raise InputError(f"the {side} set holds {n} items with text vectors; expected {FEWEST}")


def _vectors(space: Space) -> Array:
    assert space.items.vectors is not None
    return space.items.vectors.astype(np.float64)


def _crossfit(
    direction: Array, vectors: Array, positive: Bools, negative: Bools, group: Codes, seed: int
) -> tuple[Array, Bools, Codes]:
    """Projections (n, 2) of the sets' own items, each on an axis made without its fold."""
    rows = np.flatnonzero(positive | negative)
    truth = positive[rows]
    _, local = np.unique(group[rows], return_inverse=True)
    fold = partition(local, truth.astype(np.int64), n_folds=FOLDS, seed=seed)
    out = np.zeros((len(rows), 2))
    for k in range(FOLDS):
        here, rest = fold == k, fold != k
        if not (truth[rest].any() and (~truth[rest]).any()):
            raise InputError("the sets' near-duplicates leave nothing to learn the axis from")
        for column, x in enumerate((direction[rows], vectors[rows])):
            axis = difference_axis(x, truth & rest, ~truth & rest)
            centre = (x[truth & rest].mean(axis=0) + x[~truth & rest].mean(axis=0)) / 2
            out[here, column] = (x[here] - centre) @ axis
    return out, truth, rows


def _given(
    direction: Array, vectors: Array, positive: Bools, negative: Bools,
    labels: tuple[Bools, Bools], group: Codes,
) -> tuple[Array, Bools, Codes]:  # fmt: skip
    seen = np.isin(group, np.unique(group[positive | negative]))
    yes, no = labels[0] & ~seen, labels[1] & ~seen
    _check("held-out positive", yes)
    _check("held-out negative", no)
    rows = np.flatnonzero(yes | no)
    out = np.stack(
        [x[rows] @ difference_axis(x, positive, negative) for x in (direction, vectors)], axis=1
    )
    return out, yes[rows], rows


def _separation(scores: Array, truth: Bools, group: Codes, seed: int) -> Separation:
    _, local = np.unique(group, return_inverse=True)
    n = int(local.max()) + 1
    members = np.split(np.argsort(local, kind="stable"), np.cumsum(np.bincount(local))[:-1])
    rng = np.random.default_rng(seed)
    s = truth.astype(np.float64)
    point = np.array([auc(scores[:, c], s) for c in range(2)])
    draws = []
    for _ in range(REPLICATES):
        rows = np.concatenate([members[g] for g in rng.integers(0, n, n).tolist()])
        if 0 < s[rows].sum() < len(rows):
            draws.append([auc(scores[rows, c], s[rows]) for c in range(2)])
    drawn = np.array(draws)
    return Separation(
        _estimate(point[0], drawn[:, 0]), _estimate(point[1], drawn[:, 1]),
        _estimate(point[0] - point[1], drawn[:, 0] - drawn[:, 1]),
        int(truth.sum()), int((~truth).sum()),
    )  # fmt: skip


def _models(
    space: Space, positive: Bools, negative: Bools, group: Codes, axis: Array, seed: int
) -> list[tuple[str, float, float, float]]:
    """Projected ability of every model on the axis, less the mean over models."""
    gap = space.ability - space.mean_ability
    sums, counts = [], []
    for chosen in (positive, negative):
        rows = np.flatnonzero(chosen)
        _, local = np.unique(group[rows], return_inverse=True)
        total = np.zeros((int(local.max()) + 1, space.direction.shape[1]))
        np.add.at(total, local, space.direction[rows])
        sums.append(total)
        counts.append(np.bincount(local).astype(np.float64))
    rng = np.random.default_rng(seed)
    drawn = np.empty((REPLICATES, len(space.models)))
    for r in range(REPLICATES):
        means = []
        for total, count in zip(sums, counts, strict=True):
            times = np.bincount(rng.integers(0, len(count), len(count)), minlength=len(count))
            means.append(times @ total / (times @ count))
        v = means[0] - means[1]
        drawn[r] = gap @ v / max(float(np.linalg.norm(v)), 1e-12)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    value = gap @ axis
    return [
        (space.models[i], float(value[i]), float(low[i]), float(high[i]))
        for i in np.argsort(-value, kind="stable").tolist()
    ]


def _estimate(value: float, drawn: Array) -> Estimate:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(float(value), float(low), float(high))

"""Which concepts make an item hard, and which make a cluster: sparse regression on concepts.

    y_j = z_j . g + sum_c x_j(c) w_c + noise,    x(c) = log1p(a(c)) standardised

y is an item's difficulty r_j, or where it lies on a cluster's direction (topic_j . centre_k).
z is not penalised: a dummy for each benchmark and the log of the text's length. w is a lasso
over concepts that are active on at least 10 items. What counts is the held-out R2 less that of z
alone: groups of near-duplicates stay whole in five outer folds; within each, the concepts are
screened, the penalty is chosen by four inner folds, and nothing of the outer fold is seen.

Screening keeps, of the training items alone, the concepts with the largest partial correlation
with y given z, so that no dense matrix of all concepts is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import lasso_path

from thetascope.errors import InputError
from thetascope.evaluation import Estimate, estimate, partition, replicate_weights
from thetascope.gaps.axes import common_items
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.performance import Progress
from thetascope.gaps.sparse import column_sums
from thetascope.space.fitted import Space

Codes = NDArray[np.int64]
LEAST_ITEMS = 10
SCREENED = 400
OUTER, INNER = 5, 4
PENALTIES = 40
_RANGE = 1e-3
"""Smallest penalty over the largest."""
_FEWEST = 50


class Coefficient(NamedTuple):
    """A concept in the fit to all items.

    Attributes:
        concept: Its number.
        label: Its label.
        weight: Change of y, in its standard deviations, for one of x.
        n_items: Items on which it is active.
        folds: Outer folds (of 5) in which its coefficient was not 0.
    """

    concept: int
    label: str
    weight: float
    n_items: int
    folds: int


@dataclass(frozen=True)
class Explanation:
    """How far concepts explain one number of every item.

    Attributes:
        target: What was explained.
        n_items, n_concepts: Items, and concepts that were offered.
        base: Held-out R2 of benchmark and length alone.
        full: Held-out R2 with concepts.
        gain: full - base, paired, 95 % over near-duplicate groups.
        coefficients: Of the fit to all items, largest absolute weight first.
    """

    target: str
    n_items: int
    n_concepts: int
    base: Estimate
    full: Estimate
    gain: Estimate
    coefficients: tuple[Coefficient, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain objects."""
        return {
            "target": self.target, "n_items": self.n_items, "n_concepts": self.n_concepts,
            "base": list(self.base), "full": list(self.full), "gain": list(self.gain),
            "coefficients": [c._asdict() for c in self.coefficients],
        }  # fmt: skip


def explain_space(
    space: Space, data: GapData, centres: Array | None = None, *, seed: int = 0,
    progress: Progress | None = None,
) -> list[Explanation]:  # fmt: skip
    """Explains r_j, and where items lie on each cluster's direction.

    Args:
        space: Items in a fitted space.
        data: Activations of the same study.
        centres: (K, d) cluster centres of `space.topic` (spherical clusters); None for none.
        seed: Of folds and replicates.
        progress: Called with (done, total, what).
    """
    here, there = common_items(space, data)
    part = data.take(here)
    targets = {"difficulty": space.norm[there]}
    for k, centre in enumerate([] if centres is None else centres):
        targets[f"cluster {k}"] = space.topic[there] @ centre
    out: list[Explanation] = []
    for turn, (name, y) in enumerate(targets.items()):
        if progress is not None:
            progress(turn, len(targets), f"explaining {name}")
        out.append(explain(y, part, name, seed=seed))
    return out


def explain(y: Array, data: GapData, target: str, *, seed: int = 0) -> Explanation:
    """Explains one number of every item by its concepts.

    Args:
        y: (N,) the number, in the order of `data`.
        data: Activations, benchmarks, lengths and groups.
        target: Its name.
        seed: Of folds and replicates.

    Raises:
        InputError: There are fewer than 50 items, or y is the same on all.
    """
    if len(y) < _FEWEST:
        raise InputError(f"{len(y)} items are too few to explain {target}: {_FEWEST} are needed")
    if float(np.std(y)) < 1e-12:
        raise InputError(f"{target} is the same on all items")
    offered = np.flatnonzero(column_sums(data.active) >= LEAST_ITEMS)
    x = log_activations(data.activations, offered)
    z = unpenalised(data)
    _, group = np.unique(data.group, return_inverse=True)
    folds = partition(group, data.benchmark, n_folds=OUTER, seed=seed)
    base, full = np.empty(len(y)), np.empty(len(y))
    chosen = np.zeros(len(offered), np.int64)
    for f in range(OUTER):
        test, train = np.flatnonzero(folds == f), np.flatnonzero(folds != f)
        fit = _choose(x, z, y, group, data.benchmark, train, seed)
        base[test] = z[test] @ fit.ground
        full[test] = fit.predict(x, z, test)[:, 0]
        chosen[fit.columns[fit.weight[:, 0] != 0]] += 1
    whole = _choose(x, z, y, group, data.benchmark, np.arange(len(y)), seed)
    found = _r2(y, base, full, group, seed)
    n_active = column_sums(data.active)
    weight = whole.weight[:, 0]
    order = np.argsort(-np.abs(weight), kind="stable")
    told = tuple(
        Coefficient(
            int(offered[c]), data.labels[offered[c]], float(weight[k] / np.std(y)),
            int(n_active[offered[c]]), int(chosen[c]),
        )
        for k, c in ((k, int(whole.columns[k])) for k in order if weight[k] != 0)
    )  # fmt: skip
    return Explanation(target, len(y), len(offered), *found, told)


def log_activations(activations: csr_matrix, concepts: Codes) -> csr_matrix:
    """(N, C') log1p(a); zeros stay zeros."""
    held = csr_matrix(activations[:, concepts])
    return csr_matrix((np.log1p(held.data), held.indices, held.indptr), shape=held.shape)


def unpenalised(data: GapData) -> Array:
    """(N, p) a dummy for each benchmark with items, and the log of the text's length."""
    present = np.unique(data.benchmark)
    dummies = (data.benchmark[:, None] == present).astype(np.float64)
    length = np.log(data.n_tokens.astype(np.float64))
    length = length - length.mean()
    return np.column_stack([dummies, length]) if np.ptp(length) > 1e-9 else dummies


@dataclass(frozen=True)
class _Lasso:
    """Fits along K penalties.

    Attributes:
        columns: (p,) of x, with their mean and scale.
        weight: (p, K) of the standardised columns.
        ground: (q,) of z where nothing else is in.
        beside: (q, K) of z beside the concepts.
    """

    columns: Codes
    mean: Array
    scale: Array
    weight: Array
    ground: Array
    beside: Array

    def predict(self, x: csr_matrix, z: Array, rows: Codes) -> Array:
        """(n, K)."""
        dense = (x[rows][:, self.columns].toarray() - self.mean) / self.scale
        return z[rows] @ self.beside + dense @ self.weight

    def last(self) -> _Lasso:
        """The fit at the smallest penalty alone."""
        return replace(self, weight=self.weight[:, -1:], beside=self.beside[:, -1:])


def _choose(
    x: csr_matrix, z: Array, y: Array, group: Codes, benchmark: Codes, rows: Codes, seed: int
) -> _Lasso:
    """The lasso on these rows with the penalty that inner folds choose."""
    _, local = np.unique(group[rows], return_inverse=True)
    folds = partition(local, benchmark[rows], n_folds=INNER, seed=seed + 1)
    ratios = np.geomspace(1.0, _RANGE, PENALTIES)
    error = np.zeros(PENALTIES)
    for f in range(INNER):
        train, test = rows[folds != f], rows[folds == f]
        if not len(train) or not len(test):
            continue
        told = _path(x, z, y, train, ratios).predict(x, z, test)
        error += np.square(y[test, None] - told).sum(axis=0)
    best = int(np.argmin(error))
    return _path(x, z, y, rows, ratios[: best + 1]).last()


def _path(x: csr_matrix, z: Array, y: Array, rows: Codes, ratios: Array) -> _Lasso:
    """Lasso fits along penalties given as shares of the one that leaves nothing in.

    Both y and x are put orthogonal to z first, which is the same as leaving z unpenalised
    (Frisch, Waugh and Lovell).
    """
    columns = _screen(x, z, y, rows)
    dense = x[rows][:, columns].toarray()
    mean, scale = dense.mean(axis=0), dense.std(axis=0)
    scale[scale < 1e-12] = 1.0
    dense = (dense - mean) / scale
    q = _basis(z[rows])
    ground = _least_squares(z[rows], y[rows])
    rest = y[rows] - q @ (q.T @ y[rows])
    free = np.asfortranarray(dense - q @ (q.T @ dense))
    gram, against = free.T @ free, free.T @ rest
    largest = float(np.abs(against).max(initial=0.0)) / len(rows)
    if largest < 1e-15:
        nothing = np.zeros((len(columns), len(ratios)))
        same = np.repeat(ground[:, None], len(ratios), axis=1)
        return _Lasso(columns, mean, scale, nothing, ground, same)
    # pyright reads the defaults of scikit-learn's arguments as their types
    settings: dict[str, Any] = {"alphas": largest * ratios, "precompute": gram, "Xy": against}
    _, weights, _ = lasso_path(free, rest, **settings, max_iter=2000, tol=1e-3)
    beside = _least_squares(z[rows], dense @ weights)
    return _Lasso(columns, mean, scale, weights, ground, ground[:, None] - beside)


def _least_squares(z: Array, y: Array) -> Array:
    return np.asarray(np.linalg.lstsq(z, y, rcond=None)[0], np.float64)


def _basis(z: Array) -> Array:
    """(n, r) orthonormal basis of z's columns, whose rank may be less than their number."""
    u, size, _ = np.linalg.svd(z, full_matrices=False)
    return np.asarray(u[:, size > 1e-9 * size[0]], np.float64)


def _screen(x: csr_matrix, z: Array, y: Array, rows: Codes) -> Codes:
    """Columns with the largest partial correlation with y given z on these rows (sparse)."""
    if x.shape[1] <= SCREENED:
        return np.arange(x.shape[1])
    q = _basis(z[rows])
    rest = y[rows] - q @ (q.T @ y[rows])
    part = x[rows]
    square = column_sums(part.multiply(part))
    left = square - np.square(np.asarray(part.T @ q)).sum(axis=1)
    usable = left > 1e-9 * np.maximum(square, 1e-30)
    strength = np.where(usable, np.abs(np.asarray(part.T @ rest)), 0.0)
    strength = strength / np.sqrt(np.where(usable, left, 1.0))
    return np.sort(np.argsort(-strength, kind="stable")[:SCREENED])


def _r2(
    y: Array, base: Array, full: Array, group: Codes, seed: int
) -> tuple[Estimate, Estimate, Estimate]:
    """Held-out R2 against the mean of y, of both predictions and their difference."""
    weights = replicate_weights(int(group.max()) + 1, seed).astype(np.float64)
    n_groups = weights.shape[1]

    def sums(value: Array) -> Array:
        return weights @ np.bincount(group, value, minlength=n_groups)

    centre = y - y.mean()
    n, first, second = sums(np.ones(len(y))), sums(centre), sums(np.square(centre))
    spread = second - np.square(first) / n
    points, draws = [], []
    for p in (base, full):
        miss = np.square(y - p)
        points.append(1 - float(miss.sum() / np.square(centre).sum()))
        draws.append(1 - sums(miss) / spread)
    return (
        estimate(points[0], draws[0]), estimate(points[1], draws[1]),
        estimate(points[1] - points[0], draws[1] - draws[0]),
    )  # fmt: skip

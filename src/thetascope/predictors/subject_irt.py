"""2PL with one ability a subject: between-item multidimensional IRT (Adams et al. 1997).

    logit_ij = a_j theta_{i, s(j)} + c_j,   theta_i ~ N(0, Sigma)

s(j) is the item's subject (its benchmark where there are no subjects, or few items in one).
Sigma, learnt from the models, says how far abilities go together, so that answers on one
subject inform the others. (a_j, c_j) have no parametric prior: each benchmark's distribution is
estimated by nonparametric maximum likelihood on a grid (Laird 1978; Bock & Aitkin 1981 for the
EM), and an item gets the logistic curve nearest to its posterior predictive curve. Items learnt
from few models are thereby as flat as they should be, and items that all models miss at random
(a wrong key, say) get a_j near 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from thetascope.errors import InputError
from thetascope.predictors.base import ItemFeatures, Predictor, Probabilities, Sample
from thetascope.predictors.logit_space import LogitSpace

Array = NDArray[np.float64]

_SLOPES = np.r_[-0.5, -0.25, np.arange(0, 3.26, 0.25)]
_INTERCEPTS = np.arange(-7, 8.01, 0.5)
GRID_A, GRID_C = (g.ravel() for g in np.meshgrid(_SLOPES, _INTERCEPTS, indexing="ij"))
"""Support of the distribution of (a, c), per standard deviation of ability."""
_CURVE = np.linspace(-2.6, 2.6, 14)
_CURVE_WEIGHT = np.exp(-0.5 * np.square(_CURVE / 1.2))
_SMOOTH = 1e-3
"""Share of the items' mass spread over the grid, so that no point dies."""
_PRIOR_MODELS = 0.5
"""Models' worth of identity in Sigma, so that it has an inverse."""


class _Data(NamedTuple):
    score: Array  # (N, M), 0 where there is none
    weight: Array  # (N, M), 0 where there is none
    benchmark: NDArray[np.int64]  # (N,)
    dim: NDArray[np.int64]  # (N,)


@dataclass
class SubjectIRT(Predictor):
    """2PL with correlated abilities, one a subject or a benchmark.

    Attributes:
        by: What has an ability of its own: 'subject' or 'benchmark'.
        min_items: Subjects with fewer items share the ability of their benchmark.
        rounds: Alternations of items and models.
        em_steps: EM steps on the items' distribution in a round.
    """

    by: Literal["subject", "benchmark"] = "subject"
    min_items: int = 25
    rounds: int = 6
    em_steps: int = 12

    NAME: ClassVar[str] = "subject_irt"

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        responses = train.responses
        observed = responses.observed
        if not observed.any():
            raise InputError("there are no responses to learn from")
        weight = observed.astype(np.float64)
        if responses.weights is not None:
            weight = weight * responses.weights
        self.models_ = responses.models
        self._name_dimensions(train.items)
        data = _Data(
            responses.filled().astype(np.float64),
            weight,
            train.items.benchmark,
            self._dimension(train.items),
        )
        self._alternate(data, len(train.items.benchmarks))
        self.items_ = train.items
        self.dim_of_item_ = data.dim
        return self

    def logit_space(self, items: ItemFeatures | None = None) -> LogitSpace:
        """The fitted space; of these items where given (an unseen one gets the mean item).

        Returns:
            d = number of abilities; x_j is a_j at the item's ability, else 0.
        """
        slope, intercept, dim = self.slope_, self.intercept_, self.dim_of_item_
        if items is None:
            items = self.items_
        else:
            slope, intercept, dim = self._parameters(items)
        design = np.zeros((len(items), self.ability_.shape[1]))
        design[np.arange(len(items)), dim] = slope
        return LogitSpace(
            items.ids, items.benchmark, items.benchmarks, design, intercept, self.models_,
            self.ability_, spread=self.spread_,
        )  # fmt: skip

    def _predict(self, items: ItemFeatures) -> Probabilities:
        slope, intercept, dim = self._parameters(items)
        return expit(slope[:, None] * self.ability_[:, dim].T + intercept[:, None])

    def _parameters(self, items: ItemFeatures) -> tuple[Array, Array, NDArray[np.int64]]:
        """(N,) a, c and ability's index; the benchmark's mean item for one never seen."""
        row = {item: j for j, item in enumerate(self.items_.ids)}
        found = np.array([row.get(item, -1) for item in items.ids], np.int64)
        dim = self._dimension(items)
        slope, intercept = self.slope_[found], self.intercept_[found]
        place = {name: b for b, name in enumerate(self.items_.benchmarks)}
        for j in np.flatnonzero(found < 0):
            b = place.get(items.benchmarks[items.benchmark[j]])
            like = slice(None) if b is None else self.items_.benchmark == b
            slope[j], intercept[j] = self.slope_[like].mean(), self.intercept_[like].mean()
        return slope, intercept, dim

    def _name_dimensions(self, items: ItemFeatures) -> None:
        names = self._names(items)
        if self.by == "subject":
            _, code, count = np.unique(names, return_inverse=True, return_counts=True)
            parents = np.array([items.benchmarks[b] for b in items.benchmark], object)
            names = np.where(count[code] >= self.min_items, names, parents)
        self.dimensions_ = tuple(dict.fromkeys(names.tolist()))

    def _names(self, items: ItemFeatures) -> NDArray[np.object_]:
        table, code = (
            (items.subjects, items.subject)
            if self.by == "subject"
            else (items.benchmarks, items.benchmark)
        )
        return np.array([table[c] for c in code], object)

    def _dimension(self, items: ItemFeatures) -> NDArray[np.int64]:
        """Ability of each item; its benchmark's, else the first, where its own is unknown."""
        place = {name: k for k, name in enumerate(self.dimensions_)}
        parents = [items.benchmarks[b] for b in items.benchmark]
        names = zip(self._names(items).tolist(), parents, strict=True)
        return np.array([place.get(n, place.get(p, 0)) for n, p in names], np.int64)

    def _alternate(self, data: _Data, n_benchmarks: int) -> None:
        n_dims = len(self.dimensions_)
        ability, known = _start(data, n_dims)
        spread = np.zeros((len(ability), n_dims, n_dims))
        ability, spread = _standardised(ability, spread, known)
        sigma = np.full((n_dims, n_dims), 0.7) + 0.3 * np.eye(n_dims)
        mass = [np.full(len(GRID_A), 1 / len(GRID_A))] * n_benchmarks
        slope = intercept = np.zeros(0)
        for turn in range(self.rounds):
            slope, intercept = np.zeros(len(data.dim)), np.zeros(len(data.dim))
            for b in range(n_benchmarks):
                rows = np.flatnonzero(data.benchmark == b)
                if len(rows):
                    fit = _items(data, rows, ability, mass[b], self.em_steps)
                    slope[rows], intercept[rows], mass[b] = fit
            ability, spread = _models(data, slope, intercept, ability, sigma)
            if turn < self.rounds - 1:
                ability, spread = _standardised(ability, spread, known)
            second = ability.T @ ability + spread.sum(axis=0) + _PRIOR_MODELS * np.eye(n_dims)
            sigma = second / (len(ability) + _PRIOR_MODELS)
        self.slope_, self.intercept_, self.ability_ = slope, intercept, ability
        self.spread_, self.sigma_ = spread, sigma


def _start(data: _Data, n_dims: int) -> tuple[Array, NDArray[np.bool_]]:
    """(M, K) first abilities from mean scores, and where there is an answer."""
    mean = ((data.score * data.weight).sum(1) + 1) / (data.weight.sum(1) + 2)
    n_models = data.score.shape[1]
    ability, known = np.zeros((n_models, n_dims)), np.zeros((n_models, n_dims), bool)
    for k in range(n_dims):
        rows = data.dim == k
        count = data.weight[rows].sum(0)
        excess = ((data.score[rows] - mean[rows, None]) * data.weight[rows]).sum(0)
        slope = (mean * (1 - mean))[rows] @ data.weight[rows]
        known[:, k] = count > 0
        ability[:, k] = excess / np.maximum(slope, 1) * count / (count + 5)
    own = np.where(known, ability, 0).sum(1) / np.maximum(known.sum(1), 1)
    return np.where(known, ability, own[:, None]), known


def _standardised(ability: Array, spread: Array, known: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Abilities with mean 0 and variance 1 over the models that have answers."""
    n = np.maximum(known.sum(0), 1)
    centred = ability - (ability * known).sum(0) / n
    variance = (np.square(centred) * known).sum(0) / n
    variance += (np.einsum("mkk->mk", spread) * known).sum(0) / n
    scale = np.sqrt(np.maximum(variance, 0.05**2))
    return centred / scale, spread / scale[:, None] / scale


def _items(
    data: _Data, rows: NDArray[np.int64], ability: Array, mass: Array, steps: int
) -> tuple[Array, Array, Array]:
    """(n,) a, (n,) c of a benchmark's items and (G,) mass of their distribution."""
    loglik = np.empty((len(rows), len(GRID_A)), np.float32)
    for k in np.unique(data.dim[rows]):
        part = data.dim[rows] == k
        eta = GRID_A[:, None] * ability[:, k] + GRID_C[:, None]  # (G, M)
        here = rows[part]
        right = (data.score[here] * data.weight[here]).astype(np.float32)
        wrong = ((1 - data.score[here]) * data.weight[here]).astype(np.float32)
        loglik[part] = right @ -np.logaddexp(0, -eta).T.astype(np.float32)
        loglik[part] -= wrong @ np.logaddexp(0, eta).T.astype(np.float32)
    loglik -= loglik.max(axis=1, keepdims=True)
    likelihood = np.exp(loglik)
    for _ in range(steps):
        total = np.maximum(likelihood @ mass.astype(np.float32), 1e-30)
        mass = mass * ((1 / total) @ likelihood)
        mass = mass + _SMOOTH * len(rows) / len(mass)
        mass = mass / mass.sum()
    posterior = likelihood * mass.astype(np.float32)
    posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), 1e-30)
    curve = posterior @ expit(GRID_A[:, None] * _CURVE + GRID_C[:, None]).astype(np.float32)
    slope, intercept = _nearest_logistic(np.clip(curve.astype(np.float64), 1e-4, 1 - 1e-4))
    return slope, intercept, mass


def _nearest_logistic(curve: Array) -> tuple[Array, Array]:
    """(n,) slope and intercept of the logistic curve nearest to each (n, T) curve."""
    y, weight = logit(curve), _CURVE_WEIGHT * curve * (1 - curve)
    total = weight.sum(axis=1)
    x_mean, y_mean = weight @ _CURVE / total, (weight * y).sum(axis=1) / total
    x = _CURVE - x_mean[:, None]
    slope = (weight * x * y).sum(axis=1) / (weight * x * x).sum(axis=1)
    return slope, y_mean - slope * x_mean


def _models(
    data: _Data, slope: Array, intercept: Array, ability: Array, sigma: Array
) -> tuple[Array, Array]:
    """(M, K) MAP abilities and their (M, K, K) Laplace covariances."""
    precision, n_dims = np.linalg.inv(sigma), len(sigma)
    found, spread = ability.copy(), np.zeros((len(ability), n_dims, n_dims))
    for i in range(len(ability)):
        rows = np.flatnonzero(data.weight[:, i])
        a, c, k = slope[rows], intercept[rows], data.dim[rows]
        s, n, theta = data.score[rows, i], data.weight[rows, i], found[i]
        hessian = precision
        for _ in range(12):
            p = expit(a * theta[k] + c)
            information = np.bincount(k, n * p * (1 - p) * a * a, minlength=n_dims)
            hessian = precision + np.diag(information)
            gradient = np.bincount(k, n * a * (s - p), minlength=n_dims) - precision @ theta
            step = np.clip(np.linalg.solve(hessian, gradient), -1, 1)
            theta = theta + step
            if np.abs(step).max() < 1e-5:
                break
        found[i], spread[i] = theta, np.linalg.inv(hessian)
    return found, spread

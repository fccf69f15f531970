"""Item response theory: 1PL, 2PL and MIRT, and MIRT that reads the items' texts.

`irt_1pl`, `irt_2pl`  P = f + (1 - f) sigmoid(a_j theta_i + b_j), one a for all or one an item
`mirt`                P = sigmoid(a_j . theta_i + b_j), a_j and theta_i in R^d
`mirt_text`           the same, with a prior mean of (a_j, b_j) regressed on the text vector

Everything is estimated with learnt priors (`irt_fit`, `mirt_fit`), so that items or models all
right or all wrong, sparse matrices and single responses have answers. Graded scores enter as a
quasi-likelihood (the mean is modelled, and right; standard errors are those of right-or-wrong
scores, too wide for scores in between). There is no random number anywhere: a fit is the same
every time.

An item without responses gets the chance averaged over the prior of its benchmark, and with
`mirt_text` over the prior that its text gives. An item with responses gets the chance at its
posterior; how much of the posterior's width counts is chosen on validation data (`width`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from thetascope.errors import InputError
from thetascope.predictors.base import (
    ItemFeatures,
    Predictor,
    Probabilities,
    Sample,
    validation_loss,
)
from thetascope.predictors.irt_fit import Prior, Responses, fit_unidimensional
from thetascope.predictors.logit_space import LogitSpace
from thetascope.predictors.mirt_fit import fit_mirt

Array = NDArray[np.float64]
WIDTHS = (0.0, 0.5, 1.0)
"""Shares of the posterior variance of an answered item's logit that are averaged over."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def responses_of(sample: Sample, chance: Array | None = None) -> Responses:
    """A sample as what the fitting code takes."""
    given = sample.responses
    weight = given.observed.astype(np.float32)
    if given.weights is not None:
        weight *= given.weights
    floor = np.zeros(len(sample.items)) if chance is None else chance
    return Responses(given.filled(), weight, sample.items.benchmark, floor)


def average_chance(logits: Array, variance: Array) -> Array:
    """E sigmoid(x), x normal with these means and variances (15 Gauss-Hermite nodes)."""
    sd = np.sqrt(np.maximum(variance, 0))
    out = np.zeros(np.broadcast_shapes(logits.shape, sd.shape))
    for node, share in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True):
        out += share * expit(logits + node * sd)
    return out


@dataclass
class _ItemResponse(Predictor):
    """What 1PL, 2PL and MIRT share: a table of items by id, and a prior for the others."""

    KNOWN_ITEMS: ClassVar[bool] = True
    TRANSIENT: ClassVar[tuple[str, ...]] = ("_row",)

    @cached_property
    def _row(self) -> dict[str, int]:
        return {item: i for i, item in enumerate(self.item_ids_)}

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        if len(train.items) == 0:
            raise InputError(f"{self.NAME} has no responses to learn from")
        self.models_ = train.responses.models
        self.benchmarks_ = train.items.benchmarks
        self.item_ids_ = train.items.ids
        vars(self).pop("_row", None)
        self.item_benchmark_ = train.items.benchmark
        self.theta_, self.theta_variance_, self.iterations_ = self._estimate(train)
        self.width_ = 0.5
        if validation is not None:
            known = np.flatnonzero([i in self._row for i in validation.items.ids])
            if len(known):
                responses = validation.responses.take(known)
                items = validation.items.take(known)
                if responses.observed.any():
                    self.width_ = self._best_width(items, responses)
        return self

    def _best_width(self, items: ItemFeatures, responses: Any) -> float:
        losses: list[float] = []
        for width in WIDTHS:
            self.width_ = width
            losses.append(validation_loss(self._predict(items), responses))
        return WIDTHS[int(np.argmin(losses))]

    def _estimate(self, train: Sample) -> tuple[Array, Array, int]:
        """(M, d) theta, (M, d, d) their covariances, and the rounds that it took."""
        raise NotImplementedError

    def parameters(self, items: ItemFeatures) -> tuple[Array, Array, NDArray[np.bool_]]:
        """(n, d + 1) means of (x_j, c_j), their (n, d + 1, d + 1) covariances, and which items
        have responses of their own; the others have those of their prior."""
        raise NotImplementedError

    def logit_space(self, items: ItemFeatures) -> LogitSpace:
        """These items and the fitted models as a `LogitSpace`."""
        z, covariance, _ = self.parameters(items)
        d = z.shape[1] - 1
        return LogitSpace(
            items.ids,
            items.benchmark,
            items.benchmarks,
            z[:, :d],
            z[:, d],
            self.models_,
            self.theta_,
            covariance,
            self._chance(items),
        )

    def _chance(self, items: ItemFeatures) -> Array | None:
        return None

    def _predict(self, items: ItemFeatures) -> Probabilities:
        space = self.logit_space(items)
        known = np.array([i in self._row for i in items.ids], bool)
        variance = space.variance(self.theta_)
        variance[known] *= self.width_
        p = average_chance(space.logits(self.theta_), variance)
        if space.chance is not None:
            p = space.chance[:, None] + (1 - space.chance[:, None]) * p
        return p

    def _rows(self, items: ItemFeatures) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        rows = np.array([self._row.get(i, -1) for i in items.ids], np.int64)
        return rows, rows >= 0

    def _known_benchmark(self, items: ItemFeatures) -> NDArray[np.int64]:
        """(n,) code of each item's benchmark in the fit; -1 where the fit never saw it."""
        present = set(np.unique(self.item_benchmark_).tolist())
        known = {name: b for b, name in enumerate(self.benchmarks_) if b in present}
        return np.array([known.get(b, -1) for b in items.benchmarks], np.int64)[items.benchmark]

    @property
    def choices(self) -> dict[str, Any]:
        return {"width": self.width_, "iterations": self.iterations_}


@dataclass
class TwoPL(_ItemResponse):
    """The two-parameter logistic model.

    Attributes:
        chance: Whether the items' known chance level is the floor (items table, `chance`).
        positive: Whether discriminations are positive, log a ~ N(mu, .5^2); otherwise
            a ~ N(1, 1), for diagnosis.
    """

    chance: bool = False
    positive: bool = True

    NAME: ClassVar[str] = "irt_2pl"

    def prior(self) -> Prior:
        """Of the discriminations."""
        return Prior(True, 0.5) if self.positive else Prior(False, 1.0)

    def _estimate(self, train: Sample) -> tuple[Array, Array, int]:
        data = responses_of(train, self._chance(train.items))
        fit = fit_unidimensional(data, self.prior())
        self.fitted_ = fit
        return fit.theta[:, None], fit.theta_variance[:, None, None], fit.iterations

    def _chance(self, items: ItemFeatures) -> Array | None:
        if not self.chance:
            return None
        if items.chance is None:
            raise InputError(
                f"{self.NAME} with chance levels needs a column 'chance' in the items table"
            )
        return items.chance

    def parameters(self, items: ItemFeatures) -> tuple[Array, Array, NDArray[np.bool_]]:
        fit, (rows, known) = self.fitted_, self._rows(items)
        slope = fit.slope()
        z = np.stack([slope[0], fit.b], axis=1)[rows]
        scale = np.stack([slope[1], np.ones_like(fit.b)], axis=1)
        covariance = (fit.covariance * scale[:, :, None] * scale[:, None, :])[rows]
        if not known.all():
            own = self._known_benchmark(items)
            seen = np.unique(self.item_benchmark_)
            mean = np.where(own >= 0, fit.mean_b[own], fit.mean_b[seen].mean())
            wide = np.sqrt(np.mean(fit.sd_b[seen] ** 2) + np.var(fit.mean_b[seen]))
            sd = np.where(own >= 0, fit.sd_b[own], wide)
            a = np.exp(fit.mean_alpha) if fit.prior.positive else fit.mean_alpha
            da = a if fit.prior.positive else 1.0
            z = np.where(known[:, None], z, np.stack([np.full_like(mean, a), mean], axis=1))
            prior = np.zeros_like(covariance)
            prior[:, 0, 0] = (da * fit.prior.sd) ** 2
            prior[:, 1, 1] = sd**2
            covariance = np.where(known[:, None, None], covariance, prior)
        return z, covariance, known


@dataclass
class OnePL(TwoPL):
    """The one-parameter (Rasch) model: one discrimination for all items."""

    NAME: ClassVar[str] = "irt_1pl"

    def prior(self) -> Prior:
        return Prior(True, 0.0)


@dataclass
class MIRT(_ItemResponse):
    """Multidimensional item response theory.

    Attributes:
        dim: Dimensions; None for 6, or one less than the models where that is less.
    """

    dim: int | None = None

    NAME: ClassVar[str] = "mirt"
    READS_TEXT: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.dim is not None and (not isinstance(self.dim, int) or self.dim < 1):
            raise InputError(f"expected a whole number from 1, found {self.dim!r}", field="dim")

    def _estimate(self, train: Sample) -> tuple[Array, Array, int]:
        vectors = train.items.text_vectors(self.NAME) if self.READS_TEXT else None
        dim = self.dim or min(6, max(1, train.responses.n_models - 1))
        fit = fit_mirt(responses_of(train), dim, vectors)
        self.fitted_ = fit
        return fit.theta, fit.theta_variance, fit.iterations

    def parameters(self, items: ItemFeatures) -> tuple[Array, Array, NDArray[np.bool_]]:
        fit, (rows, known) = self.fitted_, self._rows(items)
        z, covariance = fit.z[rows], fit.covariance[rows]
        if not known.all():
            own = self._known_benchmark(items)
            seen = np.unique(self.item_benchmark_)
            between = np.cov(fit.mean[seen].T, bias=True) if len(seen) > 1 else 0.0
            mean = np.where(own[:, None] >= 0, fit.mean[own], fit.mean[seen].mean(axis=0))
            wide = fit.sigma[seen].mean(axis=0) + between
            sigma = np.where(own[:, None, None] >= 0, fit.sigma[own], wide)
            if fit.text is not None:
                centre = np.where(own[:, None] >= 0, fit.text.centre[own], fit.text.default_centre)
                shift, variance = fit.text.predict(items.text_vectors(self.NAME), centre)
                mean = mean + shift
                sigma = sigma + variance[:, :, None] * np.eye(z.shape[1])
            z = np.where(known[:, None], z, mean)
            covariance = np.where(known[:, None, None], covariance, sigma)
        return z, covariance, known


@dataclass
class TextMIRT(MIRT):
    """MIRT whose items have a prior mean from their texts.

    Attributes:
        vectors: Name of the study's text vectors; None for the only ones.
    """

    vectors: str | None = None

    NAME: ClassVar[str] = "mirt_text"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"vectors"})
    READS_TEXT: ClassVar[bool] = True
    KNOWN_ITEMS: ClassVar[bool] = False

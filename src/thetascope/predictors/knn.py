"""Nearest neighbours on text vectors.

P_ij = (k * sum_l w_l s_il / sum_l w_l + sbar_i) / (k + 1), where l runs over the k training
items nearest to j that model i answered and w_l = exp(beta * cos(j, l)). `knn` has beta = 0
(the published rival); `knn_weighted` chooses beta too. Both choose k by validation log-loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from thetascope.predictors.base import (
    ItemFeatures,
    Predictor,
    Probabilities,
    Sample,
    validation_loss,
)
from thetascope.predictors.means import model_means

K_GRID = (20, 40, 80, 131, 200, 300)
BETA_GRID = (0.0, 8.0, 16.0, 24.0)
_ROWS = 512  # items whose cosines to all are held at once
_CELLS = 300_000  # items x neighbours x models of one block


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows scaled to length 1; zero rows stay zero."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


@dataclass
class KNN(Predictor):
    """k nearest neighbours, equal weights.

    Attributes:
        k: Neighbours; None to choose from `K_GRID` on validation data.
        vectors: Name of the study's text vectors; None for the only ones.
    """

    k: int | None = None
    vectors: str | None = None

    NAME: ClassVar[str] = "knn"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"vectors"})
    BETAS: ClassVar[tuple[float, ...]] = (0.0,)

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        self.models_ = train.responses.models
        self._unit = unit_rows(train.items.text_vectors(self.NAME))
        self._scores = train.responses.filled()
        self._observed = train.responses.observed
        self._answers = self._observed.sum(axis=0)
        self._means = model_means(train)
        grid = [(self.k,)] if self.k is not None else [(k,) for k in K_GRID]
        ks = tuple(k for (k,) in grid)
        self.k_, self.beta_ = ks[0], self.BETAS[0]
        if validation is not None and (len(ks) > 1 or len(self.BETAS) > 1):
            tried = self._grid(validation.items, ks, self.BETAS)
            losses = {key: validation_loss(p, validation.responses) for key, p in tried.items()}
            self.beta_, self.k_ = min(losses, key=lambda key: losses[key])
        return self

    @property
    def choices(self) -> dict[str, Any]:
        return {"k": self.k_, "beta": self.beta_}

    def _predict(self, items: ItemFeatures) -> Probabilities:
        if self._observed.all():
            return self._without_holes(items)
        return self._grid(items, (self.k_,), (self.beta_,))[self.beta_, self.k_]

    def _without_holes(self, items: ItemFeatures) -> Probabilities:
        """The same where every model answered every training item: one set of neighbours for all.

        No order within the k is needed, and no search beyond them. A training set of fewer
        items than k is all neighbours.
        """
        queries = unit_rows(items.text_vectors(self.NAME))
        scores, k = self._scores.astype(np.float64), min(self.k_, len(self._unit))
        out = np.empty((len(queries), scores.shape[1]))
        for start in range(0, len(queries), _ROWS):
            cosine = queries[start : start + _ROWS] @ self._unit.T
            n, width = cosine.shape
            near = np.argpartition(cosine, width - k, axis=1)[:, width - k :]
            similar = np.take_along_axis(cosine, near, axis=1).astype(np.float64)
            weight = np.exp(self.beta_ * (similar - similar.max(axis=1, keepdims=True)))
            weight /= weight.sum(axis=1, keepdims=True)
            rows = csr_array((weight.ravel(), near.ravel(), np.arange(n + 1) * k), (n, width))
            mean = rows @ scores
            found = (self.k_ * mean + self._means) / (self.k_ + 1)
            # Equal cosines at the edge: ties go by index, as in the search with order.
            edge = similar.min(axis=1, keepdims=True)
            tied = np.flatnonzero((cosine >= edge).sum(axis=1) > k)
            if len(tied):
                key = self.beta_, self.k_
                exact = self._block(cosine[tied], (self.k_,), (self.beta_,), min(width, 2 * k))
                found[tied] = exact[key]
            out[start : start + n] = found
        return out

    def _grid(
        self, items: ItemFeatures, ks: tuple[int, ...], betas: tuple[float, ...]
    ) -> dict[tuple[float, int], Probabilities]:
        """(beta, k) -> (n, M) predictions, from one search."""
        queries = unit_rows(items.text_vectors(self.NAME))
        n, m = len(queries), self._scores.shape[1]
        out = {(b, k): np.empty((n, m)) for b in betas for k in ks}
        width = min(len(self._unit), 2 * max(ks))
        step = max(1, _CELLS // (width * m))
        for start in range(0, n, _ROWS):
            cosine = queries[start : start + _ROWS] @ self._unit.T
            for part in range(0, len(cosine), step):
                block = self._block(cosine[part : part + step], ks, betas, width)
                for key, p in block.items():
                    out[key][start + part : start + part + len(p)] = p
        return out

    def _block(
        self,
        cosine: NDArray[np.float32],
        ks: tuple[int, ...],
        betas: tuple[float, ...],
        width: int,
    ) -> dict[tuple[float, int], Probabilities]:
        """Looks at the `width` nearest; widens where a model answered fewer than k of them."""
        wanted = np.minimum(self._answers, max(ks))
        while True:
            near = _nearest(cosine, width)
            seen = self._observed[near]
            if width >= cosine.shape[1] or (seen.sum(axis=1) >= wanted).all():
                break
            width = min(cosine.shape[1], 2 * width)
        similar = np.take_along_axis(cosine, near, axis=1)
        turn = np.cumsum(seen, axis=1, dtype=np.int32)  # 1 for the nearest that it answered
        # The last of the k that count; a model without answers has none and keeps its mean.
        last = {k: np.maximum((turn <= k).sum(axis=1, keepdims=True) - 1, 0) for k in ks}
        scores = self._scores[near]
        out: dict[tuple[float, int], Probabilities] = {}
        for beta in betas:
            weight = np.exp(beta * (similar - similar[:, :1]))[:, :, None] * seen
            total = np.cumsum(weight, axis=1, dtype=np.float64)
            right = np.cumsum(weight * scores, axis=1, dtype=np.float64)
            for k in ks:
                below = np.take_along_axis(total, last[k], axis=1)[:, 0]
                above = np.take_along_axis(right, last[k], axis=1)[:, 0]
                mean = np.where(below > 0, above / np.maximum(below, 1e-300), self._means)
                out[beta, k] = (k * mean + self._means) / (k + 1)
        return out


@dataclass
class WeightedKNN(KNN):
    """k nearest neighbours weighted by exp(beta * cosine)."""

    NAME: ClassVar[str] = "knn_weighted"
    BETAS: ClassVar[tuple[float, ...]] = BETA_GRID


def _nearest(cosine: NDArray[np.float32], width: int) -> NDArray[np.int64]:
    """Indices of the `width` largest of each row, largest first, ties by index."""
    if width < cosine.shape[1]:
        near = np.argpartition(-cosine, width - 1, axis=1)[:, :width]
        near.sort(axis=1)
    else:
        near = np.tile(np.arange(cosine.shape[1]), (len(cosine), 1))
    order = np.argsort(-np.take_along_axis(cosine, near, axis=1), axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1)

"""Ridge regression of each model's scores on the text vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from thetascope.predictors.base import (
    ItemFeatures,
    Predictor,
    Probabilities,
    Sample,
    validation_loss,
)
from thetascope.predictors.means import model_means

PENALTIES = tuple(float(10**e) for e in np.arange(-1.0, 4.01, 0.5))
LOW, HIGH = 0.01, 0.99


@dataclass
class Ridge(Predictor):
    """s_.j on [1, e_j] for every model, clipped to [.01, .99]; the intercept is not penalised.

    Attributes:
        penalty: Lambda in |s - Xw|^2 + lambda |w|^2, vectors as they are; None to choose one for
            all models from `PENALTIES` on validation data.
        vectors: Name of the study's text vectors; None for the only ones.
    """

    penalty: float | None = None
    vectors: str | None = None

    NAME: ClassVar[str] = "ridge"
    NEEDS: ClassVar[frozenset[str]] = frozenset({"vectors"})

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        self.models_ = train.responses.models
        x = train.items.text_vectors(self.NAME).astype(np.float64)
        grid = PENALTIES if self.penalty is None else (self.penalty,)
        coefficients = _paths(x, train, grid)  # (P, M, D + 1)
        self.penalty_ = grid[len(grid) // 2]
        if validation is not None and len(grid) > 1:
            v = validation.items.text_vectors(self.NAME).astype(np.float64)
            losses = [validation_loss(_linear(v, c), validation.responses) for c in coefficients]
            self.penalty_ = grid[int(np.argmin(losses))]
        self.coefficients_ = coefficients[grid.index(self.penalty_)]
        return self

    @property
    def choices(self) -> dict[str, Any]:
        return {"penalty": self.penalty_}

    def _predict(self, items: ItemFeatures) -> Probabilities:
        return _linear(items.text_vectors(self.NAME).astype(np.float64), self.coefficients_)


def _linear(x: NDArray[np.float64], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(x @ coefficients[:, 1:].T + coefficients[:, 0], LOW, HIGH)


def _paths(
    x: NDArray[np.float64], train: Sample, penalties: tuple[float, ...]
) -> NDArray[np.float64]:
    """(P, M, D + 1) coefficients; models that answered the same items share one solve."""
    observed, scores = train.responses.observed, train.responses.filled().astype(np.float64)
    means = model_means(train)
    out = np.zeros((len(penalties), observed.shape[1], x.shape[1] + 1))
    out[:, :, 0] = means
    patterns, which = np.unique(observed, axis=1, return_inverse=True)
    for g in range(patterns.shape[1]):
        rows, models = np.flatnonzero(patterns[:, g]), np.flatnonzero(which == g)
        if not len(rows):
            continue
        centre = x[rows].mean(axis=0)
        z = x[rows] - centre
        y = scores[np.ix_(rows, models)]
        values, basis = np.linalg.eigh(z.T @ z)
        projected = basis.T @ (z.T @ (y - y.mean(axis=0)))
        for i, penalty in enumerate(penalties):
            w = basis @ (projected / (np.maximum(values, 0) + penalty)[:, None])
            out[i, models, 1:] = w.T
            out[i, models, 0] = y.mean(axis=0) - centre @ w
    return out

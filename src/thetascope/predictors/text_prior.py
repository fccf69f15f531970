"""A prior mean for item parameters from their texts: Bayesian linear regression.

    z_jk = mu_bk + w_k . (e_j - ebar_b) + noise,   w_k ~ N(0, I / alpha_k)

One regression for each parameter k, on text vectors centred within the benchmark; alpha_k by
evidence maximisation (MacKay's fixed point). This is the explanatory item response model (De
Boeck and Wilson 2004) with a text vector as the item's covariates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ROUNDS = 2
_LEAST, _MOST = 1e-4, 1e8


class TextPrior:
    """Regression of N items' parameters on their vectors.

    Attributes:
        centre: (B, D) mean vector of each benchmark.
        weights: (D, K) w, in the basis of the eigenvectors.
        variances: (D, K) posterior variances of the weights.
    """

    TRANSIENT = ("_power", "_rows", "_square_sums", "_alpha")
    """What only fitting needs."""

    def __init__(self, vectors: NDArray[np.float32], benchmark: NDArray[np.int64], width: int):
        count = np.bincount(benchmark, minlength=width)
        total = np.zeros((width, vectors.shape[1]))
        for b in range(width):
            total[b] = vectors[benchmark == b].sum(axis=0, dtype=np.float64)
        overall = total.sum(axis=0) / max(len(vectors), 1)
        self.centre = np.where(
            count[:, None] > 0, total / np.maximum(count, 1)[:, None], overall
        ).astype(np.float32)
        self.default_centre = overall.astype(np.float32)
        centred = vectors - self.centre[benchmark]
        values, basis = np.linalg.eigh((centred.T @ centred).astype(np.float64))
        self.basis = basis.astype(np.float32)
        self._power = np.maximum(values, 0.0)
        self._rows = centred @ self.basis  # (N, D)
        self._square_sums = np.stack(
            [np.square(self._rows[benchmark == b]).sum(axis=0) for b in range(width)]
        ).astype(np.float64)
        self._alpha: Array | None = None

    def fit(self, gaps: Array, noise: Array) -> tuple[Array, Array]:
        """Regresses on the vectors.

        Args:
            gaps: (N, K) parameters less their benchmark's mean.
            noise: (K,) variance of the noise.

        Returns:
            (N, K) fitted values, and (B, K) summed variances of them over each benchmark.
        """
        alpha = self._alpha
        if alpha is None:
            alpha = np.full(gaps.shape[1], max(len(gaps), 1) / 10.0)
        projected = (self._rows.T @ gaps.astype(np.float32)).astype(np.float64)
        precision = self._power[:, None] / noise
        for _ in range(_ROUNDS):
            self.variances = 1 / (precision + alpha)
            self.weights = self.variances * projected / noise
            freedom = (precision * self.variances).sum(axis=0)
            size = np.maximum(np.square(self.weights).sum(axis=0), 1e-12)
            alpha = np.clip(np.maximum(freedom, 1e-3) / size, _LEAST, _MOST)
        self._alpha = alpha
        fitted = (self._rows @ self.weights.astype(np.float32)).astype(np.float64)
        return fitted, self._square_sums @ self.variances

    def predict(
        self, vectors: NDArray[np.float32], centre: NDArray[np.float32]
    ) -> tuple[Array, Array]:
        """(n, K) regression values of new items and their variances.

        Args:
            vectors: (n, D).
            centre: (n, D) centre of each item's benchmark.
        """
        rows = (vectors - centre) @ self.basis
        return rows @ self.weights, np.square(rows) @ self.variances

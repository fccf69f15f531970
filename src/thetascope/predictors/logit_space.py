"""What every latent-trait predictor is underneath: logits that are linear in the model.

    logit_ij = x_j . theta_i + c_j

JE-IRT: x_j = u_j (and the indicator of the item's benchmark, whose theta is the offset o_ib),
c_j = c - r_j. 1PL, 2PL, MIRT: x_j = a_j, c_j = b_j. A new model is a new theta; the items stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LogitSpace:
    """N items and M models with logits x_j . theta_i + c_j.

    Attributes:
        ids: N item ids.
        benchmark: (N,) code into `benchmarks`.
        design: (N, d) x_j.
        intercept: (N,) c_j.
        models: M model names.
        theta: (M, d).
        covariance: (N, d + 1, d + 1) posterior covariance of (x_j, c_j), or None where the
            items' own uncertainty is not known.
        chance: (N,) known chance level f_j, P = f_j + (1 - f_j) sigmoid(logit); or None.
        spread: (M, d, d) posterior covariance of each theta_i, or None where it is not known.
        blocks: Sizes of the parts of theta that have a scale of their own, d in sum; empty
            for one part.
    """

    ids: tuple[str, ...]
    benchmark: NDArray[np.int64]
    benchmarks: tuple[str, ...]
    design: NDArray[Any]
    intercept: Array
    models: tuple[str, ...]
    theta: Array
    covariance: Array | None = None
    chance: Array | None = None
    spread: Array | None = None
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        n, d = self.design.shape
        assert len(self.ids) == len(self.benchmark) == len(self.intercept) == n
        assert self.theta.shape == (len(self.models), d), self.theta.shape
        assert not self.blocks or sum(self.blocks) == d, (self.blocks, d)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dim(self) -> int:
        """d, the length of a model's vector."""
        return self.design.shape[1]

    def take(self, rows: NDArray[np.int64]) -> LogitSpace:
        """The space of the items at these rows."""
        return replace(
            self,
            ids=tuple(self.ids[j] for j in rows.tolist()),
            benchmark=self.benchmark[rows],
            design=self.design[rows],
            intercept=self.intercept[rows],
            covariance=None if self.covariance is None else self.covariance[rows],
            chance=None if self.chance is None else self.chance[rows],
        )

    def logits(self, theta: Array) -> Array:
        """(N, n) logits of n models with these (n, d) vectors."""
        return self.design @ theta.T + self.intercept[:, None]

    def variance(self, theta: Array) -> Array:
        """(N, n) variance of the logits from the items' uncertainty; 0 where it is unknown."""
        if self.covariance is None:
            return np.zeros((len(self.ids), len(theta)))
        return logit_variance(np.concatenate([theta, np.ones((len(theta), 1))], axis=1),
                              self.covariance)  # fmt: skip


def logit_variance(x: Array, covariance: Array) -> Array:
    """(n, M) variance of x_i . z_j, with x (M, k) and covariance (n, k, k) of z_j."""
    m, k = x.shape
    pairs = (x[:, :, None] * x[:, None, :]).reshape(m, k * k)
    return covariance.reshape(len(covariance), k * k) @ pairs.T

"""What predictors of one family have in common: a logit that is linear in the model's vector.

    logit_ij = x_j . theta_i + c_j

JE-IRT is one (x_j = [u_j, benchmark], c_j = c - r_j), 2PL and MIRT are others (x_j = a_j).
With the items fixed, a new model is one logistic regression away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.predictors.base import ItemFeatures

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LogitSpace:
    """Items and known models of a fitted predictor, as designs and vectors.

    Attributes:
        items: The N items (ids and benchmarks).
        models: Names of the M known models.
        design: (N, d) x_j.
        intercept: (N,) c_j, in logits.
        ability: (M, d) theta_i.
        spread: (M, d, d) posterior covariance of each theta_i where the fit knows it, else None.
        blocks: Sizes of the parts of theta that have a scale of their own; they sum to d.
        floor: (N,) chance of a right answer without ability, f_j, or None for none:
            P = f + (1 - f) sigmoid(logit).
    """

    items: ItemFeatures
    models: tuple[str, ...]
    design: NDArray[Any]
    intercept: Array
    ability: Array
    spread: Array | None = None
    blocks: tuple[int, ...] = ()
    floor: Array | None = None

    def __post_init__(self) -> None:
        n, d = self.design.shape
        assert len(self.items) == n == len(self.intercept), (len(self.items), n)
        assert self.ability.shape == (len(self.models), d), self.ability.shape
        if not self.blocks:
            object.__setattr__(self, "blocks", (d,))
        assert sum(self.blocks) == d, (self.blocks, d)

    def __len__(self) -> int:
        return len(self.intercept)

    @property
    def dim(self) -> int:
        """d, the length of a model's vector."""
        return self.design.shape[1]

    def take(self, rows: NDArray[np.int64]) -> LogitSpace:
        """The space of the items at these rows."""
        return replace(
            self,
            items=self.items.take(rows),
            design=self.design[rows],
            intercept=self.intercept[rows],
            floor=None if self.floor is None else self.floor[rows],
        )

    def without(self, models: NDArray[np.bool_]) -> LogitSpace:
        """The space with the models marked in (M,) left out of the known ones."""
        kept = ~models
        return replace(
            self,
            models=tuple(m for m, k in zip(self.models, kept.tolist(), strict=True) if k),
            ability=self.ability[kept],
            spread=None if self.spread is None else self.spread[kept],
        )

"""A study's items and models as a fitted JE-IRT sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thetascope.errors import InputError
from thetascope.predictors.base import ItemFeatures
from thetascope.predictors.jeirt import JEIRT

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Space:
    """N items and M models in the learnt space of d dimensions.

    Attributes:
        items: Features of the N items (those with a text vector).
        direction: (N, d) u_j, what item j is about; of length 1.
        norm: (N,) r_j, how hard it is (within its benchmark, where the fit has the offset).
        models: M names.
        ability: (M, d) m_i.
        place: (N,) row of each item in the study's items table.
        n_left_out: Items of the study without a text vector: they have no place here.
    """

    items: ItemFeatures
    direction: Array
    norm: Array
    models: tuple[str, ...]
    ability: Array
    place: NDArray[np.int64]
    n_left_out: int = 0

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def mean_direction(self) -> Array:
        """(d,) ubar; its length is 1 where all items point the same way, 0 where in all ways."""
        return self.direction.mean(axis=0)

    @cached_property
    def topic(self) -> Array:
        """(N, d) (u_j - ubar) / |u_j - ubar|: where an item differs from the average item."""
        return unit(self.direction - self.mean_direction)

    @cached_property
    def mean_ability(self) -> Array:
        """(d,) mbar, the mean of the models."""
        return self.ability.mean(axis=0)


def unit(rows: Array) -> Array:
    """Rows scaled to length 1; a row of zeros stays."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def space_of(fit: JEIRT, items: ItemFeatures) -> Space:
    """Items and models in a fit's space; items without a text vector are left out and counted.

    Raises:
        InputError: No item has a text vector, or they are of another encoder.
    """
    if items.vectors is None:
        raise InputError(
            "the space is made from text vectors and the study has none",
            fix="make them with: thetascope encode STUDY",
        )
    has = np.ones(len(items), bool) if items.has_vector is None else items.has_vector
    place = np.flatnonzero(has)
    if not len(place):
        raise InputError(
            "no item of the study has a text vector",
            fix="attach their texts and run: thetascope encode STUDY",
        )
    kept = items.take(place)
    found = fit.item_space(kept)
    return Space(
        kept,
        found.direction.astype(np.float64),
        found.norm.astype(np.float64),
        fit.models_,
        fit.weights_["models"].astype(np.float64),
        place,
        len(items) - len(place),
    )

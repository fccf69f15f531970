"""Concepts as axes of a fitted JE-IRT space, and where models lie on them.

    v_c = sum_b A_b (ubar_bc - ubar_b) / sum_b A_b,    ubar_bc = sum a_j u_j / A_b  over b's items
    profile_i(c) = v_c . (m_i - mbar) / |v_c|

v_c points from a benchmark's average item towards its items of the concept. A profile is in
units of the space's logits along v_c, not of scores: two concepts' values are not comparable
as scores are (see `profiles` for those), the order of models on one concept is.

A model of which only some answers are known has a posterior N(m, S) of its vector, so its
profile has the standard deviation sqrt(v' S v) / |v|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.decisions.posterior import Gaussian
from thetascope.errors import InputError
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.sparse import column_sums
from thetascope.space.fitted import Space

_LEAST = 1e-12


@dataclass(frozen=True)
class ConceptAxes:
    """Axes of C concepts in a space of d dimensions.

    Attributes:
        concepts: (C,) their numbers in the dictionary.
        axis: (C, d) v_c.
        length: (C,) |v_c|: how far the concept's items point elsewhere than their benchmarks'.
        mean_ability: (d,) mbar.
        n_items: Items in both the space and the activations.
    """

    concepts: NDArray[np.int64]
    axis: Array
    length: Array
    mean_ability: Array
    n_items: int

    def profile(self, ability: Array) -> Array:
        """(M, C) profile_i(c) of models with these (M, d) vectors; NaN where |v_c| is 0."""
        return (ability - self.mean_ability) @ self._unit().T

    def profile_of(self, posterior: Gaussian) -> tuple[Array, Array]:
        """(C,) profile and (C,) its sd of a model with this posterior.

        Args:
            posterior: Of a vector that starts with m_i (JE-IRT's offsets, if there, come after).
        """
        d = self.axis.shape[1]
        unit = self._unit()
        s = posterior.covariance[:d, :d]
        variance = np.einsum("cd,de,ce->c", unit, s, unit, optimize=True)
        return unit @ (posterior.mean[:d] - self.mean_ability), np.sqrt(np.maximum(variance, 0))

    def _unit(self) -> Array:
        return self.axis / np.where(self.length > _LEAST, self.length, np.nan)[:, None]


def concept_axes(
    space: Space, data: GapData, concepts: NDArray[np.int64] | None = None
) -> ConceptAxes:
    """Axes of concepts; by sparse products, linear in the non-zeros.

    Args:
        space: Items and models of a fit (`space.fitted`).
        data: Activations of the same study's items; items without a text vector do not count.
        concepts: Which; all where None. A concept without mass on the items has |v_c| = 0.
    """
    here, there = common_items(space, data)
    u, benchmark = space.direction[there], data.benchmark[here]
    chosen = np.arange(data.n_concepts) if concepts is None else concepts
    activations = csr_matrix(data.activations[here][:, chosen])
    mass = column_sums(activations)
    centred = np.empty_like(u)
    for b in np.unique(benchmark):
        rows = benchmark == b
        centred[rows] = u[rows] - u[rows].mean(axis=0)
    total = np.asarray(activations.T @ centred)  # sum_b A_b (ubar_bc - ubar_b)
    axis = total / np.where(mass > 0, mass, 1.0)[:, None]
    length = np.linalg.norm(axis, axis=1)
    return ConceptAxes(chosen, axis, length, space.mean_ability, len(here))


def common_items(space: Space, data: GapData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows in the activations, and rows in the space, of the items that both have.

    Raises:
        InputError: There is none.
    """
    found, here, there = np.intersect1d(data.rows, space.place, return_indices=True)
    if not len(found):
        raise InputError("no item has both activations and a place in the space")
    order = np.argsort(here)
    return here[order], there[order]

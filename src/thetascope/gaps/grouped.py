"""A group of concepts as one concept: a_G,j = sum over c in G of a_j(c) / mean_j a_j(c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.errors import InputError
from thetascope.gaps.data import GapData


def grouped(data: GapData, names: Sequence[str], members: Sequence[Sequence[int]]) -> GapData:
    """The same items and scores with groups in the place of concepts.

    A group is active on an item where one of its concepts is. Coverage of groups has no
    reference of its own, so `peak` is the highest of its concepts'.

    Args:
        data: Activations and scores.
        names: G names.
        members: G lists of concepts; a concept may be in several groups.

    Raises:
        InputError: A group is empty or names a concept that there is not.
    """
    concept, group = [], []
    for g, (name, held) in enumerate(zip(names, members, strict=True)):
        wrong = [c for c in held if not 0 <= c < data.n_concepts]
        if wrong or not len(held):
            raise InputError(
                f"expected concepts 0 to {data.n_concepts - 1}, found {wrong[0]}"
                if wrong else "holds no concept", record=name,
            )  # fmt: skip
        concept += list(held)
        group += [g] * len(held)
    shape = (data.n_concepts, len(names))
    mean = np.asarray(data.activations.mean(axis=0))[0]
    scale = np.divide(1.0, mean, out=np.zeros_like(mean), where=mean > 0)
    place = (np.array(concept, np.int64), np.array(group, np.int64))
    ones = csr_matrix((np.ones(len(concept)), place), shape=shape)
    weights = csr_matrix((scale[place[0]], place), shape=shape)
    active = csr_matrix(data.active @ ones)
    active.data[:] = 1.0
    density = np.array([data.density[list(held)].max() for held in members])
    return replace(
        data,
        activations=csr_matrix(data.activations @ weights),
        active=active,
        peak=None if data.peak is None else _highest(data.peak, place, len(names)),
        labels=tuple(names),
        flags=((),) * len(names),
        density=density,
        alive=np.array([bool(data.alive[list(held)].any()) for held in members]),
    )


def _highest(
    peak: csr_matrix, place: tuple[NDArray[np.int64], NDArray[np.int64]], n: int
) -> csr_matrix:
    """(N, G) the highest entry of each item among each group's concepts."""
    columns = peak.tocsc()
    dense = np.zeros((peak.shape[0], n), peak.dtype)
    for concept, group in zip(*place, strict=True):
        low, high = columns.indptr[concept : concept + 2]
        rows = columns.indices[low:high]
        dense[rows, group] = np.maximum(dense[rows, group], columns.data[low:high])
    return csr_matrix(dense)

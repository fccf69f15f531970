"""Predicted difficulty of unseen items against how they were then answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.saved import fit_features
from thetascope.report.gather import Array, Material
from thetascope.report.tested import Tested
from thetascope.space.difficulty import Ranks, correlate, usual

SHOWN = ("blend", "jeirt_context", "jeirt", "knn", "knn_weighted")
MIN_ITEMS = 10
"""Tested items under which nothing is correlated."""


@dataclass(frozen=True)
class Difficulty:
    """Rank correlations over the tested items.

    Attributes:
        ranks: The predictors; from the fit 'r' and 'r_minus' come last where there is one.
        n_from_fit: How many of them come from the fit.
        item: (n,) tested items.
    """

    ranks: Ranks
    n_from_fit: int
    item: NDArray[np.int64]


def difficulty(material: Material, cells: Tested) -> Difficulty | None:
    """Correlates; None where nothing here predicts or too few items were tested."""
    names = [n for n in SHOWN if n in cells.p]
    items, place = np.unique(cells.item, return_inverse=True)
    if not names or len(items) < MIN_ITEMS:
        return None
    level = usual(material.score, material.observed, material.benchmark, len(material.benchmarks))
    usually = level[cells.benchmark, cells.model]
    n = np.bincount(place)
    observed = 1 - np.bincount(place, cells.score - usually) / n
    columns = [1 - np.bincount(place, cells.p[name] - usually) / n for name in names]
    extra = _from_fit(material, items)
    predicted = np.stack([*columns, *extra], axis=1)
    if extra:
        names = [*names, "r", "r_minus"]
    kind, parts = _parts(material, items)
    group = material.groups.labels[items]
    ranks = correlate(names, observed, predicted, kind, parts, group, material.weights)
    return Difficulty(ranks, len(extra), items)


def _parts(material: Material, items: NDArray[np.int64]) -> tuple[str, list[str]]:
    if len(material.benchmarks) > 1:
        return "benchmark", [material.benchmarks[b] for b in material.benchmark[items].tolist()]
    subjects = material.items["subject"].to_list()
    return "subject", [subjects[i] or "(none)" for i in items.tolist()]


def _from_fit(material: Material, items: NDArray[np.int64]) -> list[Array]:
    """r_j and r_j - u_j . mbar of a fit, where every tested item has a vector."""
    fit: JEIRT | None = material.fit
    if fit is None or material.study.path is None:
        return []
    features = fit_features(material.study, fit).take(items)
    if features.has_vector is not None and not features.has_vector.all():
        return []
    space = fit.item_space(features)
    centre = fit.weights_["models"].mean(axis=0)
    norm = space.norm.astype(np.float64)
    return [norm, norm - space.direction.astype(np.float64) @ centre]

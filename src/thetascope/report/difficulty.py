"""Predicted difficulty of unseen items against how they were then answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetascope.evaluation.columns import Estimates, mean_of, spearman
from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.saved import fit_features
from thetascope.report.gather import Array, Material
from thetascope.report.tested import Tested

SHOWN = ("blend", "jeirt_context", "jeirt", "knn", "knn_weighted")
MIN_ITEMS = 10
"""A part with fewer tested items gets no rank correlation of its own."""


@dataclass(frozen=True)
class Difficulty:
    """Rank correlations over the tested items.

    Attributes:
        names: The K predictors; from the fit 'r' and 'r_minus' come last where there is one.
        n_from_fit: How many of them come from the fit.
        item: (n,) tested items.
        observed: (n,) observed error.
        predicted: (n, K) predicted difficulty.
        overall: K correlations over all items.
        parts: Shown name -> K correlations within a benchmark (subject where there is one).
        within: Plain mean over the parts.
        n_groups: Shown name -> groups of near-duplicates among the part's items.
        kind: 'benchmark' or 'subject'.
    """

    names: list[str]
    n_from_fit: int
    item: NDArray[np.int64]
    observed: Array
    predicted: Array
    overall: Estimates
    parts: dict[str, Estimates]
    within: Estimates | None
    n_groups: dict[str, int]
    kind: str


def difficulty(material: Material, cells: Tested) -> Difficulty | None:
    """Correlates; None where nothing here predicts or too few items were tested."""
    names = [n for n in SHOWN if n in cells.p]
    items, place = np.unique(cells.item, return_inverse=True)
    if not names or len(items) < MIN_ITEMS:
        return None
    usual = _usual(material)[cells.benchmark, cells.model]
    n = np.bincount(place)
    observed = 1 - np.bincount(place, cells.score - usual) / n
    columns = [1 - np.bincount(place, cells.p[name] - usual) / n for name in names]
    extra = _from_fit(material, items)
    predicted = np.stack([*columns, *extra], axis=1)
    if extra:
        names = [*names, "r", "r_minus"]
    group = material.groups.labels[items]
    overall = spearman(predicted, observed, group, material.weights)
    kind, codes = _parts(material, items)
    parts: dict[str, Estimates] = {}
    n_groups: dict[str, int] = {}
    for part in dict.fromkeys(codes):
        rows = np.flatnonzero(np.array([c == part for c in codes]))
        if len(rows) >= MIN_ITEMS:
            n_groups[part] = len(np.unique(group[rows]))
            parts[part] = spearman(predicted[rows], observed[rows], group[rows], material.weights)
    within = mean_of(list(parts.values()), len(np.unique(group))) if parts else None
    return Difficulty(
        names, len(extra), items, observed, predicted, overall, parts, within, n_groups, kind
    )


def _usual(material: Material) -> Array:
    """(B, M) what each model does on a benchmark beyond the mean of its models."""
    out = np.zeros((len(material.benchmarks), len(material.models)))
    for b, scores in enumerate(material.benchmark_scores):
        run = np.isfinite(scores.value)
        if run.any():
            out[b, run] = scores.value[run] - scores.value[run].mean()
    return out


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

"""The order of models: by the mean over benchmarks, those that ran everything first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetascope.errors import InputError
from thetascope.predictors.diff import Change, diff
from thetascope.report.gather import Material
from thetascope.report.numbers import Estimates, mean_of

COMPLETE = 0.9
"""A model that answered this share of each benchmark's items ran everything."""


@dataclass(frozen=True)
class Ranking:
    """Models in order.

    Attributes:
        order: Indices of models, the first best.
        complete: (M,) whether the model ran every benchmark.
        n_run: (M,) benchmarks with an answer of the model.
        mean: (M,) plain mean over the benchmarks that the model ran.
        comparable: Whether the order is over one set of benchmarks at its top.
    """

    order: list[int]
    complete: NDArray[np.bool_]
    n_run: NDArray[np.int64]
    mean: Estimates
    comparable: bool


def rank_models(material: Material) -> Ranking:
    """Orders the models; absent is never zero."""
    mean = mean_of(material.benchmark_scores, material.groups.n_groups)
    complete = (material.coverage >= COMPLETE).all(axis=1)
    n_run = (material.coverage > 0).sum(axis=1)
    value = np.where(np.isfinite(mean.value), mean.value, -1.0)
    comparable = bool(complete.sum() >= min(2, len(value)))
    block = ~complete if comparable else np.zeros(len(value), bool)
    order = np.lexsort((np.arange(len(value)), -value, block)).tolist()
    return Ranking(order, complete, n_run, mean, comparable)


def two_strongest(material: Material, ranking: Ranking) -> tuple[int, int, list[Change]] | None:
    """The first two models of the order that share items, and what parts them (first - second)."""
    answered = [m for m in ranking.order if ranking.n_run[m]]
    if len(answered) < 2:
        return None
    first = answered[0]
    for second in answered[1:]:
        try:
            changes = diff(
                material.study,
                material.models[second],
                material.models[first],
                material.groups.labels,
            )
        except InputError:
            continue
        return first, second, changes
    return None

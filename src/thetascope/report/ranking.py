"""The order of models: by the mean over the benchmarks that most of them ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetascope.errors import InputError
from thetascope.evaluation.columns import Estimates, mean_of
from thetascope.predictors.diff import Change, diff
from thetascope.report.gather import Array, Material

COMPLETE = 0.9
"""A model that answered this share of a benchmark's items ran it."""


@dataclass(frozen=True)
class Ranking:
    """Models in order.

    Attributes:
        order: Indices of models, the first best; those without a rank last.
        core: Indices of the benchmarks that the order is over.
        ranked: (M,) whether the model ran every benchmark of the core.
        complete: (M,) whether it ran every benchmark.
        n_core: (M,) benchmarks of the core with an answer of the model.
        mean: (M,) plain mean over the benchmarks of the core that the model answered.
    """

    order: list[int]
    core: list[int]
    ranked: NDArray[np.bool_]
    complete: NDArray[np.bool_]
    n_core: NDArray[np.int64]
    mean: Estimates


def rank_models(material: Material) -> Ranking:
    """Orders the models; absent is never zero."""
    ran = material.coverage >= COMPLETE
    core = core_benchmarks(material.coverage)
    mean = mean_of([material.benchmark_scores[b] for b in core], material.groups.n_groups)
    ranked: NDArray[np.bool_] = np.array(ran[:, core].all(axis=1))
    complete: NDArray[np.bool_] = np.array(ran.all(axis=1))
    value = np.where(np.isfinite(mean.value), mean.value, -1.0)
    order = np.lexsort((np.arange(len(value)), -value, ~ranked)).tolist()
    n_core = (material.coverage[:, core] > 0).sum(axis=1)
    return Ranking(order, core, ranked, complete, n_core, mean)


def core_benchmarks(coverage: Array) -> list[int]:
    """The benchmarks to order by: most run first, as many as make the largest full table.

    All of them where every model ran all; fewer where a benchmark that few ran would leave
    most models without a rank. It looks at who ran what, never at scores.

    Args:
        coverage: (M, B) share of each benchmark's items that each model answered.
    """
    ran = coverage >= COMPLETE
    order = np.argsort(-ran.sum(axis=0), kind="stable")
    full = [int(ran[:, order[: k + 1]].all(axis=1).sum()) for k in range(len(order))]
    size = [(k + 1) * n if n >= 2 else 0 for k, n in enumerate(full)]
    best = len(order) - 1 - int(np.argmax(size[::-1])) if any(size) else len(order) - 1
    return sorted(order[: best + 1].tolist())


def two_strongest(material: Material, ranking: Ranking) -> tuple[int, int, list[Change]] | None:
    """The first two models of the order that share items, and what parts them (first - second)."""
    answered = [m for m in ranking.order if ranking.n_core[m]]
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
                weights=material.weights,
            )
        except InputError:
            continue
        return first, second, changes
    return None

"""Mean scores of models on the parts of a study, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.evaluation.columns import Estimates, means
from thetascope.explorer.sources import Sources
from thetascope.explorer.tables import short

Cell = list[float | int | None] | None


def models_json(sources: Sources) -> dict[str, Any]:
    """The object of `models.json`: by model, by code of the part, [mean, low, high, n]."""
    parts = [benchmark_cells(sources)]
    subjects = sources.subjects
    parts.append(_cells_by(sources, subjects.code, len(subjects.names)))
    taxonomy = sources.taxonomy
    if taxonomy is None:
        parts.append([[] for _ in sources.models])
    else:
        parts.append(_cells_by(sources, taxonomy[1], len(taxonomy[0]["clusters"])))
    return dict(zip(("benchmarks", "subjects", "clusters"), parts, strict=True))


def benchmark_cells(sources: Sources) -> list[list[Cell]]:
    """By model, by benchmark."""
    scores = sources.material.benchmark_scores
    return [[cell(part, m) for part in scores] for m in range(len(sources.models))]


def cell(found: Estimates, m: int) -> Cell:
    """[mean, low, high, n] of one column; None where nothing was answered."""
    if not np.isfinite(found.value[m]):
        return None
    value = short([float(found.value[m]), float(found.low[m]), float(found.high[m])])
    return [*value, int(found.n[m])]


def _cells_by(sources: Sources, code: NDArray[np.int64], k: int) -> list[list[Cell]]:
    material = sources.material
    found = []
    for part in range(k):
        rows = np.flatnonzero(code == part)
        found.append(
            means(
                material.score[rows], material.observed[rows], material.groups.labels[rows],
                material.weights, proportion=True,
            )
        )  # fmt: skip
    return [[cell(part, m) for part in found] for m in range(len(sources.models))]

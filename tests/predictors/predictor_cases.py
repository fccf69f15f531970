"""A small made study, seen as samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thetascope.evaluation.splits import Cells
from thetascope.predictors import ItemFeatures, Sample
from thetascope.study import MISSING, ResponseMatrix


def make_sample(
    seed: int = 0,
    n: int = 240,
    m: int = 7,
    d: int = 12,
    *,
    graded: bool = False,
    density: float = 0.85,
    benchmarks: int = 3,
) -> Sample:
    """Items with vectors that decide benchmark, subject and who is right."""
    rng = np.random.default_rng(seed)
    benchmark = rng.integers(0, benchmarks, n)
    centre = rng.normal(size=(benchmarks, d))
    vectors = (centre[benchmark] + 0.7 * rng.normal(size=(n, d))).astype(np.float32)
    ability = rng.normal(size=(m, d)) / 2
    chance = 1 / (1 + np.exp(-(vectors @ ability.T + rng.normal(size=(n, 1)))))
    observed = rng.random((n, m)) < density
    if graded:
        scores = np.where(observed, chance, np.nan).astype(np.float32)
    else:
        scores = np.where(observed, rng.random((n, m)) < chance, MISSING).astype(np.uint8)
    ids = tuple(f"b{b}:{i}" for i, b in enumerate(benchmark))
    subjects = tuple(f"b{b}/s{s}" for b in range(benchmarks) for s in range(2))
    items = ItemFeatures(
        ids,
        benchmark,
        tuple(f"b{b}" for b in range(benchmarks)),
        benchmark * 2 + rng.integers(0, 2, n),
        subjects,
        vectors,
        np.ones(n, bool),
    )
    return Sample(items, ResponseMatrix(ids, tuple(f"m{i}" for i in range(m)), scores))


def halves(sample: Sample) -> tuple[Sample, Sample]:
    """The first three quarters and the rest."""
    n = len(sample.items) * 3 // 4
    return sample.take(Cells(np.arange(n))), sample.take(Cells(np.arange(n, len(sample.items))))


def with_weights(sample: Sample, weights: np.ndarray) -> Sample:
    """The sample with trials behind its scores."""
    return Sample(sample.items, replace(sample.responses, weights=weights.astype(np.float32)))

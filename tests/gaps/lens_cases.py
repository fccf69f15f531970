"""Made items, concepts and models for the joint lens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.gaps import GapData
from thetascope.predictors import ItemFeatures, Sample
from thetascope.study import ResponseMatrix

Array = NDArray[np.float64]


def make_data(
    scores: Array,
    activations: Array,
    benchmark: NDArray[np.int64] | None = None,
    n_tokens: NDArray[np.int64] | None = None,
    group: NDArray[np.int64] | None = None,
) -> GapData:
    """Dense arrays as GapData; a concept counts as active where it fires."""
    n, c = activations.shape
    code = np.zeros(n, np.int64) if benchmark is None else benchmark
    held = csr_matrix(activations)
    ones = csr_matrix((np.ones(held.nnz), held.indices, held.indptr), held.shape)
    names = tuple(f"b{b}" for b in range(int(code.max()) + 1))
    return GapData(
        held, ones, scores, np.full(n, 20) if n_tokens is None else n_tokens, code, names,
        tuple(f"m{i}" for i in range(scores.shape[1])),
        tuple(f"b{b}:{j}" for j, b in enumerate(code)), np.arange(n),
        np.arange(n) if group is None else group, tuple(f"concept {k}" for k in range(c)),
        ((),) * c, (activations > 0).mean(axis=0), np.ones(c, bool), threshold=None,
    )  # fmt: skip


def random_data(
    seed: int = 0, n: int = 120, c: int = 30, m: int = 9, benchmarks: int = 2,
    missing: float = 0.0, graded: bool = False,
) -> GapData:  # fmt: skip
    """Sparse heavy-tailed activations, lengths and scores without any structure."""
    rng = np.random.default_rng(seed)
    activations = rng.lognormal(sigma=1.0, size=(n, c)) * (rng.random((n, c)) < 0.3)
    activations[:, 0] = 1.0  # the same on every item: nothing can be said of it
    scores = rng.random((n, m)) if graded else (rng.random((n, m)) < 0.6).astype(float)
    scores[rng.random((n, m)) < missing] = np.nan
    code = np.sort(rng.integers(0, benchmarks, n))
    return make_data(scores, activations, code, rng.integers(5, 200, n))


def planted(
    seed: int = 0, n: int = 4000, c: int = 60, m: int = 20, drop: float = 0.25
) -> tuple[GapData, NDArray[np.int64], NDArray[np.int64]]:
    """Concepts that are hard for every model, and others that only model 0 is bad at.

    Every concept is on about 8 % of the items, model 0's own on 3 %. On items of the first three
    concepts every chance falls by `drop`; on items of the next two that of model 0 alone does.

    Returns:
        The data, the hard concepts, model 0's own gaps.
    """
    rng = np.random.default_rng(seed)
    on = rng.random((n, c)) < np.where(np.arange(c) // 3 == 1, 0.03, 0.08)
    activations = on * rng.lognormal(sigma=0.4, size=(n, c))
    ability = rng.normal(0.0, 0.5, m)
    difficulty = rng.normal(-1.0, 0.6, n)
    p = 1 / (1 + np.exp(-(ability - difficulty[:, None])))
    p[on[:, :3].any(axis=1)] -= drop
    p[on[:, 3:5].any(axis=1), 0] -= drop
    scores = (rng.random((n, m)) < p).astype(float)
    return make_data(scores, activations), np.arange(3), np.arange(3, 5)


def text_study(
    seed: int = 0, n: int = 240, m: int = 8, d: int = 6
) -> tuple[Sample, NDArray[np.int64]]:
    """Items whose text vectors tell their difficulty, models that answer by it; and pairs of
    near-duplicates as groups."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    p = 1 / (1 + np.exp(-(rng.normal(0.5, 0.5, m) + 1.5 * vectors[:, :1])))
    scores = (rng.random((n, m)) < p).astype(np.uint8)
    code = np.sort(rng.integers(0, 2, n))
    ids = tuple(f"b{b}:{j}" for j, b in enumerate(code))
    items = ItemFeatures(ids, code, ("b0", "b1"), code, ("b0", "b1"), vectors, np.ones(n, bool))
    models = tuple(f"m{i}" for i in range(m))
    return Sample(items, ResponseMatrix(ids, models, scores)), np.arange(n) // 2

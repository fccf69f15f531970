"""Small studies and dense transcriptions of the formulas, item by item."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from thetascope.gaps.data import GapData, where


def some_data(
    n=(14, 9), c=6, m=3, seed=0, holes=0.2, graded=False, threshold=0.5
) -> GapData:  # fmt: skip
    """Random activations and scores, with holes; the last concept is active nowhere."""
    rng = np.random.default_rng(seed)
    total = sum(n)
    a = rng.exponential(1.0, (total, c)) * (rng.random((total, c)) < 0.5)
    a[:, -1] = 0
    scores = rng.random((total, m)) if graded else (rng.random((total, m)) < 0.6).astype(float)
    scores[rng.random((total, m)) < holes] = np.nan
    activations = csr_matrix(a)
    peak = csr_matrix((np.float32(rng.random(activations.nnz)), activations.indices,
                       activations.indptr), activations.shape)  # fmt: skip
    return GapData(
        activations, where(peak, peak.data >= threshold), scores,
        rng.integers(5, 60, total), np.repeat(np.arange(len(n)), n),
        tuple(f"b{i}" for i in range(len(n))), tuple(f"m{i}" for i in range(m)),
        tuple(f"i{i}" for i in range(total)), np.arange(total), np.arange(total),
        tuple(f"c{i}" for i in range(c)), ((),) * c, np.full(c, 0.1), np.ones(c, bool), peak,
        threshold,
    )  # fmt: skip


def dense_moments(data: GapData, b: int, m: int, c: int, length: bool) -> dict[str, float]:
    """T, V, G, ... of one benchmark, model and concept with dense matrices."""
    part = data.parts[b]
    s = data.scores[part, m]
    seen = np.isfinite(s)
    s, a = s[seen], data.activations[part].toarray()[seen, c]
    active = data.active[part].toarray()[seen, c]
    t = np.log(data.n_tokens[part][seen])
    n = len(s)
    x = np.stack([np.ones(n), t, t**2], axis=1) if length else np.ones((n, 1))
    centre = np.eye(n) - x @ np.linalg.pinv(x)
    p = np.linalg.matrix_rank(x)
    e, r = centre @ s, centre @ a
    return {
        "n": n, "mean": s.mean(), "mass": a.sum(), "square": (a**2).sum(),
        "n_active": active.sum(), "weighted": (a * s).sum(), "t": a @ e,
        "v": (r @ r) * (e @ e) / (n - p),
        "g": n * (r**3).sum() * (e**3).sum() / ((n - 1) * (n - 2)),
    }  # fmt: skip

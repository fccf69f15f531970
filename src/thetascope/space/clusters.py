"""Spherical clustering at several granularities: micro-clusters, then a tree over them.

Spherical k-means (Dhillon and Modha 2001) maximises the summed cosine of unit vectors with the
unit centroid of their cluster. Its `MICRO` clusters are merged pair by pair by Ward's criterion
(Ward 1963; centroids weighted by their size), so that the clusters of every granularity are
unions of those of the next finer one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
MICRO = 64
"""Leaves of the tree, where there are four items and more for each."""
_STARTS, _ROUNDS = 4, 60


@dataclass(frozen=True)
class Tree:
    """A nested clustering.

    Attributes:
        centroids: (L, d) unit centroids of the leaves.
        leaf: (N,) leaf of each item.
        merges: (L - 1, 2) nodes joined, first to last; node L + t is made by merge t.
    """

    centroids: Array
    leaf: Codes
    merges: Codes

    @property
    def n_leaves(self) -> int:
        return len(self.centroids)

    def cut(self, k: int) -> Codes:
        """(L,) cluster of each leaf when the tree is cut into k; larger clusters come first."""
        k = min(k, self.n_leaves)
        owner = {node: [node] for node in range(self.n_leaves)}
        for turn, (a, b) in enumerate(self.merges[: self.n_leaves - k].tolist()):
            owner[self.n_leaves + turn] = owner.pop(a) + owner.pop(b)
        sizes = np.bincount(self.leaf, minlength=self.n_leaves)
        parts = sorted(owner.values(), key=lambda part: (-int(sizes[part].sum()), min(part)))
        out = np.empty(self.n_leaves, np.int64)
        for code, part in enumerate(parts):
            out[part] = code
        return out

    def labels(self, k: int) -> Codes:
        """(N,) cluster of each item at k clusters."""
        return self.cut(k)[self.leaf]

    def assign(self, x: Array, k: int) -> Codes:
        """(n,) cluster of other unit vectors: that of the nearest leaf."""
        return self.cut(k)[np.argmax(x @ self.centroids.T, axis=1)]


def grow(x: Array, seed: int = 0, leaves: int = MICRO) -> Tree:
    """Clusters N unit vectors into a tree.

    Args:
        x: (N, d) rows of length 1.
        seed: Of the starts.
        leaves: Most leaves.
    """
    k = max(min(leaves, len(x) // 4), 1)
    leaf, centroids = spherical_kmeans(x, k, seed)
    used, leaf = np.unique(leaf, return_inverse=True)
    centroids = centroids[used]
    return Tree(centroids, leaf.astype(np.int64), ward(_means(x, leaf, len(used)), leaf))


def spherical_kmeans(x: Array, k: int, seed: int = 0) -> tuple[Codes, Array]:
    """Labels (N,) and unit centroids (k, d) of the best of several starts.

    Args:
        x: (N, d) rows of length 1.
        k: Clusters, at most N.
        seed: Of the starts (k-means++ on 1 - cosine).
    """
    rng = np.random.default_rng(seed)
    rows = x.astype(np.float32)
    best: tuple[float, Codes, Array] | None = None
    for _ in range(_STARTS):
        centroids = _start(rows, k, rng)
        labels = np.full(len(x), -1)
        for _ in range(_ROUNDS):
            cosine = rows @ centroids.T
            new = np.argmax(cosine, axis=1)
            if np.array_equal(new, labels):
                break
            labels = new
            centroids = _centroids(rows, labels, centroids, cosine.max(axis=1))
        value = float((rows * centroids[labels]).sum())
        if best is None or value > best[0] + 1e-6:
            best = value, labels.astype(np.int64), centroids.astype(np.float64)
    assert best is not None
    return best[1], best[2]


def ward(means: Array, leaf: Codes) -> Codes:
    """(L - 1, 2) merges of L clusters by least growth of the within-cluster scatter.

    Joining a and b adds n_a n_b / (n_a + n_b) |mean_a - mean_b|^2.

    Args:
        means: (L, d) mean vectors.
        leaf: (N,) cluster of each item.
    """
    n = list(np.bincount(leaf, minlength=len(means)).astype(float))
    mean = list(means)
    alive = list(range(len(means)))
    merges: list[tuple[int, int]] = []
    while len(alive) > 1:
        points, sizes = np.stack([mean[a] for a in alive]), np.array([n[a] for a in alive])
        square = np.square(points).sum(axis=1)
        gap = np.maximum(square[:, None] + square[None] - 2 * points @ points.T, 0)
        cost = gap * sizes[:, None] * sizes[None] / (sizes[:, None] + sizes[None])
        cost[np.tril_indices(len(alive))] = np.inf
        i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
        a, b = alive[int(i)], alive[int(j)]
        merges.append((a, b))
        mean.append((n[a] * mean[a] + n[b] * mean[b]) / (n[a] + n[b]))
        n.append(n[a] + n[b])
        alive = [c for c in alive if c not in (a, b)] + [len(mean) - 1]
    return np.array(merges, np.int64).reshape(-1, 2)


def _means(x: Array, labels: Codes, k: int) -> Array:
    total = np.zeros((k, x.shape[1]))
    np.add.at(total, labels, x)
    return total / np.maximum(np.bincount(labels, minlength=k), 1)[:, None]


def _start(x: NDArray[np.float32], k: int, rng: np.random.Generator) -> NDArray[np.float32]:
    chosen = [int(rng.integers(len(x)))]
    far = 1 - x @ x[chosen[0]]
    for _ in range(1, k):
        weight = np.maximum(far, 0).astype(np.float64)
        total = weight.sum()
        pick = rng.choice(len(x), p=weight / total) if total > 0 else rng.integers(len(x))
        chosen.append(int(pick))
        far = np.minimum(far, 1 - x @ x[chosen[-1]])
    return x[chosen].copy()


def _centroids(
    x: NDArray[np.float32],
    labels: Codes,
    before: NDArray[np.float32],
    cosine: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Unit mean of every cluster; an empty one moves to the item that fits worst."""
    k = len(before)
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=k)
    total = np.zeros_like(before)
    filled = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[filled]
    total[filled] = np.add.reduceat(x[order], starts, axis=0)
    worst = iter(np.argsort(cosine, kind="stable"))
    for empty in np.flatnonzero(counts == 0):
        total[empty] = x[next(worst)]
    length = np.linalg.norm(total, axis=1, keepdims=True)
    return np.where(length > 1e-6, total / np.maximum(length, 1e-12), before)

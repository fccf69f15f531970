"""Near-duplicate items: they never straddle a split and are the unit of the bootstrap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

_BLOCK = 2048


class Groups(NamedTuple):
    """Groups of near-duplicate items.

    Attributes:
        labels: (N,) group of each item, 0 to n_groups - 1 in order of first appearance.
        n_groups: Number of groups.
        threshold: The cosine that was used; None where there were no vectors.
        largest: Items in the largest group.
    """

    labels: NDArray[np.int64]
    n_groups: int
    threshold: float | None
    largest: int


def near_duplicate_groups(
    text_codes: NDArray[np.int64],
    vectors: NDArray[np.float32] | None,
    benchmark: NDArray[np.int64],
    *,
    cosine: float = 0.9,
    strict_cosine: float = 0.95,
    largest_share: float = 0.05,
) -> Groups:
    """Connected components of "same normalised text or cosine at least `cosine`".

    Where the largest group exceeds `largest_share` of the smallest benchmark it touches,
    the whole is done again with `strict_cosine`.

    Args:
        text_codes: (N,) code of each item's text; -1 where there is no text.
        vectors: (N, D) text embeddings; a row of zeros where there is none; or None.
        benchmark: (N,) code of each item's benchmark.
        cosine, strict_cosine: Least cosine of near-duplicates.
        largest_share: Largest share of a benchmark that one group may hold.
    """
    n = len(text_codes)
    same = _equal_text_edges(text_codes)
    if vectors is None or n == 0:
        return _components(n, [same], None)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    close, cosines = _cosine_edges(unit, cosine)
    groups = _components(n, [same, close], cosine)
    if _largest_share(groups.labels, benchmark) > largest_share:
        kept = close[:, cosines >= strict_cosine]
        groups = _components(n, [same, kept], strict_cosine)
    return groups


def _equal_text_edges(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    order = np.argsort(codes, kind="stable")
    known = order[codes[order] >= 0]
    equal = codes[known[1:]] == codes[known[:-1]]
    return np.stack([known[:-1][equal], known[1:][equal]])


def _cosine_edges(
    unit: NDArray[np.float32], least: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Pairs (i < j) with cosine >= least, found in blocks: never N x N in memory."""
    edges, cosines = [], []
    for start in range(0, len(unit), _BLOCK):
        block = unit[start : start + _BLOCK]
        for other in range(start, len(unit), _BLOCK):
            product = block @ unit[other : other + _BLOCK].T
            i, j = np.divmod(np.flatnonzero(product >= least), product.shape[1])
            below = (i + start) < (j + other)
            i, j = i[below], j[below]
            edges.append(np.stack([i + start, j + other]))
            cosines.append(product[i, j])
    return np.concatenate(edges, axis=1).astype(np.int64), np.concatenate(cosines)


def _components(n: int, edges: list[NDArray[np.int64]], threshold: float | None) -> Groups:
    both = np.concatenate(edges, axis=1)
    graph = coo_array((np.ones(both.shape[1], np.int8), (both[0], both[1])), shape=(n, n))
    _, raw = connected_components(graph, directed=False)
    _, first = np.unique(raw, return_index=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    labels = rank[raw]
    largest = int(np.bincount(labels).max()) if n else 0
    return Groups(labels, len(first), threshold, largest)


def _largest_share(labels: NDArray[np.int64], benchmark: NDArray[np.int64]) -> float:
    """Largest share of one benchmark's items that lie in one group."""
    width = int(benchmark.max()) + 1
    cell = np.bincount(labels * width + benchmark, minlength=(labels.max() + 1) * width)
    sizes = np.bincount(benchmark, minlength=width)
    return float((cell.reshape(-1, width).max(axis=0) / np.maximum(sizes, 1)).max())

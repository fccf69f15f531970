"""Portfolios: k models of which at least one is right on nearly all that any model gets right.

cover(S) = mean_j max_{i in S} s_ij, what a router that always knows best would score with the
models of S. It is monotone and submodular, so greedy choice reaches at least 1 - 1/e of the best
(Nemhauser, Wolsey and Fisher 1978). What a choice is worth is measured on items that it was not
made on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
SPLITS, MOST, NEARLY = 10, 12, 0.95


@dataclass(frozen=True)
class Portfolio:
    """Greedy portfolios of 1, 2, ... models.

    Attributes:
        models: Candidates: models without holes on the items looked at.
        left_out: Models that did not answer all of these items.
        n_items: Items that every candidate answered.
        order: Models in the order of choice on all items.
        cover: cover of the first k on all these items (optimistic: chosen on them).
        held_out: cover of k models on the half of the items that did not choose them, mean over
            random halves, and the least and greatest half; empty where all items are one group
            of near-duplicates, which no half can divide.
        everything: cover of all candidates.
        best: Mean score of the best single candidate.
        nearly: Least k whose held-out cover is 95 % of everything; None where none is.
    """

    models: tuple[str, ...]
    left_out: tuple[str, ...]
    n_items: int
    order: list[str]
    cover: list[float]
    held_out: list[tuple[float, float, float]]
    everything: float
    best: float
    nearly: int | None


def complete_block(observed: Bools) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(items, models) without holes: of the models with most answers the number that makes
    items x models largest.
    """
    order = np.argsort(-observed.sum(axis=0), kind="stable")
    full = np.ones(len(observed), bool)
    best, cut = 0, 0
    for m, model in enumerate(order.tolist(), start=1):
        full = full & observed[:, model]
        if m * int(full.sum()) > best:
            best, cut = m * int(full.sum()), m
    models = np.sort(order[:cut])
    return np.flatnonzero(observed[:, models].all(axis=1)) if cut else np.arange(0), models


def greedy(score: Array, most: int) -> list[int]:
    """Columns of (n, M) scores in the order of greedy choice by growth of cover."""
    reached = np.zeros(len(score))
    left = list(range(score.shape[1]))
    chosen: list[int] = []
    while left and len(chosen) < most:
        worth = [float(np.maximum(score[:, c], reached).sum()) for c in left]
        pick = left[int(np.argmax(worth))]
        chosen.append(pick)
        left.remove(pick)
        reached = np.maximum(reached, score[:, pick])
    return chosen


def portfolio(
    models: tuple[str, ...], score: Array, observed: Bools, group: NDArray[np.int64], seed: int = 0
) -> Portfolio | None:
    """Greedy portfolios; None where under two models share an item.

    Args:
        models: M names.
        score, observed: (N, M).
        group: (N,) near-duplicate group: whole in one half.
        seed: Of the halves.
    """
    items, kept = complete_block(observed)
    if len(kept) < 2 or not len(items):
        return None
    s = score[np.ix_(items, kept)]
    names = tuple(models[i] for i in kept.tolist())
    most = min(MOST, len(kept))
    order = greedy(s, most)
    everything = float(s.max(axis=1).mean())
    cover = [float(s[:, order[:k]].max(axis=1).mean()) for k in range(1, most + 1)]
    halves = _held_out(s, group[items], most, seed)
    held = [(float(h.mean()), float(h.min()), float(h.max())) for h in halves.T if len(h)]
    nearly = next((k for k, h in enumerate(held, start=1) if h[0] >= NEARLY * everything), None)
    rest = tuple(m for i, m in enumerate(models) if i not in set(kept.tolist()))
    return Portfolio(
        names, rest, len(items), [names[c] for c in order], cover, held, everything,
        float(s.mean(axis=0).max()), nearly,
    )  # fmt: skip


def _held_out(s: Array, group: NDArray[np.int64], most: int, seed: int) -> Array:
    """(2 SPLITS, most) cover on the half that did not choose."""
    _, local = np.unique(group, return_inverse=True)
    n = int(local.max()) + 1
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(SPLITS):
        side = np.zeros(n, bool)
        side[rng.permutation(n)[: n // 2]] = True
        for chosen_on in (side[local], ~side[local]):
            if not chosen_on.any() or chosen_on.all():
                continue
            order = greedy(s[chosen_on], most)
            rest = s[~chosen_on]
            out.append([rest[:, order[:k]].max(axis=1).mean() for k in range(1, most + 1)])
    return np.array(out).reshape(-1, most)

"""Weighted versions of chi, many at once: the bootstrap and the paper's subsampling.

A replicate gives each item a weight; chi_model becomes sum_j w_j a_j s_j / sum_j w_j a_j and
chi_bench the same with all items' activations. All replicates are one sparse product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.evaluation import Estimate, estimate
from thetascope.gaps.base_rates import group_draws
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.moments import by_concept

N_REPLICATES = 1000
_CHUNK = 50
Weights = Callable[[slice, int, int], Array]
"""(rows of a benchmark, first, last replicate) -> (items, replicates) weights."""


class Suite(NamedTuple):
    """One model over all concepts and benchmarks, with bootstrap intervals.

    Attributes:
        median, mean: Of chi_model over concepts.
        n_concepts: Concepts on which chi_model is defined.
    """

    median: Estimate
    mean: Estimate
    n_concepts: int


def bootstrap_weights(data: GapData, seed: int) -> Weights:
    """Groups of near-duplicate items drawn with replacement, within each benchmark."""

    def weights(part: slice, first: int, last: int) -> Array:
        rng = np.random.default_rng([seed, part.start, first])
        return group_draws(data.group[part], last - first, rng)

    return weights


def chi_model_replicates(
    data: GapData, model: int, weights: Weights, n: int
) -> Iterator[NDArray[np.float32]]:
    """(C, k) chi_model across benchmarks under k replicates at a time, n in all.

    The mean over the benchmarks in which it is defined; NaN where it is in none.
    """
    scores = data.scores[:, model]
    parts = []
    for part in data.parts:
        answered = np.flatnonzero(np.isfinite(scores[part]))
        if len(answered):
            a = by_concept(data.activations[part][answered], slice(None)).astype(np.float32)
            parts.append((part, answered, a, scores[part][answered, None].astype(np.float32)))
    for first in range(0, n, _CHUNK):
        last = min(first + _CHUNK, n)
        total = np.zeros((data.n_concepts, last - first), np.float32)
        defined = np.zeros(total.shape, np.int16)
        for part, answered, a, s in parts:
            w = weights(part, first, last)[answered].astype(np.float32)
            mass = np.asarray(a @ w)
            known = mass > 0
            total += np.divide(np.asarray(a @ (w * s)), mass, out=np.zeros_like(mass), where=known)
            defined += known
        yield np.divide(total, defined, out=np.full(total.shape, np.nan, np.float32),
                        where=defined > 0)  # fmt: skip


def suite(data: GapData, model: int, *, n: int = N_REPLICATES, seed: int = 0) -> Suite:
    """The suite-level figures of one model, by bootstrap over items within benchmark.

    A concept without mass in a replicate is left out of that replicate.
    """
    whole = chi_whole(data, model)
    seen = np.flatnonzero(np.isfinite(whole))
    if not len(seen):
        nothing = Estimate(float("nan"), float("nan"), float("nan"))
        return Suite(nothing, nothing, 0)
    found = [
        np.stack([medians(r[seen]), np.nanmean(r[seen], axis=0)])
        for r in chi_model_replicates(data, model, bootstrap_weights(data, seed), n)
    ]
    median, mean = np.concatenate(found, axis=1).astype(np.float64)
    here = whole[seen]
    return Suite(
        estimate(float(np.median(here)), median), estimate(float(here.mean()), mean), len(seen)
    )


def medians(chi: NDArray[np.floating]) -> Array:
    """(R,) median over concepts of every replicate, NaN where none is defined."""
    known = np.isfinite(chi).any(axis=0)
    out = np.full(chi.shape[1], np.nan)
    if known.any():
        out[known] = np.nanmedian(chi[:, known], axis=0)
    return out


def chi_whole(data: GapData, model: int) -> Array:
    """(C,) chi_model across benchmarks on the items as they are."""

    def ones(part: slice, first: int, last: int) -> Array:
        return np.ones((part.stop - part.start, last - first))

    return next(chi_model_replicates(data, model, ones, 1))[:, 0].astype(np.float64)

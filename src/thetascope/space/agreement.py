"""How far clusters agree with labels that people gave, beside chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    homogeneity_completeness_v_measure,
)

from thetascope.evaluation import Estimate

Codes = NDArray[np.int64]
SHUFFLES, HALVES = 100, 200


class Agreement(NamedTuple):
    """Agreement of a clustering with labels.

    Attributes:
        ari, ami: Adjusted for chance: 0 at random, 1 where they are the same; 95 % intervals.
        v_measure: Not adjusted: it rises with the number of clusters.
        homogeneity, completeness: Its two parts.
        shuffled_ari, shuffled_v: Mean and central 95 % range with the labels shuffled.
    """

    ari: Estimate
    ami: Estimate
    v_measure: Estimate
    homogeneity: float
    completeness: float
    shuffled_ari: Estimate
    shuffled_v: Estimate


def agreement(clusters: Codes, labels: Codes, group: Codes, seed: int = 0) -> Agreement:
    """Agreement of clusters with labels, with intervals, and what shuffled labels give.

    Standard errors are the spread over random halves of the groups, drawn without replacement:
    the variance of a mean over half of n units is that of the mean over all n as a sample of a
    population (half-samples, McCarthy 1966). A bootstrap would hold items twice, and such pairs
    agree by construction.

    Args:
        clusters, labels: (N,) codes.
        group: (N,) near-duplicate group of each item.
        seed: Of halves and shuffles.
    """
    rng = np.random.default_rng(seed)
    h, c, v = homogeneity_completeness_v_measure(labels, clusters)
    point = np.array([_ari(labels, clusters), _ami(labels, clusters), v])
    _, local = np.unique(group, return_inverse=True)
    n = int(local.max()) + 1
    half = n // 2
    found = []
    for _ in range(HALVES):
        keep = np.zeros(n, bool)
        keep[rng.permutation(n)[:half]] = True
        rows = keep[local]
        a, b = labels[rows], clusters[rows]
        found.append([_ari(a, b), _ami(a, b), homogeneity_completeness_v_measure(a, b)[2]])
    spread = np.array(found).std(axis=0, ddof=1)
    shuffled = [_shuffled(labels, clusters, rng) for _ in range(SHUFFLES)]
    chance = [_range(np.array(column)) for column in zip(*shuffled, strict=True)]
    ari, ami, v_measure = (
        Estimate(float(p), float(p - 1.96 * e), float(p + 1.96 * e))
        for p, e in zip(point, spread, strict=True)
    )
    return Agreement(ari, ami, v_measure, float(h), float(c), chance[0], chance[1])


def _shuffled(labels: Codes, clusters: Codes, rng: np.random.Generator) -> tuple[float, float]:
    mixed = rng.permutation(labels)
    return _ari(mixed, clusters), float(homogeneity_completeness_v_measure(mixed, clusters)[2])


def _range(values: NDArray[np.float64]) -> Estimate:
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))


def _ari(a: Codes, b: Codes) -> float:
    return float(adjusted_rand_score(a, b))


def _ami(a: Codes, b: Codes) -> float:
    return float(adjusted_mutual_info_score(a, b))

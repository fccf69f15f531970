"""A planted space: topics with their own directions, models that are good at some of them."""

from __future__ import annotations

import numpy as np

from thetascope.predictors import ItemFeatures
from thetascope.space import Space
from thetascope.space.fitted import unit
from thetascope.study import MISSING, ResponseMatrix


def planted_space(
    n: int = 300, topics: int = 4, m: int = 8, d: int = 12, spread: float = 0.25, seed: int = 0
) -> tuple[Space, ResponseMatrix, np.ndarray]:
    """Items around `topics` directions of one benchmark; their answers follow the space."""
    rng = np.random.default_rng(seed)
    topic = np.sort(rng.integers(0, topics, n))
    centres = unit(rng.normal(size=(topics, d)))
    direction = unit(centres[topic] + spread * rng.normal(size=(n, d)) / np.sqrt(d))
    norm = rng.gamma(2.0, 0.5, n)
    ability = 1.5 * rng.normal(size=(m, d)) + 0.5 * centres.sum(axis=0)
    chance = 1 / (1 + np.exp(-(direction @ ability.T - norm[:, None])))
    scores = (rng.random((n, m)) < chance).astype(np.uint8)
    scores[rng.random((n, m)) < 0.1] = MISSING
    ids = tuple(f"b:{i}" for i in range(n))
    vectors = (direction @ rng.normal(size=(d, d)) + 0.3 * rng.normal(size=(n, d))).astype("f4")
    names = tuple(f"b/topic {t}" for t in range(topics))
    items = ItemFeatures(
        ids, np.zeros(n, np.int64), ("b",), topic, names, vectors, np.ones(n, bool)
    )
    models = tuple(f"m{i}" for i in range(m))
    space = Space(items, direction, norm, models, ability, np.arange(n))
    return space, ResponseMatrix(ids, models, scores), topic

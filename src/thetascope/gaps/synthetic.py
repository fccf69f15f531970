"""A study with planted gaps: a test bed whose truth is known.

Activations are sparse and heavy-tailed like those of real dictionaries (log-normal sizes, a few
concepts everywhere, most on few items). Scores are right or wrong. Planted are, on concepts of a
stated effective number of items:

- *own* gaps: one model is worse by a stated number of points on items in proportion to how much
  they hold of the concept;
- *hard* concepts: their items are harder for every model;
- *missing* concepts: they never reach their threshold in one benchmark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.gaps.data import THRESHOLD, Array, GapData


@dataclass(frozen=True)
class Planted:
    """What to plant.

    Attributes:
        n_items: Items of each benchmark.
        n_concepts, n_models: Their numbers.
        base: Mean score of the models, spread evenly over this range.
        n_own: Concepts on which the first model is worse.
        own: By how much, in points of probability (0.25).
        own_n_eff: Their effective number of items, over all benchmarks.
        n_hard, hard: Concepts whose items are harder for all, and by how much.
        n_missing: Concepts that the first benchmark lacks.
        tail: Sd of the logarithm of an activation's size.
        length_effect: Points that scores fall by per unit of standardised log length.
        seed: Of everything.
    """

    n_items: tuple[int, ...] = (1000, 1000)
    n_concepts: int = 2000
    n_models: int = 1
    base: tuple[float, float] = (0.6, 0.75)
    n_own: int = 20
    own: float = 0.25
    own_n_eff: int = 100
    n_hard: int = 0
    hard: float = 0.25
    n_missing: int = 0
    tail: float = 0.5
    length_effect: float = 0.0
    seed: int = 0


class Made(NamedTuple):
    """A planted study.

    Attributes:
        data: Its activations and scores.
        own, hard, missing: The planted concepts.
        chance: (N, M) the probabilities that the scores were drawn from.
    """

    data: GapData
    own: NDArray[np.int64]
    hard: NDArray[np.int64]
    missing: NDArray[np.int64]
    chance: Array


@dataclass
class _Columns:
    """Entries of the matrix as they are made, concept by concept."""

    items: list[NDArray[np.int64]] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)


def planted(plan: Planted) -> Made:
    """Makes a study with planted gaps.

    A concept that is planted holds a_j on its items alone, log-normal and scaled so that its
    effective number is the wanted one; the chance of an item falls by `own` where it is the
    weighted mean over the concept's items, so that the true effect on chi_model is `-own`
    (before clipping to [0.02, 0.98]).
    """
    rng = np.random.default_rng(plan.seed)
    n = sum(plan.n_items)
    benchmark = np.repeat(np.arange(len(plan.n_items)), plan.n_items)
    order = rng.permutation(plan.n_concepts)
    own, hard, missing, _ = np.split(order, np.cumsum([plan.n_own, plan.n_hard, plan.n_missing]))
    planted_ones = set(own.tolist()) | set(hard.tolist())
    absent = set(missing.tolist())
    # A log-normal of spread t has (mean)^2 / mean of squares = exp(-t^2).
    wanted = min(n, round(plan.own_n_eff * float(np.exp(plan.tail**2))))
    share = np.exp(rng.normal(np.log(0.02), 1.0, plan.n_concepts)).clip(10 / n, 0.9)
    made = _Columns()
    for c in range(plan.n_concepts):
        size = wanted if c in planted_ones else max(1, rng.binomial(n, share[c]))
        pool = np.arange(n)
        if c in absent:
            pool = pool[plan.n_items[0] :]
            size = min(size, len(pool))
        items = np.sort(rng.choice(pool, size, replace=False))
        made.items.append(items)
        made.values.append(np.exp(rng.normal(0.0, plan.tail, size)))
    sizes = [len(i) for i in made.items]
    entries = np.concatenate(made.values)
    place = np.concatenate(made.items), np.repeat(np.arange(plan.n_concepts), sizes)
    activations = csr_matrix((entries, place), shape=(n, plan.n_concepts))
    n_tokens = np.exp(rng.normal(4.5, 0.6, n)).astype(np.int64) + 1
    length = np.log(n_tokens)
    length = (length - length.mean()) / length.std()

    levels = np.linspace(*plan.base, plan.n_models) if plan.n_models > 1 else (
        np.array([rng.uniform(*plan.base)])
    )  # fmt: skip
    chance = np.tile(levels, (n, 1)) - plan.length_effect * length[:, None]
    for c in own:
        chance[made.items[c], 0] -= plan.own
    for c in hard:
        chance[made.items[c]] -= plan.hard
    chance = chance.clip(0.02, 0.98)
    scores = (rng.random(chance.shape) < chance).astype(np.float64)
    peak = csr_matrix(activations)
    peak.data = THRESHOLD + 0.5 * entries_share(peak)
    return Made(
        GapData(
            activations, csr_matrix((np.ones(peak.nnz), peak.indices, peak.indptr), peak.shape),
            scores, n_tokens, benchmark, tuple(f"bench {b}" for b in range(len(plan.n_items))),
            tuple(f"model {m}" for m in range(plan.n_models)),
            tuple(f"bench {b}:{j}" for j, b in enumerate(benchmark)), np.arange(n), np.arange(n),
            tuple(f"concept {c}" for c in range(plan.n_concepts)), ((),) * plan.n_concepts,
            np.asarray(activations.getnnz(axis=0)) / n, np.ones(plan.n_concepts, bool), peak,
            THRESHOLD,
        ),
        np.sort(own), np.sort(hard), np.sort(missing), chance,
    )  # fmt: skip


def entries_share(matrix: csr_matrix) -> Array:
    """Each entry as a share of the highest in its column."""
    highest = np.zeros(matrix.shape[1])
    np.maximum.at(highest, matrix.indices, matrix.data)
    return matrix.data / highest[matrix.indices]

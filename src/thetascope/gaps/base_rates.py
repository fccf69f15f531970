"""What a benchmark asks more, or less, than a reference does: log ratios of activation mass.

    log[(p_b + alpha_b / K) / (p_ref + alpha_ref / K)]        alpha = 0.5 / items of that side

p is a concept's share of the activation mass, K the concepts that are not dead. The reference is
another study read with the same dictionary (the user's own traffic, say) or the study's other
benchmarks, each counted alike. Intervals by bootstrap over the items of both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtr

from thetascope.errors import InputError
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.inference import q_values
from thetascope.gaps.moments import by_concept

N_REPLICATES = 500
_CHUNK = 100
REST = "the other benchmarks"


@dataclass(frozen=True)
class Side:
    """Items of one kind: one or more benchmarks, each counted alike.

    Attributes:
        parts: Activations of each benchmark, (C, n) by concept.
        groups: (n,) near-duplicate group of each item, within its benchmark.
    """

    parts: tuple[csr_matrix, ...]
    groups: tuple[NDArray[np.int64], ...]

    @property
    def n_items(self) -> int:
        return sum(p.shape[1] for p in self.parts)

    def shares(self, alive: NDArray[np.bool_]) -> Array:
        """(C,) share of the mass, mean over benchmarks."""
        ones = [np.ones((p.shape[1], 1)) for p in self.parts]
        return self._weighted(ones, alive)[:, 0]

    def replicates(self, alive: NDArray[np.bool_], n: int, rng: np.random.Generator) -> Array:
        """(C, n) shares when groups of items are drawn with replacement."""
        return self._weighted([group_draws(g, n, rng) for g in self.groups], alive)

    def _weighted(self, weights: list[Array], alive: NDArray[np.bool_]) -> Array:
        total = np.zeros((self.parts[0].shape[0], weights[0].shape[1]))
        for part, weight in zip(self.parts, weights, strict=True):
            mass = np.asarray(part @ weight)
            mass[~alive] = 0.0
            total += mass / np.maximum(mass.sum(axis=0), 1e-300)
        return total / len(self.parts)


def group_draws(groups: NDArray[np.int64], n: int, rng: np.random.Generator) -> Array:
    """(items, n) how often each replicate draws each item's group."""
    _, local = np.unique(groups, return_inverse=True)
    k = int(local.max()) + 1 if len(local) else 0
    drawn = np.stack([np.bincount(rng.integers(0, k, k), minlength=k) for _ in range(n)], axis=1)
    return drawn[local].astype(np.float64)


def side(data: GapData, benchmarks: list[int]) -> Side:
    """Some benchmarks of a study as one side."""
    parts = [data.parts[b] for b in benchmarks]
    parts = [p for p in parts if p.stop > p.start]
    return Side(
        tuple(by_concept(data.activations, p) for p in parts),
        tuple(data.group[p] for p in parts),
    )


def check_same_dictionary(one: GapData, other: GapData) -> None:
    """Refuses concepts of two dictionaries, or of one read in two ways.

    Raises:
        InputError: They differ.
    """
    for what in ("dictionary", "language_model"):
        here, there = one.meta.get(what), other.meta.get(what)
        if here != there:
            raise InputError(
                f"the reference was read with another {what.replace('_', ' ')} or other settings"
                f" of it ({there}) than the study ({here})"
            )


def base_rates(
    data: GapData, b: int, reference: GapData | None = None, *, n: int = N_REPLICATES,
    seed: int = 0,
) -> pl.DataFrame:  # fmt: skip
    """How much more often benchmark number b asks for each concept than the reference does.

    Args:
        data: The study.
        b: The benchmark.
        reference: Another study read with the same dictionary; the other benchmarks where None.
        n: Replicates.
        seed: Of the draws.

    Returns:
        A row for each concept that is active on either side: concept, log_ratio, low, high, sd,
        q (two-sided, normal with the bootstrap's sd, Benjamini-Hochberg), share, share_reference.

    Raises:
        InputError: There is no reference, or it was read with another dictionary.
    """
    if reference is not None:
        check_same_dictionary(data, reference)
        other = side(reference, list(range(len(reference.benchmarks))))
    else:
        rest = [k for k in range(len(data.benchmarks)) if k != b]
        other = side(data, rest)
        if not other.parts:
            raise InputError(
                "there is one benchmark, so nothing to compare it with", fix="name a reference"
            )
    mine, alive = side(data, [b]), data.alive
    rng = np.random.default_rng(seed)
    k = int(alive.sum())
    small = 0.5 / mine.n_items / k, 0.5 / other.n_items / k
    here, there = mine.shares(alive), other.shares(alive)
    value = np.log((here + small[0]) / (there + small[1]))
    draws: list[NDArray[np.float32]] = []
    for start in range(0, n, _CHUNK):
        size = min(_CHUNK, n - start)
        above = np.log(mine.replicates(alive, size, rng) + small[0])
        draws.append((above - np.log(other.replicates(alive, size, rng) + small[1])).astype("f4"))
    replicates = np.concatenate(draws, axis=1)
    seen = np.flatnonzero(((here > 0) | (there > 0)) & alive)
    low, high = np.quantile(replicates[seen], [0.025, 0.975], axis=1)
    sd = replicates[seen].std(axis=1, ddof=1).astype(np.float64)
    z = np.divide(value[seen], sd, out=np.zeros(len(seen)), where=sd > 0)
    return pl.DataFrame(
        {
            "concept": seen.astype(np.int32), "log_ratio": value[seen], "low": low, "high": high,
            "sd": sd, "q": q_values(2 * ndtr(-np.abs(z))), "share": here[seen],
            "share_reference": there[seen],
        }
    )  # fmt: skip

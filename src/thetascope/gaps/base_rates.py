"""What a benchmark asks more, or less, than a reference does: log ratios of mass.

    log[(p_b + alpha_b / K) / (p_ref + alpha_ref / K)]        alpha = 0.5 / items of that side

p is a concept's share of the activation mass, K the concepts that are not dead. The reference is
another study read with the same dictionary (the user's own traffic, say) or the study's other
benchmarks, each counted alike. Intervals by bootstrap over the items of both sides.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import ndtr

from thetascope.errors import InputError
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.inference import Z95, q_values
from thetascope.gaps.moments import by_concept

N_REPLICATES = 500
_CHUNK = 100
_DECIDES = {
    "dictionary": ("fingerprint", "norm_factor"),
    "language_model": ("fingerprint", "hook", "template", "prefix", "count_all"),
}
"""What must be the same for activations to be compared."""


def group_draws(groups: NDArray[np.int64], n: int, rng: np.random.Generator) -> Array:
    """(items, n) how often each replicate draws each item's group."""
    _, local = np.unique(groups, return_inverse=True)
    k = int(local.max()) + 1 if len(local) else 0
    drawn = np.stack([np.bincount(rng.integers(0, k, k), minlength=k) for _ in range(n)], axis=1)
    return drawn[local].astype(np.float64)


def check_same_dictionary(one: GapData, other: GapData) -> None:
    """Refuses concepts of two dictionaries, or of one read in two ways.

    Raises:
        InputError: They differ; names what does.
    """
    for what, keys in _DECIDES.items():
        mine, its = (d.meta.get(what) or {} for d in (one, other))
        for key in keys:
            if mine.get(key) != its.get(key):
                raise InputError(
                    f"the reference was read with another {what.replace('_', ' ')}: {key} is"
                    f" {its.get(key)!r} there, {mine.get(key)!r} in the study",
                    field="against",
                )  # fmt: skip
    if one.floor != other.floor:
        raise InputError(
            "the activations are reduced to maxima of at least"
            f" {one.floor} of act_max in the study, {other.floor} in the reference: their means do"
            " not compare", field="against",
        )  # fmt: skip


def base_rates(
    data: GapData, reference: GapData | None = None, *, n: int = N_REPLICATES, seed: int = 0
) -> pl.DataFrame:
    """How much more often each benchmark asks for each concept than the reference does.

    Args:
        data: The study.
        reference: Another study read with the same dictionary; the other benchmarks where None.
        n: Replicates.
        seed: Of the draws.

    Returns:
        A row for each benchmark and concept that is active on either side: benchmark, concept,
        log_ratio, low, high (95 %, normal with the bootstrap's sd), q (two-sided,
        Benjamini-Hochberg within the benchmark), share, share_reference. No rows where there is
        one benchmark and no reference.

    Raises:
        InputError: The reference was read with another dictionary.
    """
    if reference is not None:
        check_same_dictionary(data, reference)
    if reference is None and len(data.benchmarks) < 2:
        none = _rows([], np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))
        return none.select(pl.lit("").alias("benchmark"), pl.all())
    alive, k = data.alive, max(1, int(data.alive.sum()))
    mine = _masses(data)
    other = mine if reference is None else _masses(reference)
    sizes = np.array([len(g) for _, g in mine])
    n_other = sizes.sum() - sizes if reference is None else np.full(len(mine), reference.n_items)
    small = 0.5 / sizes / k, 0.5 / n_other / k

    def ratios(weights: list[list[Array]]) -> list[tuple[Array, Array]]:
        here = [_shares(a, w, alive) for (a, _), w in zip(mine, weights[0], strict=True)]
        if reference is None:
            total = np.sum(here, axis=0)
            return [(h, (total - h) / (len(here) - 1)) for h in here]
        there = np.mean(
            [_shares(a, w, alive) for (a, _), w in zip(other, weights[1], strict=True)], axis=0
        )
        return [(h, there) for h in here]

    def logs(pairs: list[tuple[Array, Array]]) -> list[Array]:
        return [np.log(h + small[0][b]) - np.log(t + small[1][b]) for b, (h, t) in enumerate(pairs)]

    sides = [mine] if reference is None else [mine, other]
    point = ratios([[np.ones((len(g), 1)) for _, g in s] for s in sides])
    values = [v[:, 0] for v in logs(point)]
    rng = np.random.default_rng(seed)
    squares, sums = np.zeros((2, len(mine), data.n_concepts))
    for start in range(0, n, _CHUNK):
        size = min(_CHUNK, n - start)
        drawn = logs(ratios([[group_draws(g, size, rng) for _, g in s] for s in sides]))
        for b, replicate in enumerate(drawn):
            off = replicate - values[b][:, None]  # small numbers: squares do not cancel
            sums[b] += off.sum(axis=1)
            squares[b] += np.square(off).sum(axis=1)
    frames = []
    for b, name in enumerate(data.benchmarks):
        here, there = point[b][0][:, 0], point[b][1][:, 0]
        seen = np.flatnonzero(((here > 0) | (there > 0)) & alive)
        sd = np.sqrt(np.maximum(squares[b] - sums[b] ** 2 / n, 0.0) / (n - 1))[seen]
        rows = _rows(seen, values[b][seen], sd, here[seen], there[seen])
        frames.append(rows.with_columns(pl.lit(name).alias("benchmark")))
    return pl.concat(frames).select("benchmark", pl.exclude("benchmark"))


def _masses(data: GapData) -> list[tuple[csr_matrix, NDArray[np.int64]]]:
    """Activations by concept and groups of items, of each benchmark that has items."""
    return [(by_concept(data.activations, p), data.group[p]) for p in data.parts]


def _shares(a: csr_matrix, weights: Array, alive: NDArray[np.bool_]) -> Array:
    """(C, R) each concept's share of the activation mass under R weightings of the items."""
    mass = np.asarray(a @ weights)
    mass[~alive] = 0.0
    return mass / np.maximum(mass.sum(axis=0), 1e-300)


def _rows(
    concepts: NDArray[np.int64] | list[int], value: Array, sd: Array, here: Array, there: Array
) -> pl.DataFrame:
    z = np.divide(value, sd, out=np.zeros(len(value)), where=sd > 0)
    half = Z95 * sd
    return pl.DataFrame(
        {
            "concept": np.asarray(concepts, np.int32), "log_ratio": value, "low": value - half,
            "high": value + half, "q": q_values(2 * ndtr(-np.abs(z))), "share": here,
            "share_reference": there,
        }
    )  # fmt: skip

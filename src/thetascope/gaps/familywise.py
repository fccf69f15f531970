"""Family-wise control over all tested concepts of one model: minP by shared permutations.

Westfall and Young's minP: scores (their residuals, where length is a covariate: Freedman and
Lane 1983) are permuted within each benchmark, the same permutation for every concept. V and G do
not change, so a permutation costs one sparse product. A concept's corrected p is the share of
permutations in which some concept of the family has a p-value as low.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csr_matrix

from thetascope.gaps.data import Array, GapData
from thetascope.gaps.inference import standardised, tails
from thetascope.gaps.moments import by_concept, moments, n_eff, patterns
from thetascope.gaps.performance import tested

N_PERMUTATIONS = 999
_CHUNK = 111


class Familywise(NamedTuple):
    """One model.

    Attributes:
        concepts: (K,) the family.
        low, high: (K,) family-wise p of being this weak, this strong.
    """

    concepts: NDArray[np.int64]
    low: Array
    high: Array


def familywise(
    data: GapData, model: int, *, length: bool = True, n: int = N_PERMUTATIONS, seed: int = 0,
    benchmarks: list[int] | None = None,
) -> Familywise:  # fmt: skip
    """Family-wise p-values of one model over the given benchmarks (all where None).

    Args:
        data: Activations and scores.
        model: Its column.
        length: Whether text length is a covariate.
        n: Permutations.
        seed: Of the permutations.
        benchmarks: Numbers of the benchmarks whose statistics are summed.
    """
    one = data.with_scores(data.scores[:, [model]], (data.models[model],))
    t, v_observed, v_permuted, g, mass, square, n_active = np.zeros((7, data.n_concepts))
    pieces = []
    for b in range(len(data.benchmarks)) if benchmarks is None else benchmarks:
        found = moments(one, b, length=length)
        mass, square = mass + found.mass[:, 0], square + found.square[:, 0]
        n_active += found.n_active[:, 0]
        t, v, g = t + found.t[:, 0], found.v[:, 0], g + found.g[:, 0]
        v_observed += v
        for p in patterns(one, data.parts[b], length):
            size, width = p.basis.shape
            if not v.any():
                continue
            v_permuted += v * (size - width) / (size - 1)
            a = by_concept(data.activations[data.parts[b]][p.items], slice(None))
            varies = csr_matrix(sparse.diags_array((v > 0).astype(float)) @ a)
            pieces.append((varies, p.residuals[:, 0], p.basis, np.asarray(varies @ p.basis)))
    family = np.flatnonzero(tested(n_eff(mass, square), n_active, v_observed))
    if not len(family):
        return Familywise(family, np.zeros(0), np.zeros(0))
    z, skew = standardised(t[family], v_observed[family], g[family])
    observed = tails(z, skew)
    skew = (g[family] / v_permuted[family] ** 1.5)[:, None]
    root = np.sqrt(v_permuted[family])[:, None]
    pieces = [(a[family], e, basis, q[family]) for a, e, basis, q in pieces]
    rng = np.random.default_rng(seed)
    least = np.empty((2, n))
    for start in range(0, n, _CHUNK):
        stop = min(start + _CHUNK, n)
        total = np.zeros((len(family), stop - start))
        for a, e, basis, q in pieces:
            shuffled = rng.permuted(np.tile(e[:, None], (1, stop - start)), axis=0)
            total += np.asarray(a @ shuffled) - q @ (basis.T @ shuffled)
        p = tails(total / root, np.broadcast_to(skew, total.shape))
        least[0, start:stop], least[1, start:stop] = p.low.min(axis=0), p.high.min(axis=0)
    return Familywise(
        family, _corrected(observed.low, least[0]), _corrected(observed.high, least[1])
    )


def _corrected(p: Array, least: Array) -> Array:
    """(1 + permutations whose least p is at most p) / (1 + permutations)."""
    return (1 + np.searchsorted(np.sort(least), p, side="right")) / (1 + len(least))

"""The paper's checks of its two figures: drop data at random, drop the data of the extremes.

*Subsampling*: 100 runs that each drop 20 % of the items of every benchmark. Reported are the mean
over concepts of the standard deviation over runs, and that of the median over concepts; which of
the two the paper gives (0.014 for chi_model, 0.025 for chi_bench) is not known.

*Adversarial removal*: the items with the highest activation of the 100 best (worst) concepts go,
concept by concept in turn, until 1 % of the items are gone; by how much does the median of
chi_model change? The paper: -0.6 % and +1.3 %.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.gaps.bootstrap import Weights, chi_model_replicates, chi_whole, medians
from thetascope.gaps.coverage import chi_bench
from thetascope.gaps.data import Array, GapData

N_RUNS, DROPPED = 100, 0.2
N_EXTREME, REMOVED = 100, 0.01


class Subsampling(NamedTuple):
    """Standard deviations over runs.

    Attributes:
        model_concepts: Mean over concepts of the sd of chi_model. model_median: Sd of its median.
        bench_concepts, bench_median: The same of chi_bench, across benchmarks.
    """

    model_concepts: float
    model_median: float
    bench_concepts: float
    bench_median: float


class Removal(NamedTuple):
    """What removing the items of extreme concepts does to the median of chi_model.

    Attributes:
        median: Before.
        best, worst: Relative change of the median without the items of the best and the worst.
        n_removed: Items removed.
    """

    median: float
    best: float
    worst: float
    n_removed: int


def subsampling(
    data: GapData, model: int, *, n: int = N_RUNS, dropped: float = DROPPED, seed: int = 0
) -> Subsampling:
    """Both figures of one model under random dropping of items.

    Args:
        data: Activations and scores.
        model: Its column.
        n: Runs.
        dropped: Share of each benchmark's items that a run drops.
        seed: Of what is dropped.
    """
    kept = _kept(data, n, dropped, seed)
    found: list[Array] = []
    squares, sums, seen = 0.0, 0.0, 0.0
    for chi in chi_model_replicates(data, model, kept, n):
        known = np.isfinite(chi)
        filled = np.where(known, chi, 0.0).astype(np.float64)
        seen = seen + known.sum(axis=1)
        sums = sums + filled.sum(axis=1)
        squares = squares + np.square(filled).sum(axis=1)
        found.append(medians(chi))
    model_sd = _sd(np.asarray(sums), np.asarray(squares), np.asarray(seen), n)
    bench = np.stack([_mean_chi(data, kept, k) for k in range(n)], axis=1)[data.alive]
    covered = bench.any(axis=1)
    return Subsampling(
        float(model_sd.mean()) if len(model_sd) else float("nan"),
        float(np.nanstd(np.concatenate(found), ddof=1)),
        float(bench[covered].std(axis=1, ddof=1).mean()),
        float(np.median(bench[covered], axis=0).std(ddof=1)),
    )  # fmt: skip


def removal(
    data: GapData, model: int, *, n_extreme: int = N_EXTREME, share: float = REMOVED
) -> Removal:
    """Removes the items behind the best and the worst concepts of one model.

    Only answered items are looked at; concepts whose chi_model is defined are ranked by it.
    """
    answered = data.take(np.flatnonzero(np.isfinite(data.scores[:, model])))
    chi = chi_whole(answered, model)
    ranked = np.flatnonzero(np.isfinite(chi))
    ranked = ranked[np.argsort(chi[ranked], kind="stable")]
    n_out = max(1, int(share * answered.n_items))
    if not len(ranked):
        return Removal(float("nan"), float("nan"), float("nan"), 0)
    median = float(np.median(chi[ranked]))
    changes: list[float] = []
    for concepts in (ranked[::-1][:n_extreme], ranked[:n_extreme]):
        gone = strongest_items(answered, concepts, n_out)
        rest = answered.take(np.setdiff1d(np.arange(answered.n_items), gone))
        after = chi_whole(rest, model)
        changes.append(float(medians(after[:, None])[0]) / median - 1 if median else np.nan)
    return Removal(median, changes[0], changes[1], n_out)


def strongest_items(data: GapData, concepts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The n items that carry these concepts: each concept's highest a_j in turn, round by round."""
    columns = data.activations.tocsc()
    queues = []
    for c in concepts.tolist():
        low, high = columns.indptr[c : c + 2]
        order = np.argsort(-columns.data[low:high], kind="stable")
        queues.append(iter(columns.indices[low:high][order].tolist()))
    gone: dict[int, None] = {}
    while queues and len(gone) < n:
        for queue in list(queues):
            item = next((i for i in queue if i not in gone), None)
            if item is None:
                queues.remove(queue)
            else:
                gone[item] = None
            if len(gone) == n:
                break
    return np.array(sorted(gone), np.int64)


def _kept(data: GapData, n: int, dropped: float, seed: int) -> Weights:
    """1 for the items that a run keeps, 0 for those that it drops."""

    def weights(part: slice, first: int, last: int) -> Array:
        size = part.stop - part.start
        out = np.ones((size, last - first))
        for k in range(first, last):
            rng = np.random.default_rng([seed, part.start, k])
            out[rng.permutation(size)[: int(dropped * size)], k - first] = 0
        return out

    return weights


def _mean_chi(data: GapData, kept: Weights, run: int) -> Array:
    """(C,) chi_bench across benchmarks of one run."""
    chi = [
        chi_bench(data.activations[p][np.flatnonzero(kept(p, run, run + 1)[:, 0])], data.alive)
        for p in data.parts
    ]
    return np.mean(chi, axis=0)


def _sd(sums: Array, squares: Array, seen: Array, n: int) -> Array:
    """Sd over runs of the concepts that were defined in all of them."""
    whole = seen == n
    mean = sums[whole] / n
    return np.sqrt(np.maximum(squares[whole] / n - mean**2, 0.0) * n / (n - 1))

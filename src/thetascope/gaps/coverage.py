"""What benchmarks cover: chi_bench, missing concepts, overlaps (METHODS 7, RULES M7).

    chi_bench(b, c) = mean_j a_j(c) / mean_c' mean_j a_j(c')      j in b, c' not dead

A concept is *missing* from a benchmark when it is active on none of its items: never reaches
tau_c, a stated share of its own maximum over a reference corpus. Without a reference nothing is
called missing. A large benchmark covers more by its size alone, so shares are also given for m
items of each, m the smallest benchmark (rarefaction).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import gammaln
from scipy.stats import skew

from thetascope.gaps.data import Array, GapData

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
DECILE = 0.1
TOP = 0.01


@dataclass(frozen=True)
class Coverage:
    """B benchmarks and C concepts.

    Attributes:
        benchmarks: Their names.
        n_items: (B,) items that were read.
        alive: (C,) concepts that are not dead; shares are over these.
        chi: (C, B) chi_bench, 1 for a concept of average activation; 0 for dead ones.
        n_active: (C, B) items on which a concept is active, or None without a reference.
        thresholds: Shares of act_max at which `missing` is given.
        missing: (B + 1, thresholds) share of concepts that are missing, last row from all
            benchmarks together; None without a reference.
        rarefied: (B,) share missing from `n_rarefied` items of each benchmark, expected.
        n_rarefied: m.
        skewness: (B,) of chi over concepts.
        top_share: (B,) share of the activation mass on its top 1 % of concepts.
        jaccard: (B, B) overlap of the sets of covered concepts; None without a reference.
        cosine: (B, B) of the chi vectors.
    """

    benchmarks: tuple[str, ...]
    n_items: NDArray[np.int64]
    alive: NDArray[np.bool_]
    chi: Array
    n_active: NDArray[np.int64] | None
    thresholds: tuple[float, ...]
    missing: Array | None
    rarefied: Array | None
    n_rarefied: int
    skewness: Array
    top_share: Array
    jaccard: Array | None
    cosine: Array

    @property
    def mean_chi(self) -> Array:
        """(C,) chi_bench across benchmarks: the mean over them."""
        return self.chi.mean(axis=1)

    def missing_concepts(self, b: int | None = None) -> NDArray[np.int64]:
        """Concepts missing from benchmark number b, from all of them where None.

        Empty without a reference.
        """
        if self.n_active is None:
            return np.zeros(0, np.int64)
        found = self.n_active.sum(axis=1) if b is None else self.n_active[:, b]
        return np.flatnonzero((found == 0) & self.alive)

    def under(self, b: int) -> NDArray[np.int64]:
        """Under-represented: the bottom decile by chi of the concepts that b covers."""
        return self._decile(b, low=True)

    def over(self, b: int) -> NDArray[np.int64]:
        """Over-represented: the top decile by chi of the concepts that b covers."""
        return self._decile(b, low=False)

    def _decile(self, b: int, low: bool) -> NDArray[np.int64]:
        covered = self.chi[:, b] > 0 if self.n_active is None else self.n_active[:, b] > 0
        rows = np.flatnonzero(covered & self.alive)
        order = rows[np.argsort(self.chi[rows, b], kind="stable")]
        n = int(DECILE * len(order))
        return order[:n] if low else order[::-1][:n]

    def to_json(self) -> dict[str, Any]:
        """The figures that are not per concept."""
        return {
            "benchmarks": list(self.benchmarks), "n_items": self.n_items.tolist(),
            "n_concepts": int(self.alive.sum()), "n_dead": int((~self.alive).sum()),
            "thresholds": list(self.thresholds),
            "missing": None if self.missing is None else self.missing.tolist(),
            "n_missing": None if self.n_active is None else [
                len(self.missing_concepts(b)) for b in range(len(self.benchmarks))],
            "n_missing_from_all": None if self.n_active is None else len(self.missing_concepts()),
            "rarefied": None if self.rarefied is None else self.rarefied.tolist(),
            "n_rarefied": self.n_rarefied, "skewness": self.skewness.tolist(),
            "top_share": self.top_share.tolist(), "cosine": self.cosine.tolist(),
            "jaccard": None if self.jaccard is None else self.jaccard.tolist(),
        }  # fmt: skip


def coverage(data: GapData) -> Coverage:
    """Coverage of every benchmark; all items that were read count, answered or not."""
    alive, parts = data.alive, data.parts
    sizes = np.array([p.stop - p.start for p in parts], np.int64)
    chi = np.stack([chi_bench(data.activations[p], alive) for p in parts], axis=1)
    n_active = missing = rarefied = jaccard = None
    thresholds = tuple(t for t in THRESHOLDS if t >= data.floor)
    smallest = int(sizes.min())
    if data.peak is not None:
        n_active = np.stack(
            [np.asarray(data.active[p].sum(axis=0))[0] for p in parts], axis=1
        ).astype(np.int64)
        peaks = np.stack([_highest(csr_matrix(data.peak[p])) for p in parts], axis=1)[alive]
        peaks = np.concatenate([peaks, peaks.max(axis=1, keepdims=True)], axis=1)
        missing = np.stack([(peaks < np.float32(t)).mean(axis=0) for t in thresholds], axis=1)
        rarefied = np.array(
            [1 - covered_by(n_active[alive, b], int(n), smallest).mean()
             for b, n in enumerate(sizes)]
        )  # fmt: skip
        covered = (n_active[alive] > 0).astype(np.float64)
        both = covered.T @ covered
        either = covered.sum(axis=0)[:, None] + covered.sum(axis=0) - both
        jaccard = both / np.maximum(either, 1)
    lengths = np.maximum(np.linalg.norm(chi, axis=0), 1e-300)
    unit = chi / lengths
    kept = chi[alive]
    n_top = max(1, round(TOP * len(kept)))
    with np.errstate(invalid="ignore", divide="ignore"):
        top = np.sort(kept, axis=0)[::-1][:n_top].sum(axis=0) / kept.sum(axis=0)
    return Coverage(
        data.benchmarks, sizes, alive, chi, n_active, thresholds, missing, rarefied, smallest,
        np.asarray(skew(kept, axis=0)), top, jaccard, unit.T @ unit,
    )  # fmt: skip


def chi_bench(activations: csr_matrix, alive: NDArray[np.bool_]) -> Array:
    """(C,) chi_bench of the items in `activations` (n, C); 0 for concepts that are dead."""
    mean = np.asarray(activations.mean(axis=0))[0]
    whole = mean[alive].mean() if alive.any() else 0.0
    return np.where(alive, mean / whole if whole > 0 else 0.0, 0.0)


def covered_by(n_active: NDArray[np.int64], n: int, m: int) -> Array:
    """P(a concept active on n_active of n items is on one of m drawn without replacement).

    1 - C(n - n_active, m) / C(n, m).
    """
    rest = (n - n_active).astype(np.float64)
    can_miss = rest >= m
    rest = np.where(can_miss, rest, m)
    log_missed = gammaln(rest + 1) - gammaln(rest - m + 1) - gammaln(n + 1.0) + gammaln(n - m + 1.0)
    return np.where(can_miss, 1 - np.exp(np.minimum(log_missed, 0.0)), 1.0)


def _highest(peak: csr_matrix) -> NDArray[np.float32]:
    """(C,) the highest entry of each column, 0 where it has none."""
    out = np.zeros(peak.shape[1], np.float32)
    np.maximum.at(out, peak.indices, peak.data.astype(np.float32))
    return out

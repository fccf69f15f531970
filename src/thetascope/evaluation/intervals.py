"""Bootstrap intervals over groups of items, and paired differences.

2,000 percentile replicates resample groups of near-duplicate items with the models fixed; a
metric of a replicate is a ratio of sums over the observed cells of its groups. All predictors
see the same replicates, so a difference is paired.

The area under the curve of a replicate is computed on equal-mass bins of p (its error is
below 1e-4) and re-centred on the exact value of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from thetascope.evaluation import metrics

N_REPLICATES = 2000
METRICS = ("accuracy", "log_loss", "brier", "auc", "auc_within_model", "ece", "absolute_error")
LEVEL = 0.95
_POOLED_BINS = 1024
_SEGMENT_BINS = 64
_CHUNK = 250


class Estimate(NamedTuple):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cells:
    """Flat arrays of scored cells.

    Attributes:
        score: (n,) in [0, 1].
        segment: (n,) cells whose ranks are compared in `auc_within_model`: a model, in a split.
        group: (n,) group of near-duplicate items, 0 to n_groups - 1.
        p: predictor -> (n,) predicted probability.
    """

    score: NDArray[np.float64]
    segment: NDArray[np.int64]
    group: NDArray[np.int64]
    p: dict[str, NDArray[np.float64]]

    def take(self, keep: NDArray[np.bool_]) -> Cells:
        """The cells where `keep` is True."""
        return Cells(
            self.score[keep],
            self.segment[keep],
            self.group[keep],
            {name: p[keep] for name, p in self.p.items()},
        )


def replicate_weights(n_groups: int, seed: int = 0, n: int = N_REPLICATES) -> NDArray[np.float32]:
    """(n, n_groups): how often each replicate draws each group."""
    rng = np.random.default_rng(seed)
    weights = np.empty((n, n_groups), np.float32)
    for row in weights:
        row[:] = np.bincount(rng.integers(0, n_groups, n_groups), minlength=n_groups)
    return weights


def evaluate(
    cells: Cells, weights: NDArray[np.float32], reference: str | None
) -> dict[str, tuple[dict[str, Estimate], dict[str, Estimate]]]:
    """Every metric of every predictor, with intervals, and its difference to the reference.

    Args:
        cells: What was predicted.
        weights: (R, n_groups) from `replicate_weights`, over the groups of all cells.
        reference: Predictor that the others are compared with; None for no comparison.

    Returns:
        predictor -> (metric -> Estimate, metric -> Estimate of predictor minus reference).
    """
    present, local = np.unique(cells.group, return_inverse=True)
    here = Cells(cells.score, cells.segment, local, cells.p)
    draws = np.ascontiguousarray(weights[:, present])
    values = {name: _all_metrics(here, p, draws) for name, p in cells.p.items()}
    out: dict[str, tuple[dict[str, Estimate], dict[str, Estimate]]] = {}
    for name, found in values.items():
        own = {m: estimate(v, r) for m, (v, r) in found.items()}
        differences: dict[str, Estimate] = {}
        if reference in values and name != reference:
            base = values[reference]
            differences = {
                m: estimate(v - base[m][0], r - base[m][1]) for m, (v, r) in found.items()
            }
        out[name] = (own, differences)
    return out


def ratio_interval(
    value: NDArray[np.float64], group: NDArray[np.int64], weights: NDArray[np.float32]
) -> Estimate:
    """Mean of `value` over cells with its bootstrap interval over groups."""
    point, replicates = _ratio(value, group, weights)
    return estimate(point, replicates)


def mean_replicates(
    values: NDArray[np.float64], group: NDArray[np.int64], weights: NDArray[np.float32]
) -> NDArray[np.float64]:
    """(R, K) means of K columns in every replicate.

    Args:
        values: (n, K), NaN where a cell does not count in its column.
        group: (n,) group of each cell.
        weights: (R, n_groups) from `replicate_weights`.
    """
    present, local = np.unique(group, return_inverse=True)
    seen = np.isfinite(values)
    k = values.shape[1]
    sums = np.zeros((len(present), 2 * k))
    np.add.at(sums, local, np.concatenate([np.where(seen, values, 0.0), seen], axis=1))
    parts: list[NDArray[np.float64]] = []
    for start in range(0, len(weights), _CHUNK):
        totals = weights[start : start + _CHUNK, present].astype(np.float64) @ sums
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append(totals[:, :k] / totals[:, k:])
    return np.concatenate(parts)


def _all_metrics(
    cells: Cells, p: NDArray[np.float64], draws: NDArray[np.float32]
) -> dict[str, tuple[float, NDArray[np.float64]]]:
    s, group = cells.score, cells.group
    found = {
        "accuracy": _ratio(metrics.hits(p, s), group, draws),
        "log_loss": _ratio(metrics.cross_entropy(p, s), group, draws),
        "brier": _ratio(np.square(p - s), group, draws),
        "absolute_error": _ratio(np.abs(p - s), group, draws),
        "ece": _calibration(p, s, group, draws),
    }
    one = np.zeros(len(s), np.int64)
    found["auc"] = _auc(p, s, one, group, draws, metrics.auc(p, s), _POOLED_BINS)
    within = metrics.auc_within(p, s, cells.segment)
    _, segment = np.unique(cells.segment, return_inverse=True)
    found["auc_within_model"] = _auc(p, s, segment, group, draws, within, _SEGMENT_BINS)
    return found


def _ratio(
    value: NDArray[np.float64], group: NDArray[np.int64], draws: NDArray[np.float32]
) -> tuple[float, NDArray[np.float64]]:
    kept = np.isfinite(value)
    if not kept.any():
        return float("nan"), np.full(len(draws), np.nan)
    n = draws.shape[1]
    sums = np.stack(
        [
            np.bincount(group[kept], value[kept], minlength=n),
            np.bincount(group[kept], minlength=n).astype(np.float64),
        ],
        axis=1,
    )
    totals = draws.astype(np.float64) @ sums
    with np.errstate(invalid="ignore", divide="ignore"):
        replicates = totals[:, 0] / totals[:, 1]
    return float(value[kept].mean()), replicates


def _calibration(
    p: NDArray[np.float64],
    s: NDArray[np.float64],
    group: NDArray[np.int64],
    draws: NDArray[np.float32],
) -> tuple[float, NDArray[np.float64]]:
    """The bins stay those of the sample."""
    n, k = draws.shape[1], metrics.N_ECE_BINS
    bins = metrics.calibration_bins(p)
    gaps = np.bincount(group * k + bins, p - s, minlength=n * k).reshape(n, k)
    counts = np.bincount(group, minlength=n)
    wide = draws.astype(np.float64)
    return (
        metrics.calibration_error(p, s),
        np.abs(wide @ gaps).sum(axis=1) / np.maximum(wide @ counts, 1),
    )


def _auc(
    p: NDArray[np.float64],
    s: NDArray[np.float64],
    segment: NDArray[np.int64],
    group: NDArray[np.int64],
    draws: NDArray[np.float32],
    exact: float,
    n_bins: int,
) -> tuple[float, NDArray[np.float64]]:
    """Mean over segments of the AUC, for every replicate."""
    n_segments = int(segment.max()) + 1
    n_bins = min(n_bins, int(np.bincount(segment).max()))
    column = segment * n_bins + _mass_bins(p, segment, n_bins)
    shape = (n_segments * n_bins, draws.shape[1])
    positive = csr_array(coo_array((s.astype(np.float32), (column, group)), shape=shape))
    every = csr_array(coo_array((np.ones(len(s), np.float32), (column, group)), shape=shape))
    ones = np.ones((draws.shape[1], 1), np.float32)
    centre = _binned_auc(positive, every, ones, n_segments)[0]
    parts = [
        _binned_auc(positive, every, draws[i : i + _CHUNK].T, n_segments)
        for i in range(0, len(draws), _CHUNK)
    ]
    return exact, np.concatenate(parts) - centre + exact


def _binned_auc(
    positive: csr_array, every: csr_array, draws: NDArray[np.float32], n_segments: int
) -> NDArray[np.float64]:
    """(R,) mean AUC over segments; draws is (n_groups, R)."""
    pos = np.asarray(positive @ draws).reshape(n_segments, -1, draws.shape[1])
    neg = np.asarray(every @ draws).reshape(pos.shape)
    neg -= pos
    total = pos.sum(axis=1, dtype=np.float64) * neg.sum(axis=1, dtype=np.float64)
    below = np.cumsum(neg, axis=1)
    neg *= 0.5
    below -= neg
    below *= pos
    with np.errstate(invalid="ignore", divide="ignore"):
        areas = np.where(total > 1e-9, below.sum(axis=1, dtype=np.float64) / total, np.nan)
    known = np.isfinite(areas)
    return np.where(known, areas, 0.0).sum(axis=0) / np.where(known.any(0), known.sum(0), np.nan)


def _mass_bins(
    p: NDArray[np.float64], segment: NDArray[np.int64], n_bins: int
) -> NDArray[np.int64]:
    """Equal-mass bin of p within its segment; equal p share a bin."""
    order = np.lexsort((p, segment))
    ranked, parts = p[order], segment[order]
    starts = np.r_[True, (ranked[1:] != ranked[:-1]) | (parts[1:] != parts[:-1])]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(p)), 0))
    sizes = np.bincount(segment)
    offset = np.cumsum(sizes) - sizes
    bins = np.empty(len(p), np.int64)
    bins[order] = (first - offset[parts]) * n_bins // sizes[parts]
    return bins


def estimate(value: float, replicates: NDArray[np.float64]) -> Estimate:
    """A value with the 95 % interval of its replicates; NaN where 5 % of them have none."""
    known = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or len(known) < 0.95 * len(replicates):
        return Estimate(value, float("nan"), float("nan"))
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))

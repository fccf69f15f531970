"""Are gaps found on some benchmarks there on another? Predictive validity and entanglement.

One benchmark H is left out. Gaps are concepts with q < .1 on the others; each has up to five
controls with q > .5 there, nearest to it in log n_eff and log density on H, with the same flags.
The statistic is the mean of y_H over gaps minus that over their controls, y_H = T_H / A_H with
length taken out; its interval is a bootstrap over the items of H, for concepts are not
independent. H goes round; results are pooled by inverse variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from thetascope.evaluation import Estimate, estimate
from thetascope.gaps.base_rates import group_draws
from thetascope.gaps.coverage import chi_bench
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.inference import Z95, q_values, shrink, standardised, tails
from thetascope.gaps.moments import by_concept, moments, n_eff, patterns
from thetascope.gaps.performance import tested

N_CONTROLS, LEAST_GAPS = 5, 3
GAP_Q, CONTROL_Q = 0.1, 0.5
N_REPLICATES = 1000


@dataclass(frozen=True)
class LeftOut:
    """One benchmark left out, one model.

    Attributes:
        benchmark: H.
        n_gaps: Gaps of the others that can be looked at on H.
        n_controls: Their controls.
        difference: Mean effect on H, gaps minus controls, with its interval; None under three
            gaps.
        slope: Of the effect on H on the shrunk effect on the others, over the tested concepts.
    """

    benchmark: str
    n_gaps: int
    n_controls: int
    difference: Estimate | None
    slope: Estimate | None


@dataclass(frozen=True)
class Validity:
    """All of one model, each benchmark left out in turn.

    Attributes:
        model: Its name.
        parts: One a benchmark.
        pooled: Differences pooled by inverse variance; None where there are none.
        slope: Slopes pooled in the same way.
    """

    model: str
    parts: list[LeftOut]
    pooled: Estimate | None
    slope: Estimate | None


def predictive_validity(
    data: GapData, model: int, *, length: bool = True, n: int = N_REPLICATES, seed: int = 0
) -> Validity:
    """Predictive validity of one model's gaps (its weak concepts).

    Args:
        data: Activations and scores; at least two benchmarks that the model answered.
        model: Its column.
        length: Whether text length is a covariate.
        n: Bootstrap replicates.
        seed: Of the bootstrap.
    """
    one = data.with_scores(data.scores[:, [model]], ("m",))
    parts = [
        _leave_out(one, b, length, n, seed)
        for b in range(len(data.benchmarks))
        if np.isfinite(one.scores[data.parts[b], 0]).any()
    ]
    return Validity(
        data.models[model], parts, _pool([p.difference for p in parts]),
        _pool([p.slope for p in parts]),
    )  # fmt: skip


def entanglement(
    data: GapData, model: int, b: int, *, length: bool = True, n: int = N_REPLICATES, seed: int = 0
) -> tuple[Estimate, Estimate]:
    """Are rare concepts weak ones? Spearman of log chi_bench and the shrunk effect (CG's claim).

    Args:
        data: Activations and scores.
        model: Its column.
        b: The benchmark.
        length: Whether text length is a covariate.
        n: Replicates of the bootstrap, and permutations of the scores.
        seed: Of both.

    Returns:
        The correlation with its bootstrap interval over items, and the mean and 95 % range under
        permuted scores.
    """
    one = data.with_scores(data.scores[:, [model]], ("m",))
    found = moments(one, b, length=length)
    rows = np.flatnonzero(
        tested(found.n_eff[:, 0], found.n_active[:, 0], found.v[:, 0]) & data.alive
    )
    nothing = Estimate(float("nan"), float("nan"), float("nan"))
    if len(rows) < 3:
        return nothing, nothing
    part = data.parts[b]
    chi = np.log(chi_bench(data.activations[part], data.alive)[rows])
    mass, v = found.mass[rows, 0], found.v[rows, 0]

    def correlation(t: Array, log_chi: Array, a: Array) -> float:
        y = shrink(t / a, v / a**2).mean
        return _spearman(log_chi, y) if y.std() > 0 else 0.0

    value = correlation(found.t[rows, 0], chi, mass)
    draws = _Draws(one, b, rows, length)
    rng = np.random.default_rng(seed)
    resampled, permuted = [], []
    for _ in range(n // 10):
        t, a, share = draws.resampled(10, rng)
        for k in range(10):
            seen = (a[:, k] > 0) & (share[:, k] > 0)
            y = shrink(t[seen, k] / a[seen, k], v[seen] / a[seen, k] ** 2).mean
            resampled.append(_spearman(np.log(share[seen, k]), y) if y.std() > 0 else 0.0)
        permuted += [correlation(c, chi, mass) for c in draws.permuted(10, rng).T]
    low, high = np.quantile(permuted, [0.025, 0.975])
    return estimate(value, np.array(resampled)), Estimate(
        float(np.mean(permuted)), float(low), float(high)
    )


def _leave_out(data: GapData, b: int, length: bool, n: int, seed: int) -> LeftOut:
    name = data.benchmarks[b]
    t, v, g, mass, square, n_active = np.zeros((6, data.n_concepts))
    for k in range(len(data.benchmarks)):
        if k == b:
            continue
        found = moments(data, k, length=length)
        t, v, g = t + found.t[:, 0], v + found.v[:, 0], g + found.g[:, 0]
        mass, square = mass + found.mass[:, 0], square + found.square[:, 0]
        n_active = n_active + found.n_active[:, 0]
    rest = tested(n_eff(mass, square), n_active, v)
    here = moments(data, b, length=length)
    on_h = tested(here.n_eff[:, 0], here.n_active[:, 0], here.v[:, 0])
    family = np.flatnonzero(rest)
    if not len(family):
        return LeftOut(name, 0, 0, None, None)
    q = np.full(data.n_concepts, np.nan)
    q[family] = q_values(tails(*standardised(t[family], v[family], g[family])).low)
    y = np.zeros(data.n_concepts)
    y[family] = shrink(t[family] / mass[family], v[family] / mass[family] ** 2).mean
    gaps = np.flatnonzero((q < GAP_Q) & on_h)
    pool = np.flatnonzero((q > CONTROL_Q) & on_h)
    both = np.flatnonzero(rest & on_h)
    rng = np.random.default_rng([seed, b])
    draws = _Draws(data, b, np.arange(data.n_concepts), length)
    replicates = [draws.resampled(50, rng)[:2] for _ in range(n // 50)]
    with np.errstate(invalid="ignore", divide="ignore"):
        y_h = here.t[:, 0] / here.mass[:, 0]
        y_star = np.concatenate([np.where(a > 0, u / a, np.nan) for u, a in replicates], axis=1)
    slope = None
    if len(both) >= 10 and y[both].std() > 0:
        x = y[both] - y[both].mean()
        slope = estimate(
            float(x @ y_h[both] / (x @ x)), x @ np.nan_to_num(y_star[both]) / float(x @ x)
        )
    controls = [_nearest(data, here.n_eff[:, 0], int(c), pool) for c in gaps]
    usable = [(c, k) for c, k in zip(gaps.tolist(), controls, strict=True) if len(k)]
    n_controls = len({int(c) for _, k in usable for c in k})
    if len(usable) < LEAST_GAPS:
        return LeftOut(name, len(usable), n_controls, None, slope)

    def statistic(effects: Array) -> Array:
        each = [effects[c] - np.nanmean(effects[k], axis=0) for c, k in usable]
        return np.nanmean(np.stack(each), axis=0)

    return LeftOut(
        name, len(usable), n_controls,
        estimate(float(statistic(y_h[:, None])[0]), statistic(y_star)), slope,
    )  # fmt: skip


def _nearest(
    data: GapData, effective: Array, gap: int, pool: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The up to five controls nearest in log n_eff and log density, with the same flags."""
    same = np.array([c for c in pool.tolist() if data.flags[c] == data.flags[gap]], np.int64)
    if not len(same):
        return same
    density = np.log(np.maximum(data.density, 1e-9))
    distance = np.square(np.log(effective[same]) - np.log(effective[gap])) + np.square(
        density[same] - density[gap]
    )
    return same[np.argsort(distance, kind="stable")[:N_CONTROLS]]


class _Draws:
    """Statistics of one benchmark's answered items when items or scores are drawn anew."""

    def __init__(self, data: GapData, b: int, rows: NDArray[np.int64], length: bool) -> None:
        part = data.parts[b]
        pattern = next(patterns(data, part, length))
        self.a = by_concept(data.activations[part][pattern.items], slice(None))[rows]
        self.e, self.basis = pattern.residuals[:, 0], pattern.basis
        self.q = np.asarray(self.a @ self.basis)
        self.group = data.group[part][pattern.items]
        self.all = by_concept(data.activations, part)[rows]
        self.all_group = data.group[part]
        self.items = pattern.items

    def resampled(self, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """(K, n) T, A and mean activation when groups of items are drawn with replacement.

        The residuals are recentred in each replicate.
        """
        w = group_draws(self.all_group, n, rng)
        own = w[self.items]
        e = self.e[:, None] - (own * self.e[:, None]).sum(axis=0) / np.maximum(own.sum(axis=0), 1)
        return np.asarray(self.a @ (own * e)), np.asarray(self.a @ own), np.asarray(self.all @ w)

    def permuted(self, n: int, rng: np.random.Generator) -> Array:
        """(K, n) T when the residuals are permuted."""
        shuffled = rng.permuted(np.tile(self.e[:, None], (1, n)), axis=0)
        return np.asarray(self.a @ shuffled) - self.q @ (self.basis.T @ shuffled)


def _spearman(a: Array, b: Array) -> float:
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def _pool(values: list[Estimate | None]) -> Estimate | None:
    """Inverse-variance pooled; variances from the intervals' widths."""
    known = [v for v in values if v is not None and np.isfinite(v.low) and v.high > v.low]
    if not known:
        return None
    weight = np.array([((v.high - v.low) / (2 * Z95)) ** -2 for v in known])
    value = float(weight @ [v.value for v in known] / weight.sum())
    half = Z95 / float(np.sqrt(weight.sum()))
    return Estimate(value, value - half, value + half)

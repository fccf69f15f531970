"""Out of distribution: what is lost on a benchmark that the fit never saw, and can it be foreseen?

Drop of part b = [loss_without - base_without] - [loss_whole - base_whole] on b's test items,
base being each model's mean (what anybody knows without texts): log-loss, and accuracy with the
sign turned, so that a positive drop is a loss. Alignment: how close b's directions lie to the
training pool's in the space that never saw b.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata, t

from thetascope.errors import InputError
from thetascope.evaluation import Estimate, Groups, replicate_weights
from thetascope.evaluation.intervals import ratio_interval
from thetascope.evaluation.metrics import cross_entropy, hits
from thetascope.evaluation.splits import check_seeds
from thetascope.predictors.base import ItemFeatures, Sample
from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.runs import Progress
from thetascope.space.alignment import alignment, covering
from thetascope.space.fitted import unit
from thetascope.space.ood_fits import REPAIR, Parts, Tested, fold_of_part, parts_of
from thetascope.study import files

Array = NDArray[np.float64]
PERMUTATIONS = 99_999
MEASURES = ("mean", "best")
FEWEST, SURE = 10, 0.05
"""Tested items under which a part is passed over."""


@dataclass(frozen=True)
class PartDrop:
    """One part left out.

    Attributes:
        name: Benchmark or subject.
        n_items, n_responses: Tested.
        log_loss, accuracy: The drops (positive = worse without the part); accuracy as a share.
        loss_without, loss_whole: Log-loss itself, without and with the part in training.
        repaired: Answered items of the part (0 and more) -> log-loss above that of the whole fit,
            once those answers have moved every model's level there.
        mean, best: Alignment with the training pool.
        covered_by: Names of the three nearest other parts, with their share of neighbours.
    """

    name: str
    n_items: int
    n_responses: int
    log_loss: Estimate
    accuracy: Estimate
    loss_without: float
    loss_whole: float
    repaired: dict[int, Estimate]
    mean: float
    best: float
    covered_by: list[tuple[str, float]]


class Correlation(NamedTuple):
    """Rank correlation of alignment with the drop over P parts.

    Attributes:
        rho: Spearman; negative where closer parts lose less. 95 % interval by Fisher's z with
            the variance of Bonett and Wright (2000).
        p: Two-sided, by random permutations of the parts.
        error, error_of_mean: Mean absolute error of a left-out part's drop when predicted by a
            line through the others' alignment, and when predicted by the others' mean drop.
    """

    rho: Estimate
    p: float
    error: float
    error_of_mean: float

    @property
    def informative(self) -> bool:
        """Whether alignment is worth reading: better than the mean drop, and beyond chance."""
        return bool(self.error < self.error_of_mean and self.p < SURE)


@dataclass(frozen=True)
class Ood:
    """Drops of all parts and what alignment says of them.

    Attributes:
        kind: 'benchmark' or 'subject'.
        seeds: Folds tested.
        parts: One entry a part.
        passed_over: Parts with under ten tested items.
        correlation: 'mean' and 'best' -> Correlation with the log-loss drop; empty under four
            parts.
    """

    kind: str
    seeds: int
    parts: list[PartDrop]
    passed_over: list[str]
    correlation: dict[str, Correlation]

    def to_json(self) -> dict[str, Any]:
        """Plain objects; estimates as [value, low, high], NaN as null."""
        found = asdict(self)
        found["correlation"] = {
            k: {**v._asdict(), "informative": v.informative} for k, v in self.correlation.items()
        }
        return files.finite(found)


@dataclass(frozen=True)
class Expected:
    """What new questions would lose as a benchmark never seen.

    Attributes:
        n: Questions.
        alignment: By `measure`.
        measure: Which alignment: 'mean' or 'best'.
        drop: Expected log-loss drop with its 95 % prediction interval.
        mean_drop: The mean over the parts: what one would say without looking.
        informative: Whether alignment predicted left-out parts better than the mean drop did,
            with a rank correlation beyond chance (p < .05).
        covered_by: Parts of the study that lie nearest, with their share of neighbours.
    """

    n: int
    alignment: float
    measure: str
    drop: Estimate
    mean_drop: float
    informative: bool
    covered_by: list[tuple[str, float]]


def ood_from_json(held: dict[str, Any]) -> Ood:
    """Reads what `Ood.to_json` gave."""
    parts = []
    for p in held["parts"]:
        repaired = {int(n): Estimate(*_nan(e)) for n, e in p["repaired"].items()}
        covered = [(name, share) for name, share in p["covered_by"]]
        ends = {k: Estimate(*_nan(p[k])) for k in ("log_loss", "accuracy")}
        parts.append(PartDrop(**{**p, **ends, "repaired": repaired, "covered_by": covered}))
    told = {
        k: Correlation(Estimate(*_nan(c["rho"])), *_nan([c["p"], c["error"], c["error_of_mean"]]))
        for k, c in held["correlation"].items()
    }
    return Ood(held["kind"], held["seeds"], parts, held["passed_over"], told)


def _nan(values: list[float | None]) -> list[float]:
    return [float("nan") if v is None else v for v in values]


def ood(
    sample: Sample, groups: Groups, predictor: JEIRT, *, seeds: int = 1,
    folder: Path | None = None, progress: Progress | None = None,
) -> Ood:  # fmt: skip
    """Leaves every benchmark (or subject) out in turn.

    Args:
        sample: The study, with text vectors.
        groups: Near-duplicate groups: never on both sides, and the unit of the intervals.
        predictor: Settings of the JE-IRT fits.
        seeds: Tenths of the items tested, 1 to 10; each costs a fit a part and one more.
        folder: Where finished fits' predictions are kept for a stopped run.
        progress: Called with (done, total, what).

    Raises:
        InputError: Fewer than three parts, no vectors, or every part too small to test.
    """
    check_seeds(seeds, seed=predictor.seed)
    parts = parts_of(sample.items)
    sample.items.text_vectors("leaving a benchmark out")
    tested: dict[int, list[Tested]] = {}
    for seed in range(seeds):
        found = fold_of_part(sample, groups, parts, predictor, seed, folder, progress)
        for part, cells in found.items():
            tested.setdefault(part, []).append(cells)
    tested = {p: c for p, c in tested.items() if sum(len(t.item) for t in c) >= FEWEST}
    if not tested:
        raise InputError(
            f"every {parts.kind} has under {FEWEST} items in {seeds} of ten folds",
            fix="test more folds: --seeds 10",
        )
    weights = replicate_weights(groups.n_groups)
    drops = [_part(sample, groups, parts, part, tested[part], weights) for part in sorted(tested)]
    passed = [parts.names[p] for p in np.unique(parts.code).tolist() if p not in tested]
    return Ood(parts.kind, seeds, drops, passed, correlations(drops))


def correlations(parts: list[PartDrop]) -> dict[str, Correlation]:
    """Rank correlation of both alignments with the log-loss drop; empty under four parts."""
    if len(parts) < 4:
        return {}
    drop = np.array([p.log_loss.value for p in parts])
    return {m: _correlation(np.array([getattr(p, m) for p in parts]), drop) for m in MEASURES}


def expected_drop(
    found: Ood, fit: JEIRT, known: ItemFeatures, new: ItemFeatures, measure: str = "mean"
) -> Expected:
    """The expected drop of a new benchmark from its questions alone.

    Args:
        found: Drops of the study's own parts.
        fit: A fit to the whole study.
        known: The study's items, with vectors.
        new: The new questions, with vectors.
        measure: Which alignment to read it from.

    Raises:
        InputError: The study has under four parts to learn the relation from.
    """
    if len(found.parts) < 4:
        raise InputError(
            f"an expected drop needs four {found.kind}s to learn from, there are {len(found.parts)}"
        )
    there = fit.item_space(known).direction.astype(np.float64)
    here = fit.item_space(new).direction.astype(np.float64)
    value = float(getattr(alignment(here, there), measure).mean())
    x = np.array([getattr(p, measure) for p in found.parts])
    y = np.array([p.log_loss.value for p in found.parts])
    parts = parts_of(known)
    centre = there.mean(axis=0)
    share = covering(unit(here - centre), unit(there - centre), parts.code, len(parts.names))
    told = found.correlation[measure]
    return Expected(
        len(new), value, measure, _line(x, y, value), float(y.mean()),
        told.informative, _nearest(parts.names, share),
    )  # fmt: skip


def _part(
    sample: Sample, groups: Groups, parts: Parts, part: int, found: list[Tested],
    weights: NDArray[np.float32],
) -> PartDrop:  # fmt: skip
    item = np.concatenate([f.item for f in found])
    observed = sample.responses.observed[item]
    score = sample.responses.filled().astype(np.float64)[item]
    row, model = np.nonzero(observed)
    s, group = score[row, model], groups.labels[item[row]]

    def stacked(name: str, base: bool = False) -> Array:
        blocks = [getattr(f, name) for f in found]
        if base:
            blocks = [np.tile(b, (len(f.item), 1)) for b, f in zip(blocks, found, strict=True)]
        return np.concatenate(blocks)[row, model]

    without, whole = stacked("without"), stacked("whole")
    base_w, base_a = stacked("base_without", True), stacked("base_whole", True)
    level = cross_entropy(whole, s) - cross_entropy(base_a, s) + cross_entropy(base_w, s)
    loss = cross_entropy(without, s) - level
    right = hits(whole, s) - hits(base_a, s) + hits(base_w, s) - hits(without, s)
    clear = np.isfinite(right)
    known = cross_entropy(whole, s)
    repaired = {0: _interval(cross_entropy(without, s) - known, group, weights)}
    for k, n in enumerate(REPAIR):
        if all(np.isfinite(f.repaired[k]).all() for f in found):
            p = np.concatenate([f.repaired[k] for f in found])[row, model]
            repaired[n] = _interval(cross_entropy(p, s) - known, group, weights)
    share = np.mean([f.covered for f in found], axis=0)
    return PartDrop(
        parts.names[part], len(item), len(s),
        _interval(loss, group, weights),
        _interval(right[clear], group[clear], weights),
        float(cross_entropy(without, s).mean()), float(cross_entropy(whole, s).mean()),
        repaired,
        float(np.concatenate([f.mean for f in found]).mean()),
        float(np.concatenate([f.best for f in found]).mean()),
        _nearest(parts.names, share),
    )  # fmt: skip


def _interval(value: Array, group: NDArray[np.int64], weights: NDArray[np.float32]) -> Estimate:
    present, local = np.unique(group, return_inverse=True)
    return ratio_interval(value, local, np.ascontiguousarray(weights[:, present]))


def _nearest(names: tuple[str, ...], share: Array) -> list[tuple[str, float]]:
    order = np.argsort(-share, kind="stable")[:3]
    return [(names[p], float(share[p])) for p in order.tolist() if share[p] > 0]


def _correlation(x: Array, drop: Array) -> Correlation:
    n = len(x)
    ranks, of_drop = _ranks(x), _ranks(drop)
    size = np.sqrt((ranks @ ranks) * (of_drop @ of_drop))
    if size == 0:  # one of the two does not vary
        nothing = float("nan")
        return Correlation(Estimate(nothing, nothing, nothing), nothing, *_left_out(x, drop))
    rho = float(ranks @ of_drop / size)
    rng = np.random.default_rng(0)
    mixed = np.stack([rng.permutation(n) for _ in range(PERMUTATIONS)])
    extreme = np.abs(ranks[mixed] @ of_drop) >= abs(ranks @ of_drop) - 1e-9
    p = (1 + int(extreme.sum())) / (1 + PERMUTATIONS)
    if abs(rho) > 1 - 1e-9:  # Fisher's z has no width there
        nothing = float("nan")
        return Correlation(Estimate(rho, nothing, nothing), p, *_left_out(x, drop))
    half = norm.ppf(0.975) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    centre = np.arctanh(np.clip(rho, -0.999999, 0.999999))
    low, high = np.tanh([centre - half, centre + half])
    return Correlation(Estimate(rho, float(low), float(high)), p, *_left_out(x, drop))


def _ranks(x: Array) -> Array:
    ranks = rankdata(x)
    return ranks - ranks.mean()


def _left_out(x: Array, y: Array) -> tuple[float, float]:
    """Mean absolute error of each y from a line through the others, and from their mean."""
    line, mean = [], []
    for k in range(len(x)):
        rest = np.arange(len(x)) != k
        slope, start = _slope(x[rest], y[rest])
        line.append(abs(y[k] - start - slope * x[k]))
        mean.append(abs(y[k] - y[rest].mean()))
    return float(np.mean(line)), float(np.mean(mean))


def _slope(x: Array, y: Array) -> tuple[float, float]:
    gap = x - x.mean()
    slope = float(gap @ y / max(gap @ gap, 1e-12))
    return slope, float(y.mean() - slope * x.mean())


def _line(x: Array, y: Array, value: float) -> Estimate:
    """Least squares prediction at `value` with its 95 % prediction interval."""
    n = len(x)
    slope, start = _slope(x, y)
    rest = y - start - slope * x
    spread = np.sqrt(rest @ rest / (n - 2))
    gap = x - x.mean()
    wide = np.sqrt(1 + 1 / n + (value - x.mean()) ** 2 / max(gap @ gap, 1e-12))
    half = float(t.ppf(0.975, n - 2) * spread * wide)
    point = start + slope * value
    return Estimate(point, point - half, point + half)

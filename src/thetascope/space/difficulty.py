"""Difficulty: what the space and the predictors say beforehand of how hard an item is.

Three numbers of an item: the norm r_j; r_j - u_j . mbar, the difficulty to the average model; and
mean_i (1 - P_ij), what a predictor expects. All are set against the observed error, the mean over
models of 1 - [s_ij - (sbar_ib - sbar_b)] (what each model does on the benchmark beyond its models'
mean is left out, so that it does not matter who answered), on items that nobody had answered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from thetascope.errors import InputError
from thetascope.evaluation import Groups, cold_items, replicate_weights
from thetascope.evaluation.columns import Estimates, mean_of, spearman
from thetascope.evaluation.splits import check_seeds
from thetascope.predictors.base import Predictor, Sample
from thetascope.predictors.jeirt import JEIRT
from thetascope.predictors.runs import Progress
from thetascope.space.directed import DirectedGain, directed_logits, gain_of
from thetascope.space.reversed import Reversed, reversed_items, slopes
from thetascope.study.files import write_aside

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
NORMS = ("norm", "norm - u.mbar")
FEWEST = 10
"""A part with fewer tested items gets no rank correlation of its own."""
LEVEL = 0.9


@dataclass(frozen=True)
class Ranks:
    """Rank correlations with the observed error over n items.

    Attributes:
        names: K ways to say how hard an item is.
        observed: (n,) observed error.
        predicted: (n, K).
        overall: K correlations over all items.
        parts: Shown name -> K correlations within a benchmark (or a subject).
        within: Plain mean over the parts, or None.
        n_groups: Shown name -> groups of near-duplicates among the part's items.
        kind: 'benchmark' or 'subject'.
    """

    names: list[str]
    observed: Array
    predicted: Array
    overall: Estimates
    parts: dict[str, Estimates]
    within: Estimates | None
    n_groups: dict[str, int]
    kind: str

    def to_json(self) -> dict[str, Any]:
        """Correlations as [value, low, high] by name."""
        out: dict[str, Any] = {"kind": self.kind, "n_items": len(self.observed)}
        out["names"] = self.names
        out["overall"] = self._row(self.overall)
        out["within"] = None if self.within is None else self._row(self.within)
        out["parts"] = {
            p: {"n_items": int(e.n[0]), "n_groups": self.n_groups[p], **self._row(e)}
            for p, e in self.parts.items()
        }
        return out

    def _row(self, e: Estimates) -> dict[str, list[float | None]]:
        columns = zip(self.names, e.value, e.low, e.high, strict=True)
        return {name: [None if v != v else float(v) for v in row] for name, *row in columns}


@dataclass(frozen=True)
class Difficulty:
    """Predicted difficulty of cold items against how they were answered.

    Attributes:
        seeds: Tenths of the items tested.
        item: (n,) tested items that somebody answered, rows of the sample.
        ranks: Rank correlations.
        half_width: Predictor -> split-conformal half width of an item's observed error at 90 %,
            in units of `scale`; learnt on calibration halves.
        coverage: Predictor -> share of tested items inside, and the mean half width there.
        directed: What a difficulty that depends on direction would add.
        reversed: Items that weaker models get right more often.
    """

    seeds: int
    item: Codes
    ranks: Ranks
    half_width: dict[str, float]
    coverage: dict[str, tuple[float, float]]
    directed: DirectedGain
    reversed: Reversed

    def to_json(self) -> dict[str, Any]:
        """Plain objects."""
        return {
            "seeds": self.seeds,
            **self.ranks.to_json(),
            "level": LEVEL,
            "half_width": self.half_width,
            "coverage": self.coverage,
            "directed": self.directed.to_json(),
            "reversed": self.reversed.to_json(),
        }


def correlate(
    names: list[str], observed: Array, predicted: Array, kind: str, parts: list[str],
    group: Codes, weights: NDArray[np.float32],
) -> Ranks:  # fmt: skip
    """Rank correlations overall and within every part.

    Args:
        names: K columns of `predicted`.
        observed: (n,) observed error.
        predicted: (n, K).
        kind: What the parts are.
        parts: n names.
        group: (n,) near-duplicate group.
        weights: (R, n_groups) from `replicate_weights`.
    """
    overall = spearman(predicted, observed, group, weights)
    found: dict[str, Estimates] = {}
    n_groups: dict[str, int] = {}
    codes = np.array(parts)
    for part in dict.fromkeys(parts):
        rows = np.flatnonzero(codes == part)
        if len(rows) >= FEWEST:
            n_groups[part] = len(np.unique(group[rows]))
            found[part] = spearman(predicted[rows], observed[rows], group[rows], weights)
    within = mean_of(list(found.values()), len(np.unique(group))) if found else None
    return Ranks(names, observed, predicted, overall, found, within, n_groups, kind)


def usual(score: Array, observed: NDArray[np.bool_], benchmark: Codes, n_benchmarks: int) -> Array:
    """(B, M) sbar_ib - sbar_b: what a model does on a benchmark beyond its models' mean.

    Args:
        score, observed: (N, M).
        benchmark: (N,) codes.
        n_benchmarks: B.
    """
    out = np.zeros((n_benchmarks, score.shape[1]))
    for b in range(n_benchmarks):
        rows = benchmark == b
        n = observed[rows].sum(axis=0)
        run = n > 0
        mean = np.where(observed[rows], score[rows], 0.0).sum(axis=0) / np.maximum(n, 1)
        if run.any():
            out[b, run] = mean[run] - mean[run].mean()
    return out


def item_error(value: Array, observed: NDArray[np.bool_], level: Array) -> Array:
    """(n,) 1 - mean over an item's models of (value - level); NaN for an unanswered item.

    Args:
        value: (n, M) scores or chances.
        observed: (n, M) which models answered.
        level: (n, M) `usual` of the item's benchmark.
    """
    n = observed.sum(axis=1)
    total = np.where(observed, value - level, 0.0).sum(axis=1)
    return np.where(n > 0, 1 - total / np.maximum(n, 1), np.nan)


def scale(predicted: Array) -> Array:
    """(n,) how unsure an error of this size is: sqrt(p (1 - p) + .02)."""
    p = np.clip(predicted, 0, 1)
    return np.sqrt(p * (1 - p) + 0.02)


def part_names(sample: Sample) -> tuple[str, list[str]]:
    """('benchmark' | 'subject', N names): benchmarks where there are two, else subjects."""
    items = sample.items
    if len(np.unique(items.benchmark)) > 1:
        return "benchmark", [items.benchmarks[b] for b in items.benchmark.tolist()]
    return "subject", [
        items.subjects[s].partition("/")[2] or items.subjects[s] for s in items.subject.tolist()
    ]


def difficulty(
    sample: Sample, groups: Groups, jeirt: JEIRT, predictors: dict[str, Predictor], *,
    seeds: int = 5, folder: Path | None = None, progress: Progress | None = None,
) -> Difficulty:  # fmt: skip
    """Predicts how hard cold items are, with the space and with other predictors.

    Args:
        sample: The study, with text vectors.
        groups: Near-duplicate groups.
        jeirt: Settings of the fits whose norms are looked at.
        predictors: Name -> predictor whose mean 1 - P is looked at.
        seeds: Tenths of the items tested, 1 to 10.
        folder: Where finished folds are kept for a stopped run.
        progress: Called with (done, total, what).

    Raises:
        InputError: No vectors, seeds out of range, or too few items.
    """
    check_seeds(seeds, seed=jeirt.seed)
    sample.items.text_vectors("difficulty")
    score = sample.responses.filled().astype(np.float64)
    observed = sample.responses.observed
    level = usual(score, observed, sample.items.benchmark, len(sample.items.benchmarks))
    level = level[sample.items.benchmark]
    names = [jeirt.label(sample.items), *predictors]
    parts: list[dict[str, NDArray[Any]]] = []
    for seed, split in enumerate(cold_items(groups.labels, sample.items.benchmark, seeds=seeds)):
        if not (len(split.test.items) and len(split.train.items)):
            continue  # near-duplicates that fill a fold leave others empty
        file = None if folder is None else folder / f"seed-{seed}.safetensors"
        if file is not None and file.is_file():
            parts.append(load_file(file))
            continue
        found: dict[str, NDArray[Any]] = {"test": split.test.items, "held": split.calibrate.items}
        one = replace(jeirt, seed=jeirt.seed + seed)
        learners: dict[str, Predictor] = {names[0]: one, **predictors}
        train, choose = sample.take(split.train), sample.take(split.choose)
        for turn, (name, predictor) in enumerate(learners.items()):
            if progress is not None:
                progress(seed * len(names) + turn, seeds * len(names), f"{name}, seed {seed}")
            predictor.fit(train, choose if choose.responses.observed.any() else None)
            for side in ("test", "held"):
                rows = found[side]
                p = predictor.predict_proba(sample.items.take(rows))
                found[f"{side} {name}"] = item_error(p, observed[rows], level[rows])
                if name == names[0] and side == "test":
                    assert isinstance(predictor, JEIRT)
                    found |= _of_space(sample, predictor, split, p)
        if file is not None:
            write_aside(file, lambda aside, f=found: save_file(f, aside))
        parts.append(found)
    return _summary(sample, groups, names, parts, score, observed, level, seeds)


def _of_space(sample: Sample, fit: JEIRT, split: Any, p: Array) -> dict[str, NDArray[Any]]:
    rows = split.test.items
    space = fit.item_space(sample.items.take(rows))
    norm = space.norm.astype(np.float64)
    shifted = norm - space.direction.astype(np.float64) @ fit.weights_["models"].mean(axis=0)
    base, common, own = directed_logits(sample, fit, split)
    return {
        "norm": norm - norm.mean(), "shifted": shifted - shifted.mean(),
        "base": base, "common": common, "own": own, "p": p,
    }  # fmt: skip


def _summary(
    sample: Sample, groups: Groups, names: list[str], parts: list[dict[str, NDArray[Any]]],
    score: Array, observed: NDArray[np.bool_], level: Array, seeds: int,
) -> Difficulty:  # fmt: skip
    if not parts:
        raise InputError("no fold has items both to learn from and to test: near-duplicates of one"
                         " group are never divided")  # fmt: skip

    def stacked(name: str) -> NDArray[Any]:
        return np.concatenate([p[name] for p in parts])

    item = stacked("test")
    truth = item_error(score[item], observed[item], level[item])
    seen = np.isfinite(truth)
    if seen.sum() < FEWEST:
        raise InputError(f"{int(seen.sum())} answered items were tested; expected {FEWEST}")
    columns = [stacked(f"test {n}") for n in names] + [stacked("norm"), stacked("shifted")]
    predicted = np.stack(columns, axis=1)[seen]
    kind, shown = part_names(sample)
    rows = item[seen]
    ranks = correlate(
        [*names, *NORMS], truth[seen], predicted, kind, [shown[j] for j in rows.tolist()],
        groups.labels[rows], replicate_weights(groups.n_groups),
    )  # fmt: skip
    held = stacked("held")
    out_of = item_error(score[held], observed[held], level[held])
    half: dict[str, float] = {}
    coverage: dict[str, tuple[float, float]] = {}
    for k, name in enumerate(names):
        guess = stacked(f"held {name}")
        half[name] = _conformal(out_of, guess)
        wide = half[name] * scale(predicted[:, k])
        inside = np.abs(truth[seen] - predicted[:, k]) <= wide
        coverage[name] = (float(inside.mean()), float(wide.mean()))
    cells = (score[item], observed[item], groups.labels[item])
    weights = replicate_weights(groups.n_groups)
    directed = gain_of(stacked("base"), stacked("common"), stacked("own"), *cells, weights)
    ability = np.where(observed, level, 0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    expected, found = slopes(stacked("p"), observed[item], ability), slopes(*cells[:2], ability)
    flipped = reversed_items(
        [sample.items.ids[j] for j in item.tolist()], expected, found, cells[1], cells[2], weights
    )
    return Difficulty(seeds, rows, ranks, half, coverage, directed, flipped)


def _conformal(truth: Array, guess: Array) -> float:
    """Split-conformal quantile of |truth - guess| / scale at `LEVEL`."""
    seen = np.isfinite(truth)
    gap = np.sort(np.abs(truth - guess)[seen] / scale(guess[seen]))
    n = len(gap)
    place = int(np.ceil((n + 1) * LEVEL))
    return float("inf") if place > n else float(gap[place - 1])

"""Trials of several splits as one table: scores and costs of every policy, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.routing import frontier as curve
from thetascope.decisions.routing.trial import AVERAGE, BENCHMARK, ORACLE, RANDOM, Trial
from thetascope.evaluation import Estimate, estimate, mean_replicates

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Pooled:
    """All tested items of all splits.

    Attributes:
        rows: (n,) items of the study.
        group: (n,) their groups of near-duplicates.
        benchmark: (n,) codes.
        weights: (R, n_groups) of the bootstrap.
        score: policy -> (n,).
        cost: policy -> (n,), NaN where the model that it chose has none.
        left: policy -> (n,) whether it chose another model than the best per benchmark (the
            best average where there is one benchmark).
        priced: policy -> ((n,) score, (n,) cost) among models with a cost, NaN elsewhere.
        curves: policy -> ((L, n) score, (L, n) cost) of the same.
    """

    rows: NDArray[np.int64]
    group: NDArray[np.int64]
    benchmark: NDArray[np.int64]
    weights: NDArray[np.float32]
    score: dict[str, Array]
    cost: dict[str, Array]
    left: dict[str, Array]
    priced: dict[str, tuple[Array, Array]]
    curves: dict[str, tuple[Array, Array]]

    def rows_table(self, benchmarks: Sequence[str]) -> list[dict[str, Any]]:
        """A row a policy and part: score, differences to the two defaults, cost."""
        parts: list[tuple[str, NDArray[np.bool_]]] = [("all", np.ones(len(self.rows), bool))]
        present = np.unique(self.benchmark)
        if len(present) > 1:
            parts += [(str(benchmarks[b]), self.benchmark == b) for b in present.tolist()]
        out: list[dict[str, Any]] = []
        for part, keep in parts:
            out += self._part(part, keep)
        return out

    def _part(self, part: str, keep: NDArray[np.bool_]) -> list[dict[str, Any]]:
        names = list(self.score)
        bases = [b for b in (AVERAGE, BENCHMARK) if b in self.score]
        columns = [self.score[n][keep] for n in names]
        columns += [_whole(self.cost[n][keep]) for n in names]
        values = np.stack(columns, axis=1)
        draws = mean_replicates(values, self.group[keep], self.weights)
        point = _column_means(values)
        k = len(names)
        out: list[dict[str, Any]] = []
        for i, name in enumerate(names):
            row: dict[str, Any] = {"policy": name, "benchmark": part, "n_items": int(keep.sum())}
            row |= flat("score", estimate(point[i], draws[:, i]))
            for base in bases:
                j = names.index(base)
                gain = estimate(point[i] - point[j], draws[:, i] - draws[:, j])
                row |= flat(f"minus_{base}", gain)
            row |= flat("cost", estimate(point[k + i], draws[:, k + i]))
            row["left_default"] = float(self.left[name][keep].mean()) if name in self.left else None
            out.append(row)
        return out

    def frontier(self, lambdas: Array, router: str) -> dict[str, Any] | None:
        """Curves, areas and the cost at equal accuracy, among models that have a cost."""
        if not self.curves:
            return None
        keep = np.isfinite(self.priced[AVERAGE][1])
        if not keep.any():
            return None
        group, names = self.group[keep], list(self.curves)
        points = {n: np.stack([v[keep] for v in self.priced[n]], axis=1) for n in self.priced}
        lines = {n: np.concatenate([v[:, keep] for v in self.curves[n]]).T for n in names}
        means = {n: v.mean(axis=0) for n, v in (points | lines).items()}
        draws = {n: mean_replicates(v, group, self.weights) for n, v in (points | lines).items()}
        n_l = len(lambdas)
        low, high = means["cheapest"][1], means["dearest"][1]
        d_low, d_high = draws["cheapest"][:, 1], draws["dearest"][:, 1]
        base, d_base = means[AVERAGE], draws[AVERAGE]
        listed: list[dict[str, Any]] = []
        for name in names:
            score, cost = means[name][:n_l], means[name][n_l:]
            d = draws[name]
            replicates = [
                (curve.area(c, s, lo, hi), curve.cost_at(c, s, b) / bc)
                for s, c, lo, hi, (b, bc) in zip(
                    d[:, :n_l], d[:, n_l:], d_low, d_high, d_base, strict=True
                )
            ]
            areas, shares = np.array(replicates).T
            entry: dict[str, Any] = {"policy": name, "lambda": lambdas.tolist(),
                                     "cost": cost.tolist(), "score": score.tolist()}  # fmt: skip
            entry |= flat("area", estimate(curve.area(cost, score, low, high), areas))
            share = curve.cost_at(cost, score, base[0]) / base[1]
            entry |= flat("cost_share_at_equal_score", estimate(share, shares))
            listed.append(entry)
        return {
            "n_items": int(keep.sum()),
            "curves": listed,
            "points": [_point(n, means, draws) for n in points],
        }


def pool(
    trials: Sequence[Trial], groups: NDArray[np.int64], weights: NDArray[np.float32]
) -> Pooled:
    """Joins the tested items of all trials."""
    names = list(trials[0].choices)
    rows = np.concatenate([t.test.rows for t in trials])
    score: dict[str, Array] = {RANDOM: _join(trials, _random_score)}
    cost: dict[str, Array] = {RANDOM: _join(trials, _random_cost)}
    for name in names:
        score[name] = _join(trials, lambda t, n=name: _taken(t.test.score, t.choices[n]))
        cost[name] = _join(trials, lambda t, n=name: _taken(t.test.cost, t.choices[n]))
    score[ORACLE] = _join(trials, lambda t: _taken(t.test.score, _oracle(t)))
    cost[ORACLE] = _join(trials, lambda t: _taken(t.test.cost, _oracle(t)))
    default = BENCHMARK if BENCHMARK in names else AVERAGE
    left = {
        n: _join(trials, lambda t, n=n: (t.choices[n] != t.choices[default]).astype(np.float64))
        for n in names
        if n not in (AVERAGE, BENCHMARK)
    }
    priced = {
        n: (_join(trials, lambda t, n=n: _priced(t, t.test.score, t.priced[n])),
            _join(trials, lambda t, n=n: _priced(t, t.test.cost, t.priced[n])))
        for n in trials[0].priced
    }  # fmt: skip
    curves = {
        n: (_join(trials, lambda t, n=n: _lines(t, t.test.score, t.curves[n])),
            _join(trials, lambda t, n=n: _lines(t, t.test.cost, t.curves[n])))
        for n in trials[0].curves
    }  # fmt: skip
    benchmark = np.concatenate([t.test.items.benchmark for t in trials])
    return Pooled(rows, groups[rows], benchmark, weights, score, cost, left, priced, curves)


def flat(name: str, value: Estimate) -> dict[str, float | None]:
    """name, name_low, name_high; None for what is not known."""
    return {
        name + suffix: float(v) if np.isfinite(v) else None
        for suffix, v in zip(("", "_low", "_high"), value, strict=True)
    }


def _join(trials: Sequence[Trial], of: Any) -> Array:
    return np.concatenate([of(t) for t in trials], axis=-1)


def _taken(values: Array, choice: NDArray[np.int64]) -> Array:
    return values[np.arange(len(choice)), choice]


def _random_score(trial: Trial) -> Array:
    """A model drawn evenly: the mean over the models of the item."""
    allowed = trial.test.allowed
    return (trial.test.score * allowed).sum(axis=1) / allowed.sum(axis=1)


def _random_cost(trial: Trial) -> Array:
    """NaN where one of the models has no cost."""
    cost = np.where(trial.test.allowed, trial.test.cost, 0.0)
    return cost.sum(axis=1) / trial.test.allowed.sum(axis=1)


def _oracle(trial: Trial) -> NDArray[np.int64]:
    """The model with the best score, the cheapest of equals (those without a cost last)."""
    score = np.where(trial.test.allowed, trial.test.score, -np.inf)
    tied = score == score.max(axis=1, keepdims=True)
    cost = np.where(np.isfinite(trial.test.cost), trial.test.cost, 1e300)
    return np.argmin(np.where(tied, cost, np.inf), axis=1)


def _priced(trial: Trial, values: Array, choice: NDArray[np.int64]) -> Array:
    return np.where(trial.test.priced.any(axis=1), _taken(values, choice), np.nan)


def _lines(trial: Trial, values: Array, choices: NDArray[np.int64]) -> Array:
    return np.stack([_priced(trial, values, c) for c in choices])


def _whole(cost: Array) -> Array:
    """The costs, or NaN everywhere where one is not known: no mean over some of the items."""
    return cost if np.isfinite(cost).all() else np.full(len(cost), np.nan)


def _column_means(values: Array) -> Array:
    seen = np.isfinite(values)
    n = seen.sum(axis=0)
    return np.where(n > 0, np.where(seen, values, 0).sum(axis=0) / np.maximum(n, 1), np.nan)


def _point(name: str, means: dict[str, Array], draws: dict[str, Array]) -> dict[str, Any]:
    out: dict[str, Any] = {"policy": name}
    out |= flat("score", estimate(means[name][0], draws[name][:, 0]))
    out |= flat("cost", estimate(means[name][1], draws[name][:, 1]))
    gain = means[name][0] - means[AVERAGE][0]
    out |= flat("minus_best_average", estimate(gain, draws[name][:, 0] - draws[AVERAGE][:, 0]))
    share = draws[name][:, 1] / draws[AVERAGE][:, 1]
    out |= flat("cost_share", estimate(means[name][1] / means[AVERAGE][1], share))
    return out

"""Every policy on one split: what it learns on training and validation, what it chooses on test.

Only items with an observed response of a candidate count; every policy chooses among the same
models of an item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.routing.costs import Costs, predict_costs
from thetascope.decisions.routing.frontier import lambda_grid, sweep
from thetascope.decisions.routing.policies import (
    Choice,
    Defaults,
    Mask,
    choose,
    gaps,
    guarded,
    learn_defaults,
    learn_tau,
)
from thetascope.decisions.routing.predictions import Predicted, held_items
from thetascope.evaluation import Split
from thetascope.predictors.base import ItemFeatures, Sample

Array = NDArray[np.float64]
GUARDED, BLIND = "_guarded", "_blind"
AVERAGE, BENCHMARK, RANDOM, ORACLE = "best_average", "best_per_benchmark", "random", "oracle"
SAVER = "_saver"


@dataclass(frozen=True)
class Part:
    """Some items with what the candidates scored and cost on them.

    Attributes:
        rows: (n,) items of the study.
        items: Their features.
        score: (n, M) observed scores, 0 where there is none.
        allowed: (n, M) candidates with a response.
        priced: (n, M) those of them that have a cost.
        cost: (n, M) cost of the response; NaN where there is none.
        predicted: (n, M) cost predicted from training data.
    """

    rows: NDArray[np.int64]
    items: ItemFeatures
    score: Array
    allowed: Mask
    priced: Mask
    cost: Array
    predicted: Array


@dataclass(frozen=True)
class Trial:
    """One split.

    Attributes:
        name: The split's.
        test: The tested items.
        choices: policy -> (n,) chosen model; no entry for 'random' and 'oracle'.
        priced: policy -> (n,) choice among the models that have a cost; empty without costs.
        curves: policy -> (L, n) choices among them at each lambda.
        learnt: What was learnt on validation data, to be printed.
    """

    name: str
    test: Part
    choices: dict[str, Choice]
    priced: dict[str, Choice]
    curves: dict[str, NDArray[np.int64]]
    learnt: dict[str, Any]


def run_trial(
    sample: Sample,
    split: Split,
    predicted: dict[str, Predicted],
    router: str,
    usable: Mask,
    costs: Costs,
    lambdas: Array,
) -> Trial:
    """All policies on one split.

    Args:
        sample: The study.
        split: The split.
        predicted: predictor -> predictions; `router` among them, the others are baselines.
        router: The predictor that is guarded, and tried without the benchmark told.
        usable: (N, M) responses of candidates on the items that count.
        costs: Of all responses.
        lambdas: (L,) for the curves; empty without costs.
    """
    defaults = learn_defaults(sample.take(split.train))
    table = predict_costs(costs, sample.items, split.train.items)
    held, test = (
        _part(sample, rows, usable, costs, table.of(sample.items.take(rows)))
        for rows in (held_items(split), split.test.items)
    )
    kept_held = usable[held_items(split)].any(axis=1)
    kept_test = usable[split.test.items].any(axis=1)
    p = {
        name: Predicted(found.held[kept_held], found.test[kept_test],
                        found.held_blind[kept_held], found.test_blind[kept_test])
        for name, found in predicted.items()
    }  # fmt: skip
    average = _default(defaults, held, test, named=False)
    several = len(sample.items.benchmarks) > 1
    own = _default(defaults, held, test, named=True) if several else average
    choices = {AVERAGE: average[1]} | ({BENCHMARK: own[1]} if several else {})
    learnt: dict[str, Any] = {}
    for name, found in p.items():
        choices[name] = choose(found.test, test.allowed)
        if name in (router, "knn_weighted"):
            tau = _tau(found.held, own[0], held)
            learnt[f"tau {name}"] = tau
            choices[name + GUARDED] = guarded(found.test, own[1], test.allowed, tau)
    if several:
        blind = p[router]
        tau = _tau(blind.held_blind, average[0], held)
        learnt[f"tau {router}{BLIND}"] = tau
        choices[router + BLIND] = choose(blind.test_blind, test.allowed)
        choices[router + BLIND + GUARDED] = guarded(blind.test_blind, average[1], test.allowed, tau)
    priced: dict[str, Choice] = {}
    curves: dict[str, NDArray[np.int64]] = {}
    if len(lambdas):
        priced, curves, learnt["lambda saver"] = _priced(
            defaults, held, test, p, router, lambdas, several
        )
    return Trial(split.name, test, choices, priced, curves, learnt)


def grid(costs: Costs, usable: Mask) -> Array:
    """(L,) values of lambda for the costs of these responses; empty without costs."""
    value = np.where(usable, costs.value, np.nan)
    if costs.unit is None or np.isfinite(value).any(axis=0).sum() < 2:
        return np.zeros(0)
    with_cost = value[:, np.isfinite(value).any(axis=0)]
    return lambda_grid(with_cost)


def _part(
    sample: Sample, rows: NDArray[np.int64], usable: Mask, costs: Costs, predicted: Array
) -> Part:
    allowed = usable[rows]
    kept = allowed.any(axis=1)
    rows, allowed = rows[kept], allowed[kept]
    cost = costs.value[rows]
    responses = sample.responses.take(rows)
    return Part(
        rows,
        sample.items.take(rows),
        responses.filled().astype(np.float64),
        allowed,
        allowed & np.isfinite(cost) & np.isfinite(predicted[kept]),
        cost,
        predicted[kept],
    )


def _default(defaults: Defaults, held: Part, test: Part, *, named: bool) -> tuple[Choice, Choice]:
    """The default's choices on validation and test items."""
    pair = [
        choose(
            defaults.by_benchmark(part.items) if named else defaults.by_average(len(part.rows)),
            part.allowed,
        )
        for part in (held, test)
    ]
    return pair[0], pair[1]


def _tau(p: Array, default: Choice, held: Part) -> float:
    best, gap = gaps(p, default, held.allowed)
    rows = np.arange(len(gap))
    return learn_tau(gap, held.score[rows, best] - held.score[rows, default])


def _priced(
    defaults: Defaults,
    held: Part,
    test: Part,
    p: dict[str, Predicted],
    router: str,
    lambdas: Array,
    several: bool,
) -> tuple[dict[str, Choice], dict[str, NDArray[np.int64]], float]:
    """Policies among the models that have a cost; an item without two of them is left out.

    The saver is the router at the greatest lambda that on validation data scores no less than
    the best average.
    """
    some = np.count_nonzero(test.priced, axis=1) > 0
    mask = np.where(some[:, None], test.priced, test.allowed)
    held_rows = np.flatnonzero(np.count_nonzero(held.priced, axis=1) > 0)
    held_mask, held_score = held.priced[held_rows], held.score[held_rows]
    choices = {AVERAGE: choose(defaults.by_average(len(test.rows)), mask)}
    if several:
        choices[BENCHMARK] = choose(defaults.by_benchmark(test.items), mask)
    wide = np.tile(test.predicted.sum(axis=0), (len(test.rows), 1))  # NaN stays NaN
    choices["cheapest"], choices["dearest"] = choose(-wide, mask), choose(wide, mask)
    curves: dict[str, NDArray[np.int64]] = {}
    for name, found in p.items():
        curves[name] = sweep(found.test, test.predicted, mask, lambdas).choice
    rows = np.arange(len(held_rows))
    base = choose(defaults.by_average(len(held_rows)), held_mask)
    goal = held_score[rows, base].mean() if len(rows) else 0.0
    tried = sweep(p[router].held[held_rows], held.predicted[held_rows], held_mask, lambdas).choice
    reached = [k for k, c in enumerate(tried) if len(rows) and held_score[rows, c].mean() >= goal]
    best = max(reached, default=0)
    choices[router + SAVER] = curves[router][best]
    return choices, curves, float(lambdas[best])

"""What routing is worth on unseen questions: every policy, its cost, and the frontier.

Cold items, one split a seed, pooled: each tested item is answered once by every policy, among
the same models. Intervals are paired and by bootstrap over groups of near-duplicate items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.decisions.routing import trial as one
from thetascope.decisions.routing.costs import Costs, study_costs
from thetascope.decisions.routing.pooled import pool
from thetascope.decisions.routing.predictions import predict_split
from thetascope.errors import InputError
from thetascope.evaluation import cold_items, replicate_weights
from thetascope.evaluation.splits import Split, check_seeds
from thetascope.predictors.base import Predictor, Sample, study_sample
from thetascope.predictors.registry import make_predictor, unmet_need
from thetascope.predictors.runs import Progress
from thetascope.predictors.setup import study_groups
from thetascope.study import Study

Items = Literal["auto", "complete", "observed"]
ITEMS: tuple[Items, ...] = get_args(Items)
BASELINES = ("knn", "knn_weighted", "model_benchmark")
_ENOUGH = 0.5


@dataclass(frozen=True)
class RoutingEvaluation:
    """The result.

    Attributes:
        table: JSON: what was tested, a row a policy and benchmark, guards, costs, frontier.
        choices: item_id, benchmark, split, and for every policy the model that it chose.
    """

    table: dict[str, Any]
    choices: pl.DataFrame


def evaluate_routing(
    study: Study,
    router: str | Predictor = "blend",
    *,
    candidates: Sequence[str] | None = None,
    items: Items = "auto",
    seeds: int = 5,
    split_seed: int = 0,
    encoder: str | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> RoutingEvaluation:
    """Tries every policy on items that no response was seen of.

    Args:
        study: The study.
        router: The predictor that routes.
        candidates: Models that may be chosen; None for all.
        items: 'complete' takes only items that every candidate answered; 'observed' chooses
            among those that did, the same for every policy; 'auto' is 'complete' where that
            leaves half of the items.
        seeds: Tenths of the items that are tested, each once (1 to 10).
        split_seed: Of the partition.
        encoder: Name of the text vectors; None for the only ones.
        folder: Where finished predictions are kept; stopped, it goes on from there.
        progress: Called with (done, total, what).

    Raises:
        InputError: A setting is out of range, a candidate is unknown, fewer than two are left,
            or the study has nothing to test.
    """
    check_seeds(seeds, split_seed=split_seed)
    sample = study_sample(study, encoder)
    usable, mode = usable_responses(sample, candidates, items)
    chosen = _predictors(router, sample, encoder)
    name = next(iter(chosen))
    groups = study_groups(study, sample.items)
    splits = list(
        cold_items(groups.labels, sample.items.benchmark, seeds=seeds, split_seed=split_seed)
    )
    splits = [s for s in splits if _can_run(sample, s, usable)]
    if not splits:
        raise InputError("too few items to learn from, to choose on and to test")
    costs = study_costs(study)
    lambdas = one.grid(costs, usable)
    trials: list[one.Trial] = []
    for turn, split in enumerate(splits):
        predicted = predict_split(sample, split, chosen, folder, progress, (turn, len(splits)))
        trials.append(one.run_trial(sample, split, predicted, name, usable, costs, lambdas))
    pooled = pool(trials, groups.labels, replicate_weights(groups.n_groups))
    n_left_out = sum(len(s.test.items) for s in splits) - len(pooled.rows)
    table = {
        "router": name,
        "candidates": _named(sample, np.count_nonzero(usable, axis=0) > 0),
        "items": mode,
        "seeds": len(splits),
        "split_seed": split_seed,
        "n_items": len(pooled.rows),
        "n_items_left_out": n_left_out,
        "n_groups": len(np.unique(groups.labels[pooled.rows])),
        "rows": pooled.rows_table(sample.items.benchmarks),
        "learnt": {t.name: {k: _finite(v) for k, v in t.learnt.items()} for t in trials},
        "costs": _costs(costs, usable),
        "frontier": pooled.frontier(lambdas, name),
    }
    return RoutingEvaluation(table, _choices(sample, trials))


def usable_responses(
    sample: Sample, candidates: Sequence[str] | None, items: Items
) -> tuple[NDArray[np.bool_], Items]:
    """(N, M) responses that count, and which items they are on ('complete' or 'observed')."""
    if items not in ITEMS:
        raise InputError(f"expected {', '.join(ITEMS)}, found {items!r}", field="items")
    models = sample.responses.models
    wanted = np.ones(len(models), bool)
    if candidates is not None:
        unknown = [c for c in candidates if c not in models]
        if unknown:
            raise InputError(
                f"{unknown[0]!r} is no model of the study; there are {', '.join(models)}",
                field="candidates",
            )
        wanted = np.isin(np.array(models, object), list(candidates))
    if wanted.sum() < 2:
        raise InputError("routing needs two models or more to choose from", field="candidates")
    usable = sample.responses.observed & wanted
    complete = usable.sum(axis=1) == wanted.sum()
    mode: Items = items
    if items == "auto":
        answered = max(int(usable.any(axis=1).sum()), 1)
        mode = "complete" if complete.sum() >= _ENOUGH * answered else "observed"
    kept = complete if mode == "complete" else usable.sum(axis=1) >= 2
    if not kept.any():
        raise InputError(
            "no item has responses of every candidate"
            if mode == "complete"
            else "no item has responses of two candidates",
            fix="name fewer with --candidates, or take --items observed",
        )
    return usable & kept[:, None], mode


def _predictors(
    router: str | Predictor, sample: Sample, encoder: str | None
) -> dict[str, Predictor]:
    """The router first, then the baselines that the study allows."""
    main = make_predictor(router)
    why = unmet_need(main, sample.items)
    if why is not None:
        raise InputError(f"{main.NAME} cannot run: {why}")
    out = {main.NAME: main}
    for name in BASELINES:
        predictor = make_predictor(name)
        if name not in out and unmet_need(predictor, sample.items) is None:
            out[name] = predictor
    if encoder is not None:
        for predictor in out.values():
            if "vectors" in predictor.get_params():
                predictor.vectors = encoder  # type: ignore[attr-defined]
    return out


def _can_run(sample: Sample, split: Split, usable: NDArray[np.bool_]) -> bool:
    return bool(
        sample.responses.observed[split.train.items].any() and usable[split.test.items].any()
    )


def _named(sample: Sample, mask: NDArray[np.bool_]) -> list[str]:
    return [m for m, kept in zip(sample.responses.models, mask, strict=True) if kept]


def _costs(costs: Costs, usable: NDArray[np.bool_]) -> dict[str, Any]:
    candidate = np.count_nonzero(usable, axis=0) > 0
    without = [
        m for m, k, c in zip(costs.models, costs.known, candidate, strict=True) if c and not k
    ]
    return {"unit": costs.unit, "models_without": without}


def _finite(value: float) -> float | str:
    return value if np.isfinite(value) else "inf"


def _choices(sample: Sample, trials: Sequence[one.Trial]) -> pl.DataFrame:
    models = np.array(sample.responses.models, object)
    frames: list[pl.DataFrame] = []
    for trial in trials:
        ids = [sample.items.ids[i] for i in trial.test.rows.tolist()]
        columns: dict[str, Any] = {"item_id": ids, "split": [trial.name] * len(ids)}
        columns |= {k: models[c].tolist() for k, c in trial.choices.items()}
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames)

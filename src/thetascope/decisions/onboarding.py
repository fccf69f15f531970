"""Add a new model to a bank from some of its answers; nothing else moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.decisions.bank import ItemBank
from thetascope.decisions.posterior import Answers, Gaussian, chances
from thetascope.decisions.scores import LEVEL, ScoreEstimate
from thetascope.errors import InputError
from thetascope.predictors.logit_space import LogitSpace
from thetascope.study import Study
from thetascope.study.complete import to_polars

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Given:
    """Answers as they came, matched to a bank.

    Attributes:
        model: Name of the new model.
        answers: Those on items of the bank.
        unknown: Ids that the bank does not have.
        cost_usd: Sum of the costs that came with the answers used; None where none came.
        n_without_cost: Answers used that came without one.
    """

    model: str
    answers: Answers
    unknown: tuple[str, ...]
    cost_usd: float | None
    n_without_cost: int


@dataclass(frozen=True)
class Onboarded:
    """A new model in a space.

    Attributes:
        bank: The bank, as it was.
        given: What the model answered.
        posterior: MAP estimate and covariance (times the dispersion) of its vector.
        dispersion: phi; 1 for right or wrong.
        scores: One estimate a benchmark.
    """

    bank: ItemBank
    given: Given
    posterior: Gaussian
    dispersion: float
    scores: tuple[ScoreEstimate, ...]

    def predict_proba(self) -> Array:
        """(N,) the model's chance on each item of the bank."""
        space = self.bank.space
        return chances(space.design @ self.posterior.mean + space.intercept, space.chance)[0]

    def space(self) -> LogitSpace:
        """A new space with the model among the known ones; the others are as before."""
        old = self.bank.space
        if self.given.model in old.models:
            raise InputError(f"the space has a model named {self.given.model!r} already")
        spread = old.spread
        if spread is not None:
            spread = np.concatenate([spread, self.posterior.covariance[None]])
        return replace(
            old,
            models=(*old.models, self.given.model),
            theta=np.concatenate([old.theta, self.posterior.mean[None]]),
            spread=spread,
        )

    def to_json(self) -> dict[str, Any]:
        """What `thetascope onboard --json` prints."""
        given = self.given
        return {
            "model": given.model,
            "known_already": given.model in self.bank.space.models,
            "n_answers": len(given.answers),
            "n_unknown_items": len(given.unknown),
            "unknown_items": list(given.unknown),
            "cost_usd": given.cost_usd,
            "n_answers_without_cost": given.n_without_cost,
            "calibrated": self.bank.calibrated,
            "dispersion": self.dispersion,
            "scores": [s.to_json() for s in self.scores],
        }


def onboard(
    bank: ItemBank,
    responses: Study | Mapping[str, float] | Any,
    *,
    model: str | None = None,
    level: float = LEVEL,
) -> Onboarded:
    """Finds a new model's vector from its answers; no known model and no item moves.

    Args:
        bank: The item bank.
        responses: A Study of the new model, a table with item_id and score (optional model,
            trials, cost_usd), or item id -> score.
        model: Which model, where the responses hold several; a name for it otherwise.
        level: Coverage of the intervals.

    Returns:
        The model with one score a benchmark. All right or all wrong is a finite answer (the
        prior sees to that); one answer moves the prior a little.

    Raises:
        InputError: No answer is on an item of the bank; a score is NaN, missing or outside
            [0, 1]; an item was answered twice; several models and none named.
    """
    given = match_answers(bank, responses, model=model)
    if not len(given.answers):
        listed = ", ".join(repr(u) for u in given.unknown[:3])
        raise InputError(
            f"none of the {len(given.unknown)} answered items is in the study, first {listed}"
            if given.unknown
            else "there are no answers",
            fix="item ids are 'benchmark:source_id'",
        )
    posterior, phi = settle(bank, given.answers)
    return Onboarded(
        bank, given, posterior, phi, scores(bank, posterior, given.answers, phi, level)
    )


def settle(bank: ItemBank, answers: Answers) -> tuple[Gaussian, float]:
    """The posterior with its covariance times phi, and phi."""
    posterior = bank.posterior(answers)
    phi = bank.dispersion(answers, posterior.mean)
    return Gaussian(posterior.mean, posterior.covariance * phi), phi


def scores(
    bank: ItemBank, posterior: Gaussian, answers: Answers, phi: float, level: float
) -> tuple[ScoreEstimate, ...]:
    """One estimate for each benchmark that has items."""
    codes = np.unique(bank.space.benchmark).tolist()
    return tuple(bank.score(posterior, answers, b, dispersion=phi, level=level) for b in codes)


def match_answers(
    bank: ItemBank, responses: Study | Mapping[str, float] | Any, *, model: str | None = None
) -> Given:
    """Checks answers and finds their items in the bank; see `onboard`."""
    table = _table(responses)
    names = table["model"].unique(maintain_order=True).to_list() if "model" in table.columns else []
    if model is not None and len(names) > 1 and model not in names:
        raise InputError(f"the responses hold no {model!r}; they hold {', '.join(names[:6])}")
    if model in names or len(names) == 1:
        name = model if model in names else names[0]
        table = table.filter(pl.col("model") == name)
    elif len(names) > 1:
        raise InputError(
            f"the responses hold {len(names)} models: {', '.join(names[:6])}",
            fix="name one with --model",
        )
    _check(table)
    ids = table["item_id"].to_list()
    rows = np.array([bank.row(item) for item in ids], np.int64)
    known = rows >= 0
    unknown = tuple(item for item, k in zip(ids, known.tolist(), strict=True) if not k)
    trials = np.ones(len(ids))
    if "trials" in table.columns:
        trials = table["trials"].fill_null(1).cast(pl.Float64).to_numpy()
    cost, without = None, int(known.sum())
    if "cost_usd" in table.columns:
        paid = table.filter(pl.Series(known))["cost_usd"].drop_nulls()
        without -= len(paid)
        cost = float(paid.sum()) if len(paid) else None
    score = table["score"].cast(pl.Float64).to_numpy()
    answers = Answers(rows[known], score[known], trials[known])
    return Given(model or (names[0] if names else "new model"), answers, unknown, cost, without)


def _table(responses: Any) -> pl.DataFrame:
    if isinstance(responses, Study):
        return responses.pairs()
    if isinstance(responses, Mapping):
        pairs = {"item_id": list(responses), "score": [float(v) for v in responses.values()]}
        return pl.DataFrame(pairs, schema={"item_id": pl.String, "score": pl.Float64})
    table = to_polars(responses, "responses")
    for column in ("item_id", "score"):
        if column not in table.columns:
            raise InputError(f"the responses have no column {column!r}", field=column)
    return table


def _check(table: pl.DataFrame) -> None:
    score = table["score"].cast(pl.Float64)
    bad = score.is_null() | score.is_nan() | (score < 0) | (score > 1)
    if bad.any():
        first = int(bad.arg_true()[0])
        raise InputError(
            f"expected a score from 0 to 1, found {score[first]} for"
            f" {table['item_id'][first]!r} ({int(bad.sum())} such answers)",
            field="score",
            fix="leave out items that were not answered",
        )
    if "trials" in table.columns:
        trials = table["trials"].cast(pl.Float64).fill_null(1)
        if not (trials > 0).all():
            raise InputError("trials must be above 0", field="trials")
    repeated = table.filter(table["item_id"].is_duplicated())
    if repeated.height:
        raise InputError(
            f"{repeated['item_id'].n_unique()} items were answered more than once, first"
            f" {repeated['item_id'][0]!r}",
            fix="give one score an item, the mean with its trials say",
        )

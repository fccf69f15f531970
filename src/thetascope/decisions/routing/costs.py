"""What an answer costs: known from the study, predicted for a question that nobody has answered.

A response's own `cost_usd` comes first, else its tokens times the model's prices. Where no
response of the study has either, prices alone stand in: USD per million tokens, as if all
answers were equally long. A model without a cost in the study's unit is routed without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.predictors.base import ItemFeatures
from thetascope.predictors.means import PRIOR_WEIGHT
from thetascope.study import Study

Array = NDArray[np.float64]
Unit = Literal["USD per answer", "USD per million tokens"]
PER_ANSWER: Unit = "USD per answer"
PER_TOKENS: Unit = "USD per million tokens"
_IN, _OUT = "price_in_usd_per_mtok", "price_out_usd_per_mtok"


@dataclass(frozen=True)
class Costs:
    """Costs of a study's responses.

    Attributes:
        unit: Of every number; None where nothing is known of any model.
        value: (N, M) cost of each response; NaN where there is none.
        known: (M,) models that have a cost.
        models: M names.
    """

    unit: Unit | None
    value: Array
    known: NDArray[np.bool_]
    models: tuple[str, ...]

    @property
    def without(self) -> list[str]:
        """Models that have no cost."""
        return [m for m, known in zip(self.models, self.known, strict=True) if not known]


@dataclass(frozen=True)
class CostTable:
    """Predicted costs.

    Attributes:
        unit: As in `Costs`.
        benchmarks: B names.
        table: (B, M) shrunk mean cost of a model on a benchmark; NaN without costs.
        default: (M,) its mean cost, for a question of no known benchmark.
    """

    unit: Unit | None
    benchmarks: tuple[str, ...]
    table: Array
    default: Array

    def of(self, items: ItemFeatures) -> Array:
        """(n, M) predicted costs; NaN for models without."""
        place = {name: b for b, name in enumerate(self.benchmarks)}
        rows = [self.table[place[b]] if b in place else self.default for b in items.benchmarks]
        return np.stack(rows)[items.benchmark]


def study_costs(study: Study) -> Costs:
    """The costs of a study's responses; several rows of one pair count with their mean."""
    items, models = study.items["item_id"].to_list(), study.models["model"].to_list()
    shape = (len(items), len(models))
    per_answer = _per_answer(study)
    if per_answer.height:
        coded = per_answer.select(
            pl.col("item_id").replace_strict(items, range(shape[0]), return_dtype=pl.Int64),
            pl.col("model").replace_strict(models, range(shape[1]), return_dtype=pl.Int64),
            "cost",
        )
        cell = coded["item_id"].to_numpy() * shape[1] + coded["model"].to_numpy()
        count = np.bincount(cell, minlength=shape[0] * shape[1])
        total = np.bincount(cell, coded["cost"].to_numpy(), minlength=shape[0] * shape[1])
        value = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(shape)
        return Costs(
            PER_ANSWER, value, np.count_nonzero(np.isfinite(value), axis=0) > 0, tuple(models)
        )
    price = _prices(study)
    known = np.isfinite(price)
    unit = PER_TOKENS if known.any() else None
    return Costs(unit, np.tile(price, (shape[0], 1)), known, tuple(models))


def predict_costs(costs: Costs, items: ItemFeatures, rows: NDArray[np.int64]) -> CostTable:
    """Mean cost of each model on each benchmark, (sum c + 10 mean) / (n + 10), over these rows.

    Args:
        costs: Of all N items.
        items: The N items.
        rows: The items to learn from.
    """
    value, benchmark = costs.value[rows], items.benchmark[rows]
    seen = np.isfinite(value)
    filled = np.where(seen, value, 0.0)
    n = seen.sum(axis=0)
    mean = np.where(n > 0, filled.sum(axis=0) / np.maximum(n, 1), np.nan)
    table = np.empty((len(items.benchmarks), value.shape[1]))
    for b in range(len(items.benchmarks)):
        here = benchmark == b
        total, count = filled[here].sum(axis=0), seen[here].sum(axis=0)
        table[b] = (total + PRIOR_WEIGHT * mean) / (count + PRIOR_WEIGHT)
    return CostTable(costs.unit, items.benchmarks, table, mean)


def _per_answer(study: Study) -> pl.DataFrame:
    """item_id, model, cost of every response that has one."""
    frame = study.responses
    for name in ("cost_usd", "n_tokens_in", "n_tokens_out"):
        if name not in frame.columns:
            frame = frame.with_columns(pl.lit(None, pl.Float64).alias(name))
    models = study.models
    for name in (_IN, _OUT):
        if name not in models.columns:
            models = models.with_columns(pl.lit(None, pl.Float64).alias(name))
    frame = frame.join(models.select("model", _IN, _OUT), on="model", how="left")
    # Input tokens that are not given cost nothing here; output tokens and their price must be.
    tokens = (
        pl.col("n_tokens_in").fill_null(0) * pl.col(_IN).fill_null(0.0)
        + pl.col("n_tokens_out") * pl.col(_OUT)
    ) / 1e6
    cost = pl.coalesce(pl.col("cost_usd").cast(pl.Float64), tokens).alias("cost")
    return frame.select("item_id", "model", cost).drop_nulls()


def _prices(study: Study) -> Array:
    """(M,) mean of the prices that a model has, per million tokens; NaN where it has none."""
    columns = [c for c in (_IN, _OUT) if c in study.models.columns]
    if not columns:
        return np.full(study.n_models, np.nan)
    mean = study.models.select(pl.mean_horizontal(columns).alias("price"))["price"]
    return mean.cast(pl.Float64).fill_null(float("nan")).to_numpy().astype(np.float64)

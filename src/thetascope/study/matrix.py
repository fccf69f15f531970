"""Responses as arrays: what predictors and metrics work on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

MISSING = 255
"""The byte that stands for 'not evaluated' in a matrix of right-or-wrong scores."""


@dataclass(frozen=True)
class ResponseMatrix:
    """Scores of N items (rows) by M models (columns).

    Attributes:
        item_ids: N item ids.
        models: M model names.
        scores: (N, M). Right-or-wrong scores are bytes 0, 1 and `MISSING`; graded scores are
            float32 with NaN where there is none.
        weights: (N, M) float32, trials behind each score, or None where all are 1.
        rows: Raw rows as flat (item index, model index, score) where a pair has more than
            one (policy `keep`), else None.
    """

    item_ids: tuple[str, ...]
    models: tuple[str, ...]
    scores: NDArray[Any]
    weights: NDArray[np.float32] | None = None
    rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None = None

    def __post_init__(self) -> None:
        shape = (len(self.item_ids), len(self.models))
        assert self.scores.shape == shape, f"scores {self.scores.shape}, expected {shape}"
        assert self.scores.dtype in (np.uint8, np.float32), self.scores.dtype

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def n_models(self) -> int:
        return len(self.models)

    @property
    def binary(self) -> bool:
        """Whether every score is 0 or 1."""
        return self.scores.dtype == np.uint8

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """(N, M), True where there is a response."""
        if self.binary:
            return self.scores != MISSING
        return ~np.isnan(self.scores)

    def filled(self, value: float = 0.0) -> NDArray[np.float32]:
        """Returns the scores as float32 with `value` where there is no response."""
        scores = self.scores.astype(np.float32)
        scores[~self.observed] = value
        return scores

    def take(self, items: NDArray[np.int64]) -> ResponseMatrix:
        """Returns the matrix of the items at these row indices (without `rows`)."""
        return ResponseMatrix(
            tuple(self.item_ids[int(i)] for i in items.tolist()),
            self.models,
            self.scores[items],
            None if self.weights is None else self.weights[items],
        )

    def mask(self, cells: NDArray[np.bool_]) -> ResponseMatrix:
        """Returns the matrix with only the responses at `cells` (N, M), the rest missing."""
        missing: Any = np.uint8(MISSING) if self.binary else np.float32(np.nan)
        scores = np.where(cells, self.scores, missing)
        return ResponseMatrix(self.item_ids, self.models, scores, self.weights)


def build_matrix(
    item_ids: list[str], models: list[str], responses: pl.DataFrame, keep_rows: bool = False
) -> ResponseMatrix:
    """Builds the matrix from a table with item_id, model, score and trials.

    Args:
        item_ids: Rows of the matrix, in order.
        models: Columns of the matrix, in order.
        responses: One row a pair; with `keep_rows` a pair may have several, whose mean stands
            in the matrix with their trials as weight.
        keep_rows: Whether to keep the raw rows too.
    """
    coded = responses.select(
        pl.col("item_id").replace_strict(item_ids, range(len(item_ids)), return_dtype=pl.Int64),
        pl.col("model").replace_strict(models, range(len(models)), return_dtype=pl.Int64),
        "score",
        "trials",
    )
    item = coded["item_id"].to_numpy().astype(np.int64)
    model = coded["model"].to_numpy().astype(np.int64)
    score, trials = coded["score"].to_numpy(), coded["trials"].to_numpy()
    rows = (item, model, score) if keep_rows else None
    shape = (len(item_ids), len(models))
    if keep_rows:
        cell = item * shape[1] + model
        weight = np.bincount(cell, trials, minlength=shape[0] * shape[1])
        total = np.bincount(cell, trials * score, minlength=shape[0] * shape[1])
        seen = np.flatnonzero(weight)
        item, model = seen // shape[1], seen % shape[1]
        score, trials = total[seen] / weight[seen], weight[seen]
    if np.isin(score, (0.0, 1.0)).all():
        scores: NDArray[Any] = np.full(shape, MISSING, np.uint8)
    else:
        scores = np.full(shape, np.nan, np.float32)
    scores[item, model] = score
    weights = None
    if len(trials) and (trials != 1).any():
        weights = np.zeros(shape, np.float32)
        weights[item, model] = trials
    return ResponseMatrix(tuple(item_ids), tuple(models), scores, weights, rows)

"""The comparison's scored cells as arrays in the study's order, and paired differences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.evaluation.columns import Estimates, means
from thetascope.evaluation.metrics import cross_entropy, hits
from thetascope.report.gather import Array, Material

VARIANTS = ("blend", "jeirt_context", "jeirt")
NO_WORSE = {"log_loss": 0.002, "accuracy": 0.003}
"""Margins of 'no worse' in the paired interval."""


@dataclass(frozen=True)
class Tested:
    """Predictions for what the predictors had not seen.

    Attributes:
        table: The comparison's table.
        item, model: (n,) row in the study's items and models.
        score, group, benchmark: (n,) of each cell.
        p: predictor -> (n,) probability.
    """

    table: dict[str, Any]
    item: NDArray[np.int64]
    model: NDArray[np.int64]
    score: Array
    group: NDArray[np.int64]
    benchmark: NDArray[np.int64]
    p: dict[str, Array]
    weights: NDArray[np.float32]

    @property
    def predictors(self) -> list[str]:
        return list(self.p)

    @property
    def variant(self) -> str | None:
        """The predictor that stands for JE-IRT: the blend, else with context, else as published.

        It is the default; it is not picked by its result.
        """
        return next((v for v in VARIANTS if v in self.p), None)

    @property
    def cold(self) -> bool:
        """Whether the tested items were unseen as a whole."""
        return self.table["split"] in ("cold-items", "leave-one-benchmark-out")

    @cached_property
    def n_items(self) -> int:
        return len(np.unique(self.item))

    def rows(self, benchmark: str = "all", subject: str = "all") -> dict[str, dict[str, Any]]:
        """The table's rows of one part, by predictor."""
        return {
            r["predictor"]: r
            for r in self.table["rows"]
            if r["benchmark"] == benchmark and r["subject"] == subject
        }

    def parts(self) -> tuple[str, list[tuple[str, str, str]]]:
        """('benchmark' or 'subject', [(shown name, benchmark, subject)]); subjects where the
        study has one benchmark."""
        seen = dict.fromkeys((r["benchmark"], r["subject"]) for r in self.table["rows"])
        benchmarks = [(b, b, s) for b, s in seen if b != "all" and s == "all"]
        if benchmarks:
            return "benchmark", benchmarks
        return "subject", [(s, b, s) for b, s in seen if s != "all"]

    def paired(self, first: str, second: str) -> dict[str, tuple[float, float, float]]:
        """Metric -> first minus second with its paired 95 % interval, over all cells."""
        s, a, b = self.score, self.p[first], self.p[second]
        difference = np.stack(
            [cross_entropy(a, s) - cross_entropy(b, s), hits(a, s) - hits(b, s)], axis=1
        )
        found: Estimates = means(difference, np.isfinite(difference), self.group, self.weights)
        return {
            m: (float(found.value[k]), float(found.low[k]), float(found.high[k]))
            for k, m in enumerate(("log_loss", "accuracy"))
        }


def tested(material: Material) -> Tested | None:
    """The comparison's cells, or None where there is no comparison."""
    if material.comparison is None:
        return None
    cells = material.comparison.cells
    item = _codes(cells["item_id"], list(material.matrix.item_ids))
    return Tested(
        material.comparison.table,
        item,
        _codes(cells["model"], list(material.models)),
        cells["score"].to_numpy(),
        material.groups.labels[item],
        material.benchmark[item],
        {
            c.removeprefix("p_"): cells[c].to_numpy().astype(np.float64)
            for c in cells.columns
            if c.startswith("p_")
        },
        material.weights,
    )


def _codes(column: pl.Series, names: list[str]) -> NDArray[np.int64]:
    place = range(len(names))
    return column.replace_strict(names, place, return_dtype=pl.Int64).to_numpy()


def verdict(difference: tuple[float, float, float], metric: str) -> str:
    """What a paired difference says of its first: better, worse, no worse, or not told apart."""
    _, low, high = difference
    bad_high = high if metric == "log_loss" else -low
    good_low = low if metric == "log_loss" else -high
    if not (np.isfinite(low) and np.isfinite(high)):
        return "too few items to say"
    if bad_high < 0:
        return "better"
    if good_low > 0:
        return "worse"
    return "no worse" if bad_high <= NO_WORSE[metric] else "not told apart"

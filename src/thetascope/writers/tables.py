"""Plain tables: items.csv, models.csv and responses.csv in one folder."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from thetascope.study import Study
from thetascope.writers.losses import column_losses, unused_rows

_SEPARATORS = set(',;|\t\r\n"')


def write(study: Study, folder: Path) -> None:
    """Writes the three tables."""
    for name in ("items", "models", "responses"):
        table: pl.DataFrame = getattr(study, name)
        table.select(_columns(table)).write_csv(folder / f"{name}.csv")


def left_out(study: Study) -> list[str]:
    """What the tables do not hold, or the reader does not take from them."""
    lost: list[str] = []
    for name in ("items", "models"):
        table: pl.DataFrame = getattr(study, name)
        lost += column_losses(table, set(_columns(table)), name)
    lost += column_losses(study.runs, {"run_id", "model"}, "runs")
    for line in unused_rows(study):
        if "item" in line:
            line += ", written but not read"
        if "model" not in line:  # a model without responses is read
            lost.append(line)
    return lost


def _columns(table: pl.DataFrame) -> list[str]:
    """The columns that say something and that a CSV file can hold under a plain header."""
    return [
        name
        for name, dtype in table.schema.items()
        if table[name].null_count() < table.height
        and not (dtype.is_nested() or dtype in (pl.Binary, pl.Object))
        and not _SEPARATORS & set(name)
    ]

"""Bytes of the explorer's files: small Parquet tables and JSON, the same for the same study.

Figures are rounded for the page before they are written: fewer bytes, and no false precision.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.study import files

LEVEL = 12
"""Of zstd: above it files hardly shrink and take far longer to write."""
DIGITS = 3
"""Decimals of shares, differences, places and activations."""
_ROWS = 1 << 20
_UNSIGNED = ((pl.UInt8, 8), (pl.UInt16, 16), (pl.UInt32, 32))
_SIGNED = ((pl.Int8, 7), (pl.Int16, 15), (pl.Int32, 31))


def parquet(frame: pl.DataFrame) -> bytes:
    """The table as a Parquet file: one row group, no statistics, strings as strings."""
    out = io.BytesIO()
    frame.rechunk().write_parquet(
        out, compression="zstd", compression_level=LEVEL, statistics=False, row_group_size=_ROWS
    )
    return out.getvalue()


def to_json(value: Any) -> bytes:
    """The value as JSON; a number that JSON cannot hold is null."""
    text = json.dumps(files.finite(value), ensure_ascii=False, allow_nan=False,
                      separators=(",", ":"))  # fmt: skip
    return text.encode("utf-8", "replace")


def rounded(*columns: str) -> pl.Expr:
    """Columns to 3 decimals as Float32; NaN becomes null."""
    return pl.col(*columns).cast(pl.Float64).fill_nan(None).round(DIGITS).cast(pl.Float32)


def q_values(*columns: str) -> pl.Expr:
    """Columns to 2 significant digits as Float32; NaN becomes null.

    The least is 1e-30, which Float32 holds and nobody tells from less.
    """
    value = pl.col(*columns).cast(pl.Float64).fill_nan(None)
    return value.clip(lower_bound=1e-30).round_sig_figs(2).cast(pl.Float32)


def small(name: str, values: Any) -> pl.Series:
    """Whole numbers as the smallest type that holds them, unsigned where none is below 0."""
    series = values if isinstance(values, pl.Series) else pl.Series(name, values)
    series = series.alias(name)
    if not len(series) or series.null_count() == len(series):
        return series.cast(pl.UInt8)
    low, high = int(series.min()), int(series.max())  # type: ignore[arg-type]
    for kind, bits in _SIGNED if low < 0 else _UNSIGNED:
        if -(1 << bits) <= low and high < 1 << bits:
            return series.cast(kind)
    return series.cast(pl.Int64)


def floats(
    name: str, values: NDArray[Any] | Sequence[float | None], digits: int = DIGITS
) -> pl.Series:
    """Numbers to some decimals as Float32; NaN becomes null."""
    series = pl.Series(name, np.asarray(values, np.float64))
    return series.fill_nan(None).round(digits).cast(pl.Float32)


def significant(value: float | None, digits: int = 2) -> float | None:
    """A number to some significant digits; None where there is none."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def short(value: Any, digits: int = DIGITS) -> Any:
    """A value with every number in it to some decimals; NaN becomes None."""
    if isinstance(value, dict):
        return {k: short(v, digits) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [short(v, digits) for v in value]
    if isinstance(value, np.ndarray):
        return short(value.tolist(), digits)
    if isinstance(value, float | np.floating):
        return round(float(value), digits) if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def chunks(n: int, size: int) -> Iterable[tuple[int, slice]]:
    """Number and rows of each chunk of n rows."""
    for k, start in enumerate(range(0, n, size)):
        yield k, slice(start, min(n, start + size))


def number(k: int) -> str:
    """A file's number: three digits or more."""
    return f"{k:03d}"

"""How every model does on every concept: chi_model with its interval, effect, z and q.

A scope is one benchmark or 'all'. Across benchmarks scores are permuted within each, so
T = sum T_b, V = sum V_b, G = sum G_b; the effect is delta = sum T_b / sum A_b, and the paper's
mean of chi over benchmarks stands beside it with its MOVER interval.

Tested are concepts with n_eff >= 10 and n_active >= 10; one model and one direction are one
family. The others are counted. Where models are mostly right, the tail of strength is liberal
for n_eff < 30: such concepts have no q_high and are judged by the family-wise p alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.gaps.data import Array, GapData
from thetascope.gaps.inference import (
    chi_interval,
    least_detectable,
    q_values,
    shrink,
    standardised,
    tails,
)
from thetascope.gaps.moments import Moments, moments, n_eff

ALL = "all"
LEAST = 10
"""Least effective and active items of a concept that is tested."""
LEAST_STRONG = 30
"""Least effective items for a q-value of strength."""
LEVEL = 0.05
"""q below which a concept is called a gap or a strength."""
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Performance:
    """One scope.

    Attributes:
        scope: A benchmark or 'all'.
        table: A row for each tested (model, concept), by model, then concept: model, concept,
            score (chi_model; over 'all' the mean over benchmarks), low, high (95 %), effect
            (delta, in units of the score, length taken out where it is a covariate), shrunk,
            shrunk_sd, z, p_low, q_low (worse than the model's own mean), p_high, q_high (better;
            NaN for n_eff < 30), n_active, n_eff.
        models: A row a model: model, n_items, mean, n_tested, n_untestable, tau (sd of true
            effects), detectable (least effect found with 80 % power, at the median concept).
    """

    scope: str
    table: pl.DataFrame
    models: pl.DataFrame


@dataclass
class _Sums:
    """Running sums over benchmarks, all (C, M)."""

    mass: Array
    square: Array
    n_active: Array
    t: Array
    v: Array
    g: Array
    chi: Array
    below: Array
    above: Array
    n_chi: NDArray[np.int16]
    n: NDArray[np.int64]
    mean: Array
    n_mean: NDArray[np.int64]
    spread: Array
    degrees: NDArray[np.int64]


def performance(
    data: GapData, *, length: bool = True, progress: Progress | None = None
) -> list[Performance]:
    """All benchmarks and, where there are several, 'all' (first).

    Args:
        data: Activations and scores.
        length: Whether text length is a covariate.
        progress: Called with (done, total, what).
    """
    shape = (data.n_concepts, len(data.models))
    sums: _Sums | None = None
    out: list[Performance] = []
    several = len(data.benchmarks) > 1
    for b, name in enumerate(data.benchmarks):
        if progress is not None:
            progress(b, len(data.benchmarks), f"performance on {name}")
        found = moments(data, b, length=length)
        low, high = chi_interval(found.chi, found.mass, found.weighted_square, found.n_eff)
        if several:
            sums = sums or _empty(shape)
            _add(sums, found, low, high)
        out.append(
            _scope(
                name, data, found.chi, low, high, found.mass, found.square, found.n_active,
                found.t, found.v, found.g, found.n, found.mean, found.variance,
            )
        )  # fmt: skip
    if sums is None:
        return out
    defined = sums.n_chi > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        chi = np.where(defined, sums.chi / sums.n_chi, np.nan)
        low = np.maximum(chi - np.sqrt(sums.below) / sums.n_chi, 0.0)
        high = np.minimum(chi + np.sqrt(sums.above) / sums.n_chi, 1.0)
        mean = sums.mean / sums.n_mean
        variance = sums.spread / np.maximum(sums.degrees, 1)
    whole = _scope(
        ALL, data, chi, low, high, sums.mass, sums.square, sums.n_active, sums.t, sums.v, sums.g,
        sums.n, mean, variance,
    )  # fmt: skip
    return [whole, *out]


def tested(square_n: Array, n_active: Array, v: Array) -> NDArray[np.bool_]:
    """Which concepts are in the family: n_eff and n_active at least 10, and V above 0."""
    return (square_n >= LEAST) & (n_active >= LEAST) & (v > 0)


def _empty(shape: tuple[int, int]) -> _Sums:
    m = shape[1]
    mass, square, n_active, t, v, g, chi, below, above = np.zeros((9, *shape))
    return _Sums(
        mass, square, n_active, t, v, g, chi, below, above, np.zeros(shape, np.int16),
        np.zeros(m, np.int64), np.zeros(m), np.zeros(m, np.int64), np.zeros(m),
        np.zeros(m, np.int64),
    )  # fmt: skip


def _add(sums: _Sums, found: Moments, low: Array, high: Array) -> None:
    sums.mass += found.mass
    sums.square += found.square
    sums.n_active += found.n_active
    sums.t += found.t
    sums.v += found.v
    sums.g += found.g
    chi = found.chi
    sums.chi += np.nan_to_num(chi)
    sums.below += np.nan_to_num(np.square(chi - low))
    sums.above += np.nan_to_num(np.square(high - chi))
    sums.n_chi += np.isfinite(chi)
    sums.n += found.n
    sums.mean += np.nan_to_num(found.mean)
    sums.n_mean += found.n > 0
    sums.spread += found.variance * np.maximum(found.n - 1, 0)
    sums.degrees += np.maximum(found.n - 1, 0)


def _scope(
    name: str, data: GapData, chi: Array, low: Array, high: Array, mass: Array, square: Array,
    n_active: Array, t: Array, v: Array, g: Array, n: NDArray[np.int64], mean: Array,
    variance: Array,
) -> Performance:  # fmt: skip
    """Tests every model's family and lays out the tested rows."""
    effective = n_eff(mass, square)
    inside = tested(effective, n_active, v)
    known = (mass > 0).sum(axis=0)
    frames, models = [], []
    for m, model in enumerate(data.models):
        rows = np.flatnonzero(inside[:, m])
        a = mass[rows, m]
        z, skew = standardised(t[rows, m], v[rows, m], g[rows, m])
        p = tails(z, skew)
        y, variance_of_y = t[rows, m] / a, v[rows, m] / a**2
        shrunk = shrink(y, variance_of_y)
        frames.append(
            pl.DataFrame(
                {
                    "concept": rows.astype(np.int32), "score": chi[rows, m], "low": low[rows, m],
                    "high": high[rows, m], "effect": y, "shrunk": shrunk.mean,
                    "shrunk_sd": shrunk.sd, "z": z, "p_low": p.low, "q_low": q_values(p.low),
                    "p_high": p.high,
                    "q_high": q_values(
                        np.where(effective[rows, m] >= LEAST_STRONG, p.high, np.nan)
                    ),
                    "n_active": n_active[rows, m].astype(np.int32), "n_eff": effective[rows, m],
                }
            ).with_columns(pl.lit(m, pl.Int32).alias("model"))
        )  # fmt: skip
        n_tested = len(rows)
        least = None
        if n_tested:
            middle = float(np.median(effective[rows, m]))
            sigma = float(np.sqrt(variance[m]))
            least = float(least_detectable(n_tested, sigma, middle, max(int(n[m]), middle)))
        models.append(
            {
                "model": model, "n_items": int(n[m]),
                "mean": None if not n[m] else float(mean[m]), "n_tested": n_tested,
                "n_untestable": int(known[m]) - n_tested, "tau": float(np.sqrt(shrunk.tau2)),
                "detectable": least,
            }
        )  # fmt: skip
    names = pl.DataFrame({"model": np.arange(len(data.models), dtype=np.int32),
                          "name": list(data.models)})  # fmt: skip
    table = (
        pl.concat(frames)
        .join(names, on="model", how="left", maintain_order="left")
        .drop("model")
        .rename({"name": "model"})
    )
    columns = ["model", *(c for c in table.columns if c != "model")]
    return Performance(
        name, table.select(columns), pl.DataFrame(models, schema_overrides={
            "mean": pl.Float64, "detectable": pl.Float64, "tau": pl.Float64})
    )  # fmt: skip

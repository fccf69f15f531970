"""Discriminations without a sign constraint, beside what noise alone gives.

The 2PL is fitted with a_j ~ N(1, 1): an item that better models fail more often may have a_j < 0.
Few models leave a_j uncertain, so some come out negative by chance. How many is found by a
parametric bootstrap: scores are drawn from the 2PL with a > 0 fitted to the same data (`noise`),
for the responses observed, and the unconstrained 2PL is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.predictors.base import Sample
from thetascope.predictors.diagnosis.noise import fit_noise
from thetascope.predictors.irt import responses_of
from thetascope.predictors.irt_fit import Fitted, Prior, Responses, fit_unidimensional

Array = NDArray[np.float64]
Tick = Callable[[int, int], None]

MIN_MODELS = 20
"""Fewer answers than this and an item's discrimination is not counted."""
WEAK = 0.2
"""|a| below which an item says next to nothing about ability."""
_ONE_SIDED = 1.645
"""a + 1.645 SE < 0: negative at 5 %, one-sided."""
EDGES = np.round(np.arange(-2.0, 4.01, 0.2), 1)
"""Bins of the histogram; what lies outside is counted in the outermost."""
SHARES = ("negative", "weak", "surely_negative")


@dataclass(frozen=True)
class Share:
    """A share of items beside the same share under noise alone.

    Attributes:
        n: Items it is a share of.
        count: Items that have the property.
        noise_mean, noise_low, noise_high: Mean and 95 % range of the share over the
            bootstraps; None where there were none.
    """

    n: int
    count: int
    noise_mean: float | None
    noise_low: float | None
    noise_high: float | None

    @property
    def value(self) -> float | None:
        """The share; None where there are no items."""
        return self.count / self.n if self.n else None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "share": self.value}


@dataclass(frozen=True)
class Discrimination:
    """What the unconstrained 2PL says.

    Attributes:
        why_not: Why nothing is reported; None where something is.
        counts: items, without responses, constant, with too few models, counted.
        bootstraps: Bootstraps made.
        sd_log_a: Standard deviation of log a in the 2PL with a > 0 that noise is drawn from.
        dispersion: (s - p)^2 / (p (1 - p)) by benchmark where scores are graded, else None.
        shares: part ('all' or a benchmark) -> property -> share.
        histogram: edges, count, and noise_mean, noise_low, noise_high of each bin.
        items: item_id, benchmark, n_models, constant, a, se (null for items not counted).
    """

    why_not: str | None
    counts: dict[str, int]
    bootstraps: int
    sd_log_a: float | None
    dispersion: dict[str, float] | None
    shares: dict[str, dict[str, Share]]
    histogram: dict[str, list[float]]
    items: pl.DataFrame

    @property
    def surely_negative(self) -> pl.DataFrame:
        """The items with a + 1.645 SE < 0, surest first."""
        upper = pl.col("a") + _ONE_SIDED * pl.col("se")
        return self.items.filter(upper < 0).sort(upper, "item_id")

    def to_json(self) -> dict[str, Any]:
        listed = self.surely_negative.select("item_id", "benchmark", "n_models", "a", "se")
        return {
            "why_not": self.why_not,
            "counts": self.counts,
            "bootstraps": self.bootstraps,
            "sd_log_a": self.sd_log_a,
            "dispersion": self.dispersion,
            "shares": {p: {k: s.to_json() for k, s in v.items()} for p, v in self.shares.items()},
            "histogram": self.histogram,
            "surely_negative": listed.to_dicts(),
        }


def discrimination(
    sample: Sample, *, bootstraps: int = 50, seed: int = 0, tick: Tick | None = None
) -> Discrimination:
    """Shares of items with a < 0, |a| < 0.2 and a + 1.645 SE < 0, beside those of noise.

    One ability a model over all benchmarks. Counted are items whose scores differ and that
    `MIN_MODELS` models or more answered. Graded scores enter as a quasi-likelihood (standard
    errors are those of right-or-wrong scores, too wide) and are drawn from beta distributions
    with the fitted means and the benchmark's dispersion.

    Args:
        sample: N items with the responses of M models.
        bootstraps: Parametric bootstraps.
        seed: Of the draws.
        tick: Called with (done, total).
    """
    data = responses_of(sample)
    n_models, constant = _answers(data)
    counted = (n_models >= MIN_MODELS) & ~constant
    counts = {
        "items": len(n_models),
        "without_responses": int((n_models == 0).sum()),
        "constant": int((constant & (n_models > 0)).sum()),
        "too_few_models": int(((n_models < MIN_MODELS) & (n_models > 0) & ~constant).sum()),
        "counted": int(counted.sum()),
    }
    items = pl.DataFrame(
        {
            "item_id": list(sample.items.ids),
            "benchmark": [sample.items.benchmarks[b] for b in sample.items.benchmark],
            "n_models": n_models,
            "constant": constant,
        }
    )
    blank = pl.lit(None, pl.Float64)
    if not counted.any():
        why = f"no item whose scores differ was answered by {MIN_MODELS} models or more"
        return Discrimination(
            why, counts, 0, None, None, {}, {}, items.with_columns(a=blank, se=blank)
        )  # fmt: skip
    free = fit_unidimensional(data, Prior(False, 1.0))
    shown = {"a": free.a, "se": np.sqrt(free.covariance[:, 0, 0])}
    items = items.with_columns(
        pl.Series(k, np.where(counted, v, np.nan)).fill_nan(None) for k, v in shown.items()
    )
    graded = not sample.responses.binary or sample.responses.weights is not None
    noise = fit_noise(data, graded=graded)
    dispersion = noise.dispersion
    rng = np.random.default_rng(seed)
    draws: list[tuple[Array, Array]] = []
    for done in range(bootstraps):
        if tick is not None:
            tick(done, bootstraps)
        drawn = noise.draw(data, rng)
        fit = fit_unidimensional(drawn, Prior(False, 1.0), max_iterations=100, tolerance=1e-3)
        n_drawn, same = _answers(drawn)
        kept = (n_drawn >= MIN_MODELS) & ~same
        draws.append(_figures(fit, kept, sample))
    found = _figures(free, counted, sample)
    parts = ("all", *sample.items.benchmarks)
    return Discrimination(
        None,
        counts,
        bootstraps,
        noise.sd_alpha,
        None if dispersion is None else dict(zip(parts[1:], dispersion.tolist(), strict=True)),
        _shares(parts, found[0], [d[0] for d in draws]),
        _histogram(found[1], [d[1] for d in draws]),
        items,
    )


def _answers(data: Responses) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """How many models answered each item, and whether all their scores are equal."""
    seen = data.weight > 0
    high = np.where(seen, data.score, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(seen, data.score, np.inf).min(axis=1, initial=np.inf)
    return seen.sum(axis=1), high <= low


def _figures(fit: Fitted, counted: NDArray[np.bool_], sample: Sample) -> tuple[Array, Array]:
    """(1 + B, 1 + 3) items counted and with each property, in all and by benchmark; the
    histogram's counts."""
    a, upper = fit.a, fit.a + _ONE_SIDED * np.sqrt(fit.covariance[:, 0, 0])
    has = np.stack([counted, a < 0, np.abs(a) < WEAK, upper < 0], axis=1) & counted[:, None]
    parts = [has] + [has[sample.items.benchmark == b] for b in range(len(sample.items.benchmarks))]
    inside = np.clip(a[counted], EDGES[0], np.nextafter(EDGES[-1], 0))
    return np.array([p.sum(axis=0) for p in parts], float), np.histogram(inside, EDGES)[0]


def _shares(
    parts: tuple[str, ...], found: Array, draws: list[Array]
) -> dict[str, dict[str, Share]]:
    out: dict[str, dict[str, Share]] = {}
    for k, part in enumerate(parts):
        n = int(found[k, 0])
        usable = [d[k] for d in draws if d[k, 0] > 0]
        out[part] = {}
        for s, name in enumerate(SHARES, 1):
            noise = [float(d[s] / d[0]) for d in usable]
            spread = (None, None, None) if not noise else (float(np.mean(noise)), *_range(noise))
            out[part][name] = Share(n, int(found[k, s]), *spread)
    return out


def _range(values: Any) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _histogram(found: Array, draws: list[Array]) -> dict[str, list[float]]:
    out = {"edges": EDGES.tolist(), "count": found.tolist()}
    if draws:
        noise = np.array(draws)
        low, high = np.quantile(noise, [0.025, 0.975], axis=0)
        out |= {
            "noise_mean": noise.mean(axis=0).tolist(),
            "noise_low": low.tolist(),
            "noise_high": high.tolist(),
        }
    return out

"""Two models on the items that both answered, concept by concept.

*Relative*: is the difference on a concept another than the models' difference in general?
d_j = s_1j - s_2j takes the place of s in the permutation test. *Absolute*: does one do better
there at all? Signs of d_j are flipped: T = sum a d, V = sum a^2 d^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.special import ndtr

from thetascope.errors import InputError
from thetascope.gaps.data import GapData
from thetascope.gaps.inference import Z95, q_values, shrink, standardised, tails
from thetascope.gaps.moments import by_concept, moments, n_eff, powered
from thetascope.gaps.performance import tested


@dataclass(frozen=True)
class Versus:
    """The first model minus the second.

    Attributes:
        first, second: Their names.
        n_items: Items that both answered.
        mean: Mean difference of the scores.
        table: A row a tested concept: concept, difference (sum a d / sum a), low, high (95 %),
            q_worse, q_better (absolute), effect (relative: less the general difference and
            length), shrunk, shrunk_sd, z, q_low, q_high (relative), n_active, n_eff.
        n_untestable: Concepts that are active on these items but too rarely to be tested.
    """

    first: str
    second: str
    n_items: int
    mean: float
    table: pl.DataFrame
    n_untestable: int

    def to_json(self) -> dict[str, Any]:
        """The same as one object."""
        return {
            "first": self.first, "second": self.second, "n_items": self.n_items,
            "mean": self.mean, "n_untestable": self.n_untestable, "rows": self.table.to_dicts(),
        }  # fmt: skip


def versus(data: GapData, first: str, second: str, *, length: bool = True) -> Versus:
    """Compares two models over all benchmarks.

    Raises:
        InputError: A name is unknown, both are the same, or they share no item.
    """
    if first == second:
        raise InputError(f"expected two models, found {first!r} twice")
    d = data.scores[:, data.model(first)] - data.scores[:, data.model(second)]
    common = int(np.isfinite(d).sum())
    if not common:
        raise InputError(f"{first!r} and {second!r} answered no item in common")
    both = data.with_scores(d[:, None], ("difference",))
    c = data.n_concepts
    mass, square, n_active, t, v, g = np.zeros((6, c))
    total, squares, spread = np.zeros((3, c))
    for b in range(len(data.benchmarks)):
        found = moments(both, b, length=length)
        mass += found.mass[:, 0]
        square += found.square[:, 0]
        n_active += found.n_active[:, 0]
        t, v, g = t + found.t[:, 0], v + found.v[:, 0], g + found.g[:, 0]
        total += found.weighted[:, 0]
        part = data.parts[b]
        known = np.nan_to_num(d[part])
        a2 = powered(by_concept(data.activations, part), 2)
        squares += np.asarray(a2 @ known**2)
        spread += np.asarray(a2 @ known)
    effective = n_eff(mass, square)
    rows = np.flatnonzero(tested(effective, n_active, v))
    a = mass[rows]
    chi = total[rows] / a
    # sum a^2 (d - chi)^2, the sandwich variance of a ratio
    half = Z95 * np.sqrt(
        np.maximum(squares[rows] - 2 * chi * spread[rows] + chi**2 * square[rows], 0.0)
    ) / a  # fmt: skip
    z, skew = standardised(t[rows], v[rows], g[rows])
    p = tails(z, skew)
    flips = np.divide(
        total[rows], np.sqrt(squares[rows]), out=np.zeros(len(rows)), where=squares[rows] > 0
    )
    shrunk = shrink(t[rows] / a, v[rows] / a**2)
    table = pl.DataFrame(
        {
            "concept": rows.astype(np.int32), "difference": chi, "low": chi - half,
            "high": chi + half, "q_worse": q_values(ndtr(flips)),
            "q_better": q_values(ndtr(-flips)), "effect": t[rows] / a, "shrunk": shrunk.mean,
            "shrunk_sd": shrunk.sd, "z": z, "q_low": q_values(p.low), "q_high": q_values(p.high),
            "n_active": n_active[rows].astype(np.int32), "n_eff": effective[rows],
        }
    )  # fmt: skip
    return Versus(
        first, second, common, float(np.nanmean(d)), table, int((mass > 0).sum()) - len(rows)
    )

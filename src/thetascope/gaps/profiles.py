"""A model's score on every concept from few of its answers: profiles of models nobody can open.

The item bank (`decisions`) places the model by its k answers; on the items that it was not
asked its chances stand for scores. Of a concept c over items in benchmarks b,

    profile(c) = sum_b sum_{j in b} (a_j - abar_b) s_j / sum_b A_b,    s_j = answer or chance P_j

which is the effect of `performance` (the concept's score less the model's own mean, in score
units) as it would be after all items. Its variance is that of the model's vector and that of
the answers still unseen:

    g_c = sum_rest (a_j - abar_b) P_j' x_j / A
    Var = g_c' Sigma g_c + phi sum_rest (a_j - abar_b)^2 P_j (1 - P_j) / A^2

Not in it: that items may be harder or easier for this model than the bank can say (concepts of
its own). On left-out models the intervals' coverage is measured in `benchmarks.concept_profiles`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.decisions.bank import ItemBank
from thetascope.decisions.onboarding import Onboarded
from thetascope.decisions.posterior import Answers, Gaussian, chances
from thetascope.errors import InputError
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.inference import Z95
from thetascope.gaps.moments import n_eff, powered
from thetascope.gaps.performance import LEAST
from thetascope.gaps.sparse import column_sums, row_sums
from thetascope.predictors.logit_space import LogitSpace


@dataclass(frozen=True)
class ConceptProfile:
    """A model's predicted scores on concepts, relative to its own mean.

    Attributes:
        concepts: (C,) numbers of the concepts.
        value: (C,) predicted effect, in units of the score.
        sd: (C,) its standard deviation.
        n_eff: (C,) effective number of items behind the concept.
        n_answered: (C,) answered items on which it is active.
    """

    concepts: NDArray[np.int64]
    value: Array
    sd: Array
    n_eff: Array
    n_answered: NDArray[np.int64]

    def table(self, labels: tuple[str, ...]) -> pl.DataFrame:
        """concept, label, value, low, high (95 %), sd, n_eff, n_answered; lowest first."""
        return pl.DataFrame(
            {
                "concept": self.concepts, "label": [labels[c] for c in self.concepts.tolist()],
                "value": self.value, "low": self.value - Z95 * self.sd,
                "high": self.value + Z95 * self.sd, "sd": self.sd, "n_eff": self.n_eff,
                "n_answered": self.n_answered,
            }
        ).sort("value", "concept")  # fmt: skip


def concept_profile(
    found: Onboarded, data: GapData, concepts: NDArray[np.int64] | None = None
) -> ConceptProfile:
    """The profile of an onboarded model.

    Args:
        found: From `decisions.onboard`.
        data: Activations of the bank's study.
        concepts: Which; None for those with n_eff and n_active of at least 10 on all items.

    Raises:
        InputError: The bank has none of the items.
    """
    rows, items = bank_rows(found.bank, data)
    return profile_of(
        found.bank.space, found.posterior, found.given.answers, data, rows, items, concepts,
        dispersion=found.dispersion,
    )  # fmt: skip


def bank_rows(bank: ItemBank, data: GapData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows in the bank, and rows in the activations, of the items that both have.

    Raises:
        InputError: There is none.
    """
    row = np.array([bank.row(item) for item in data.item_ids], np.int64)
    items = np.flatnonzero(row >= 0)
    if not len(items):
        raise InputError("no item with activations is in the item bank")
    return row[items], items


def profile_of(
    space: LogitSpace, posterior: Gaussian, answers: Answers, data: GapData,
    rows: NDArray[np.int64], items: NDArray[np.int64],
    concepts: NDArray[np.int64] | None = None, *, dispersion: float = 1.0,
) -> ConceptProfile:  # fmt: skip
    """The profile over any set of items.

    Args:
        space: Calibrated items.
        posterior: Of the model's vector.
        answers: What it answered, by rows of the space; answers on other items count for the
            posterior alone.
        data: Activations.
        rows, items: (n,) the items of the profile, as rows of the space and of the activations.
        concepts: Which; None for those with n_eff and n_active of at least 10 on these items.
        dispersion: phi of graded scores.
    """
    place = np.full(len(space), -1)
    place[rows] = np.arange(len(rows))
    known = place[answers.rows] >= 0
    answered = place[answers.rows[known]]
    x = np.asarray(space.design[rows], np.float64)
    floor = None if space.chance is None else space.chance[rows]
    p, slope = chances(x @ posterior.mean + space.intercept[rows], floor)
    score, noise = p.copy(), dispersion * p * (1 - p)
    score[answered], noise[answered], slope[answered] = answers.score[known], 0.0, 0.0

    a, active = data.activations[items], data.active[items]
    if concepts is None:
        count = column_sums(active)
        mass = column_sums(a)
        square = column_sums(powered(csr_matrix(a), 2))
        concepts = np.flatnonzero((n_eff(mass, square) >= LEAST) & (count >= LEAST))
    by_concept = csr_matrix(a[:, concepts].T.tocsr())
    benchmark = np.unique(data.benchmark[items], return_inverse=True)[1]
    is_answered = np.zeros(len(items))
    is_answered[answered] = 1
    mass = row_sums(by_concept)
    square = row_sums(powered(by_concept, 2))
    if (mass <= 0).any():
        lacking = int(concepts[int(np.argmax(mass <= 0))])
        raise InputError(f"concept {lacking} is active on none of the items", field="concepts")
    value = by_concept @ _centred(score[:, None], benchmark)[:, 0] / mass
    gradient = by_concept @ _centred(slope[:, None] * x, benchmark) / mass[:, None]
    spread = np.einsum("cd,de,ce->c", gradient, posterior.covariance, gradient, optimize=True)
    unseen = _centred_squares(by_concept, noise, benchmark) / mass**2
    return ConceptProfile(
        concepts, value, np.sqrt(np.maximum(spread, 0) + unseen), n_eff(mass, square),
        np.asarray(csr_matrix(active[:, concepts]).T @ is_answered).round().astype(np.int64),
    )  # fmt: skip


def _centred(values: Array, benchmark: NDArray[np.int64]) -> Array:
    """(n, k) columns less their means within each benchmark."""
    n = np.bincount(benchmark).astype(np.float64)
    total = np.zeros((len(n), values.shape[1]))
    np.add.at(total, benchmark, values)
    return values - (total / n[:, None])[benchmark]


def _centred_squares(a: csr_matrix, noise: Array, benchmark: NDArray[np.int64]) -> Array:
    """(C,) sum over items of (a_j - abar_b)^2 noise_j, from raw sums in each benchmark."""
    width = int(benchmark.max()) + 1
    member = (benchmark[:, None] == np.arange(width)).astype(np.float64)
    mean = (a @ member) / member.sum(axis=0)
    weighted = member * noise[:, None]
    first = powered(a, 2) @ noise
    cross = ((a @ weighted) * mean).sum(axis=1)
    return np.maximum(first - 2 * cross + np.square(mean) @ weighted.sum(axis=0), 0.0)

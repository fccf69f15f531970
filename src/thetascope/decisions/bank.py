"""An item bank: calibrated items, the known models, and what a new model is expected to be."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thetascope.decisions.posterior import Answers, Gaussian, chances, fit_ability
from thetascope.decisions.prior import AbilityPrior, pearson
from thetascope.decisions.scores import LEVEL, ScoreEstimate, score_estimate
from thetascope.errors import InputError
from thetascope.predictors.logit_space import LogitSpace
from thetascope.study import ResponseMatrix

Array = NDArray[np.float64]

FEW = 50
"""With fewer answers than this the known models' dispersion stands for a graded model's own."""


@dataclass(frozen=True)
class ItemBank:
    """Calibrated items of a study.

    Attributes:
        space: Items and known models; row j of `responses` is its item j.
        prior: Of a new model's vector.
        responses: (N, M) what the known models answered.
        misfit: (B,) m_b of every benchmark, see `scores`; zeros where not measured.
        calibrated: Whether `misfit` and `every` were measured on left-out models.
        every: (B,) one item in so many is drawn at random by an adaptive test of the benchmark;
            1 where adaptive choice had no smaller error than random items.
    """

    space: LogitSpace
    prior: AbilityPrior
    responses: ResponseMatrix
    misfit: Array
    calibrated: bool = False
    every: NDArray[np.int64] | None = None
    _row: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_row", {k: j for j, k in enumerate(self.space.ids)})

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names of the benchmarks."""
        return self.space.benchmarks

    def row(self, item_id: str) -> int:
        """Row of an item; -1 where it is not in the bank."""
        return self._row.get(item_id, -1)

    def benchmark_code(self, name: str) -> int:
        """Code of a benchmark.

        Raises:
            InputError: There is none of that name.
        """
        if name not in self.benchmarks:
            raise InputError(f"no benchmark {name!r}; there are {', '.join(self.benchmarks)}")
        return self.benchmarks.index(name)

    def model_index(self, name: str) -> int:
        """Index of a known model.

        Raises:
            InputError: There is none of that name.
        """
        if name not in self.space.models:
            known = ", ".join(self.space.models[:12])
            raise InputError(f"no known model {name!r}; there are {known}")
        return self.space.models.index(name)

    def known_answers(self, model: int) -> Answers:
        """What a known model answered."""
        rows = np.flatnonzero(self.responses.observed[:, model])
        score = self.responses.scores[rows, model].astype(np.float64)
        weights = self.responses.weights
        trials = np.ones(len(rows)) if weights is None else weights[rows, model].astype(float)
        return Answers(rows, score, trials)

    def posterior(
        self, answers: Answers, start: Array | None = None, prior: Gaussian | None = None
    ) -> Gaussian:
        """MAP and Laplace posterior of a model that gave these answers."""
        space, rows = self.space, answers.rows
        floor = None if space.chance is None else space.chance[rows]
        return fit_ability(
            space.design[rows], space.intercept[rows], answers.score, answers.trials,
            self.prior.gaussian if prior is None else prior, floor, start,
        )  # fmt: skip

    def dispersion(self, answers: Answers, theta: Array) -> float:
        """phi: 1 for right or wrong, else the model's own from `FEW` answers on."""
        if self.responses.binary and np.isin(answers.score, (0.0, 1.0)).all():
            return 1.0
        if len(answers) < FEW:
            return self.prior.dispersion
        space, rows = self.space, answers.rows
        floor = None if space.chance is None else space.chance[rows]
        p = chances(space.design[rows] @ theta + space.intercept[rows], floor)[0]
        freedom = max(len(answers) - space.dim, len(answers) / 2)
        return max(pearson(answers.score, p, answers.trials) / freedom, 0.1)

    def score(
        self,
        posterior: Gaussian,
        answers: Answers,
        benchmark: int,
        *,
        dispersion: float = 1.0,
        level: float = LEVEL,
    ) -> ScoreEstimate:
        """A benchmark's score with its interval."""
        return score_estimate(
            self.space, posterior, answers, benchmark,
            dispersion=dispersion, misfit=float(self.misfit[benchmark]), level=level,
        )  # fmt: skip

"""Coverage and performance of a study in one call, in memory."""

from __future__ import annotations

from typing import NamedTuple

from thetascope.concepts.store import load_concepts
from thetascope.gaps.adjusted import adjusted
from thetascope.gaps.coverage import Coverage, coverage
from thetascope.gaps.data import THRESHOLD, GapData, gap_data
from thetascope.gaps.performance import Performance, performance
from thetascope.gaps.residuals import ResidualGaps
from thetascope.study import Study


class Gaps(NamedTuple):
    """What the benchmarks of a study cover, and how its models do on concepts.

    Attributes:
        data: Activations and scores, with labels and flags.
        coverage: Of every benchmark.
        performance: 'all' first where there are several benchmarks, then each.
        adjusted: The same less what the other models score; None under five other models.
    """

    data: GapData
    coverage: Coverage
    performance: list[Performance]
    adjusted: list[ResidualGaps] | None


def gaps(
    study: Study, concepts: str | None = None, *, threshold: float = THRESHOLD,
    length: bool = True, seed: int = 0,
) -> Gaps:  # fmt: skip
    """Finds the gaps of a study; `gaps_study` keeps them in its folder.

    Args:
        study: A study on disk with concept activations.
        concepts: Their name; None for the only ones.
        threshold: Share of a concept's maximum over the reference from which on it is active.
        length: Whether text length is a covariate.
        seed: Of the random halves of the other models.

    Raises:
        InputError, StaleError: As `load_concepts` and `gap_data`.
    """
    data = gap_data(study, load_concepts(study, concepts), threshold=threshold)
    return Gaps(
        data, coverage(data), performance(data, length=length),
        adjusted(data, length=length, seed=seed),
    )  # fmt: skip

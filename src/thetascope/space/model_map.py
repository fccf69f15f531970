"""The map of models: distances, kinship, redundant pairs, portfolios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from thetascope.errors import InputError
from thetascope.evaluation import replicate_weights
from thetascope.predictors.jeirt import JEIRT
from thetascope.space.fitted import Space
from thetascope.space.kinship import Families, families, kinship, tree
from thetascope.space.pairs import Pair, closest, error_consistency, logit_distance
from thetascope.space.portfolio import Portfolio, portfolio
from thetascope.study import ResponseMatrix, files

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ModelMap:
    """What a study's models have in common.

    Attributes:
        models: M names.
        place: (M, 2) principal coordinates of the models' predicted logits over the items.
        explained: Share of the variance between models on either axis.
        distance: (M, M) root mean square difference of predicted logits.
        mirrors: Rank correlation over pairs of that distance with error consistency (negative:
            the space has near models where answers agree); NaN under four models.
        relatives: For every model its nearest by kinship (name, rho, common items), or None.
        linkage: (M - 1, 4) tree of kinship, rows as in scipy.
        rho: (M, M) kinship.
        families: Agreement with the families that the models table names, or None.
        pairs: Closest pairs by error consistency.
        portfolio: Greedy portfolios, or None.
    """

    models: tuple[str, ...]
    place: Array
    explained: tuple[float, float]
    distance: Array
    mirrors: float
    relatives: list[tuple[str, float, int] | None]
    linkage: Array
    rho: Array
    families: Families | None
    pairs: list[Pair]
    portfolio: Portfolio | None

    def to_json(self) -> dict[str, Any]:
        """Plain objects; NaN as null."""
        pairs = [{**p._asdict(), "redundant": p.redundant} for p in self.pairs]
        return files.finite(
            {
                "models": self.models,
                "place": self.place.tolist(),
                "explained": self.explained,
                "distance": np.round(self.distance, 4).tolist(),
                "mirrors": self.mirrors,
                "relatives": self.relatives,
                "linkage": self.linkage.tolist(),
                "rho": np.round(self.rho, 4).tolist(),
                "families": None if self.families is None else self.families._asdict(),
                "pairs": pairs,
                "portfolio": None if self.portfolio is None else vars(self.portfolio),
            }
        )


def model_map(
    space: Space, fit: JEIRT, responses: ResponseMatrix, group: NDArray[np.int64],
    family: list[str | None], seed: int = 0,
) -> ModelMap:  # fmt: skip
    """Compares models by their place in the space and by their answers.

    Args:
        space: The study's items in the fit's space.
        fit: The fit.
        responses: Of the same items.
        group: (N,) near-duplicate group.
        family: M names from the models table, None where it has none.
        seed: Of shuffles and halves.

    Raises:
        InputError: There is one model only.
    """
    if len(space.models) < 2:
        raise InputError("a map of models needs two models, the study has one")
    ls = fit.logit_space(space.items)
    logits = ls.logits(ls.theta)
    distance = logit_distance(logits)
    gap = (logits - logits.mean(axis=1, keepdims=True)).T
    _, size, vectors = np.linalg.svd(gap @ gap.T)
    share = size / max(size.sum(), 1e-12)
    place = vectors[:2].T * np.sqrt(size[:2] / len(logits))
    score, observed = responses.filled().astype(np.float64), responses.observed
    benchmark = space.items.benchmark
    kin = kinship(score, observed, benchmark)
    kappa, _ = error_consistency(score, observed)
    upper = np.triu_indices(len(space.models), 1)
    known = np.isfinite(kappa[upper])
    mirrors = float("nan")
    if known.sum() >= 6:
        mirrors = float(spearmanr(distance[upper][known], kappa[upper][known]).statistic)  # type: ignore[attr-defined]
    relatives: list[tuple[str, float, int] | None] = []
    for i in range(len(space.models)):
        row = np.where(np.isfinite(kin.rho[i]), kin.rho[i], -np.inf)
        k = int(np.argmax(row))
        relatives.append(
            (space.models[k], float(row[k]), int(kin.n[i, k])) if np.isfinite(row[k]) else None
        )
    weights = replicate_weights(int(group.max()) + 1)
    return ModelMap(
        space.models, place, (float(share[0]), float(share[1])), distance, mirrors, relatives,
        tree(kin), kin.rho, families(kin, family, seed),
        closest(space.models, score, observed, distance, group, weights),
        portfolio(space.models, score, observed, group, seed),
    )  # fmt: skip

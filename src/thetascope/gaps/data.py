"""What the gaps are computed from: activations and scores of the same items.

Items of which nothing was read (T_j = 0) are dropped and counted. Items are put in the order of
their benchmarks, so that a benchmark is a slice of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.concepts.store import Concepts
from thetascope.errors import InputError
from thetascope.study import Study

Array = NDArray[np.float64]
THRESHOLD = 0.5
"""Share of its maximum over the reference above which a concept counts as active."""


@dataclass(frozen=True)
class GapData:
    """N items, C concepts and M models.

    Attributes:
        activations: (N, C) a_j(c), an item's activation averaged over its counted tokens.
        active: (N, C) 1 where a concept is active on an item: max_t z_t(c) >= tau_c. Same shape
            as `activations`, explicit entries only.
        scores: (N, M) in [0, 1], NaN where a model did not answer.
        n_tokens: (N,) T_j, counted tokens, at least 1.
        benchmark: (N,) code into `benchmarks`, ascending.
        benchmarks, models, item_ids: Their names.
        rows: (N,) row of each item in the study.
        group: (N,) near-duplicate group of each item.
        labels, flags: Of each concept.
        density: (C,) share of reference tokens (or of the study's) on which a concept is active.
        alive: (C,) which concepts are not dead.
        peak: (N, C) max_t z_t(c) / act_max, or None where there is no reference.
        threshold: tau_c / act_max; None where there is no reference: then `active` is "fires".
        n_dropped: Items of the study that were left out: nothing was read of them.
        meta: What the activations were made with: dictionary, language_model.
        floor: Least `peak` that the stored activations hold; above 0 where they are reduced.
    """

    activations: csr_matrix
    active: csr_matrix
    scores: Array
    n_tokens: NDArray[np.int64]
    benchmark: NDArray[np.int64]
    benchmarks: tuple[str, ...]
    models: tuple[str, ...]
    item_ids: tuple[str, ...]
    rows: NDArray[np.int64]
    group: NDArray[np.int64]
    labels: tuple[str, ...]
    flags: tuple[tuple[str, ...], ...]
    density: Array
    alive: NDArray[np.bool_]
    peak: csr_matrix | None = None
    threshold: float | None = THRESHOLD
    n_dropped: int = 0
    floor: float = 0.0
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, c = self.activations.shape
        assert self.active.shape == (n, c)
        assert self.scores.shape == (n, len(self.models))
        assert len(self.labels) == len(self.flags) == len(self.density) == len(self.alive) == c
        assert len(self.n_tokens) == len(self.benchmark) == len(self.rows) == len(self.group) == n
        assert (np.diff(self.benchmark) >= 0).all(), "items are not in the order of benchmarks"

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def n_concepts(self) -> int:
        return len(self.labels)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """The rows of each benchmark."""
        ends = np.searchsorted(self.benchmark, np.arange(len(self.benchmarks) + 1))
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    def take(self, items: NDArray[np.int64]) -> GapData:
        """The items at these rows, ascending; benchmarks keep their codes."""
        items = np.sort(items)
        return replace(
            self,
            activations=csr_matrix(self.activations[items]),
            active=csr_matrix(self.active[items]),
            peak=None if self.peak is None else csr_matrix(self.peak[items]),
            scores=self.scores[items],
            n_tokens=self.n_tokens[items],
            benchmark=self.benchmark[items],
            item_ids=tuple(self.item_ids[j] for j in items.tolist()),
            rows=self.rows[items],
            group=self.group[items],
        )

    def with_scores(self, scores: Array, models: tuple[str, ...] | None = None) -> GapData:
        """The same items and concepts with other scores (N, M')."""
        return replace(self, scores=scores, models=models or self.models)

    def model(self, name: str) -> int:
        """A model's column.

        Raises:
            InputError: There is none of that name.
        """
        if name not in self.models:
            near = ", ".join(self.models[:8])
            raise InputError(f"no model named {name!r}; there are {near}, ...", field="model")
        return self.models.index(name)


def where(held: csr_matrix, chosen: NDArray[np.bool_]) -> csr_matrix:
    """The matrix of ones at the chosen explicit entries of another."""
    pointers = np.append(0, np.cumsum(chosen))[held.indptr]
    return csr_matrix(
        (np.ones(int(pointers[-1])), held.indices[chosen], pointers), shape=held.shape
    )


def gap_data(
    study: Study,
    concepts: Concepts,
    *,
    threshold: float = THRESHOLD,
    groups: NDArray[np.int64] | None = None,
    models: list[str] | None = None,
) -> GapData:
    """Joins a study's scores with its concept activations.

    Args:
        study: The study.
        concepts: Its activations, in its order of items (`load_concepts`).
        threshold: Share of act_max from which on a concept counts as active.
        groups: (study items,) near-duplicate groups; each item its own where None.
        models: Only these models, in this order.

    Raises:
        InputError: Nothing was read of any item, the threshold is not in (0, 1], or it is below
            the floor of reduced activations.
    """
    if not 0 < threshold <= 1:
        raise InputError(f"expected more than 0 and at most 1, found {threshold}",
                         field="threshold")  # fmt: skip
    floor = float(concepts.manifest.get("reduced", {}).get("least_share_of_act_max", 0.0))
    if threshold < floor:
        raise InputError(
            f"these activations are reduced to maxima of at least {floor} of act_max; a threshold"
            f" of {threshold} is below that", field="threshold",
        )  # fmt: skip
    matrix = study.matrix("mean" if study.policy == "keep" else None)
    names = list(matrix.models)
    chosen = names if models is None else models
    for name in chosen:
        if name not in names:
            study.filter(models=[name])  # raises with close names
    columns = [names.index(m) for m in chosen]
    scores = np.where(matrix.observed, matrix.filled().astype(np.float64), np.nan)[:, columns]

    kept = np.flatnonzero(concepts.n_tokens > 0)
    if not len(kept):
        raise InputError("no item has activations: nothing was read of any", file=concepts.folder)
    names_of = study.items["benchmark"].to_list()
    read = {names_of[j] for j in kept.tolist()}
    codes = {b: i for i, b in enumerate(b for b in study.benchmarks if b in read)}
    benchmark = np.array([codes.get(b, -1) for b in names_of], np.int64)
    order = kept[np.argsort(benchmark[kept], kind="stable")]
    activations, maxima = concepts.csr()[order], concepts.maxima()[order]
    activations, maxima = csr_matrix(activations), csr_matrix(maxima)
    act_max, peak = concepts.act_max, None
    if act_max is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            share = maxima.data / act_max[maxima.indices]
        share[~np.isfinite(share)] = np.inf  # never seen in the reference: above all of it
        peak = csr_matrix((share, maxima.indices, maxima.indptr), maxima.shape)
    held = activations if peak is None else peak
    is_active = held.data > 0 if peak is None else held.data >= np.float32(threshold)
    active = where(held, is_active)
    flags = tuple(concepts.flags)
    column = "density" if concepts.dictionary["density"].null_count() == 0 else "token_density"
    ids = study.items["item_id"].to_list()
    return GapData(
        activations, active, scores[order], concepts.n_tokens[order], benchmark[order],
        tuple(codes), tuple(chosen), tuple(ids[j] for j in order.tolist()), order,
        (np.arange(study.n_items) if groups is None else groups)[order], tuple(concepts.labels),
        flags, concepts.dictionary[column].to_numpy().astype(np.float64),
        np.array(["dead" not in f for f in flags]), peak,
        None if peak is None else threshold, study.n_items - len(kept), floor,
        {what: concepts.manifest.get(what) for what in ("dictionary", "language_model")},
    )  # fmt: skip

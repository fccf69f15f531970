"""From a study to what a predictor learns from and what its choices are made on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetascope.evaluation import Groups, near_duplicate_groups, partition
from thetascope.evaluation.splits import Cells
from thetascope.predictors.base import ItemFeatures, Sample, study_sample
from thetascope.study import Study


def study_groups(study: Study, items: ItemFeatures) -> Groups:
    """Near-duplicate groups of a study's items, by text hash and, where there are, vectors."""
    if "text_hash" in study.items.columns:
        hashes = study.items["text_hash"].to_list()
        known = {h: i for i, h in enumerate(dict.fromkeys(h for h in hashes if h is not None))}
        codes = np.array([-1 if h is None else known[h] for h in hashes], np.int64)
    else:
        codes = np.full(study.n_items, -1, np.int64)
    return near_duplicate_groups(codes, items.vectors, items.benchmark)


def fit_sets(
    study: Study, vectors: str | None = None, *, split_seed: int = 0
) -> tuple[Sample, Sample]:
    """All of a study but one fold to learn from, and that fold for early stopping."""
    sample = study_sample(study, vectors)
    groups = study_groups(study, sample.items)
    folds = partition(groups.labels, sample.items.benchmark, seed=split_seed)
    held: NDArray[np.bool_] = folds == 1
    if not held.any() or held.all():
        return sample, sample
    return sample.take(Cells(np.flatnonzero(~held))), sample.take(Cells(np.flatnonzero(held)))

"""Splits: who may learn from which responses.

One ten-fold partition of the items, grouped and stratified by benchmark. Seed s tests on fold
s, validates on fold s + 1 and trains on the rest, so five seeds test half of the items, each
once. The validation fold is spent once: one half for early stopping and choices, the other
for calibration and interval widths.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from thetascope.errors import InputError

N_FOLDS = 10
SplitName = Literal["cold-items", "warm-cells", "leave-one-benchmark-out"]
SPLIT_NAMES: tuple[SplitName, ...] = get_args(SplitName)


class Cells(NamedTuple):
    """Part of an N x M response matrix.

    Attributes:
        items: Row indices.
        mask: (len(items), M) which responses of those rows; None for all of them.
    """

    items: NDArray[np.int64]
    mask: NDArray[np.bool_] | None = None


class Split(NamedTuple):
    """One split.

    Attributes:
        name: e.g. 'seed 0' or 'without gsm8k'.
        train: What is learnt from.
        choose: Validation half for early stopping and choices.
        calibrate: Validation half for calibration and interval widths.
        test: What is predicted.
        n_left_out: Items in none of the four (near-duplicates of a left-out benchmark).
    """

    name: str
    train: Cells
    choose: Cells
    calibrate: Cells
    test: Cells
    n_left_out: int = 0


def check_seeds(seeds: int = 1, *, seed: int = 0, split_seed: int = 0) -> None:
    """Raises InputError where a number of folds or a seed is out of range."""
    if not 1 <= seeds <= N_FOLDS:
        raise InputError(f"expected 1 to {N_FOLDS} seeds, found {seeds}", field="seeds")
    for name, value in (("seed", seed), ("split-seed", split_seed)):
        if value < 0:
            raise InputError(f"expected a whole number from 0, found {value}", field=name)


def partition(
    groups: NDArray[np.int64],
    strata: NDArray[np.int64],
    *,
    n_folds: int = N_FOLDS,
    seed: int = 0,
) -> NDArray[np.int64]:
    """Divides items into folds of equal size that never cut a group, stratified.

    Larger groups are placed first, each in the fold that lacks its strata most; ties fall by
    the seed.

    Args:
        groups: (N,) group of each item.
        strata: (N,) stratum (benchmark) of each item.

    Returns:
        (N,) fold of each item.
    """
    rng = np.random.default_rng(seed)
    n_groups = int(groups.max()) + 1 if len(groups) else 0
    order = rng.permutation(n_groups)
    sizes = np.bincount(groups, minlength=n_groups)
    order = order[np.argsort(-sizes[order], kind="stable")]
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    filled = np.zeros((n_folds, int(strata.max()) + 1 if len(strata) else 1))
    totals = np.maximum(np.bincount(strata, minlength=filled.shape[1]), 1)
    tie = rng.permutation(n_folds)
    folds = np.empty(len(groups), np.int64)
    for turn, group in enumerate(order):
        rows = members[group]
        kinds = strata[rows]
        load = (filled[:, kinds] / totals[kinds]).sum(axis=1)
        preference = np.roll(tie, turn)
        fold = preference[np.argmin(load[preference])]
        folds[rows] = fold
        np.add.at(filled[fold], kinds, 1.0)
    return folds


def cold_items(
    groups: NDArray[np.int64],
    benchmark: NDArray[np.int64],
    *,
    seeds: int = 5,
    split_seed: int = 0,
) -> Iterator[Split]:
    """Yields one split a seed: the test items' responses are all unseen.

    Raises:
        ValueError: seeds is not from 1 to 10.
    """
    if not 1 <= seeds <= N_FOLDS:
        raise ValueError(f"seeds must be from 1 to {N_FOLDS}, found {seeds}")
    folds = partition(groups, benchmark, seed=split_seed)
    for seed in range(seeds):
        held = (seed + 1) % N_FOLDS
        choose, calibrate = halves(np.flatnonzero(folds == held), groups, benchmark, seed)
        train = np.flatnonzero((folds != seed) & (folds != held))
        test = np.flatnonzero(folds == seed)
        yield Split(f"seed {seed}", Cells(train), Cells(choose), Cells(calibrate), Cells(test))


def warm_cells(
    groups: NDArray[np.int64],
    observed: NDArray[np.bool_],
    *,
    seeds: int = 5,
    split_seed: int = 0,
) -> Iterator[Split]:
    """Yields one split a seed: random responses are held out, their items are known.

    A model's responses to near-duplicate items are held out together.

    Args:
        groups: (N,) group of each item.
        observed: (N, M) where there is a response.
    """
    if not 1 <= seeds <= N_FOLDS:
        raise ValueError(f"seeds must be from 1 to {N_FOLDS}, found {seeds}")
    rng = np.random.default_rng(split_seed)
    folds = np.full(observed.shape, -1, np.int8)
    half = np.zeros(observed.shape, bool)
    for model in range(observed.shape[1]):
        rows = np.flatnonzero(observed[:, model])
        present, inverse = np.unique(groups[rows], return_inverse=True)
        place = rng.permutation(len(present))
        folds[rows, model] = (place % N_FOLDS)[inverse]
        half[rows, model] = ((place // N_FOLDS) % 2 == 0)[inverse]
    every = np.arange(len(groups))
    for seed in range(seeds):
        held = folds == (seed + 1) % N_FOLDS
        test = folds == seed
        yield Split(
            f"seed {seed}",
            Cells(every, (folds >= 0) & ~held & ~test),
            Cells(every, held & half),
            Cells(every, held & ~half),
            Cells(every, test),
        )


def leave_one_benchmark_out(
    groups: NDArray[np.int64],
    benchmark: NDArray[np.int64],
    names: tuple[str, ...],
    *,
    split_seed: int = 0,
) -> Iterator[Split]:
    """Yields one split a benchmark: all its items are the test, the others train.

    Items elsewhere that are near-duplicates of its items are left out and counted.
    """
    for b, name in enumerate(names):
        test = benchmark == b
        near = np.isin(groups, np.unique(groups[test])) & ~test
        rest = np.flatnonzero(~test & ~near)
        if not test.any() or not len(rest):
            continue
        _, local = np.unique(groups[rest], return_inverse=True)
        folds = partition(local, benchmark[rest], seed=split_seed)
        held = rest[folds == 0]
        choose, calibrate = halves(held, groups, benchmark, b)
        yield Split(
            f"without {name}",
            Cells(rest[folds != 0]),
            Cells(choose),
            Cells(calibrate),
            Cells(np.flatnonzero(test)),
            int(near.sum()),
        )


def halves(
    items: NDArray[np.int64], groups: NDArray[np.int64], strata: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    _, local = np.unique(groups[items], return_inverse=True)
    side = partition(local, strata[items], n_folds=2, seed=seed)
    return items[side == 0], items[side == 1]

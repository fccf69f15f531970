"""Each rule of the splits, as a property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetascope.evaluation import (
    cold_items,
    leave_one_benchmark_out,
    near_duplicate_groups,
    partition,
    warm_cells,
)


@st.composite
def grouped_items(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(40, 300))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, max(2, n // draw(st.integers(1, 4))), n)
    _, groups = np.unique(raw, return_inverse=True)
    return groups, rng.integers(0, draw(st.integers(1, 4)), n)


@given(grouped_items(), st.integers(0, 99))
def test_a_group_never_straddles_folds(items: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    groups, strata = items
    folds = partition(groups, strata, seed=seed)
    assert set(folds) <= set(range(10))
    for group in np.unique(groups):
        assert len(set(folds[groups == group])) == 1


def test_folds_are_of_equal_size_within_every_benchmark() -> None:
    rng = np.random.default_rng(0)
    strata = rng.choice(3, 2000, p=[0.7, 0.25, 0.05])
    groups = np.arange(2000)
    groups[:200] = groups[:200] // 2  # pairs
    _, groups = np.unique(groups, return_inverse=True)
    folds = partition(groups, strata, seed=3)
    for b in range(3):
        counts = np.bincount(folds[strata == b], minlength=10)
        assert counts.max() - counts.min() <= 2


def test_partition_depends_on_the_seed_and_on_nothing_else() -> None:
    groups, strata = np.arange(500), np.zeros(500, int)
    assert (partition(groups, strata, seed=1) == partition(groups, strata, seed=1)).all()
    assert (partition(groups, strata, seed=1) != partition(groups, strata, seed=2)).any()


@given(grouped_items())
@settings(max_examples=50)
def test_cold_items_are_disjoint_and_five_seeds_test_each_item_once(
    items: tuple[np.ndarray, np.ndarray],
) -> None:
    groups, strata = items
    tested: list[int] = []
    for split in cold_items(groups, strata, seeds=5):
        parts = [split.train.items, split.choose.items, split.calibrate.items, split.test.items]
        joined = np.concatenate(parts)
        assert sorted(joined) == list(range(len(groups)))
        for i, part in enumerate(parts):
            others = np.concatenate([q for j, q in enumerate(parts) if j != i])
            assert not set(groups[part]) & set(groups[others])
        tested += list(split.test.items)
    assert len(tested) == len(set(tested))


def test_five_seeds_test_half_of_the_items_ten_all() -> None:
    groups, strata = np.arange(1000), np.zeros(1000, int)
    half = np.concatenate([s.test.items for s in cold_items(groups, strata, seeds=5)])
    assert len(half) == 500
    every = np.concatenate([s.test.items for s in cold_items(groups, strata, seeds=10)])
    assert sorted(every) == list(range(1000))


@pytest.mark.parametrize("seeds", [0, 11])
def test_seeds_out_of_range(seeds: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 10"):
        next(cold_items(np.arange(50), np.zeros(50, int), seeds=seeds))


@given(grouped_items())
@settings(max_examples=25)
def test_warm_cells_are_disjoint_and_hold_out_twins_together(
    items: tuple[np.ndarray, np.ndarray],
) -> None:
    groups, _ = items
    rng = np.random.default_rng(len(groups))
    observed = rng.random((len(groups), 5)) < 0.7
    seen = np.zeros_like(observed, int)
    for split in warm_cells(groups, observed, seeds=3):
        masks = [c.mask for c in (split.train, split.choose, split.calibrate, split.test)]
        stacked = np.stack([m for m in masks if m is not None])
        assert stacked.shape[0] == 4
        assert (stacked.sum(axis=0) == observed).all()
        seen += stacked[3]
        test = stacked[3]
        for model in range(5):
            for group in np.unique(groups):
                rows = (groups == group) & observed[:, model]
                assert test[rows, model].all() or not test[rows, model].any()
    assert seen.max() <= 1


def test_leaving_a_benchmark_out_leaves_its_near_duplicates_out_too() -> None:
    benchmark = np.repeat([0, 1, 2], 60)
    groups = np.arange(180)
    groups[60] = groups[0]  # an item of benchmark 1 that stands in benchmark 0 too
    _, groups = np.unique(groups, return_inverse=True)
    splits = list(leave_one_benchmark_out(groups, benchmark, ("a", "b", "c")))
    assert [s.name for s in splits] == ["without a", "without b", "without c"]
    first = splits[0]
    assert first.n_left_out == 1
    assert sorted(first.test.items) == list(range(60))
    learnt = np.concatenate([first.train.items, first.choose.items, first.calibrate.items])
    assert 60 not in learnt
    assert len(learnt) == 119


def test_near_duplicates_are_components_of_text_and_cosine() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 32)).astype(np.float32)
    vectors[10] = vectors[2500] + 0.01  # across blocks
    vectors[2999] = 3 * vectors[10]
    codes = np.arange(3000)
    codes[7] = codes[2500]
    codes[20] = codes[21] = -1  # two items without text are not equal
    found = near_duplicate_groups(codes, vectors, np.zeros(3000, int))
    assert len({int(found.labels[i]) for i in (7, 10, 2500, 2999)}) == 1
    assert found.labels[20] != found.labels[21]
    assert (found.n_groups, found.largest, found.threshold) == (2997, 4, 0.9)


def test_a_group_that_eats_a_benchmark_makes_the_threshold_stricter() -> None:
    rng = np.random.default_rng(0)
    centre = rng.normal(size=64)
    near = centre + 0.4 * rng.normal(size=(40, 64))  # cosine about .86 to .93
    far = rng.normal(size=(160, 64))
    vectors = np.concatenate([near, far]).astype(np.float32)
    found = near_duplicate_groups(np.arange(200), vectors, np.zeros(200, int), cosine=0.8)
    assert found.threshold == 0.95
    assert found.largest < 10


def test_no_vectors_no_cosine() -> None:
    found = near_duplicate_groups(np.array([0, 0, 1, -1]), None, np.zeros(4, int))
    assert found.labels.tolist() == [0, 0, 1, 2]
    assert found.threshold is None

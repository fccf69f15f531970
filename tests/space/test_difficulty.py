"""Difficulty: observed error, rank correlations, intervals, direction, reversed slopes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import spearmanr
from tests.predictors.predictor_cases import make_sample

from thetascope.errors import InputError
from thetascope.evaluation import near_duplicate_groups, replicate_weights
from thetascope.predictors import JEIRT, make_predictor
from thetascope.space.difficulty import (
    _conformal,
    correlate,
    difficulty,
    item_error,
    scale,
    usual,
)
from thetascope.space.directed import _fitted, gain_of
from thetascope.space.reversed import reversed_items, slopes


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_observed_error_does_not_depend_on_who_answered(seed: int) -> None:
    """Models that differ by a constant alone: any of them says the same of an item."""
    rng = np.random.default_rng(seed)
    item = rng.uniform(0.3, 0.7, 60)
    level = np.array([-0.2, 0.0, 0.2])
    score = item[:, None] + level
    benchmark = np.zeros(60, np.int64)
    full = np.ones((60, 3), bool)
    shift = usual(score, full, benchmark, 1)[benchmark]
    assert shift[0] == pytest.approx(level)
    some = rng.random((60, 3)) < 0.5
    some[np.arange(60), rng.integers(0, 3, 60)] = True
    assert item_error(score, some, shift) == pytest.approx(1 - item)


def test_an_unanswered_item_has_no_error() -> None:
    assert np.isnan(item_error(np.ones((1, 2)), np.zeros((1, 2), bool), np.zeros((1, 2))))


def test_correlations_are_scipys() -> None:
    rng = np.random.default_rng(0)
    truth, guess = rng.normal(size=80), rng.normal(size=(80, 2))
    parts = ["a"] * 50 + ["b"] * 25 + ["c"] * 5
    found = correlate(
        ["x", "y"], truth, guess, "subject", parts, np.arange(80), replicate_weights(80)
    )
    for k in range(2):
        assert found.overall.value[k] == pytest.approx(spearmanr(truth, guess[:, k]).statistic)
        inside = spearmanr(truth[:50], guess[:50, k]).statistic
        assert found.parts["a"].value[k] == pytest.approx(inside)
    assert set(found.parts) == {"a", "b"}  # c has under ten items
    assert found.within is not None
    means = [np.mean([found.parts[p].value[k] for p in "ab"]) for k in range(2)]
    assert found.within.value == pytest.approx(means)


def test_conformal_intervals_cover() -> None:
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(200):
        guess = rng.uniform(0.1, 0.9, 260)
        truth = guess + 0.3 * scale(guess) * rng.standard_t(4, 260)
        half = _conformal(truth[:60], guess[:60])
        inside.append((np.abs(truth - guess)[60:] <= half * scale(guess[60:])).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.015)
    assert _conformal(np.zeros(5), np.full(5, 0.5)) == float("inf")  # 5 items cannot give 90 %


def test_slopes_are_correlations() -> None:
    rng = np.random.default_rng(1)
    score, ability = rng.random((5, 12)), rng.normal(size=12)
    seen = rng.random((5, 12)) < 0.9
    seen[0] = True
    seen[4, 4:] = False  # four models: too few
    got = slopes(score, seen, ability)
    for j in range(4):
        expected = np.corrcoef(score[j, seen[j]], ability[seen[j]])[0, 1]
        assert got[j] == pytest.approx(expected)
    assert np.isnan(got[4])
    assert np.isnan(slopes(np.ones((1, 12)), np.ones((1, 12), bool), ability)[0])  # all alike


def test_reversed_items_are_counted_and_foreseen() -> None:
    rng = np.random.default_rng(2)
    n, m = 200, 40
    ability = rng.normal(size=m)
    a = np.where(np.arange(n) < 30, -2.0, 2.0)
    p = expit(a[:, None] * ability)
    score, seen = (rng.random((n, m)) < p).astype(float), np.ones((n, m), bool)
    ids = [f"b:{i}" for i in range(n)]
    found = reversed_items(
        ids, slopes(p, seen, ability), slopes(score, seen, ability), seen, np.arange(n),
        replicate_weights(n),
    )  # fmt: skip
    assert 25 <= found.surely_negative <= 32
    assert found.by_chance == 10
    assert found.foreseen.value > 0.4
    assert all(int(i.partition(":")[2]) < 30 for i, *_ in found.items)


def test_a_difficulty_that_depends_on_direction_is_found_where_planted() -> None:
    rng = np.random.default_rng(3)
    n, m = 3000, 6
    x = rng.normal(size=(n, 3))
    z = rng.normal(size=(n, m))
    seen = rng.random((n, m)) < 0.9
    shared = np.array([0.0, 0.8, 0.0])
    score = (rng.random((n, m)) < expit(z + (x @ shared)[:, None])).astype(float)
    w = _fitted(z, x, score, seen, 1.0, True)
    assert w[:, 0] == pytest.approx(shared, abs=0.08)
    assert (w == w[:, :1]).all()
    own = _fitted(z, x, score, seen, 1.0, False)
    assert own == pytest.approx(np.tile(shared[:, None], (1, m)), abs=0.25)
    gain = gain_of(z, z + x @ w, z + x @ own, score, seen, np.arange(n), replicate_weights(n))
    assert gain.common.high < 0
    assert _fitted(z, x, score, seen, 1e9, True).any() == False  # noqa: E712


def test_the_whole_on_a_made_study(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = make_sample(n=300, m=10)
    groups = near_duplicate_groups(np.full(300, -1), sample.items.vectors, sample.items.benchmark)
    settings = JEIRT(max_epochs=4, dim=6)
    beside = {"knn": make_predictor("knn"), "model_benchmark": make_predictor("model_benchmark")}
    found = difficulty(sample, groups, settings, beside, seeds=3, folder=tmp_path)
    assert found.ranks.names == [
        "jeirt_context", "knn", "model_benchmark", "norm", "norm - u.mbar"
    ]  # fmt: skip
    assert len(found.item) == len(set(found.item.tolist())) == len(found.ranks.observed)
    assert 85 <= len(found.item) <= 95
    assert set(found.half_width) == {"jeirt_context", "knn", "model_benchmark"}
    # ability is a model's mean beyond its benchmarks', so items mostly have positive slopes
    flipped = found.reversed
    assert flipped.n_items > 60
    assert flipped.negative < 0.3 * flipped.n_items
    again = difficulty(sample, groups, settings, beside, seeds=3, folder=tmp_path)
    assert again.to_json() == found.to_json()  # from the folder
    # what a model mean says within a benchmark is the same for every item, up to who answered
    assert abs(found.ranks.within.value[2]) < 0.35
    with pytest.raises(InputError, match="expected 1 to 10"):
        difficulty(sample, groups, settings, beside, seeds=0)

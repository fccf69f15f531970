"""The map of models: kinship, pairs, portfolios."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.predictors.predictor_cases import make_sample

from thetascope.errors import InputError
from thetascope.evaluation import replicate_weights
from thetascope.predictors import JEIRT
from thetascope.space import model_map, space_of
from thetascope.space.kinship import Kinship, families, kinship, tree
from thetascope.space.pairs import closest, error_consistency, logit_distance
from thetascope.space.portfolio import complete_block, greedy, portfolio


def answers(n: int = 600, m: int = 10, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hard, ability = rng.normal(size=n), rng.normal(size=m)
    return (rng.random((n, m)) < 1 / (1 + np.exp(hard[:, None] - ability))).astype(float)


def test_kinship_is_the_partial_correlation() -> None:
    """Against residuals of two regressions, one pair at a time, with holes."""
    rng = np.random.default_rng(1)
    score = answers(200, 7)
    seen = rng.random(score.shape) < 0.85
    found = kinship(score, seen, np.zeros(200, np.int64))
    mean = np.array([score[seen[:, i], i].mean() for i in range(7)])
    centred = np.where(seen, score - mean, 0)
    for i, k in itertools.combinations(range(7), 2):
        others = [o for o in range(7) if o not in (i, k)]
        count = seen[:, others].sum(axis=1)
        rows = seen[:, i] & seen[:, k] & (count >= 3)
        z = centred[rows][:, others].sum(axis=1) / count[rows]
        design = np.stack([np.ones(rows.sum()), z], axis=1)

        def rest(y: np.ndarray, x: np.ndarray = design) -> np.ndarray:
            return y - x @ np.linalg.lstsq(x, y, rcond=None)[0]

        expected = np.corrcoef(rest(centred[rows, i]), rest(centred[rows, k]))[0, 1]
        assert found.rho[i, k] == pytest.approx(expected)
        assert found.n[i, k] == rows.sum()


def test_relatives_are_found_and_strangers_are_not() -> None:
    rng = np.random.default_rng(2)
    score = answers(1500, 12)
    twin = score[:, 0].copy()
    turned = rng.random(1500) < 0.1
    twin[turned] = 1 - twin[turned]
    score = np.concatenate([score, twin[:, None]], axis=1)
    found = kinship(score, np.ones(score.shape, bool), np.zeros(1500, np.int64))
    assert found.rho[0, 12] > 0.6
    others = [found.rho[i, k] for i, k in itertools.combinations(range(12), 2)]
    assert np.abs(others).max() < 0.2
    assert abs(np.mean(others)) < 0.12  # each stranger has one of twelve others in common
    assert sorted(tree(found)[0, :2]) == [0, 12]


def test_families_by_hand() -> None:
    rho = np.full((6, 6), 0.0)
    for a, b in ((0, 1), (2, 3), (4, 5)):
        rho[a, b] = rho[b, a] = 0.5
    np.fill_diagonal(rho, np.nan)
    found = families(Kinship(rho, np.full((6, 6), 100)), ["x", "x", "y", "y", "z", None])
    assert found is not None
    assert (found.n_models, found.n_families) == (4, 2)  # z has one model, the last no family
    assert found.same == 1
    assert found.auc == 1
    assert found.chance == pytest.approx(1 / 3, abs=0.02)  # 8 of 24 orders keep both pairs
    assert found.p == pytest.approx(1 / 3, abs=0.02)
    assert families(Kinship(rho, np.full((6, 6), 9)), [None] * 6) is None


def test_error_consistency_by_hand() -> None:
    first = np.array([1] * 40 + [0] * 10)
    second = np.array([1] * 30 + [0] * 20)
    score = np.stack([first, second], axis=1).astype(float)
    kappa, n = error_consistency(score, np.ones((50, 2), bool))
    agree, chance = 0.8, 0.8 * 0.6 + 0.2 * 0.4
    assert kappa[0, 1] == pytest.approx((agree - chance) / (1 - chance))
    assert n[0, 1] == 50
    few, _ = error_consistency(score[:20], np.ones((20, 2), bool))
    assert np.isnan(few).all()


def test_pairs_and_what_the_second_rescues() -> None:
    score = answers(400, 4, 3)
    score[:, 3] = score[:, 0]
    worse = np.flatnonzero(score[:, 3])[:8]
    score[worse, 3] = 0  # an almost equal model that is never better
    distance = np.ones((4, 4))
    pair = closest(
        ("a", "b", "c", "d"), score, np.ones(score.shape, bool), distance, np.arange(400),
        replicate_weights(400),
    )[0]  # fmt: skip
    assert (pair.first, pair.second) == ("a", "d")
    assert pair.rescued[0] == 0
    assert pair.differ[0] == pytest.approx(8 / 400)
    assert pair.redundant
    assert pair.kappa[1] < pair.kappa[0] < pair.kappa[2]


def test_logit_distance_by_a_slow_count() -> None:
    z = np.random.default_rng(0).normal(size=(30, 4))
    slow = [[np.sqrt(np.mean((z[:, i] - z[:, k]) ** 2)) for k in range(4)] for i in range(4)]
    assert logit_distance(z) == pytest.approx(np.array(slow), abs=1e-6)


def test_the_block_without_holes() -> None:
    seen = np.ones((10, 4), bool)
    seen[:9, 3] = False
    items, models = complete_block(seen)
    assert models.tolist() == [0, 1, 2]
    assert len(items) == 10


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_greedy_reaches_its_bound(seed: int) -> None:
    score = (np.random.default_rng(seed).random((40, 6)) < 0.3).astype(float)
    order = greedy(score, 3)
    got = score[:, order].max(axis=1).sum()
    best = max(score[:, list(c)].max(axis=1).sum() for c in itertools.combinations(range(6), 3))
    assert got >= (1 - 1 / np.e) * best - 1e-9
    assert len(set(order)) == 3


def test_portfolio_is_judged_on_other_items() -> None:
    """Coin throwers: on the items that chose them they look better than they are."""
    rng = np.random.default_rng(4)
    score = (rng.random((60, 30)) < 0.3).astype(float)
    found = portfolio(
        tuple(f"m{i}" for i in range(30)), score, np.ones(score.shape, bool), np.arange(60)
    )
    assert found is not None
    truth = [1 - 0.7**k for k in range(1, 13)]
    held = [h[0] for h in found.held_out]
    assert np.mean(np.array(held) - truth) == pytest.approx(0, abs=0.05)
    assert np.mean(np.array(found.cover) - truth) > 0.08
    assert np.all(np.diff(found.cover) >= 0)
    assert found.everything >= found.cover[-1]


def test_models_without_common_items_have_no_portfolio() -> None:
    seen = np.array([[True, False], [False, True]])
    assert portfolio(("a", "b"), np.ones((2, 2)), seen, np.arange(2)) is None


def test_the_whole_map() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = make_sample(n=240, m=6)
    fit = JEIRT(max_epochs=4, dim=5, context=False).fit(sample)
    space = space_of(fit, sample.items)
    family = ["x", "x", "y", "y", None, None]
    found = model_map(space, fit, sample.responses, np.arange(240), family)
    assert found.place.shape == (6, 2)
    z = fit.logit_space(sample.items)
    assert found.distance == pytest.approx(logit_distance(z.logits(z.theta)))
    assert 0 < sum(found.explained) <= 1 + 1e-9
    json.dumps(found.to_json(), allow_nan=False)
    one = make_sample(n=100, m=1)
    lone = JEIRT(max_epochs=1, dim=4, context=False).fit(one)
    with pytest.raises(InputError, match="needs two models"):
        model_map(space_of(lone, one.items), lone, one.responses, np.arange(100), [None])


def test_one_group_of_near_duplicates_has_no_intervals_and_no_halves() -> None:
    score, seen = answers(100, 6), np.ones((100, 6), bool)
    one = np.zeros(100, np.int64)
    names = tuple("abcdef")
    pair = closest(names, score, seen, np.ones((6, 6)), one, replicate_weights(1))[0]
    assert np.isnan(pair.kappa[1])
    assert not pair.redundant
    found = portfolio(names, score, seen, one)
    assert found is not None
    assert found.held_out == []
    assert found.nearly is None
    assert len(found.cover) == 6

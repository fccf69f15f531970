"""Bootstrap intervals: against a literal bootstrap, coverage, pairing."""

from __future__ import annotations

import numpy as np
import pytest

from thetascope.evaluation import Cells, evaluate, metrics, ratio_interval, replicate_weights
from thetascope.evaluation.intervals import METRICS
from thetascope.evaluation.paired import sign_flip_test


def _cells(seed: int, n_items: int = 120, n_models: int = 6) -> Cells:
    rng = np.random.default_rng(seed)
    item, model = (a.ravel() for a in np.indices((n_items, n_models)))
    kept = rng.random(len(item)) < 0.8
    item, model = item[kept], model[kept]
    chance = 1 / (1 + np.exp(-(rng.normal(size=n_items)[item] + np.linspace(-1, 1, 6)[model])))
    score = (rng.random(len(item)) < chance).astype(float)
    noisy = np.clip(chance + 0.1 * rng.normal(size=len(item)), 0.01, 0.99)
    return Cells(score, model, item // 2, {"good": chance, "noisy": noisy})


def test_every_metric_agrees_with_a_literal_bootstrap() -> None:
    cells = _cells(0)
    weights = replicate_weights(60, seed=0, n=300)
    found = evaluate(cells, weights, "good")
    functions = {
        "accuracy": metrics.accuracy,
        "log_loss": metrics.log_loss,
        "brier": metrics.brier,
        "absolute_error": metrics.absolute_error,
        "auc": metrics.auc,
    }
    members = [np.flatnonzero(cells.group == g) for g in range(60)]
    draws = [
        np.concatenate([np.tile(members[g], int(w)) for g, w in enumerate(row) if w])
        for row in weights
    ]
    for name, function in functions.items():
        p, q = cells.p["noisy"], cells.p["good"]
        values = np.array([function(p[d], cells.score[d]) for d in draws])
        low, high = np.quantile(values, [0.025, 0.975])
        own = found["noisy"][0][name]
        assert own.value == pytest.approx(function(p, cells.score), abs=1e-12)
        assert (own.low, own.high) == pytest.approx((low, high), abs=2e-3), name
        gaps = values - np.array([function(q[d], cells.score[d]) for d in draws])
        paired = found["noisy"][1][name]
        assert (paired.low, paired.high) == pytest.approx(
            tuple(np.quantile(gaps, [0.025, 0.975])), abs=2e-3
        ), name


def test_within_model_auc_agrees_with_a_literal_bootstrap() -> None:
    cells = _cells(1)
    weights = replicate_weights(60, seed=1, n=200)
    own = evaluate(cells, weights, None)["noisy"][0]["auc_within_model"]
    members = [np.flatnonzero(cells.group == g) for g in range(60)]
    values = []
    for row in weights:
        d = np.concatenate([np.tile(members[g], int(w)) for g, w in enumerate(row) if w])
        values.append(metrics.auc_within(cells.p["noisy"][d], cells.score[d], cells.segment[d]))
    assert (own.low, own.high) == pytest.approx(
        tuple(np.quantile(values, [0.025, 0.975])), abs=5e-3
    )


def test_all_metrics_are_there_and_the_reference_has_no_difference() -> None:
    found = evaluate(_cells(2), replicate_weights(60), "good")
    assert set(found["good"][0]) == set(METRICS)
    assert found["good"][1] == {}
    assert set(found["noisy"][1]) == set(METRICS)


def test_intervals_cover_the_truth() -> None:
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(80), 3)
        value = rng.normal(size=80)[group] + 0.3 * rng.normal(size=240)
        found = ratio_interval(value, group, replicate_weights(80, seed, n=400))
        covered += found.low <= 0 <= found.high
    assert 180 <= covered <= 200  # 95 % nominal; a bootstrap over cells would cover about 75 %


def test_one_class_has_no_auc_and_says_so() -> None:
    cells = Cells(np.ones(30), np.zeros(30, int), np.arange(30), {"a": np.full(30, 0.7)})
    found = evaluate(cells, replicate_weights(30), None)["a"][0]
    assert np.isnan(found["auc"].value)
    assert np.isnan(found["auc"].low)
    assert found["accuracy"] == (1.0, 1.0, 1.0)


def test_sign_flip_is_mcnemar_on_binary_differences() -> None:
    d = np.r_[np.ones(12), -np.ones(3), np.zeros(50)]
    found = sign_flip_test(d)
    assert found.exact
    assert found.p == pytest.approx(2 * sum(_binom(15, k) for k in range(4)) / 2**15)


def test_sign_flip_on_graded_differences_is_near_the_exact_count() -> None:
    d = np.array([0.3, 0.5, -0.1, 0.7, 0.2, 0.4, -0.2, 0.6])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1).T
    exact = (np.abs(signs @ d) >= d.sum() - 1e-12).mean()
    found = sign_flip_test(d)
    assert not found.exact
    assert found.p == pytest.approx(exact, abs=0.01)
    assert sign_flip_test(np.zeros(5)).p == 1.0


def _binom(n: int, k: int) -> int:
    from math import comb

    return comb(n, k)

"""Metrics: equal to scikit-learn on right-or-wrong scores, to hand counts on graded ones."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from thetascope.evaluation import metrics

BOTH = st.integers(2, 60).flatmap(
    lambda n: st.tuples(
        arrays(float, n, elements=st.floats(0.001, 0.999)),
        arrays(float, n, elements=st.sampled_from([0.0, 1.0])),
    )
)


@given(BOTH)
def test_binary_metrics_equal_scikit_learn(pair: tuple[np.ndarray, np.ndarray]) -> None:
    p, s = pair
    assert metrics.accuracy(p, s) == pytest.approx(sk.accuracy_score(s, p >= 0.5), abs=1e-12)
    assert metrics.log_loss(p, s) == pytest.approx(sk.log_loss(s, p, labels=[0, 1]), abs=1e-12)
    assert metrics.brier(p, s) == pytest.approx(sk.brier_score_loss(s, p), abs=1e-12)
    if 0 < s.sum() < len(s):
        assert metrics.auc(p, s) == pytest.approx(sk.roc_auc_score(s, p), abs=1e-12)
    else:
        assert np.isnan(metrics.auc(p, s))


def test_auc_with_ties_equals_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    p = rng.integers(0, 5, 500) / 5
    s = rng.integers(0, 2, 500).astype(float)
    assert metrics.auc(p, s) == pytest.approx(sk.roc_auc_score(s, p), abs=1e-12)


@given(BOTH)
def test_graded_auc_counts_each_cell_as_both(pair: tuple[np.ndarray, np.ndarray]) -> None:
    p, _ = pair
    rng = np.random.default_rng(len(p))
    s = rng.random(len(p))
    twice, weights = np.r_[p, p], np.r_[s, 1 - s]
    labels = np.r_[np.ones(len(p)), np.zeros(len(p))]
    expected = sk.roc_auc_score(labels, twice, sample_weight=weights)
    assert metrics.auc(p, s) == pytest.approx(expected, abs=1e-9)


def test_graded_by_hand() -> None:
    p, s = np.array([0.8, 0.4, 0.6]), np.array([0.5, 0.25, 0.9])
    assert metrics.accuracy(p, s) == 1.0  # the score of one half is left out
    assert metrics.accuracy(np.array([0.3]), np.array([0.5])) != metrics.accuracy(p, s)
    expected = -np.mean(s * np.log(p) + (1 - s) * np.log(1 - p))
    assert metrics.log_loss(p, s) == pytest.approx(expected, abs=1e-12)
    assert metrics.absolute_error(p, s) == pytest.approx((0.3 + 0.15 + 0.3) / 3)
    assert metrics.entropy(s)[0] == pytest.approx(np.log(2))
    assert metrics.log_loss(s, s) == pytest.approx(metrics.entropy(s).mean(), abs=1e-12)


def test_probabilities_of_zero_and_one_cost_much_but_not_infinity() -> None:
    assert metrics.log_loss(np.array([0.0]), np.array([1.0])) == pytest.approx(-np.log(1e-12))


def test_calibration_error_by_hand() -> None:
    p = np.r_[np.full(50, 0.2), np.full(50, 0.8)]
    s = np.r_[np.zeros(40), np.ones(10), np.zeros(5), np.ones(45)]
    assert metrics.calibration_error(p, s, 2) == pytest.approx(0.5 * 0.0 + 0.5 * 0.1)


def test_within_model_auc_ignores_model_means() -> None:
    rng = np.random.default_rng(1)
    model = np.repeat(np.arange(20), 400)
    ability = np.linspace(0.05, 0.95, 20)[model]
    s = (rng.random(len(model)) < ability).astype(float)
    assert metrics.auc(ability, s) > 0.75
    assert metrics.auc_within(ability, s, model) == pytest.approx(0.5, abs=1e-12)

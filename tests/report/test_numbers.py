"""The page's own statistics against the library's and against peers."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import spearmanr

from thetascope.evaluation import ratio_interval, replicate_weights
from thetascope.evaluation.columns import MIN_GROUPS, mean_of, means, spearman
from thetascope.report.ranking import core_benchmarks
from thetascope.report.tested import verdict


def test_means_are_ratio_intervals() -> None:
    rng = np.random.default_rng(0)
    group = np.sort(rng.integers(0, 40, 90))
    _, group = np.unique(group, return_inverse=True)
    weights = replicate_weights(int(group.max()) + 1)
    score, seen = rng.random((90, 3)), rng.random((90, 3)) < 0.8
    found = means(score, seen, group, weights)
    for k in range(3):
        one = ratio_interval(np.where(seen[:, k], score[:, k], np.nan), group, weights)
        got = (found.value[k], found.low[k], found.high[k])
        assert got == pytest.approx(tuple(one), abs=1e-12)
        assert found.n[k] == seen[:, k].sum()


def test_all_right_gets_wilsons_interval_and_few_groups_none() -> None:
    weights = replicate_weights(20)
    one = means(np.ones((20, 1)), np.ones((20, 1), bool), np.arange(20), weights, proportion=True)
    z2 = NormalDist().inv_cdf(0.975) ** 2
    assert one.low[0] == pytest.approx(20 / (20 + z2))
    assert one.high[0] == 1
    n = MIN_GROUPS - 1
    few = means(
        np.linspace(0, 1, n)[:, None], np.ones((n, 1), bool), np.arange(n), replicate_weights(n)
    )
    assert np.isnan(few.low[0])
    assert np.isnan(few.high[0])


def test_spearman_is_scipys_and_its_replicates_are_of_the_repeated_rows() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 8, (50, 2)).astype(float)
    y = x[:, 0] + rng.integers(0, 8, 50)
    group = np.arange(50) // 2
    weights = replicate_weights(25)
    found = spearman(x, y, group, weights)
    for k in range(2):
        assert found.value[k] == pytest.approx(spearmanr(x[:, k], y).statistic)
        for r in (0, 7, 1999):
            rows = np.repeat(np.arange(50), weights[r, group].astype(int))
            expected = spearmanr(x[rows, k], y[rows]).statistic
            assert found.replicates[r, k] == pytest.approx(expected)


def test_a_mean_over_parts_leaves_out_what_is_absent() -> None:
    weights = replicate_weights(30)
    group = np.arange(30)
    rng = np.random.default_rng(2)
    a = means(rng.random((30, 2)), np.ones((30, 2), bool), group, weights)
    seen = np.ones((30, 2), bool)
    seen[:, 1] = False
    b = means(rng.random((30, 2)), seen, group, weights)
    both = mean_of([a, b], 30)
    assert both.value[0] == pytest.approx((a.value[0] + b.value[0]) / 2)
    assert both.value[1] == a.value[1]
    assert both.low[1] == pytest.approx(a.low[1])


def test_the_order_is_over_the_benchmarks_that_most_models_ran() -> None:
    coverage = np.ones((10, 3))
    assert core_benchmarks(coverage) == [0, 1, 2]
    coverage[2:, 1] = 0
    assert core_benchmarks(coverage) == [0, 2]
    coverage[9, 2] = 0.5
    assert core_benchmarks(coverage) == [0, 2]
    assert core_benchmarks(np.zeros((3, 2))) == [0, 1]


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(-0.02, -0.01, "better"), (0.01, 0.02, "worse"), (-0.01, 0.001, "no worse"),
     (-0.01, 0.01, "not told apart"), (float("nan"), float("nan"), "too few items to say")],
)  # fmt: skip
def test_verdicts(low: float, high: float, said: str) -> None:
    assert verdict((0.0, low, high), "log_loss") == said
    if said != "no worse":
        assert verdict((0.0, -high, -low), "accuracy") == said

"""Tails, q-values, intervals and shrinkage."""

import numpy as np
import pytest
from scipy.stats import norm, pearson3

from thetascope.gaps.inference import (
    chi_interval,
    least_detectable,
    q_values,
    shrink,
    tails,
    wilson,
)


@pytest.mark.parametrize("skew", [-2.0, -0.5, -1e-3, -1e-5, 0.0, 1e-5, 1e-3, 0.3, 1.5])
def test_tails_are_pearson_iii(skew):
    z = np.linspace(-1.2, 6, 41) if skew > 0 else np.linspace(-6, 1.2, 41)
    z = z[np.abs(z) < 2 / max(abs(skew), 1e-9)]
    found = tails(z, np.full(z.shape, skew))
    law = norm() if abs(skew) < 1e-4 else pearson3(skew)
    assert found.low == pytest.approx(law.cdf(z), rel=1e-6, abs=1e-12)
    assert found.high == pytest.approx(law.sf(z), rel=1e-6, abs=1e-12)


def test_no_tail_is_zero_beyond_the_end_of_the_law():
    """Skew 1 ends at -2; -2.5 is left to the normal tail."""
    found = tails(np.array([-2.5, -2.0]), np.array([1.0, 1.0]))
    assert found.low == pytest.approx(norm.cdf([-2.5, -2.0]))
    found = tails(np.array([2.5]), np.array([-1.0]))
    assert found.high == pytest.approx(norm.sf([2.5]))


def test_q_values_by_hand():
    """Benjamini-Hochberg: 4 p-values; NaN is not in the family."""
    p = np.array([0.01, np.nan, 0.04, 0.03, 0.5])
    assert q_values(p) == pytest.approx([0.04, np.nan, 0.16 / 3, 0.16 / 3, 0.5], nan_ok=True)


def test_wilson_by_hand():
    """8 of 10: centre (0.8 + z2/20) / (1 + z2/10)."""
    low, high = wilson(np.array([0.8]), np.array([10.0]))
    assert low[0] == pytest.approx(0.4902, abs=1e-4)
    assert high[0] == pytest.approx(0.9433, abs=1e-4)


def test_interval_of_chi_uses_the_spread_of_graded_scores():
    """Scores that hardly vary make the interval narrower; right-or-wrong ones give n_eff."""
    chi, mass, n = np.array([0.5, 0.5, np.nan]), np.ones(3), np.full(3, 20.0)
    binary = chi_interval(chi, mass, np.array([0.5, 0.5, 0.0]), n)
    graded = chi_interval(chi, mass, np.array([0.26, 0.26, 0.0]), n)
    assert binary[0][0] == pytest.approx(wilson(np.array([0.5]), np.array([20.0]))[0][0])
    assert graded[1][0] - graded[0][0] < 0.5 * (binary[1][0] - binary[0][0])
    assert np.isnan(binary[0][2])


def test_shrinkage_solves_its_equation():
    rng = np.random.default_rng(0)
    v = rng.uniform(0.5, 2, 400)
    y = rng.normal(0, np.sqrt(v + 1.5))
    found = shrink(y, v)
    assert (y**2 / (found.tau2 + v)).sum() == pytest.approx(400, rel=1e-6)
    assert found.mean == pytest.approx(y * found.tau2 / (found.tau2 + v))
    assert 1.0 < found.tau2 < 2.0
    none = shrink(0.1 * np.sqrt(v), v)
    assert none.tau2 == 0
    assert not none.mean.any()
    assert shrink(np.zeros(0), np.zeros(0)).tau2 == 0


def test_least_detectable_by_hand():
    """One concept: (1.6449 + .8416) * .5 * sqrt(1/100 - 1/1000)."""
    assert least_detectable(1, 0.5, 100, 1000) == pytest.approx(0.11793, abs=1e-4)

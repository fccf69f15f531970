"""MAP and Laplace posterior against scipy's optimiser, the dual, and each other."""

from __future__ import annotations

import numpy as np
import pytest
from decision_cases import make_space
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from thetascope.decisions import posterior
from thetascope.decisions.posterior import Gaussian, fit_ability
from thetascope.decisions.prior import population


def case(seed: int, n: int, d: int, floor: bool, graded: bool = False):
    rng = np.random.default_rng(seed)
    x, c = rng.normal(size=(n, d)), rng.normal(size=n)
    s = rng.random(n) if graded else (rng.random(n) < 0.6).astype(float)
    w = rng.integers(1, 6, n).astype(float)
    root = rng.normal(size=(d, d))
    prior = Gaussian(rng.normal(size=d), root @ root.T + np.eye(d))
    return x, c, s, w, prior, rng.choice([0.0, 0.25], n) if floor else None


def negative(theta, x, c, s, w, prior, floor):
    p = 1 / (1 + np.exp(-(x @ theta + c)))
    p = p if floor is None else floor + (1 - floor) * p
    p = np.clip(p, 1e-12, 1 - 1e-12)
    away = theta - prior.mean
    fit = w @ (s * np.log(p) + (1 - s) * np.log1p(-p))
    return -fit + 0.5 * away @ np.linalg.solve(prior.covariance, away)


@pytest.mark.parametrize("n", [1, 3, 8, 40])
@pytest.mark.parametrize("graded", [False, True])
def test_map_is_the_optimum_and_covariance_the_inverse_hessian(n: int, graded: bool) -> None:
    x, c, s, w, prior, _ = case(n, n, 5, False, graded)
    found = fit_ability(x, c, s, w, prior)
    best = minimize(negative, prior.mean, (x, c, s, w, prior, None), method="BFGS", tol=1e-10)
    np.testing.assert_allclose(found.mean, best.x, atol=2e-5)
    p = 1 / (1 + np.exp(-(x @ found.mean + c)))
    hessian = np.linalg.inv(prior.covariance) + (x * (w * p * (1 - p))[:, None]).T @ x
    np.testing.assert_allclose(found.covariance, np.linalg.inv(hessian), atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_with_a_floor_the_optimum_is_stationary(seed: int) -> None:
    args = case(seed, 60, 3, True)
    found = fit_ability(*args)
    best = minimize(negative, found.mean, args, method="BFGS", tol=1e-10)
    assert negative(found.mean, *args) <= best.fun + 1e-6


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 11), st.booleans())
def test_dual_equals_primal(seed: int, n: int, floor: bool) -> None:
    x, c, s, w, prior, f = case(seed, n, 12, floor)
    dual = fit_ability(x, c, s, w, prior, f)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posterior, "_Dual", posterior._Primal)
        primal = fit_ability(x, c, s, w, prior, f)
    if f is None:
        np.testing.assert_allclose(dual.mean, primal.mean, atol=1e-4)
        np.testing.assert_allclose(dual.covariance, primal.covariance, atol=1e-4)
    assert negative(dual.mean, x, c, s, w, prior, f) == pytest.approx(
        negative(primal.mean, x, c, s, w, prior, f), abs=1e-5
    )


def test_all_right_all_wrong_none_and_extreme_items_are_finite() -> None:
    x, c, _, w, prior, _ = case(0, 40, 5, False)
    for s in (np.ones(40), np.zeros(40)):
        found = fit_ability(x, c + 30, s, w, prior)
        assert np.isfinite(found.mean).all()
        assert np.linalg.eigvalsh(found.covariance).min() > 0
    nothing = fit_ability(x[:0], c[:0], w[:0], w[:0], prior)
    assert nothing is prior


def test_trials_count_as_so_many_answers() -> None:
    x, c, s, _, prior, _ = case(3, 12, 3, False)
    w = np.arange(1, 13).astype(float)
    once = fit_ability(x, c, s, w, prior)
    many = np.repeat(np.arange(12), w.astype(int))
    again = fit_ability(x[many], c[many], s[many], np.ones(len(many)), prior)
    np.testing.assert_allclose(once.mean, again.mean, atol=1e-6)
    np.testing.assert_allclose(once.covariance, again.covariance, atol=1e-8)


def test_population_by_hand() -> None:
    space = make_space(d=3, m=9)
    g = population(space, 2.0, 0.25)
    c = np.cov(space.theta.T)
    expected = 2.0 * (0.75 * c + 0.25 * np.trace(c) / 3 * np.eye(3))
    np.testing.assert_allclose(g.covariance, expected)
    np.testing.assert_allclose(g.mean, space.theta.mean(axis=0))
    out = np.arange(9) == 4
    np.testing.assert_allclose(population(space, 1, 1, out).mean, space.theta[~out].mean(axis=0))


def test_blocks_have_their_own_scale() -> None:
    from dataclasses import replace

    space = replace(make_space(d=3, m=9), blocks=(2, 1))
    c = np.diag(np.cov(space.theta.T))
    g = population(space, 1.0, 1.0)
    expected = np.diag([c[:2].mean(), c[:2].mean(), c[2]])
    np.testing.assert_allclose(g.covariance, expected, atol=1e-12)

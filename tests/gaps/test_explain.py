"""Sparse explanation of numbers of items by their concepts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lens_cases import make_data
from sklearn.linear_model import Lasso
from tests.space.space_cases import planted_space

from thetascope.errors import InputError
from thetascope.gaps import explain as room
from thetascope.gaps.explain import explain, explain_space, log_activations, unpenalised
from thetascope.space.fitted import unit


def _items(seed: int = 0, n: int = 500, c: int = 40):
    rng = np.random.default_rng(seed)
    activations = rng.lognormal(size=(n, c)) * (rng.random((n, c)) < 0.2)
    code = np.sort(rng.integers(0, 2, n))
    tokens = rng.integers(10, 300, n)
    return make_data(np.zeros((n, 1)), activations, code, tokens, np.arange(n) // 2), rng


def test_planted_concepts_are_found_and_the_gain_is_theirs() -> None:
    data, rng = _items()
    x = np.log1p(data.activations.toarray())
    x = (x - x.mean(0)) / x.std(0)
    told = 1.0 * x[:, 3] - 0.8 * x[:, 17]
    y = 2.0 * data.benchmark + 0.5 * np.log(data.n_tokens) + told + rng.normal(size=data.n_items)
    found = explain(y, data, "difficulty")
    assert {c.concept for c in found.coefficients[:2]} == {3, 17}
    assert found.coefficients[0].concept == 3
    assert found.coefficients[0].weight > 0 > found.coefficients[1].weight
    assert found.coefficients[0].folds == 5
    share = told.var() / y.var()
    assert found.gain.value == pytest.approx(share, abs=0.08)
    assert found.gain.low > 0
    assert found.full.value - found.base.value == pytest.approx(found.gain.value)


def test_nothing_to_find_gains_nothing() -> None:
    data, rng = _items(1)
    y = 2.0 * data.benchmark + rng.normal(size=data.n_items)
    found = explain(y, data, "difficulty")
    assert found.base.value > 0.3
    assert abs(found.gain.value) < 0.03
    assert found.gain.low < 0.01


def test_the_path_is_the_lasso_with_dummies_and_length_free() -> None:
    """Against scikit-learn's Lasso on data put orthogonal to z by explicit projection."""
    data, rng = _items(2, n=200, c=12)
    y = rng.normal(size=200) + data.benchmark
    x, z = log_activations(data.activations, np.arange(12)), unpenalised(data)
    rows = np.arange(150)
    fit = room._path(x, z, y, rows, np.array([1.0, 0.3])).last()
    dense = x.toarray()[rows]
    dense = (dense - dense.mean(0)) / dense.std(0)
    m = np.eye(150) - z[rows] @ np.linalg.pinv(z[rows])
    alpha = 0.3 * np.abs((m @ dense).T @ (m @ y[rows])).max() / 150
    peer = Lasso(alpha, fit_intercept=False, tol=1e-10, max_iter=100_000)
    peer.fit(m @ dense, m @ y[rows])
    assert fit.weight[:, 0] == pytest.approx(peer.coef_, abs=2e-3)
    rest = y[rows] - dense @ fit.weight[:, 0]
    assert fit.beside[:, 0] == pytest.approx(
        np.linalg.lstsq(z[rows], rest, rcond=None)[0], abs=1e-8
    )


def test_a_benchmark_that_is_not_in_training_is_no_trouble() -> None:
    data, rng = _items(7, n=200, c=12)
    y = rng.normal(size=200)
    x, z = log_activations(data.activations, np.arange(12)), unpenalised(data)
    only = np.flatnonzero(data.benchmark == 0)
    fit = room._path(x, z, y, only, np.array([1.0, 0.1])).last()
    plain = z[:, [0, 2]]  # without the dummy that is 0 on all of these
    other = room._path(x, plain, y, only, np.array([1.0, 0.1])).last()
    assert fit.weight == pytest.approx(other.weight, abs=1e-9)


def test_screening_keeps_the_largest_partial_correlations(monkeypatch: pytest.MonkeyPatch) -> None:
    data, rng = _items(3)
    y = rng.normal(size=data.n_items)
    x, z = log_activations(data.activations, np.arange(40)), unpenalised(data)
    monkeypatch.setattr(room, "SCREENED", 6)
    kept = room._screen(x, z, y, np.arange(300))
    m = np.eye(300) - z[:300] @ np.linalg.pinv(z[:300])
    a, b = m @ x.toarray()[:300], m @ y[:300]
    rho = np.abs(a.T @ b) / np.linalg.norm(a, axis=0)
    assert set(kept.tolist()) == set(np.argsort(-rho)[:6].tolist())


def test_the_held_out_fold_decides_nothing() -> None:
    """Answers of one outer fold change: what is predicted for that fold by z and x does not."""
    data, rng = _items(4)
    y = rng.normal(size=data.n_items) + np.log1p(data.activations.toarray()[:, 0])
    folds = room.partition(data.group, data.benchmark, n_folds=room.OUTER, seed=0)
    train, test = np.flatnonzero(folds != 2), np.flatnonzero(folds == 2)
    other = y.copy()
    other[test] = rng.normal(size=len(test)) * 9
    x, z = log_activations(data.activations, np.arange(40)), unpenalised(data)
    a, b = (
        room._choose(x, z, v, data.group, data.benchmark, train, 0).predict(x, z, test)
        for v in (y, other)
    )
    assert (a == b).all()


def test_rare_concepts_are_not_offered_and_one_length_is_no_covariate() -> None:
    data, rng = _items(5, n=120, c=8)
    activations = data.activations.toarray()
    activations[9:, 2] = 0  # active on nine items at most
    thin = make_data(np.zeros((120, 1)), activations, data.benchmark)
    assert explain(rng.normal(size=120), thin, "y").n_concepts == 7
    assert unpenalised(thin).shape == (120, 2)
    assert unpenalised(replace(thin, n_tokens=data.n_tokens)).shape == (120, 3)


def test_a_space_is_explained_by_its_topics() -> None:
    space, _, topic = planted_space(n=400, m=6)
    rng = np.random.default_rng(0)
    activations = (topic[:, None] == np.arange(4)) * rng.lognormal(size=(400, 4))
    data = make_data(np.zeros((400, 2)), activations)
    centres = unit(np.stack([space.topic[topic == t].mean(axis=0) for t in range(4)]))
    found = explain_space(space, data, centres)
    assert [e.target for e in found] == ["difficulty", *(f"cluster {k}" for k in range(4))]
    for k, e in enumerate(found[1:]):
        assert e.gain.value > 0.5
        assert e.coefficients[0].concept == k
    assert found[0].gain.value < 0.1  # norms were drawn without regard to topics
    assert found[1].to_json()["coefficients"][0]["label"] == "concept 0"


def test_bad_input() -> None:
    data, _ = _items(6, n=40)
    with pytest.raises(InputError, match="40 items are too few"):
        explain(np.arange(40.0), data, "difficulty")
    data, _ = _items(6, n=60)
    with pytest.raises(InputError, match="is the same on all items"):
        explain(np.ones(60), data, "difficulty")

"""Moments against dense transcriptions, complete enumeration, and by hand."""

from itertools import permutations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from tests.gaps.gap_cases import dense_moments, some_data

from thetascope.gaps.moments import covariate_basis, moments


@pytest.mark.parametrize("length", [False, True])
@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_sparse_equals_dense(length, graded, holes):
    data = some_data(graded=graded, holes=holes, seed=3)
    for b in range(2):
        found = moments(data, b, length=length)
        for m in range(3):
            assert found.n[m] == dense_moments(data, b, m, 0, length)["n"]
            for c in range(5):
                there = dense_moments(data, b, m, c, length)
                for name in ("mass", "square", "n_active", "weighted", "t", "v", "g"):
                    here = getattr(found, name)[c, m]
                    assert here == pytest.approx(there[name], rel=1e-10, abs=1e-10), name


def test_by_hand():
    """Three items: a = 1, 0, 2; s = 1, 0, 0. sbar = 1/3."""
    data = some_data(n=(3,), c=1, m=1, holes=0)
    data = data.with_scores(np.array([[1.0], [0.0], [0.0]]))
    object.__setattr__(data, "activations", csr_matrix([[1.0], [0.0], [2.0]]))
    found = moments(data, 0, length=False)
    assert found.mass[0, 0] == 3
    assert found.n_eff[0, 0] == pytest.approx(9 / 5)
    assert found.chi[0, 0] == pytest.approx(1 / 3)
    assert found.t[0, 0] == pytest.approx(0)  # 1 * 2/3 + 2 * (-1/3)
    # sum (a - 1)^2 = 2, sum (s - 1/3)^2 = 2/3, over n - 1 = 2
    assert found.v[0, 0] == pytest.approx(2 / 3)
    # sum (a - 1)^3 = 0
    assert found.g[0, 0] == pytest.approx(0)


def test_moments_are_those_of_all_permutations():
    """Mean 0, variance V and third moment G over all 720 orders of six scores."""
    data = some_data(n=(6,), c=3, m=1, holes=0, graded=True, seed=5)
    found = moments(data, 0, length=False)
    a, s = data.activations.toarray(), data.scores[:, 0]
    all_t = np.array([a.T @ (np.array(p) - s.mean()) for p in permutations(s)])
    assert all_t.mean(axis=0) == pytest.approx(0, abs=1e-10)
    assert (all_t**2).mean(axis=0)[:2] == pytest.approx(found.v[:2, 0])
    assert (all_t**3).mean(axis=0)[:2] == pytest.approx(found.g[:2, 0])


def test_third_moment_with_length_is_that_of_permuted_residuals():
    data = some_data(n=(6,), c=3, m=1, holes=0, graded=True, seed=7)
    found = moments(data, 0)
    a, s = data.activations.toarray(), data.scores[:, 0]
    q = covariate_basis(data.n_tokens, True)
    e = s - q @ (q.T @ s)
    ma = a - q @ (q.T @ a)
    all_t = np.array([ma.T @ np.array(p) for p in permutations(e)])
    assert (all_t**3).mean(axis=0)[:2] == pytest.approx(found.g[:2, 0], abs=1e-12)
    n, p = 6, q.shape[1]
    assert (all_t**2).mean(axis=0)[:2] == pytest.approx(found.v[:2, 0] * (n - p) / (n - 1))


def test_nothing_to_test_is_zero_not_noise():
    """A model that is always right, and one that answered two items."""
    data = some_data(holes=0, m=2)
    scores = data.scores.copy()
    scores[:, 0] = 1.0
    scores[2:, 1] = np.nan
    for length in (False, True):
        found = moments(data.with_scores(scores), 0, length=length)
        assert not found.v.any()
        assert not found.t.any()
        assert np.isfinite(found.g).all()


def test_equal_lengths_are_no_covariate():
    basis = covariate_basis(np.full(8, 20), True)
    assert basis.shape == (8, 1)
    two = covariate_basis(np.array([5, 9] * 4), True)
    assert two.shape == (8, 2)
    assert two.T @ two == pytest.approx(np.eye(2))

"""The rivals against their formulas, written out."""

from __future__ import annotations

import numpy as np
import pytest
from predictor_cases import halves, make_sample
from sklearn.linear_model import Ridge as SkRidge

from thetascope.predictors import make_predictor
from thetascope.predictors.knn import KNN, WeightedKNN
from thetascope.predictors.means import benchmark_means, model_means, subject_means
from thetascope.predictors.ridge import Ridge


def test_means_by_hand() -> None:
    sample = make_sample(density=0.6)
    scores = sample.responses.filled().astype(float)
    seen = sample.responses.observed
    overall = scores[seen].mean()
    own = np.array([scores[seen[:, i], i].mean() for i in range(7)])
    np.testing.assert_allclose(model_means(sample), own, rtol=1e-12)
    table = benchmark_means(sample)
    for b in range(3):
        rows = sample.items.benchmark == b
        column = scores[rows][seen[rows]].mean()
        for i in range(7):
            n = seen[rows, i].sum()
            prior = np.clip(own[i] + column - overall, 0.02, 0.98)
            total = scores[rows, i][seen[rows, i]].sum()
            assert table[i, b] == pytest.approx((total + 10 * prior) / (n + 10), rel=1e-9)


def test_subject_means_by_hand() -> None:
    sample = make_sample(density=0.6)
    scores = sample.responses.filled().astype(float)
    seen = sample.responses.observed
    parents, table = benchmark_means(sample), subject_means(sample)
    for s in range(6):
        rows, parent = sample.items.subject == s, sample.items.benchmark == s // 2
        shift = scores[rows][seen[rows]].mean() - scores[parent][seen[parent]].mean()
        for i in range(7):
            prior = np.clip(parents[i, s // 2] + shift, 0.02, 0.98)
            total, n = scores[rows, i][seen[rows, i]].sum(), seen[rows, i].sum()
            assert table[i, s] == pytest.approx((total + 10 * prior) / (n + 10), rel=1e-9)


@pytest.mark.parametrize(("density", "beta"), [(1.0, 0.0), (0.5, 0.0), (0.5, 16.0), (0.06, 8.0)])
def test_knn_equals_its_formula(density: float, beta: float) -> None:
    """Written out for every pair; at 6 % density most neighbours were not answered."""
    train, held = halves(make_sample(n=400, density=density, graded=True))
    knn = WeightedKNN(k=20)
    knn.BETAS = (beta,)  # type: ignore[misc]
    p = knn.fit(train, None).predict_proba(held.items)
    x, y = train.items.vectors, held.items.vectors
    assert x is not None
    assert y is not None
    cosine = (y @ x.T) / np.linalg.norm(y, axis=1)[:, None] / np.linalg.norm(x, axis=1)
    scores, seen = train.responses.filled(), train.responses.observed
    for j in range(0, len(y), 7):
        for i in range(7):
            near = [r for r in np.argsort(-cosine[j], kind="stable") if seen[r, i]][:20]
            w = np.exp(beta * cosine[j, near])
            mean = (w * scores[near, i]).sum() / w.sum()
            own = scores[seen[:, i], i].mean()
            assert p[j, i] == pytest.approx((20 * mean + own) / 21, abs=2e-6)


def test_knn_without_holes_is_the_search_with_order() -> None:
    """Also where near-duplicates tie at the edge of the k nearest."""
    sample = make_sample(n=120, density=1.0)
    assert sample.items.vectors is not None
    sample.items.vectors[1:80:2] = sample.items.vectors[:80:2]  # every other item twice
    fit = WeightedKNN(k=13).fit(sample)
    fit.beta_ = 8.0
    quick = fit.predict_proba(sample.items)
    slow = fit._grid(sample.items, (13,), (8.0,))[8.0, 13]
    assert np.abs(quick - slow).max() < 1e-6


def test_knn_chooses_on_validation_data() -> None:
    train, held = halves(make_sample(n=800))
    chosen = make_predictor("knn_weighted").fit(train, held)
    assert isinstance(chosen, KNN)
    tried = chosen._grid(held.items, (20, 40, 80, 131, 200, 300), (0.0, 8.0, 16.0, 24.0))
    from thetascope.predictors.base import validation_loss

    losses = {key: validation_loss(p, held.responses) for key, p in tried.items()}
    assert (chosen.beta_, chosen.k_) == min(losses, key=lambda key: losses[key])
    plain = make_predictor("knn").fit(train, held)
    assert plain.choices["beta"] == 0.0


def test_ridge_equals_scikit_learn() -> None:
    train, held = halves(make_sample(density=0.7, graded=True))
    p = Ridge(penalty=3.0).fit(train, None).predict_proba(held.items)
    for i in range(7):
        rows = train.responses.observed[:, i]
        model = SkRidge(alpha=3.0).fit(
            train.items.vectors[rows].astype(float),  # type: ignore[index]
            train.responses.filled()[rows, i].astype(float),
        )
        expected = np.clip(model.predict(held.items.vectors.astype(float)), 0.01, 0.99)  # type: ignore[union-attr]
        np.testing.assert_allclose(p[:, i], expected, atol=1e-8)


def test_embedllm_equals_its_formula() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    train, held = halves(make_sample())
    fit = make_predictor("embedllm", dim=5, max_epochs=3).fit(train, held)
    w = fit.weights_  # type: ignore[attr-defined]
    p = fit.predict_proba(held.items)
    for j in (0, 7):
        text = w["projection.weight"] @ held.items.vectors[j] + w["projection.bias"]  # type: ignore[index]
        for i in range(7):
            logit = w["classifier.weight"] @ (text * w["models"][i]) + w["classifier.bias"][0]
            assert p[j, i] == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-6)

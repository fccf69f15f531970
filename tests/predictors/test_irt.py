"""1PL, 2PL and MIRT: recovery, extremes, errors, and the formulas against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from predictor_cases import halves, make_sample
from scipy.optimize import minimize
from scipy.special import expit

from thetascope.errors import InputError
from thetascope.evaluation.splits import Cells
from thetascope.predictors import Sample, irt_fit, make_predictor, mirt_fit
from thetascope.predictors.base import validation_loss
from thetascope.predictors.irt import MIRT, OnePL, TextMIRT, TwoPL, average_chance
from thetascope.predictors.irt_fit import Prior, Responses, fit_unidimensional, response
from thetascope.predictors.mirt_fit import fit_mirt
from thetascope.study import ResponseMatrix

Array = NDArray[np.float64]


def simulate(
    n: int, m: int, *, share: float = 1.0, chance: float = 0.0, seed: int = 0, sd_log_a: float = 0.5
) -> tuple[Array, Array, Array, Responses]:
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=m)
    theta = (theta - theta.mean()) / theta.std()
    a, b = np.exp(sd_log_a * rng.normal(size=n)), 1.2 * rng.normal(size=n)
    p = chance + (1 - chance) * expit(a[:, None] * theta + b[:, None])
    score = (rng.random((n, m)) < p).astype(np.float32)
    weight = (rng.random((n, m)) < share).astype(np.float32)
    data = Responses(score * weight, weight, np.zeros(n, np.int64), np.full(n, chance))
    return theta, a, b, data


@pytest.mark.parametrize(("n", "m", "share"), [(2000, 29, 1.0), (2000, 29, 0.33), (400, 112, 1.0)])
def test_recovers_what_made_the_data(n: int, m: int, share: float) -> None:
    theta, a, b, data = simulate(n, m, share=share)
    fit = fit_unidimensional(data, Prior())
    assert fit.converged
    assert np.corrcoef(fit.theta, theta)[0, 1] > 0.99
    assert abs(np.mean(fit.alpha - np.log(a))) < 0.1
    assert abs(np.mean(fit.b - b)) < 0.08
    for value, truth, variance in (
        (fit.alpha, np.log(a), fit.covariance[:, 0, 0]),
        (fit.b, b, fit.covariance[:, 1, 1]),
    ):
        covered = np.mean(np.abs(value - truth) < 1.96 * np.sqrt(variance))
        assert 0.9 < covered < 0.98, covered
    assert np.mean(np.abs(fit.theta - theta) < 2.58 * np.sqrt(fit.theta_variance)) > 0.9


def test_many_models_on_few_items_leave_the_scale_unbiased() -> None:
    """Joint maximum likelihood overstates discriminations here by some 10 %."""
    _, a, b, data = simulate(30, 2000, seed=2)
    fit = fit_unidimensional(data, Prior())
    assert abs(np.mean(fit.alpha - np.log(a))) < 0.08
    assert np.corrcoef(fit.alpha, np.log(a))[0, 1] > 0.97
    assert np.sqrt(np.mean((fit.b - b) ** 2)) < 0.12


def test_a_known_chance_level_is_used() -> None:
    _, _, b, data = simulate(400, 200, chance=0.25, seed=1)
    with_floor = fit_unidimensional(data, Prior())
    without = fit_unidimensional(data._replace(chance=np.zeros(400)), Prior())
    error = np.sqrt(np.mean((with_floor.b - b) ** 2))
    assert error < 0.5
    assert error < np.sqrt(np.mean((without.b - b) ** 2)) - 0.1


def test_item_parameters_are_the_posterior_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the models' posterior, (log a, b) maximise expected log-likelihood plus log-prior."""
    _, _, _, data = simulate(40, 60)
    monkeypatch.setattr(irt_fit, "_joint_errors", lambda *_: None)
    fit = fit_unidimensional(data, Prior(), tolerance=1e-9)
    sd = np.sqrt(fit.theta_variance)
    nodes = ((-np.sqrt(3.0), 1 / 6), (0.0, 2 / 3), (np.sqrt(3.0), 1 / 6))

    def loss(v: Array, j: int) -> float:
        total = 0.5 * ((v[0] - fit.mean_alpha) / 0.5) ** 2
        total += 0.5 * ((v[1] - fit.mean_b[0]) / fit.sd_b[0]) ** 2
        for node, share in nodes:
            z = np.exp(v[0]) * (fit.theta + node * sd) + v[1]
            total += share * float(np.sum(np.logaddexp(0, z) - data.score[j] * z))
        return total

    for j in (0, 7, 23):
        best = minimize(loss, np.array([fit.alpha[j], fit.b[j]]), args=(j,), tol=1e-12).x
        np.testing.assert_allclose([fit.alpha[j], fit.b[j]], best, atol=0.01)


def test_the_score_function_and_the_information_are_derivatives() -> None:
    logits, chance, step = np.linspace(-4, 4, 9), np.full(9, 0.2), 1e-6
    p, factor, info = response(logits, chance)
    slope = (response(logits + step, chance)[0] - response(logits - step, chance)[0]) / (2 * step)
    np.testing.assert_allclose(factor, slope / (p * (1 - p)), rtol=1e-6)
    np.testing.assert_allclose(info, slope**2 / (p * (1 - p)), rtol=1e-6)


def test_all_right_and_all_wrong_stay_finite_and_in_order() -> None:
    _, _, _, data = simulate(300, 12)
    score = data.score.copy()
    score[0], score[1] = 1, 0
    score[:, 3], score[:, 5] = 1, 0
    fit = fit_unidimensional(data._replace(score=score), Prior())
    assert np.isfinite(fit.theta).all()
    assert np.argmax(fit.theta) == 3
    assert np.argmin(fit.theta) == 5
    assert fit.b[0] > fit.b[2:].max() - 3
    assert fit.b[1] < 0 < fit.b[0]
    assert np.isfinite(fit.covariance).all()


def test_the_sign_is_that_of_the_mean_score() -> None:
    theta, _, _, data = simulate(500, 20)
    for prior in (Prior(), Prior(False, 1.0), Prior(True, 0.0)):
        assert np.corrcoef(fit_unidimensional(data, prior).theta, theta)[0, 1] > 0.95


def test_negative_discriminations_are_found_where_they_are_allowed() -> None:
    theta, _, b, data = simulate(500, 60, sd_log_a=0.2)
    rng = np.random.default_rng(5)
    score = data.score.copy()
    score[:40] = rng.random((40, 60)) < expit(-1.5 * theta + b[:40, None])
    fit = fit_unidimensional(data._replace(score=score), Prior(False, 1.0))
    se = np.sqrt(fit.covariance[:, 0, 0])
    sure = fit.a + 1.645 * se < 0
    assert sure[:40].mean() > 0.7
    assert sure[40:].mean() < 0.02


def test_one_pl_has_one_discrimination() -> None:
    _, _, _, data = simulate(300, 30)
    fit = fit_unidimensional(data, Prior(True, 0.0))
    assert np.ptp(fit.alpha) < 1e-12
    assert (fit.covariance[:, 0, :] == 0).all()


def test_mirt_finds_two_dimensions() -> None:
    rng = np.random.default_rng(0)
    theta, a = rng.normal(size=(40, 2)), rng.normal(size=(1500, 2)) * [1.5, 1.2]
    logits = a @ theta.T + rng.normal(size=(1500, 1))
    score = (rng.random(logits.shape) < expit(logits)).astype(np.float32)
    data = Responses(score, np.ones_like(score), np.zeros(1500, np.int64), np.zeros(1500))
    fit = fit_mirt(data, 4)
    strength = np.sqrt(np.mean(fit.z[:, :4] ** 2, axis=0) * np.mean(fit.theta**2, axis=0))
    assert (np.diff(np.mean(fit.z[:, :4] ** 2, axis=0)) <= 1e-9).all()  # principal axes first
    assert strength[1] > 4 * strength[2]  # two dimensions and no more
    estimated = fit.z[:, :4] @ fit.theta.T + fit.z[:, 4:]
    assert np.corrcoef(estimated.ravel(), logits.ravel())[0, 1] > 0.92


def test_rotating_to_principal_axes_changes_no_logit() -> None:
    train, _ = halves(make_sample(n=300))
    data = Responses(
        train.responses.filled(),
        train.responses.observed.astype(np.float32),
        train.items.benchmark,
        np.zeros(len(train.items)),
    )
    fit = fit_mirt(data, 3, train.items.vectors)
    before = fit.z[:, :3] @ fit.theta.T + fit.z[:, 3:]
    text = fit.text
    assert text is not None
    assert train.items.vectors is not None
    shift = text.predict(train.items.vectors, text.centre[train.items.benchmark])[0]
    np.testing.assert_allclose(fit.mean[train.items.benchmark] + shift, fit.item_mean, atol=1e-4)
    mirt_fit._to_principal_axes(data, fit)
    after = fit.z[:, :3] @ fit.theta.T + fit.z[:, 3:]
    np.testing.assert_allclose(after, before, atol=1e-9)


def test_texts_help_where_nobody_answered() -> None:
    train, held = halves(make_sample(n=900, seed=3))
    loss = {
        p.NAME: validation_loss(p.fit(train, held).predict_proba(held.items), held.responses)
        for p in (MIRT(), TextMIRT())
    }
    assert loss["mirt_text"] < loss["mirt"] - 0.02


def test_responses_help_where_there_are_some() -> None:
    sample = make_sample(n=500, m=20, density=1.0)
    mask = np.random.default_rng(1).random((500, 20)) < 0.8
    train = sample.take(Cells(np.arange(500), mask))
    held = sample.take(Cells(np.arange(500), ~mask))
    mean = make_predictor("model_mean").fit(train).predict_proba(sample.items)
    for predictor in (OnePL(), TwoPL(), MIRT(), TextMIRT()):
        p = predictor.fit(train, None).predict_proba(sample.items)
        assert validation_loss(p, held.responses) < validation_loss(mean, held.responses) - 0.02


@pytest.mark.parametrize("predictor", [OnePL(), TwoPL(), MIRT(), TextMIRT()], ids=lambda p: p.NAME)
def test_degenerate_samples_have_finite_answers(predictor: MIRT) -> None:
    sample = make_sample(n=40, density=1.0)
    one_model = Sample(sample.items, sample.responses.__class__(
        sample.responses.item_ids, ("only",), sample.responses.scores[:, :1]))  # fmt: skip
    constant = Sample(sample.items, sample.responses.__class__(
        sample.responses.item_ids, sample.responses.models,
        np.ones_like(sample.responses.scores)))  # fmt: skip
    twice = Sample(sample.items, sample.responses.__class__(
        sample.responses.item_ids, ("a", "b"),
        sample.responses.scores[:, [0, 0]]))  # fmt: skip
    one_item = sample.take(Cells(np.array([3])))
    for case in (one_model, constant, one_item, twice):
        p = predictor.fit(case, None).predict_proba(sample.items)
        assert np.isfinite(p).all()
    p = predictor.fit(twice, None).predict_proba(sample.items)
    np.testing.assert_allclose(p[:, 0], p[:, 1], atol=1e-6)
    p = predictor.fit(constant, None).predict_proba(sample.items)
    assert p.min() > 0.7


def test_an_average_over_a_normal_logit() -> None:
    rng = np.random.default_rng(0)
    draws = expit(0.7 + 1.5 * rng.normal(size=2_000_000)).mean()
    found = average_chance(np.array([0.7]), np.array([1.5**2]))
    np.testing.assert_allclose(found, draws, atol=1e-3)


def test_four_responses_an_item_are_enough_to_rank_models() -> None:
    theta, _, _, data = simulate(3000, 29, share=4 / 29, seed=4)
    fit = fit_unidimensional(data, Prior())
    assert np.corrcoef(fit.theta, theta)[0, 1] > 0.98
    assert np.abs(fit.b).max() < 8


@pytest.mark.parametrize("name", ["jeirt", "jeirt_context", "irt_1pl", "irt_2pl", "mirt_text"])
def test_a_logit_space_has_the_predictors_logits(name: str) -> None:
    """sigmoid(x_j . theta_i + c_j) is the prediction, where nothing is averaged over."""
    settings: dict[str, int] = {}
    if name.startswith("jeirt"):
        pytest.importorskip("torch", reason="torch is not installed")
        settings = {"max_epochs": 3, "dim": 8}
    train, held = halves(make_sample())
    predictor = make_predictor(name, **settings).fit(train, held)
    items = held.items if name.startswith("jeirt") else train.items
    if not name.startswith("jeirt"):
        predictor.width_ = 0.0  # type: ignore[attr-defined]
    space = predictor.logit_space(items)  # type: ignore[attr-defined]
    assert space.models == predictor.models_  # type: ignore[attr-defined]
    p = expit(space.logits(space.theta))
    np.testing.assert_allclose(p, predictor.predict_proba(items), atol=2e-5)


@pytest.mark.parametrize("model", [OnePL, TwoPL])
def test_the_predictor_has_the_items_chance_level_as_its_floor(model: type[TwoPL]) -> None:
    """Items that hardly anybody knows are answered at their chance level."""
    sample = make_sample(n=400, m=40, density=1.0, benchmarks=1)
    rng = np.random.default_rng(0)
    levels = np.where(np.arange(400) % 2, 0.25, 0.0)
    p = levels[:, None] + (1 - levels[:, None]) * expit(rng.normal(size=40) - 2.5)
    responses = ResponseMatrix(
        sample.items.ids, sample.responses.models, (rng.random((400, 40)) < p).astype(np.uint8)
    )
    made = Sample(replace(sample.items, chance=levels), responses)
    fit = model(chance=True).fit(made, None)
    found = fit.predict_proba(made.items)
    assert (found >= levels[:, None]).all()
    space = fit.logit_space(made.items)
    assert space.chance is not None
    assert (space.chance == levels).all()
    assert np.abs(found - p).mean() < 0.08
    with pytest.raises(InputError, match="needs a column 'chance' in the items table"):
        model(chance=True).fit(sample, None)

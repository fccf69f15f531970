"""Onboarding, score intervals, degenerate answers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from decision_cases import draw, make_bank, make_space

from thetascope.decisions import ItemBank, onboard
from thetascope.decisions.posterior import Answers, Gaussian
from thetascope.decisions.prior import learn_prior
from thetascope.decisions.scores import score_estimate
from thetascope.errors import InputError
from thetascope.study import ResponseMatrix


def test_score_interval_matches_monte_carlo() -> None:
    """Draw theta from its posterior and the unseen answers from theta: same mean and sd."""
    space = make_space(n=400, benchmarks=1)
    rng = np.random.default_rng(0)
    posterior = Gaussian(rng.normal(size=3) / 2, 0.01 * np.eye(3) + 0.005)
    rows = rng.permutation(400)[:60]
    answers = Answers(rows, (rng.random(60) < 0.7).astype(float), np.ones(60))
    found = score_estimate(space, posterior, answers, 0)
    rest = np.setdiff1d(np.arange(400), rows)
    theta = rng.multivariate_normal(posterior.mean, posterior.covariance, 40_000)
    p = 1 / (1 + np.exp(-(theta @ space.design[rest].T + space.intercept[rest])))
    totals = (answers.score.sum() + (rng.random(p.shape) < p).sum(axis=1)) / 400
    assert found.value == pytest.approx(totals.mean(), abs=2e-3)
    assert found.sd == pytest.approx(totals.std(), rel=0.03)
    low, high = np.quantile(totals, [0.05, 0.95])
    assert found.low == pytest.approx(low, abs=3e-3)
    assert found.high == pytest.approx(high, abs=3e-3)


def test_the_misfit_adds_in_quadrature_and_fades_with_the_rest() -> None:
    bank, wide = make_bank(), make_bank(misfit=0.03)
    half = dict.fromkeys(bank.space.ids[::2], 1.0)
    a, b = (onboard(x, half).scores[0] for x in (bank, wide))
    rest = 1 - a.n_answered / a.n_items
    assert b.sd == pytest.approx(np.hypot(a.sd, 0.03 * rest))
    everything = onboard(wide, dict.fromkeys(bank.space.ids, 1.0)).scores[0]
    assert (everything.value, everything.sd, everything.low, everything.high) == (1, 0, 1, 1)


def test_a_known_model_is_found_again_and_nobody_moves() -> None:
    bank = make_bank(make_space(n=3000))
    before = bank.space.theta.copy()
    answers = bank.known_answers(4)
    given = {bank.space.ids[r]: s for r, s in zip(answers.rows, answers.score, strict=True)}
    found = onboard(bank, given, model="again")
    assert np.abs(found.posterior.mean - before[4]).max() < 0.3
    grown = found.space()
    assert grown.models[:-1] == bank.space.models
    assert (grown.theta[:-1] == before).all()
    assert (bank.space.theta == before).all()
    assert grown.design is bank.space.design


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_all_right_and_all_wrong(score: float) -> None:
    bank = make_bank()
    for n in (1, 20, 200):
        found = onboard(bank, dict.fromkeys(bank.space.ids[:n], score))
        assert np.isfinite(found.posterior.mean).all()
        for s in found.scores:
            assert 0 <= s.low <= s.value <= s.high <= 1
    space, prior = bank.space, bank.prior
    before = 1 / (1 + np.exp(-(space.design[0] @ prior.mean + space.intercept[0])))
    after = onboard(bank, {space.ids[0]: score}).predict_proba()[0]
    assert (after - before) * (score - 0.5) > 0


def test_unknown_items_are_counted_and_listed() -> None:
    bank = make_bank()
    found = onboard(bank, {bank.space.ids[0]: 1.0, "b0:new": 0.0, "c:1": 1.0})
    assert found.given.unknown == ("b0:new", "c:1")
    assert found.to_json()["n_unknown_items"] == 2
    with pytest.raises(InputError, match="none of the 1 answered items is in the study"):
        onboard(bank, {"zz:1": 1.0})
    with pytest.raises(InputError, match="there are no answers"):
        onboard(bank, {})


@pytest.mark.parametrize("bad", [float("nan"), -0.1, 1.5])
def test_a_bad_score_is_one_clear_error(bad: float) -> None:
    bank = make_bank()
    with pytest.raises(InputError, match="expected a score from 0 to 1, found"):
        onboard(bank, {bank.space.ids[3]: bad})


def test_repeated_items_and_several_models_are_refused() -> None:
    bank = make_bank()
    item = bank.space.ids[0]
    twice = pl.DataFrame({"item_id": [item, item], "score": [1.0, 0.0]})
    with pytest.raises(InputError, match="1 items were answered more than once"):
        onboard(bank, twice)
    two = pl.DataFrame({"item_id": [item, item], "score": [1.0, 0.0], "model": ["a", "b"]})
    with pytest.raises(InputError, match="the responses hold 2 models: a, b"):
        onboard(bank, two)
    assert onboard(bank, two, model="b").given.model == "b"
    with pytest.raises(InputError, match="no column 'score'"):
        onboard(bank, pl.DataFrame({"item_id": [item]}))


def test_costs_are_carried_through() -> None:
    bank = make_bank()
    table = pl.DataFrame(
        {"item_id": list(bank.space.ids[:3]), "score": [1.0, 0.0, 1.0], "cost_usd": [0.5, None, 1]}
    )
    given = onboard(bank, table).given
    assert (given.cost_usd, given.n_without_cost) == (1.5, 1)
    assert onboard(bank, {bank.space.ids[0]: 1.0}).given.cost_usd is None


def test_graded_scores_scale_the_covariance_by_the_dispersion() -> None:
    space = make_space(n=600)
    p = 1 / (1 + np.exp(-space.logits(space.theta)))
    rng = np.random.default_rng(0)
    noisy = np.clip(p + 0.1 * rng.normal(size=p.shape), 0, 1).astype(np.float32)
    responses = ResponseMatrix(space.ids, space.models, noisy)
    prior = learn_prior(space, responses)
    assert 0.1 <= prior.dispersion < 0.5
    bank = ItemBank(space, prior, responses, np.zeros(2))
    few = onboard(bank, {space.ids[j]: float(noisy[j, 0]) for j in range(20)})
    assert few.dispersion == prior.dispersion
    many = onboard(bank, {space.ids[j]: float(noisy[j, 0]) for j in range(500)})
    assert many.dispersion == pytest.approx(prior.dispersion, abs=0.15)
    raw = bank.posterior(many.given.answers)
    np.testing.assert_allclose(many.posterior.covariance, raw.covariance * many.dispersion)


def test_the_learnt_prior_prefers_what_predicts() -> None:
    """Models that hardly differ want a tight prior, models that do a wide one."""
    from dataclasses import replace

    space = make_space(n=1500, m=20)
    near = replace(space, theta=space.theta * 0.3)
    loose = learn_prior(space, draw(space))
    assert loose.loss[(loose.kappa, loose.rho)] == min(loose.loss.values())
    assert loose.kappa >= 0.5
    tight = learn_prior(replace(near, theta=near.theta * 3), draw(near))
    assert tight.kappa < 1
    with pytest.raises(InputError, match="a prior needs 3 known models"):
        learn_prior(replace(space, models=("a", "b"), theta=space.theta[:2]), draw(space))


def test_coverage_on_models_of_the_space() -> None:
    """90 % intervals of 120 models drawn from the prior hold in 84 to 96 %."""
    bank = make_bank(make_space(n=800, benchmarks=1, m=40))
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(120):
        theta = rng.multivariate_normal(bank.prior.mean, bank.prior.covariance)
        p = 1 / (1 + np.exp(-(bank.space.design @ theta + bank.space.intercept)))
        s = (rng.random(len(p)) < p).astype(float)
        rows = rng.permutation(len(p))[:40]
        found = onboard(bank, {bank.space.ids[r]: float(s[r]) for r in rows}).scores[0]
        inside += found.low <= s.mean() <= found.high
    assert 0.84 <= inside / 120 <= 0.96

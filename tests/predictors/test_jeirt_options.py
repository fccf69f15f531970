"""JE-IRT's item residual and guessing floor."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from predictor_cases import halves, make_sample, with_weights
from scipy.optimize import minimize
from scipy.special import expit

from thetascope.decisions.build import make_bank
from thetascope.decisions.onboarding import onboard
from thetascope.decisions.posterior import Answers
from thetascope.errors import InputError
from thetascope.evaluation import warm_cells
from thetascope.evaluation.splits import Cells
from thetascope.predictors import JEIRT, ContextJEIRT, PlainJEIRT, Sample
from thetascope.predictors.base import validation_loss
from thetascope.predictors.jeirt_residual import (
    Frozen,
    Residuals,
    choose_tau,
    fit_residuals,
    objective,
    warm_part,
)
from thetascope.study import MISSING, ResponseMatrix


def frozen_case(
    n: int = 12, m: int = 6, d: int = 4, *, floor: bool = False, seed: int = 0
) -> tuple[Frozen, np.ndarray, np.ndarray]:
    """A first stage, scores and weights; item 0 has no response."""
    rng = np.random.default_rng(seed)
    frozen = Frozen(
        rng.normal(size=(n, d)),
        rng.normal(size=(m, d)),
        rng.normal(size=(n, m)) / 2,
        rng.uniform(0, 0.3, (n, m)) if floor else None,
    )
    score = (rng.random((n, m)) < 0.5).astype(float)
    weight = (rng.random((n, m)) < 0.8) * rng.integers(1, 3, (n, m)).astype(float)
    weight[0] = 0
    return frozen, score, weight


def literal_objective(
    delta: np.ndarray, frozen: Frozen, j: int, score: np.ndarray, weight: np.ndarray, tau: float
) -> float:
    """One item's log posterior, one number at a time."""
    q = frozen.q[j] + delta
    r = math.sqrt(sum(x * x for x in q) + 1e-12)
    total = -sum(x * x for x in delta) / (2 * tau**2)
    for i, m in enumerate(frozen.models):
        logit = frozen.base[j, i] + sum(a * b for a, b in zip(q, m, strict=True)) / r - r
        f = 0.0 if frozen.floor is None else frozen.floor[j, i]
        p = f + (1 - f) / (1 + math.exp(-logit))
        s = score[j, i]
        total += weight[j, i] * (s * math.log(p) + (1 - s) * math.log(1 - p))
    return total


@pytest.mark.parametrize("floor", [False, True])
@pytest.mark.parametrize("tau", [0.3, 1.0])
def test_residuals_are_the_maximum_that_a_general_optimiser_finds(tau: float, floor: bool) -> None:
    frozen, score, weight = frozen_case(floor=floor)
    found = fit_residuals(frozen, score, weight, tau)
    values = objective(frozen, found, score, weight, tau)
    for j in range(1, len(found)):
        literal = literal_objective(found[j], frozen, j, score, weight, tau)
        assert values[j] == pytest.approx(literal, abs=1e-8)
        best = minimize(
            lambda x, j=j: -literal_objective(x, frozen, j, score, weight, tau), np.zeros(4)
        )
        nothing = literal_objective(np.zeros(4), frozen, j, score, weight, tau)
        assert values[j] - nothing > 0.95 * (-best.fun - nothing)
        assert values[j] == pytest.approx(-best.fun, abs=0.04 if floor or tau == 1 else 1e-3)


def test_an_item_without_a_response_keeps_zero() -> None:
    frozen, score, weight = frozen_case()
    found = fit_residuals(frozen, score, weight, 1.0)
    assert (found[0] == 0).all()
    assert (np.abs(found[1:]).max(axis=1) > 0).all()
    assert (fit_residuals(frozen, score, weight, 0.0) == 0).all()
    nothing = Residuals(("a", "b"), found[1:3].astype(np.float32), 1.0).of(("z", "b"))
    assert (nothing[0] == 0).all()
    assert (nothing[1] == found[2].astype(np.float32)).all()


def test_residuals_are_finite_where_all_models_are_right_and_at_q_zero() -> None:
    frozen, score, weight = frozen_case()
    frozen.q[3] = 0
    for value in (0.0, 1.0):
        found = fit_residuals(frozen, np.full(score.shape, value), weight, 2.0)
        assert np.isfinite(found).all()
        moved = frozen.chances(found).mean(axis=1) - frozen.chances(0 * found).mean(axis=1)
        assert (moved[4:] * (value - 0.5) > 0).all()


def test_tau_is_chosen_by_held_out_responses() -> None:
    """Items made with a residual of 1 want one, items made without want none."""
    rng = np.random.default_rng(1)
    n, m, d = 800, 24, 3
    base = Frozen(rng.normal(size=(n, d)), rng.normal(size=(m, d)), np.zeros((n, m)))
    for true, low, high in ((1.0, 0.4, 2.0), (0.0, 0.0, 0.2)):
        p = base.chances(true * rng.normal(size=(n, d)))
        score = (rng.random((n, m)) < p).astype(float)
        out = rng.random((n, m)) < 0.2
        tau, losses = choose_tau(base, score, 1.0 * ~out, (score, 1.0 * out))
        assert low <= tau <= high
        assert losses[tau] == min(losses.values())
    assert choose_tau(base, score, np.ones((n, m)), (score, np.zeros((n, m)))) == (0.0, {})


QUICK = {"dim": 8, "max_epochs": 6, "batch_items": 16, "learning_rate": 5e-3}


def residual_sample(n: int = 900) -> Sample:
    """Responses that the text does not explain: an item's difficulty is its own."""
    sample = make_sample(n=n, m=20, density=0.9, seed=5)
    rng = np.random.default_rng(6)
    observed = sample.responses.observed
    p = expit(rng.normal(size=(n, 1)) * 2 + rng.normal(size=20))
    scores = np.where(observed, rng.random((n, 20)) < p, MISSING).astype(np.uint8)
    made = ResponseMatrix(sample.items.ids, sample.responses.models, scores)
    return Sample(sample.items, made)


def test_cold_predictions_do_not_change() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    train, held = halves(residual_sample())
    plain = JEIRT(**QUICK).fit(train, held)
    with_it = JEIRT(**QUICK, residual=True).fit(train, held)
    assert with_it.residuals_ is not None
    assert with_it.residuals_.tau > 0
    assert (plain.predict_proba(held.items) == with_it.predict_proba(held.items)).all()
    assert (plain.predict_proba(train.items) != with_it.predict_proba(train.items)).mean() > 0.9


def test_known_items_are_predicted_better_and_the_validation_cells_choose() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = residual_sample()
    groups = np.arange(len(sample.items))
    split = next(warm_cells(groups, sample.responses.observed, seeds=1))
    train, choose, test = (sample.take(c) for c in (split.train, split.choose, split.test))
    plain, with_it = (JEIRT(**QUICK, residual=r).fit(train, choose) for r in (False, True))
    losses = [
        validation_loss(f.predict_proba(test.items), test.responses) for f in (plain, with_it)
    ]
    assert losses[1] < losses[0] - 0.05
    part = warm_part(train.answered(), choose)
    assert part is not None
    assert part[1].sum() == choose.responses.observed.sum()
    assert warm_part(train, train) is None
    assert with_it.choices["tau"] == with_it.residuals_.tau  # type: ignore[union-attr]


def test_auto_has_residuals_where_the_validation_items_are_known() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = residual_sample(300)
    cold = JEIRT(**QUICK).fit(*halves(sample))
    assert cold.residuals_ is None
    assert JEIRT(**QUICK).fit(sample, sample).residuals_ is None
    split = next(warm_cells(np.arange(300), sample.responses.observed, seeds=1))
    train, choose = sample.take(split.train), sample.take(split.choose)
    assert JEIRT(**QUICK).fit(train, choose).residuals_ is not None
    assert ContextJEIRT(**QUICK).fit(train, choose).residuals_ is not None
    assert PlainJEIRT(**QUICK).fit(train, choose).residuals_ is None
    assert JEIRT(**QUICK, residual=False).fit(train, choose).residuals_ is None
    with pytest.raises(InputError, match="field 'residual': expected true, false or 'auto'"):
        JEIRT(residual="yes")  # type: ignore[arg-type]


def test_a_validation_of_weights_keeps_them() -> None:
    sample = make_sample(n=40)
    weighted = with_weights(sample, np.full(sample.responses.scores.shape, 3.0))
    mask = np.zeros(sample.responses.scores.shape, bool)
    mask[:, 0] = True
    every = np.arange(40)
    part = warm_part(weighted.take(Cells(every, ~mask)), weighted.take(Cells(every, mask)))
    assert part is not None
    assert set(part[1][:, 0]) <= {0.0, 3.0}
    assert (part[1][:, 1:] == 0).all()


def test_options_survive_the_disk_and_the_logit_space_has_them(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = with_chance(residual_sample(400))
    train, held = halves(sample)
    fit = JEIRT(**QUICK, residual=True, floor=True).fit(train, held)
    fit.save(tmp_path)
    loaded = JEIRT.load(tmp_path)
    p = fit.predict_proba(sample.items)
    assert (loaded.predict_proba(sample.items) == p).all()
    assert loaded.get_params() == fit.get_params()
    assert loaded.choices == fit.choices
    space = loaded.logit_space(sample.items)
    floor = sample.items.chance[:, None] * fit.guessing_  # type: ignore[index]
    expected = floor + (1 - floor) * expit(space.logits(space.theta))
    np.testing.assert_allclose(p, expected, atol=1e-5)
    np.testing.assert_allclose(space.chance, sample.items.chance * fit.guessing_.mean())  # type: ignore[operator]
    found = loaded.item_space(train.items)
    q = loaded._embedded(train.items) + loaded.residuals_.of(train.items.ids)  # type: ignore[union-attr]
    np.testing.assert_allclose(found.direction * found.norm[:, None], q, rtol=1e-5)


def with_chance(sample: Sample, level: float = 0.25) -> Sample:
    """The sample with half of its items at a chance level."""
    chance = np.where(np.arange(len(sample.items)) % 2, level, 0.0)
    return Sample(replace(sample.items, chance=chance), sample.responses)


def guessing_sample(n: int = 4000) -> tuple[Sample, np.ndarray]:
    """Hard items with four options; the first half of the models guesses, the other does not."""
    sample = make_sample(n=n, m=12, d=8, density=1.0, benchmarks=1, seed=2)
    rng = np.random.default_rng(3)
    x = sample.items.vectors
    assert x is not None
    gamma = np.r_[np.ones(6), np.zeros(6)]
    logits = x @ rng.normal(size=(8, 12)) / 2 - 2.5
    floor = 0.25 * gamma
    scores = (rng.random((n, 12)) < floor + (1 - floor) * expit(logits)).astype(np.uint8)
    items = replace(sample.items, chance=np.full(n, 0.25))
    return Sample(items, ResponseMatrix(items.ids, sample.responses.models, scores)), gamma


def test_the_floor_finds_who_guesses() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample, gamma = guessing_sample()
    train, held = halves(sample)
    settings = {"dim": 8, "hidden": 32, "dropout": 0.0, "learning_rate": 5e-3, "max_epochs": 40}
    fit = JEIRT(**settings, floor=True).fit(train, held)  # type: ignore[arg-type]
    guess, fail = fit.guessing_[gamma == 1], fit.guessing_[gamma == 0]
    assert guess.min() > fail.max() + 0.2
    assert guess.mean() > 0.65
    assert fail.mean() < 0.25
    plain = JEIRT(**settings).fit(train, held)  # type: ignore[arg-type]
    losses = [validation_loss(f.predict_proba(held.items), held.responses) for f in (fit, plain)]
    assert losses[0] < losses[1]
    assert (fit.predict_proba(held.items) >= 0.25 * fit.guessing_ - 1e-9).all()


def test_the_loss_under_a_floor_is_the_literal_one_and_has_its_derivative() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from thetascope.predictors import jeirt_training as training

    rng = np.random.default_rng(0)
    z, f = rng.normal(size=(5, 3)) * 4, rng.uniform(0, 0.9, (5, 3))
    f[0] = 0
    s = rng.random((5, 3)).astype(np.float32)
    logits = torch.tensor(z, requires_grad=True)
    floor = torch.tensor(f, requires_grad=True)
    loss, weight = training.batch_loss(logits, torch.tensor(s), None, floor)
    loss.backward()
    p = f + (1 - f) * expit(z)
    assert float(weight) == 15
    expected = -(s * np.log(p) + (1 - s) * np.log(1 - p)).sum()
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)
    slope = (p - s) / (p * (1 - p))
    np.testing.assert_allclose(
        logits.grad.numpy(), slope * (1 - f) * expit(z) * (1 - expit(z)), rtol=1e-5, atol=1e-9
    )
    np.testing.assert_allclose(floor.grad.numpy()[1:], (slope * (1 - expit(z)))[1:], rtol=1e-5)
    assert torch.isfinite(floor.grad).all()


def test_far_logits_under_a_floor_stay_finite() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from thetascope.predictors import jeirt_training as training

    logits = torch.tensor([[-300.0, 300.0], [-300.0, 300.0]], requires_grad=True)
    floor = torch.tensor([[0.0, 0.0], [1 - 1e-6, 0.5]], requires_grad=True)
    for target in (0, 1):
        scores = torch.full((2, 2), target, dtype=torch.uint8)
        loss, _ = training.batch_loss(logits, scores, None, floor)
        grads = torch.autograd.grad(loss, (logits, floor))
        assert torch.isfinite(loss)
        assert all(torch.isfinite(g).all() for g in grads)


@pytest.mark.parametrize("chance", [None, 0.0])
def test_a_floor_without_chance_levels_is_one_clear_error(chance: float | None) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = make_sample(n=60)
    if chance is not None:
        sample = with_chance(sample, chance)
    expected = "needs a column 'chance'" if chance is None else "every item's is 0 or missing"
    with pytest.raises(InputError, match=expected):
        JEIRT(**QUICK, floor=True).fit(sample, sample)


def test_onboarding_under_a_floor_finds_a_model_of_the_space() -> None:
    """A known model that guesses as the mean does, given all its answers, is found again: the
    gradient of its log posterior with the floor is 0 there, and not without it."""
    pytest.importorskip("torch", reason="torch is not installed")
    sample, _ = guessing_sample(1500)
    train, held = halves(sample)
    fit = JEIRT(**QUICK, floor=True).fit(train, held)
    bank = make_bank(sample, fit)
    space, prior = bank.space, bank.prior.gaussian
    assert space.chance is not None
    assert space.chance[0] == pytest.approx(0.25 * fit.guessing_.mean())
    rows = np.arange(0, 1500, 3)
    score = sample.responses.scores[rows, 1].astype(float)
    found = bank.posterior(Answers(rows, score, np.ones(len(rows)))).mean

    def gradient(f: np.ndarray) -> np.ndarray:
        sigma = expit(space.design[rows] @ found + space.intercept[rows])
        p = f + (1 - f) * sigma
        pull = (score - p) * (1 - f) * sigma * (1 - sigma) / (p * (1 - p))
        return space.design[rows].T @ pull - np.linalg.solve(prior.covariance, found - prior.mean)

    scale = np.abs(space.design[rows]).sum(axis=0).max()
    assert np.abs(gradient(space.chance[rows])).max() < 1e-3 * scale
    assert np.abs(gradient(0 * rows)).max() > 0.01 * scale
    ids = {space.ids[r]: float(s) for r, s in zip(rows.tolist(), score.tolist(), strict=True)}
    p = onboard(bank, ids, model="new").predict_proba()
    assert (p >= space.chance - 1e-9).all()

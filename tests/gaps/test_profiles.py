"""Concept profiles from few answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lens_cases import make_data
from tests.decisions.decision_cases import make_bank, make_space

from thetascope.decisions import onboard
from thetascope.decisions.posterior import Answers, Gaussian
from thetascope.errors import InputError
from thetascope.gaps import performance
from thetascope.gaps.profiles import concept_profile, profile_of


def _case(seed: int = 0, n: int = 300):
    rng = np.random.default_rng(seed)
    space = make_space(seed, n)
    order = np.argsort(space.benchmark, kind="stable")
    space = space.take(order)
    activations = rng.lognormal(size=(n, 8)) * (rng.random((n, 8)) < 0.3)
    scores = (rng.random((n, 1)) < 0.6).astype(float)
    data = make_data(scores, activations, space.benchmark)
    return space, data, rng


def test_all_answered_it_is_the_effect_of_performance_with_no_doubt() -> None:
    space, data, _ = _case()
    bank = make_bank(space)
    ids = dict(zip(space.ids, data.scores[:, 0].tolist(), strict=True))
    data = replace(data, item_ids=space.ids)
    found = concept_profile(onboard(bank, ids), data)
    table = performance(data, length=False)[0].table.sort("concept")
    assert found.concepts.tolist() == table["concept"].to_list()
    assert found.value == pytest.approx(table["effect"].to_numpy(), abs=1e-12)
    assert found.n_eff == pytest.approx(table["n_eff"].to_numpy())
    assert found.n_answered.tolist() == table["n_active"].to_list()
    assert np.abs(found.sd).max() < 1e-12


def test_value_and_sd_match_monte_carlo() -> None:
    """Draw vectors from the posterior and unseen answers from them: same mean and sd."""
    space, data, rng = _case(1)
    root = rng.normal(size=(3, 3)) * 0.15
    posterior = Gaussian(rng.normal(size=3) * 0.4, root @ root.T + 0.01 * np.eye(3))
    rows = rng.permutation(300)[:60]
    answers = Answers(rows, (rng.random(60) < 0.7).astype(float), np.ones(60))
    every = np.arange(300)
    found = profile_of(space, posterior, answers, data, every, every)
    theta = rng.multivariate_normal(posterior.mean, posterior.covariance, 20_000)
    p = 1 / (1 + np.exp(-(theta @ space.design.T + space.intercept)))
    drawn = (rng.random(p.shape) < p).astype(float)
    drawn[:, rows] = answers.score
    a = data.activations.toarray()[:, found.concepts]
    weights = np.empty_like(a)
    for b in (0, 1):
        k = data.benchmark == b
        weights[k] = a[k] - a[k].mean(axis=0)
    effects = drawn @ weights / a.sum(axis=0)
    assert found.value == pytest.approx(effects.mean(axis=0), abs=3e-3)
    assert found.sd == pytest.approx(effects.std(axis=0), rel=0.04)


def test_items_outside_the_profile_still_place_the_model() -> None:
    space, data, _ = _case(2)
    half = np.arange(150)
    answers = Answers(np.arange(200, 250), np.ones(50), np.ones(50))
    posterior = Gaussian(np.zeros(3), 0.1 * np.eye(3))
    found = profile_of(space, posterior, answers, data, half, half)
    none = Answers(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    same = profile_of(space, posterior, none, data, half, half)
    assert (found.value == same.value).all()
    assert (found.n_answered == 0).all()


def test_the_profile_of_a_new_model_is_better_than_its_own_few_answers() -> None:
    """A bank that knows the items: 60 answers, effects over all items of the true chances."""
    space, data, rng = _case(3, 1500)
    bank = make_bank(space)
    data = replace(data, item_ids=space.ids)
    errors = []
    for _ in range(8):
        theta = rng.normal(size=3)
        p = 1 / (1 + np.exp(-(space.design @ theta + space.intercept)))
        scores = (rng.random(1500) < p).astype(float)
        asked = rng.permutation(1500)[:60]
        given = {space.ids[j]: scores[j] for j in asked.tolist()}
        found = concept_profile(onboard(bank, given), data)
        truth = performance(data.with_scores(p[:, None]), length=False)[0].table.sort("concept")
        few = np.full((1500, 1), np.nan)
        few[asked] = scores[asked, None]
        a = data.activations.toarray()[asked][:, found.concepts]
        direct = a.T @ (scores[asked] - scores[asked].mean()) / np.maximum(a.sum(axis=0), 1e-9)
        effect = truth["effect"].to_numpy()
        errors.append([np.abs(found.value - effect).mean(), np.abs(direct - effect).mean()])
    mine, rival = np.mean(errors, axis=0)
    assert mine < 0.5 * rival


def test_the_table_is_sorted_and_labelled() -> None:
    space, data, _ = _case(4)
    data = replace(data, item_ids=space.ids)
    found = concept_profile(onboard(make_bank(space), {space.ids[0]: 1.0}), data)
    table = found.table(data.labels)
    assert table["value"].is_sorted()
    assert table["label"][0] == f"concept {table['concept'][0]}"
    assert ((table["high"] - table["low"]) > 0).all()


def test_bad_input() -> None:
    space, data, _ = _case(5)
    other = replace(data, item_ids=tuple(f"x:{j}" for j in range(300)))
    with pytest.raises(InputError, match="no item with activations is in the item bank"):
        concept_profile(onboard(make_bank(space), {space.ids[0]: 1.0}), other)
    every = np.arange(300)
    activations = data.activations.toarray()
    activations[:, 1] = 0.0
    data = make_data(data.scores, activations, data.benchmark)
    none = Answers(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    with pytest.raises(InputError, match="concept 1 is active on none"):
        profile_of(space, Gaussian(np.zeros(3), np.eye(3)), none, data, every, every, np.array([1]))

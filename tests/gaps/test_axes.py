"""Concept axes: hand-computed, against a dense transcription, and on a planted space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lens_cases import make_data, random_data
from tests.space.space_cases import planted_space

from thetascope.decisions.posterior import Gaussian
from thetascope.errors import InputError
from thetascope.gaps.axes import concept_axes
from thetascope.space.fitted import Space, unit


def _space(direction: np.ndarray, ability: np.ndarray) -> Space:
    base, _, _ = planted_space(n=len(direction), m=len(ability))
    return replace(base, direction=direction, ability=ability)


def test_an_axis_by_hand() -> None:
    """Four items on the axes of a plane; the concept sits on the first, a little on the second."""
    direction = np.array([[1, 0], [0, 1], [-1, 0], [0, -1.0]])
    data = make_data(np.zeros((4, 2)), np.array([[3.0], [1.0], [0.0], [0.0]]))
    ability = np.array([[2.0, 0.0], [0.0, 2.0]])
    found = concept_axes(_space(direction, ability), data)
    assert found.axis == pytest.approx(np.array([[0.75, 0.25]]))
    assert found.length == pytest.approx([np.sqrt(0.625)])
    away = np.array([[1, -1], [-1, 1.0]])
    assert found.profile(ability)[:, 0] == pytest.approx(away @ [0.75, 0.25] / np.sqrt(0.625))


def test_a_dense_transcription_over_benchmarks_and_missing_vectors() -> None:
    data = random_data(n=80, c=9, m=3, benchmarks=3)
    rng = np.random.default_rng(1)
    kept = np.sort(rng.permutation(80)[:70])
    direction = unit(rng.normal(size=(70, 5)))
    space = replace(_space(direction, rng.normal(size=(3, 5))), place=kept)
    found = concept_axes(space, data, np.array([2, 5, 8]))
    dense, code = data.activations.toarray()[kept], data.benchmark[kept]
    for k, c in enumerate((2, 5, 8)):
        total, mass = np.zeros(5), 0.0
        for b in range(3):
            rows = code == b
            a = dense[rows, c]
            total += a.sum() * (a @ direction[rows] / a.sum() - direction[rows].mean(axis=0))
            mass += a.sum()
        assert np.abs(found.axis[k] - total / mass).max() < 1e-10
    assert found.n_items == 70


def test_a_posterior_has_a_profile_with_its_width() -> None:
    data = random_data(n=60, c=5, m=3)
    rng = np.random.default_rng(2)
    space = _space(unit(rng.normal(size=(60, 4))), rng.normal(size=(3, 4)))
    axes = concept_axes(space, data)
    root = rng.normal(size=(6, 6))  # two offsets come after the four dimensions
    posterior = Gaussian(rng.normal(size=6), root @ root.T)
    value, sd = axes.profile_of(posterior)
    draws = rng.multivariate_normal(posterior.mean, posterior.covariance, 40_000)[:, :4]
    sampled = axes.profile(draws)
    known = axes.length > 1e-12
    assert value[known] == pytest.approx(sampled.mean(axis=0)[known], abs=0.1)
    assert sd[known] == pytest.approx(sampled.std(axis=0)[known], rel=0.03)


def test_a_concept_that_is_everywhere_alike_has_no_axis() -> None:
    data = random_data(n=60, c=5, m=3)
    axes = concept_axes(_space(unit(np.random.default_rng(3).normal(size=(60, 4))),
                               np.eye(4)[:3]), data)  # fmt: skip
    assert axes.length[0] < 1e-12  # concept 0 is 1 on every item
    assert np.isnan(axes.profile(np.eye(4))[:, 0]).all()


def test_topics_of_a_planted_space_order_the_models() -> None:
    space, responses, topic = planted_space(n=600, m=30)
    activations = (topic[:, None] == np.arange(4)) + 0.0
    scores = np.where(responses.observed, responses.scores, np.nan).astype(float)
    data = make_data(scores, activations)
    profile = concept_axes(space, data).profile(space.ability)
    for t in range(4):
        mine, other = topic == t, topic != t
        better = np.nanmean(scores[mine], axis=0) - np.nanmean(scores[other], axis=0)
        assert np.corrcoef(profile[:, t], better)[0, 1] > 0.8


def test_no_common_item_is_said() -> None:
    space = replace(_space(np.eye(4), np.eye(4)), place=np.arange(4) + 100)
    with pytest.raises(InputError, match="no item has both"):
        concept_axes(space, random_data(n=20, c=2, m=2))

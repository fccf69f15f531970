"""The taxonomy as a whole, its names, and the test of models' profiles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.space.space_cases import planted_space

from thetascope.errors import InputError
from thetascope.space import taxonomy
from thetascope.space.naming import names, terms_of
from thetascope.space.profile import profile


def test_planted_topics_come_out_with_names_and_subjects() -> None:
    space, responses, topic = planted_space(n=320, topics=4)
    words = ["triangle angle", "verb noun", "enzyme protein", "court contract"]
    texts = [f"{words[t]} question number {i}" for i, t in enumerate(topic)]
    found = taxonomy(space, responses, texts, np.arange(320), np.ones(320, bool), k=4)
    assert found.agreement["space"].ari.value > 0.95
    assert found.kind == "subject"
    assert found.n_labels == 4
    for cluster in found.clusters:
        top, share = cluster.subjects[0]
        assert share > 0.95
        assert set(words[int(top.split()[-1])].split()) <= set(cluster.name.split(", "))
        assert cluster.n_tested >= 10
    assert sum(c.n_items for c in found.clusters) == 320
    assert found.to_json()["clusters"][0]["n_items"] == found.clusters[0].n_items


def test_items_without_texts_leave_clusters_without_names() -> None:
    space, responses, _ = planted_space(n=120)
    found = taxonomy(space, responses, [None] * 120, np.arange(120), np.zeros(120, bool), k=3)
    assert {c.name for c in found.clusters} == {""}
    assert all(c.q != c.q and c.n_tested == 0 for c in found.clusters)  # nothing to test on


@pytest.mark.parametrize(("n", "k", "what"), [(30, None, "needs 40 items"), (60, 99, "2 to 15")])
def test_too_little_is_refused(n: int, k: int | None, what: str) -> None:
    space, responses, _ = planted_space(n=n)
    with pytest.raises(InputError, match=what):
        taxonomy(space, responses, [None] * n, np.arange(n), np.ones(n, bool), k=k)


def test_names_by_hand() -> None:
    """tf counts texts; 'cell' is everywhere and loses to terms of one cluster."""
    texts = ["cell cell cell nucleus"] * 3 + ["cell battery"] * 3 + ["the of and"] * 2
    got = names(texts, np.array([0, 0, 0, 1, 1, 1, 2, 2]), 2)
    # cluster 0: tf(cell) = tf(nucleus) = 3, |c| = 6, A = (6 + 6 + 0) / 3 = 4
    assert got == ["nucleus, cell", "battery, cell", ""]
    assert np.log1p(4 / 3) > np.log1p(4 / 6)


def test_terms() -> None:
    assert terms_of("Does the Größe of 12 cells_matter? a1b cells") == {"größe", "cells", "matter"}


def test_rare_words_name_no_cluster() -> None:
    assert names(["unique alpha", "alpha beta", "beta alpha"], np.zeros(3, int), 3) == [
        "alpha, beta"
    ]


def test_variance_is_that_of_all_permutations() -> None:
    """E T = 0 and V by listing every order of six items in two strata."""
    rng = np.random.default_rng(0)
    score = rng.random((6, 3))
    observed = np.ones((6, 3), bool)
    stratum = np.array([0, 0, 0, 0, 1, 1])
    cluster = np.array([0, 0, 1, 1, 0, 1])
    found = profile(score, observed, cluster, stratum, 2)
    centred = score - score.mean(axis=1, keepdims=True)
    for s in (0, 1):
        centred[stratum == s] -= centred[stratum == s].mean(axis=0)
    totals = []
    for first in itertools.permutations(range(4)):
        for second in itertools.permutations((4, 5)):
            mixed = np.empty(6, int)
            mixed[[*first, *second]] = cluster
            totals.append(centred[mixed == 0].sum(axis=0))
    assert np.mean(totals, axis=0) == pytest.approx(0, abs=1e-12)
    assert found.error[0] * 3 == pytest.approx(np.std(totals, axis=0))
    assert found.deviation[0] == pytest.approx(centred[cluster == 0].mean(axis=0))


def test_a_planted_deviation_is_found_and_noise_is_not() -> None:
    rng = np.random.default_rng(1)
    n, m = 400, 10
    stratum, cluster = rng.integers(0, 3, n), rng.integers(0, 5, n)
    chance = 0.3 + 0.2 * stratum[:, None] + 0.02 * np.arange(m)
    chance[cluster == 2, 4] -= 0.3  # model 4 fails where cluster 2 lies, in every stratum
    score = (rng.random((n, m)) < chance).astype(float)
    found = profile(score, np.ones((n, m), bool), cluster, stratum, 5)
    assert found.p[2] < 0.01
    assert found.deviation[2, 4] == pytest.approx(-0.27 * 0.8, abs=0.1)
    ps = []
    for seed in range(40):
        other = np.random.default_rng(seed + 10).integers(0, 5, n)
        ps.extend(profile(score, np.ones((n, m), bool), other, stratum, 5, seed=seed).p)
    assert np.mean(np.array(ps) < 0.05) < 0.1
    assert np.mean(ps) == pytest.approx(0.5, abs=0.08)


def test_one_item_of_a_group_of_duplicates_counts() -> None:
    rng = np.random.default_rng(2)
    score = (rng.random((50, 6)) < 0.5).astype(float)
    twice = np.concatenate([score, score])
    cluster, stratum = rng.integers(0, 2, 50), np.zeros(50, int)
    seen = np.ones((50, 6), bool)
    once = profile(score, seen, cluster, stratum, 2)
    group = np.tile(np.arange(50), 2)
    both = profile(twice, np.tile(seen, (2, 1)), np.tile(cluster, 2), np.tile(stratum, 2), 2, group)
    assert (once.p == both.p).all()
    assert (once.n == both.n).all()

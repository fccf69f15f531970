"""Spherical k-means, the tree over its clusters, agreement and stability."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from tests.space.space_cases import planted_space

from thetascope.space.agreement import agreement
from thetascope.space.clusters import grow, spherical_kmeans, ward
from thetascope.space.fitted import unit
from thetascope.space.taxonomy import Level, stability, stable_k


def test_kmeans_finds_planted_topics() -> None:
    space, _, topic = planted_space()
    labels, centroids = spherical_kmeans(space.topic, 4)
    found = agreement(labels, topic, np.arange(len(topic)))
    assert found.ari.value > 0.98
    assert np.allclose(np.linalg.norm(centroids, axis=1), 1, atol=1e-5)
    nearest = np.argmax(space.topic @ centroids.T, axis=1)
    assert (nearest == labels).mean() > 0.999  # every item lies with its nearest centroid


def test_kmeans_never_leaves_a_cluster_empty_where_items_differ() -> None:
    rng = np.random.default_rng(1)
    x = unit(np.concatenate([np.tile([[1.0, 0, 0]], (40, 1)), rng.normal(size=(10, 3))]))
    labels, _ = spherical_kmeans(x, 8)
    assert len(np.unique(labels)) == 8


def test_one_direction_is_one_cluster() -> None:
    x = np.tile([[1.0, 0.0]], (50, 1))
    tree = grow(x)
    assert len(np.unique(tree.labels(5))) == 1


@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_ward_is_scipys_on_single_items(k: int) -> None:
    x = np.random.default_rng(3).normal(size=(20, 4))
    merges = ward(x, np.arange(20))
    owner = {i: {i} for i in range(20)}
    for turn, (a, b) in enumerate(merges[: 20 - k].tolist()):
        owner[20 + turn] = owner.pop(a) | owner.pop(b)
    expected = fcluster(linkage(x, "ward"), k, "maxclust")
    theirs = {frozenset(np.flatnonzero(expected == c).tolist()) for c in np.unique(expected)}
    assert {frozenset(v) for v in owner.values()} == theirs


def test_ward_weighs_clusters_by_their_size() -> None:
    """Merging leaves of many items first costs more: here it turns the first merge."""
    means = np.array([[0.0], [1.0], [2.2]])
    small = np.array([0, 1, 2])
    assert ward(means, small)[0].tolist() == [0, 1]
    heavy = np.array([0] * 50 + [1] * 50 + [2])
    assert ward(means, heavy)[0].tolist() == [1, 2]


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(2, 12))
def test_finer_clusters_are_parts_of_coarser_ones(seed: int, k: int) -> None:
    x = unit(np.random.default_rng(seed).normal(size=(80, 5)))
    tree = grow(x, seed)
    fine, coarse = tree.labels(k + 1), tree.labels(k)
    for c in np.unique(fine):
        assert len(np.unique(coarse[fine == c])) == 1
    assert len(np.unique(coarse)) == min(k, tree.n_leaves)
    sizes = np.bincount(coarse)
    assert (np.diff(sizes) <= 0).all()


def test_the_same_seed_gives_the_same_tree() -> None:
    space, _, _ = planted_space()
    one, two = grow(space.topic, 5), grow(space.topic, 5)
    assert (one.leaf == two.leaf).all()
    assert (one.merges == two.merges).all()


def test_agreement_knows_chance() -> None:
    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(0, 5, 400), rng.integers(0, 5, 400)
    found = agreement(clusters, labels, np.arange(400))
    assert abs(found.ari.value) < 0.03
    assert abs(found.shuffled_ari.value) < 0.01
    assert found.shuffled_v.value > 0.005  # V is not adjusted: chance is not 0
    assert found.ari.low < found.ari.value < found.ari.high
    same = agreement(labels, labels, np.arange(400))
    assert same.ari.value == same.v_measure.value == pytest.approx(1)


def test_intervals_of_agreement_hold_what_other_samples_give() -> None:
    """The spread over samples of one law is what the interval says."""
    rng = np.random.default_rng(2)
    values, widths = [], []
    for _ in range(40):
        labels = rng.integers(0, 3, 300)
        clusters = np.where(rng.random(300) < 0.7, labels, rng.integers(0, 3, 300))
        found = agreement(clusters, labels, np.arange(300))
        values.append(found.ari.value)
        widths.append((found.ari.high - found.ari.low) / 3.92)
    assert np.mean(widths) == pytest.approx(np.std(values), rel=0.35)


def test_stability_falls_beyond_the_planted_number() -> None:
    space, _, _ = planted_space(n=500, topics=6, spread=0.5)
    levels = {v.k: v.stability.value for v in stability(space.topic, np.arange(500))}
    assert levels[6] > 0.95
    assert levels[6] > levels[16] + 0.2


def test_stable_k() -> None:
    from thetascope.evaluation import Estimate

    def level(k: int, value: float) -> Level:
        return Level(k, Estimate(value, value, value))

    assert stable_k([level(2, 0.9), level(4, 0.65), level(8, 0.5)], 9000) == (4, "stability")
    assert stable_k([level(2, 0.3), level(4, 0.5), level(8, 0.4)], 9000) == (4, "default")
    assert stable_k([level(2, 0.9), level(4, 0.9), level(8, 0.9)], 900) == (
        4,
        "stability",
    )  # 200 items each
    assert stable_k([level(2, 0.9)], 60) == (2, "stability")
    assert stable_k([], 60) == (2, "default")

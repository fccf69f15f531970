"""Performance over benchmarks against a dense transcription; families; two models; groups."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import false_discovery_control, pearson3
from tests.gaps.gap_cases import dense_moments, some_data

from thetascope.errors import InputError
from thetascope.gaps.familywise import familywise
from thetascope.gaps.grouped import grouped
from thetascope.gaps.inference import wilson
from thetascope.gaps.moments import covariate_basis
from thetascope.gaps.performance import performance
from thetascope.gaps.synthetic import Planted, planted
from thetascope.gaps.versus import versus


def test_across_benchmarks_equals_the_dense_sums():
    data = some_data(n=(80, 60), c=5, holes=0.2, seed=1)
    whole = performance(data)[0]
    assert whole.scope == "all"
    for row in whole.table.iter_rows(named=True):
        m, c = data.models.index(row["model"]), row["concept"]
        parts = [dense_moments(data, b, m, c, True) for b in range(2)]
        t, v, g, a = (sum(p[k] for p in parts) for k in ("t", "v", "g", "mass"))
        z = t / np.sqrt(v)
        assert row["z"] == pytest.approx(z, rel=1e-9)
        assert row["effect"] == pytest.approx(t / a, rel=1e-9)
        assert row["p_low"] == pytest.approx(pearson3(g / v**1.5).cdf(z), rel=1e-6)
        chi = np.array([p["weighted"] / p["mass"] for p in parts])
        assert row["score"] == pytest.approx(chi.mean(), rel=1e-10)
        ends = [wilson(np.array([x]), np.array([p["mass"] ** 2 / p["square"]]))
                for x, p in zip(chi, parts, strict=True)]  # fmt: skip
        below = np.sqrt(sum((x - e[0][0]) ** 2 for x, e in zip(chi, ends, strict=True))) / 2
        assert row["low"] == pytest.approx(chi.mean() - below, rel=1e-9)
    assert whole.table.height == 5 * 3 - 3  # the last concept is active nowhere
    one = whole.table.filter(model="m0")
    assert one["q_low"].to_numpy() == pytest.approx(
        false_discovery_control(one["p_low"].to_numpy())
    )


def test_untestable_concepts_are_counted():
    data = some_data(n=(14, 9), c=6, holes=0)
    whole = performance(data)[0]
    tested = whole.models["n_tested"].to_list()
    assert [t + u for t, u in zip(tested, whole.models["n_untestable"].to_list(), strict=True)] == [
        5, 5, 5,
    ]  # fmt: skip
    assert whole.table.height == sum(tested)


def test_one_benchmark_has_no_all():
    found = performance(some_data(n=(30,)))
    assert [p.scope for p in found] == ["b0"]


def test_planted_gaps_are_found():
    made = planted(Planted(n_items=(2000, 2000), own_n_eff=100, seed=1))
    rows = performance(made.data)[0].table
    found = rows.filter(pl.col("q_low") < 0.05)["concept"].to_numpy()
    assert np.isin(made.own, found).mean() >= 0.8
    assert np.isin(found, made.own).mean() >= 0.85
    effect = rows.filter(pl.col("concept").is_in(made.own.tolist()))["effect"].mean()
    assert -0.26 < effect < -0.18


def test_planted_missing_concepts_are_missing():
    from thetascope.gaps.coverage import coverage

    made = planted(Planted(n_items=(1500, 1500), n_concepts=300, n_missing=12, n_own=0, seed=2))
    missing = coverage(made.data).missing_concepts(0)
    assert set(made.missing.tolist()) <= set(missing.tolist())
    assert not set(made.missing.tolist()) & set(coverage(made.data).missing_concepts(1).tolist())


def test_familywise_is_minp_recomputed_densely():
    """Every permutation's least p from the same permutations, with dense matrices."""
    data = some_data(n=(60, 50), c=5, m=1, holes=0, seed=4)
    found = familywise(data, 0, n=99, seed=3)
    assert found.concepts.tolist() == [0, 1, 2, 3]
    rng = np.random.default_rng(3)
    t, v, g = (np.array([sum(dense_moments(data, b, 0, c, True)[k] for b in range(2))
                         for c in range(4)]) for k in ("t", "v", "g"))  # fmt: skip
    permuted, v_permuted = np.zeros((4, 99)), np.zeros(4)
    for b, part in enumerate(data.parts):
        basis = covariate_basis(data.n_tokens[part], True)
        n, p = basis.shape
        e = data.scores[part, 0] - basis @ (basis.T @ data.scores[part, 0])
        a = data.activations[part].toarray()[:, :4]
        ma = a - basis @ (basis.T @ a)
        permuted += ma.T @ rng.permuted(np.tile(e[:, None], (1, 99)), axis=0)
        ones = np.array([dense_moments(data, b, 0, c, True)["v"] for c in range(4)])
        v_permuted += ones * (n - p) / (n - 1)
    z, skew = permuted / np.sqrt(v_permuted)[:, None], g / v_permuted**1.5
    least = np.min([pearson3(s).cdf(row) for s, row in zip(skew, z, strict=True)], axis=0)
    observed = [
        pearson3(skew).cdf(value) for skew, value in zip(g / v**1.5, t / np.sqrt(v), strict=True)
    ]
    expected = [(1 + (least <= x).sum()) / 100 for x in observed]
    assert found.low == pytest.approx(expected)


def test_familywise_is_sure_of_a_planted_concept():
    data = some_data(n=(60, 50), c=5, m=1, holes=0, seed=4)
    scores = data.scores.copy()
    high = data.activations.toarray()[:, 1] > 0.8
    scores[:, 0] = (np.random.default_rng(0).random(110) < np.where(high, 0.1, 0.95)).astype(float)
    sure = familywise(data.with_scores(scores), 0, n=199)
    assert sure.low[1] == pytest.approx(1 / 200)


def test_familywise_holds_its_level():
    """Scores without any gap: 5 % of studies with a family-wise p below .05, and few more."""
    hits = 0
    for seed in range(60):
        made = planted(Planted(n_items=(300,), n_concepts=60, n_own=0, base=(0.87, 0.87),
                               tail=1.5, seed=seed))  # fmt: skip
        found = familywise(made.data, 0, n=99, seed=seed)
        hits += bool((found.low < 0.05).any())
    assert hits <= 8  # P(more than 8 of 60 at 5 %) is .4 %


def test_versus_is_zero_for_twins_and_finds_a_planted_difference():
    made = planted(Planted(n_items=(2000, 2000), n_models=2, base=(0.7, 0.7), seed=5))
    found = versus(made.data, "model 0", "model 1")
    weak = found.table.filter(pl.col("q_low") < 0.05)["concept"].to_numpy()
    assert np.isin(made.own, weak).mean() >= 0.6
    assert np.isin(weak, made.own).mean() >= 0.85
    worse = found.table.filter(pl.col("q_worse") < 0.05)["concept"].to_numpy()
    assert np.isin(made.own, worse).mean() >= 0.8
    twin = made.data.with_scores(made.data.scores[:, [0, 0]], ("a", "b"))
    assert versus(twin, "a", "b").table.height == 0
    apart = made.data.scores.copy()
    apart[::2, 0], apart[1::2, 1] = np.nan, np.nan
    strangers = made.data.with_scores(apart)
    with pytest.raises(InputError, match="no item in common"):
        versus(strangers, "model 0", "model 1")
    with pytest.raises(InputError, match="twice"):
        versus(made.data, "model 0", "model 0")


def test_versus_absolute_by_hand():
    data = some_data(n=(40,), c=3, m=2, holes=0, seed=6)
    found = versus(data, "m0", "m1", length=False).table
    a = data.activations.toarray()
    d = data.scores[:, 0] - data.scores[:, 1]
    for row in found.iter_rows(named=True):
        x = a[:, row["concept"]]
        assert row["difference"] == pytest.approx((x * d).sum() / x.sum())
        half = 1.959964 * np.sqrt((x**2 * (d - row["difference"]) ** 2).sum()) / x.sum()
        assert row["high"] - row["difference"] == pytest.approx(half, rel=1e-6)


def test_a_group_is_one_concept():
    data = some_data(n=(50, 40), c=5, m=2, holes=0, seed=8)
    made = grouped(data, ["first", "rest"], [[0], [1, 2, 3]])
    a = data.activations.toarray()
    assert made.activations.toarray()[:, 0] == pytest.approx(a[:, 0] / a[:, 0].mean())
    rest = sum(a[:, c] / a[:, c].mean() for c in (1, 2, 3))
    assert made.activations.toarray()[:, 1] == pytest.approx(rest)
    active = data.active.toarray()[:, 1:4].any(axis=1)
    assert (made.active.toarray()[:, 1] == active).all()
    alone = performance(data)[0].table.filter(concept=0, model="m0")
    same = performance(made)[0].table.filter(concept=0, model="m0")
    assert same["z"].to_list() == pytest.approx(alone["z"].to_list())
    with pytest.raises(InputError, match="holds no concept"):
        grouped(data, ["none"], [[]])
    with pytest.raises(InputError, match="0 to 4"):
        grouped(data, ["wrong"], [[7]])

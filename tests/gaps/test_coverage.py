"""Coverage by hand and against enumeration; base rates; robustness; agreement; validity."""

from dataclasses import replace
from math import comb

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from tests.gaps.gap_cases import some_data

from thetascope.errors import InputError
from thetascope.gaps.agreement import agreement, match_concepts, readings
from thetascope.gaps.base_rates import base_rates
from thetascope.gaps.bootstrap import chi_whole, suite
from thetascope.gaps.coverage import coverage, covered_by
from thetascope.gaps.robustness import removal, strongest_items, subsampling
from thetascope.gaps.synthetic import Planted, planted
from thetascope.gaps.validity import entanglement, predictive_validity


def test_coverage_equals_a_dense_transcription():
    data = some_data(n=(14, 9), c=6)
    found = coverage(data)
    a, peak = data.activations.toarray(), data.peak.toarray()
    for b, part in enumerate(data.parts):
        mean = a[part].mean(axis=0)
        assert found.chi[:, b] == pytest.approx(mean / mean.mean(), abs=1e-10)
        assert found.n_active[:, b].tolist() == (peak[part] >= 0.5).sum(axis=0).tolist()
        for k, threshold in enumerate(found.thresholds):
            missing = (peak[part].max(axis=0) < np.float32(threshold)).mean()
            assert found.missing[b, k] == pytest.approx(missing)
    covered = found.n_active > 0
    both, either = (covered[:, 0] & covered[:, 1]).sum(), (covered[:, 0] | covered[:, 1]).sum()
    assert found.jaccard[0, 1] == pytest.approx(both / either)
    x, y = found.chi.T
    assert found.cosine[0, 1] == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    assert 5 in found.missing_concepts()
    assert found.mean_chi == pytest.approx(found.chi.mean(axis=1))


def test_dead_concepts_do_not_count():
    data = some_data(n=(14, 9), c=6)
    alive = np.array([True] * 5 + [False])
    found = coverage(replace(data, alive=alive))
    assert found.chi[5].tolist() == [0, 0]
    assert found.chi[:5, 0].mean() == pytest.approx(1)
    assert 5 not in found.missing_concepts()


def test_without_a_reference_nothing_is_missing():
    found = coverage(replace(some_data(), peak=None, threshold=None))
    assert found.missing is None
    assert found.jaccard is None
    assert not len(found.missing_concepts())
    assert found.to_json()["n_missing"] is None


def test_deciles_are_of_the_covered():
    rng = np.random.default_rng(0)
    a = csr_matrix(rng.exponential(1, (40, 50)))
    data = some_data(n=(40,), c=50)
    peak = csr_matrix(np.full((40, 50), 0.9, np.float32))
    data = replace(data, activations=a, peak=peak, active=csr_matrix(np.ones((40, 50))))
    found = coverage(data)
    order = np.argsort(found.chi[:, 0])
    assert found.under(0).tolist() == order[:5].tolist()
    assert found.over(0).tolist() == order[::-1][:5].tolist()


@pytest.mark.parametrize(("n", "active", "m"), [(10, 3, 4), (10, 0, 4), (10, 8, 4), (7, 7, 7)])
def test_rarefaction_counts_draws(n, active, m):
    expected = 1 - comb(n - active, m) / comb(n, m)
    assert covered_by(np.array([active]), n, m)[0] == pytest.approx(expected)


def test_base_rates_by_hand():
    """Shares of the mass, smoothed by half an item."""
    data = some_data(n=(14, 9, 12), c=6)
    found = base_rates(data, n=50)
    a = data.activations.toarray()
    share = np.stack([a[p].sum(axis=0) / a[p].sum() for p in data.parts], axis=1)
    row = found.filter(benchmark="b0", concept=2).row(0, named=True)
    other = share[2, 1:].mean()
    expected = np.log((share[2, 0] + 0.5 / 14 / 6) / (other + 0.5 / 21 / 6))
    assert row["log_ratio"] == pytest.approx(expected)
    assert row["low"] < row["log_ratio"] < row["high"]
    assert not found.filter(concept=5).height


def test_base_rates_against_traffic():
    data, traffic = some_data(n=(14, 9)), some_data(n=(30,), seed=9)
    found = base_rates(data, traffic, n=50)
    b = traffic.activations.toarray()
    a = data.activations.toarray()[data.parts[1]]
    here, there = a.sum(axis=0) / a.sum(), b.sum(axis=0) / b.sum()
    row = found.filter(benchmark="b1", concept=1).row(0, named=True)
    expected = np.log((here[1] + 0.5 / 9 / 6) / (there[1] + 0.5 / 30 / 6))
    assert row["log_ratio"] == pytest.approx(expected)
    with pytest.raises(InputError, match="another dictionary"):
        base_rates(data, replace(traffic, meta={"dictionary": {"fingerprint": "x"}}))
    assert base_rates(some_data(n=(14,))).height == 0


def test_base_rates_interval_covers():
    """Two samples of one population: the log ratio is 0, inside 95 % of the intervals."""
    inside = []
    for seed in range(15):
        made = planted(Planted(n_items=(400, 400), n_concepts=80, n_own=0, seed=seed))
        rows = base_rates(made.data, n=200, seed=seed).filter(benchmark="bench 0")
        frequent = rows.filter(pl.col("share") > 0.005)
        inside += ((frequent["low"] < 0) & (frequent["high"] > 0)).to_list()
    assert 0.9 < np.mean(inside) < 0.98


def test_suite_and_subsampling():
    made = planted(Planted(n_items=(300, 300), n_concepts=80, n_own=0, seed=1))
    a, s = made.data.activations.toarray(), made.data.scores[:, 0]
    chi = np.mean([a[p].T @ s[p] / a[p].sum(axis=0) for p in made.data.parts], axis=0)
    assert chi_whole(made.data, 0) == pytest.approx(chi, rel=1e-5)
    found = suite(made.data, 0, n=100)
    assert found.median.value == pytest.approx(np.median(chi), rel=1e-5)
    assert found.median.low < found.median.value < found.median.high
    light, heavy = (subsampling(made.data, 0, n=40, dropped=d) for d in (0.05, 0.5))
    assert 0 < light.model_concepts < heavy.model_concepts
    assert 0 < light.bench_concepts < heavy.bench_concepts


def test_removal_takes_the_items_of_the_extremes():
    made = planted(Planted(n_items=(500,), n_concepts=200, seed=3))
    found = removal(made.data, 0)
    assert found.n_removed == 5
    assert found.best < found.worst
    items = strongest_items(made.data, np.array([0, 1]), 4)
    a = made.data.activations.toarray()
    assert set(a[:, 0].argsort()[::-1][:1].tolist()) <= set(items.tolist())
    assert len(items) == 4


def test_matching_finds_a_shuffled_dictionary():
    made = planted(Planted(n_items=(300, 300), n_concepts=60, n_own=6, own_n_eff=60, seed=1))
    order = np.random.default_rng(0).permutation(60)
    shuffled = replace(made.data, activations=csr_matrix(made.data.activations[:, order]))
    matched = match_concepts(made.data.activations, shuffled.activations)
    assert (order[matched.second] == matched.first).all()
    assert matched.share == pytest.approx(1)
    found = agreement(made.data, shuffled, 0, matched, n=6)
    assert found.between.value == pytest.approx(found.ceiling.value, abs=1e-9)
    assert found.between.value > 0.2
    assert abs(found.permuted.value) < 0.2


def test_two_readings_of_one_dictionary():
    """The same activations agree wholly; with noise on them less, and fewer gaps are shared."""
    made = planted(Planted(n_items=(800, 800), n_concepts=120, own_n_eff=150, seed=2))
    same = readings(made.data, made.data)
    assert set(same["scope"]) == {"all", "bench 0", "bench 1"}
    assert same["spearman"].to_numpy() == pytest.approx(1)
    assert (same["gaps_first"] == same["gaps_both"]).all()
    noise = np.random.default_rng(0).exponential(1, made.data.activations.nnz)
    blurred = made.data.activations.copy()
    blurred.data = blurred.data * noise
    other = readings(made.data, replace(made.data, activations=blurred)).filter(scope="all")
    assert 0.3 < other["spearman"][0] < 0.99
    assert other["gaps_both"][0] <= min(other["gaps_first"][0], other["gaps_second"][0])


def test_validity_holds_for_shared_gaps_and_not_for_noise():
    made = planted(Planted(n_items=(1500, 1500, 1500), n_concepts=400, own_n_eff=250, seed=4))
    found = predictive_validity(made.data, 0, n=200)
    assert len(found.parts) == 3
    assert found.pooled.high < 0
    assert found.pooled.value == pytest.approx(-0.2, abs=0.08)
    assert found.slope.low > 0.4
    noise = planted(Planted(n_items=(800, 800), n_concepts=200, n_own=0, seed=5))
    nothing = predictive_validity(noise.data, 0, n=100)
    assert all(p.difference is None for p in nothing.parts)


def test_entanglement_of_noise_is_near_zero():
    made = planted(Planted(n_items=(800,), n_concepts=150, n_own=15, seed=6))
    value, null = entanglement(made.data, 0, 0, n=100)
    assert -1 <= value.value <= 1
    assert abs(null.value) < 0.15
    assert null.low < null.value < null.high

"""Difficulty-adjusted gaps: hand-computed, against a dense transcription, planted."""

from __future__ import annotations

import numpy as np
import pytest
from lens_cases import make_data, planted, random_data
from scipy.stats import norm

from thetascope.gaps.adjusted import adjust, adjusted
from thetascope.gaps.moments import covariate_basis
from thetascope.gaps.others import (
    agreement,
    difficulty_residuals,
    other_models,
    slope_on_difficulty,
    twin_models,
)
from thetascope.gaps.performance import performance
from thetascope.gaps.residuals import residual_gaps, residual_sums, robust_tails


def test_agreement_by_hand() -> None:
    """8 items, 6 answered alike; means 1/2 and 1/2: expected 1/2, kappa 1 - (1/4) / (1/2)."""
    one = np.array([1, 1, 1, 1, 0, 0, 0, 0.0])
    two = np.array([1, 1, 1, 0, 1, 0, 0, 0.0])
    kappa, common = agreement(np.stack([one, two, 1 - one], axis=1))
    assert kappa[0, 1] == pytest.approx(0.5)
    assert kappa[0, 2] == pytest.approx(-1)
    assert kappa[0, 0] == pytest.approx(1)
    assert (common == 8).all()


def test_agreement_counts_common_items_only_and_knows_when_it_cannot_tell() -> None:
    scores = np.array([[1, 1, 1], [0, 0, 1], [1, np.nan, 1], [np.nan, 0, 1.0]])
    kappa, common = agreement(scores)
    assert kappa[0, 1] == pytest.approx(1)
    assert common[0, 1] == 2
    assert np.isnan(kappa[2, 2])  # always right: nothing is beyond chance


def test_agreement_of_graded_scores_falls_with_distance() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(300)
    near, far = np.clip(x + 0.05, 0, 1), np.clip(x + rng.normal(0, 0.3, 300), 0, 1)
    kappa, _ = agreement(np.stack([x, near, far, rng.random(300)], axis=1))
    assert kappa[0, 1] > kappa[0, 2] > kappa[0, 3]
    assert abs(kappa[0, 3]) < 0.15


def test_twins_by_name_and_by_answers() -> None:
    rng = np.random.default_rng(1)
    scores = (rng.random((200, 6)) < 0.5).astype(float)
    scores[:, 1] = scores[:, 0]
    scores[:3, 1] = 1 - scores[:3, 1]
    data = make_data(scores, np.ones((200, 1)))
    found = twin_models(data, {"m2": "same", "m3": "same"})
    expected = np.eye(6, dtype=bool)
    expected[0, 1] = expected[1, 0] = expected[2, 3] = expected[3, 2] = True
    assert (found == expected).all()


def test_slope_and_residuals_by_hand() -> None:
    """Six models, four items; the halves of model 0's others are read back from the means."""
    scores = np.array(
        [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 1, 0.0]]
    )
    others = other_models(scores, np.eye(6, dtype=bool), seed=3)
    own = scores[:, 1:] - scores[:, 1:].mean(axis=0)
    assert others.mean[:, 0] == pytest.approx(own.mean(axis=1))
    one, two = (h[:, 0] for h in others.half)
    assert (3 * one + 2 * two) / 5 == pytest.approx(own.mean(axis=1))
    s = scores[:, 0]
    cov = lambda x, y: float(((x - x.mean()) * (y - y.mean())).sum())  # noqa: E731
    slope = (cov(s, one) + cov(s, two)) / (2 * cov(one, two))
    assert slope_on_difficulty(scores, others)[0] == pytest.approx(slope)
    e, _ = difficulty_residuals(scores, others)
    mean = own.mean(axis=1)
    assert e[:, 0] == pytest.approx(s - s.mean() - slope * (mean - mean.mean()))


def test_the_curve_takes_off_what_bends_and_nothing_else() -> None:
    """A strong model beside weak ones: its score bends with theirs; concept 0 is on the hardest."""
    rng = np.random.default_rng(4)
    n = 6000
    difficulty = np.sort(rng.normal(0.0, 1.5, n))
    ability = np.r_[1.5, rng.normal(-0.5, 0.3, 30)]
    p = 1 / (1 + np.exp(-(ability - difficulty[:, None])))
    activations = np.zeros((n, 2))
    activations[-300:, 0] = 1.0
    own = rng.permutation(n)[:300]
    activations[own, 1] = 1.0
    p[own, 0] -= np.minimum(0.25, p[own, 0])
    data = make_data((rng.random(p.shape) < p).astype(float), activations)
    line, curve = (adjusted(data, curve=c, length=False)[0].table for c in (False, True))  # type: ignore[index]
    bent, straight = (t.filter(model="m0", concept=0)["z"].item() for t in (line, curve))
    assert abs(bent) > 5
    assert abs(straight) < 0.6 * abs(bent)
    kept = curve.filter(model="m0", concept=1)["gap"].item()
    assert kept == pytest.approx(line.filter(model="m0", concept=1)["gap"].item(), abs=0.02)
    assert kept < -0.15
    others = other_models(data.scores, np.eye(31, dtype=bool))
    a, b = (difficulty_residuals(data.scores, others, curve=c)[0][:, 0] for c in (False, True))
    o = others.mean[:, 0] - others.mean[:, 0].mean()
    assert b @ o == pytest.approx(a @ o)  # lambda stays
    assert b.sum() == pytest.approx(a.sum(), abs=1e-8)
    assert b @ (o**2 - o.var() - o * (o**3).sum() / (o @ o)) == pytest.approx(0, abs=1e-8)


def test_halves_are_disjoint_and_leave_twins_out() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random((40, 8))
    twins = np.eye(8, dtype=bool)
    twins[0, 1] = twins[1, 0] = True
    changed = scores.copy()
    changed[:, 1] = rng.random(40)  # the twin's answers do not matter to model 0
    a, b = (other_models(x, twins, seed=5) for x in (scores, changed))
    assert a.mean[:, 0] == pytest.approx(b.mean[:, 0])
    assert np.abs(a.mean[:, 2] - b.mean[:, 2]).max() > 1e-3


def test_lambda_is_not_drawn_to_zero_by_noisy_others() -> None:
    """Models that all follow one difficulty: lambda is 1 on average with 5 others as with 40."""
    rng = np.random.default_rng(3)
    p = np.clip(rng.normal(0.6, 0.2, 4000), 0.02, 0.98)
    for m in (6, 41):
        scores = (rng.random((4000, m)) < p[:, None]).astype(float)
        slope = slope_on_difficulty(scores, other_models(scores, np.eye(m, dtype=bool)))
        assert slope.mean() == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_sums_against_a_dense_transcription(length: bool, missing: float) -> None:
    data = random_data(missing=missing, graded=True)
    for b, part in enumerate(data.parts):
        sums = residual_sums(data, b, length=length)
        dense = data.activations.toarray()[part]
        for i in range(len(data.models)):
            rows = np.flatnonzero(np.isfinite(data.scores[part, i]))
            a, e = dense[rows], data.scores[part, i][rows]
            q = covariate_basis(data.n_tokens[part][rows], length)
            m = np.eye(len(rows)) - q @ q.T
            ma, me = m @ a, m @ e
            t, v = a.T @ me, np.square(ma).T @ np.square(me)
            assert np.abs(sums.t[1:, i] - t[1:]).max() < 1e-10
            assert np.abs(sums.v[1:, i] - v[1:]).max() < 1e-10
            v0 = (a * ma).sum(axis=0) * (me @ me) / (len(rows) - q.shape[1])
            assert np.abs(sums.v0[1:, i] - v0[1:]).max() < 1e-9
            third = len(rows) * (me**3).sum() / ((len(rows) - 1) * (len(rows) - 2))
            g = (ma**3).sum(axis=0) * third
            assert np.abs(sums.g[1:, i] - g[1:]).max() < 1e-8
            assert sums.t[0, i] == sums.v[0, i] == 0  # a constant activation
            assert np.abs(sums.residual[:, i] - a.T @ e).max() < 1e-10
            assert np.abs(sums.mass[:, i] - a.sum(axis=0)).max() < 1e-10
            assert np.abs(sums.square[:, i] - np.square(a).sum(axis=0)).max() < 1e-10
            assert (sums.n_active[:, i] == (a > 0).sum(axis=0)).all()


def test_the_table_is_made_of_the_sums() -> None:
    data = random_data(n=400, c=12, m=8)
    found = adjusted(data)
    assert found is not None
    assert [s.scope for s in found] == ["all", "b0", "b1"]
    residuals = data.with_scores(adjust(data).residuals)
    both = [residual_sums(residuals, b) for b in (0, 1)]
    row = found[0].table.row(by_predicate=None, index=7, named=True)
    c, i = row["concept"], data.models.index(row["model"])
    mass, t, v = (sum(getattr(s, k)[c, i] for s in both) for k in ("mass", "t", "v"))
    assert row["gap"] == pytest.approx(sum(s.residual[c, i] for s in both) / mass)
    assert row["effect"] == pytest.approx(t / mass)
    assert row["z"] == pytest.approx(t / v**0.5)
    v0, g = (sum(getattr(s, k)[c, i] for s in both) for k in ("v0", "g"))
    k, z = g / v0**1.5, row["z"]
    hall = z + k / 6 + k * z**2 / 3 + k**2 * z**3 / 27
    assert row["p_low"] == pytest.approx(max(norm.cdf(z), norm.cdf(hall)))
    assert row["p_high"] == pytest.approx(max(norm.sf(z), norm.sf(hall)))
    assert (found[0].table["n_eff"] >= 10).all()


def test_hard_for_everyone_and_own_gaps() -> None:
    """RULES M8: hard concepts keep about .01, an own gap of -.25 about -.22."""
    hard, own, hard_raw, hard_called, own_called, hard_raw_called = [], [], [], [], [], []
    for seed in range(6):
        data, everyone, mine = planted(seed)
        raw = performance(data)[0].table.filter(model="m0")
        found = adjusted(data)
        assert found is not None
        table = found[0].table.filter(model="m0")
        at = {c: k for k, c in enumerate(table["concept"].to_list())}
        gap, q = table["gap"].to_numpy(), table["q_low"].to_numpy()
        hard += gap[[at[c] for c in everyone.tolist()]].tolist()
        own += gap[[at[c] for c in mine.tolist()]].tolist()
        hard_called += (q[[at[c] for c in everyone.tolist()]] < 0.1).tolist()
        own_called += (q[[at[c] for c in mine.tolist()]] < 0.1).tolist()
        at = {c: k for k, c in enumerate(raw["concept"].to_list())}
        rows = [at[c] for c in everyone.tolist()]
        hard_raw += raw["effect"].to_numpy()[rows].tolist()
        hard_raw_called += (raw["q_low"].to_numpy()[rows] < 0.1).tolist()
    assert np.mean(hard_raw) < -0.15
    assert np.mean(hard_raw_called) > 0.9
    assert abs(np.mean(hard)) < 0.02
    assert np.mean(hard_called) < 0.1
    assert np.mean(own) <= -0.2
    assert np.mean(own_called) > 0.9


def test_z_is_standard_normal_where_models_have_no_gaps_of_their_own() -> None:
    data, _, _ = planted(11, c=200, drop=0.0)
    found = adjusted(data)
    assert found is not None
    z = found[0].table["z"].to_numpy()
    assert z.std() == pytest.approx(1.0, abs=0.06)
    assert abs(z.mean()) < 0.05


def test_no_false_families_where_right_answers_are_the_rule() -> None:
    """Mean .87, heavy-tailed activations, no gap: normal tails call strengths in most runs."""
    rng = np.random.default_rng(0)
    called, by_normal = [0, 0], 0
    for _ in range(20):
        n, c = 800, 300
        shape = (n, c)
        activations = rng.lognormal(sigma=1.2, size=shape) * (rng.random(shape) < 0.1)
        p = 1 / (1 + np.exp(-rng.normal(2.6, 1.3, n)))
        residual = ((rng.random((n, 6)) < p[:, None]) - p[:, None]).astype(float)
        (found,) = residual_gaps(make_data(residual, activations), residual, length=False)
        for m in found.table.partition_by("model"):
            called[0] += m["p_low"].min() < 0.05 / m.height  # type: ignore[operator]
            called[1] += m["p_high"].min() < 0.05 / m.height  # type: ignore[operator]
            by_normal += norm.sf(m["z"].max()) < 0.05 / m.height
    assert by_normal > 40  # of 120
    assert max(called) <= 6


def test_robust_tails_without_skewness_are_normal() -> None:
    z = np.array([-3.0, 0.0, 2.0])
    found = robust_tails(z, np.zeros(3))
    assert found.low == pytest.approx(norm.cdf(z))
    assert found.high == pytest.approx(norm.sf(z))


def test_under_five_others_nothing_is_reported() -> None:
    assert adjusted(random_data(m=5)) is None
    found = adjusted(random_data(m=6))
    assert found is not None
    assert (found[0].models["n_others"] == 5).all()
    by_name = adjusted(random_data(m=6), twins={"m0": "x", "m1": "x"})
    assert by_name is not None  # m2 to m5 still have five others
    assert by_name[0].models.filter(model="m0")["n_items"].item() == 0
    assert by_name[0].models.filter(model="m0")["twins"].item().to_list() == ["m1"]
    assert by_name[0].table.filter(model="m0").height == 0


def test_items_with_few_others_are_left_out_and_counted() -> None:
    data, _, _ = planted(n=200, m=7)
    scores = data.scores.copy()
    scores[:10, 2:] = np.nan  # model 0 has one other there
    found = adjusted(data.with_scores(scores))
    assert found is not None
    row = found[0].models.filter(model="m0").row(0, named=True)
    assert row["n_not_adjusted"] == 10
    assert row["n_items"] == 190


def test_the_same_seed_gives_the_same_halves() -> None:
    data = random_data()
    a, b, c = (adjust(data, seed=s).residuals for s in (0, 0, 1))
    assert np.array_equal(a, b, equal_nan=True)
    assert not np.array_equal(a, c, equal_nan=True)


def test_residual_gaps_of_one_benchmark_have_one_scope() -> None:
    data = random_data(benchmarks=1)
    assert [s.scope for s in residual_gaps(data, data.scores)] == ["b0"]

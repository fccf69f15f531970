"""Why one number is not enough: planted faults are found, noise alone is called noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logsumexp
from sklearn.isotonic import IsotonicRegression

import thetascope as ts
from thetascope.errors import InputError
from thetascope.predictors import ItemFeatures, Sample
from thetascope.predictors.diagnosis import (
    diagnose,
    diagnose_study,
    discrimination,
    load_diagnosis,
    monotone,
    noise,
    reversals,
)
from thetascope.predictors.diagnosis.discrimination import SHARES
from thetascope.predictors.diagnosis.monotone import isotonic, monotonicity
from thetascope.predictors.irt import responses_of
from thetascope.predictors.irt_fit import Prior, fit_unidimensional
from thetascope.study import MISSING, ResponseMatrix, Study

Array = NDArray[np.float64]
shares_of = discrimination.discrimination
count_reversals = reversals.reversals


def sample_of(score: NDArray, benchmark: NDArray[np.int64] | None = None) -> Sample:
    """A sample whose subjects are its benchmarks'."""
    n, m = score.shape
    code = np.zeros(n, np.int64) if benchmark is None else benchmark
    names = tuple(f"b{b}" for b in range(int(code.max()) + 1))
    ids = tuple(f"b{b}:{i}" for i, b in enumerate(code))
    items = ItemFeatures(ids, code, names, code, names)
    return Sample(items, ResponseMatrix(ids, tuple(f"m{k}" for k in range(m)), score))


def draw(p: Array, seed: int = 0) -> NDArray[np.uint8]:
    return (np.random.default_rng(seed).random(p.shape) < p).astype(np.uint8)


def two_pl(n: int, m: int, *, seed: int = 0, sd: float = 0.5) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return np.exp(sd * rng.normal(size=n)), 1.2 * rng.normal(size=n), rng.normal(size=m)


@pytest.mark.parametrize(("m", "sd"), [(25, 0.5), (29, 0.8), (60, 0.3)])
def test_noise_alone_is_called_noise(m: int, sd: float) -> None:
    """Whatever the spread of positive discriminations: a fixed one misses by a factor of two."""
    a, b, theta = two_pl(2000, m, seed=m, sd=sd)
    data = sample_of(draw(expit(a[:, None] * theta + b[:, None])), np.arange(2000) % 2)
    found = shares_of(data, bootstraps=10)
    assert found.sd_log_a is not None
    assert abs(found.sd_log_a - sd) < 0.1
    assert found.counts["counted"] > 1500
    for part in ("all", "b0", "b1"):
        for share in (found.shares[part]["negative"], found.shares[part]["weak"]):
            assert share.noise_mean is not None
            assert share.value is not None
            error = np.sqrt(max(share.value, 1 / share.n) / share.n)
            assert abs(share.value - share.noise_mean) < 3 * error, (part, share)
    assert found.shares["all"]["negative"].n == sum(
        found.shares[p]["negative"].n for p in ("b0", "b1")
    )
    assert sum(found.histogram["count"]) == found.counts["counted"]


def test_the_intercept_is_integrated_out() -> None:
    """The marginal of log a against a sum over a fine grid of intercepts."""
    a, b, theta = two_pl(12, 40, seed=2)
    data = responses_of(sample_of(draw(expit(a[:, None] * theta + b[:, None]), 2)))
    fit = fit_unidimensional(data, Prior())
    alpha = np.array([-3.0, -0.5, 0.5])
    found = noise._marginal(data, fit, None, alpha, slice(None))[0]
    grid = np.linspace(-12, 12, 4001)
    logits = np.exp(alpha)[:, None, None] * fit.theta + grid[:, None]
    for j in range(12):
        terms = (data.score[j] * logits - np.logaddexp(0, logits)).sum(axis=2)
        terms -= 0.5 * ((grid - fit.mean_b[0]) / fit.sd_b[0]) ** 2
        peer = logsumexp(terms, axis=1)
        np.testing.assert_allclose(np.diff(found[j]), np.diff(peer), atol=0.08)


def test_planted_negative_items_are_found_beyond_noise() -> None:
    a, b, theta = two_pl(500, 60, sd=0.2)
    a[:40] = -1.5
    b[:40] /= 2
    found = shares_of(sample_of(draw(expit(a[:, None] * theta + b[:, None]))), bootstraps=10)
    share = found.shares["all"]["negative"]
    assert share.noise_high is not None
    assert share.value is not None
    assert share.value > 2 * share.noise_high
    sure = found.surely_negative
    planted = {f"b0:{i}" for i in range(40)}
    assert len(planted & set(sure["item_id"])) > 25
    assert len(set(sure["item_id"]) - planted) <= 0.02 * 460
    upper = sure["a"] + 1.645 * sure["se"]
    assert upper.is_sorted()
    assert (upper < 0).all()


def test_few_models_and_equal_scores_are_not_counted() -> None:
    a, b, theta = two_pl(200, 30)
    score = draw(expit(a[:, None] * theta + b[:, None]))
    score[:10] = 1
    score[10:20, 5:] = MISSING
    score[20:25] = MISSING
    found = shares_of(sample_of(score), bootstraps=2)
    equal = found.counts["constant"]
    assert equal >= 10
    assert found.counts["without_responses"] == 5
    assert found.counts["too_few_models"] + equal >= 20
    kept = [v for k, v in found.counts.items() if k != "items"]
    assert sum(kept) == found.counts["items"] == 200
    assert found.items.filter(pl.col("a").is_not_null()).height == found.counts["counted"]
    few = shares_of(sample_of(score[:, :19]), bootstraps=2)
    assert few.why_not is not None
    assert "20 models" in few.why_not
    assert few.items["a"].null_count() == 200


def test_graded_noise_has_the_dispersion_of_the_scores() -> None:
    """Scores spread a quarter as much as right-or-wrong ones: so do those drawn."""
    a, b, theta = two_pl(300, 40)
    p = expit(a[:, None] * theta + b[:, None])
    score = np.random.default_rng(1).beta(3 * p, 3 * (1 - p)).astype(np.float32)
    found = shares_of(sample_of(score), bootstraps=5)
    assert found.dispersion is not None
    assert 0.2 < found.dispersion["b0"] < 0.3
    wrong = shares_of(sample_of(draw(p)), bootstraps=5)
    assert wrong.dispersion is None
    graded, plain = found.shares["all"]["weak"], wrong.shares["all"]["weak"]
    assert graded.noise_mean is not None
    assert plain.noise_mean is not None
    assert graded.noise_mean < plain.noise_mean + 0.01


def test_isotonic_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for k in (1, 2, 5, 10):
        n = rng.integers(1, 12, size=(20, k)).astype(float)
        total = np.floor(rng.random((20, k)) * (n + 1))
        found = isotonic(total, n)
        for row in range(20):
            peer = IsotonicRegression().fit_transform(
                np.arange(k), total[row] / n[row], sample_weight=n[row]
            )
            np.testing.assert_allclose(found[row], peer, atol=1e-12)


def test_the_statistic_on_two_bins_by_hand() -> None:
    """4 of 5, then 1 of 5: isotonic is 5 of 10 in both."""
    total, n = np.array([4.0, 1.0]), np.array([5.0, 5.0])
    free = 4 * np.log(0.8) + np.log(0.2) + np.log(0.2) + 4 * np.log(0.8)
    found = monotone.likelihood_ratio(total, n, isotonic(total, n))
    np.testing.assert_allclose(found, 2 * (free - 10 * np.log(0.5)))
    rising = np.array([1.0, 4.0])
    assert monotone.likelihood_ratio(rising, n, isotonic(rising, n)) == 0


def test_planted_curves_that_fall_are_found_and_others_are_not() -> None:
    a, b, theta = two_pl(400, 80, seed=3)
    logits = a[:, None] * theta + b[:, None]
    logits[:30] = 2.5 - 5 * (np.argsort(np.argsort(theta)) / 79)
    found = monotonicity(sample_of(draw(expit(logits), 3)))
    q, p = found.items["q"].to_numpy(), found.items["p"].to_numpy()
    assert np.mean(q[:30] < 0.05) > 0.8
    assert np.nansum(q[30:] < 0.05) <= 3
    assert found.curves
    for curve in found.curves:
        assert sum(curve["n"]) == 80
        assert np.diff(curve["rest"]).min() >= 0
        assert np.diff(curve["isotonic"]).min() >= -1e-12
    null = p[30:][np.isfinite(p[30:])]
    assert np.mean(null < 0.05) < 0.09


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_p_is_about_uniform_where_a_curve_is_monotone(strength: float) -> None:
    """Exact for weak items, cautious for strong ones, somewhat liberal where a curve is flat."""
    rng = np.random.default_rng(5)
    theta = rng.normal(size=60)
    good = draw(expit(2 * theta + rng.normal(size=(200, 1))), 6)
    score = np.concatenate([good, draw(np.tile(expit(strength * theta), (600, 1)), 7)])
    p = monotonicity(sample_of(score)).items["p"].to_numpy()[200:]
    top = 0.11 if strength == 0 else 0.07
    assert np.mean(p < 0.05) < top
    assert np.mean(p < 0.5) > 0.3


def test_curves_need_25_models_and_right_or_wrong_scores() -> None:
    a, b, theta = two_pl(60, 24)
    p = expit(a[:, None] * theta + b[:, None])
    few = monotonicity(sample_of(draw(p)))
    assert few.why_not is not None
    assert "25 models" in few.why_not
    assert few.items["p"].null_count() == 60
    graded = monotonicity(sample_of(np.repeat(p, 2, axis=1).astype(np.float32)))
    assert graded.why_not is not None
    assert "graded" in graded.why_not
    score = draw(np.repeat(p, 2, axis=1))
    score[:30, 24:] = MISSING
    score[40] = 0
    some = monotonicity(sample_of(score))
    assert some.why_not is None
    assert some.items["p"][:30].null_count() == 30
    assert some.items["p"][40] is None


def test_reversals_by_hand() -> None:
    """m0 leads m1 on b0 by 1 - 0.5 and trails it on b1; m2 equals m0."""
    half = np.arange(40) % 2
    score = np.zeros((80, 3), np.uint8)
    score[:40, 0], score[:40, 1] = 1, half
    score[40:, 0], score[40:, 1] = half, 1
    score[:, 2] = score[:, 0]
    found = count_reversals(sample_of(score, np.arange(80) // 40), np.arange(80))
    assert (found.n, found.flipped, found.surely_flipped, found.both_sure) == (3, 2, 2, 2)
    assert found.not_compared == 0
    best = found.examples[0]
    assert (best.first, best.second) == ("m0", "m1")
    assert (best.ahead.part, best.behind.part) == ("b0", "b1")
    assert best.ahead.difference == 0.5
    np.testing.assert_allclose(best.ahead.se, np.std(half, ddof=1) / np.sqrt(40))
    assert found.noise_surely_flipped is not None
    assert found.noise_surely_flipped[0] < 0.05


def test_standard_errors_are_over_groups_and_common_items() -> None:
    rng = np.random.default_rng(0)
    score = rng.integers(0, 2, (60, 4)).astype(np.uint8)
    score[rng.random((60, 4)) < 0.2] = MISSING
    group = rng.integers(0, 35, 60)
    data = sample_of(score)
    seen = data.responses.observed
    filled = data.responses.filled().astype(float)
    code = np.zeros(60, np.int64)
    mean, se, size = reversals._differences(filled, seen.astype(float), code, group, 1)
    for i in range(4):
        for k in range(4):
            if i == k:
                continue
            both = seen[:, i] & seen[:, k]
            d = filled[both, i] - filled[both, k]
            parts = np.unique(group[both])
            sums = np.array([(d - d.mean())[group[both] == g].sum() for g in parts])
            peer = np.sqrt(np.sum(sums**2) * len(parts) / (len(parts) - 1)) / len(d)
            np.testing.assert_allclose([mean[0, i, k], se[0, i, k]], [d.mean(), peer])
            assert size[0, i, k] == both.sum()


def test_one_order_of_models_flips_no_more_than_noise() -> None:
    a, b, theta = two_pl(800, 25, seed=8, sd=0.1)
    score = draw(expit(a[:, None] * theta + b[:, None]), 8)
    found = count_reversals(sample_of(score, np.arange(800) % 4), np.arange(800))
    assert found.noise_flipped is not None
    assert found.noise_surely_flipped is not None
    assert abs(found.flipped / found.n - found.noise_flipped[0]) < 0.03
    assert found.surely_flipped / found.n < 0.005


def test_dealing_anew_keeps_groups_whole_and_sizes() -> None:
    rng = np.random.default_rng(0)
    code, group = np.sort(rng.integers(0, 3, 300)), rng.integers(0, 150, 300)
    _, group = np.unique(group, return_inverse=True)
    dealt = reversals._deal(code, group, rng)
    for g in range(int(group.max()) + 1):
        assert len(set(dealt[group == g])) == 1
    assert np.abs(np.bincount(dealt, minlength=3) - np.bincount(code)).max() <= 8


def table_study(score: NDArray, benchmarks: int = 2) -> Study:
    n, m = score.shape
    rows = [
        {"item_id": f"b{i % benchmarks}:{i}", "model": f"m{k}", "score": float(score[i, k])}
        for i in range(n)
        for k in range(m)
    ]
    return Study.from_tables(pl.DataFrame(rows))


@pytest.mark.parametrize(
    ("score", "benchmarks"),
    [
        (np.ones((6, 1)), 1),
        (np.ones((40, 4)), 2),
        (np.eye(30), 1),
        (np.linspace(0, 1, 120).reshape(40, 3), 2),
        (np.array([[1.0, 0.0]]), 1),
    ],
    ids=["one_model", "constant", "one_benchmark", "graded", "one_item"],
)
def test_what_a_study_is_too_small_for_says_so(score: NDArray, benchmarks: int) -> None:
    found = diagnose(table_study(score, benchmarks), bootstraps=2).to_json()
    small = found["discrimination"]["why_not"] or found["study"]["n_models"] >= 20
    assert small
    assert found["monotonicity"]["why_not"] or found["study"]["n_models"] >= 25
    if benchmarks == 1 or score.shape[1] == 1:
        assert found["reversals"]["why_not"]
    assert found["losses"]["why_not"] or found["losses"]["rows"]
    assert set(found["losses"]["left_out"]) == {
        "mirt_text",
        "jeirt_context" if benchmarks > 1 else "jeirt",
    }


def test_settings_out_of_range_are_refused() -> None:
    study = table_study(np.eye(6))
    for wrong in ({"seeds": 11}, {"bootstraps": -1}, {"seed": -1}):
        with pytest.raises(InputError, match="expected"):
            ts.diagnose(study, **wrong)


def test_a_diagnosis_is_kept_and_found_again(tmp_path: Path) -> None:
    a, b, theta = two_pl(120, 26)
    score = draw(expit(a[:, None] * theta + b[:, None]))
    study = table_study(score).save(tmp_path / "study")
    first = diagnose_study(tmp_path / "study", bootstraps=2)
    assert first.new
    again = diagnose_study(tmp_path / "study", bootstraps=2)
    assert again == (first.folder, False)
    saved = load_diagnosis(Study.open(tmp_path / "study"))
    fresh = diagnose(study, bootstraps=2)
    assert saved.table["discrimination"] == fresh.discrimination.to_json()
    assert saved.table["monotonicity"] == fresh.monotonicity.to_json()
    assert {r["predictor"] for r in saved.table["losses"]["rows"]} == {
        "irt_1pl", "irt_2pl", "mirt"
    }  # fmt: skip
    assert saved.items.equals(fresh.items)
    assert all(set(v) == set(SHARES) for v in saved.table["discrimination"]["shares"].values())
    other = diagnose_study(tmp_path / "study", bootstraps=3)
    assert other.new
    table_study(score[:, :25]).save(tmp_path / "study")
    with pytest.raises(ts.ThetascopeError, match="thetascope diagnose"):
        load_diagnosis(Study.open(tmp_path / "study"))

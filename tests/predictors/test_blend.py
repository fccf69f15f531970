"""The default predictor, its features, and forecasts of a mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from predictor_cases import halves, make_sample
from scipy.special import expit

from thetascope.errors import InputError
from thetascope.evaluation.splits import Cells
from thetascope.predictors import Sample, make_predictor
from thetascope.predictors.base import NEW, new_items, validation_loss
from thetascope.predictors.blend import COLD, WARM, Blend, Extension, stack
from thetascope.predictors.forecast import MeanInterval, forecast
from thetascope.predictors.surface import SURFACE, surface
from thetascope.study import MISSING


def test_surface_features_are_what_their_names_say() -> None:
    text = 'How many? "12.5" and 3,\n$x$ = (A)\\b'
    found = dict(zip(SURFACE, surface([text])[0].tolist(), strict=True))
    assert found["log characters"] == pytest.approx(np.log1p(len(text)))
    assert found["log words"] == pytest.approx(np.log1p(8))
    assert found["digits per character"] == pytest.approx(4 / len(text))
    assert found["capitals per character"] == pytest.approx(2 / len(text))
    assert found["log lines"] == pytest.approx(np.log1p(1))
    assert found["log dollar signs"] == pytest.approx(np.log1p(2))
    assert found["log backslashes"] == pytest.approx(np.log1p(1))
    assert found["log operators"] == pytest.approx(np.log1p(1))
    assert found["log numbers"] == pytest.approx(np.log1p(2))
    assert found["log commas"] == pytest.approx(np.log1p(1))
    assert found["ends with a question mark"] == 0
    assert surface(["So?  "])[0, -1] == 1
    assert np.isfinite(surface(["", " ", "\n", "é" * 10_000, "\ud800"])).all()
    assert surface([]).shape == (0, len(SURFACE))


def test_the_extension_appends_standardised_features_and_the_subject() -> None:
    sample = make_sample()
    rng = np.random.default_rng(0)
    items = replace(
        sample.items, surface=(5 + 3 * rng.random((len(sample.items), 16))).astype(np.float32)
    )
    extension = Extension(items, "blend")
    longer = extension(items).vectors
    assert longer is not None
    assert items.vectors is not None
    assert (longer[:, :12] == items.vectors).all()
    np.testing.assert_allclose(longer[:, 12:28].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(longer[:, 12:28].std(axis=0), 0.2, rtol=1e-4)
    assert (longer[:, 28:].sum(axis=1) == 1).all()
    elsewhere = replace(items, subjects=tuple(f"other/{s}" for s in items.subjects))
    unknown = extension(elsewhere).vectors
    assert unknown is not None
    assert (unknown[:, 28:] == 0).all()
    with pytest.raises(InputError, match="learnt from texts and some of these items have none"):
        extension(sample.items)


def test_weights_find_the_better_member_and_stay_home_with_few_items() -> None:
    sample = make_sample(n=600, density=1.0)
    rng = np.random.default_rng(1)
    score = sample.responses.scores
    good = np.where(score == 1, 1.0, -1.0) + rng.normal(size=score.shape)
    noise = rng.normal(size=score.shape)
    start = np.array([0.5, 0.5])
    logits = np.stack([good, noise])
    found = stack(logits, sample, start, 20.0)
    assert found.sum() == pytest.approx(1)
    assert found[0] > 0.85
    few = sample.take(Cells(np.arange(4)))
    assert abs(stack(logits[:, :4], few, start, 20.0)[0] - 0.5) < 0.1


def test_weights_are_the_minimum_on_the_simplex() -> None:
    sample = make_sample(n=300)
    rng = np.random.default_rng(2)
    seen = sample.responses.observed
    right = np.where(sample.responses.scores == 1, 1.0, -1.0)
    logits = np.stack([0.3 * right + rng.normal(size=seen.shape) for _ in range(2)])
    start = np.array([0.2, 0.8])
    found = stack(logits, sample, start, 5.0)

    def loss(w: float) -> float:
        p = expit(w * logits[0] + (1 - w) * logits[1])
        return validation_loss(p, sample.responses) + 5 / 300 * 2 * (w - 0.2) ** 2

    grid = np.linspace(0, 1, 2001)
    best = grid[np.argmin([loss(w) for w in grid])]
    assert found[0] == pytest.approx(best, abs=2e-3)


def test_where_it_starts_sums_to_one() -> None:
    assert sum(COLD.values()) == sum(WARM.values()) == 1


def test_items_with_responses_bring_in_mirt() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sample = make_sample(n=120, density=1.0)
    mask = np.random.default_rng(1).random(sample.responses.scores.shape) < 0.8
    every = np.arange(120)
    train, held = sample.take(Cells(every, mask)), sample.take(Cells(every, ~mask))
    blend = Blend(fits=2, max_epochs=3).fit(train, held)
    assert set(blend.members_) == {"jeirt", "mirt_text", "mirt", "knn_weighted"}
    assert len(blend.members_["jeirt"]) == 1
    cold = Blend(fits=2, max_epochs=3).fit(*halves(sample))
    assert set(cold.members_) == {"jeirt", "mirt_text", "knn_weighted"}
    assert len(cold.members_["jeirt"]) == 2


@pytest.mark.parametrize("fits", [0, -1, 1.5])
def test_a_wrong_number_of_fits_is_named(fits: int) -> None:
    with pytest.raises(InputError, match="fits"):
        Blend(fits=fits)


def _calibrated(seed: int, n: int, m: int = 12, shift: float = 0.0) -> tuple[np.ndarray, Sample]:
    """Predictions and scores drawn from them, off by a normal shift on every benchmark."""
    rng = np.random.default_rng(seed)
    sample = make_sample(n=n, m=m, density=1.0, benchmarks=6)
    p = rng.beta(2, 1.5, (n, m))
    off = shift * rng.normal(size=(6, m))
    score = rng.random((n, m)) < np.clip(p + off[sample.items.benchmark], 0, 1)
    return p, Sample(sample.items, replace(sample.responses, scores=score.astype(np.uint8)))


def test_moments_are_recovered() -> None:
    p, sample = _calibrated(0, 6000, 40)
    exact = MeanInterval.learn(p, sample)
    assert exact.dispersion == pytest.approx(1, abs=0.02)
    assert exact.shift < 0.01
    p, sample = _calibrated(1, 6000, 40, shift=0.06)
    assert MeanInterval.learn(p, sample).shift == pytest.approx(0.057, abs=0.012)


@pytest.mark.parametrize("shift", [0.0, 0.06])
def test_the_interval_covers(shift: float) -> None:
    inside: list[bool] = []
    for seed in range(30):
        p, sample = _calibrated(100 + seed, 900, 12, shift)
        learnt = MeanInterval.learn(p[:600], sample.take(Cells(np.arange(600))))
        test = np.flatnonzero(sample.items.benchmark[600:] == 2) + 600
        found = learnt.of(p[test], sample.items.benchmark[test])
        mean = sample.responses.scores[test].mean(axis=0)
        inside += ((found.low <= mean) & (mean <= found.high)).tolist()
    assert 0.91 < np.mean(inside) < 0.985


def test_near_duplicates_count_once() -> None:
    learnt = MeanInterval(("a",), 1.0, 0.0)
    p, benchmark = np.full((60, 1), 0.4), np.zeros(60, np.int64)
    alone = learnt.of(p, benchmark)
    pairs = learnt.of(p, benchmark, np.arange(60) // 2)
    thirty = learnt.of(p[:30], benchmark[:30])
    assert pairs.high[0] == pytest.approx(thirty.high[0])
    assert alone.high[0] < pairs.high[0]


def test_graded_scores_narrow_it() -> None:
    p, sample = _calibrated(3, 500)
    rng = np.random.default_rng(3)
    graded = np.clip(p + 0.05 * rng.normal(size=p.shape), 0, 1).astype(np.float32)
    learnt = MeanInterval.learn(p, Sample(sample.items, replace(sample.responses, scores=graded)))
    assert learnt.dispersion < 0.1


def test_a_response_that_is_missing_counts_nowhere() -> None:
    p, sample = _calibrated(4, 400)
    hidden = sample.responses.scores.copy()
    hidden[::3] = MISSING
    other = np.where(hidden == MISSING, MISSING, hidden)
    learnt = MeanInterval.learn(p, Sample(sample.items, replace(sample.responses, scores=other)))
    kept = np.flatnonzero(np.arange(400) % 3 != 0)
    alone = MeanInterval.learn(p[kept], sample.take(Cells(kept)))
    assert learnt.dispersion == pytest.approx(alone.dispersion)
    assert learnt.shift == pytest.approx(alone.shift)


def test_new_questions_of_a_known_benchmark_and_of_none() -> None:
    train, held = halves(make_sample(n=400))
    vectors = np.zeros((3, 12), np.float32)
    items = new_items(
        train.items, ["a?", "b", "c"], vectors, ["b1", None, "b0"], [None, None, "s1"]
    )
    assert [items.benchmarks[b] for b in items.benchmark] == ["b1", NEW, "b0"]
    assert [items.subjects[s] for s in items.subject] == ["b1", NEW, "b0/s1"]
    predictor = make_predictor("mirt_text").fit(train, held)
    learnt = MeanInterval.learn(predictor.predict_proba(held.items), held)
    found = forecast(predictor, learnt, items)
    assert found.n == 3
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()
    with pytest.raises(InputError, match="'b9' is no benchmark of the study"):
        new_items(train.items, ["a"], vectors[:1], ["b9"], [None])
    with pytest.raises(InputError, match="'s9' is no subject of 'b1'"):
        new_items(train.items, ["a"], vectors[:1], ["b1"], ["s9"])
    with pytest.raises(InputError, match="there are no questions"):
        forecast(predictor, learnt, items.take(np.zeros(0, np.int64)))


def test_a_feature_outside_the_training_range_counts_as_its_end() -> None:
    """A feature that no training item has would else be millions of deviations away."""
    items = make_sample().items
    rng = np.random.default_rng(0)
    values = rng.random((len(items), 16)).astype(np.float32)
    values[:, 3] = 0
    extension = Extension(replace(items, surface=values), "blend")
    odd = np.tile(values[:1], (len(items), 1))
    odd[:, 3], odd[:, 5], odd[:, 6] = 4.0, 9.0, -9.0
    made = extension(replace(items, surface=odd)).vectors
    assert made is not None
    assert items.vectors is not None
    found = made[0, items.vectors.shape[1] :][:16]
    assert found[3] == 0
    scale = np.maximum(values.std(axis=0), 1e-6)
    ends = 0.2 * (values.max(axis=0) - values.mean(axis=0)) / scale
    assert found[5] == pytest.approx(ends[5], rel=1e-4)
    low = 0.2 * (values.min(axis=0) - values.mean(axis=0)) / scale
    assert found[6] == pytest.approx(low[6], rel=1e-4)
    inside = extension(replace(items, surface=values)).vectors
    assert inside is not None
    expected = 0.2 * (values - values.mean(axis=0)) / scale
    np.testing.assert_allclose(inside[:, items.vectors.shape[1] :][:, :16], expected, atol=1e-5)

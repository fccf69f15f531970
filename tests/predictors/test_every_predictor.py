"""What every predictor must do, whatever it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from predictor_cases import halves, make_sample, with_weights

from thetascope.errors import InputError
from thetascope.evaluation.splits import Cells
from thetascope.predictors import PREDICTORS, ItemFeatures, Predictor, Sample, make_predictor
from thetascope.predictors.base import validation_loss
from thetascope.predictors.registry import NEEDS_TORCH
from thetascope.predictors.ridge import Ridge

QUICK = {
    "jeirt": {"max_epochs": 8, "dim": 8, "batch_items": 16, "learning_rate": 5e-3},
    "jeirt_context": {"max_epochs": 8, "dim": 8, "batch_items": 16, "learning_rate": 5e-3},
    "blend": {"max_epochs": 8, "fits": 2},
    "embedllm": {"max_epochs": 8, "dim": 8, "batch_items": 16},
}
EVERY = pytest.mark.parametrize("name", list(PREDICTORS))


def quick(name: str) -> Predictor:
    if name in NEEDS_TORCH:
        pytest.importorskip("torch", reason="torch is not installed")
    return make_predictor(name, **QUICK.get(name, {}))


@EVERY
@pytest.mark.parametrize("graded", [False, True])
def test_predicts_chances_for_items_never_seen(name: str, graded: bool) -> None:
    train, held = halves(make_sample(graded=graded))
    predictor = quick(name)
    assert predictor.fit(train, held) is predictor
    p = predictor.predict_proba(held.items)
    assert p.shape == (len(held.items), 7)
    assert np.isfinite(p).all()
    assert ((p > 0) & (p < 1)).all()
    assert predictor.models_ == train.responses.models


@EVERY
def test_learns_something(name: str) -> None:
    """Better than saying the overall mean for everything."""
    train, held = halves(make_sample(n=800, seed=3))
    predictor = quick(name)
    if name in NEEDS_TORCH:
        predictor.max_epochs = 40  # type: ignore[attr-defined]
    p = predictor.fit(train, held).predict_proba(held.items)
    mean = train.responses.scores[train.responses.observed].mean()
    flat = np.full(p.shape, mean)
    assert validation_loss(p, held.responses) < validation_loss(flat, held.responses)


@EVERY
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    train, held = halves(make_sample())
    first = quick(name).fit(train, held).predict_proba(held.items)
    second = quick(name).fit(train, held).predict_proba(held.items)
    assert (first == second).all()


@EVERY
@pytest.mark.parametrize("warm", [False, True])
def test_a_loaded_fit_predicts_exactly_what_it_did(name: str, warm: bool, tmp_path: Path) -> None:
    train, held = halves(make_sample())
    predictor = quick(name).fit(train, train if warm else held)
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        predictor.save(folder)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
    loaded = type(predictor).load(tmp_path / "a")
    for items in (train.items, held.items):
        assert (loaded.predict_proba(items) == predictor.predict_proba(items)).all()
    assert loaded.get_params() == predictor.get_params()
    assert loaded.choices == predictor.choices
    assert (Predictor.load(tmp_path / "a").predict_proba(held.items)
            == predictor.predict_proba(held.items)).all()  # fmt: skip
    loaded.save(tmp_path / "b")
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_a_damaged_fit_is_one_line(tmp_path: Path) -> None:
    train, held = halves(make_sample())
    fit = make_predictor("knn_weighted").fit(train, held)
    fit.save(tmp_path)
    with pytest.raises(InputError, match="is a fit of knn_weighted, expected Ridge"):
        Ridge.load(tmp_path)
    config, weights = (tmp_path / n for n in ("config.json", "weights.safetensors"))
    whole, tensors = config.read_text(), weights.read_bytes()
    for broken in ("{", "[]", whole.replace("WeightedKNN", "Path"), whole.replace("_unit", "_u"),
                   whole.replace('"state"', '"stat"'), "\udcff"):  # fmt: skip
        config.write_bytes(broken.encode("utf-8", "surrogateescape"))
        with pytest.raises(InputError, match="fit") as error:
            Predictor.load(tmp_path).predict_proba(held.items)
        assert "\n" not in str(error.value)
    config.write_text(whole)
    for cut in (0, 5, len(tensors) // 2, len(tensors) - 1):
        weights.write_bytes(tensors[:cut])
        with pytest.raises(InputError, match=r"weights\.safetensors is damaged"):
            Predictor.load(tmp_path)
    weights.unlink()
    with pytest.raises(InputError, match="is no readable fit"):
        Predictor.load(tmp_path)


@EVERY
def test_a_prediction_does_not_depend_on_the_company(name: str) -> None:
    train, held = halves(make_sample())
    predictor = quick(name).fit(train, held)
    together = predictor.predict_proba(held.items)
    alone = predictor.predict_proba(held.items.take(np.array([5])))
    np.testing.assert_allclose(alone[0], together[5], rtol=1e-5)


@EVERY
def test_the_order_of_models_is_kept(name: str) -> None:
    """A model that is always right is predicted better than one that is always wrong."""
    sample = make_sample(density=1.0)
    scores = sample.responses.scores.copy()
    scores[:, 2], scores[:, 4] = 1, 0
    changed = Sample(sample.items, sample.responses.__class__(
        sample.responses.item_ids, sample.responses.models, scores))  # fmt: skip
    train, held = halves(changed)
    predictor = quick(name)
    if name in NEEDS_TORCH:
        predictor.max_epochs = 40  # type: ignore[attr-defined]
    p = predictor.fit(train, held).predict_proba(held.items).mean(axis=0)
    assert p[2] == max(p)
    assert p[4] == min(p)


@EVERY
def test_never_looks_at_what_is_masked(name: str) -> None:
    """Scores under the mask may be anything."""
    sample = make_sample(density=1.0)
    mask = np.random.default_rng(0).random(sample.responses.scores.shape) < 0.7
    cells = Cells(np.arange(len(sample.items)), mask)
    other = sample.responses.scores.copy()
    other[~mask] = 1 - other[~mask]
    flipped = Sample(sample.items, sample.responses.__class__(
        sample.responses.item_ids, sample.responses.models, other))  # fmt: skip
    a = quick(name).fit(sample.take(cells), None).predict_proba(sample.items)
    b = quick(name).fit(flipped.take(cells), None).predict_proba(sample.items)
    assert (a == b).all()


@EVERY
def test_a_model_without_any_response_gets_a_prediction(name: str) -> None:
    sample = make_sample()
    mask = np.ones(sample.responses.scores.shape, bool)
    mask[:, 3] = False
    cells = Cells(np.arange(len(sample.items)), mask)
    p = quick(name).fit(sample.take(cells), None).predict_proba(sample.items)
    assert np.isfinite(p[:, 3]).all()


@EVERY
def test_items_that_nobody_answered_are_no_reason_to_fail(name: str) -> None:
    sample = make_sample()
    mask = np.ones(sample.responses.scores.shape, bool)
    mask[:30] = False
    cells = Cells(np.arange(len(sample.items)), mask)
    assert np.isfinite(quick(name).fit(sample.take(cells), None).predict_proba(sample.items)).all()


@EVERY
def test_one_model_one_benchmark(name: str) -> None:
    train, held = halves(make_sample(m=1, benchmarks=1))
    p = quick(name).fit(train, held).predict_proba(held.items)
    assert p.shape == (len(held.items), 1)


@pytest.mark.parametrize("name", ["jeirt", "jeirt_context", "embedllm"])
def test_trials_weigh_in_the_likelihood(name: str) -> None:
    sample = make_sample(density=1.0)
    weights = np.ones(sample.responses.scores.shape)
    heavy = weights.copy()
    heavy[sample.responses.scores == 1] = 50
    light = quick(name).fit(with_weights(sample, weights), None).predict_proba(sample.items)
    loaded = quick(name).fit(with_weights(sample, heavy), None).predict_proba(sample.items)
    plain = quick(name).fit(sample, None).predict_proba(sample.items)
    np.testing.assert_allclose(light, plain, rtol=1e-6)
    assert loaded.mean() > plain.mean() + 0.02


@pytest.mark.parametrize("name", [n for n, p in PREDICTORS.items() if "vectors" in p.NEEDS])
def test_without_vectors_says_what_to_do(name: str) -> None:
    sample = make_sample()
    items = ItemFeatures(
        sample.items.ids, sample.items.benchmark, sample.items.benchmarks, sample.items.subject,
        sample.items.subjects,
    )  # fmt: skip
    with pytest.raises(InputError, match="predicts from text vectors and the study has none"):
        quick(name).fit(Sample(items, sample.responses), None)


@pytest.mark.parametrize("name", [n for n, p in PREDICTORS.items() if "vectors" in p.NEEDS])
def test_an_item_without_text_cannot_be_predicted_and_is_counted(name: str) -> None:
    sample = make_sample()
    predictor = quick(name).fit(sample, None)
    has = np.ones(len(sample.items), bool)
    has[[4, 9]] = False
    items = sample.items.take(np.arange(len(sample.items)))
    object.__setattr__(items, "has_vector", has)
    object.__setattr__(items, "ids", tuple(f"new {i}" for i in items.ids))
    with pytest.raises(InputError, match="cannot predict 2 of 240 items that have no text"):
        predictor.predict_proba(items)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(InputError, match="no predictor 'knm'; there are blend, jeirt"):
        make_predictor("knm")

"""JE-IRT against a slow literal transcription, its theorems, and its life on disk."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from predictor_cases import halves, make_sample

from thetascope.errors import InputError
from thetascope.predictors import JEIRT, PRESETS, ContextJEIRT, PlainJEIRT
from thetascope.predictors.means import benchmark_means, clipped_means

torch = pytest.importorskip("torch", reason="torch is not installed")
from thetascope.predictors import jeirt_training as training  # noqa: E402

FINITE = st.floats(-4, 4, width=32)


def literal_probability(
    weights: dict[str, np.ndarray], vector: np.ndarray, model: int, offset: float = 0.0
) -> float:
    """The response model, one number at a time."""
    hidden = [
        max(0.0, sum(w * e for w, e in zip(row, vector, strict=True)) + b)
        for row, b in zip(weights["adapter.0.weight"], weights["adapter.0.bias"], strict=True)
    ]
    q = [
        sum(w * h for w, h in zip(row, hidden, strict=True)) + b
        for row, b in zip(weights["adapter.2.weight"], weights["adapter.2.bias"], strict=True)
    ]
    norm = math.sqrt(sum(x * x for x in q))
    ability = sum(x * m for x, m in zip(q, weights["models"][model], strict=True)) / norm
    return 1 / (1 + math.exp(-(offset + ability - norm)))


def test_forward_equals_the_literal_transcription() -> None:
    train, held = halves(make_sample(d=6))
    fit = PlainJEIRT(dim=5, hidden=9, max_epochs=3).fit(train, held)
    p = fit.predict_proba(held.items)
    assert held.items.vectors is not None
    for j in range(0, len(held.items), 9):
        for i in range(7):
            expected = literal_probability(fit.weights_, held.items.vectors[j], i)
            assert p[j, i] == pytest.approx(expected, abs=1e-6)


def test_context_forward_equals_the_literal_transcription() -> None:
    train, held = halves(make_sample(d=6))
    fit = ContextJEIRT(dim=5, hidden=9, max_epochs=3).fit(train, held)
    p, means = fit.predict_proba(held.items), benchmark_means(train)
    assert held.items.vectors is not None
    for j in range(0, len(held.items), 9):
        for i in range(7):
            mean = means[i, held.items.benchmark[j]]
            offset = math.log(mean / (1 - mean)) + float(fit.weights_["offset"][0])
            expected = literal_probability(fit.weights_, held.items.vectors[j], i, offset)
            assert p[j, i] == pytest.approx(expected, abs=1e-6)


def test_a_benchmark_never_seen_gets_the_models_mean() -> None:
    sample = make_sample()
    known = np.flatnonzero(sample.items.benchmark != 2)
    train = sample.take(training_cells(known))
    fit = ContextJEIRT(dim=4, max_epochs=2).fit(train, None)
    offsets = fit._offsets(sample.items)
    np.testing.assert_allclose(
        1 / (1 + np.exp(-offsets[sample.items.benchmark == 2])),
        np.tile(clipped_means(train), ((sample.items.benchmark == 2).sum(), 1)),
    )


def training_cells(items: np.ndarray):
    from thetascope.evaluation.splits import Cells

    return Cells(items)


def test_torch_forward_equals_numpy_forward() -> None:
    train, held = halves(make_sample())
    fit = ContextJEIRT(dim=8, max_epochs=2).fit(train, held)
    data = training.to_tensors(held, fit.offset_, "cpu")
    parameters = {k: torch.from_numpy(v) for k, v in fit.weights_.items()}
    logits = training.forward(
        parameters, data.vectors, training._offset(data, torch.arange(60)), None
    )
    np.testing.assert_allclose(
        torch.sigmoid(logits).numpy(), fit.predict_proba(held.items), atol=2e-6
    )


def test_gradients_equal_the_literal_derivatives() -> None:
    """By the chain rule, written out in double precision for |q| >= .01."""
    rng = np.random.default_rng(0)
    q = torch.tensor(rng.normal(size=(5, 3)), dtype=torch.float64)
    identity = {
        "adapter.0.weight": torch.cat([torch.eye(3), -torch.eye(3)]).double(),
        "adapter.0.bias": torch.zeros(6).double(),
        "adapter.2.weight": torch.cat([torch.eye(3), -torch.eye(3)], dim=1).double(),
        "adapter.2.bias": torch.zeros(3).double(),
        "models": torch.tensor(rng.normal(size=(4, 3)), dtype=torch.float64, requires_grad=True),
        "offset": torch.zeros(1).double(),
    }
    vectors = q.clone().requires_grad_()
    scores = torch.tensor(rng.integers(0, 2, (5, 4)), dtype=torch.uint8)
    scores[0, 0] = 255
    loss, weight = training.batch_loss(
        training.forward(identity, vectors, None, None), scores, None
    )
    (loss / weight).backward()
    m = identity["models"].detach().numpy()
    grad_q, grad_m = np.zeros((5, 3)), np.zeros((4, 3))
    for j, vector in enumerate(q.numpy()):
        r = np.linalg.norm(vector)
        u = vector / r
        for i in range(4):
            if scores[j, i] == 255:
                continue
            p = 1 / (1 + np.exp(-(u @ m[i] - r)))
            error = (p - float(scores[j, i])) / float(weight)
            grad_m[i] += error * u
            grad_q[j] += error * ((m[i] - (u @ m[i]) * u) / r - u)
    assert float(weight) == 19
    np.testing.assert_allclose(vectors.grad.numpy(), grad_q, atol=1e-6)
    np.testing.assert_allclose(identity["models"].grad.numpy(), grad_m, atol=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-8, 1e-6, 1e-3])
def test_the_norm_is_guarded_at_zero(size: float) -> None:
    parameters = {
        "adapter.0.weight": torch.eye(3),
        "adapter.0.bias": torch.zeros(3),
        "adapter.2.weight": torch.eye(3) * size,
        "adapter.2.bias": torch.zeros(3),
        "models": torch.randn((4, 3), generator=torch.Generator().manual_seed(0)),
        "offset": torch.zeros(1),
    }
    for p in parameters.values():
        p.requires_grad_()
    logits = training.forward(parameters, torch.ones((2, 3)), None, None)
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    for name, p in parameters.items():
        assert p.grad is None or torch.isfinite(p.grad).all(), name


@pytest.mark.parametrize("share", [0.1, 0.4, 0.5, 0.99])
def test_dropout_keeps_the_mean(share: float) -> None:
    mask = training.dropout_mask(333, 777, share, torch.Generator().manual_seed(0)).numpy()
    assert mask.shape == (333, 777)
    assert set(np.unique(mask)) == {0.0, mask.max()}
    assert (mask == 0).mean() == pytest.approx(share, abs=0.005)
    assert mask.mean() == pytest.approx(1.0, abs=0.05)
    assert abs(np.corrcoef(mask[:, :-1].ravel(), mask[:, 1:].ravel())[0, 1]) < 0.01


@given(arrays(np.float64, (2, 4), elements=FINITE))
def test_no_total_order(models: np.ndarray) -> None:
    """For any two models some direction puts either first."""
    difference = models[0] - models[1]
    if np.linalg.norm(difference) < 1e-3:
        return
    u = difference / np.linalg.norm(difference)
    for r in (0.1, 1.0, 5.0):
        assert _chance(models[0], u, r) > _chance(models[1], u, r)
        assert _chance(models[0], -u, r) < _chance(models[1], -u, r)


@given(
    arrays(np.float64, 4, elements=FINITE),
    arrays(np.float64, 4, elements=FINITE),
    arrays(np.float64, 4, elements=FINITE),
)
@settings(max_examples=300)
def test_stability_bound(m: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> None:
    """|P1 - P2| <= (|m| 2 sin(theta/2) + |r1 - r2|) / 4, in the numpy forward pass."""
    r1, r2 = np.linalg.norm(q1), np.linalg.norm(q2)
    if min(r1, r2) < 1e-2:
        return
    weights = {
        "adapter.0.weight": np.concatenate([np.eye(4), -np.eye(4)]).astype(np.float32),
        "adapter.0.bias": np.zeros(8, np.float32),
        "adapter.2.weight": np.concatenate([np.eye(4), -np.eye(4)], axis=1).astype(np.float32),
        "adapter.2.bias": np.zeros(4, np.float32),
        "models": m[None].astype(np.float32),
    }
    from thetascope.predictors import ItemFeatures

    fit = PlainJEIRT(dim=4)
    fit.weights_, fit.offset_ = weights, None
    zero = np.zeros(2, np.int64)
    items = ItemFeatures(
        ("a", "b"), zero, ("x",), zero, ("x",), np.stack([q1, q2]).astype(np.float32), None
    )
    p = fit.predict_proba(items)[:, 0]
    angle = math.acos(np.clip(q1 @ q2 / (r1 * r2), -1, 1))
    bound = (np.linalg.norm(m) * 2 * math.sin(angle / 2) + abs(r1 - r2)) / 4
    assert abs(p[0] - p[1]) <= bound + 1e-5


def _chance(m: np.ndarray, u: np.ndarray, r: float) -> float:
    return 1 / (1 + math.exp(-(u @ m - r)))


def test_recovers_a_simulated_space() -> None:
    """Data made by the model itself: cold predictions come near the true chances."""
    rng = np.random.default_rng(0)
    sample = make_sample(n=6000, m=20, d=8, density=1.0, benchmarks=1)
    x = sample.items.vectors
    assert x is not None
    q = np.maximum(x @ rng.normal(size=(8, 24)) / 3, 0) @ rng.normal(size=(24, 3)) / 3
    m = 1.5 * rng.normal(size=(20, 3))
    r = np.linalg.norm(q, axis=1, keepdims=True)
    chance = 1 / (1 + np.exp(-(q / r @ m.T - r)))
    scores = (rng.random(chance.shape) < chance).astype(np.uint8)
    from thetascope.predictors import Sample
    from thetascope.study import ResponseMatrix

    made = Sample(sample.items, ResponseMatrix(sample.items.ids, sample.responses.models, scores))
    train, held = halves(made)
    fit = PlainJEIRT(
        dim=8, hidden=64, dropout=0.0, gamma=0.97, batch_items=64, learning_rate=5e-3
    ).fit(train, held)
    error = np.abs(fit.predict_proba(held.items) - chance[4500:]).mean()
    spread = np.abs(chance[4500:] - chance[4500:].mean(axis=0)).mean()
    assert error < 0.2 * spread
    found = np.corrcoef(fit.item_space(held.items).norm, r[4500:, 0])[0, 1]
    assert found > 0.97


def test_context_is_the_default_from_two_benchmarks_on() -> None:
    assert JEIRT().uses_context(make_sample(benchmarks=2).items)
    assert not JEIRT().uses_context(make_sample(benchmarks=1).items)
    assert not PlainJEIRT().uses_context(make_sample(benchmarks=2).items)
    assert PlainJEIRT.preset("paper-mpnet").init_std == 1.0


def test_save_and_load_predict_the_same(tmp_path: Path) -> None:
    train, held = halves(make_sample())
    fit = JEIRT(dim=8, max_epochs=3).fit(train, held)
    fit.save(tmp_path)
    loaded = JEIRT.load(tmp_path)
    assert (loaded.predict_proba(held.items) == fit.predict_proba(held.items)).all()
    assert loaded.log_ == fit.log_
    assert loaded.get_params() == fit.get_params()
    (tmp_path / "weights.safetensors").write_bytes(b"\x00" * 30)
    with pytest.raises(InputError, match=r"weights\.safetensors is damaged"):
        JEIRT.load(tmp_path)


@pytest.mark.parametrize("stop_after", [1, 2, 5])
def test_a_stopped_fit_goes_on_and_ends_in_the_same_bytes(
    tmp_path: Path, stop_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, held = halves(make_sample())
    settings_ = {"dim": 8, "max_epochs": 7}
    whole = JEIRT(**settings_).fit_in(train, held, None)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    original, calls = training.run_epoch, 0

    def stopping(*args: object) -> float:
        nonlocal calls
        calls += 1
        if calls > stop_after:
            raise KeyboardInterrupt
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "run_epoch", stopping)
    with pytest.raises(KeyboardInterrupt):
        JEIRT(**settings_).fit_in(train, held, tmp_path)
    monkeypatch.setattr(training, "run_epoch", original)
    resumed = JEIRT(**settings_).fit_in(train, held, tmp_path)
    assert resumed.log_ == whole.log_
    for name, value in whole.weights_.items():
        assert (resumed.weights_[name] == value).all(), name


def test_early_stopping_keeps_the_best_epoch() -> None:
    train, held = halves(make_sample())
    fit = JEIRT(dim=8, max_epochs=60, patience=3, learning_rate=0.02).fit(train, held)
    losses = [e["validation_log_loss"] for e in fit.log_]
    best = int(np.argmin(losses))
    assert len(losses) == best + 4
    data = training.to_tensors(held, fit.offset_, "cpu")
    parameters = {k: torch.from_numpy(v) for k, v in fit.weights_.items()}
    assert training.evaluate(parameters, data) == pytest.approx(losses[best], abs=1e-7)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"dim": 0}, "field 'dim': expected a whole number from 1, found 0"),
        ({"dropout": 1.0}, "field 'dropout': expected a number from 0 to 0.99, found 1.0"),
        ({"learning_rate": -1.0}, "field 'learning_rate': expected a number from 1e-12 to 10"),
        ({"gamma": 0.0}, "field 'gamma': expected a number from 1e-06 to 1, found 0.0"),
        ({"context": "maybe"}, "field 'context': expected true, false or 'auto', found 'maybe'"),
    ],
)
def test_wrong_settings(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        JEIRT(**settings_)  # type: ignore[arg-type]


def test_presets_are_known_settings() -> None:
    assert set(PRESETS) == {"default", "paper-mpnet", "paper-modernbert"}
    for name in PRESETS:
        assert JEIRT.preset(name).patience == 10
    with pytest.raises(InputError, match="no preset 'papers'; there are default, paper-mpnet"):
        JEIRT.preset("papers")


def test_vectors_of_another_size_are_refused() -> None:
    fit = PlainJEIRT(dim=4, max_epochs=1).fit(make_sample(d=12), None)
    with pytest.raises(InputError, match="made from vectors of 12 dimensions, these have 5"):
        fit.predict_proba(make_sample(d=5).items)

"""Each finding of the doctor on a study where it is planted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr

from thetascope.study import Study
from thetascope.study.doctor import doctor
from thetascope.study.itemstats import item_statistics


def planted(n_items: int = 200, n_models: int = 40) -> tuple[Study, np.ndarray]:
    """A clean 2PL-like study with one item whose key is wrong and one that all get right."""
    rng = np.random.default_rng(0)
    ability, difficulty = rng.normal(size=n_models), rng.normal(size=n_items)
    chance = 1 / (1 + np.exp(-(1.7 * (ability[None] - difficulty[:, None]))))
    scores = (rng.random((n_items, n_models)) < chance).astype(float)
    scores[5] = (rng.random(n_models) > 1 / (1 + np.exp(-4 * ability))).astype(float)
    scores[6] = 1.0
    rows = [(f"b:{i}", f"m{m}", scores[i, m]) for i in range(n_items) for m in range(n_models)]
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    return Study.from_tables(frame), scores


def test_a_wrong_key_is_suspect_and_noise_is_not() -> None:
    study, scores = planted()
    found = {f.check: f for f in doctor(study)}
    assert found["suspect items"].n == 1
    assert found["suspect items"].examples[0].startswith("b:5 (-0.")
    assert found["constant items"].examples[0] == "b:6"
    right, wrong = (int((scores.mean(axis=1) == v).sum()) for v in (1, 0))
    assert f"({right} all right, {wrong} all wrong)" in found["constant items"].summary


def test_item_rest_correlation_equals_scipy_on_the_other_items() -> None:
    study, scores = planted(60, 12)
    matrix = study.matrix()
    stats = item_statistics(matrix, np.zeros(60, np.int64))
    for i in (0, 5, 17):
        rest = np.delete(scores, i, axis=0).mean(axis=0)
        assert stats["item_rest"][i] == pytest.approx(pearsonr(scores[i], rest)[0], abs=1e-9)
    assert stats["item_rest"][6] is None


def test_item_rest_uses_only_what_was_answered() -> None:
    study, scores = planted(60, 20)
    kept = np.random.default_rng(1).random(scores.shape) < 0.6
    stats = item_statistics(study.matrix().mask(kept), np.zeros(60, np.int64))
    for i in (3, 9):
        rest = [
            np.mean([scores[j, m] for j in range(60) if j != i and kept[j, m]]) for m in range(20)
        ]
        models = np.flatnonzero(kept[i])
        expected = pearsonr(scores[i, models], np.array(rest)[models])[0]
        assert stats["item_rest"][i] == pytest.approx(expected, abs=1e-9)


def test_few_models_are_not_judged() -> None:
    study, _ = planted(30, 5)
    stats = item_statistics(study.matrix(), np.zeros(30, np.int64))
    assert stats["item_rest"].null_count() == 30


def test_thin_extreme_repeated_and_doubled() -> None:
    rows = [(f"b:{i}", m, 0.0 if m == "broken" else float(i % 2)) for i in range(30)
            for m in ("x", "y", "broken")]  # fmt: skip
    rows += [("b:0", "thin", 1.0)]
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    frame = frame.with_columns(pl.col("model").alias("run_id"))
    twice = frame.head(1).with_columns(pl.lit("again").alias("run_id"))
    items = pl.DataFrame({
        "item_id": [f"b:{i}" for i in range(30)],
        "benchmark": ["b"] * 30,
        "text": [f"question {max(i, 1)}" for i in range(29)] + [None],
    })  # fmt: skip
    study = Study.from_tables(pl.concat([frame, twice]), items, policy="first")
    found = {f.check: f for f in doctor(study)}
    assert found["repeated pairs"].examples == ["b:0 x x"]
    assert found["thin models"].examples == ["thin (1)"]
    assert found["extreme scores"].examples == ["broken on b: 0.0 %"]
    assert found["near-duplicates"].examples == ["b:0 = b:1"]
    assert found["texts"].examples == ["b:29"]


def test_one_item_one_model() -> None:
    frame = pl.DataFrame({"item_id": ["b:1"], "model": ["x"], "score": [0.5]})
    assert {f.level for f in doctor(Study.from_tables(frame))} <= {"ok", "note", "warning"}

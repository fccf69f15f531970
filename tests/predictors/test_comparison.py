"""Comparisons: what is scored, against what, and that nothing leaks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import polars as pl
import pytest
import sklearn.metrics as sk

from thetascope.encoders import import_vectors
from thetascope.errors import InputError
from thetascope.predictors import JEIRT, ItemFeatures, Predictor, Sample, compare
from thetascope.predictors.saved import compare_study, fit_study, load_comparison, load_fit
from thetascope.study import Study

N = 300


def make_study(path: Path, seed: int = 0, *, graded: bool = False) -> Study:
    """Three benchmarks, six models, some responses missing, vectors that tell something."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(N, 40)).astype(np.float32)
    vectors[1] = vectors[0]  # near-duplicates
    ability = rng.normal(size=(6, 40)) / 4
    chance = 1 / (1 + np.exp(-(vectors @ ability.T)))
    scores = chance if graded else (rng.random(chance.shape) < chance).astype(float)
    rows = [(f"b{i % 3}:{i}", f"m{m}", float(scores[i, m]))
            for i in range(N) for m in range(6) if rng.random() < 0.8]  # fmt: skip
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    items = pl.DataFrame({
        "item_id": [f"b{i % 3}:{i}" for i in range(N)],
        "benchmark": [f"b{i % 3}" for i in range(N)],
        "subject": [f"s{i % 2}" if i % 3 else None for i in range(N)],
    })  # fmt: skip
    study = Study.from_tables(frame, items).save(path)
    np.savez(path.parent / "v.npz", ids=items["item_id"].to_numpy().astype(str), vectors=vectors)
    import_vectors(path, path.parent / "v.npz", name="made")
    return study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return make_study(tmp_path / "study")


@dataclass
class Spy(Predictor):
    """Remembers what it was given; predicts a share that depends on the item."""

    NAME: ClassVar[str] = "spy"
    seen: ClassVar[list[tuple[Sample, Sample | None, list[str]]]] = []

    def _fit(self, train: Sample, validation: Sample | None) -> Self:
        self.models_ = train.responses.models
        self._given = (train, validation)
        return self

    def _predict(self, items: ItemFeatures) -> np.ndarray:
        Spy.seen.append((*self._given, list(items.ids)))
        rng = np.random.default_rng(len(items))
        return rng.random((len(items), len(self.models_)))


def test_training_and_choices_never_see_a_tested_item(study: Study) -> None:
    Spy.seen.clear()
    compare(study, [Spy()], seeds=4, reference="spy")
    assert len(Spy.seen) == 4
    for train, validation, tested in Spy.seen:
        assert validation is not None
        assert not set(train.items.ids) & set(tested)
        assert not set(validation.items.ids) & set(tested)
        assert not set(train.items.ids) & set(validation.items.ids)
        # the other half of the validation fold is kept for calibration
        assert len(train.items) + len(validation.items) + len(tested) < N
        twins = {"b0:0", "b1:1"}
        for part in (set(train.items.ids), set(validation.items.ids), set(tested)):
            assert len(part & twins) in (0, 2)


def test_warm_cells_hold_out_single_responses(study: Study) -> None:
    Spy.seen.clear()
    result = compare(study, [Spy()], split="warm-cells", seeds=2, reference="spy")
    observed = study.responses.height
    for train, validation, _ in Spy.seen:
        assert validation is not None
        n_train = int(train.responses.observed.sum())
        assert 0.75 * observed < n_train < 0.85 * observed
    assert len(result.cells.score) == pytest.approx(0.2 * observed, rel=0.1)


def test_a_left_out_benchmark_is_unseen(study: Study) -> None:
    Spy.seen.clear()
    result = compare(study, [Spy()], split="leave-one-benchmark-out", reference="spy")
    assert result.seeds == 3
    for (train, _, tested), name in zip(Spy.seen, ("b0", "b1", "b2"), strict=True):
        assert {i.split(":")[0] for i in tested} == {name}
        assert name not in {i.split(":")[0] for i in train.items.ids}
    assert len(result.cells.score) == study.responses.height
    assert result.n_left_out == 2  # the twins, once for each of their benchmarks


def test_the_numbers_are_those_of_the_cells(study: Study) -> None:
    result = compare(study, ["knn", "ridge", "model_mean"], seeds=3, reference="ridge")
    cells = result.cells
    for name in ("knn", "ridge", "model_mean"):
        row, p = result.row(name), cells.p[name]
        assert row.metrics["log_loss"].value == pytest.approx(sk.log_loss(cells.score, p), 1e-12)
        assert row.metrics["auc"].value == pytest.approx(sk.roc_auc_score(cells.score, p), 1e-12)
        accuracy = sk.accuracy_score(cells.score, p >= 0.5)
        assert row.metrics["accuracy"].value == pytest.approx(accuracy, 1e-12)
        for metric, value in row.difference.items():
            expected = row.metrics[metric].value - result.row("ridge").metrics[metric].value
            assert value.value == pytest.approx(expected, abs=1e-12)
    part = [r for r in result.rows if r.predictor == "knn"]
    assert [(r.benchmark, r.subject) for r in part] == [
        ("all", "all"), ("b0", "all"), ("b1", "all"), ("b2", "all"),
        ("b1", "s1"), ("b2", "s0"), ("b1", "s0"), ("b2", "s1"),
    ]  # fmt: skip
    assert sum(r.n_responses for r in part[1:4]) == part[0].n_responses


def test_pure_noise_is_not_predicted(tmp_path: Path) -> None:
    """Scores without any relation to items: nobody beats the means beyond noise."""
    study = make_study(tmp_path / "study")
    rng = np.random.default_rng(5)
    noise = study.responses.with_columns(
        pl.Series("score", rng.integers(0, 2, study.responses.height).astype(float))
    )
    made = Study.from_tables(noise, study.items, study.models, study.runs).save(tmp_path / "study")
    result = compare(Study.open(made.path or ""), ["knn", "ridge", "model_mean"],
                     seeds=10, reference="model_mean")  # fmt: skip
    for name in ("knn", "ridge"):
        assert result.row(name).difference["log_loss"].high > 0
        # held-out means lean the other way, so that chance is a little below one half here
        assert result.row(name).metrics["auc_within_model"].value < 0.53


def test_keep_scores_raw_rows(tmp_path: Path) -> None:
    """Two rows of one pair with other labels are two responses."""
    study = make_study(tmp_path / "study")
    again = study.responses.with_columns(
        (1 - pl.col("score")).alias("score"), (pl.col("run_id") + "#2").alias("run_id")
    )
    runs = pl.concat([study.runs, study.runs.with_columns(pl.col("run_id") + "#2")])
    both = Study.from_tables(pl.concat([study.responses, again]), study.items, study.models, runs,
                             policy="keep").save(tmp_path / "study")  # fmt: skip
    result = compare(Study.open(both.path or ""), ["model_mean"], reference="model_mean", seeds=10)
    row = result.row("model_mean")
    assert row.n_responses == 2 * study.responses.height
    assert row.metrics["accuracy"].value == pytest.approx(0.5)
    assert result.score_entropy == 0.0


def test_graded_scores(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", graded=True)
    result = compare(Study.open(study.path or ""), ["ridge", "model_mean"], reference="model_mean")
    assert result.score_entropy > 0.3
    row = result.row("ridge")
    assert row.metrics["log_loss"].value > result.score_entropy
    assert row.difference["absolute_error"].value < 0


def test_a_fit_that_is_passed_in_stays_as_it_is(study: Study) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    fit = JEIRT(dim=4, max_epochs=2).fit(study)
    before = fit.predict_proba(study)
    result = compare(study, [fit, JEIRT(dim=5, max_epochs=1), "model_mean"], seeds=1)
    assert {r.predictor for r in result.rows} == {"jeirt_context", "jeirt_context#2", "model_mean"}
    assert (fit.predict_proba(study) == before).all()


def test_what_cannot_run_is_named_with_its_reason(tmp_path: Path) -> None:
    frame = pl.DataFrame({"item_id": [f"b:{i}" for i in range(60)] * 2,
                          "model": ["x"] * 60 + ["y"] * 60, "score": [1, 0] * 60})  # fmt: skip
    study = Study.from_tables(frame).save(tmp_path / "s")
    result = compare(study)
    assert {r.predictor for r in result.rows} == {"model_mean"}
    assert result.skipped["knn"] == "the study has no text vectors (thetascope encode)"
    assert result.skipped["model_benchmark"] == "the study has one benchmark"
    assert result.skipped["model_subject"] == "the study has no subjects"
    assert result.reference is None
    with pytest.raises(InputError, match="knn cannot run: the study has no text vectors"):
        compare(study, ["knn"])
    with pytest.raises(InputError, match="needs two benchmarks or more"):
        compare(study, split="leave-one-benchmark-out")


def test_on_disk_it_is_made_once_and_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        study = make_study(tmp_path / name / "study")
        made = compare_study(study.path or "", ["knn", "model_mean"], reference="knn", seeds=2)
        assert made.new
    first, second = (sorted((tmp_path / n / "study/comparisons").iterdir()) for n in ("one", "two"))
    assert [p.name for p in first] == [p.name for p in second]
    again = compare_study(tmp_path / "one/study", ["knn", "model_mean"], reference="knn", seeds=2)
    assert not again.new
    other = compare_study(tmp_path / "one/study", ["knn"], reference="knn", seeds=2)
    assert other.new
    saved = load_comparison(Study.open(tmp_path / "one/study"))
    assert {r["predictor"] for r in saved.table["rows"]} == {"knn"}
    assert set(saved.cells.columns) == {"item_id", "model", "score", "p_knn"}


def test_a_part_of_a_study_keeps_its_vectors(study: Study) -> None:
    part = study.filter(benchmarks=["b0", "b2"])
    result = compare(part, ["knn", "model_mean"], reference="model_mean", seeds=10)
    assert result.encoder == "made"
    assert {r.benchmark for r in result.rows} == {"all", "b0", "b2"}
    assert result.row("knn").n_responses == part.responses.height


def test_a_stopped_comparison_goes_on_and_ends_in_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thetascope.predictors.ridge import Ridge

    whole = make_study(tmp_path / "study").path or Path()
    calm = compare_study(whole, ["knn", "ridge"], reference="knn", seeds=3).folder
    (tmp_path / "b").mkdir()
    again = make_study(tmp_path / "b/study").path or Path()
    original, calls = Ridge._fit, 0

    def stopping(self: Ridge, train: Sample, validation: Sample | None) -> Ridge:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return original(self, train, validation)

    monkeypatch.setattr(Ridge, "_fit", stopping)
    with pytest.raises(KeyboardInterrupt):
        compare_study(again, ["knn", "ridge"], reference="knn", seeds=3)
    kept = {p.name for p in again.glob("comparisons/.work-*/*")}
    assert kept == {"seed 0-knn.safetensors", "seed 0-ridge.safetensors", "seed 1-knn.safetensors"}
    resumed = compare_study(again, ["knn", "ridge"], reference="knn", seeds=3).folder
    assert calls == 4  # the first split was not fitted again
    assert resumed.name == calm.name


def test_damage_is_found_and_mended_by_the_same_command(study: Study) -> None:
    path = study.path or Path()
    folder = compare_study(path, ["knn"], reference="knn", seeds=1).folder
    for name in ("comparison.json", "cells.parquet", "manifest.json"):
        file = folder / name
        file.write_bytes(file.read_bytes()[:-3])
        with pytest.raises(InputError, match="is damaged: its content is not what its name says"):
            load_comparison(Study.open(path))
        mended = compare_study(path, ["knn"], reference="knn", seeds=1)
        assert mended.new
        assert mended.folder == folder
        assert load_comparison(Study.open(path)).table["seeds"] == 1


def test_a_subject_without_training_items_falls_back_to_its_own_benchmark() -> None:
    """Not to the first benchmark: 'easy' is all right, 'hard' all wrong."""
    from predictor_cases import make_sample

    from thetascope.evaluation.splits import Cells
    from thetascope.predictors import make_predictor

    sample = make_sample(benchmarks=2, density=1.0)
    scores = np.repeat(1 - sample.items.benchmark[:, None], 7, axis=1).astype(np.uint8)
    made = Sample(sample.items, sample.responses.__class__(
        sample.responses.item_ids, sample.responses.models, scores))  # fmt: skip
    rare = sample.items.subject == 3  # the second subject of 'hard'
    fit = make_predictor("model_subject").fit(made.take(Cells(np.flatnonzero(~rare))), None)
    p = fit.predict_proba(made.items.take(np.flatnonzero(rare)))
    assert p.max() < 0.1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_studies(tmp_path: Path, n: int) -> None:
    frame = pl.DataFrame({"item_id": [f"b:{i}" for i in range(n)], "model": ["m"] * n,
                          "score": [0.5] * n})  # fmt: skip
    study = Study.from_tables(frame)
    if n == 1:
        with pytest.raises(InputError, match="1 items are too few for cold-items"):
            compare(study)
        return
    row = compare(study, seeds=10).to_json()["rows"][0]
    assert row["accuracy"] is None  # a score of exactly one half is on no side
    assert row["log_loss"] == pytest.approx(np.log(2))


def test_a_fit_on_disk_keeps_its_residuals(study: Study) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    assert study.path is not None
    settings = JEIRT(dim=4, max_epochs=3, residual=True)
    made = fit_study(study.path, settings)
    assert made.new
    assert not fit_study(study.path, settings).new
    loaded = load_fit(Study.open(study.path), "jeirt")
    assert loaded.residuals_ is not None
    assert loaded.residual is True
    direct = JEIRT(dim=4, max_epochs=3, residual=True).fit(study)
    assert (loaded.predict_proba(study) == direct.predict_proba(study)).all()
    assert loaded.choices == direct.choices
    with pytest.raises(InputError, match="needs a column 'chance' in the items table"):
        fit_study(study.path, JEIRT(dim=4, max_epochs=3, floor=True), name="floor")

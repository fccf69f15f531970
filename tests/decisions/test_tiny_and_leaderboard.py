"""Tiny sets, calibration on left-out models, the completed leaderboard, SubjectIRT."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decision_cases import make_bank, make_sample, make_space

from thetascope.decisions import TinySet, leaderboard, tiny_set
from thetascope.decisions.build import learn_items, twin_groups
from thetascope.decisions.build import make_bank as learn_bank
from thetascope.decisions.calibration import (
    Miss,
    left_out_folds,
    misfit,
    misfits,
    model_folds,
    take_models,
)
from thetascope.decisions.leaderboard import _ranked
from thetascope.decisions.prior import learn_prior
from thetascope.decisions.scores import ScoreEstimate
from thetascope.decisions.tiny import DESIGNS, Tried, choose_items, unchosen
from thetascope.errors import InputError
from thetascope.predictors.subject_irt import SubjectIRT


def test_twins_share_a_fold_and_are_left_out_together() -> None:
    sample = make_sample()
    twins = twin_groups(sample.responses.models, {"m1": "x", "m5": "x", "m9": "x"})
    folds = model_folds(twins)
    assert folds[1] == folds[5] == folds[9]
    assert np.bincount(folds).min() >= 3
    prior = learn_prior(learn_items(sample), sample.responses, twins=twins)
    for fold in left_out_folds(sample, learn_items, prior, twins):
        left = {sample.responses.models[i] for i in fold.models}
        assert not left & set(fold.bank.space.models)
        assert len(left) + len(fold.bank.space.models) == 24


def test_misfit_makes_nine_in_ten_hold() -> None:
    rng = np.random.default_rng(0)
    error = rng.normal(size=5000) * np.hypot(0.01, 0.02)
    found = [Miss(0, i, 50, float(e), 0.01, 1.0) for i, e in enumerate(error)]
    width = misfit(found)
    assert width == pytest.approx(0.02, rel=0.05)
    held = np.abs(error) <= 1.6448536 * np.hypot(0.01, width)
    assert held.mean() == pytest.approx(0.9, abs=0.01)
    assert misfit([]) == 0.0
    few = [Miss(1, i, 50, 0.5, 0.01, 1.0) for i in range(3)]
    pooled = misfits(found + few, 2)
    assert pooled[1] == pytest.approx(misfit(found + few))


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("k", [1, 7, 60])
def test_designs_give_k_items_of_the_benchmark(design: str, k: int) -> None:
    bank = make_bank()
    members = np.flatnonzero(bank.space.benchmark == 0)
    rows, weights = choose_items(bank, members, k, design)
    assert len(set(rows.tolist())) == len(weights) == k
    assert np.isin(rows, members).all()
    assert weights.sum() == pytest.approx(1)
    again = choose_items(bank, members, k, design)
    assert (rows == again[0]).all()


def test_all_items_give_the_mean_itself(tmp_path: Path) -> None:
    bank = make_bank()
    n = int((bank.space.benchmark == 0).sum())
    for design in DESIGNS:
        tiny = tiny_set(bank, n, "b0", designs=[design])
        scores = {i: float(j % 3 == 0) for j, i in enumerate(tiny.items)}
        estimate, _ = tiny.estimate(bank, scores)
        assert estimate.value == pytest.approx(np.mean(list(scores.values())), abs=1e-9)
        assert estimate.low == pytest.approx(estimate.high)


def test_a_tiny_set_is_chosen_on_left_out_models_saved_and_read(tmp_path: Path) -> None:
    sample = make_sample(n=400)
    bank = learn_bank(sample, calibrate=False)
    twins = np.arange(24)
    folds = list(left_out_folds(sample, learn_items, bank.prior, twins))
    tiny = tiny_set(bank, 40, "b1", folds=folds, sample=sample)
    best = min(min(v.values()) for v in tiny.validation.values())
    assert tiny.validation[tiny.design][f"{tiny.share:g}"] == best
    assert tiny.n_validation == 24
    written = tiny.save(tmp_path)
    assert TinySet.load(tmp_path) == tiny
    lists = json.loads((tmp_path / "lm-eval-samples.json").read_text())
    source = sorted(int(i.removeprefix("b1:")) for i in tiny.items)
    assert lists == {"b1": source}
    ids = (tmp_path / "inspect-sample-ids.txt").read_text().strip().split(",")
    assert sorted(map(int, ids)) == source
    assert len(written) == 4
    rows = [bank.row(i) for i in tiny.items]
    column = sample.responses.filled()[:, 3]
    answers = {i: float(column[r]) for i, r in zip(tiny.items, rows, strict=True)}
    estimate, given = tiny.estimate(bank, answers, model="new")
    truth = column[bank.space.benchmark == 1].mean()
    assert abs(estimate.value - truth) < 0.1
    assert given.model == "new"


def test_tiny_sets_refuse_clearly(tmp_path: Path) -> None:
    bank = make_bank()
    for call, message in (
        (lambda: tiny_set(bank, 0, "b0"), "expected 1 to"),
        (lambda: tiny_set(bank, 5, "b9"), "no benchmark 'b9'"),
        (lambda: tiny_set(bank, 5, "b0", designs=["best"]), "no design 'best'"),
        (lambda: TinySet.load(tmp_path / "none"), "is no tiny set"),
        (lambda: tiny_set(bank, 5, "b0").estimate(bank, {bank.space.ids[0]: 1.0} if
         bank.space.ids[0].startswith("b1") else {}), "there are|no item of the tiny set|none of"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("benchmark", 3),
        ("design", None),
        ("items", []),
        ("items", "b0:1"),
        ("items", ["b0:1", "b0:1"]),
        ("items", [["b0:1"]]),
        ("weights", [1.0]),
        ("weights", [0.5, "0.5"]),
        ("weights", [float("nan"), 0.5]),
        ("weights", [1.5, -0.5]),
        ("weights", [0.2, 0.2]),
        ("weights", 1),
        ("share", 1.5),
        ("share", float("nan")),
        ("share", None),
        ("share", True),
        ("misfit", float("inf")),
        ("misfit", -0.1),
        ("misfit", 10**400),
        ("n_validation", 1.5),
        ("validation", []),
        ("validation", {"variance": 3}),
        ("validation", {"variance": {"0": float("inf")}}),
        ("other", 1),
    ],
)
def test_a_damaged_tiny_set_names_file_and_field(tmp_path: Path, field: str, value: Any) -> None:
    tiny_set(make_bank(), 2, "b0").save(tmp_path)
    file = tmp_path / "tiny.json"
    held = json.loads(file.read_text())
    file.write_text(json.dumps(held | {field: value}))
    with pytest.raises(InputError, match="is no tiny set") as caught:
        TinySet.load(tmp_path)
    assert (caught.value.file, caught.value.field) == (str(file), field)
    for text in ("[]", "", "null", json.dumps({k: v for k, v in held.items() if k != "share"})):
        file.write_text(text)
        with pytest.raises(InputError, match="is no tiny set"):
            TinySet.load(tmp_path)


def test_no_list_of_an_earlier_set_stays(tmp_path: Path) -> None:
    first = tiny_set(make_bank(), 2, "b0")
    assert len(first.save(tmp_path)) == 4
    (tmp_path / "mine.txt").write_text("kept")
    second = TinySet("b0", ("b0:x", "b0:y"), (0.5, 0.5), 0.0, "variance", 0.0, {}, 0)
    written = {p.name for p in second.save(tmp_path)}
    assert written == {"tiny.json", "inspect-sample-ids.txt", "item-ids.txt"}
    assert {p.name for p in tmp_path.iterdir()} == written | {"mine.txt"}
    assert TinySet.load(tmp_path) == second
    with pytest.raises(InputError, match="is no folder"):
        second.save(tmp_path / "mine.txt")
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_items_of_another_benchmark_are_no_tiny_set() -> None:
    bank = make_bank()
    items = tuple(next(i for i in bank.space.ids if i.startswith(b)) for b in ("b0", "b1"))
    mixed = TinySet("b0", items, (0.5, 0.5), 0.0, "variance", 0.0, {}, 0)
    with pytest.raises(InputError, match="not of 'b0'"):
        mixed.estimate(bank, dict.fromkeys(items, 1.0))


def test_a_complete_leaderboard_is_that_of_plain_means() -> None:
    bank = make_bank(make_space(m=8), misfit=0.05)
    lines = leaderboard(bank)
    scores, benchmark = bank.responses.scores, bank.space.benchmark
    means = np.stack([scores[benchmark == b].mean(axis=0) for b in range(2)])
    for s in lines:
        i = bank.space.models.index(s.model)
        assert [e.value for e in s.scores] == pytest.approx(means[:, i])
        assert s.mean.low == s.mean.high == pytest.approx(means[:, i].mean())
        assert s.rank == s.rank_low == s.rank_high
    assert [s.rank for s in lines] == sorted(s.rank for s in lines)


def test_holes_are_completed_better_than_raw_means_rank() -> None:
    """Half of the models skip the hard benchmark: raw means rank them too high."""
    sample = make_sample(n=900, m=30)
    hard = sample.items.benchmark == 0
    scores = sample.responses.scores.copy()
    rng = np.random.default_rng(0)
    flip = hard[:, None] & (rng.random(scores.shape) < 0.6)
    full = np.where(flip, 0, scores)
    holes = full.copy()
    holes[np.ix_(hard, np.arange(30) % 2 == 0)] = 255
    from dataclasses import replace

    from thetascope.predictors import Sample

    bank = learn_bank(
        Sample(sample.items, replace(sample.responses, scores=holes)), calibrate=False
    )
    lines = leaderboard(bank)
    truth = np.mean([full[hard].mean(0), full[~hard].mean(0)], axis=0)
    names = bank.space.models
    completed = np.array([next(s.mean.value for s in lines if s.model == m) for m in names])
    raw = np.array([next(s.raw_mean for s in lines if s.model == m) for m in names])
    assert np.abs(completed - truth).mean() < 0.5 * np.abs(raw - truth).mean()
    skipped = [s for s in lines if s.scores[0].n_answered == 0]
    assert len(skipped) == 15
    assert all(s.scores[0].high > s.scores[0].low for s in skipped)
    assert all(s.rank_low <= s.rank <= s.rank_high for s in lines)


def test_subject_irt_recovers_abilities_and_chances() -> None:
    sample = make_sample(n=1500, m=40)
    fit = SubjectIRT().fit(sample)
    assert fit.dimensions_ == tuple(dict.fromkeys(
        sample.items.subjects[s] for s in sample.items.subject))  # fmt: skip
    p = fit.predict_proba(sample.items)
    scores = sample.responses.filled()
    assert np.abs(p.mean(axis=0) - scores.mean(axis=0)).max() < 0.02
    space = fit.logit_space()
    logits = space.logits(space.theta)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits)), p, atol=1e-6)
    means = np.stack([scores[sample.items.subject == s].mean(0) for s in range(3)])
    for k, name in enumerate(fit.dimensions_):
        s = sample.items.subjects.index(name)
        assert np.corrcoef(space.theta[:, k], means[s])[0, 1] > 0.95


def test_subject_irt_is_the_same_twice_and_takes_sparse_graded_and_weighted_data() -> None:
    from dataclasses import replace

    from thetascope.predictors import Sample

    sample = make_sample(density=0.1)
    a, b = (SubjectIRT().fit(sample).predict_proba(sample.items) for _ in range(2))
    assert (a == b).all()
    graded = np.where(sample.responses.observed, 0.5, np.nan).astype(np.float32)
    weights = np.full(graded.shape, 3, np.float32)
    responses = replace(sample.responses, scores=graded, weights=weights)
    p = SubjectIRT().fit(Sample(sample.items, responses)).predict_proba(sample.items)
    assert np.isfinite(p).all()
    part = take_models(sample, np.arange(24) < 5)
    assert part.responses.models == ("m0", "m1", "m2", "m3", "m4")


def test_a_calibrated_bank_says_so() -> None:
    sample = make_sample(n=400, m=24)
    bank = learn_bank(sample, twins={"m0": "x", "m1": "x"})
    assert bank.calibrated
    assert (bank.misfit >= 0).all()
    assert (bank.misfit < 0.1).all()


def test_few_models_decide_together_whether_choice_is_adaptive() -> None:
    """One model's items say nothing of another's: adaptive choice must not be preferred blindly."""
    from thetascope.decisions import AdaptiveTest, Target
    from thetascope.decisions.calibration import calibrate

    sample = make_sample(n=400)
    bank = learn_bank(sample, calibrate=False)
    folds = list(left_out_folds(sample, learn_items, bank.prior, np.arange(24)))
    found = calibrate(bank, folds, sample)
    assert found.every is not None
    assert set(found.every.tolist()) <= {1, 5}
    from dataclasses import replace

    random = replace(found, every=np.array([1, 1]))
    test = AdaptiveTest(random, Target.make(random, "b0"))
    assert test.next(6) == test.random
    assert calibrate(bank, [], sample) is bank


def test_equal_models_share_their_places() -> None:
    """A rank lies inside its interval, and of two equals neither is surely behind."""
    drawn = np.tile([0.5, 0.9, 0.5, 0.1], (200, 1))
    lines: Any = [
        ((), ScoreEstimate("mean", v, v, v, 0.0, 1, 1, v), v) for v in (0.5, 0.9, 0.5, 0.1)
    ]
    found = {s.model: s for s in _ranked(("a", "b", "c", "d"), lines, drawn, 0.9)}
    assert (found["a"].rank, found["a"].rank_low, found["a"].rank_high) == (2, 2, 3)
    assert (found["c"].rank, found["c"].rank_low, found["c"].rank_high) == (2, 2, 3)
    assert (found["b"].rank_low, found["b"].rank_high) == (1, 1)
    assert (found["d"].rank_low, found["d"].rank_high) == (4, 4)


def ways(errors: dict[tuple[str, float], list[list[float]]]) -> Tried:
    return {
        way: [[Miss(0, i, 10, e, 0.0, 1.0) for i, e in enumerate(fold)] for fold in folds]
        for way, folds in errors.items()
    }


def test_a_fold_is_read_as_the_others_choose() -> None:
    """By hand: the second fold prefers a, the first b, so each gets what the other wants."""
    a, b = ("a", 0.0), ("b", 1.0)
    tried = ways({a: [[0.4, 0.4], [0.1]], b: [[0.2, 0.3], [0.2]]})
    assert [m.error for m in unchosen(tried)] == [0.4, 0.4, 0.2]
    alone = ways({a: [[], [0.1, 0.2]], b: [[], [0.3, 0.1]]})
    assert [m.error for m in unchosen(alone)] == [0.1, 0.2]


def test_what_was_chosen_on_its_own_errors_looks_too_good() -> None:
    """Eighteen equal ways, 23 models: intervals from the chosen way's own errors cover a new
    model too rarely, those from errors without a part in the choice do not."""
    rng = np.random.default_rng(0)
    held: dict[str, list[bool]] = {"own": [], "unchosen": []}
    for _ in range(150):
        errors = 0.03 * rng.normal(size=(18, 23))
        tried = ways({(str(w), 0.0): np.array_split(e, 5) for w, e in enumerate(errors)})  # type: ignore[misc]
        best = min(tried.values(), key=lambda f: np.mean([abs(m.error) for x in f for m in x]))
        share = np.ceil(0.9 * 24) / 23
        for name, found in (("own", [m for x in best for m in x]), ("unchosen", unchosen(tried))):
            width = 1.645 * misfit(found, share)
            held[name] += list(np.abs(0.03 * rng.normal(size=40)) <= width)
    assert np.mean(held["own"]) < 0.87
    assert 0.88 < np.mean(held["unchosen"]) < 0.97

"""The criterion and its updates against recomputation; the test as a user takes it."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decision_cases import make_bank, make_space

from thetascope.decisions import AdaptiveTest, Target, load_test, save_test
from thetascope.decisions.posterior import Gaussian
from thetascope.errors import InputError


def expected_gain(bank, target, posterior: Gaussian, answered: set[str]) -> np.ndarray:
    """The fall of the target's posterior variance (sum_b pi_b g_b' S g_b), item by item."""
    space = bank.space
    p = 1 / (1 + np.exp(-(space.design @ posterior.mean + space.intercept)))
    w = p * (1 - p)
    rest = np.array([i not in answered for i in space.ids])
    out = np.zeros(len(space))
    for name, pi in target.weights.items():
        members = space.benchmark == space.benchmarks.index(name)
        g = (w * (members & rest)) @ space.design / members.sum()
        before = g @ posterior.covariance @ g
        precision = np.linalg.inv(posterior.covariance)
        for j in range(len(space)):
            x = space.design[j]
            after = np.linalg.inv(precision + w[j] * np.outer(x, x))
            out[j] += pi * (before - g @ after @ g)
    return out


@pytest.mark.parametrize("weights", [{"b0": 1.0}, {"b0": 3.0, "b1": 1.0}])
def test_the_item_chosen_is_the_best_by_recomputation(weights: dict[str, float]) -> None:
    bank = make_bank()
    target = Target.make(bank, weights)
    test = AdaptiveTest(bank, target, every=0)
    rng = np.random.default_rng(0)
    for _ in range(12):
        gain = expected_gain(bank, target, test.posterior(), set(test.answered))
        inside = np.array([bank.benchmarks[b] in weights for b in bank.space.benchmark])
        free = inside & np.array([i not in test.answered for i in bank.space.ids])
        item = test.next(1)[0]
        best = gain[free].max()
        # h counts past answers' information as it was when they came, hence the tolerance
        assert gain[bank.row(item)] >= 0.98 * best
        test.answer({item: float(rng.random() < 0.5)})


def test_the_first_batch_is_greedy_with_exact_updates() -> None:
    bank = make_bank()
    target = Target.make(bank, "b1")
    batch = AdaptiveTest(bank, target, every=0).next(6)
    space, prior = bank.space, bank.prior.gaussian
    p = 1 / (1 + np.exp(-(space.design @ prior.mean + space.intercept)))
    w, precision, chosen = p * (1 - p), np.linalg.inv(prior.covariance), []
    members = space.benchmark == 1
    g = (w * members) @ space.design / members.sum()
    for _ in range(6):
        falls = [
            -(g @ np.linalg.inv(precision + w[j] * np.outer(x, x)) @ g)
            if members[j] and space.ids[j] not in chosen
            else -np.inf
            for j, x in enumerate(space.design)
        ]
        j = int(np.argmax(falls))
        chosen.append(space.ids[j])
        precision += w[j] * np.outer(space.design[j], space.design[j])
    assert batch == chosen


def test_variance_update_is_that_of_a_refit() -> None:
    from thetascope.decisions.adaptive import _View

    rng = np.random.default_rng(0)
    x, root = rng.normal(size=(50, 4)), rng.normal(size=(4, 4))
    sigma = root @ root.T + np.eye(4)
    g = rng.normal(size=(4, 2))
    for keep in (True, False):
        view = _View(x, sigma, np.einsum("nd,de,ne->n", x, sigma, x), x @ sigma @ g)
        precision = np.linalg.inv(sigma)
        for j, w in ((3, 0.2), (9, 0.05), (3, 0.1)):
            view.lower(j, w, keep=keep)
            precision = precision + w * np.outer(x[j], x[j])
            now = np.linalg.inv(precision)
            np.testing.assert_allclose(view.h, np.einsum("nd,de,ne->n", x, now, x))
            np.testing.assert_allclose(view.gain_to, x @ now @ g)


def test_every_fifth_is_random_and_nothing_comes_twice() -> None:
    bank = make_bank()
    test = AdaptiveTest(bank, Target.make(bank, "b0"), seed=3)
    seen: list[str] = []
    while batch := test.next(7):
        seen += batch
        test.answer(dict.fromkeys(batch, 1.0))
    members = [i for i in bank.space.ids if i.startswith("b0:")]
    assert sorted(seen) == sorted(members)
    assert test.random == seen[4::5]
    now = test.progress()
    assert now.score.value == pytest.approx(1.0)
    assert now.score.low == now.score.high == pytest.approx(1.0)
    assert now.corrected == pytest.approx(1.0)


def test_pending_items_are_given_again_until_answered() -> None:
    bank = make_bank()
    test = AdaptiveTest(bank, Target.make(bank))
    first = test.next(4)
    assert test.next(4) == first
    assert test.next(6)[:4] == first
    test.answer({first[0]: 1.0})
    assert first[0] not in test.next(10)


def test_a_saved_test_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    bank = make_bank()
    whole = AdaptiveTest(bank, Target.make(bank, "b0", ["m1"], 0.01), seed=5)
    parts = AdaptiveTest(bank, Target.make(bank, "b0", ["m1"], 0.01), seed=5)
    for turn in range(5):
        scores = {item: float(len(item) % 2) for item in whole.next(6)}
        whole.answer(scores)
        assert set(parts.next(6)) == set(scores)
        parts.answer(scores)
        save_test(parts, tmp_path / "state.json")
        parts = load_test(bank, tmp_path / "state.json")
        assert parts.answered == whole.answered, turn
        assert parts.progress().score.value == pytest.approx(whole.progress().score.value, abs=1e-6)


def test_a_damaged_state_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"weights": 3}')
    with pytest.raises(InputError, match="no state of an adaptive test"):
        load_test(make_bank(), tmp_path / "state.json")


def saved_state(path: Path) -> dict[str, Any]:
    """Six answers to b0, two more items given out."""
    bank = make_bank()
    test = AdaptiveTest(bank, Target.make(bank, "b0", ["m1"], 0.01), seed=5)
    first = test.next(6)
    test.answer(dict.fromkeys(first, 1.0), dict.fromkeys(first, 2.0), model="new")
    test.next(2)
    save_test(test, path)
    return json.loads(path.read_text())


def b1_item() -> str:
    return next(i for i in make_bank().space.ids if i.startswith("b1:"))


DAMAGE: list[tuple[str, Any, str]] = [
    ("version", 2, "expected 1, found 2"),
    ("version", True, "expected 1, found True"),
    ("weights", {}, "a benchmark or more"),
    ("weights", ["b0"], "an object of numbers"),
    ("weights", {"b0": 0}, "a weight above 0"),
    ("weights", {"b0": float("inf")}, "a finite number"),
    ("weights", {"b0": float("nan")}, "a finite number"),
    ("weights", {"b0": 1e308, "b1": 1e308}, "too large"),
    ("weights", {"b0": 10**400}, "a finite number"),
    ("weights", {"b0": "1"}, "expected a number"),
    ("weights", {"b9": 1}, "no benchmark 'b9'"),
    ("against", "m1", "a list of strings"),
    ("against", [1], "a list of strings"),
    ("against", ["nobody"], "no known model"),
    ("sd", -1, "above 0"),
    ("sd", "0.1", "expected a number"),
    ("sd", True, "expected a number"),
    ("seed", True, "whole number from 0"),
    ("seed", -1, "whole number from 0"),
    ("seed", 1.5, "whole number from 0"),
    ("seed", None, "whole number from 0"),
    ("every", True, "whole number from 0"),
    ("every", -5, "whole number from 0"),
    ("every", "5", "whole number from 0"),
    ("every_by_bank", 1, "true or false"),
    ("model", 3, "a name or null"),
    ("answered", [], "an object of numbers"),
    ("answered", {"b0:zz": 1}, "the study lacks: 'b0:zz'"),
    ("answered", {b1_item(): 1.5}, "a score from 0 to 1"),
    ("answered", {b1_item(): None}, "expected a number"),
    ("trials", {b1_item(): 1}, "has no score"),
    ("random", [1], "a list of strings"),
    ("random", ["b0:zz"], "the study lacks"),
    ("random", [b1_item()], "neither answered nor pending"),
    ("pending", {}, "a list of strings"),
    ("pending", [b1_item()], "not of the target's benchmarks"),
]


@pytest.mark.parametrize(("field", "value", "message"), DAMAGE)
def test_a_damaged_field_is_named(tmp_path: Path, field: str, value: Any, message: str) -> None:
    path = tmp_path / "state.json"
    state = saved_state(path)
    if field == "answered" and value:
        state["trials"], state["pending"], state["random"] = {}, [], []
    path.write_text(json.dumps(state | {field: value}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=message) as caught:
            load_test(make_bank(), path)
    assert caught.value.field == field
    assert caught.value.file == str(path)


def test_damage_that_needs_the_state_itself(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state = saved_state(path)
    done, open_ = next(iter(state["answered"])), state["pending"][0]
    cases: list[tuple[str, Any]] = [
        ("pending", [open_, open_]),
        ("pending", [done]),
        ("random", [done, done]),
        *(("trials", {done: v}) for v in (0, -1, float("inf"), float("nan"), 1e300, True, "2")),
    ]
    for field, value in cases:
        path.write_text(json.dumps(state | {field: value}))
        with pytest.raises(InputError) as caught:
            load_test(make_bank(), path)
        assert caught.value.field == field
    for field in ("version", "weights", "against", "sd", "seed", "every", "answered", "trials",
                  "random", "pending"):  # fmt: skip
        path.write_text(json.dumps({k: v for k, v in state.items() if k != field}))
        with pytest.raises(InputError, match="is missing") as caught:
            load_test(make_bank(), path)
        assert caught.value.field == field
    for text in ("", "[]", "3", "null", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(InputError, match="is no state of an adaptive test"):
            load_test(make_bank(), path)
    test = AdaptiveTest(make_bank(), Target({"b0": 1.0}))
    for call in (lambda: load_test(make_bank(), tmp_path), lambda: save_test(test, tmp_path)):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.file == str(tmp_path)


def test_a_state_without_the_newer_fields_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state = saved_state(path)
    assert state["model"] == "new"
    del state["model"], state["every_by_bank"]
    path.write_text(json.dumps(state | {"every": None}))
    test = load_test(make_bank(), path)
    assert (test.model, test.every, len(test.answered), len(test.pending)) == (None, 5, 6, 2)


def test_a_test_is_of_one_model(tmp_path: Path) -> None:
    saved_state(tmp_path / "state.json")
    test = load_test(make_bank(), tmp_path / "state.json")
    item = test.pending[0]
    with pytest.raises(InputError, match="answers of model 'new', these are of 'other'"):
        test.answer({item: 1.0}, model="other")
    assert item not in test.answered
    test.answer({item: 1.0}, model="new")
    assert item in test.answered


def test_who_chose_random_items_is_kept(tmp_path: Path) -> None:
    bank = replace(make_bank(), every=np.array([1, 1]))
    for every, by_bank in ((None, True), (1, False)):
        test = AdaptiveTest(bank, Target.make(bank, "b0"), every=every)
        assert (test.every, test.every_by_bank) == (1, by_bank)
        save_test(test, tmp_path / "state.json")
        assert load_test(bank, tmp_path / "state.json").every_by_bank is by_bank


@pytest.mark.parametrize("trials", [0.0, -1.0, float("inf"), float("nan"), 1e300, "3", None])
def test_trials_are_checked_before_anything_is_kept(trials: Any) -> None:
    bank = make_bank()
    test = AdaptiveTest(bank, Target.make(bank, "b0"))
    item = bank.space.ids[0]
    with pytest.raises(InputError, match="expected trials above 0"):
        test.answer({item: 1.0}, {item: trials})
    assert not test.answered
    assert not test.trials
    with pytest.raises(InputError, match="no score for"):
        test.answer({item: 1.0}, {bank.space.ids[1]: 1.0})


def test_stopping_rules() -> None:
    bank = make_bank()
    loose = AdaptiveTest(bank, Target.make(bank, "b0", sd=0.5))
    assert loose.progress().done
    ranking = AdaptiveTest(bank, Target.make(bank, "b0", ["m0", "m3"]))
    assert not ranking.progress().done
    members = [i for i in bank.space.ids if i.startswith("b0:")]
    ranking.answer(dict.fromkeys(members, 0.0))
    now = ranking.progress()
    assert now.done
    assert all(p < 0.05 for p in now.pairs.values())


def test_a_random_test_corrects_a_wrong_space() -> None:
    """A model right on everything but easy items: S is off, its correction less so."""
    bank = make_bank(make_space(n=2000, benchmarks=1))
    easy = bank.space.intercept > 0.5
    truth = {i: float(not e) for i, e in zip(bank.space.ids, easy, strict=True)}
    model, corrected = [], []
    for seed in range(6):
        test = AdaptiveTest(bank, Target.make(bank), seed=seed)
        while len(test.answered) < 200:
            test.answer({i: truth[i] for i in test.next(20)})
        now, mean = test.progress(), float(np.mean(list(truth.values())))
        model.append(abs(now.score.value - mean))
        assert now.corrected is not None
        corrected.append(now.corrected - mean)
    assert abs(np.mean(corrected)) < 0.08


TEXT: Any = "1"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: Target.make(b, "b7"), "no benchmark 'b7'; there are b0, b1"),
        (lambda b: Target.make(b, {"b0": -1.0}), "expected a weight above 0 for 'b0'"),
        (lambda b: Target.make(b, "b0", ["nobody"]), "no known model 'nobody'"),
        (lambda b: Target.make(b, None, ["m1"]), "a ranking is on one benchmark"),
        (lambda b: Target.make(b, "b0", sd=0.0), "standard deviation above 0"),
        (lambda b: Target.make(b, "b0", sd=float("inf")), "standard deviation above 0"),
        (lambda b: Target.make(b, {"b0": 1e-300, "b1": 1e300}), "too far apart"),
        (
            lambda b: AdaptiveTest(b, Target.make(b)).answer({b.space.ids[0]: TEXT}),
            "expected a score from 0 to 1, found '1'",
        ),
        (lambda b: AdaptiveTest(b, Target.make(b)).next(0), "expected 1 item or more"),
        (lambda b: AdaptiveTest(b, Target.make(b)).answer({"b0:zz": 1.0}), "no item 'b0:zz'"),
        (
            lambda b: AdaptiveTest(b, Target.make(b)).answer({b.space.ids[0]: float("nan")}),
            "expected a score from 0 to 1, found nan",
        ),
    ],
)
def test_wrong_calls(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(make_bank())

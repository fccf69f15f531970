"""The criterion and its updates against recomputation; the test as a user takes it."""

from __future__ import annotations

from pathlib import Path

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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: Target.make(b, "b7"), "no benchmark 'b7'; there are b0, b1"),
        (lambda b: Target.make(b, {"b0": -1.0}), "expected a weight above 0 for 'b0'"),
        (lambda b: Target.make(b, "b0", ["nobody"]), "no known model 'nobody'"),
        (lambda b: Target.make(b, None, ["m1"]), "a ranking is on one benchmark"),
        (lambda b: Target.make(b, "b0", sd=0.0), "standard deviation above 0"),
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

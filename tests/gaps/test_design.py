"""Benchmark design: the objective by hand, greedy against all subsets, bounds, the command."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from lens_cases import make_data, random_data
from scipy.sparse import csr_matrix
from tests.decisions.decision_cases import make_bank, make_space

from thetascope.cli import main
from thetascope.errors import InputError
from thetascope.gaps.design import Goal, choose, mean_information, with_information
from thetascope.gaps.design_study import (
    DesignOptions,
    adding,
    asked,
    design_study,
    goal_of,
    keeping,
    load_design,
)
from thetascope.predictors import JEIRT
from thetascope.predictors.saved import fit_study
from thetascope.study import Study

DEMO = Path(__file__).parents[2] / "src" / "thetascope" / "demo" / "study"


def _random_goal(seed: int, n: int = 9, c: int = 7, information: float = 0.3) -> Goal:
    rng = np.random.default_rng(seed)
    active = csr_matrix((rng.random((n, c)) < 0.35).astype(float))
    held = rng.integers(0, 2, c).astype(float)
    root = rng.normal(size=(n, 3)) * 0.7
    start = np.eye(3) + 0.2 * np.ones((3, 3))
    needed = rng.integers(1, 4, c).astype(float)
    return Goal(active, rng.dirichlet(np.ones(c)), needed, held, information, root, start)


def test_the_objective_by_hand() -> None:
    """Two concepts asked for twice and once; one item held; log det of 2 + 1 and of 2 + 1 + 3."""
    active = csr_matrix(np.array([[1.0, 0], [1, 1], [0, 1]]))
    root = np.array([[1.0], [np.sqrt(3)], [0.0]])
    goal = Goal(active, np.array([0.75, 0.25]), np.array([2.0, 1.0]), np.array([1.0, 0.0]), 2.0,
                root, np.array([[2.0]]))  # fmt: skip
    none, first, two = (np.array(s, np.int64) for s in ([], [0], [0, 1]))
    assert goal.value(none) == pytest.approx(0.75 * 0.5 + 2 * np.log(2))
    assert goal.value(first) == pytest.approx(0.75 + 2 * np.log(3))
    assert goal.value(two) == pytest.approx(1.0 + 2 * np.log(6))


@pytest.mark.parametrize("seed", range(8))
def test_greedy_has_its_guarantee_and_the_bound_holds(seed: int) -> None:
    goal = _random_goal(seed)
    for k in (1, 2, 3, 4):
        found = choose(goal, k)
        best = max(goal.value(np.array(s)) for s in combinations(range(9), k))
        assert found.value <= best + 1e-12
        assert found.value - found.before >= (1 - 1 / np.e) * (best - found.before) - 1e-12
        assert found.bound >= best - 1e-12
        assert found.share >= 1 - (1 - 1 / k) ** k
        assert found.share <= (found.value - found.before) / (best - found.before) + 1e-12
    assert choose(goal, 1).value == pytest.approx(max(goal.value(np.array([j])) for j in range(9)))


@pytest.mark.parametrize("seed", range(5))
def test_the_lazy_choice_is_the_greedy_one(seed: int) -> None:
    goal = _random_goal(seed, n=60, c=25)
    found = choose(goal, 12)
    chosen: list[int] = []
    for step in range(12):
        now = goal.value(np.array(chosen, np.int64))
        gains = [
            -np.inf if j in chosen else goal.value(np.array([*chosen, j])) - now for j in range(60)
        ]
        j = int(np.argmax(gains))
        assert found.gains[step] == pytest.approx(gains[j], abs=1e-10)
        chosen.append(j)
    assert found.items.tolist() == chosen
    assert found.value - found.before == pytest.approx(found.gains.sum())
    assert found.looked_at < 0.6 * 12 * 60


def test_marginal_gains_fall() -> None:
    """Submodular: what an item adds to a set is no less than what it adds to a larger one."""
    goal, rng = _random_goal(3, n=20, c=12), np.random.default_rng(0)
    for _ in range(200):
        order = rng.permutation(20)
        small, large, j = order[:4], order[:9], order[10]
        to_small = goal.value(np.append(small, j)) - goal.value(small)
        to_large = goal.value(np.append(large, j)) - goal.value(large)
        assert to_small >= to_large - 1e-12
        assert to_large >= -1e-12


def test_information_is_the_log_determinant_of_rules() -> None:
    space = make_space(n=12, benchmarks=1)
    rng = np.random.default_rng(0)
    half = rng.normal(size=(3, 3))
    s0 = half @ half.T + 0.1 * np.eye(3)
    goal = Goal(csr_matrix((10, 1)), np.ones(1), np.ones(1), np.zeros(1))
    found = with_information(goal, space, s0, np.arange(2, 12), np.array([0, 1]), 0.5)
    w = mean_information(space)
    p = 1 / (1 + np.exp(-space.logits(space.theta)))
    assert w == pytest.approx((p * (1 - p)).mean(axis=1))
    u = space.design
    rows = np.array([2, 5, 0, 1])
    values, vectors = np.linalg.eigh(s0)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    whole = np.eye(3) + root @ (u[rows].T * w[rows]) @ u[rows] @ root
    assert found.log_det(np.array([0, 3])) == pytest.approx(np.log(np.linalg.det(whole)))
    everything = found.value(np.arange(10)) - found.value(np.zeros(0, np.int64))
    assert everything == pytest.approx(0.5)


def test_adding_asks_for_what_the_target_misses() -> None:
    activations = np.zeros((6, 5))
    activations[0, 0] = activations[1, 1] = 1  # the target has concepts 0 and 1
    activations[2, [0, 2]] = activations[3, 2] = activations[4, 3] = activations[5, 4] = 1
    data = make_data(np.zeros((6, 1)), activations)
    data = replace(data, flags=((), (), (), (), ("format",)))
    target = np.arange(6) < 2
    task = adding(data, target, np.ones(6, bool), 3)
    assert task.candidates.tolist() == [2, 3, 4, 5]
    assert task.concepts.tolist() == [2, 3]  # 4 is of format tokens
    assert task.needed.tolist() == [2, 1]
    found = choose(goal_of(data, task, None, 0.0), 3)
    assert task.candidates[found.items].tolist() == [4, 2, 3]
    assert found.value == pytest.approx(1.0)
    assert found.share == 1.0
    assert not asked(data)[4]


def test_keeping_covers_what_there_is() -> None:
    data = random_data(n=80, c=20, benchmarks=1)
    task = keeping(data, np.arange(80) < 50, 2)
    assert len(task.there) == 0
    assert len(task.candidates) == 50
    goal = goal_of(data, task, None, 0.0)
    assert goal.coverage(np.arange(50)) == pytest.approx(1.0)
    found = choose(goal, 10)
    rng = np.random.default_rng(0)
    others = [goal.coverage(rng.permutation(50)[:10]) for _ in range(50)]
    assert found.value >= max(others)


def test_a_bank_adds_information() -> None:
    space = make_space(n=100, benchmarks=1)
    data = replace(random_data(n=100, c=6, benchmarks=1), item_ids=space.ids)
    task = keeping(data, np.ones(100, bool), 3)
    goal = goal_of(data, task, make_bank(space), 5.0)
    found = choose(goal, 10)
    plain = choose(goal_of(data, task, None, 0.0), 10)
    assert goal.log_det(found.items) > goal.log_det(plain.items)
    other = replace(data, item_ids=("no:1", *space.ids[1:]))
    with pytest.raises(InputError, match="the item bank has no item 'no:1'"):
        goal_of(other, task, make_bank(space), 1.0)


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    shutil.copytree(DEMO, tmp_path / "s")
    return tmp_path / "s"


def test_designs_of_the_bundled_study(demo: Path) -> None:
    options = DesignOptions(n=12, information=0)
    made = design_study(demo, add_to="gsm8k", pool="benchmark:math_l5", options=options)
    assert made.new
    assert not design_study(demo, add_to="gsm8k", pool="benchmark:math_l5", options=options).new
    found = load_design(Study.open(demo))
    assert found["n_chosen"] == 12
    assert {i["benchmark"] for i in found["items"]} == {"math_l5"}
    assert found["coverage"] > found["coverage_random"] > found["coverage_before"] == 0
    assert found["value"] <= found["bound"]
    assert 1 - 1 / np.e <= found["share_of_best"] <= 1
    assert found["information"] is None
    assert found["tokens"] > found["tokens_candidates"] > 0
    table = pl.read_csv(made.folder / "items.csv")
    assert table["item_id"].to_list() == [i["item_id"] for i in found["items"]]
    assert sum(table["gain"]) == pytest.approx(found["value"] - found["before"])


def test_the_command_adds_keeps_and_writes(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "items.csv"
    words = ["design", str(demo), "--keep", "gsm8k", "--n", "8", "--name", "short"]
    assert main([*words, "--to", str(to)]) == 0
    told = capsys.readouterr().out
    assert "of its own" in told
    assert "of the best possible gain" in told
    assert pl.read_csv(to).height == 8
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["use"] == "keep"
    assert 0 < found["information"] < 1
    assert found["information"] > found["information_random"]
    assert main([*words, "--to", str(to)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_fitted_space_tells_what_items_say_about_models(demo: Path) -> None:
    pytest.importorskip("torch")
    fit_study(demo, JEIRT(dim=4, hidden=8, max_epochs=1), name="quick")
    options = DesignOptions(n=20, information=3.0)
    design_study(demo, keep_of="math_l5", options=options, fit="quick")
    found = load_design(Study.open(demo))
    assert found["information"] > found["information_random"] > 0
    plain = DesignOptions(n=20, information=0.0)
    design_study(demo, keep_of="math_l5", options=plain, name="plain")
    assert found["coverage"] < load_design(Study.open(demo), "plain")["coverage"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "expected one of add-to and keep"),
        (["--keep", "gsm8k", "--add-to", "gsm8k"], "expected one of add-to and keep"),
        (["--keep", "gsm8k", "--pool", "math_l5"], "a pool is what items are added from"),
        (["--keep", "nothing"], "no benchmark 'nothing'"),
        (["--keep", "gsm8k", "--n", "0"], "expected a whole number from 1"),
        (["--keep", "gsm8k", "--information", "-1"], "expected a number from 0"),
        (["--add-to", "gsm8k", "--pool", "gsm8k"], "no item of the target, or of the pool"),
    ],
)
def test_bad_input(
    demo: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    information = [] if "--information" in words else ["--information", "0"]
    assert main(["design", str(demo), *words, *information]) == 2
    assert told in capsys.readouterr().err

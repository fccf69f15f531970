"""Policies, guard, costs and frontier against brute force and hand-computed cases; the commands."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetascope.cli import main
from thetascope.decisions.routing.costs import predict_costs, study_costs
from thetascope.decisions.routing.evaluate import evaluate_routing, usable_responses
from thetascope.decisions.routing.frontier import area, cost_at, hull, lambda_grid, sweep
from thetascope.decisions.routing.policies import (
    choose,
    gaps,
    guarded,
    learn_defaults,
    learn_tau,
)
from thetascope.decisions.routing.predictions import Places
from thetascope.decisions.routing.router import make_router
from thetascope.decisions.routing.saved import evaluate_study, load_routing
from thetascope.decisions.routing.wording import (
    MARGIN,
    guard_sentences,
    is_no_worse,
    row_of,
    verdict_sentences,
)
from thetascope.errors import InputError, StaleError
from thetascope.evaluation import mean_replicates, ratio_interval, replicate_weights
from thetascope.predictors.base import NEW, study_sample
from thetascope.study import Study

N, DIM, M = 300, 12, 4


def made_study(
    folder: Path,
    *,
    density: float = 1.0,
    graded: bool = False,
    costs: bool = True,
    benchmarks: int = 2,
) -> Path:
    """Two benchmarks told by the first coordinate; the others tell which model is right."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(N, DIM)).astype(np.float32)
    benchmark = np.arange(N) % benchmarks
    vectors[:, 0] = np.where(benchmark == 1, 3, -3)
    ability = rng.normal(size=(DIM, M))
    ability[0] = 0
    chance = 1 / (1 + np.exp(-vectors @ ability))
    rows = []
    for i, m in itertools.product(range(N), range(M)):
        if rng.random() < density:
            score = float(chance[i, m]) if graded else float(rng.random() < chance[i, m])
            rows.append((f"b{benchmark[i]}:{i}", f"m{m}", score, 100 * (m + 1)))
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score", "n_tokens_out"], orient="row")
    ids = [f"b{benchmark[i]}:{i}" for i in range(N)]
    items = pl.DataFrame({"item_id": ids, "benchmark": [f"b{b}" for b in benchmark],
                          "text": [f"question {i}?" for i in range(N)]})  # fmt: skip
    models = pl.DataFrame({"model": [f"m{m}" for m in range(M)],
                           "price_out_usd_per_mtok": [1.0, 2.0, 3.0, 4.0]})  # fmt: skip
    folder.mkdir(parents=True)
    Study.from_tables(frame, items, models if costs else None).save(folder / "study")
    np.save(folder / "v.npy", vectors)
    (folder / "ids.txt").write_text("\n".join(ids))
    assert main(["encode", str(folder / "study"), "--vectors", str(folder / "v.npy"), "--ids",
                 str(folder / "ids.txt")]) == 0  # fmt: skip
    return folder / "study"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_study(tmp_path_factory.mktemp("routing") / "made")


def test_choices_stay_among_the_allowed_models() -> None:
    utility = np.array([[0.9, 0.5, 0.5], [np.nan, 0.2, 0.3]])
    allowed = np.array([[False, True, True], [True, True, True]])
    assert choose(utility, allowed).tolist() == [1, 2]
    best, gap = gaps(utility, np.array([2, 1]), allowed)
    assert best.tolist() == [1, 2]
    np.testing.assert_allclose(gap, [0.0, 0.1])
    assert guarded(utility, np.array([2, 1]), allowed, 0.05).tolist() == [2, 2]
    assert guarded(utility, np.array([2, 1]), allowed, np.inf).tolist() == [2, 1]


def test_tau_is_the_best_of_all_thresholds() -> None:
    """Against every threshold that makes a difference, one by one."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        gap = rng.random(60) * (rng.random(60) < 0.8)
        gain = np.where(rng.random(60) < 0.5 + 0.4 * gap, 1.0, -1.0) * (rng.random(60) < 0.6)

        def worth(tau: float, gap: np.ndarray = gap, gain: np.ndarray = gain) -> float:
            taken = np.where(gap > tau, gain, 0)
            return float(taken.mean() - taken.std() / np.sqrt(60))

        found = learn_tau(gap, gain)
        best = max(worth(t) for t in [0.0, *gap, np.inf])
        assert worth(found) == pytest.approx(best) if best > 0 else found == np.inf


def test_the_guard_never_leaves_a_default_that_is_right() -> None:
    gap = np.linspace(0, 1, 50)
    assert learn_tau(gap, -np.ones(50)) == np.inf
    assert learn_tau(gap, np.zeros(50)) == np.inf
    assert learn_tau(gap, np.ones(50)) == 0.0
    assert learn_tau(np.zeros(0), np.zeros(0)) == np.inf


def test_defaults_fill_what_is_absent(tmp_path: Path) -> None:
    """A model that answered only the easy benchmark is not the best on average for it."""
    rows = [(f"easy:{i}", "narrow", 0.9) for i in range(40)]
    rows += [(f"easy:{i}", "wide", 0.95) for i in range(40)]
    rows += [(f"hard:{i}", "wide", 0.3) for i in range(40)]
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    made = learn_defaults(study_sample(Study.from_tables(frame)))
    assert made.average[1] == pytest.approx(0.625)
    assert made.average[0] == pytest.approx((0.9 + 0.25) / 2)
    np.testing.assert_allclose(made.benchmark[:, 0], [0.9, 0.95])


def test_costs_per_answer_by_tokens_and_price(study: Path) -> None:
    opened = Study.open(study)
    costs = study_costs(opened)
    assert costs.unit == "USD per answer"
    np.testing.assert_allclose(costs.value, np.tile([1e-4, 4e-4, 9e-4, 16e-4], (N, 1)), rtol=1e-12)
    table = predict_costs(costs, study_sample(opened).items, np.arange(10))
    np.testing.assert_allclose(table.table[1], [1e-4, 4e-4, 9e-4, 16e-4])
    assert costs.without == []


def test_cost_usd_comes_first_and_prices_stand_in() -> None:
    frame = pl.DataFrame({
        "item_id": ["a:1", "a:2", "a:1", "a:2"], "model": ["x", "x", "y", "y"],
        "score": [1.0, 0.0, 1.0, 1.0],
    })  # fmt: skip
    models = pl.DataFrame({"model": ["x", "y"], "price_in_usd_per_mtok": [1.0, None],
                           "price_out_usd_per_mtok": [3.0, None]})  # fmt: skip
    prices = study_costs(Study.from_tables(frame, None, models))
    assert prices.unit == "USD per million tokens"
    assert prices.value[:, 0].tolist() == [2.0, 2.0]
    assert prices.without == ["y"]
    with_cost = frame.with_columns(
        pl.Series("cost_usd", [0.5, None, 0.25, 0.75]),
        pl.Series("n_tokens_out", [10, 1_000_000, 10, 10]),
    )
    found = study_costs(Study.from_tables(with_cost, None, models))
    assert found.unit == "USD per answer"
    assert found.value.tolist() == [[0.5, 0.25], [3.0, 0.75]]
    nothing = study_costs(Study.from_tables(frame))
    assert nothing.unit is None
    assert nothing.without == ["x", "y"]


def test_shrunk_cost_by_hand(study: Path) -> None:
    opened = Study.open(study)
    items = study_sample(opened).items
    costs = study_costs(opened)
    value = costs.value.copy()
    value[::2, 0] = 1.0  # benchmark 0
    value[1::2, 0] = np.nan
    value[1, 0] = 5.0
    table = predict_costs(costs.__class__(costs.unit, value, costs.known, costs.models), items,
                          np.arange(20))  # fmt: skip
    mean = (10 * 1.0 + 5.0) / 11
    assert table.default[0] == pytest.approx(mean)
    assert table.table[0, 0] == pytest.approx((10 + 10 * mean) / 20)
    assert table.table[1, 0] == pytest.approx((5 + 10 * mean) / 11)


points = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1)), min_size=1, max_size=12)


@given(points)
def test_no_mixture_of_two_points_is_above_the_hull(
    given_points: list[tuple[float, float]],
) -> None:
    cost, score = np.array(given_points).T
    x, y = hull(cost, score)
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) > 0).all()
    for (c1, s1), (c2, s2) in itertools.combinations(given_points, 2):
        middle, height = (c1 + c2) / 2, (s1 + s2) / 2
        assert np.interp(middle, x, y) >= height - 1e-9 if middle >= x[0] else True


def test_area_and_cost_at_by_hand() -> None:
    cost, score = np.array([1.0, 2.0, 3.0, 3.0]), np.array([0.2, 0.6, 0.7, 0.1])
    assert cost_at(cost, score, 0.6) == pytest.approx(2.0)
    assert cost_at(cost, score, 0.65) == pytest.approx(2.5)
    assert np.isnan(cost_at(cost, score, 0.71))
    assert cost_at(cost, score, 0.1) == 1.0
    assert area(cost, score, 1.0, 3.0) == pytest.approx((0.4 + 0.65) / 2)
    assert area(cost, score, 1.0, 5.0) == pytest.approx((0.4 + 0.65 + 1.4) / 4)
    assert area(cost, score, 0.0, 1.0) == pytest.approx(0.1)
    assert area(cost, score, 1.0, 1.0) == 0.7


def test_a_greater_lambda_never_costs_more() -> None:
    rng = np.random.default_rng(2)
    p, cost = rng.random((200, 5)), np.tile(rng.random(5), (200, 1))
    allowed = rng.random((200, 5)) < 0.8
    allowed[:, 0] = True
    made = sweep(p, cost, allowed, lambda_grid(cost))
    spent = cost[0][made.choice].mean(axis=1)
    assert (np.diff(spent) <= 1e-12).all()
    assert (made.choice[0] == choose(p, allowed)).all()
    cheapest = np.argmin(np.where(allowed, cost, np.inf), axis=1)
    assert (made.choice[-1] == cheapest).mean() > 0.97


def test_replicates_of_many_columns_are_those_of_one() -> None:
    rng = np.random.default_rng(3)
    values, group = rng.random((90, 3)), rng.integers(0, 30, 90)
    values[::4, 1] = np.nan
    weights = replicate_weights(30, n=200)
    draws = mean_replicates(values, group, weights)
    for k in range(3):
        one = ratio_interval(values[:, k], group, weights)
        assert np.quantile(draws[:, k], 0.025) == pytest.approx(one.low)


def test_the_router_beats_the_defaults_where_items_tell(study: Path) -> None:
    found = evaluate_routing(Study.open(study), "ridge", seeds=5)
    table = found.table
    assert (table["items"], table["seeds"], table["n_items"]) == ("complete", 5, 150)
    routed = row_of(table, "ridge")
    assert routed["minus_best_average_low"] > 0.05
    guarded_ = row_of(table, "ridge_guarded")
    for base in ("best_average", "best_per_benchmark"):
        assert is_no_worse(guarded_, base)
    oracle = row_of(table, "oracle")
    assert all(r["score"] <= oracle["score"] + 1e-12 for r in table["rows"]
               if r["benchmark"] == "all")  # fmt: skip
    # by hand, from the kept choices
    frame = Study.open(study).responses
    picked = found.choices.join(frame, left_on=["item_id", "ridge"], right_on=["item_id", "model"])
    assert picked["score"].mean() == pytest.approx(routed["score"])
    everyone = found.choices.join(frame, on="item_id").group_by("item_id").agg(
        pl.col("score").mean().alias("mean"), pl.col("score").max().alias("max"))  # fmt: skip
    assert everyone["mean"].mean() == pytest.approx(row_of(table, "random")["score"])
    assert everyone["max"].mean() == pytest.approx(oracle["score"])
    # tokens and prices: cost of the choice
    assert picked.select((pl.col("n_tokens_out") ** 2 / 100).mean() / 1e6).item() == (
        pytest.approx(routed["cost"])
    )
    curve = next(c for c in table["frontier"]["curves"] if c["policy"] == "ridge")
    assert curve["score"][0] == pytest.approx(routed["score"])
    assert 0 < curve["cost_share_at_equal_score"] < 1


def test_an_absent_response_is_no_zero(tmp_path: Path) -> None:
    """With holes every policy chooses among the observed models of an item."""
    opened = Study.open(made_study(tmp_path / "holes", density=0.6))
    sample = study_sample(opened)
    usable, mode = usable_responses(sample, None, "auto")
    assert mode == "observed"
    assert (np.count_nonzero(usable, axis=1) != 1).all()
    found = evaluate_routing(opened, "ridge", seeds=2)
    frame = opened.responses
    for policy in ("ridge", "best_average", "knn", "ridge_guarded", "best_per_benchmark"):
        picked = found.choices.join(
            frame, left_on=["item_id", policy], right_on=["item_id", "model"]
        )
        assert picked.height == found.table["n_items"], policy
    complete = evaluate_routing(opened, "ridge", seeds=2, items="complete").table
    assert complete["n_items"] < found.table["n_items"]
    assert complete["n_items_left_out"] > 0


def test_graded_scores_are_utilities(tmp_path: Path) -> None:
    opened = Study.open(made_study(tmp_path / "graded", graded=True))
    table = evaluate_routing(opened, "ridge", seeds=1).table
    assert row_of(table, "ridge")["minus_best_average_low"] > 0.02


def test_without_costs_there_is_no_frontier_and_it_is_said(tmp_path: Path) -> None:
    opened = Study.open(made_study(tmp_path / "free", costs=False))
    table = evaluate_routing(opened, "ridge", seeds=1).table
    assert table["frontier"] is None
    assert table["costs"]["unit"] is None
    assert row_of(table, "ridge")["cost"] is None


def test_a_model_without_a_cost_is_routed_without_and_listed(study: Path) -> None:
    opened = Study.open(study)
    prices = pl.Series("price_out_usd_per_mtok", [1.0, 2.0, 3.0, None])
    part = replace(opened, models=opened.models.with_columns(prices))
    found = evaluate_routing(part, "ridge", seeds=2)
    assert found.table["costs"]["models_without"] == ["m3"]
    assert "m3" in found.choices["ridge"].to_list()
    assert row_of(found.table, "ridge")["cost"] is None, "no mean over some of the items"
    assert row_of(found.table, "random")["cost"] is None
    assert row_of(found.table, "ridge")["score"] == row_of(
        evaluate_routing(opened, "ridge", seeds=2).table, "ridge")["score"]  # fmt: skip
    points = {p["policy"]: p for p in found.table["frontier"]["points"]}
    assert points["dearest"]["cost"] == pytest.approx(9e-4)


def test_one_benchmark_has_one_default(tmp_path: Path) -> None:
    study = made_study(tmp_path / "one", benchmarks=1)
    table = evaluate_routing(Study.open(study), "ridge", seeds=2).table
    policies = {r["policy"] for r in table["rows"]}
    assert policies == {"random", "best_average", "ridge", "ridge_guarded", "knn", "knn_weighted",
                        "knn_weighted_guarded", "oracle"}  # fmt: skip
    assert {r["benchmark"] for r in table["rows"]} == {"all"}
    assert is_no_worse(row_of(table, "ridge_guarded"), "best_average")
    assert main(["fit", str(study), "--predictor", "ridge"]) == 0
    router = make_router(Study.open(study), "ridge")
    assert router.tau < np.inf


def test_a_benchmark_is_guessed_from_the_nearest_texts(study: Path) -> None:
    items = study_sample(Study.open(study)).items
    places = Places(items.take(np.arange(200)))
    rest = items.take(np.arange(200, N))
    found = places.guess(rest)
    assert [found.benchmarks[b] for b in found.benchmark] == [items.benchmarks[b]
                                                              for b in rest.benchmark]  # fmt: skip
    bare = items.take(np.arange(3))
    object.__setattr__(bare, "vectors", None)
    nothing = places.guess(bare)
    assert {nothing.benchmarks[b] for b in nothing.benchmark} == {NEW}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": 0}, "expected 1 to 10 seeds"),
        ({"candidates": ["m0", "m9"]}, "'m9' is no model of the study; there are m0, m1"),
        ({"candidates": ["m0"]}, "routing needs two models or more"),
        ({"items": "some"}, "expected auto, complete, observed, found 'some'"),
    ],
)
def test_bad_settings(study: Path, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_routing(Study.open(study), "ridge", **settings)


def test_no_worse_is_the_rule() -> None:
    assert MARGIN == 0.003
    assert is_no_worse({"minus_a": -0.003, "minus_a_high": 0.0}, "a")
    assert not is_no_worse({"minus_a": -0.0031, "minus_a_high": 0.01}, "a")
    assert not is_no_worse({"minus_a": -0.001, "minus_a_high": -0.0001}, "a")
    assert is_no_worse({"minus_a": None, "minus_a_high": None}, "a") is None


def test_a_guard_that_never_leaves_says_so() -> None:
    same = {"policy": "ridge_guarded", "benchmark": "all"}
    for base in ("best_average", "best_per_benchmark"):
        same |= {f"minus_{base}{end}": 0.0 for end in ("", "_low", "_high")}
    found = {"router": "ridge", "rows": [same], "learnt": {"seed 0": {"tau ridge": "inf"}}}
    assert guard_sentences(found) == ["guard of ridge: never leaves the default"]
    assert verdict_sentences(found)[0] == "ridge, guard: scores as best average does throughout"
    found["learnt"]["seed 1"] = {"tau ridge": 0.02}
    assert "beyond a gain of never, 2.0 points" in guard_sentences(found)[0]


def test_the_commands_evaluate_keep_and_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = made_study(tmp_path / "kept")
    capsys.readouterr()
    command = ["route", "evaluate", str(study), "--predictor", "ridge", "--seeds", "2"]
    assert main([*command, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    made = evaluate_study(study, "ridge", seeds=2)
    assert not made.new
    assert first["folder"] == str(made.folder)
    assert {p.name for p in made.folder.iterdir()} == {
        "choices.parquet", "routing.json", "manifest.json", "run.json"
    }  # fmt: skip
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "60 unseen items of 2 splits, 4 candidates (every candidate answered each)" in out
    assert "ridge, guard: better than best average" in out
    assert "was already in" in out
    config = tmp_path / "c.toml"
    config.write_text('[route.evaluate]\nseeds = 1\npredictor = "knn"\nname = "other"\n')
    assert main(["route", "evaluate", str(study), "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seeds"] == 1
    assert load_routing(Study.open(study), "other").table["router"] == "knn"
    assert main(["route", "ask", str(study), "why?", "--predictor", "ridge"]) == 2
    assert f"make one with: thetascope fit {study} --predictor ridge" in capsys.readouterr().err
    assert main(["fit", str(study), "--predictor", "ridge"]) == 0
    capsys.readouterr()
    assert main(["route", "ask", str(study), "why?", "--predictor", "ridge"]) == 2
    assert "give the new text's vector instead" in capsys.readouterr().err
    fake = type("E", (), {"encode": lambda self, texts: np.ones((len(texts), DIM), np.float32)})
    monkeypatch.setattr("thetascope.cli.route.encoder_for", lambda vectors: fake())
    ask = ["route", "ask", str(study), "--predictor", "ridge"]
    (tmp_path / "q.txt").write_text("why?\n")
    assert main([*ask, "--file", str(tmp_path / "q.txt"), "--benchmark", "b1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["chances"]) == {"m0", "m1", "m2", "m3"}
    assert answer["model"] == answer["best"] or answer["guarded"]
    assert answer["cost_unit"] == "USD per answer"
    assert main([*ask, "why?", "--lambda", "1e6", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "m0"
    assert main([*ask, "why?", "--candidates", "m2", "m3"]) == 0
    out = capsys.readouterr().out
    assert "2 candidates" in out
    assert "ask m" in out
    for arguments, message in (
        (["--benchmark", "b7", "why?"], "'b7' is no benchmark of the study; there are b0, b1"),
        (["--max-cost", "1e-9", "why?"], "every model costs more than 1e-09 (USD per answer)"),
        (["--candidates", "m7", "--file", "none.txt"], "none.txt: cannot be read"),
        ([], "give the question, or --file"),
        ([" "], "the question is empty"),
        (["--lambda", "-1", "why?"], "expected a number from 0, found -1"),
    ):
        assert main([*ask, *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    extra = tmp_path / "more.csv"
    extra.write_text("item_id,model,score\nb0:0,new,1\n")
    assert main(["import", str(extra), "--into", str(study)]) == 0
    with pytest.raises(StaleError, match=r"thetascope route evaluate --name other"):
        load_routing(Study.open(study), "other")


def test_serving_without_its_packages_says_what_to_install(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("thetascope.service.app", "thetascope.service.serve"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["route", "serve", str(study)]) == 2
    assert capsys.readouterr().err == (
        "thetascope: Serving needs packages that are not installed; install them with:"
        " pip install 'thetascope[serve]'\n"
    )


def test_one_answer_and_many_choices_agree(study: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(study, tmp_path / "s")
    assert main(["fit", str(tmp_path / "s"), "--predictor", "knn_weighted"]) == 0
    router = make_router(Study.open(tmp_path / "s"), "knn_weighted")
    vectors = np.random.default_rng(5).normal(size=(40, DIM)).astype(np.float32)
    for benchmark in ("b0", None):
        items = router.questions(vectors=vectors, benchmark=benchmark)
        many = [router.models[i] for i in router.choose(items)]
        assert many == [a.model for a in router.route(items)]

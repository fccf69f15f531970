"""A left-out model's benchmark score from k of its answers, on the four real sets.

    python -m benchmarks.adaptive [--draws 10] [--json FILE] [SET ...]

`--draws 0` measures the tiny sets alone.

Five folds of models (twins together); items, prior, misfit and tiny sets are learnt without the
fold. Truth is the model's mean over all its answers on the benchmark. Rows: the adaptive test
(with its random fifth), the tiny set, k random answers read by the model, their plain mean, and
the 2PL's Fisher information at the running estimate (`irt_2pl`). Bars: mean absolute error at
100 of 2.0 points on gsm8k and mmlu_pro and 2.2 on math_l5; adaptive below random + model,
paired; 90 % intervals hold in 87 to 93 % of all cases.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.bars import Bars
from benchmarks.decide_sets import SHARED, crosswalk, load
from thetascope.decisions.adaptive import EVERY
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.build import learn_items, twin_groups
from thetascope.decisions.calibration import (
    answers_of,
    calibrate,
    left_out_folds,
    model_folds,
    part_of_bank,
    take_models,
    take_test,
)
from thetascope.decisions.onboarding import settle
from thetascope.decisions.posterior import Answers, Gaussian, fit_ability, information
from thetascope.decisions.prior import learn_prior
from thetascope.decisions.tiny import TinySet, estimate_from, tiny_set
from thetascope.errors import InputError
from thetascope.predictors.irt import TwoPL
from thetascope.predictors.logit_space import LogitSpace

SETS = ("zeroeval", "mmlu_pro", "llmrouter", "alpaca_eval")
SIZES = (25, 50, 100, 200)
Z = 1.6448536
GOALS = (("zeroeval", "gsm8k", 2.0), ("mmlu_pro", "mmlu_pro", 2.0), ("zeroeval", "math_l5", 2.2))


class Case(NamedTuple):
    set: str
    benchmark: str
    model: str
    draw: int
    way: str
    k: int
    error: float
    sd: float
    inside: bool


def run(name: str, draws: int, with_tiny: bool = True) -> list[Case]:
    """All cases of a set."""
    sample = load(name)
    twins = twin_groups(sample.responses.models, crosswalk(name))
    folds = model_folds(twins)
    cases: list[Case] = []
    for f in range(int(folds.max()) + 1):
        out = folds == f
        train = take_models(sample, ~out)
        space = learn_items(train)
        own = twins[~out]
        prior = learn_prior(space, train.responses, twins=own)
        inner = list(left_out_folds(train, learn_items, prior, own, seed=1))
        zeros = np.zeros(len(sample.items.benchmarks))
        bank = ItemBank(space, prior, train.responses, zeros)
        if draws:
            bank = calibrate(bank, inner, train)
        two = TwoPL().fit(train)
        flat = two.logit_space(sample.items)
        for b, benchmark in enumerate(sample.items.benchmarks):
            tiny = {}
            for k in SIZES if with_tiny else ():
                try:
                    tiny[k] = tiny_set(bank, k, benchmark, folds=inner, sample=train)
                except InputError:
                    continue
            chosen = {k: f"{t.design} {t.share:g}" for k, t in tiny.items()}
            every = EVERY if bank.every is None else bank.every[b]
            points = f"misfit {100 * bank.misfit[b]:.2f} points, one in {every} random"
            print(f"   fold {f} {benchmark}: {points}, tiny {chosen}", flush=True)
            for i in np.flatnonzero(out).tolist():
                answers = answers_of(sample, i)
                mine = answers.take(sample.items.benchmark[answers.rows] == b)
                head = (name, benchmark, sample.responses.models[i])
                for way, draw, k, value, sd, inside in one_model(bank, mine, b, tiny, flat, draws):
                    error = value - float(mine.score.mean())
                    cases.append(Case(*head, draw, way, k, error, sd, inside))
    return cases


def one_model(
    bank: ItemBank, mine: Answers, b: int, tiny: dict[int, TinySet], flat: LogitSpace, draws: int
) -> Iterator[tuple[str, int, int, float, float, bool]]:
    """Way, draw, k, estimate, standard deviation and whether the interval holds."""
    sizes = [k for k in SIZES if 2 * k <= len(mine)]
    if not sizes:
        return
    part = part_of_bank(bank, mine.rows)
    truth, score, ones = float(mine.score.mean()), mine.score, mine.trials
    everything = Answers(np.arange(len(score)), score, ones)
    for draw in range(draws):
        for k, test in take_test(part, score, ones, b, sizes, seed=draw):
            s = test.progress().score
            yield "adaptive", draw, k, s.value, s.sd, s.low <= truth <= s.high
        order = np.random.default_rng((draw, b, len(score))).permutation(len(score))
        for k in sizes:
            picked = everything.take(order[:k])
            posterior, phi = settle(part, picked)
            s = part.score(posterior, picked, b, dispersion=phi)
            yield "random + model", draw, k, s.value, s.sd, s.low <= truth <= s.high
            mean = float(picked.score.mean())
            sd = float(np.sqrt(mean * (1 - mean) / k * (1 - k / len(score))))
            yield "random", draw, k, mean, sd, abs(mean - truth) <= Z * sd
    for k in sizes if tiny else ():
        there = np.array([r for r in map(part.row, tiny[k].items) if r >= 0])
        if len(there) >= 0.9 * k:
            value, sd = tiny_estimate(tiny[k], part, everything.take(there))
            yield "tiny set", 0, k, value, sd, abs(value - truth) <= Z * sd
    if not draws:
        return
    for k, value in fisher(flat.design[mine.rows], flat.intercept[mine.rows], score, sizes):
        yield "2PL Fisher", 0, k, value, float("nan"), False


def tiny_estimate(tiny: TinySet, part: ItemBank, answers: Answers) -> tuple[float, float]:
    """Estimate and standard deviation; the model may have missed items of the set."""
    rows = np.array([part.row(q) for q in tiny.items])
    members = np.arange(len(part.space))
    value, sd, rest = estimate_from(
        part, answers, rows, np.array(tiny.weights), members, tiny.share
    )
    return value, float(np.hypot(sd, tiny.misfit * rest))


def fisher(x: np.ndarray, c: np.ndarray, score: np.ndarray, sizes: list[int]):
    """Scores by the 2PL with maximum Fisher information at the running MAP."""
    prior, theta = Gaussian(np.zeros(1), np.eye(1)), np.zeros(1)
    asked: list[int] = []
    for k in range(1, max(sizes) + 1):
        p = 1 / (1 + np.exp(-(x @ theta + c)))
        gain = information(p, p * (1 - p)) * x[:, 0] ** 2
        gain[asked] = -1
        asked.append(int(gain.argmax()))
        theta = fit_ability(x[asked], c[asked], score[asked], np.ones(k), prior, start=theta).mean
        if k in sizes:
            p = 1 / (1 + np.exp(-(x @ theta + c)))
            p[asked] = score[asked]
            yield k, float(p.mean())


def show(cases: list[Case], bars: Bars) -> None:
    """Tables and bars."""
    table: dict[tuple[str, str, str, int], list[Case]] = defaultdict(list)
    for case in cases:
        table[case.set, case.benchmark, case.way, case.k].append(case)
    ways = ("adaptive", "tiny set", "random + model", "random", "2PL Fisher")
    for name, benchmark in dict.fromkeys((c.set, c.benchmark) for c in cases):
        models = len({c.model for c in cases if (c.set, c.benchmark) == (name, benchmark)})
        head = "mean |error| in points, bias, 90 % coverage"
        print(f"{name} {benchmark} ({models} models): {head}")
        for way in ways:
            cells = []
            for k in SIZES:
                own = table.get((name, benchmark, way, k))
                if own:
                    e = 100 * np.array([c.error for c in own])
                    inside = np.mean([c.inside for c in own])
                    cover = "" if way == "2PL Fisher" else f" {inside:.2f}"
                    cells.append(f"{np.abs(e).mean():5.2f} {e.mean():+.2f}{cover}")
                else:
                    cells.append("-")
            print(f"  {way:15s} " + " | ".join(cells))
    for name, benchmark, bar in (
        ("zeroeval", "gsm8k", 2.0),
        ("mmlu_pro", "mmlu_pro", 2.0),
        ("zeroeval", "math_l5", 2.2),
    ):
        own = table.get((name, benchmark, "adaptive", 100))
        if own:
            error = 100 * float(np.mean([abs(c.error) for c in own]))
            bars.at_most(f"{benchmark}: error at 100 answers", error, bar, "points")
    paired(cases, bars)
    own = [c for c in cases if c.way == "adaptive"]
    for way in ("adaptive", "tiny set", "random + model"):
        rows = [c for c in cases if c.way == way]
        if not rows:
            continue
        share = 100 * np.mean([c.inside for c in rows])
        print(f"  {way}: 90 % intervals hold in {share:.1f} % of {len(rows):,}")
    if not own:
        return
    cover = 100 * float(np.mean([c.inside for c in own]))
    bars.at_least("adaptive: 90 % intervals hold, all sets", cover, 87, "%")
    bars.at_most("adaptive: 90 % intervals hold, all sets", cover, 93, "%")


def paired(cases: list[Case], bars: Bars) -> None:
    """Adaptive minus random + model, per model and benchmark, with a bootstrap over models."""
    value: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for c in cases:
        value[c.set, c.benchmark, c.model, c.k][c.way].append(abs(c.error))
    rng = np.random.default_rng(0)
    for k in SIZES:
        by_model: dict[tuple, list[float]] = defaultdict(list)
        for (name, _, model, size), ways in value.items():
            if size == k and "adaptive" in ways:
                by_model[name, model].append(
                    100 * (np.mean(ways["adaptive"]) - np.mean(ways["random + model"]))
                )
        if not by_model:
            continue
        total = np.array([sum(v) for v in by_model.values()])
        n = np.array([len(v) for v in by_model.values()])
        draws = rng.integers(0, len(n), (2000, len(n)))
        high = float(np.quantile(total[draws].sum(1) / n[draws].sum(1), 0.975))
        print(f"  k = {k}: adaptive - random + model {total.sum() / n.sum():+.2f} points")
        bars.at_most(f"k = {k}: adaptive - random + model, upper end", high, 0, "points")


def main() -> None:
    """Runs the sets named, or all four."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", action="store_true", help="show the cases of --json, run nothing")
    parser.add_argument("--without-tiny", action="store_true", help="leave the tiny sets out")
    parser.add_argument("sets", nargs="*")
    given = parser.parse_args()
    if not SHARED.is_dir():
        print("skipped: the folder of real results beside the repository is absent")
        return
    cases: list[Case] = []
    bars = Bars()
    if given.read:
        for line in given.json.read_text("utf-8").splitlines():
            cases.append(Case(*json.loads(line)))
    else:
        for name in given.sets or SETS:
            print(f"-- {name}", flush=True)
            new = run(name, given.draws, not given.without_tiny)
            cases += new
            if given.json:
                with given.json.open("a", encoding="utf-8") as file:
                    file.writelines(
                        json.dumps([*c[:6], *map(float, c[6:8]), bool(c[8])]) + "\n" for c in new
                    )
    show(cases, bars)
    bars.finish()


if __name__ == "__main__":
    main()

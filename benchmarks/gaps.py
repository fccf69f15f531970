"""Inference of gaps on planted truth, and its speed.

Bars: planted gaps (2,000 concepts, 20 planted, base score .6 to .75) of 25 points at effective n
100 and of 15 points at 300: recall at least .9 with mean false discovery at most .1 over 50 runs.
Permuted scores (GSM8K's shape: 1,319 items, mean .87, heavy-tailed activations): at most 6.5 %
of 1,000 runs with a family-wise gap. Intervals of chi cover 93 to 98.5 % in every bin of
effective n from 10 up. 36,000 items x 65,536 concepts, 1,000 active an item, 112 models:
coverage, performance, z and q in under 60 s and 6 GB; 1,000 bootstrap replicates of one model in
under 60 s; cost linear in the non-zeros.

    python -m benchmarks gaps [planted|power|null|intervals|speed ...]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from scipy.sparse import csr_matrix

from benchmarks.bars import Bars
from thetascope.gaps.bootstrap import suite
from thetascope.gaps.coverage import coverage
from thetascope.gaps.data import GapData
from thetascope.gaps.familywise import familywise
from thetascope.gaps.inference import chi_interval
from thetascope.gaps.moments import moments
from thetascope.gaps.performance import LEVEL, performance
from thetascope.gaps.synthetic import Planted, planted

RUNS = 50


def recall(plan: Planted, runs: int) -> tuple[float, float]:
    """Mean recall and mean share of false discoveries at q < .05."""
    found, wrong = [], []
    for seed in range(runs):
        made = planted(replace(plan, seed=seed))
        rows = performance(made.data)[0].table
        called = rows.filter(pl.col("q_low") < LEVEL)["concept"].to_numpy()
        found.append(np.isin(made.own, called).mean())
        wrong.append(0.0 if not len(called) else 1 - np.isin(called, made.own).mean())
    return float(np.mean(found)), float(np.mean(wrong))


def planted_gaps(bars: Bars) -> None:
    """The two bars."""
    for own, effective, n in ((0.25, 100, 2000), (0.15, 300, 3000)):
        plan = Planted(n_items=(n, n), own=own, own_n_eff=effective)
        r, f = recall(plan, RUNS)
        what = f"{100 * own:.0f} points at n_eff {effective}"
        bars.at_least(f"{what}: recall over {RUNS} runs", r, 0.9)
        bars.at_most(f"{what}: mean false discovery", f, 0.1)


def power(_: Bars) -> None:
    """Recall at q < .05 for the table in the docs: 10 to 25 points, effective n 50 to 400."""
    sizes = (50, 100, 200, 300, 400)
    print("     points | recall at n_eff " + ", ".join(map(str, sizes)))
    for own in (0.10, 0.15, 0.20, 0.25):
        row = [
            recall(Planted(n_items=(4000, 4000), own=own, own_n_eff=n), 20) for n in sizes
        ]  # fmt: skip
        print(f"     {100 * own:.0f} | " + ", ".join(f"{r:.2f}" for r, _ in row)
              + " | false " + ", ".join(f"{f:.2f}" for _, f in row), flush=True)  # fmt: skip


def null(bars: Bars) -> None:
    """Permuted scores at GSM8K's shape: runs with any family-wise gap, each direction."""
    made = planted(Planted(n_items=(1319,), n_concepts=4000, n_own=0, base=(0.87, 0.87),
                           tail=1.5, seed=0))  # fmt: skip
    rng = np.random.default_rng(0)
    runs, low, high, weak_q = 1000, 0, 0, 0
    start = time.time()
    for run in range(runs):
        shuffled = made.data.with_scores(rng.permuted(made.data.scores, axis=0))
        found = familywise(shuffled, 0, n=199, seed=run)
        low += bool((found.low < 0.05).any())
        high += bool((found.high < 0.05).any())
        rows = performance(shuffled)[0].table
        weak_q += bool((rows["q_low"] < LEVEL).any())
        if run % 100 == 99:
            print(f"     {run + 1} runs, {time.time() - start:.0f} s: {low} weak, {high} strong,"
                  f" {weak_q} with a weak q < .05", flush=True)  # fmt: skip
    bars.at_most("runs with a family-wise weak concept, %", 100 * low / runs, 6.5)
    bars.at_most("runs with a family-wise strong concept, %", 100 * high / runs, 6.5)
    print(f"     runs with a weak concept at q < .05: {100 * weak_q / runs:.1f} %")


def intervals(bars: Bars) -> None:
    """Coverage of the 95 % interval of chi in bins of effective n; true chi = sum a P / sum a."""
    edges = (10, 20, 50, 100, 200, 500, 2000)
    inside: dict[int, list[bool]] = {k: [] for k in range(len(edges) - 1)}
    small = Planted(n_items=(1319,), n_concepts=1000, base=(0.6, 0.87), tail=1.0, n_models=4)
    wide = replace(small, n_items=(6000,), n_concepts=300, tail=0.5)  # for the largest bins
    for plan in [replace(p, seed=seed) for p in (small, wide) for seed in range(40)]:
        made = planted(plan)
        found = moments(made.data, 0)
        low, high = chi_interval(found.chi, found.mass, found.weighted_square, found.n_eff)
        a = made.data.activations
        true = np.asarray(a.T @ made.chance) / found.mass
        ok = (low <= true) & (true <= high)
        for k in inside:
            here = (found.n_eff >= edges[k]) & (found.n_eff < edges[k + 1])
            inside[k] += ok[here].tolist()
    for k, found in inside.items():
        if found:
            share, what = 100 * float(np.mean(found)), f"n_eff {edges[k]} to {edges[k + 1]}"
            bars.at_least(f"interval of chi, {what} ({len(found):,} cases), %", share, 93)
            bars.at_most(f"interval of chi, {what}, %", share, 98.5)


def large(n: int, c: int, each: int, m: int, seed: int = 0) -> GapData:
    """A study of n items with `each` active concepts, as uneven as real ones."""
    rng = np.random.default_rng(seed)
    concept = (c * rng.random((n, each), np.float32) ** 3).astype(np.int32)
    concept.sort(axis=1)
    values = rng.exponential(1.0, (n, each))
    values[:, 1:][concept[:, 1:] == concept[:, :-1]] = 0  # doubles
    a = csr_matrix((values.ravel(), concept.ravel(), np.arange(n + 1) * each), shape=(n, c))
    del values, concept
    a.sum_duplicates()
    a.eliminate_zeros()
    peak = csr_matrix((rng.random(a.nnz, np.float32), a.indices, a.indptr), shape=a.shape)
    from thetascope.gaps.data import where

    scores = (rng.random((n, m)) < np.linspace(0.4, 0.9, m)).astype(float)
    return GapData(
        a, where(peak, peak.data >= 0.5), scores, rng.integers(10, 400, n),
        np.zeros(n, np.int64), ("b",), tuple(f"m{i}" for i in range(m)),
        tuple(map(str, range(n))), np.arange(n), np.arange(n), tuple(map(str, range(c))),
        ((),) * c, np.full(c, 0.01), np.ones(c, bool), peak,
    )  # fmt: skip


def speed(bars: Bars) -> None:
    """The full size, and that cost is linear."""
    seconds = []
    for share in (0.25, 0.5, 1.0):
        data = large(int(36_000 * share), 65_536, 1_000, 112)
        start = time.perf_counter()
        coverage(data)
        middle = time.perf_counter()
        found = performance(data)
        stop = time.perf_counter()
        seconds.append((data.activations.nnz, stop - start))
        print(f"     {data.activations.nnz:,} non-zeros: coverage {middle - start:.1f} s,"
              f" performance {stop - middle:.1f} s, {found[0].table.height:,} rows",
              flush=True)  # fmt: skip
        del found
    bars.at_most("36,000 x 65,536, 112 models: coverage to q", seconds[-1][1], 60, "s")
    per = [s / n for n, s in seconds]
    bars.at_most("seconds a non-zero, full size / quarter", per[2] / per[0], 1.3)
    start = time.perf_counter()
    suite(data, 0, n=1000)
    bars.at_most("1,000 replicates of one model", time.perf_counter() - start, 60, "s")
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 2**20
    bars.at_most("peak memory", peak, 6, "GiB")


def main() -> None:
    """All of it, or the parts that are named."""
    parts = {"planted": planted_gaps, "power": power, "null": null, "intervals": intervals,
             "speed": speed}  # fmt: skip
    bars = Bars()
    for name in sys.argv[1:] or parts:
        parts[name](bars)
    bars.finish()


if __name__ == "__main__":
    main()

"""Adjusted gaps, gaps beyond the space, and explanations of the space, on real studies.

    python -m benchmarks.joint_lens STUDY ... [--part null gaps beyond explain]

STUDY: folder of a study with text vectors and concepts.

null     models that answer by a 2PL with one ability a benchmark (no gap of their own): how often
         the raw score and the adjusted one call a gap in them, and the sd of z. Their others are
         drawn from it too, or are the study's models with the gaps that these have.
         Bar: adjusted, a family-wise 5 % finds a gap in at most 6.5 % of them.
gaps     gaps called in the study's models, raw and adjusted, and how they agree.
beyond   gaps beyond a JE-IRT space that never saw the item (ten folds).
explain  held-out R2 of observed error (within benchmarks), of r_j and of cluster directions, by
         concepts, less that of benchmark and length.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks.bars import Bars
from thetascope.concepts.store import load_concepts
from thetascope.decisions.build import learn_items
from thetascope.decisions.posterior import chances
from thetascope.evaluation.splits import Cells
from thetascope.gaps import GapData, gap_data, performance
from thetascope.gaps.adjusted import adjusted
from thetascope.gaps.beyond import beyond_space, unseen_chances
from thetascope.gaps.explain import explain as explain_one
from thetascope.gaps.explain import explain_space
from thetascope.gaps.others import difficulty_residuals, other_models, twin_models
from thetascope.gaps.performance import LEVEL
from thetascope.gaps.residuals import residual_gaps
from thetascope.predictors import study_sample
from thetascope.predictors.jeirt import PlainJEIRT
from thetascope.predictors.setup import fit_sets, study_groups
from thetascope.space.clusters import grow
from thetascope.space.fitted import space_of
from thetascope.study import Study, store

PARTS = ("null", "gaps", "beyond", "explain")
SIMULATED = 100

Array = NDArray[np.float64]


def load(path: Path) -> tuple[Study, GapData]:
    """A study and its activations, by the offline encoder's concepts where it has them."""
    study = Study.open(path)
    known = list(store.read_index(path).derived["concepts"])
    chosen = "offline-minilm" if "offline-minilm" in known else known[0]
    groups = study_groups(study, study_sample(study).items).labels
    return study, gap_data(study, load_concepts(study, chosen), groups=groups)


def null(name: str, study: Study, data: GapData, bars: Bars) -> None:
    """Models without a gap of their own."""
    sample = study_sample(study).take(Cells(data.rows))
    space = learn_items(sample, {"by": "benchmark"})  # by subject, they would have gaps
    rng = np.random.default_rng(0)
    theta = space.theta[rng.integers(0, len(space.theta), SIMULATED)]
    p = chances(space.design @ theta.T + space.intercept[:, None], space.chance)[0]
    drawn = (rng.random(p.shape) < p).astype(float)
    known = chances(space.design @ space.theta.T + space.intercept[:, None], space.chance)[0]
    fresh = np.where(np.isfinite(data.scores), rng.random(known.shape) < known, np.nan)
    names = tuple(f"s{i}" for i in range(SIMULATED))
    made = data.with_scores(drawn, names)
    m = len(data.models)
    twins = np.zeros((m + SIMULATED, m + SIMULATED), bool)
    twins[m:, m:] = True
    twins[:m, :m] = twin_models(data)
    kinds = {"raw": performance(made)}
    variants = (
        ("adjusted, drawn others", fresh, False), ("adjusted, real others", data.scores, False),
        ("with a curve, drawn others", fresh, True),
        ("with a curve, real others", data.scores, True),
    )  # fmt: skip
    for kind, others, curve in variants:
        scores = np.concatenate([others, drawn], axis=1)
        residuals = np.full(drawn.shape, np.nan)
        for part in data.parts:
            found = other_models(scores[part], twins)
            residuals[part] = difficulty_residuals(scores[part], found, curve=curve)[0][:, m:]
        kinds[kind] = residual_gaps(made, residuals)  # type: ignore[assignment]
    for kind, found in kinds.items():
        for scope in found:
            rows = scope.table.group_by("model").agg(
                (pl.col("p_low").min() < 0.05 / pl.len()).alias("low"),
                (pl.col("p_high").min() < 0.05 / pl.len()).alias("high"),
                (pl.col("q_low") < LEVEL).sum().alias("called"),
            )
            rate, high = float(rows["low"].mean()), float(rows["high"].mean())  # type: ignore[arg-type]
            print(f"   {kind}: {scope.scope:14s} sd z {scope.table['z'].std():.2f}; models with"
                  f" a family-wise gap {100 * rate:.0f} %, strength {100 * high:.0f} %;"
                  f" gaps called a model {rows['called'].mean():.2f}", flush=True)  # fmt: skip
            if kind != "raw":
                bars.at_most(f"{name} {scope.scope}, {kind}: false gaps", rate, 0.065)


def gaps(data: GapData) -> None:
    """What is called, raw and adjusted."""
    raw, found = performance(data), adjusted(data)
    if found is None:
        print("   under five other models: nothing is adjusted")
        return
    for one, two in zip(raw, found, strict=True):
        both = one.table.join(two.table, on=["model", "concept"], suffix="_adjusted")
        rho = spearmanr(both["effect"], both["effect_adjusted"]).statistic
        called = [t.filter(pl.col("q_low") < LEVEL) for t in (one.table, two.table)]
        common = called[0].join(called[1], on=["model", "concept"]).height
        slope = two.models["slope"].drop_nulls()
        print(f"   {one.scope:14s} gaps at q < {LEVEL}: raw {called[0].height:,}, adjusted"
              f" {called[1].height:,}, both {common:,}; of {one.table.height:,} tests;"
              f" Spearman of effects {rho:.2f}; lambda {slope.median():.2f};"
              f" sd z raw {one.table['z'].std():.2f}, adjusted {two.table['z'].std():.2f}",
              flush=True)  # fmt: skip
    twins = found[0].models.filter(pl.col("twins").list.len() > 0)
    print(f"   twins by answers: {twins['model'].to_list()}")


def beyond(study: Study, data: GapData) -> None:
    """What the space did not foresee."""
    sample = study_sample(study)
    groups = study_groups(study, sample.items).labels
    p = unseen_chances(sample, groups)
    raw, scopes = performance(data), beyond_space(data, p)
    for one, two in zip(raw, scopes, strict=True):
        both = one.table.join(two.table, on=["model", "concept"], suffix="_beyond")
        rho = spearmanr(both["effect"], both["effect_beyond"]).statistic
        called = [t.filter(pl.col("q_low") < LEVEL).height for t in (one.table, two.table)]
        print(f"   {one.scope:14s} gaps at q < {LEVEL}: raw {called[0]:,}, beyond the space"
              f" {called[1]:,}; Spearman of effects {rho:.2f}; sd of effects raw"
              f" {one.table['effect'].std():.3f}, beyond {two.table['effect'].std():.3f};"
              f" sd z {two.table['z'].std():.2f}", flush=True)  # fmt: skip


def explain(study: Study, data: GapData, k: int) -> None:
    """Observed and learnt difficulty, and the first clusters of eight, by concepts."""
    train, held = fit_sets(study)
    space = space_of(PlainJEIRT().fit(train, held), study_sample(study).items)
    tree = grow(space.topic)
    label = tree.labels(8)
    centres = np.stack([space.topic[label == k].mean(axis=0) for k in range(8)])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    error = np.empty(data.n_items)
    for part in data.parts:
        s = data.scores[part]
        s = s[:, np.isfinite(s).any(axis=0)]
        error[part] = -np.nanmean(s - np.nanmean(s, axis=0), axis=1)
    observed = explain_one(error, data, "observed error")
    for e in [observed, *explain_space(space, data, centres[:k])]:
        top = ", ".join(f"{c.label} ({c.weight:+.2f}, {c.folds}/5)" for c in e.coefficients[:3])
        size = f"{len(e.coefficients)} of {e.n_concepts:,} concepts"
        print(f"   {e.target:10s} R2 {e.base.value:.3f} -> {e.full.value:.3f}: gain"
              f" {e.gain.value:+.3f} [{e.gain.low:+.3f}, {e.gain.high:+.3f}],"
              f" {size}: {top}", flush=True)  # fmt: skip


def main() -> None:
    """Runs the parts named, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=PARTS, nargs="*")
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("studies", nargs="+", type=Path)
    given = parser.parse_args()
    bars = Bars()
    for path in given.studies:
        study, data = load(path)
        print(f"-- {path.name}: {data.n_items:,} items, {len(data.models)} models", flush=True)
        for part in given.part or PARTS:
            print(f"  {part}")
            if part == "null":
                null(path.name, study, data, bars)
            elif part == "gaps":
                gaps(data)
            elif part == "beyond":
                beyond(study, data)
            else:
                explain(study, data, given.clusters)
    bars.finish()


if __name__ == "__main__":
    main()

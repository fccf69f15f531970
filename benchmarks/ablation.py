"""What each part of the default predictor adds, on validation data.

    python -m benchmarks ablation [--work DIR] [--seeds N] [--split cold-items|warm-cells]
                                  [--rows parts|options] [SET ...]

Every row learns from the training part, chooses on one half of the validation fold and is scored
on the other half (RULES M3); no test fold is looked at. The last rows recalibrate the whole: a
scale and a shift of the logits learnt on the half of the choices.

`--rows options` are JE-IRT's item residual and guessing floor, by themselves and within the blend.
On cold items a residual changes nothing (tested), so its rows are those of warm cells. Of the four
sets mmlu_pro alone has chance levels: 1 / n_options, which is set here, where an item has two
options or more.

Beside it: the coverage of the 95 % intervals of a model's mean over sets of cold items of the
test folds (`forecast`), the interval's width learnt on the calibration half.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from thetascope.evaluation import cold_items, warm_cells
from thetascope.evaluation.metrics import accuracy
from thetascope.predictors import JEIRT, Predictor, Sample, make_predictor, study_sample
from thetascope.predictors.base import validation_loss
from thetascope.predictors.forecast import MeanInterval
from thetascope.predictors.setup import study_groups
from thetascope.study import Study

SETS = ("zeroeval", "mmlu_pro", "llmrouter", "alpaca_eval")
SIZES = (50, 100, 200)
DRAWS = 100


def rows(warm: bool) -> dict[str, Predictor]:
    """The predictors of the table, each the one before with one thing more."""
    if warm:
        return {name: make_predictor(name) for name in
                ("irt_1pl", "irt_2pl", "jeirt", "mirt", "mirt_text", "blend")}  # fmt: skip
    bare: dict[str, Any] = {"traits": False, "neighbours": False, "features": False}
    return {
        "jeirt (paper's)": make_predictor("jeirt"),
        "+ offset": make_predictor("blend", fits=1, **bare),
        "+ three fits": make_predictor("blend", **bare),
        "+ surface and subject": make_predictor("blend", **{**bare, "features": True}),
        "+ MIRT with texts": make_predictor("blend", neighbours=False),
        "+ neighbours": make_predictor("blend"),
        "the same, weights fixed": make_predictor("blend", weighted=False),
        "mirt_text alone": make_predictor("mirt_text"),
        "knn_weighted alone": make_predictor("knn_weighted"),
    }


def option_rows(warm: bool, chance: bool) -> dict[str, Predictor]:
    """JE-IRT and the blend with and without each option that the split and the items allow."""
    options: dict[str, dict[str, bool]] = {"": {"residual": False}}
    if warm:
        options[" + residual"] = {"residual": True}
    if chance:
        options[" + floor"] = {"floor": True, "residual": False}
    if warm and chance:
        options[" + residual + floor"] = {"residual": True, "floor": True}
    return {
        name + label: make_predictor("blend", **given) if name == "blend" else JEIRT(**given)
        for name in ("jeirt", "blend")
        for label, given in options.items()
    }


def with_chance(sample: Sample, study: Study) -> Sample:
    """The sample with chance levels where the items table says how many options there were."""
    if "n_options" not in study.items.columns:
        return sample
    n = study.items["n_options"].fill_null(0).to_numpy()
    chance = np.where(n >= 2, 1 / np.maximum(n, 1), 0.0)
    return Sample(replace(sample.items, chance=chance), sample.responses)


def recalibrated(p_choose: Any, choose: Sample, p: Any) -> Any:
    """Platt scaling learnt on the half of the choices."""
    seen = choose.responses.observed
    x, s = logit(p_choose[seen]), choose.responses.filled().astype(np.float64)[seen]

    def loss(v: Any) -> float:
        z = v[0] * x + v[1]
        return float(np.mean(np.logaddexp(0, z) - s * z))

    scale, shift = minimize(loss, np.array([1.0, 0.0])).x
    return expit(scale * logit(p) + shift)


def run(name: str, folder: Path, seeds: int, warm: bool, options: bool = False) -> None:
    """Prints the table of one set."""
    sample = study_sample(Study.open(folder))
    if options:
        sample = with_chance(sample, Study.open(folder))
    chance = sample.items.chance is not None
    groups = study_groups(Study.open(folder), sample.items).labels
    observed, benchmark = sample.responses.observed, sample.items.benchmark
    splits = list(
        warm_cells(groups, observed, seeds=seeds) if warm
        else cold_items(groups, benchmark, seeds=seeds)
    )  # fmt: skip
    losses: dict[str, list[float]] = {}
    hits: dict[str, list[float]] = {}
    covered: dict[int, list[float]] = {n: [] for n in SIZES}
    for split in splits:
        train, choose, rest, test = (
            sample.take(c) for c in (split.train, split.choose, split.calibrate, split.test)
        )
        seen = rest.responses.observed
        score = rest.responses.filled().astype(np.float64)[seen]
        for label, predictor in (option_rows(warm, chance) if options else rows(warm)).items():
            predictor.fit(train, choose)
            p = predictor.predict_proba(rest.items)
            found = {label: p}
            if not options and label in ("blend", "+ neighbours"):
                found["the same, recalibrated"] = recalibrated(
                    predictor.predict_proba(choose.items), choose, p
                )
                if not warm:
                    interval = MeanInterval.learn(p, rest)
                    tested = predictor.predict_proba(test.items)
                    for n, shares in covered.items():
                        shares += coverage(interval, tested, test, groups[split.test.items], n)
            loss = validation_loss(p, rest.responses)
            print(f"   {name} {split.name} {label}: {loss:.4f} {predictor.choices}", flush=True)
            for what, value in found.items():
                losses.setdefault(what, []).append(validation_loss(value, rest.responses))
                hits.setdefault(what, []).append(accuracy(value[seen], score))
    print(f"-- {name}, {'warm cells' if warm else 'cold items'}, {seeds} validation halves")
    for label, values in losses.items():
        print(
            f"{label:28s} log-loss {np.mean(values):.4f}  accuracy {100 * np.mean(hits[label]):.2f}"
        )
    for n, shares in covered.items():
        if shares:
            print(f"95 % interval of a model's mean over {n} cold items: covers"
                  f" {100 * np.mean(shares):.1f} % of {len(shares):,}")  # fmt: skip


def coverage(interval: MeanInterval, p: Any, test: Sample, group: Any, n: int) -> list[float]:
    """Whether the mean obtained lies inside, for random sets of n items that a model answered:
    of the whole test fold, and of one benchmark of it."""
    rng = np.random.default_rng(n)
    score, observed = test.responses.filled(), test.responses.observed
    inside: list[float] = []
    for draw in range(DRAWS):
        for model in rng.choice(p.shape[1], min(8, p.shape[1]), replace=False):
            pool = np.flatnonzero(observed[:, model])
            if draw % 2 and len(pool):
                own = test.items.benchmark[rng.choice(pool)]
                pool = pool[test.items.benchmark[pool] == own]
            if len(pool) < n:
                continue
            chosen = rng.choice(pool, n, replace=False)
            found = interval.of(p[chosen], test.items.benchmark[chosen], group[chosen])
            mean = float(score[chosen, model].mean())
            inside.append(float(found.low[model] <= mean <= found.high[model]))
    return inside


def main() -> None:
    """Runs the sets named, or all four."""
    from benchmarks.compare_sets import SHARED, prepared

    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--split", choices=("cold-items", "warm-cells"), default="cold-items")
    parser.add_argument("--rows", choices=("parts", "options"), default="parts")
    parser.add_argument("sets", nargs="*")
    given = parser.parse_args()
    if not SHARED.is_dir():
        print("skipped: the folder of real results beside the repository is absent")
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.sets or SETS:
            study = prepared(name, given.work or Path(scratch))
            warm, options = given.split == "warm-cells", given.rows == "options"
            if options and not warm and name != "mmlu_pro":
                print(f"-- {name}, cold items: no chance levels, and a residual changes nothing")
                continue
            run(name, study, given.seeds, warm, options)


if __name__ == "__main__":
    main()

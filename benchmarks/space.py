"""What the learnt space says on real sets: difficulty, taxonomy, the arithmetic axis, drops.

    python -m benchmarks.space [--work DIR] [--part difficulty|taxonomy|ood] [SET ...]

Difficulty: Spearman of predicted difficulty with the observed error on cold items, five seeds;
bar: the first predictor of `BESIDE` (the default) is not below KNN overall and within
benchmarks. Taxonomy: five fits of different seeds; bar: agreement with human labels (ARI) is
above that of shuffled labels; beside it clusters of raw text vectors, and how far two fits
agree. Axis: mmlu_pro's quantitative items within subjects that the axis never saw. Drops: what
leaving a benchmark (subject) out costs, and its rank correlation with alignment; no bar.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from benchmarks.bars import Bars
from benchmarks.compare_sets import prepared, thetascope
from thetascope.evaluation.metrics import auc
from thetascope.predictors.base import study_sample
from thetascope.predictors.jeirt import PlainJEIRT
from thetascope.predictors.setup import fit_sets, study_groups
from thetascope.space.agreement import agreement
from thetascope.space.clusters import grow
from thetascope.space.fitted import Space, space_of
from thetascope.space.item_sets import item_set
from thetascope.space.probes import probe
from thetascope.space.taxonomy import human_labels, stability, stable_k, text_topics
from thetascope.study import Study

SETS = ("zeroeval", "mmlu_pro", "llmrouter")
SEEDS = 5
Codes = NDArray[np.int64]
QUANTITATIVE = "subject:math,physics,chemistry,engineering"
TARGETS = ("health", "law", "history", "other")
NUMBERS = r"text:(?:^[A-J]\) [$£€]?-?[\d.,]+ ?[%\w/·°]{0,12}\s*$\n?){3,}"
"""Items of which three options in a row are a number with at most a unit."""


def difficulty(name: str, work: Path, bars: Bars) -> None:
    """Rank correlations on cold items, five seeds."""
    study = prepared(name, work)
    print(thetascope("space", "difficulty", str(study), "--seeds", str(SEEDS)), flush=True)
    found = json.loads(thetascope("space", "difficulty", str(study), "--json", "--seeds",
                                  str(SEEDS)))  # fmt: skip
    for where in ("overall", "within"):
        row = found[where]
        lead = row["blend"][0] - max(row["knn"][0], row["knn_weighted"][0])
        bars.at_least(f"{name}: Spearman {where}, blend less the best KNN", lead, 0.0)


def taxonomy(name: str, work: Path, bars: Bars) -> None:
    """Agreement with human labels and between fits."""
    study = Study.open(prepared(name, work))
    sample = study_sample(study)
    groups = study_groups(study, sample.items).labels
    train, held = fit_sets(study)
    labels: list[Codes] = []
    chosen: list[int] = []
    for seed in range(SEEDS):
        fit = PlainJEIRT(seed=seed).fit(train, held)
        space = space_of(fit, sample.items)
        kind, code, _ = human_labels(space)
        width = len(np.unique(code))
        tree = grow(space.topic, seed)
        levels = stability(space.topic, groups, seed)
        chosen.append(stable_k(levels, len(space))[0])
        labels.append(tree.labels(width))
        own = agreement(labels[-1], code, groups, seed)
        text = agreement(grow(text_topics(space), seed).labels(width), code, groups, seed)
        back = {v.k: round(v.stability.value, 2) for v in levels}
        print(f"{name} seed {seed}: |mean direction| {np.linalg.norm(space.mean_direction):.2f},"
              f" {width} {kind}s, stable k {chosen[-1]}, comes back {back}")  # fmt: skip
        for who, a in (("space", own), ("text", text)):
            print(f"  {who:6s} ARI {_triple(a.ari)} AMI {_triple(a.ami)} V {_triple(a.v_measure)}"
                  f" (shuffled ARI {_triple(a.shuffled_ari)}, V {_triple(a.shuffled_v)})",
                  flush=True)  # fmt: skip
        bars.at_least(f"{name} seed {seed}: ARI above shuffled labels",
                      own.ari.low - own.shuffled_ari.high, 0.0)  # fmt: skip
        if name == "mmlu_pro":
            axis(study, space, groups, seed, bars)
    pairs = [adjusted_rand_score(a, b) for a, b in itertools.combinations(labels, 2)]
    print(f"{name}: ARI between fits of {SEEDS} seeds at {width} clusters: mean"
          f" {np.mean(pairs):.3f}, {min(pairs):.3f} to {max(pairs):.3f}")  # fmt: skip


def axis(study: Study, space: Space, groups: Codes, seed: int, bars: Bars) -> None:
    """The arithmetic axis: made without four subjects, asked for their quantitative items."""
    target = item_set(study.items, "subject:" + ",".join(TARGETS))
    numbers = item_set(study.items, NUMBERS)
    positive = item_set(study.items, QUANTITATIVE)
    found = probe(space, positive, ~positive & ~target, groups,
                  labels=(target & numbers, target & ~numbers), seed=seed)  # fmt: skip
    s = found.separation
    print(f"axis seed {seed}: AUC of {s.n_positive} + {s.n_negative} held-out items, space"
          f" {_triple(s.space)}, text {_triple(s.text)},"
          f" difference {_triple(s.difference)}")  # fmt: skip
    for subject in TARGETS:
        rows = np.flatnonzero(item_set(study.items, f"subject:{subject}"))
        value = auc(found.projection[rows], numbers[rows].astype(float))
        top = rows[np.argsort(-found.projection[rows])[:10]]
        print(f"  {subject}: AUC {value:.3f} ({int(numbers[rows].sum())} of {len(rows)});"
              f" ten top: {' '.join(space.items.ids[j] for j in top)}", flush=True)  # fmt: skip
    bars.at_least(f"axis seed {seed}: low end of the AUC", s.space.low, 0.5)


def drops(name: str, work: Path, seeds: int) -> None:
    """Leave one benchmark or subject out."""
    study = prepared(name, work)
    print(thetascope("space", "ood", str(study), "--seeds", str(seeds)), flush=True)


def _triple(e: Any) -> str:
    return f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--part", choices=("difficulty", "taxonomy", "ood"))
    parser.add_argument("--ood-seeds", type=int, default=SEEDS)
    given = parser.parse_args()
    bars = Bars()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        for name in given.sets:
            if given.part in (None, "difficulty"):
                difficulty(name, work, bars)
            if given.part in (None, "taxonomy"):
                taxonomy(name, work, bars)
            if given.part in (None, "ood"):
                drops(name, work, given.ood_seeds)
    bars.finish()


if __name__ == "__main__":
    main()

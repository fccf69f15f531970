"""The made study: the same arguments give the same study, and what was planted is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from benchmarks.explorer_concepts import HOSTILE_LABELS
from benchmarks.explorer_study import HOSTILE_MODELS, SMALL, make

import thetascope as ts
from thetascope.concepts.store import load_concepts
from thetascope.gaps.saved import load_gaps
from thetascope.predictors.saved import fit_features, load_fit
from thetascope.study import store

TINY = replace(SMALL, n_items=150, n_models=5, n_concepts=60, n_active=12, dim=8)


def test_equal_arguments_give_equal_studies(tmp_path: Path) -> None:
    a, b = (make(tmp_path / name, TINY, taxonomy=False, groups=True) for name in "ab")
    other = make(tmp_path / "c", replace(TINY, seed=1), taxonomy=False)
    assert store.read_index(a).to_json() == store.read_index(b).to_json()
    assert store.read_index(a).tables != store.read_index(other).tables


def test_the_fit_is_what_answers_were_drawn_from(small_study: Path) -> None:
    study = ts.open(small_study)
    fit = load_fit(study)
    p = fit.predict_proba(fit_features(study, fit))
    matrix = study.matrix()
    score, seen = matrix.filled(), matrix.observed
    chance = np.where(score > 0.5, p, 1 - p)[seen]
    base = score[seen].mean()
    assert -np.log(chance).mean() < -(base * np.log(base) + (1 - base) * np.log(1 - base)) - 0.04
    for low, high in ((0.1, 0.3), (0.7, 0.9)):  # up to what the planted gaps take off
        here = (p > low) & (p < high) & seen
        assert low - 0.05 < score[here].mean() < high


def test_the_planted_gaps_are_found_and_named(small_study: Path) -> None:
    study = ts.open(small_study)
    gaps, concepts = load_gaps(study), load_concepts(study)
    weak = gaps.list(HOSTILE_MODELS[0])
    labels = {concepts.labels[c] for c in weak.filter(weak["q_adjusted_low"] < 0.05)["concept"]}
    assert labels & set(HOSTILE_LABELS)
    assert concepts.n_items == SMALL.n_items
    assert concepts.contexts(int(weak["concept"][0])).height > 0


def test_every_item_and_entry_is_within_its_bounds(small_study: Path) -> None:
    concepts = load_concepts(ts.open(small_study))
    held = concepts.csr()
    assert held.min() >= 0
    per_item = np.diff(held.indptr).mean()
    assert 0.7 * SMALL.n_active < per_item < 1.3 * SMALL.n_active
    assert any("dead" in flags for flags in concepts.flags)

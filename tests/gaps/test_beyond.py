"""Residuals against JE-IRT fits that never saw the item."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lens_cases import make_data, text_study

from thetascope.errors import InputError
from thetascope.evaluation import partition
from thetascope.gaps.adjusted import adjusted
from thetascope.gaps.beyond import beyond_space, unseen_chances
from thetascope.predictors import JEIRT, Sample

pytest.importorskip("torch")
QUICK = JEIRT(dim=4, hidden=16, max_epochs=12, learning_rate=5e-3, batch_items=32, dropout=0.0)


def test_no_fold_sees_its_own_answers() -> None:
    """Every answer of one fold is turned round: its own chances stay, byte for byte."""
    sample, groups = text_study()
    folds = partition(groups, sample.items.benchmark)
    fold = folds == 4
    assert all(len(np.unique(folds[groups == g])) == 1 for g in range(int(groups.max()) + 1))
    scores = sample.responses.scores.copy()
    scores[fold] = 1 - scores[fold]
    turned = Sample(sample.items, replace(sample.responses, scores=scores))
    p, q = (unseen_chances(s, groups, QUICK) for s in (sample, turned))
    assert (p[fold] == q[fold]).all()
    assert np.abs(p[~fold] - q[~fold]).max() > 0.01
    assert np.isfinite(p).all()


def test_chances_follow_the_text_and_a_stopped_run_goes_on(tmp_path: Path) -> None:
    sample, groups = text_study()
    p = unseen_chances(sample, groups, QUICK, folder=tmp_path)
    assert sample.items.vectors is not None
    assert np.corrcoef(p.mean(axis=1), sample.items.vectors[:, 0])[0, 1] > 0.7
    assert len(list(tmp_path.iterdir())) == 10
    told: list[str] = []
    never = replace(QUICK, dim=999)  # would give other numbers if a fold were fitted again
    again = unseen_chances(
        sample, groups, never, folder=tmp_path, progress=lambda d, t, w: told.append(w)
    )
    assert (again == p).all()
    assert len(told) == 10


def test_items_without_a_vector_have_no_chance() -> None:
    sample, groups = text_study(n=120)
    has = np.ones(120, bool)
    has[:7] = False
    p = unseen_chances(Sample(replace(sample.items, has_vector=has), sample.responses), groups,
                       QUICK)  # fmt: skip
    assert np.isnan(p[:7]).all()
    assert np.isfinite(p[7:]).all()


def test_bad_input() -> None:
    sample, groups = text_study(n=40)
    with pytest.raises(InputError, match="reads text vectors"):
        unseen_chances(Sample(replace(sample.items, vectors=None), sample.responses), groups)
    none = replace(sample.items, has_vector=np.zeros(40, bool))
    with pytest.raises(InputError, match="no item of the study has a text vector"):
        unseen_chances(Sample(none, sample.responses), groups)


def test_what_texts_do_not_show_stays_beyond_the_space_and_is_no_gap_of_the_model() -> None:
    """Items of concept 0 are 30 points harder for everyone; their vectors do not say so."""
    rng = np.random.default_rng(5)
    sample, groups = text_study(n=1500, m=10)
    on = rng.random((1500, 6)) < 0.15
    scores = sample.responses.scores.copy()
    wrong = on[:, :1] & (rng.random(scores.shape) < 0.4)
    scores[wrong] = 0
    sample = Sample(sample.items, replace(sample.responses, scores=scores))
    data = make_data(scores.astype(float), on.astype(float), sample.items.benchmark)
    p = unseen_chances(sample, groups, QUICK)
    beyond = beyond_space(data, p, length=False)[0].table.filter(concept=0)
    found = adjusted(data, length=False)
    assert found is not None
    own = found[0].table.filter(concept=0)
    assert beyond["effect"].mean() < -0.15  # type: ignore[operator]
    assert abs(own["gap"].mean()) < 0.03  # type: ignore[arg-type]


def test_gaps_are_sums_of_residuals() -> None:
    sample, _ = text_study(n=60)
    rng = np.random.default_rng(0)
    activations = rng.random((60, 3))
    scores = sample.responses.scores.astype(float)
    data = make_data(scores, activations, sample.items.benchmark)
    chances = rng.random(scores.shape)
    found = beyond_space(data, chances)
    row = found[0].table.row(4, named=True)
    i, c = data.models.index(row["model"]), row["concept"]
    a = activations[:, c]
    assert row["gap"] == pytest.approx(a @ (scores - chances)[:, i] / a.sum())

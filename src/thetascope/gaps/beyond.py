"""Beyond the space: what a model does on a concept that JE-IRT did not foresee.

    e_ij = s_ij - p_ij

p_ij is the chance that a JE-IRT fit gives which saw no answer to item j, nor to a near-duplicate
of it: ten folds of items, and item vectors, offsets and every model's vector m_i are learnt anew
without the fold (RULES M8). Statistics as in `residuals`.

This is not the test of "hard for everyone" (that is `adjusted`). Items that are hard for a
reason that their text does not show stay low here (-.229 of a planted -.243), and a model's own
weakness is partly learnt by m_i and thereby foreseen (-.185 of a planted -.25).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from thetascope.errors import InputError
from thetascope.evaluation import partition
from thetascope.evaluation.splits import N_FOLDS, Cells
from thetascope.gaps.data import Array, GapData
from thetascope.gaps.performance import Progress
from thetascope.gaps.residuals import ResidualGaps, residual_gaps
from thetascope.predictors.base import Sample
from thetascope.predictors.jeirt import JEIRT
from thetascope.study.files import write_aside


def unseen_chances(
    sample: Sample, groups: NDArray[np.int64], predictor: JEIRT | None = None, *,
    folder: Path | None = None, progress: Progress | None = None,
) -> Array:  # fmt: skip
    """(N, M) p_ij, each from a fit that never saw the item; NaN where it has no text vector.

    Fold f of the one partition is predicted by a fit that stops early on fold f + 1 and learns
    from the other eight.

    Args:
        sample: The study.
        groups: (N,) near-duplicate group of each item; a group is never divided.
        predictor: Settings; the default is JE-IRT, with the offset from two benchmarks on and
            without residuals (an unseen item has none).
        folder: Where finished folds are kept for a stopped run; one folder for one sample.
        progress: Called with (done, total, what).

    Raises:
        InputError: No item has a text vector, or a fold leaves nothing to learn from.
    """
    items = sample.items
    if items.vectors is None:
        raise InputError("JE-IRT reads text vectors and the study has none",
                         fix="make them with: thetascope encode STUDY")  # fmt: skip
    has = np.ones(len(items), bool) if items.has_vector is None else items.has_vector
    out = np.full(sample.responses.scores.shape, np.nan)
    rows = np.flatnonzero(has)
    if not len(rows):
        raise InputError("no item of the study has a text vector")
    _, local = np.unique(groups[rows], return_inverse=True)
    folds = partition(local, items.benchmark[rows])
    settings = replace(predictor or JEIRT(), residual=False)
    for f in range(N_FOLDS):
        if progress is not None:
            progress(f, N_FOLDS, "fits without a fold of the items")
        test, held = rows[folds == f], rows[folds == (f + 1) % N_FOLDS]
        if not len(test):
            continue
        file = None if folder is None else folder / f"fold-{f}.safetensors"
        if file is not None and file.is_file():
            out[test] = load_file(file)["p"]
            continue
        rest = rows[(folds != f) & (folds != (f + 1) % N_FOLDS)]
        train, choose = sample.take(Cells(rest)), sample.take(Cells(held))
        if not train.responses.observed.any():
            raise InputError(f"{len(rows)} items are too few for ten folds")
        fit = settings.fit(train, choose if choose.responses.observed.any() else None)
        out[test] = fit.predict_proba(items.take(test))
        if file is not None:
            p = np.ascontiguousarray(out[test])
            write_aside(file, lambda aside, p=p: save_file({"p": p}, aside))
    return out


def beyond_space(
    data: GapData, chances: Array, *, length: bool = True, progress: Progress | None = None
) -> list[ResidualGaps]:
    """Residuals s - p on every concept, as `residual_gaps`.

    `gap` is the plain sum a e / A: where the fit is off for the whole benchmark it is not 0 on
    average, and `effect`, from which a constant (and text length) is taken, is.

    Args:
        data: Activations and scores.
        chances: (study items, M) from `unseen_chances`, in the study's order of items.
        length: Whether text length is a covariate.
        progress: Called with (done, total, what).
    """
    expected = (len(data.models),)
    assert chances.shape[1:] == expected, chances.shape
    residuals = data.scores - chances[data.rows]
    return residual_gaps(data, residuals, length=length, progress=progress, what="beyond the space")

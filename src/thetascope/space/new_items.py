"""New questions in a study's space: how hard they are, and what a benchmark of them would lose."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from thetascope.encoders import encoder_for, load_vectors
from thetascope.errors import InputError
from thetascope.predictors.base import ItemFeatures, item_features, new_items
from thetascope.predictors.registry import reading
from thetascope.predictors.saved import find_fit, load_fit
from thetascope.readers.side_tables import Questions
from thetascope.space.difficulty import LEVEL, scale
from thetascope.space.ood import expected_drop
from thetascope.space.saved import load_items, load_ood, space_fit
from thetascope.study import Study
from thetascope.study.derived import path_of


def new_difficulty(
    study: Study, found: dict[str, Any], questions: Questions, benchmark: str | None = None,
    vectors: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """How hard each question is expected to be: the share of the study's models that fail.

    The interval is split-conformal at 90 %: its width was learnt on cold items of the study and
    holds for questions like those.

    Args:
        study: The study.
        found: Its kept difficulty, whose first predictor beside the space predicts.
        questions: The questions.
        benchmark: Benchmark that all are like, where the file names none.
        vectors: Name of the study's text vectors.

    Raises:
        InputError: A question names a benchmark that is not there, or the vectors were made
            elsewhere.
    """
    known, new, texts = _features(study, questions, benchmark, vectors)
    names = [n for n in found["names"] if n in found["half_width"]]
    name = names[1] if len(names) > 1 else names[0]
    predictor = reading(name, known[1])
    kept = find_fit(study, predictor)
    p = (predictor.fit(study) if kept is None else kept[0]).predict_proba(new)
    error = 1 - p.mean(axis=1)
    width = found["half_width"][name]
    if width is None:
        raise InputError(
            "the study is too small to learn an interval from: ten items must be set aside in the"
            " tested folds",
            fix="test more folds: --seeds 10",
        )
    half = width * scale(error)
    others = load_items(study, "difficulty")[name].to_numpy()
    rank = (others[None] < error[:, None]).mean(axis=1)
    rows = [
        {"text": t, "error": float(e), "low": float(max(e - h, 0)), "high": float(min(e + h, 1)),
         "rank": float(r)}
        for t, e, h, r in zip(texts, error, half, rank, strict=True)
    ]  # fmt: skip
    held, width = found["coverage"][name]
    note = (
        f"the interval holds {100 * held:.1f} % of the study's cold items (aim {100 * LEVEL:.0f} %)"
        f" and is ±{100 * width:.0f} points wide there: one question says little, a set says more"
        " (thetascope forecast)"
    )
    return {"predictor": name, "rows": rows, "note": note}


def new_drop(study: Study, questions: Questions, measure: str) -> dict[str, Any]:
    """`expected_drop` of questions, in the study's space.

    Args:
        study: The study, with kept drops.
        questions: The questions.
        measure: 'mean' or 'best'.
    """
    fit = load_fit(study, space_fit(path_of(study)))
    known, new, _ = _features(study, questions, None, fit.vectors)
    return asdict(expected_drop(load_ood(study), fit, known[0], new, measure))


def _features(
    study: Study, given: Questions, benchmark: str | None, name: str | None
) -> tuple[tuple[ItemFeatures, str], ItemFeatures, list[str]]:
    vectors = load_vectors(study, name, path=study.path)
    known = item_features(study, vectors.name)
    places = [b or benchmark for b in given.benchmarks]
    encoded = encoder_for(vectors).encode(given.texts)
    new = new_items(known, given.texts, encoded, places, given.subjects)
    return (known, vectors.name), new, list(given.texts)

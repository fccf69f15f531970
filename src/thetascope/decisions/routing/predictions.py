"""What predictors say of held-out and tested items, split by split.

A router may be told which benchmark a question is like, or not: 'blind' predictions are of the
same items with benchmark and subject taken away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from thetascope.evaluation import Split
from thetascope.predictors.base import NEW, ItemFeatures, Predictor, Sample
from thetascope.predictors.runs import Progress
from thetascope.study.files import write_aside

Array = NDArray[np.float64]


class Predicted(NamedTuple):
    """One predictor on one split.

    Attributes:
        held: (n_held, M) P of the validation items, those for choices first.
        test: (n_test, M) P of the tested items.
        held_blind, test_blind: The same where the benchmark is not told.
    """

    held: Array
    test: Array
    held_blind: Array
    test_blind: Array


def held_items(split: Split) -> NDArray[np.int64]:
    """The items of the validation fold, those for choices first."""
    return np.concatenate([split.choose.items, split.calibrate.items])


def unnamed(items: ItemFeatures) -> ItemFeatures:
    """The items without their benchmark and subject."""
    nothing = np.zeros(len(items), np.int64)
    return replace(
        items, benchmark=nothing, benchmarks=(NEW,), subject=nothing, subjects=(NEW,),
        subject_benchmark=None,
    )  # fmt: skip


def predict_split(
    sample: Sample,
    split: Split,
    predictors: Mapping[str, Predictor],
    folder: Path | None = None,
    progress: Progress | None = None,
    turn: tuple[int, int] = (0, 1),
) -> dict[str, Predicted]:
    """Fits every predictor on the split's training items and predicts the others.

    Args:
        sample: The whole study.
        split: From `cold_items`.
        predictors: By name; each is fitted anew.
        folder: Where finished predictions are kept and read again; None for nowhere.
        progress: Called with (done, total, what).
        turn: Which split of how many this is, for `progress`.
    """
    out: dict[str, Predicted] = {}
    held, total = held_items(split), turn[1] * len(predictors)
    for k, (name, predictor) in enumerate(predictors.items()):
        if progress is not None:
            progress(turn[0] * len(predictors) + k, total, f"{name}, {split.name}")
        file = None if folder is None else folder / f"{split.name}-{name}.safetensors"
        found = None if file is None else _stored(file)
        if found is None:
            choose = sample.take(split.choose)
            validation = choose if choose.responses.observed.any() else None
            fitted = predictor.fit(sample.take(split.train), validation)
            parts = [sample.items.take(rows) for rows in (held, split.test.items)]
            told = [fitted.predict_proba(part) for part in parts]
            blind = [fitted.predict_proba(unnamed(part)) for part in parts]
            found = Predicted(*told, *blind)
            if file is not None:
                tensors = {k: np.ascontiguousarray(v) for k, v in found._asdict().items()}
                write_aside(file, lambda aside, given=tensors: save_file(given, aside))
        out[name] = found
    return out


def _stored(file: Path) -> Predicted | None:
    try:
        return Predicted(**load_file(file))
    except (OSError, SafetensorError, ValueError, TypeError):  # none yet, or damaged: made anew
        return None

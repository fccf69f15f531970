"""What predictors say of held-out and tested items, split by split.

A router may be told which benchmark a question is like, or not: 'blind' predictions are of the
same items with benchmark and subject taken away and guessed from the nearest known texts.
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
from thetascope.predictors.knn import unit_rows
from thetascope.predictors.runs import Progress
from thetascope.study.files import write_aside

Array = NDArray[np.float64]
NEAREST = 10
_ROWS = 512


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


class Places:
    """Guesses which benchmark and subject a question is like, from its vector.

    It is the benchmark of most of the NEAREST known texts, and their commonest subject in it;
    '(new)' where no benchmark has half of them, or there are no vectors.
    """

    def __init__(self, known: ItemFeatures) -> None:
        self.known = known
        self.unit = None if known.vectors is None else unit_rows(known.vectors)

    def guess(self, items: ItemFeatures) -> ItemFeatures:
        """The items with guesses in place of their benchmark and subject."""
        known, n = self.known, len(items)
        names, topics = (*known.benchmarks, NEW), (*known.subjects, NEW)
        place = np.full(n, len(known.benchmarks), np.int64)
        topic = np.full(n, len(known.subjects), np.int64)
        if self.unit is not None and items.vectors is not None and len(self.unit):
            near = self._nearest(unit_rows(items.vectors))
            for j, rows in enumerate(near):
                count = np.bincount(known.benchmark[rows])
                if 2 * count.max() >= len(rows):
                    place[j] = count.argmax()
                    inside = rows[known.benchmark[rows] == place[j]]
                    topic[j] = np.bincount(known.subject[inside]).argmax()
        return replace(
            items, benchmark=place, benchmarks=names, subject=topic, subjects=topics,
            subject_benchmark=None,
        )  # fmt: skip

    def _nearest(self, unit: NDArray[np.float32]) -> NDArray[np.int64]:
        assert self.unit is not None
        k = min(NEAREST, len(self.unit))
        parts = [
            np.argpartition(-(unit[i : i + _ROWS] @ self.unit.T), k - 1, axis=1)[:, :k]
            for i in range(0, len(unit), _ROWS)
        ]
        return np.concatenate(parts)


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
    places = Places(sample.items.take(split.train.items))
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
            blind = [fitted.predict_proba(places.guess(part)) for part in parts]
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

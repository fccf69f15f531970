"""Fits predictors split by split and collects what they say of the tested responses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from thetascope.evaluation import Cells, Groups, Split
from thetascope.evaluation.metrics import accuracy, log_loss
from thetascope.predictors.base import Predictor, Sample
from thetascope.study.files import write_aside

Progress = Callable[[int, int, str], None]
Array = NDArray[np.float64]


class Run:
    """All predictors on all splits.

    Attributes:
        seconds: predictor -> seconds of fitting and predicting in this process.
        choices: predictor -> split -> what was chosen on validation data.
        spread: predictor -> metric -> (least, greatest) over the splits.
    """

    def __init__(
        self,
        sample: Sample,
        groups: Groups,
        predictors: dict[str, Predictor],
        splits: Sequence[Split],
        folder: Path | None,
        progress: Progress | None,
    ) -> None:
        self.sample, self.groups, self.predictors = sample, groups, predictors
        self.folder, self.progress = folder, progress
        self.seconds = dict.fromkeys(predictors, 0.0)
        self.choices: dict[str, dict[str, Any]] = {name: {} for name in predictors}
        self.spread: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in predictors}
        self.item, self.model, self.score = _scored(sample)
        self._parts: list[tuple[NDArray[np.int64], dict[str, Array]]] = []
        self._done, self._total = 0, len(splits) * len(predictors)
        for split in splits:
            self._add(split)

    def cells(self) -> tuple[Cells, NDArray[np.int64], NDArray[np.int64]]:
        """The tested cells, and the item and the model of each.

        Ranks are compared within a model and a split: means over folds lean against the held
        out scores, which would pull an AUC over several splits below one half.
        """
        index = np.concatenate([i for i, _ in self._parts])
        split = np.repeat(np.arange(len(self._parts)), [len(i) for i, _ in self._parts])
        p = {n: np.concatenate([found[n] for _, found in self._parts]) for n in self.predictors}
        item, model = self.item[index], self.model[index]
        segment = split * self.sample.responses.n_models + model
        group = self.groups.labels[item]
        return Cells(self.score[index], segment, group, p), item, model

    def _add(self, split: Split) -> None:
        place = np.full(len(self.sample.items), -1)
        place[split.test.items] = np.arange(len(split.test.items))
        tested = place[self.item] >= 0
        if split.test.mask is not None:
            tested &= split.test.mask[np.maximum(place[self.item], 0), self.model]
        index = np.flatnonzero(tested)
        found: dict[str, Array] = {}
        for name in self.predictors:
            if self.progress is not None:
                self.progress(self._done, self._total, f"{name}, {split.name}")
            found[name], self.choices[name][split.name] = self._predict(name, split, index, place)
            self._note(name, found[name], self.score[index])
            self._done += 1
        self._parts.append((index, found))

    def _predict(
        self, name: str, split: Split, index: NDArray[np.int64], place: NDArray[np.int64]
    ) -> tuple[Array, dict[str, Any]]:
        """Chances of the tested cells and the choices made, from the folder where they are."""
        file = None if self.folder is None else self.folder / f"{split.name}-{name}.safetensors"
        if file is not None and file.is_file():
            with safe_open(file, "np") as saved:
                return saved.get_tensor("p"), json.loads(saved.metadata()["choices"])
        predictor, start = self.predictors[name], time.perf_counter()
        choose = self.sample.take(split.choose)
        predictor.fit(
            self.sample.take(split.train), choose if choose.responses.observed.any() else None
        )
        whole = predictor.predict_proba(self.sample.items.take(split.test.items))
        self.seconds[name] += time.perf_counter() - start
        p = np.ascontiguousarray(whole[place[self.item[index]], self.model[index]])
        choices = predictor.choices
        if file is not None:
            note = {"choices": json.dumps(choices)}
            write_aside(file, lambda aside: save_file({"p": p}, aside, metadata=note))
        return p, choices

    def _note(self, name: str, p: Array, s: Array) -> None:
        for metric, value in (("accuracy", accuracy(p, s)), ("log_loss", log_loss(p, s))):
            if np.isfinite(value):
                low, high = self.spread[name].get(metric, (value, value))
                self.spread[name][metric] = (min(low, value), max(high, value))


def _scored(sample: Sample) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """(item, model, score) of every response; raw rows under the policy `keep`."""
    responses = sample.responses
    if responses.rows is not None:
        return responses.rows
    item, model = np.nonzero(responses.observed)
    return item, model, responses.scores[item, model].astype(np.float64)

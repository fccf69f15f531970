"""One protocol for everything that predicts who gets what right.

A predictor is a frozen choice of settings (a dataclass) plus what `fit` learnt. It learns from
a `Sample` (what may be known of some items, and models' responses to them) and predicts the
chance that each model answers each item right, for items that it has never seen too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.encoders import load_vectors
from thetascope.errors import InputError
from thetascope.evaluation.splits import Cells
from thetascope.predictors.state import read_state, write_state
from thetascope.predictors.surface import surface
from thetascope.study import ResponseMatrix, Study, store

Probabilities = NDArray[np.float64]
NEW = "(new)"
"""Benchmark of a question that belongs to none of the study's."""
FLOOR = 1e-6
"""Predicted probabilities are kept this far from 0 and 1."""


@dataclass(frozen=True)
class ItemFeatures:
    """What a predictor may know of N items before any response.

    Attributes:
        ids: N item ids.
        benchmark: (N,) code into `benchmarks`.
        subject: (N,) code into `subjects`; a subject belongs to one benchmark.
        vectors: (N, D) float32 text embeddings, or None.
        has_vector: (N,) which items have one.
        subject_benchmark: (S,) benchmark of each subject; read off these items where None,
            and kept by `take`, so that a part knows the subjects that it holds no item of.
        chance: (N,) score of a random answer, 0 where it is not known; or None.
        surface: (N, 16) surface features of the texts (`surface`), or None where an item has
            no text.
    """

    ids: tuple[str, ...]
    benchmark: NDArray[np.int64]
    benchmarks: tuple[str, ...]
    subject: NDArray[np.int64]
    subjects: tuple[str, ...]
    vectors: NDArray[np.float32] | None = None
    has_vector: NDArray[np.bool_] | None = None
    subject_benchmark: NDArray[np.int64] | None = None
    chance: NDArray[np.float64] | None = None
    surface: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.subject_benchmark is None:
            parents = np.zeros(len(self.subjects), np.int64)
            parents[self.subject] = self.benchmark
            object.__setattr__(self, "subject_benchmark", parents)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, items: NDArray[np.int64]) -> ItemFeatures:
        """The items at these indices."""
        return replace(
            self,
            ids=tuple(self.ids[i] for i in items.tolist()),
            benchmark=self.benchmark[items],
            subject=self.subject[items],
            vectors=None if self.vectors is None else self.vectors[items],
            has_vector=None if self.has_vector is None else self.has_vector[items],
            chance=None if self.chance is None else self.chance[items],
            surface=None if self.surface is None else self.surface[items],
        )

    def text_vectors(self, who: str) -> NDArray[np.float32]:
        """The vectors, or InputError where there are none or an item lacks one."""
        if self.vectors is None:
            raise InputError(
                f"{who} predicts from text vectors and the study has none",
                fix="make them with: thetascope encode STUDY",
            )
        if self.has_vector is not None and not self.has_vector.all():
            missing = np.flatnonzero(~self.has_vector)
            raise InputError(
                f"{who} cannot predict {len(missing)} of {len(self)} items that have no text"
                f" vector, first {self.ids[int(missing[0])]!r}",
                fix="attach their texts and run: thetascope encode STUDY",
            )
        return self.vectors


@dataclass(frozen=True)
class Sample:
    """Items with responses to learn from."""

    items: ItemFeatures
    responses: ResponseMatrix

    def __post_init__(self) -> None:
        assert len(self.items) == self.responses.n_items

    def take(self, cells: Cells) -> Sample:
        """The part of the sample in `cells`."""
        responses = self.responses.take(cells.items)
        if cells.mask is not None:
            responses = responses.mask(cells.mask)
        return Sample(self.items.take(cells.items), responses)

    def answered(self) -> Sample:
        """Without the items that nobody answered."""
        kept = np.flatnonzero(self.responses.observed.any(axis=1))
        return self if len(kept) == len(self.items) else self.take(Cells(kept))


def item_features(
    study: Study, vectors: str | None = None, *, required: bool = False, looks: bool = True
) -> ItemFeatures:
    """What predictors may know of a study's items, in the order of its items table.

    Args:
        study: The study.
        vectors: Name of the text vectors; None for the only ones, or none.
        required: Whether to raise where the study has no vectors.
        looks: Whether to read the texts' surface features, which takes a while.
    """
    items = study.items
    benchmarks = tuple(study.benchmarks)
    code = {name: i for i, name in enumerate(benchmarks)}
    benchmark = np.array([code[b] for b in items["benchmark"]], np.int64)
    given = items["subject"] if "subject" in items.columns else [None] * items.height
    pairs = [
        f"{b}/{s}" if s is not None else b for b, s in zip(items["benchmark"], given, strict=True)
    ]
    subjects = tuple(dict.fromkeys(pairs))
    subject_code = {name: i for i, name in enumerate(subjects)}
    found = None
    if required or vectors is not None or _has_vectors(study):
        found = load_vectors(study, vectors, path=study.path or study.origin)
    return ItemFeatures(
        tuple(items["item_id"]),
        benchmark,
        benchmarks,
        np.array([subject_code[p] for p in pairs], np.int64),
        subjects,
        None if found is None else found.vectors,
        None if found is None else found.has,
        chance=items["chance"].fill_null(0.0).to_numpy() if "chance" in items.columns else None,
        surface=_surface(items) if looks else None,
    )


def new_items(
    known: ItemFeatures,
    texts: Sequence[str],
    vectors: NDArray[np.float32] | None,
    benchmarks: Sequence[str | None],
    subjects: Sequence[str | None],
) -> ItemFeatures:
    """Features of n questions that are in no study.

    Args:
        known: Features of the study that a predictor learnt from.
        texts: n texts.
        vectors: (n, D) their vectors by the study's encoder; None for a predictor that reads
            none.
        benchmarks: The study's benchmark that each is like; None for one of its own, '(new)'.
        subjects: Its subject within the benchmark; None for none.

    Raises:
        InputError: A benchmark or a subject is not in the study.
    """
    names = [*known.benchmarks, NEW]
    place = {name: b for b, name in enumerate(names)}
    pairs: list[str] = []
    for row, (b, s) in enumerate(zip(benchmarks, subjects, strict=True), start=1):
        if b is not None and b not in place:
            raise InputError(
                f"{b!r} is no benchmark of the study; there are {', '.join(known.benchmarks)}",
                record=row,
                field="benchmark",
            )
        pair = (b or NEW) if s is None else f"{b}/{s}"
        if s is not None and pair not in known.subjects:
            raise InputError(f"{s!r} is no subject of {b!r}", record=row, field="subject")
        pairs.append(pair)
    codes = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    return ItemFeatures(
        tuple(f"{NEW}:{i}" for i in range(len(texts))),
        np.array([place[b or NEW] for b in benchmarks], np.int64),
        tuple(names),
        np.array([codes[p] for p in pairs], np.int64),
        tuple(codes),
        vectors,
        None if vectors is None else np.ones(len(texts), bool),
        surface=surface(texts),
    )


def _surface(items: pl.DataFrame) -> NDArray[np.float32] | None:
    if "text" not in items.columns or items["text"].null_count():
        return None
    return surface(items["text"].to_list())


def study_sample(study: Study, vectors: str | None = None) -> Sample:
    """The whole study as a sample."""
    return Sample(item_features(study, vectors), study.matrix())


def _has_vectors(study: Study) -> bool:
    path = study.path or study.origin
    return path is not None and bool(store.read_index(path).derived.get("vectors"))


@dataclass
class Predictor(ABC):
    """Base of all predictors; a subclass adds its settings as dataclass fields.

    Class attributes:
        NAME: Its name on the command line and in tables.
        NEEDS: What it cannot do without: any of 'vectors', 'benchmarks' (two or more),
            'subjects'.
        KNOWN_ITEMS: Whether it tells items apart by their responses alone.
    """

    NAME: ClassVar[str]
    KNOWN_ITEMS: ClassVar[bool] = False
    NEEDS: ClassVar[frozenset[str]] = frozenset()

    def fit(self, data: Study | Sample, validation: Sample | None = None) -> Self:
        """Learns from a study (a tenth of its items kept for choices) or from a sample.

        Args:
            data: A Study, or a Sample.
            validation: What choices and early stopping look at; made from a Study by
                setting one fold of the partition aside (a study too small for that is its
                own validation).

        Returns:
            The predictor itself.

        Raises:
            InputError: The study lacks what the predictor needs.
        """
        if isinstance(data, Study):
            from thetascope.predictors.setup import fit_sets

            data, validation = fit_sets(data, getattr(self, "vectors", None))
        return self._fit(data.answered(), validation)

    @abstractmethod
    def _fit(self, train: Sample, validation: Sample | None) -> Self: ...

    def fit_in(self, train: Sample, validation: Sample | None, folder: Path | None) -> Self:
        """Fits with a folder for checkpoints: killed and called again it goes on from there.

        The result is the same, byte for byte, as that of an undisturbed fit on the same
        machine and number of threads. A predictor that is quick begins again.
        """
        return self._fit(train.answered(), validation)

    def save(self, folder: Path) -> None:
        """Writes the fit into an existing folder (`predictors.state`)."""
        write_state(self, self.NAME, folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a fit that `save` wrote; needs no torch, and predicts exactly as it did.

        Raises:
            InputError: A file is missing or damaged, or it is the fit of another predictor.
        """
        found = read_state(folder)
        if not isinstance(found, cls):
            raise InputError(
                f"is a fit of {getattr(found, 'NAME', '?')}, expected {cls.__name__}", file=folder
            )
        return found

    def predict_proba(self, items: Study | ItemFeatures) -> Probabilities:
        """Returns (N, M): each model's chance to be right on each item (mean score if graded).

        Models are in the order of `models_`.
        """
        if isinstance(items, Study):
            items = item_features(items, getattr(self, "vectors", None))
        return np.clip(self._predict(items), FLOOR, 1 - FLOOR)

    @abstractmethod
    def _predict(self, items: ItemFeatures) -> Probabilities: ...

    def get_params(self) -> dict[str, Any]:
        """The settings by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def label(self, items: ItemFeatures) -> str:
        """Its name in a table about these items."""
        return self.NAME

    @property
    def choices(self) -> dict[str, Any]:
        """What was chosen on validation data, to be printed."""
        return {}


def validation_loss(predicted: NDArray[Any], responses: ResponseMatrix) -> float:
    """Mean cross-entropy over the observed responses, weighted by trials."""
    observed = responses.observed
    score = responses.filled().astype(np.float64)
    p = np.clip(predicted, FLOOR, 1 - FLOOR)
    loss = -(score * np.log(p) + (1 - score) * np.log1p(-p))
    weight = observed if responses.weights is None else responses.weights * observed
    return float((loss * weight).sum() / weight.sum())

"""Compare predictors on the same splits with the same metrics."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.errors import InputError
from thetascope.evaluation import (
    METRICS,
    SPLIT_NAMES,
    Cells,
    Estimate,
    Groups,
    Split,
    SplitName,
    cold_items,
    evaluate,
    leave_one_benchmark_out,
    replicate_weights,
    warm_cells,
)
from thetascope.evaluation.metrics import entropy
from thetascope.evaluation.splits import check_seeds
from thetascope.predictors.base import Predictor, Sample, study_sample
from thetascope.predictors.registry import NEEDS_TORCH, PREDICTORS, make_predictor, unmet_need
from thetascope.predictors.runs import Progress, Run
from thetascope.predictors.setup import study_groups
from thetascope.study import Study, store

REFERENCE = "jeirt"


@dataclass(frozen=True)
class Row:
    """One predictor on one part of the study.

    Attributes:
        predictor: Its name.
        benchmark, subject: The part; 'all' where it is not divided.
        n_items, n_responses: What was scored.
        metrics: metric -> value with its 95 % interval.
        difference: metric -> this predictor minus the reference, paired.
    """

    predictor: str
    benchmark: str
    subject: str
    n_items: int
    n_responses: int
    metrics: dict[str, Estimate]
    difference: dict[str, Estimate]

    def to_json(self) -> dict[str, Any]:
        """Flat: metric, metric_low, metric_high, and the same under 'difference'."""
        return {
            "predictor": self.predictor,
            "benchmark": self.benchmark,
            "subject": self.subject,
            "n_items": self.n_items,
            "n_responses": self.n_responses,
            **_flat(self.metrics),
            "difference": _flat(self.difference),
        }


@dataclass(frozen=True)
class Comparison:
    """The table that a reviewer would ask for, and what it was made from.

    Attributes:
        split, seeds, split_seed: How items were divided.
        encoder: Name of the text vectors; None where there are none.
        reference: Predictor that the others are compared with.
        rows: The table.
        seed_spread: predictor -> metric -> (least, greatest) over the splits.
        choices: predictor -> split -> what was chosen on validation data.
        skipped: predictor -> why it was not run.
        groups: The near-duplicate groups.
        score_entropy: Mean entropy of graded scores, the floor of the log-loss.
        n_half: Responses of exactly 0.5, left out of the accuracy.
        cells: The scored cells (item, model, score and every predictor's p).
        item, model: (n,) item and model index of each cell.
        seconds: predictor -> seconds of fitting and predicting.
    """

    split: SplitName
    seeds: int
    split_seed: int
    encoder: str | None
    reference: str | None
    rows: list[Row]
    seed_spread: dict[str, dict[str, tuple[float, float]]]
    choices: dict[str, dict[str, Any]]
    skipped: dict[str, str]
    groups: Groups
    n_left_out: int
    score_entropy: float
    n_half: int
    cells: Cells
    item: NDArray[np.int64]
    model: NDArray[np.int64]
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def row(self, predictor: str, benchmark: str = "all", subject: str = "all") -> Row:
        """The row of a predictor; KeyError where there is none."""
        for row in self.rows:
            if (row.predictor, row.benchmark, row.subject) == (predictor, benchmark, subject):
                return row
        raise KeyError((predictor, benchmark, subject))

    def to_json(self) -> dict[str, Any]:
        """One object: split, seeds, rows and the notes; no times."""
        return {
            "split": self.split,
            "seeds": self.seeds,
            "split_seed": self.split_seed,
            "encoder": self.encoder,
            "reference": self.reference,
            "groups": {
                "n_groups": self.groups.n_groups,
                "cosine": self.groups.threshold,
                "largest": self.groups.largest,
            },
            "n_items_left_out": self.n_left_out,
            "score_entropy": self.score_entropy,
            "n_responses_of_one_half": self.n_half,
            "rows": [row.to_json() for row in self.rows],
            "seed_spread": self.seed_spread,
            "choices": self.choices,
            "skipped": self.skipped,
        }


def compare(
    study: Study,
    predictors: Sequence[str | Predictor] | None = None,
    *,
    split: SplitName = "cold-items",
    seeds: int = 5,
    split_seed: int = 0,
    encoder: str | None = None,
    reference: str = REFERENCE,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> Comparison:
    """Fits every predictor on the same splits and scores it on what it has not seen.

    Args:
        study: The study.
        predictors: Names or predictors; None for all that the study allows (what cannot run
            is listed in `skipped` with its reason).
        split: 'cold-items', 'warm-cells' or 'leave-one-benchmark-out'.
        seeds: Splits, 1 to 10; ignored where a benchmark is left out at a time.
        split_seed: Of the one partition that all seeds share.
        encoder: Name of the study's text vectors; None for the only ones.
        reference: Predictor for the paired differences.
        progress: Called with (done, total, what) on the way.
        folder: Where finished predictions are kept; stopped and called again with the same
            folder it goes on from there.

    Raises:
        InputError: A name is unknown, or a named predictor lacks what it needs.
    """
    if split not in SPLIT_NAMES:
        raise InputError(f"no split {split!r}; there are {', '.join(SPLIT_NAMES)}")
    check_seeds(seeds, split_seed=split_seed)
    sample = study_sample(study, encoder)
    if split_seed < 0:
        raise InputError(f"expected a whole number from 0, found {split_seed}", field="split_seed")
    chosen, skipped = _chosen(predictors, sample, split)
    if not chosen:
        raise InputError("no predictors were named")
    if reference not in (*chosen, REFERENCE):
        raise InputError(
            f"{reference!r} is not among the predictors compared: {', '.join(chosen)}",
            field="reference",
        )
    groups = study_groups(study, sample.items)
    splits = list(_splits(split, sample, groups, seeds, split_seed))
    if split == "leave-one-benchmark-out" and not splits:
        raise InputError(f"the split {split} needs two benchmarks or more, the study has one")
    splits = [s for s in splits if _has_responses(sample, s)]
    if not splits:
        raise InputError(
            f"{len(sample.items)} items are too few for {split}: nothing to learn from or to test"
        )
    run = Run(sample, groups, chosen, splits, folder, progress)
    cells, item, model = run.cells()
    base = reference if reference in chosen else None
    return Comparison(
        split,
        len(splits),
        split_seed,
        encoder or _encoder_name(study),
        base,
        _rows(sample, groups, cells, item, base),
        run.spread,
        run.choices,
        skipped,
        groups,
        sum(s.n_left_out for s in splits),
        float(entropy(cells.score).mean()),
        int((cells.score == 0.5).sum()),
        cells,
        item,
        model,
        run.seconds,
    )


def _has_responses(sample: Sample, split: Split) -> bool:
    """Whether there is something to learn from and something to test."""
    return all(sample.take(part).responses.observed.any() for part in (split.train, split.test))


def _rows(
    sample: Sample, groups: Groups, cells: Cells, item: NDArray[np.int64], reference: str | None
) -> list[Row]:
    weights = replicate_weights(groups.n_groups)
    items = sample.items
    rows: list[Row] = []
    for benchmark, subject, keep in _parts(items.benchmark[item], items.subject[item], sample):
        part = cells.take(keep)
        n_items = len(np.unique(item[keep]))
        for name, (own, difference) in evaluate(part, weights, reference).items():
            rows.append(Row(name, benchmark, subject, n_items, len(part.score), own, difference))
    return rows


def _parts(
    benchmark: NDArray[np.int64], subject: NDArray[np.int64], sample: Sample
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """The whole, each benchmark (where there are several), each subject with a name."""
    items = sample.items
    yield "all", "all", np.ones(len(benchmark), bool)
    if len(items.benchmarks) > 1:
        for b in np.unique(benchmark):
            yield items.benchmarks[b], "all", benchmark == b
    for s in np.unique(subject):
        keep = subject == s
        name = items.benchmarks[int(benchmark[np.argmax(keep)])]
        if items.subjects[s] != name:
            yield name, items.subjects[s].removeprefix(f"{name}/"), keep


def _splits(
    name: SplitName, sample: Sample, groups: Groups, seeds: int, split_seed: int
) -> Iterator[Split]:
    items, observed = sample.items, sample.responses.observed
    if name == "cold-items":
        return cold_items(groups.labels, items.benchmark, seeds=seeds, split_seed=split_seed)
    if name == "warm-cells":
        return warm_cells(groups.labels, observed, seeds=seeds, split_seed=split_seed)
    return leave_one_benchmark_out(
        groups.labels, items.benchmark, items.benchmarks, split_seed=split_seed
    )


def _chosen(
    predictors: Sequence[str | Predictor] | None, sample: Sample, split: SplitName
) -> tuple[dict[str, Predictor], dict[str, str]]:
    """Fresh copies by name (the caller's own fits stay as they are), and who cannot run."""
    skipped: dict[str, str] = {}
    chosen: dict[str, Predictor] = {}
    torch = importlib.util.find_spec("torch") is not None
    for spec in PREDICTORS if predictors is None else predictors:
        predictor = replace(make_predictor(spec))
        name = predictor.label(sample.items)
        why = unmet_need(predictor, sample.items)
        if why is None and predictor.NAME in NEEDS_TORCH and not torch:
            why = "torch is not installed (pip install 'thetascope[fit]')"
        if why is None and predictors is None and predictor.KNOWN_ITEMS and split != "warm-cells":
            why = "knows items by their responses, and these have none (--split warm-cells)"
        if why is None:
            same = sum(n.partition("#")[0] == name for n in chosen)
            chosen[f"{name}#{same + 1}" if same else name] = predictor
        elif predictors is None:
            skipped[name] = why
        else:
            raise InputError(f"{name} cannot run: {why}")
    return chosen, skipped


def _encoder_name(study: Study) -> str | None:
    path = study.path or study.origin
    if path is None:
        return None
    names = store.read_index(path).derived.get("vectors", {})
    return next(iter(names)) if len(names) == 1 else None


def _flat(metrics: dict[str, Estimate]) -> dict[str, float | None]:
    out: dict[str, float | None] = {}
    for name in METRICS:
        if name in metrics:
            for suffix, value in zip(("", "_low", "_high"), metrics[name], strict=True):
                out[name + suffix] = value if np.isfinite(value) else None
    return out

"""The per-instance stats of a HELM run: which metric, which split, which instances count."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.json_stream import iter_pieces
from thetascope.readers.values import choose, count, describe

# Stats that count or time things; no answer is better for them.
_BOOKKEEPING = {"batch_size", "logprob", "max_prob", "prompt_truncated", "num_bytes"}
_BOOKKEEPING |= {"predicted_index", "inference_runtime", "inference_denoised_runtime"}
_BOOKKEEPING_STARTS = ("num_", "training_", "inference_", "finish_reason_", "estimated_")


@dataclass(frozen=True)
class Answer:
    instance: str
    record: int
    score: float
    n_tokens_in: int | None
    n_tokens_out: int | None


@dataclass
class _Split:
    instances: list[str] = field(default_factory=list[str])
    records: array[int] = field(default_factory=lambda: array("l"))
    scores: array[float] = field(default_factory=lambda: array("d"))
    tokens: list[tuple[int | None, int | None]] = field(
        default_factory=list[tuple[int | None, int | None]]
    )


class Answers:
    """The stats that count, gathered by split: which splits there are is known at the end."""

    def __init__(self, path: Path, builder: StudyBuilder) -> None:
        self.path, self.builder, self.name = path, builder, builder.name(path)
        self.metric: str | None = None
        self.n = 0
        self.splits: dict[str, _Split] = {}
        self.names: dict[str, None] = {}

    def add(self, number: int, record: Any) -> None:
        if not isinstance(record, dict) or not isinstance(record.get("stats"), list):
            raise InputError(
                "expected an object with a list 'stats'", file=self.path, record=number
            )
        instance = record.get("instance_id")
        if not isinstance(instance, str) or not instance:
            raise InputError("expected an id", file=self.path, record=number, field="instance_id")
        self.n += 1
        report = self.builder.report
        if record.get("perturbation") is not None:
            report.drop("perturbed instance", self.name, number)
            return
        stats = dict(_stats(record["stats"], self.path, number))
        self.names.update(dict.fromkeys(name for _, name in stats))
        if self.metric is None:
            self.metric = self.choose(number)
        if self.metric is None:
            report.drop("the metric has no value", self.name, number)
            return
        splits = [split for split, name in stats if name == self.metric]
        if not splits:
            report.drop("the metric has no value", self.name, number)
            return
        for split in splits:
            mean = _mean(stats[split, self.metric])
            if mean is None:
                report.drop("the metric has no value", self.name, number)
                continue
            kept = self.splits.setdefault(split, _Split())
            kept.instances.append(instance)
            kept.records.append(number)
            kept.scores.append(mean)
            counts = (
                _mean(stats.get((split, name), {}))
                for name in ("num_prompt_tokens", "num_output_tokens")
            )
            given, made = map(count, counts)
            kept.tokens.append((given, made))

    def choose(self, number: int) -> str | None:
        """The stat that is the score; None while an instance lacks the one chosen."""
        option = self.builder.options.metric
        if option is not None:
            return choose(option, list(self.names))
        found = self.scores()
        if found == ["exact_match"]:
            return "exact_match"
        if not found:
            return None
        raise InputError(
            f"has the metrics {', '.join(found)}",
            file=self.path,
            record=number,
            fix=f"choose one with --metric, e.g. --metric {found[0]}",
        )

    def scores(self) -> list[str]:
        """Stats that may grade an answer."""
        return [
            name
            for name in self.names
            if name not in _BOOKKEEPING and not name.startswith(_BOOKKEEPING_STARTS)
        ]

    def of_one_split(self) -> Iterator[Answer]:
        """Answers of the split 'test' or, where there is none, of the only other one.

        Raises:
            InputError: No instance has the metric, or there are several splits but no test.
        """
        if self.metric is None:
            raise InputError(
                f"has no metric {self.builder.options.metric or 'exact_match'!r};"
                f" there are {', '.join(self.scores()) or 'none'}",
                file=self.path,
            )
        chosen = "test" if "test" in self.splits or not self.splits else None
        if chosen is None and len(self.splits) > 1:
            raise InputError(
                f"has the splits {', '.join(self.splits)}, none of them 'test'", file=self.path
            )
        chosen = chosen or next(iter(self.splits))
        if chosen != "test":
            self.builder.report.note(f"{self.name}: split {chosen!r}: there is no 'test'")
        for name, split in self.splits.items():
            if name != chosen:
                self.builder.report.drop(
                    f"split {name!r}, not 'test'", self.name, split.records[0], len(split.records)
                )
                continue
            for i, instance in enumerate(split.instances):
                yield Answer(instance, split.records[i], split.scores[i], *split.tokens[i])


def _stats(
    stats: list[Any], path: Path, number: int
) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """((split, name), stat) of an instance, its perturbed stats left out."""
    for stat in stats:
        name = stat.get("name") if isinstance(stat, dict) else None
        if not isinstance(name, dict) or not isinstance(name.get("name"), str):
            raise InputError("expected stats with a name", file=path, record=number, field="stats")
        if name.get("perturbation") is None:
            yield (str(name.get("split", "")), name["name"]), stat


def _mean(stat: Mapping[str, Any]) -> float | None:
    """The stat's mean; None where nothing was counted."""
    mean = stat.get("mean")
    if not stat.get("count") or isinstance(mean, bool) or not isinstance(mean, (int, float)):
        return None
    if mean != mean:  # NaN; an integer may be too large for math.isnan
        return None
    return float(mean) if abs(mean) < 1 << 53 else math.inf  # which no score may be


def elements(path: Path, key: str = "") -> Iterator[tuple[int, Any]]:
    """Elements of the top-level array, or of the array under `key`, as (number, object)."""
    for piece in iter_pieces(path, (key,)):
        if piece.number is None and not key:
            raise InputError("expected a list, found an object", file=path)
        if piece.number is not None:
            if not isinstance(piece.value, dict):
                raise InputError(
                    f"expected an object, found {describe(piece.value)}",
                    file=path,
                    record=piece.number,
                )
            yield piece.number, piece.value

"""HELM run folders: run_spec.json, per_instance_stats.json and the instances' texts.

One folder is one run of one model on one scenario. An answer is (instance, perturbation, train
trial); instance ids are unique only within the scenario with its arguments, so these make the
benchmark's name. Files may have gigabytes and are streamed.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.json_stream import iter_pieces
from thetascope.readers.texts import field_text, with_options
from thetascope.readers.values import choose, count, describe, listing, mapping, read_json_file

FORMAT = "helm"

_SPEC, _STATS = "run_spec.json", "per_instance_stats.json"
_INSTANCES, _STATE = "instances.json", "scenario_state.json"

# Stats that count or time things; no answer is better for them.
_BOOKKEEPING = {"batch_size", "logprob", "max_prob", "prompt_truncated", "num_bytes"}
_BOOKKEEPING |= {"predicted_index", "inference_runtime", "inference_denoised_runtime"}
_BOOKKEEPING_STARTS = ("num_", "training_", "inference_", "finish_reason_", "estimated_")


def claims(path: Path, head: bytes) -> bool:
    """A folder with run_spec.json beside the stats or the state of a run."""
    if not path.is_dir():
        return False
    return (path / _SPEC).is_file() and any((path / n).is_file() for n in (_STATS, _STATE))


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one run folder.

    Raises:
        InputError: A file is missing or broken, or several metrics could be meant.
    """
    if not path.is_dir():
        raise InputError("expected a run folder, found a file", file=path)
    for name in (_SPEC, _STATS):
        if not (path / name).is_file():
            raise InputError(f"has no {name}", file=path, fix="give the folder of a finished run")
    spec = _spec(path / _SPEC, builder)
    answers = _Answers(path / _STATS, builder)
    for number, record in _elements(path / _STATS):
        answers.add(number, record)
    texts = _texts(path, spec, builder)
    builder.rule("score", spec.benchmark, f"stat {answers.metric}")
    builder.report.read += answers.n
    builder.source(path / _STATS, FORMAT)
    run = builder.run(spec.model, path / _STATS, harness="helm", shots=spec.shots)
    for answer in answers.of_one_split():
        item = builder.item(
            spec.benchmark,
            answer.instance,
            file=path / _STATS,
            record=answer.record,
            subject=spec.subject,
            **texts.get(answer.instance, {}),
        )
        builder.respond(
            run,
            item,
            answer.score,
            file=path / _STATS,
            record=answer.record,
            field=str(answers.metric),
            n_tokens_in=answer.n_tokens_in,
            n_tokens_out=answer.n_tokens_out,
        )


@dataclass(frozen=True)
class _Spec:
    model: str
    benchmark: str
    subject: str | None
    shots: int | None
    method: str


def _spec(path: Path, builder: StudyBuilder) -> _Spec:
    raw = read_json_file(path)
    if not isinstance(raw, dict):
        raise InputError(f"expected an object, found {describe(raw)}", file=path)
    adapter = mapping(raw.get("adapter_spec"))
    model = builder.options.model or adapter.get("model") or adapter.get("model_deployment")
    if not isinstance(model, str):
        raise InputError("expected a name", file=path, field="adapter_spec.model")
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("expected a name", file=path, field="name")
    arguments = mapping(mapping(raw.get("scenario_spec")).get("args"))
    given = [f"{k}={_plain(v)}" for k, v in sorted(arguments.items()) if v is not None]
    benchmark = ":".join([name.partition(":")[0], *([",".join(given)] if given else [])])
    subject, shots = arguments.get("subject"), adapter.get("max_train_instances")
    return _Spec(
        model,
        builder.options.benchmark or benchmark,
        subject if isinstance(subject, str) else None,
        count(shots),
        str(adapter.get("method", "")),
    )


@dataclass(frozen=True)
class _Answer:
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


class _Answers:
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

    def of_one_split(self) -> Iterator[_Answer]:
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
                yield _Answer(instance, split.records[i], split.scores[i], *split.tokens[i])


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


def _texts(path: Path, spec: _Spec, builder: StudyBuilder) -> dict[str, dict[str, str]]:
    """Text and reference by instance, from instances.json or the requests' own copies."""
    for name, array_key in ((_INSTANCES, ""), (_STATE, "request_states")):
        if not (path / name).is_file():
            continue
        texts: dict[str, dict[str, str]] = {}
        for number, element in _elements(path / name, array_key):
            instance = element.get("instance") if name == _STATE else element
            if not isinstance(instance, dict) or instance.get("perturbation") is not None:
                continue
            key = instance.get("id")
            if isinstance(key, str) and key not in texts:
                texts[key] = _instance(instance, spec, builder, path / name, number)
        builder.source(path / name, FORMAT)
        option = builder.options.text_field
        choices = " and the references" if spec.method.startswith("multiple_choice") else ""
        rule = f"the field {option!r}" if option else f"the instance's input{choices}"
        builder.rule("text", spec.benchmark, rule)
        return texts
    builder.report.note(f"{builder.name(path)}: neither {_INSTANCES} nor {_STATE}: no texts")
    return {}


def _instance(
    instance: Mapping[str, Any], spec: _Spec, builder: StudyBuilder, path: Path, number: int
) -> dict[str, str]:
    references = [r for r in listing(instance.get("references")) if isinstance(r, dict)]
    right = [_output(r) for r in references if "correct" in listing(r.get("tags"))]
    facts = {"reference": " | ".join(right)} if right else {}
    if builder.options.text_field is not None:
        facts["text"] = field_text(
            instance, builder.options.text_field, file=path, record_name=number
        )
        return facts
    given = instance.get("input")
    text = given.get("text") if isinstance(given, dict) else given
    if isinstance(text, str) and text:
        # Elsewhere the references are the answers and must not be shown.
        shown = references if spec.method.startswith("multiple_choice") else []
        facts["text"] = with_options(text, [_output(r) for r in shown])
    return facts


def _output(reference: Mapping[str, Any]) -> str:
    output = reference.get("output")
    return str(output.get("text", "") if isinstance(output, dict) else output)


def _elements(path: Path, key: str = "") -> Iterator[tuple[int, Any]]:
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


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)

"""HELM run folders: run_spec.json, per_instance_stats.json and the instances' texts.

One folder is one run of one model on one scenario. An answer is (instance, perturbation, train
trial); instance ids are unique only within the scenario with its arguments, so these make the
benchmark's name. Files may have gigabytes and are streamed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.helm_stats import Answers, elements
from thetascope.readers.texts import field_text, with_options
from thetascope.readers.values import count, describe, listing, mapping, read_json_file

FORMAT = "helm"

_SPEC, _STATS = "run_spec.json", "per_instance_stats.json"
_INSTANCES, _STATE = "instances.json", "scenario_state.json"


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
    answers = Answers(path / _STATS, builder)
    for number, record in elements(path / _STATS):
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
            **texts.get(answer.instance, _NO_TEXT)._asdict(),
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


class _Text(NamedTuple):
    text: str | None
    reference: str | None


_NO_TEXT = _Text(None, None)


def _texts(path: Path, spec: _Spec, builder: StudyBuilder) -> dict[str, _Text]:
    """Text and reference by instance, from instances.json or the requests' own copies."""
    for name, array_key in ((_INSTANCES, ""), (_STATE, "request_states")):
        if not (path / name).is_file():
            continue
        texts: dict[str, _Text] = {}
        for number, element in elements(path / name, array_key):
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
) -> _Text:
    references = [r for r in listing(instance.get("references")) if isinstance(r, dict)]
    right = [_output(r) for r in references if "correct" in listing(r.get("tags"))]
    reference = " | ".join(right) if right else None
    if builder.options.text_field is not None:
        option = builder.options.text_field
        return _Text(field_text(instance, option, file=path, record_name=number), reference)
    given = instance.get("input")
    text = given.get("text") if isinstance(given, dict) else given
    if not isinstance(text, str) or not text:
        return _Text(None, reference)
    # Elsewhere the references are the answers and must not be shown.
    shown = references if spec.method.startswith("multiple_choice") else []
    return _Text(with_options(text, [_output(r) for r in shown]), reference)


def _output(reference: Mapping[str, Any]) -> str:
    output = reference.get("output")
    return str(output.get("text", "") if isinstance(output, dict) else output)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)

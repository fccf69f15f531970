"""Every Eval Ever's samples (`{uuid}_samples.jsonl`, schema 0.3.0): a record an answer.

Each names its evaluation, model and sample, and has `evaluation` with a score and whether it is
correct. The record beside it (`{uuid}.json`) holds averages only. Files are streamed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.records import (
    NoItems,
    Record,
    as_object,
    identifier,
    item_text,
    name,
    objects,
    optional_name,
    outline,
)
from thetascope.readers.texts import with_options
from thetascope.readers.values import choose, count, listing, mapping

FORMAT = "every-eval-ever"

_METRICS = ("score", "is_correct")


def claims(path: Path, head: bytes) -> bool:
    """JSON lines of records with evaluation_id, sample_id and evaluation, or a summary of them."""
    if path.suffix not in (".jsonl", ".json"):
        return False
    found = outline(head)
    if not found.has("evaluation_id") or found.frame != "{":
        return False
    return found.has("sample_id", "evaluation") or found.has("evaluation_results")


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one file of samples.

    Raises:
        InputError: A record is broken, or a score is none.
        NoItems: It is the summary beside the samples.
    """
    option = builder.options.metric
    metric = _METRICS[0] if option is None else choose(option, _METRICS)
    for number, record in objects(path):
        if "evaluation_results" in record and "sample_id" not in record:
            raise NoItems(
                "is a summary: averages, not the items' results",
                file=path,
                fix="give the samples file (_samples.jsonl) beside it",
            )
        if metric is None:
            raise InputError(
                f"has no metric {option!r}; there are {', '.join(_METRICS)}",
                file=path,
                record=number,
            )
        builder.report.read += 1
        benchmark = builder.options.benchmark or name(
            record, "evaluation_name", file=path, number=number
        )
        sample = identifier(record, "sample_id", file=path, number=number)
        model = builder.options.model or name(record, "model_id", file=path, number=number)
        graded = as_object(record.get("evaluation"), file=path, record=number, field="evaluation")
        if metric not in graded:
            builder.report.drop(
                f"{benchmark}: no {metric} in the record", builder.name(path), number
            )
            continue
        builder.rule("score", benchmark, f"evaluation.{metric}")
        asked = mapping(record.get("input"))
        item = builder.item(
            benchmark,
            sample,
            file=path,
            record=number,
            text=item_text(
                record,
                _text(asked),
                "input.raw and the choices",
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=number,
            ),
            reference=_reference(asked.get("reference")),
        )
        usage = mapping(record.get("token_usage"))
        builder.respond(
            builder.run(model, path, harness="every-eval-ever"),
            item,
            graded[metric],
            file=path,
            record=number,
            field=f"evaluation.{metric}",
            n_tokens_in=count(usage.get("input_tokens")),
            n_tokens_out=count(usage.get("output_tokens")),
        )
    builder.source(path, FORMAT)


def _text(asked: Record) -> str | None:
    raw = optional_name(asked.get("raw"))
    choices = [c for c in listing(asked.get("choices")) if isinstance(c, str)]
    return None if raw is None else with_options(raw, choices)


def _reference(value: Any) -> str | None:
    given = value if isinstance(value, list) else [value]
    return " | ".join(v for v in given if isinstance(v, str) and v) or None

"""lm-evaluation-harness before 0.4: `{task}_write_out_info.json` (`--write_out`).

One array of {doc_id, prompt_0, logit_0, ..., truth, METRIC, ...} whose numbers are texts. A
prompt is the context with one answer behind it, so what the prompts of a record share is the
question. The results file of these versions holds averages only: it is refused, but where it
lies beside the records it names their model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.lm_eval_records import metric_key
from thetascope.readers.lm_eval_results import model_of
from thetascope.readers.records import (
    NoItems,
    Record,
    identifier,
    item_text,
    needs_model,
    objects,
    optional_name,
    outline,
)
from thetascope.readers.texts import common_prefix, common_start, with_options
from thetascope.readers.values import clean_text, mapping, read_json_file

FORMAT = "lm-eval-old"

_SUFFIX = "_write_out_info.json"
_OWN = re.compile(r"doc_id|truth|prompt_\d+|logit_\d+")
_NEWER = re.compile(rb'"[\w@]+,[\w-]+"\s*:')
"""Metrics of 0.4 and newer have their filter in their name: "acc,none"."""

_MOST = 1 << 24
"""Larger files beside the records are no results files."""


def claims(path: Path, head: bytes) -> bool:
    """An array of records with doc_id and prompt_0 or truth, or the results of these versions."""
    if path.suffix != ".json":
        return False
    found = outline(head)
    if found.frame == "[":
        return found.has("doc_id") and (found.has("prompt_0") or found.has("truth"))
    return _is_results(found.kinds, head)


def _is_results(kinds: Record, head: bytes) -> bool:
    named = kinds.get("results") == kinds.get("versions") == "{" and "configs" not in kinds
    return named and not _NEWER.search(head)


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads the records of one task.

    Raises:
        InputError: Task or model cannot be told, several metrics could be meant, or a record is
            broken.
        NoItems: It is a results file.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if _is_results(outline(head).kinds, head):
        raise NoItems(
            "is a results file: averages over all items, not the items' results",
            file=path,
            fix="run again with --write_out, or with --log_samples in version 0.4 and newer",
        )
    _read_records(path, builder)


def _read_records(path: Path, builder: StudyBuilder) -> None:
    task = builder.options.benchmark or (
        path.name.removesuffix(_SUFFIX) if path.name.endswith(_SUFFIX) else ""
    )
    if not task:
        raise InputError(
            f"cannot tell the task: the file's name is not TASK{_SUFFIX}",
            file=path,
            field="benchmark",
            fix="name it with --benchmark",
        )
    benchmark = clean_text(task)
    run = builder.run(
        _model(path, builder), path, harness="lm-evaluation-harness", harness_version="before 0.4"
    )
    cut = _shared_start(path) if builder.options.text_field is None else 0
    rule = "the prompt" + (f" without the first {cut:,} characters, common to all" if cut else "")
    metric: str | None = None
    for number, record in objects(path):
        builder.report.read += 1
        doc_id = identifier(record, "doc_id", file=path, number=number)
        if metric is None:
            metrics = {k: v for k, v in record.items() if not _OWN.fullmatch(k)}
            metric = metric_key(metrics, path, number, builder)
            builder.rule("score", benchmark, f"metric {metric}")
        if metric not in record:
            builder.report.drop(
                f"{benchmark}: no {metric} in the record", builder.name(path), number
            )
            continue
        item = builder.item(
            benchmark,
            doc_id,
            file=path,
            record=number,
            text=item_text(
                record,
                _text(record, cut),
                rule,
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=number,
            ),
            reference=optional_name(record.get("truth")),
        )
        builder.respond(run, item, record[metric], file=path, record=number, field=metric)
    builder.source(path, FORMAT)


def _model(path: Path, builder: StudyBuilder) -> str:
    """The model of the only results file beside the records, unless the user names it."""
    if builder.options.model is not None:
        return builder.options.model
    found = list(_results_beside(path))
    if len(found) == 1 and (model := model_of(found[0][1])):
        builder.source(found[0][0], FORMAT)
        return model
    why = "no results file beside it" if not found else "several results files beside it"
    return needs_model(builder, path, why)


def _results_beside(path: Path) -> Iterator[tuple[Path, Record]]:
    for other in sorted(path.parent.glob("*.json")):
        if other.name.endswith(_SUFFIX) or not other.is_file() or other.stat().st_size > _MOST:
            continue
        try:
            with other.open("rb") as file:
                head = file.read(1 << 16)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file=other) from None
        if _is_results(outline(head).kinds, head):
            yield other, mapping(read_json_file(other))


def _prompts(record: Record) -> list[str]:
    made: list[str] = []
    while isinstance(prompt := record.get(f"prompt_{len(made)}"), str):
        made.append(prompt)
    return made


def _question(prompts: list[str]) -> str:
    """What the prompts of a record share, to the last whole word."""
    if len(prompts) < 2:
        return prompts[0] if prompts else ""
    shared = common_prefix(min(prompts), max(prompts))
    return shared[: max(shared.rfind(" "), shared.rfind("\n")) + 1]


def _shared_start(path: Path) -> int:
    questions = (_question(_prompts(record)) for _, record in objects(path))
    return common_start(q for q in questions if q)


def _text(record: Record, cut: int) -> str | None:
    prompts = _prompts(record)
    question = _question(prompts)
    if not question.strip():
        return None
    answers: list[Any] = [p[len(question) :].strip() for p in prompts] if len(prompts) > 1 else []
    shown = answers if max(map(len, answers), default=0) > 2 else []
    return with_options(question[cut:].strip(), shown)

"""Reports of SWE-bench and its relatives: which instances a model resolved.

Four layouts, all without texts: `{id: true}`; `{id: {"resolved": true, ...}}`; lists of ids
(`resolved_ids`, `unresolved_ids`, ...); a record a line with `resolved` in it or in
`test_result.report`. An instance that is in no list was not evaluated, which is not failing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.json_stream import iter_pieces
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
from thetascope.readers.values import clean_text, describe, mapping

FORMAT = "swe-bench"

_RESOLVED = ("resolved_ids", "resolved")
_UNRESOLVED = ("unresolved_ids", "unresolved")
_EVALUATED = ("completed_ids", "applied")
"""Resolved and unresolved together."""

_NO_PATCH = ("empty_patch_ids", "no_generation", "no_apply")
"""The model gave no patch, or one that does not apply: that is a failure of its own."""

_NOT_GRADED = ("error_ids", "incomplete_ids", "no_logs", "test_errored", "test_timeout")
_NOT_GRADED += ("install_fail", "reset_failed", "generated", "with_logs", "submitted_ids")
_LISTS = (*_RESOLVED, *_UNRESOLVED, *_EVALUATED, *_NO_PATCH, *_NOT_GRADED)


def claims(path: Path, head: bytes) -> bool:
    """One of the four layouts; of objects keyed by id, those with ids as SWE-bench makes them."""
    if path.suffix not in (".json", ".jsonl"):
        return False
    frame, kinds = outline(head)
    if "instance_id" in kinds:
        return any(k in kinds for k in ("resolved", "test_result", "model_patch"))
    if path.suffix == ".jsonl" or frame != "{" or not kinds:
        return False
    if any(kinds.get(name) == "[" for name in _RESOLVED):
        return True
    if not all("__" in key and "-" in key for key in kinds):
        return False
    found = set(kinds.values()) - {"n"}
    return bool(found) and found <= {"t", "f", "{"} and ("{" not in found or b'"resolved"' in head)


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one report.

    Raises:
        InputError: The model cannot be told, or the report is broken or contradicts itself.
        NoItems: It holds patches that were not evaluated, or no failures.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    try:
        with path.open("rb") as file:
            kinds = outline(file.read(1 << 16)).kinds
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if "instance_id" in kinds:
        _records(path, builder)
    elif any(kinds.get(name) == "[" for name in _LISTS):
        _lists(path, builder)
    else:
        _by_id(path, builder)
    builder.source(path, FORMAT)


def _benchmark(builder: StudyBuilder) -> str:
    if builder.options.benchmark is None:
        builder.report.note("the reports name no benchmark: it is 'swe-bench'; see --benchmark")
    return builder.options.benchmark or "swe-bench"


def _records(path: Path, builder: StudyBuilder) -> None:
    benchmark = _benchmark(builder)
    for number, record in objects(path):
        builder.report.read += 1
        instance = identifier(record, "instance_id", file=path, number=number)
        report = mapping(mapping(record.get("test_result")).get("report"))
        holder, field = (
            (record, "resolved")
            if "resolved" in record
            else (
                report,
                "test_result.report.resolved",
            )
        )
        if "resolved" not in holder and "model_patch" in record:
            raise NoItems(
                "holds patches, not whether they resolve their instances",
                file=path,
                fix="give the report of the evaluation",
            )
        reason = _not_evaluated(holder)
        if reason is not None:
            builder.report.drop(reason, builder.name(path), number)
            continue
        model = builder.options.model or optional_name(record.get("model_name_or_path"))
        run = builder.run(model or needs_model(builder, path), path)
        asked = {**record, **mapping(record.get("instance"))}
        item = builder.item(
            benchmark,
            instance,
            file=path,
            record=number,
            text=item_text(
                asked,
                optional_name(asked.get("problem_statement")),
                "the problem statement",
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=number,
            ),
        )
        builder.respond(run, item, holder["resolved"], file=path, record=number, field=field)


def _not_evaluated(report: Record) -> str | None:
    if report.get("error_eval") is True and report.get("resolved") is not True:
        return "error in the evaluation"
    return None if "resolved" in report else "no report: not evaluated"


def _by_id(path: Path, builder: StudyBuilder) -> None:
    run, benchmark = builder.run(needs_model(builder, path), path), _benchmark(builder)
    for instance, number, value in iter_pieces(path):
        if number is not None:
            raise InputError("expected an object by instance id, found a list", file=path)
        builder.report.read += 1
        field = "resolved" if isinstance(value, Mapping) else "score"
        if isinstance(value, Mapping):
            if (reason := _not_evaluated(value)) is not None:
                builder.report.drop(reason, builder.name(path), clean_text(instance))
                continue
            value = value["resolved"]
        item = builder.item(benchmark, instance, file=path, record=instance)
        builder.respond(run, item, value, file=path, record=clean_text(instance), field=field)


def _lists(path: Path, builder: StudyBuilder) -> None:
    lists = {
        p.key: list(_ids(path, p.key, p.value))
        for p in iter_pieces(path)
        if p.key in _LISTS and isinstance(p.value, list)
    }
    resolved = _union(lists, _RESOLVED)
    if not any(name in lists for name in _RESOLVED):
        raise InputError("has no list of resolved instances", file=path, field="resolved_ids")
    if not any(name in lists for name in (*_UNRESOLVED, *_EVALUATED)):
        raise NoItems(
            "lists no instances that were evaluated and failed, and an instance in no list did"
            " not fail",
            file=path,
            fix="give the harness's report, with unresolved_ids or completed_ids",
        )
    failed: dict[str, str] = {}
    for name in (*_UNRESOLVED, *_NO_PATCH):
        for instance in lists.get(name, ()):
            if instance in resolved:
                raise InputError(
                    f"{instance!r} is resolved too ({resolved[instance]})", file=path, field=name
                )
            failed.setdefault(instance, name)
    for name in _EVALUATED:
        for instance in lists.get(name, ()):
            if instance not in resolved:
                failed.setdefault(instance, name)
    benchmark = _benchmark(builder)
    ones, zeros = (", ".join(dict.fromkeys(names.values())) for names in (resolved, failed))
    builder.rule("score", benchmark, f"1 in {ones or 'no list'}, 0 in {zeros or 'no list'}")
    run = builder.run(_model(path, builder), path)
    for score, names in ((1, resolved), (0, failed)):
        for instance, name in names.items():
            item = builder.item(benchmark, instance, file=path, record=instance)
            builder.respond(run, item, score, file=path, record=instance, field=name, one=1.0)
    left = {i: name for i, name in _union(lists, _NOT_GRADED).items() if i not in resolved}
    left = {i: name for i, name in left.items() if i not in failed}
    for instance, name in left.items():
        builder.report.drop(f"in {name}, not graded", builder.name(path), instance)
    builder.report.read += len(resolved) + len(failed) + len(left)


def _union(lists: Mapping[str, list[str]], names: tuple[str, ...]) -> dict[str, str]:
    """The ids in these lists, each with the first list that it is in."""
    found: dict[str, str] = {}
    for name in names:
        for instance in lists.get(name, ()):
            found.setdefault(instance, name)
    return found


def _ids(path: Path, key: str, values: list[Any]) -> Iterator[str]:
    for number, value in enumerate(values, start=1):
        if not isinstance(value, str) or not value:
            raise InputError(
                f"expected an id, found {describe(value) if value != '' else 'empty text'}",
                file=path,
                record=number,
                field=key,
            )
        yield clean_text(value)


def _model(path: Path, builder: StudyBuilder) -> str:
    """The harness names its report MODEL.RUN.json, with '__' for '/'."""
    model, dot, _ = path.stem.rpartition(".")
    if builder.options.model is None and dot and model:
        model = clean_text(model.replace("__", "/"))
        builder.report.note(f"{builder.name(path)}: the model {model!r} is from the file's name")
        return model
    return needs_model(builder, path, "the file's name is not MODEL.RUN.json")

"""lighteval's details: `details/{model}/{date}/details_{task}_{date}.parquet`.

A row is an item of one task, with three columns of fields: `doc` (query, choices, gold_index,
instruction, id, task_name), `model_response` and `metric` (a number for each metric), which some
versions write with underscores around. Only the fields that are needed are loaded. Details of
earlier versions have other columns and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.columns import parquet_columns, reading_table
from thetascope.readers.parquet import try_out
from thetascope.readers.records import (
    NoItems,
    Record,
    identifier,
    item_text,
    name,
    needs_model,
    optional_name,
)
from thetascope.readers.texts import with_options
from thetascope.readers.values import choose, clean_text, listing

FORMAT = "lighteval"

_DOC = ("query", "choices", "gold_index", "instruction", "id", "task_name")
_OLD = ({"full_prompt", "metrics"}, {"example", "metrics"})
_DATE = re.compile(r"_(\d{4}-\d\d-\d\dT[\d.:-]+)$")


def claims(path: Path, head: bytes) -> bool:
    """A Parquet file with lighteval's columns, new or old."""
    columns = set(parquet_columns(path))
    return {"doc", "metric"} <= {c.strip("_") for c in columns} or _is_old(columns)


def _is_old(columns: set[str]) -> bool:
    return any(known <= columns for known in _OLD)


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads the details of one task.

    Raises:
        InputError: The model cannot be told, several metrics could be meant, or a row is broken.
        NoItems: The details are of an earlier version.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    with reading_table(path):
        table = pl.scan_parquet(path, glob=False)
        schema = table.collect_schema()
        doc, metrics = (_fields(schema, kind, path) for kind in ("doc", "metric"))
        metric = _metric(metrics[1], builder, path)
        wanted = [pl.col(doc[0]).struct.field(f) for f in _DOC if f in doc[1]]
        score = pl.col(metrics[0]).struct.field(metric).alias("_score")
        try_out(path, [doc[0], metrics[0]])
        rows = table.select(*wanted, score).collect(engine="streaming")
    if not rows.height:
        raise InputError("has no rows", file=path)
    model = _model(path, builder)
    date = _DATE.search(path.stem)
    for number, row in enumerate(_rows(rows), start=1):
        builder.report.read += 1
        task, shots = _task(name(row, "task_name", file=path, number=number))
        benchmark = builder.options.benchmark or task
        builder.rule("score", benchmark, f"metric {metric}")
        item = builder.item(
            benchmark,
            identifier(row, "id", file=path, number=number),
            file=path,
            record=number,
            text=item_text(
                row,
                _text(row),
                "the query and the choices",
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=number,
            ),
            reference=_reference(row),
        )
        run = builder.run(
            model, path, harness="lighteval", shots=shots, date=date[1] if date else None
        )
        builder.respond(run, item, row["_score"], file=path, record=number, field=metric)
    builder.source(path, FORMAT)


def _rows(rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    return rows.iter_rows(named=True)


def _fields(schema: pl.Schema, kind: str, path: Path) -> tuple[str, dict[str, Any]]:
    """The column of this kind, and its fields with their types."""
    column = next((c for c in schema if c.strip("_") == kind), None)
    if column is None and _is_old(set(schema)):
        raise NoItems(
            "has the details of an earlier version of lighteval",
            file=path,
            fix="save id, model and score as a table",
        )
    if column is None:
        raise InputError(f"the column is missing; found {', '.join(schema)}", file=path, field=kind)
    dtype = schema[column]
    if not isinstance(dtype, pl.Struct):
        raise InputError(f"expected fields, found {dtype}", file=path, field=column)
    return column, {f.name: f.dtype for f in dtype.fields}


def _metric(metrics: Record, builder: StudyBuilder, path: Path) -> str:
    option = builder.options.metric
    if option is not None:
        chosen = choose(option, list(metrics))
        if chosen is None:
            raise InputError(f"has no metric {option!r}; there are {', '.join(metrics)}", file=path)
        return chosen
    usable = [m for m, dtype in metrics.items() if not dtype.is_nested()]
    if len(usable) == 1:
        return usable[0]
    if not usable:
        raise InputError("has no metric that is one number", file=path)
    raise InputError(
        f"has the metrics {', '.join(usable)}",
        file=path,
        fix=f"choose one with --metric, e.g. --metric {usable[0]}",
    )


def _model(path: Path, builder: StudyBuilder) -> str:
    """The folders between `details` and the date."""
    parts = path.resolve().parts
    if builder.options.model is None and "details" in parts[:-3]:
        start = len(parts) - 1 - parts[::-1].index("details")
        folders = parts[start + 1 : -2]
        if folders:
            builder.report.note("the model is the folder's name under details/")
            return clean_text("/".join(folders))
    return needs_model(builder, path, "the file does not lie in details/MODEL/DATE/")


def _task(named: str) -> tuple[str, int | None]:
    """Task and shots of 'suite|task|shots' or 'task|shots'."""
    parts = named.split("|")
    shots = int(parts[-1]) if len(parts) > 1 and re.fullmatch(r"[0-9]{1,6}", parts[-1]) else None
    rest = parts[:-1] if shots is not None else parts
    return (rest[-1] or named), shots


def _gold(row: Record) -> list[int]:
    gold = row.get("gold_index")
    return [i for i in (gold if isinstance(gold, list) else [gold]) if isinstance(i, int)]


def _text(row: Record) -> str | None:
    query = optional_name(row.get("query"))
    if query is None:
        return None
    instruction = optional_name(row.get("instruction"))
    if instruction is not None:
        query = query.removeprefix(instruction).strip() or query
    choices = [c for c in listing(row.get("choices")) if isinstance(c, str)]
    # Where every choice is right, they are the answers to an open question.
    shown = choices if set(range(len(choices))) - set(_gold(row)) else []
    return with_options(query, [c.strip() for c in shown])


def _reference(row: Record) -> str | None:
    choices = listing(row.get("choices"))
    right = [str(choices[i]).strip() for i in _gold(row) if 0 <= i < len(choices)]
    return " | ".join(right) or None

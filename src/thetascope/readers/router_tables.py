"""Wide tables of routers: RouterBench (CSV, Parquet) and RouteLLM's answers (CSV).

RouterBench has a row an item: sample_id, prompt, eval_name, and for every model its score, its
answer (`model|model_response`) and its price (`model|total_cost`). Models are found by that last
suffix. RouteLLM has a prompt and one column of True and False for each of its two models; it
has neither ids nor a benchmark. Answers are most of these files, and are never loaded.
"""

from __future__ import annotations

import ast
import csv
import io
from pathlib import Path

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.columns import (
    check_names,
    csv_header,
    header_names,
    parquet_columns,
    reading_table,
    with_ids,
    with_scores,
)
from thetascope.readers.parquet import try_out
from thetascope.readers.values import clean_text
from thetascope.study.text import text_hash

FORMAT = "router-tables"

_COST = "|total_cost"
_KEYS = ("sample_id", "eval_name", "prompt")
_WORDS = {"true", "false"}


def claims(path: Path, head: bytes) -> bool:
    """A RouterBench header, or a prompt beside two columns of True and False."""
    if path.suffix == ".parquet":
        return _is_routerbench(parquet_columns(path))
    if path.suffix != ".csv":
        return False
    text = head.decode("utf-8-sig", "replace")
    try:
        rows = csv.reader(io.StringIO(text))
        header, first = next(rows, []), next(rows, [])
    except csv.Error:
        return False
    if _is_routerbench(header):
        return True
    words = {cell.strip().lower() for cell in first[1:]}
    return len(header) == len(first) == 3 and header[0] == "prompt" and words <= _WORDS


def _is_routerbench(columns: list[str]) -> bool:
    return {"sample_id", "eval_name"} <= set(columns) and any(c.endswith(_COST) for c in columns)


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one table.

    Raises:
        InputError: A column is missing, an id is empty, or a score is none.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    if path.suffix != ".parquet":
        check_names(path, header_names(csv_header(path)))
    with reading_table(path):
        table = (
            pl.scan_parquet(path, glob=False)
            if path.suffix == ".parquet"
            else pl.scan_csv(path, infer_schema=False, glob=False)
        )
        columns = table.collect_schema().names()
        if _is_routerbench(columns):
            _routerbench(path, table, columns, builder)
        elif len(columns) == 3 and columns[0] == "prompt":
            _route_llm(path, table, columns, builder)
        else:
            raise InputError(
                "expected the columns sample_id, eval_name and MODEL|total_cost, or prompt and"
                f" two models; found {', '.join(columns)}",
                file=path,
            )
    builder.source(path, FORMAT)


def _routerbench(
    path: Path, table: pl.LazyFrame, columns: list[str], builder: StudyBuilder
) -> None:
    models = [c.removesuffix(_COST) for c in columns if c.endswith(_COST)]
    for model in models:
        if model not in columns:
            raise InputError(
                f"the column is missing, though there is {model + _COST!r}", file=path, field=model
            )
    keys = [c for c in _KEYS if c in columns]
    if path.suffix == ".parquet":
        try_out(path, [*keys, *models, *(m + _COST for m in models)])
    items = _collect(path, table.select(keys))
    items = with_ids(path, items, "sample_id", "eval_name")
    codes: list[int] = []
    for row in items.iter_rows(named=True):
        benchmark = builder.options.benchmark or row["eval_name"]
        text = _prompt(row.get("prompt"))
        if text is not None:
            builder.rule("text", benchmark, "the column 'prompt'")
        codes.append(
            builder.item(benchmark, row["sample_id"], file=path, record=row["_row"], text=text)
        )
    item_of_row = pl.Series("_item", codes, dtype=pl.Int64)
    for model in models:
        answers = table.select(pl.col(model).alias("score"), pl.col(model + _COST).alias("cost"))
        frame = _collect(path, answers).with_columns(item_of_row)
        _respond(path, frame, model, builder)


def _route_llm(path: Path, table: pl.LazyFrame, columns: list[str], builder: StudyBuilder) -> None:
    prompts = _collect(path, table.select("prompt"))
    benchmark = builder.options.benchmark
    if benchmark is None:
        benchmark = clean_text(path.stem)
        builder.report.note(f"{builder.name(path)}: the benchmark is the file's name")
    builder.rule("text", benchmark, "the column 'prompt' as it stands")
    codes: list[int] = []
    for prompt, row in with_ids(path, prompts, "prompt").select("prompt", "_row").iter_rows():
        text = clean_text(prompt)
        codes.append(builder.item(benchmark, text_hash(text), file=path, record=row, text=text))
    item_of_row = pl.Series("_item", codes, dtype=pl.Int64)
    for model in columns[1:]:
        frame = _collect(path, table.select(pl.col(model).alias("score")))
        _respond(path, frame.with_columns(item_of_row), model, builder)


def _collect(path: Path, table: pl.LazyFrame) -> pl.DataFrame:
    frame = table.with_row_index("_row", offset=1).collect(engine="streaming")
    if not frame.height:
        raise InputError("has no rows", file=path)
    return frame


def _respond(path: Path, frame: pl.DataFrame, model: str, builder: StudyBuilder) -> None:
    builder.report.read += frame.height
    frame = with_scores(path, frame, builder, model)
    if not frame.height:
        return
    run = builder.run(model, path)
    costs = frame["cost"] if "cost" in frame.columns else pl.Series([None] * frame.height)
    if costs.dtype.is_nested():
        raise InputError("expected numbers, found lists or objects", file=path, field=model + _COST)
    numbers = costs.cast(pl.Float64, strict=False)
    usable = numbers.is_finite() & (numbers >= 0)
    unusable = int((costs.is_not_null() & ~usable.fill_null(False)).sum())
    if unusable:
        builder.report.note(f"{model}: {unusable:,} costs are no amount of money: not kept")
    numbers = pl.select(pl.when(usable).then(numbers)).to_series()
    places = frame.select("_item", "score", "_row").iter_rows()
    for (item, score, row), cost in zip(places, numbers, strict=True):
        builder.respond(run, item, score, file=path, record=row, one=1.0, cost_usd=cost)


def _prompt(value: object) -> str | None:
    """A prompt's text; prompts often stand as the text of a Python list of parts."""
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip()
    if text[0] == "[" and text[-1] == "]":
        try:
            parts = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value
        if isinstance(parts, list) and parts and all(isinstance(p, str) for p in parts):
            return "\n".join(parts)
    return value

"""The study's own tables from anywhere: long CSV, TSV, JSONL or Parquet, wide tables, folders.

Long: one row a response, columns item_id, model, score and any of benchmark, subject, text,
reference, chance, run_id, trials, n_tokens_in, n_tokens_out, cost_usd. Other names are mapped
with the option `columns`.

Wide: the first column holds ids, the others scores; the option `wide` says whether a row is an
item or a model, because a shape does not tell.

Folder: responses.* beside items.* and, where there is one, models.*.

Every id is text from the first byte to the last: '007', '7', 'NA' and 'null' are four ids.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.columns import parquet_columns, with_ids, with_scores
from thetascope.readers.table_files import (
    ITEM_COLUMNS,
    KNOWN,
    NUMBERS,
    load_known_columns,
    load_table,
    separator,
)
from thetascope.study.text import text_hashes

FORMAT = "tables"

_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


def claims(path: Path, head: bytes) -> bool:
    """A folder with responses.* in it, or a table whose header has item_id, model and score."""
    if path.is_dir():
        return _table_in(path, "responses") is not None
    if path.suffix not in _SUFFIXES:
        return False
    needed = {"item_id", "model", "score"}
    if path.suffix == ".parquet":
        return needed <= set(parquet_columns(path))
    first = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    if path.suffix in (".jsonl", ".ndjson"):
        return all(f'"{name}"' in first for name in needed)
    row = next(csv.reader(io.StringIO(first), delimiter=separator(first)), [])
    return needed <= set(row)


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads a long or wide table, or a folder of tables."""
    if path.is_dir():
        _read_folder(path, builder)
        return
    if builder.options.wide:
        _add_wide(path, load_table(path, builder.options.columns), builder)
    else:
        _add_long(path, builder, None)
    builder.source(path, FORMAT)


def _read_folder(folder: Path, builder: StudyBuilder) -> None:
    responses = _table_in(folder, "responses")
    if responses is None:
        raise InputError("no responses.csv, .jsonl or .parquet in the folder", file=folder)
    items, models = _table_in(folder, "items"), _table_in(folder, "models")
    item_table = None
    if items is not None:
        item_table = load_table(items, builder.options.columns)
        if "item_id" not in item_table.columns:
            raise InputError(
                f"the column is missing; found {', '.join(item_table.columns)}",
                file=items,
                field="item_id",
            )
        builder.source(items, FORMAT)
    _add_long(responses, builder, item_table)
    builder.source(responses, FORMAT)
    if models is not None:
        for row in load_table(models, builder.options.columns).iter_rows(named=True):
            name = row.pop("model", None)
            if name is None:
                raise InputError("the column is missing or empty", file=models, field="model")
            builder.model(str(name), **{k: v for k, v in row.items() if v is not None})
        builder.source(models, FORMAT)


def _table_in(folder: Path, stem: str) -> Path | None:
    found = [folder / (stem + s) for s in _SUFFIXES if (folder / (stem + s)).is_file()]
    if len(found) > 1:
        raise InputError(
            f"holds both {found[0].name} and {found[1].name}", file=folder, fix="keep one"
        )
    return found[0] if found else None


def _add_long(path: Path, builder: StudyBuilder, item_table: pl.DataFrame | None) -> None:
    frame, names = load_known_columns(path, builder.options.columns)
    if "model" not in frame.columns and builder.options.model:
        frame = frame.with_columns(pl.lit(builder.options.model).alias("model"))
    for column in ("item_id", "model", "score"):
        if column not in frame.columns:
            raise InputError(
                f"the column is missing; found {', '.join(names)}",
                file=path,
                field=column,
                fix="map it, e.g. --columns.item_id qid; a wide table needs --wide",
            )
    unused = [n for n in names if n not in KNOWN]
    if unused:
        builder.report.note(f"{builder.name(path)}: columns not used: {', '.join(unused)}")
    n = frame.height
    builder.report.read += n
    frame = with_ids(path, frame.with_row_index("_row", offset=1), "item_id", "model")
    frame = with_scores(path, frame, builder)
    frame = _with_numbers(path, frame)
    keys = None
    if item_table is not None:
        item_table, keys = _full_ids(path, item_table, builder)
        unknown = frame.filter(~pl.col("item_id").is_in(list(keys)))
        if unknown.height:
            raise InputError(
                f"{unknown['item_id'][0]!r} is not in the items table",
                file=path,
                record=int(unknown["_row"][0]),
                field="item_id",
            )
        frame = frame.with_columns(pl.col("item_id").replace_strict(keys))
        items = item_table
    else:
        frame, _ = _full_ids(path, frame, builder)
        items = _items_of(path, frame)
    if "text" in items.columns:
        _text_rule(builder, items)
    answers = frame.select(
        c for c in ("item_id", "model", "run_id", "score", *NUMBERS) if c in frame.columns
    )
    builder.add_frames(answers, items, path)


def _with_numbers(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    types = {**NUMBERS, "chance": pl.Float64, "n_tokens": pl.Int64}
    for column, dtype in types.items():
        if column in frame.columns:
            cast = frame[column].cast(dtype, strict=False)
            lost = cast.is_null() & frame[column].is_not_null()
            if lost.any():
                place = int(lost.arg_max() or 0)
                kind = "a number" if dtype == pl.Float64 else "a whole number"
                raise InputError(
                    f"expected {kind}, found {frame[column][place]!r}",
                    file=path,
                    record=int(frame["_row"][place]),
                    field=column,
                )
            low, high = (1 if column == "trials" else 0), (1 if column == "chance" else None)
            wrong = (cast < low) | (cast > high if high is not None else False)
            if wrong.any():
                place = int(wrong.arg_max() or 0)
                raise InputError(
                    f"must be at least {low}"
                    + (f" and at most {high}" if high is not None else "")
                    + f", found {cast[place]:g}",
                    file=path,
                    record=int(frame["_row"][place]),
                    field=column,
                )
            frame = frame.with_columns(cast)
    if "trials" in frame.columns:
        frame = frame.with_columns(pl.col("trials").fill_null(1))
    return frame


def _full_ids(
    path: Path, frame: pl.DataFrame, builder: StudyBuilder
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Ids as 'benchmark:source_id', with benchmark and source_id beside them."""
    frame = frame.with_columns(pl.col("item_id").cast(pl.String))
    if builder.options.benchmark:
        frame = frame.with_columns(pl.lit(builder.options.benchmark).alias("benchmark"))
    if "benchmark" not in frame.columns:
        named = frame["item_id"].str.extract(r"^([^:]+):.", 1)
        if named.null_count():
            first = frame["item_id"][int(named.is_null().arg_max() or 0)]
            raise InputError(
                f"cannot tell the benchmark of item {first!r}",
                file=path,
                field="item_id",
                fix="add a benchmark column, ids like 'benchmark:id', or --benchmark NAME",
            )
        frame = frame.with_columns(named.alias("benchmark"))
    empty = frame["benchmark"].is_null() | (frame["benchmark"] == "")
    if empty.any():
        record = int(empty.arg_max() or 0) + 1
        raise InputError("is empty", file=path, record=record, field="benchmark")
    given = pl.col("item_id")
    prefix = pl.col("benchmark").cast(pl.String) + ":"
    has = given.str.starts_with(prefix)
    source = pl.when(has).then(given.str.slice(prefix.str.len_chars())).otherwise(given)
    frame = frame.with_columns(source.alias("source_id"), given.alias("_given"))
    frame = frame.with_columns((prefix + pl.col("source_id")).alias("item_id"))
    pairs = frame.select("_given", "item_id").unique(maintain_order=True)
    return frame.drop("_given"), dict(pairs.iter_rows())


def _items_of(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """The items of a long table: each fact must be the same on all rows of its item."""
    facts = [c for c in ("benchmark", "source_id", *ITEM_COLUMNS) if c in frame.columns]
    items = frame.group_by("item_id", maintain_order=True).agg(
        *(pl.col(c).drop_nulls().first() for c in facts),
        *(pl.col(c).drop_nulls().n_unique().alias(f"_n_{c}") for c in facts),
    )
    for column in facts:
        several = items.filter(pl.col(f"_n_{column}") > 1)
        if not several.height:
            continue
        item_id = several["item_id"][0]
        rows = frame.filter(item_id=item_id).with_columns(pl.col(column).cast(pl.String))
        if column == "text" and len(set(text_hashes(rows["text"].drop_nulls()))) == 1:
            continue
        other = rows.filter(pl.col(column) != rows[column].drop_nulls()[0])
        raise InputError(
            f"item {item_id!r} has two values of it",
            file=path,
            record=int(other["_row"][0]),
            field=column,
        )
    if "text" in facts:
        items = items.with_columns(pl.col("text").cast(pl.String))
    return items.select("item_id", *facts)


def _text_rule(builder: StudyBuilder, items: pl.DataFrame) -> None:
    n = items["text"].drop_nulls().len()
    if n:
        builder.report.text_rule = f"the column 'text' as it stands ({n:,} items)"


def _add_wide(path: Path, frame: pl.DataFrame, builder: StudyBuilder) -> None:
    first, others = frame.columns[0], frame.columns[1:]
    if not others:
        raise InputError("a wide table needs an id column and score columns", file=path)
    frame = with_ids(path, frame.with_row_index("_row", offset=1), first)
    twice = frame.filter(pl.col(first).is_duplicated())
    if twice.height:
        raise InputError(
            f"the id {twice[first][0]!r} occurs twice",
            file=path,
            record=int(twice["_row"][1]),
            field=first,
        )
    item, model = (
        ("row", "column") if builder.options.wide == "items-in-rows" else ("column", "row")
    )
    long = (
        frame.with_columns(pl.col(c).cast(pl.String) for c in others)
        .unpivot(others, index=["_row", first], variable_name="column", value_name="score")
        .rename({first: "row"})
        .rename({item: "item_id", model: "model"})
    )
    n = long.height
    builder.report.read += n
    empty = long["score"].is_null()
    if empty.any():
        builder.report.drop(
            "empty cell: not evaluated",
            builder.name(path),
            int(long.filter(empty)["_row"][0]),
            int(empty.sum()),
        )
        long = long.filter(~empty)
    # The row of a cell, and its column by name, is where a wrong score stands.
    long = with_scores(path, long, builder)
    long, _ = _full_ids(path, long, builder)
    items = long.select("item_id", "benchmark", "source_id").unique(maintain_order=True)
    builder.add_frames(long.select("item_id", "model", "score"), items, path)

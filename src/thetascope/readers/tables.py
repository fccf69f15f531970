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

from pathlib import Path

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.columns import (
    check_plain,
    header_names,
    parquet_columns,
    with_ids,
    with_scores,
)
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
_NUMBERS_BESIDE = {
    "chance": pl.Float64,
    "n_tokens": pl.Int64,
    "params_b": pl.Float64,
    "price_in_usd_per_mtok": pl.Float64,
    "price_out_usd_per_mtok": pl.Float64,
}


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
    return needed <= set(header_names(first, separator(first)))


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
        item_table = _checked(items, item_table, "item_id")
        builder.source(items, FORMAT)
    _add_long(responses, builder, item_table)
    builder.source(responses, FORMAT)
    if models is not None:
        model_table = load_table(models, builder.options.columns)
        if "model" not in model_table.columns:
            raise InputError("the column is missing", file=models, field="model")
        for row in _checked(models, model_table, "model").iter_rows(named=True):
            builder.model(row.pop("model"), **{k: v for k, v in row.items() if v is not None})
        builder.source(models, FORMAT)


def _checked(path: Path, frame: pl.DataFrame, key: str) -> pl.DataFrame:
    """A table of items or models with its ids as text and its numbers as numbers."""
    frame = with_ids(path, frame.with_row_index("_row", offset=1), key)
    return _with_numbers(path, frame).drop("_row")


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
    builder.report.read += frame.height
    frame = frame.with_row_index("_row", offset=1)
    frame = with_ids(path, frame, "item_id", "model")
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
    types = {**NUMBERS, **_NUMBERS_BESIDE}
    for column, dtype in types.items():
        if column in frame.columns:
            kind = "a number" if dtype == pl.Float64 else "a whole number"
            given = _gaps_as_null(path, frame[column], kind)
            cast = given.cast(dtype, strict=False)
            lost = cast.is_null() & given.is_not_null()
            if given.dtype.is_float():
                lost |= (given != cast).fill_null(False)  # 1.5 is no whole number
            if lost.any():
                place = int(lost.arg_max() or 0)
                raise InputError(
                    f"expected {kind}, found {frame[column][place]!r}",
                    file=path,
                    record=int(frame["_row"][place]),
                    field=column,
                )
            low, high = (1 if column == "trials" else 0), (1 if column == "chance" else None)
            wrong = (cast < low) | (cast > high if high is not None else cast.is_infinite())
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


def _gaps_as_null(path: Path, series: pl.Series, kind: str) -> pl.Series:
    """The column with NaN as null: so pandas writes a column of whole numbers with gaps."""
    check_plain(path, series, kind, series.name)
    if series.dtype.is_temporal():
        raise InputError(f"expected {kind}, found {series.dtype}", file=path, field=series.name)
    return series.fill_nan(None) if series.dtype.is_float() else series


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
        row = int(empty.arg_max() or 0)
        record = int(frame["_row"][row]) if "_row" in frame.columns else row + 1
        raise InputError("is empty", file=path, record=record, field="benchmark")
    if (frame["item_id"] == "").any():
        raise InputError("an item's id is empty", file=path)
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
    for column in others:
        check_plain(path, frame[column], "numbers", column)
    # Numbers for the names meanwhile: a model may be called as our own columns are.
    numbers = [str(i) for i in range(len(others))]
    frame = frame.rename(dict(zip(others, numbers, strict=True))).rename({first: "row"})
    frame = frame.with_row_index("_row", offset=1)
    frame = with_ids(path, frame, "row", called=first)
    twice = frame.filter(~pl.col("row").is_first_distinct())
    if twice.height:
        raise InputError(
            f"the id {twice['row'][0]!r} occurs twice",
            file=path,
            record=int(twice["_row"][0]),
            field=first,
        )
    item, model = (
        ("row", "column") if builder.options.wide == "items-in-rows" else ("column", "row")
    )
    long = (
        frame.with_columns(pl.col(c).cast(pl.String) for c in numbers)
        .unpivot(numbers, index=["_row", "row"], variable_name="column", value_name="score")
        .with_columns(pl.col("column").replace_strict(numbers, others))
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

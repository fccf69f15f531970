"""EmbedLLM's CSV files: one row a (prompt, model) with label 0 or 1, the prompt on every row.

Columns prompt_id, model_id, category_id, label, model_name, prompt, category. The model is
`model_name` (model ids have gaps), the benchmark is `category`. A prompt id may stand in train,
val and test. Files are scanned, not loaded: texts are most of them and each is kept once.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.columns import (
    check_names,
    csv_header,
    header_names,
    reading_table,
    with_scores,
)

FORMAT = "embedllm"

_KEY = ("category", "prompt_id")
_NEEDED = ("prompt_id", "model_name", "category", "label", "prompt")


def claims(path: Path, head: bytes) -> bool:
    """A CSV file whose header has EmbedLLM's columns."""
    if path.suffix != ".csv" or path.is_dir():
        return False
    first = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    return set(_NEEDED) <= set(header_names(first))


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one of the files.

    Raises:
        InputError: A column is missing, an id is empty, a label is no score, or a prompt id
            has two prompts.
    """
    if path.is_dir():
        raise InputError("expected a CSV file, found a folder without one", file=path)
    check_names(path, header_names(csv_header(path)))
    with reading_table(path):
        _read(path, builder)


def _read(path: Path, builder: StudyBuilder) -> None:
    rows = pl.scan_csv(path, infer_schema=False, glob=False).with_row_index("_row", offset=1)
    there = rows.collect_schema().names()[1:]
    for column in _NEEDED:
        if column not in there:
            raise InputError(
                f"the column is missing; found {', '.join(there)}", file=path, field=column
            )
    names = [pl.col(c).cast(pl.Categorical) for c in ("model_name", "category")]
    answers = rows.select(
        "_row", "prompt_id", *names, pl.col("label").cast(pl.Categorical).alias("score")
    ).collect(engine="streaming")
    if not answers.height:
        raise InputError("has no rows", file=path)
    builder.report.read += answers.height
    for column in ("prompt_id", "model_name", "category"):
        empty = answers[column].is_null()
        if empty.any():
            row = int(answers["_row"][int(empty.arg_max() or 0)])
            raise InputError("is empty", file=path, record=row, field=column)
    items = _items(path, rows, builder)
    answers = with_scores(path, answers, builder, "label")
    models = answers["model_name"].unique(maintain_order=True).cast(pl.String).to_list()
    runs = {m: builder.run(m, path) for m in models}
    coded = answers.join(items, on=list(_KEY), how="left", maintain_order="left")
    builder.respond_many(
        coded["model_name"].cast(pl.String).replace_strict(runs, return_dtype=pl.Int32).to_numpy(),
        coded["_item"].to_numpy(),
        coded["score"].to_numpy(),
    )
    builder.source(path, FORMAT)


def _items(path: Path, rows: pl.LazyFrame, builder: StudyBuilder) -> pl.DataFrame:
    """Hands every prompt to the builder, once; returns its code by category and id."""
    # As a category a prompt is copied once; as text, a slice that holds on to its part of the file.
    code = pl.col("prompt").to_physical()
    prompts = (
        rows.select("_row", *_KEY, pl.col("prompt").cast(pl.Categorical))
        .group_by(*_KEY)
        .agg(
            pl.col("_row").min(),
            pl.col("prompt").first().cast(pl.String),
            (code.min() != code.max()).alias("_differ"),
        )
        .sort("_row")
        .collect(engine="streaming")
    )
    several = prompts.filter("_differ")
    if several.height:
        prompt_id = several["prompt_id"][0]
        raise InputError(
            f"prompt_id {prompt_id!r} has two prompts",
            file=path,
            record=int(several["_row"][0]),
            field="prompt",
        )
    benchmark = builder.options.benchmark
    codes: list[int] = []
    for category, prompt_id, row, text, _ in prompts.iter_rows():
        builder.rule("text", benchmark or category, "the column 'prompt' as it stands")
        codes.append(
            builder.item(benchmark or category, prompt_id, file=path, record=row, text=text)
        )
    return prompts.select(
        pl.col("category").cast(pl.Categorical),
        "prompt_id",
        pl.Series("_item", codes, dtype=pl.Int32),
    )

"""LLMRouter's JSON: one array of {question, scores: {model: score}}.

The files name neither ids nor a benchmark: an item's id is the hash of its question, the
benchmark is `llmrouter` unless the user or the record (`task_name`) names one.
"""

from __future__ import annotations

from pathlib import Path

from thetascope.readers.builder import StudyBuilder
from thetascope.readers.records import (
    as_object,
    item_text,
    name,
    objects,
    optional_name,
    outline,
)
from thetascope.study.text import text_hash

FORMAT = "llmrouter"


def claims(path: Path, head: bytes) -> bool:
    """JSON or JSON lines whose first record has a question and an object of scores."""
    if path.suffix not in (".json", ".jsonl"):
        return False
    kinds = outline(head).kinds
    return kinds.get("question") == '"' and kinds.get("scores") == "{"


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one file.

    Raises:
        InputError: A record is broken, or a score is none.
    """
    for number, record in objects(path):
        question = name(record, "question", file=path, number=number)
        scores = as_object(record.get("scores"), file=path, record=number, field="scores")
        benchmark = builder.options.benchmark or optional_name(record.get("task_name"))
        if benchmark is None:
            benchmark = FORMAT
            builder.report.note("the files name no benchmark: it is 'llmrouter'; see --benchmark")
        item = builder.item(
            benchmark,
            text_hash(question),
            file=path,
            record=number,
            text=item_text(
                record,
                question,
                "the question",
                benchmark=benchmark,
                builder=builder,
                file=path,
                number=number,
            ),
        )
        for model, score in scores.items():
            builder.report.read += 1
            builder.respond(
                builder.run(model, path),
                item,
                score,
                file=path,
                record=number,
                field=f"scores.{model}",
            )
    builder.source(path, FORMAT)

"""What a user may choose about an import; the same names on the command line and in Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from thetascope.errors import InputError
from thetascope.study import RunPolicy
from thetascope.study.policies import check_policy


@dataclass(frozen=True)
class ReadOptions:
    """Choices for reading a source.

    Attributes:
        metric: Which metric is the score, where a record has several. Several names with
            commas: the first one that a file has, for benchmarks with different metrics.
        filter: Which lm-evaluation-harness filter counts, where a record has several. Several
            names with commas: each file may have one of them.
        model: Name of the model, where the source does not say it, or to override it.
        benchmark: Name of the benchmark, where the source does not say it, or to override it.
        text_field: Field that holds the item's text, instead of the reader's own rule; 'a.b'
            looks inside a.
        scale: The value that stands for 1; scores are divided by it.
        wide: How a wide table lies: 'items-in-rows' or 'models-in-rows'.
        columns: Names of the source's columns for ours: {'item_id': 'qid'}, on the command line
            --columns.item_id qid.
        on_duplicate: What counts where one (item, model) pair has several responses.
        text_conflict: Two texts under one item id: 'error', or 'separate' to keep two items.
    """

    metric: str | None = None
    filter: str | None = None
    model: str | None = None
    benchmark: str | None = None
    text_field: str | None = None
    scale: float = 1.0
    wide: Literal["items-in-rows", "models-in-rows"] | None = None
    columns: dict[str, str] = field(default_factory=dict[str, str])
    on_duplicate: RunPolicy = "error"
    text_conflict: Literal["error", "separate"] = "error"

    def __post_init__(self) -> None:
        check_policy(self.on_duplicate)
        if not self.scale > 0:
            raise InputError(f"expected a number above 0, found {self.scale!r}", field="scale")
        if self.wide not in (None, "items-in-rows", "models-in-rows"):
            raise InputError(
                f"expected 'items-in-rows' or 'models-in-rows', found {self.wide!r}", field="wide"
            )
        if self.text_conflict not in ("error", "separate"):
            raise InputError(
                f"expected 'error' or 'separate', found {self.text_conflict!r}",
                field="text_conflict",
            )

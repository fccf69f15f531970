"""Per-sample logs of lm-evaluation-harness (`--log_samples`), 0.4.0 and newer.

0.4.0 to 0.4.2 write one JSON array a file, later versions one record a line. A record is one
(doc, filter): it repeats the doc for every filter, and has one key for every metric. Newer
records name their filter and their metrics. Files are streamed, never held.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.lm_eval_records import (
    Record,
    endings,
    metric_key,
    prompt,
    records,
    shared_start,
)
from thetascope.readers.lm_eval_results import LogFacts, log_facts
from thetascope.readers.texts import doc_text, field_text, with_options
from thetascope.readers.values import choose, describe

FORMAT = "lm-eval"

_START = re.compile(rb'\s*\[?\s*\{\s*"doc_id"\s*:')


def claims(path: Path, head: bytes) -> bool:
    """A JSON or JSONL file whose first record begins with doc_id, as every version writes it."""
    if path.suffix not in (".jsonl", ".json") or path.is_dir():
        return False
    head = head.removeprefix(b"\xef\xbb\xbf")
    return bool(_START.match(head)) and (b'"doc"' in head or b'"arguments"' in head)


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one log.

    Raises:
        InputError: Model, task, filter or metric cannot be told, the metric is no score or
            better when lower, or a record is broken.
    """
    if path.is_dir():
        raise InputError("expected a file of samples, found a folder", file=path)
    facts = log_facts(path, builder)
    log = _Log(path, builder, facts)
    for number, record in records(path):
        log.add(number, record)
    log.finish()


class _Log:
    """One log on its way into the builder."""

    def __init__(self, path: Path, builder: StudyBuilder, facts: LogFacts) -> None:
        self.path, self.builder, self.facts = path, builder, facts
        self.name = builder.name(path)
        self.benchmark = builder.options.benchmark or facts.task
        self.run = builder.run(facts.model, path, **facts.run)
        self.filter: str | None = None
        self.key: str | None = None
        self.turns: Counter[str] = Counter()
        self.text: Callable[[Record, int], str | None] | None = None
        self.n = self.n_kept = 0
        self.others: list[str] = []

    def add(self, number: int, record: Any) -> None:
        if not isinstance(record, dict):
            raise InputError(
                f"expected an object, found {describe(record)}", file=self.path, record=number
            )
        self.n += 1
        doc_id = record.get("doc_id")
        if doc_id is None or isinstance(doc_id, (dict, list, float, bool)):
            raise InputError(
                f"expected a number or text, found {describe(doc_id)}",
                file=self.path,
                record=number,
                field="doc_id",
            )
        source_id = str(doc_id)
        if not self.takes(record, source_id, number):
            return
        if self.key is None:
            self.start(record, number)
        assert self.key is not None
        assert self.text is not None
        if self.key not in record:
            self.builder.report.drop(
                f"{self.benchmark}: no {self.key} in the record", self.name, number
            )
            return
        target = record.get("target")
        item = self.builder.item(
            self.benchmark,
            source_id,
            file=self.path,
            record=number,
            text=self.text(record, number),
            subject=_subject(record.get("doc")),
            reference=target if isinstance(target, str) else _as_text(target),
            doc_hash=digest if isinstance(digest := record.get("doc_hash"), str) else None,
        )
        self.n_kept += 1
        self.builder.respond(
            self.run, item, record[self.key], file=self.path, record=number, field=self.key
        )

    def takes(self, record: Record, source_id: str, number: int) -> bool:
        """Whether the record is of the filter that counts."""
        name = record.get("filter")
        if name is None and len(self.facts.filters) > 1:
            # 0.4.0 to 0.4.6 repeat the doc for each filter, in order, without its name.
            turn = self.turns[source_id]
            self.turns[source_id] += 1
            name = self.facts.filters[turn] if turn < len(self.facts.filters) else None
        if not isinstance(name, str):
            return True
        wanted = self.builder.options.filter
        if wanted is not None and name != "none" and choose(wanted, [name]) is None:
            if name not in self.others:
                self.others.append(name)
            self.builder.report.drop(f"{self.benchmark}: filter {name!r}", self.name, number)
            return False
        if self.filter is None:
            self.filter = name
        elif name != self.filter:
            found = self.all_filters()
            raise InputError(
                f"has the filters {', '.join(found)}",
                file=self.path,
                record=number,
                field="filter",
                fix=f"choose one with --filter, e.g. --filter {found[0]}",
            )
        return True

    def all_filters(self) -> list[str]:
        if self.facts.filters:
            return list(self.facts.filters)
        names = (r.get("filter") for _, r in records(self.path) if isinstance(r, dict))
        return list(dict.fromkeys(n for n in names if isinstance(n, str)))

    def start(self, record: Record, number: int) -> None:
        """Decides metric and text by the first record that counts."""
        self.key = metric_key(record, self.path, number, self.builder)
        plain, _, own_filter = self.key.partition(",")
        if self.facts.higher_is_better.get(plain, True) is False:
            raise InputError(
                f"lower is better for {plain!r} of {self.facts.task}: a score must grow with"
                " the answer's quality",
                file=self.path,
                fix="choose another with --metric",
            )
        chosen = f"metric {plain}"
        name = self.filter or own_filter
        if name and name != "none":
            chosen += f", filter {name}"
        self.builder.rule("score", self.benchmark, chosen)
        resps = record.get("resps")
        if isinstance(resps, list) and resps and isinstance(resps[0], list) and len(resps[0]) > 1:
            self.builder.report.note(
                f"{self.benchmark}: {len(resps[0])} repeats a doc, of which the log keeps only"
                " the metric of the filtered answer: one trial each"
            )
        self.text = self.text_maker(record)

    def text_maker(self, record: Record) -> Callable[[Record, int], str | None]:
        field, where = self.builder.options.text_field, self.path
        if field is not None:
            self.builder.rule("text", self.benchmark, f"the field {field!r}")
            return lambda r, n: field_text(
                {**r, **(doc if isinstance(doc := r.get("doc"), dict) else {})},
                field,
                file=where,
                record_name=n,
            )
        known = doc_text(record.get("doc"))
        if known is not None:
            self.builder.rule("text", self.benchmark, known[1])
            return lambda r, n: (doc_text(r.get("doc")) or (None,))[0]
        if prompt(record) is None:
            return lambda r, n: None
        cut = shared_start(self.path)
        self.builder.rule(
            "text",
            self.benchmark,
            "the prompt" + (f" without the first {cut:,} characters, common to all" if cut else ""),
        )

        def rest(r: Record, _: int) -> str | None:
            text = prompt(r)
            return None if text is None else with_options(text[cut:].strip(), endings(r))

        return rest

    def finish(self) -> None:
        builder = self.builder
        builder.report.read += self.n
        builder.source(self.path, FORMAT)
        if self.facts.results is not None:
            builder.source(self.facts.results, FORMAT)
        if not self.n:
            raise InputError("has no records", file=self.path)
        if self.key is None and self.others:
            raise InputError(
                f"has no filter {builder.options.filter!r}; there are {', '.join(self.others)}",
                file=self.path,
                field="filter",
            )


def _subject(doc: Any) -> str | None:
    if isinstance(doc, Mapping):
        for name in ("subject", "category"):
            if isinstance(doc.get(name), str) and doc[name]:
                return doc[name]
    return None


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)

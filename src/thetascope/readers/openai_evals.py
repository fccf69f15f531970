"""Logs of OpenAI's evals (`oaieval`): JSON lines, a spec, then events, and a final report.

A log is one run of one model on one eval. An answer is graded by an event of its sample:
`match` (its `correct`), or `metrics` (any of its numbers). A sample may have several such
events, which are repeats, or none. Only grades and one prompt a sample are held.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.records import (
    Record,
    as_object,
    identifier,
    name,
    objects,
    optional_name,
    outline,
)
from thetascope.readers.texts import common_start, field_text
from thetascope.readers.values import choose, listing, mapping, parse_score

FORMAT = "openai-evals"

_MATCH = "match"


def claims(path: Path, head: bytes) -> bool:
    """JSON lines whose first record is an object `spec`."""
    if path.suffix not in (".jsonl", ".json"):
        return False
    found = outline(head)
    spec = found.kinds.get("spec") == "{"
    return found.frame == "{" and spec and b'"eval_name"' in head


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one log.

    Raises:
        InputError: The spec is missing, several metrics could be meant, or a grade is none.
    """
    log: _Log | None = None
    for number, record in objects(path):
        if log is None:
            if "spec" not in record:
                raise InputError("expected the spec of a run", file=path, record=number)
            spec = as_object(record["spec"], file=path, record=number, field="spec")
            log = _Log(path, builder, spec, number)
        elif "spec" in record:
            raise InputError(
                "has a second spec: two logs in one file", file=path, record=number, fix="split it"
            )
        elif "type" in record:
            log.add(number, record)
    if log is not None:
        log.finish()


class _Log:
    """One log on its way into the builder."""

    def __init__(self, path: Path, builder: StudyBuilder, spec: Record, number: int) -> None:
        self.path, self.builder = path, builder
        self.name = builder.name(path)
        eval_name = name(spec, "eval_name", file=path, number=number)
        self.benchmark = builder.options.benchmark or eval_name
        self.run = builder.run(
            self.model(spec),
            path,
            date=optional_name(spec.get("created_at")),
            harness="openai-evals",
        )
        self.seen: dict[str, int] = {}
        self.prompts: dict[str, str] = {}
        self.whole = self.plain = False
        self.cut: int | None = None
        self.references: dict[str, str] = {}
        self.grades: dict[str, list[tuple[int, str, Any]]] = {}

    def model(self, spec: Record) -> str:
        """The model under test: the first of the functions; others grade."""
        given = [f for f in listing(spec.get("completion_fns")) if optional_name(f)]
        model = given[0] if given else optional_name(spec.get("model_name"))
        if self.builder.options.model:
            return self.builder.options.model
        if model is None:
            raise InputError(
                "names no model",
                file=self.path,
                field="spec.completion_fns",
                fix="name it with --model",
            )
        if len(given) > 1:
            self.builder.report.note(
                f"{self.name}: of the completion functions {', '.join(map(str, given))} the"
                " first is the model"
            )
        return model

    def add(self, number: int, event: Record) -> None:
        kind, data = event["type"], mapping(event.get("data"))
        graded = kind in (_MATCH, "metrics")
        if not graded and optional_name(event.get("sample_id")) is None:
            return  # an event of the whole run
        sample = identifier(event, "sample_id", file=self.path, number=number)
        self.seen.setdefault(sample, number)
        if kind == "sampling" and sample not in self.prompts:
            self.prompt(sample, event, number)
        if kind == _MATCH:
            if "correct" not in data:
                raise InputError("is missing", file=self.path, record=number, field="data.correct")
            self.grades.setdefault(_MATCH, []).append((number, sample, data["correct"]))
            expected = data.get("expected")
            shown = expected if isinstance(expected, list) else [expected]
            words = [str(e) for e in shown if isinstance(e, (str, int, float))]
            if words:
                self.references.setdefault(sample, " | ".join(words))
        elif kind == "metrics":
            for key, value in data.items():
                self.grades.setdefault(key, []).append((number, sample, value))

    def prompt(self, sample: str, event: Record, number: int) -> None:
        option = self.builder.options.text_field
        if option is not None:
            self.prompts[sample] = field_text(event, option, file=self.path, record_name=number)
            return
        said = mapping(event.get("data")).get("prompt")
        if isinstance(said, list):  # a chat
            text = _last_user_message(said)
            if text is not None:
                self.prompts[sample], self.whole = text, True
        elif isinstance(said, str) and said.strip():
            # Only what is no instruction or example is held: prompts may be most of the log.
            if self.cut is None:
                self.cut = _shared_start(self.path)
            self.prompts[sample], self.plain = said[self.cut :].strip(), True

    def finish(self) -> None:
        report = self.builder.report
        metric = self.metric()
        grades = self.grades[metric] if metric else []
        graded = {sample for _, sample, _ in grades}
        report.read += len(grades)
        for sample, number in self.seen.items():
            if sample not in graded:
                report.read += 1
                report.drop(
                    f"{self.benchmark}: sample without a grade"
                    + (f" ({metric})" if metric else ""),
                    self.name,
                    number,
                )
        texts = self.texts()
        if metric:
            what = "match: correct" if metric == _MATCH else f"metric {metric}"
            self.builder.rule("score", self.benchmark, what)
        field = "data.correct" if metric == _MATCH else f"data.{metric}"
        for number, sample, value in grades:
            item = self.builder.item(
                self.benchmark,
                sample,
                file=self.path,
                record=number,
                text=texts.get(sample),
                reference=self.references.get(sample),
            )
            self.builder.respond(self.run, item, value, file=self.path, record=number, field=field)
        self.builder.source(self.path, FORMAT)

    def metric(self) -> str | None:
        option, names = self.builder.options.metric, list(self.grades)
        if option is not None and names:
            chosen = choose(option, names)
            if chosen is None:
                raise InputError(
                    f"has no metric {option!r}; there are {', '.join(names)}", file=self.path
                )
            return chosen
        usable = [n for n in names if all(_is_number(v) for _, _, v in self.grades[n])]
        if len(usable) > 1:
            raise InputError(
                f"has the metrics {', '.join(usable)}",
                file=self.path,
                fix=f"choose one with --metric, e.g. --metric {usable[0]}",
            )
        # A lone metric that is no number fails where its first value stands.
        return usable[0] if usable else next(iter(names), None)

    def texts(self) -> dict[str, str]:
        """Text by sample: what was asked, without the lines that all prompts begin with."""
        option = self.builder.options.text_field
        if option is not None:
            self.builder.rule("text", self.benchmark, f"the field {option!r}")
            return self.prompts
        if self.whole:
            self.builder.rule("text", self.benchmark, "the last user message")
        if self.plain:
            without = (
                f" without the first {self.cut:,} characters, common to all" if self.cut else ""
            )
            self.builder.rule("text", self.benchmark, "the prompt" + without)
        return self.prompts


def _shared_start(path: Path) -> int:
    """How many characters of whole lines all plain prompts of the log begin with."""
    seen: set[str] = set()

    def prompts() -> Iterator[str]:
        for _, event in objects(path):
            said = mapping(event.get("data")).get("prompt")
            sample = str(event.get("sample_id"))
            if event.get("type") != "sampling" or sample in seen:
                continue
            if isinstance(said, list) and _last_user_message(said) is not None:
                seen.add(sample)
            elif isinstance(said, str) and said.strip():
                seen.add(sample)
                yield said

    return common_start(prompts())


def _is_number(value: Any) -> bool:
    try:
        parse_score(value, file=Path(), record=0, field="", scale=float("inf"))
    except InputError:
        return False
    return True


def _last_user_message(messages: list[Any]) -> str | None:
    """What the user said last; some evals ask in a system message, then the last of all."""
    said = [m for m in messages if isinstance(m, dict) and optional_name(m.get("content"))]
    users = [m for m in said if m.get("role") == "user"]
    return (users or said or [{}])[-1].get("content")

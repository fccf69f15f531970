"""Logs of Inspect (`inspect_ai`): `.eval` archives and `.json` logs, of every schema version.

A log is one run of one model on one task. Samples are read one at a time. A sample may be
attempted in several epochs: where the log itself averages them (reducer `mean`, Inspect's
default) the score is their mean with as many trials, because that is the number that the log
reports; under another reducer, or if the user names what counts where a pair has several
responses, every epoch is a response of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.inspect_attempts import Attempts
from thetascope.readers.inspect_scores import ScorerChoice, grade
from thetascope.readers.inspect_zip import EvalArchive
from thetascope.readers.json_stream import iter_pieces
from thetascope.readers.texts import field_text, with_options
from thetascope.readers.values import count, describe, loads, mapping

FORMAT = "inspect"

_JSON_START = re.compile(rb'\s*\{\s*"(version|status|eval)"\s*:')
_TASK = re.compile(rb'"eval"\s*:\s*\{')


def claims(path: Path, head: bytes) -> bool:
    """A zip named `.eval`, or a JSON object that begins with version, status and eval."""
    if path.suffix == ".eval":
        return head.startswith(b"PK")
    head = head.removeprefix(b"\xef\xbb\xbf")
    return path.suffix == ".json" and bool(_JSON_START.match(head) and _TASK.search(head))


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads one log.

    Raises:
        InputError: The log is damaged, several scorers could be meant, or a score is none.
    """
    if path.is_dir():
        raise InputError("expected an .eval or .json log, found a folder", file=path)
    if path.suffix == ".eval":
        with EvalArchive(path) as archive:
            log = _Log(path, builder, _archive_header(archive))
            log.read += archive.n_replaced
            builder.report.drop(
                "sample logged again later", log.name, "directory", archive.n_replaced
            )
            for name, data in archive.samples():
                log.add(loads(data, file=path, record=name), name)
    else:
        log = _read_json(path, builder)
    log.finish()


def _read_json(path: Path, builder: StudyBuilder) -> _Log:
    """Reads a JSON log in one pass, its header standing before the samples as Inspect writes it."""
    header: dict[str, Any] = {}
    log: _Log | None = None
    for key, number, value in iter_pieces(path, ("samples", "reductions")):
        if number is None:
            header[key] = value
        elif not key:
            raise InputError("expected an object, found a list", file=path)
        elif key == "samples":
            if log is None:
                log = _Log(path, builder, header if "eval" in header else _json_header(path))
            log.add(value, f"samples {number}")
    return log or _Log(path, builder, header)


def _archive_header(archive: EvalArchive) -> Mapping[str, Any]:
    """The header; a log that is still written (or was killed) has only its start."""
    for name in ("header.json", "_journal/start.json"):
        data = archive.read(name)
        if data is not None:
            header = loads(data, file=archive.path, record=name)
            if not isinstance(header, dict):
                raise InputError("expected an object", file=archive.path, record=name)
            return header if name == "header.json" else {**header, "status": "started"}
    raise InputError("has neither header.json nor _journal/start.json", file=archive.path)


def _json_header(path: Path) -> Mapping[str, Any]:
    """The members of a JSON log but its samples."""
    pieces = iter_pieces(path, ("samples", "reductions"))
    return {piece.key: piece.value for piece in pieces if piece.number is None}


class _Log:
    """One log on its way into the builder."""

    def __init__(self, path: Path, builder: StudyBuilder, header: Mapping[str, Any]) -> None:
        self.path, self.builder, self.header = path, builder, header
        self.name = builder.name(path)
        facts = header.get("eval")
        if not isinstance(facts, dict):
            raise InputError("expected an object", file=path, field="eval")
        task, model = facts.get("task"), facts.get("model")
        for field, value in (("task", task), ("model", model)):
            if not isinstance(value, str) or not value:
                raise InputError("expected a name", file=path, field=f"eval.{field}")
        self.model = str(model)
        self.benchmark = builder.options.benchmark or str(task)
        self.config = mapping(facts.get("config"))
        self.run = builder.run(
            self.model,
            path,
            date=_name(facts.get("created")),
            harness="inspect",
            harness_version=_name(mapping(facts.get("packages")).get("inspect_ai")),
        )
        self.scorer = ScorerChoice(builder.options.metric, path)
        self.attempts = Attempts()
        self.read = self.n_limited = 0

    def add(self, sample: Any, record: str) -> None:
        if not isinstance(sample, dict) or not isinstance(sample.get("id"), (str, int)):
            raise InputError("expected a sample with an id", file=self.path, record=record)
        self.read += 1
        epoch = sample.get("epoch", 1)
        if not isinstance(epoch, int):
            raise InputError(
                f"expected a whole number, found {describe(epoch)}",
                file=self.path,
                record=record,
                field="epoch",
            )
        reason = _unusable(sample)
        if reason is not None:
            self.builder.report.drop(reason, self.name, record)
            return
        value = self.scorer.value(_scores(sample), record)
        field = f"scores.{self.scorer.chosen}"
        score = grade(
            value,
            file=self.path,
            record=record,
            field=field,
            scale=self.builder.options.scale,
        )
        if score is None:
            self.builder.report.drop("no score (null or NaN)", self.name, record)
            return
        self.n_limited += sample.get("limit") is not None
        item = self.item(sample, record)
        if not self.attempts.add(item, epoch, score, *_tokens(sample, self.model)):
            self.builder.report.drop("sample logged again later", self.name, record)

    def item(self, sample: Mapping[str, Any], record: str) -> int:
        metadata = mapping(sample.get("metadata"))
        option = self.builder.options.text_field
        if option is not None:
            rule = f"the field {option!r}"
            text = field_text({**sample, **metadata}, option, file=self.path, record_name=record)
        else:
            rule = "the last user message and the choices"
            text = _text(sample)
        self.builder.rule("text", self.benchmark, rule)
        subject = metadata.get("subject", metadata.get("category"))
        return self.builder.item(
            self.benchmark,
            str(sample["id"]),
            file=self.path,
            record=record,
            text=text,
            subject=subject if isinstance(subject, str) else None,
            reference=_reference(sample.get("target")),
        )

    def finish(self) -> None:
        report = self.builder.report
        report.read += self.read
        self.builder.source(self.path, FORMAT)
        if not self.read:
            report.note(f"{self.name}: the log holds no samples")
        status = self.header.get("status")
        if status != "success":
            report.note(f"{self.name}: status {status!r}: only its scored samples are read")
        if self.header.get("invalidated"):
            report.note(f"{self.name}: marked as invalidated: its invalidated samples are dropped")
        if self.n_limited:
            report.note(f"{self.name}: {self.n_limited:,} samples hit a limit, scored as they are")
        if self.scorer.chosen is not None:
            self.builder.rule("score", self.benchmark, f"scorer {self.scorer.chosen}")
        self.respond(self.averages())

    def averages(self) -> bool:
        """Whether epochs are averaged (see the module); notes what is done."""
        n = self.attempts.most_epochs()
        if n < 2:
            return False
        reducers = self.config.get("epochs_reducer") or ["mean"]
        names = reducers if isinstance(reducers, list) else [reducers]
        mean = names[0] == "mean" and self.builder.options.on_duplicate in ("error", "mean")
        how = (
            "averaged as the log does: score = mean, trials = epochs"
            if mean
            else f"each a response of its own (the log's reducer: {', '.join(map(str, names))})"
        )
        self.builder.report.note(f"{self.name}: up to {n} epochs a sample, {how}")
        return mean

    def respond(self, average: bool) -> None:
        for item, attempts in self.attempts.by_item():
            for group in [attempts] if average else [[a] for a in attempts]:
                self.builder.respond(
                    self.run,
                    item,
                    # Each score is in [0, 1] already; the scale was applied.
                    sum(a.score for a in group) / len(group) * self.builder.options.scale,
                    file=self.path,
                    record=group[0].epoch,
                    trials=len(group),
                    n_tokens_in=_mean([a.n_tokens_in for a in group]),
                    n_tokens_out=_mean([a.n_tokens_out for a in group]),
                )


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _unusable(sample: Mapping[str, Any]) -> str | None:
    """Why a sample counts for nothing, None if it counts."""
    if sample.get("invalidation"):
        return "sample marked as invalid"
    if sample.get("error"):
        return "sample ended in an error"
    return None if _scores(sample) else "sample not scored"


def _scores(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    scores = sample.get("scores")
    if isinstance(scores, dict):
        return scores
    single = sample.get("score")  # the first schema version had one scorer
    return {"score": single} if single is not None else {}


def _text(sample: Mapping[str, Any]) -> str | None:
    said = sample.get("input")
    if isinstance(said, list):
        users = [m for m in said if isinstance(m, dict) and m.get("role") == "user"]
        said = _content(users[-1].get("content"), sample) if users else None
    if not isinstance(said, str):
        return None
    choices = sample.get("choices")
    options = [_attached(str(c), sample) for c in choices] if isinstance(choices, list) else []
    return with_options(_attached(said, sample), options)


def _content(content: Any, sample: Mapping[str, Any]) -> str | None:
    """A message's text; of a list of parts, those that are text."""
    if isinstance(content, list):
        parts = [p.get("text") for p in content if isinstance(p, dict) and p.get("type") == "text"]
        return "\n".join(_attached(p, sample) for p in parts if isinstance(p, str)) or None
    return content if isinstance(content, str) else None


def _attached(text: str, sample: Mapping[str, Any]) -> str:
    """Long texts stand aside as attachments, with 'attachment://hash' in their place."""
    for scheme in ("attachment://", "tc://"):
        if text.startswith(scheme):
            found = mapping(sample.get("attachments")).get(text.removeprefix(scheme))
            return found if isinstance(found, str) else text
    return text


def _reference(target: Any) -> str | None:
    if isinstance(target, list):
        return " | ".join(map(str, target)) if target else None
    return str(target) if target not in (None, "") else None


def _tokens(sample: Mapping[str, Any], model: str) -> tuple[int | None, int | None]:
    """Tokens of the model under test; other models in the sample (graders) do not count."""
    usage = mapping(mapping(sample.get("model_usage")).get(model))
    return count(usage.get("input_tokens")), count(usage.get("output_tokens"))


def _mean(values: list[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return round(sum(known) / len(known)) if known else None

"""EvalPlus: `..._eval_results.json` and EvalPerf's `..._evalperf_results.brief.json`.

One object with `eval`: by task either a list of samples, each with `base_status` and
`plus_status`, or (EvalPerf) an object with pass@1 in percent over `config.n_samples` samples.
Tasks are streamed: they carry every solution.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.json_stream import iter_entries
from thetascope.readers.records import Record, as_object, needs_model, outline
from thetascope.readers.values import choose, clean_text, count, describe, mapping

FORMAT = "evalplus"

_KINDS = ("base", "plus")
_GRADES = {"pass": 1.0, "fail": 0.0, "timeout": 0.0}
_PERCENT = 100.0
_NAME = re.compile(r"(?P<model>.+)_(?:vllm|hf|openai|anthropic|google|bedrock|ollama)_temp_")


def claims(path: Path, head: bytes) -> bool:
    """An object with a date and `eval`, which has statuses or pass@1."""
    kinds = outline(head).kinds
    marks = b'"base_status"' in head or b'"pass@1"' in head
    return path.suffix == ".json" and kinds.get("eval") == "{" and "date" in kinds and marks


def read(path: Path, builder: StudyBuilder) -> None:
    """Reads the results of one model.

    Raises:
        InputError: The model cannot be told, base or plus is not chosen, or a task is broken.
    """
    if path.is_dir():
        raise InputError("expected a file, found a folder", file=path)
    run = builder.run(_model(path, builder), path, harness="evalplus")
    trials: int | None = None
    found = False
    for task, value in iter_entries(path, "eval"):
        found = True
        place = clean_text(task)
        if isinstance(value, list):
            _samples(place, value, run, path, builder)
            continue
        if trials is None:
            settings = mapping(dict(iter_entries(path, "config")))
            trials = count(settings.get("n_samples")) or 1
        _share(place, as_object(value, file=path, record=place), run, trials, path, builder)
    if not found:
        raise InputError("has no tasks", file=path, field="eval")
    builder.source(path, FORMAT)


def _model(path: Path, builder: StudyBuilder) -> str:
    match = _NAME.match(path.name)
    if builder.options.model is None and match:
        builder.report.note(f"{builder.name(path)}: the model is from the file's name")
        return clean_text(match["model"].replace("--", "/"))
    return needs_model(builder, path, "the file's name is not MODEL_BACKEND_temp_...")


def _samples(task: str, samples: list[Any], run: int, path: Path, builder: StudyBuilder) -> None:
    """Every sample of a task is a response of its own."""
    kind = choose(builder.options.metric, _KINDS)
    if kind is None:
        raise InputError(
            "has the metrics base, plus",
            file=path,
            record=task,
            fix="choose one with --metric, e.g. --metric plus",
        )
    field = f"{kind}_status"
    suite = task.partition("/")[0] + ("+" if kind == "plus" else "")
    benchmark = builder.options.benchmark or suite
    builder.rule("score", benchmark, f"1 where {field} is pass")
    item = builder.item(benchmark, task, file=path, record=task)
    if not samples:
        builder.report.read += 1
        builder.report.drop("task without samples", builder.name(path), task)
    for sample in samples:
        builder.report.read += 1
        status = as_object(sample, file=path, record=task).get(field)
        if status is not None and (not isinstance(status, str) or status not in _GRADES):
            found = repr(status[:40]) if isinstance(status, str) else describe(status)
            raise InputError(
                f"expected pass, fail or timeout, found {found}",
                file=path,
                record=task,
                field=field,
            )
        score = None if status is None else _GRADES[status]
        builder.respond(run, item, score, file=path, record=task, field=field, one=1.0)


def _share(
    task: str, entry: Record, run: int, trials: int, path: Path, builder: StudyBuilder
) -> None:
    builder.report.read += 1
    metric = (
        "pass@1" if builder.options.metric is None else choose(builder.options.metric, list(entry))
    )
    if metric is None or metric not in entry:
        raise InputError(
            f"has no metric {builder.options.metric or 'pass@1'!r}; there are"
            f" {', '.join(entry) or 'none'}",
            file=path,
            record=task,
        )
    benchmark = builder.options.benchmark or "evalperf"
    builder.rule("score", benchmark, f"{metric} in percent, divided by 100")
    item = builder.item(benchmark, task, file=path, record=task)
    builder.respond(
        run,
        item,
        entry[metric],
        file=path,
        record=task,
        field=metric,
        one=_PERCENT,
        trials=min(trials, 1_000_000),
    )

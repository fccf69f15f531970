"""What a per-sample log of lm-evaluation-harness leaves to its results file and its names.

The records carry neither the model nor the task. Both stand in `results_{date}.json`
(0.4.3 and newer) or `results.json` (older) in the same folder, and in the names
`{model}/samples_{task}_{date}.jsonl` or `{model arguments}_{task}.jsonl`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.values import count, listing, mapping, read_json_file

_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl?$")
_MODEL_KEYS = ("pretrained", "model", "engine", "path")


@dataclass(frozen=True)
class LogFacts:
    """What is known of one log.

    Attributes:
        model: The model's name.
        task: The task, the study's benchmark.
        run: Facts of the run: harness, harness_version, shots, date.
        higher_is_better: By metric, where the results file says it.
        filters: Names of the task's filters in order, where the results file says them.
        results: The results file, None where there is none.
    """

    model: str
    task: str
    run: Mapping[str, Any]
    higher_is_better: Mapping[str, Any] = field(default_factory=dict[str, Any])
    filters: tuple[str, ...] = ()
    results: Path | None = None


def log_facts(path: Path, builder: StudyBuilder) -> LogFacts:
    """Finds model, task and the facts of the run for the log `path`.

    Raises:
        InputError: The model or the task cannot be told, or the results file is broken.
    """
    options = builder.options
    match = _SAMPLES.match(path.name)
    task, date = (match["task"], match["date"]) if match else (None, None)
    results_path, results = _results_beside(path, task, date)
    if task is None:
        task = _task_of(path.stem, results, options.benchmark)
    if task is None:
        raise InputError(
            "cannot tell the task from the file's name",
            file=path,
            fix="name it with --benchmark, and the model with --model",
        )
    model = options.model or model_of(results)
    if not model:
        model = _model_by_name(path, task, match is not None)
        builder.report.note(
            f"model {model!r} is named after its {'folder' if match else 'file'}: no results"
            " file beside it names it"
        )
    config = mapping(results.get("configs")).get(task)
    filters = [
        f.get("name")
        for f in listing(mapping(config).get("filter_list"))
        if isinstance(f, Mapping) and isinstance(f.get("name"), str)
    ]
    return LogFacts(
        model=model,
        task=task,
        run=_run_facts(results, task, date),
        higher_is_better=mapping(mapping(results.get("higher_is_better")).get(task)),
        filters=tuple(str(f) for f in filters),
        results=results_path,
    )


def _results_beside(
    path: Path, task: str | None, date: str | None
) -> tuple[Path | None, Mapping[str, Any]]:
    """The results file of the same date, else the newest in the folder that has the task."""
    same = path.with_name(f"results_{date}.json")
    if date is not None and same.is_file():
        return same, mapping(read_json_file(same))
    for other in sorted(path.parent.glob("results*.json"), reverse=True):
        if not other.is_file():  # a pipe would never end
            continue
        results = mapping(read_json_file(other))
        configs = mapping(results.get("configs")) or mapping(results.get("results"))
        if task in configs or (task is None and _task_of(path.stem, results, None)):
            return other, results
    return None, {}


def _task_of(stem: str, results: Mapping[str, Any], given: str | None) -> str | None:
    """The longest known task that `{model arguments}_{task}` ends with."""
    known = [*mapping(results.get("configs")), *mapping(results.get("results"))]
    found = [t for t in known if stem == t or stem.endswith(f"_{t}")]
    return max(found, key=len) if found else given


def model_of(results: Mapping[str, Any]) -> str | None:
    """The model's name, with the revision where one was asked for: it is another model."""
    config = mapping(results.get("config"))
    arguments = config.get("model_args")
    if isinstance(arguments, str):
        pairs = (part.partition("=") for part in arguments.split(","))
        arguments = {key.strip(): value for key, _, value in pairs}
    arguments = mapping(arguments)
    name = results.get("model_name") or next(
        (arguments[k] for k in _MODEL_KEYS if arguments.get(k)), None
    )
    if not isinstance(name, str):
        return None
    parts = [str(arguments[k]) for k in ("revision", "peft", "delta") if arguments.get(k)]
    return "@".join([name, *(p for p in parts if p != "main")])


def _model_by_name(path: Path, task: str, in_folder: bool) -> str:
    if in_folder:
        name = path.resolve().parent.name
    else:
        arguments = path.stem.removesuffix(task).rstrip("_")
        name = arguments.split(",")[0]
        for key in _MODEL_KEYS:
            name = name.removeprefix(f"{key}__")
    if not name:
        raise InputError("cannot tell the model from the file's name", file=path, fix="use --model")
    # The harness writes '/' as '__'; with several it is anyone's guess.
    return name.replace("__", "/") if name.count("__") == 1 else name


def _run_facts(results: Mapping[str, Any], task: str, date: str | None) -> dict[str, Any]:
    shots = mapping(results.get("n-shot")).get(task)
    if shots is None:
        shots = mapping(mapping(results.get("configs")).get(task)).get("num_fewshot")
    seconds = results.get("date")
    if isinstance(seconds, float) and 0 < seconds < 1e11:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        date = moment.isoformat(timespec="seconds")
    version = results.get("lm_eval_version") or results.get("git_hash")
    return {
        "harness": "lm-evaluation-harness",
        "harness_version": version if isinstance(version, str) else None,
        "shots": count(shots),
        "date": date,
    }

"""Logs of lm-evaluation-harness: results_{date}.json beside samples_{task}_{date}.jsonl."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from thetascope.study import Study
from thetascope.writers.logs import (
    NO_DATE,
    Log,
    logs,
    mean,
    n_undated,
    unique_names,
    write_json,
)
from thetascope.writers.losses import counted, empty_texts, log_losses

_HARNESS = "lm-evaluation-harness"
_WHOLE = re.compile(r"(?:0|-?[1-9][0-9]{0,14})\Z")
"""Ids that are the same text again after a turn as a number: not '007', not '-0'."""


def write(study: Study, folder: Path) -> None:
    """Writes a folder for every run, with one results file and a log for every benchmark."""
    tasks = unique_names(study.benchmarks)
    of_run: list[Log] = []
    for log in logs(study):
        if of_run and of_run[0].folder != log.folder:
            _write_results(folder, of_run, tasks)
            of_run = []
        _write_samples(folder, log, tasks[log.benchmark])
        of_run.append(log)
    _write_results(folder, of_run, tasks)


def left_out(study: Study) -> list[str]:
    """What the logs do not hold."""
    runs = ["date", "shots"]
    lost = log_losses(study, ["subject", "text", "reference", "doc_hash"], runs, harness=_HARNESS)
    lost += empty_texts(study, "subject")
    items = study.items
    if "text" in items.columns:
        blank = items["text"].str.strip_chars() == ""
        lost += counted("text of white space", int(blank.sum()), "items")
    renamed = {b: t for b, t in unique_names(study.benchmarks).items() if b != t}
    first = next((f", first {b!r} as {t!r}" for b, t in renamed.items()), "")
    lost += counted("the name", len(renamed), f"benchmarks in the files' names{first}")
    odd = sum(_WHOLE.match(i) is None for i in items["source_id"])
    lost += counted("doc_id as a number", odd, "items with other ids, written as text")
    lost += counted("the date", n_undated(study), "runs without one in ISO, written as 1970")
    return lost


def _write_samples(folder: Path, log: Log, task: str) -> None:
    place = folder / log.folder
    place.mkdir(exist_ok=True)
    with (place / f"samples_{task}_{_stamp(log)}.jsonl").open("wb") as file:
        for sample in log.samples:
            line = json.dumps(_record(log, sample), ensure_ascii=False, allow_nan=False)
            file.write(line.encode() + b"\n")


def _record(log: Log, sample: dict[str, Any]) -> dict[str, Any]:
    source_id: str = sample["source_id"]
    doc = {"question": sample["text"], "subject": sample.get("subject")}
    record: dict[str, Any] = {
        "doc_id": int(source_id) if _WHOLE.match(source_id) else source_id,
        "doc": {k: v for k, v in doc.items() if v is not None},
        "target": sample.get("reference"),
        "arguments": {},
        "resps": [],
        "filtered_resps": [],
        "filter": "none",
        "metrics": ["score"],
    }
    if isinstance(sample.get("doc_hash"), str):
        record["doc_hash"] = sample["doc_hash"]
    # The run's id keeps two runs apart whose scores are the same.
    return {**record, "run_id": log.run["run_id"], "score": sample["score"]}


def _write_results(folder: Path, run_logs: list[Log], tasks: dict[str, str]) -> None:
    run, stamp = run_logs[0].run, _stamp(run_logs[0])
    by_task = {tasks[log.benchmark]: log for log in run_logs}
    shots = run.get("shots")
    results: dict[str, Any] = {
        "results": {t: {"alias": t, "score,none": mean(log.samples)} for t, log in by_task.items()},
        "configs": {t: {"task": t} for t in by_task},
        "n-shot": {} if shots is None else dict.fromkeys(by_task, shots),
        "higher_is_better": {t: {"score": True} for t in by_task},
        "n-samples": {
            t: {"original": len(log.samples), "effective": len(log.samples)}
            for t, log in by_task.items()
        },
        "config": {"model": run["model"], "model_args": ""},
        "model_source": "thetascope",
        "model_name": run["model"],
    }
    if run_logs[0].date != NO_DATE:
        results["date"] = run_logs[0].date.timestamp()
    if run.get("harness") == _HARNESS and run.get("harness_version"):
        results["lm_eval_version"] = run["harness_version"]
    write_json(folder / run_logs[0].folder / f"results_{stamp}.json", results)


def _stamp(log: Log) -> str:
    return log.date.isoformat()[:19].replace(":", "-")

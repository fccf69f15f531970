"""Logs of Inspect: JSON of schema version 2, one for every run and benchmark."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from thetascope.study import Study
from thetascope.writers.logs import Log, logs, mean, n_undated, unique_names, write_json
from thetascope.writers.losses import counted, empty_texts, log_losses

_SCORER = "score"
_TOKENS = {"input_tokens": "n_tokens_in", "output_tokens": "n_tokens_out"}


def write(study: Study, folder: Path) -> None:
    """Writes a folder for every run, with a log for every benchmark."""
    tasks = unique_names(study.benchmarks)
    for log in logs(study):
        place = folder / log.folder
        place.mkdir(exist_ok=True)
        stamp = log.date.isoformat()[:19].replace(":", "-")
        write_json(place / f"{stamp}_{tasks[log.benchmark]}.json", _log(log))


def left_out(study: Study) -> list[str]:
    """What the logs do not hold."""
    lost = log_losses(
        study,
        ["subject", "text", "reference"],
        ["date"],
        ["n_tokens_in", "n_tokens_out"],
        harness="inspect",
    )
    lost += empty_texts(study, "reference")
    lost += counted("the date", n_undated(study), "runs without one in ISO, written as 1970")
    return lost


def _log(log: Log) -> dict[str, Any]:
    run, n = log.run, len(log.samples)
    moment = log.date.isoformat(timespec="seconds")
    key = hashlib.sha256(f"{run['run_id']}\n{log.benchmark}".encode()).hexdigest()
    version = run.get("harness_version") if run.get("harness") == "inspect" else None
    value = mean(log.samples)
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": key[:22],
            "run_id": run["run_id"],
            "created": moment,
            "task": log.benchmark,
            "task_id": key[22:44],
            "task_version": 0,
            "dataset": {"name": log.benchmark, "samples": n},
            "model": run["model"],
            "config": {"epochs": 1, "epochs_reducer": ["mean"]},
            "packages": {} if version is None else {"inspect_ai": version},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": n,
            "completed_samples": n,
            "scores": [
                {
                    "name": _SCORER,
                    "scorer": _SCORER,
                    "params": {},
                    "metrics": {"mean": {"name": "mean", "value": value, "params": {}}},
                }
            ],
        },
        "stats": {"started_at": moment, "completed_at": moment, "model_usage": {}},
        "samples": [_sample(run["model"], sample) for sample in log.samples],
    }


def _sample(model: str, sample: dict[str, Any]) -> dict[str, Any]:
    subject, reference = sample.get("subject"), sample.get("reference")
    tokens = {k: sample[c] for k, c in _TOKENS.items() if sample.get(c) is not None}
    usage = {model: {**tokens, "total_tokens": sum(tokens.values())}} if tokens else {}
    return {
        "id": sample["source_id"],
        "epoch": 1,
        "input": [] if sample["text"] is None else sample["text"],  # no message, no text
        "target": "" if reference is None else reference,
        "messages": [],
        "scores": {_SCORER: {"value": sample["score"]}},
        "metadata": {} if subject is None else {"subject": subject},
        "model_usage": usage,
    }

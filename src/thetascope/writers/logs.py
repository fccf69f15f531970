"""What formats with one log a run and benchmark share: their folders, names and dates."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.study import Study

NO_DATE = datetime(1970, 1, 1, tzinfo=UTC)
"""The date in the log of a run that has none: the same run gives the same bytes."""

_UNFIT = re.compile(r"[/\\\x00-\x1f\x7f\x85\u2028\u2029]")
_MOST = 120


@dataclass(frozen=True)
class Log:
    """One run on one benchmark.

    Attributes:
        folder: Name of the run's folder; in order of names, a model's runs are in order.
        run: The run's row.
        benchmark: The benchmark.
        date: The run's date, `NO_DATE` where there is none that can be read.
        samples: Rows of responses with the facts of their items, those with a text first.
    """

    folder: str
    run: dict[str, Any]
    benchmark: str
    date: datetime
    samples: list[dict[str, Any]]


def logs(study: Study) -> Iterator[Log]:
    """Yields the logs of a study, in the order of its runs."""
    items = study.items
    if "text" not in items.columns:
        items = items.with_columns(pl.lit(None, pl.String).alias("text"))
    folders = _folders(study)
    parts = study.responses.partition_by("run_id", as_dict=True)
    for run in study.runs.iter_rows(named=True):
        part = parts.get((run["run_id"],))
        if part is None:
            continue
        rows = part.drop("model", "run_id").join(
            items, on="item_id", how="left", maintain_order="left"
        )
        date = run_date(run.get("date")) or NO_DATE
        for (benchmark,), group in rows.group_by("benchmark", maintain_order=True):
            # A reader may choose by the first record where texts stand.
            blank = group["text"].fill_null("").str.strip_chars() == ""
            ordered = pl.concat([group.filter(~blank), group.filter(blank)])
            yield Log(folders[run["run_id"]], run, str(benchmark), date, ordered.to_dicts())


def _folders(study: Study) -> dict[str, str]:
    """By run the name of its folder: the model's name, with a number for further runs."""
    models = unique_names(study.models["model"].to_list())
    per_model = study.runs.group_by("model").len()
    width = len(str(per_model["len"].max()))
    turns: dict[str, int] = {}
    folders: dict[str, str] = {}
    taken = {name.casefold() for name in models.values()}
    for run_id, model in study.runs.select("run_id", "model").iter_rows():
        turns[model] = turn = turns.get(model, 0) + 1
        name = models[model]
        if turn > 1:
            name = f"{name}@run{turn:0{width}}"
            while name.casefold() in taken:
                name += "_"
        taken.add(name.casefold())
        folders[run_id] = name
    return folders


def unique_names(names: list[str]) -> dict[str, str]:
    """By name one that a file can have; no two are the same, in any case of letters."""
    made: dict[str, str] = {}
    taken: set[str] = set()
    plain = {n.casefold() for n in names if _file_name(n) == n}
    for name in names:
        safe = _file_name(name)
        clash = plain if safe != name else set[str]()
        if safe.casefold() in taken | clash:
            safe = f"{safe}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        taken.add(safe.casefold())
        made[name] = safe
    return made


def _file_name(name: str) -> str:
    """The name as the harness writes it, '/' as '__'; never hidden, never too long."""
    safe = _UNFIT.sub("__", name)
    if safe.startswith("."):
        safe = "_" + safe
    if len(safe.encode()) > _MOST:
        start = safe.encode()[:_MOST].decode(errors="ignore")
        safe = f"{start}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return safe


def run_date(text: str | None) -> datetime | None:
    """A run's date as a moment (UTC where it names no zone), None where it is none."""
    if not text:
        return None
    iso = re.sub(r"T(\d\d)-(\d\d)-(\d\d)", r"T\1:\2:\3", text)  # as in the harness's file names
    try:
        date = datetime.fromisoformat(iso)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return date.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def n_undated(study: Study) -> int:
    """How many runs have no date that can be read."""
    if "date" not in study.runs.columns:
        return study.runs.height
    return sum(run_date(d) is None for d in study.runs["date"])


def write_json(path: Path, value: Any) -> None:
    """Writes one JSON object, keys in their order."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    path.write_bytes(text.encode() + b"\n")


def mean(samples: list[dict[str, Any]]) -> float:
    """The mean score of a log."""
    return sum(s["score"] for s in samples) / len(samples)

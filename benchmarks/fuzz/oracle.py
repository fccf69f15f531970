"""What every reading must end in: a sound study, or one InputError that is one line."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.fuzz.mutate import Case
from benchmarks.fuzz.seeds import Seed
from benchmarks.fuzz.trees import parse
from thetascope.errors import InputError
from thetascope.readers import read
from thetascope.study import Study

LONGEST = 4_000
"""Characters that a message for a person may have."""

_MADE_IDS = {"alpaca-eval", "llmrouter", "router-tables", "bfcl", "opencompass"}
"""Formats whose item ids are not in the file as they stand."""


class Finding(AssertionError):
    """A reading that ended in neither of the two ways."""


def examine(case: Case, scratch: Path) -> str:
    """Reads the case's files; returns 'read' or 'refused'.

    Raises:
        Finding: The study or the message is not as it must be.
        Exception: Whatever else the reader raised.
    """
    folder = scratch / "case"
    _write(case.files, folder)
    before = sorted(p.relative_to(scratch) for p in scratch.rglob("*"))
    try:
        study = read(folder / case.seed.source, format=case.format, options=case.seed.options)
    except InputError as error:
        check_message(str(error))
        return "refused"
    finally:
        after = sorted(p.relative_to(scratch) for p in scratch.rglob("*"))
        if after != before:
            raise Finding(f"wrote {set(after) - set(before)}")
    check_study(study, case)
    if hashlib.sha256(repr(case.note).encode()).digest()[0] < 32:
        _check_saved(study, scratch / "study")
    return "read"


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def check_message(message: str) -> None:
    """A message is one printable line of bounded length."""
    if not message.isprintable():
        raise Finding(f"message with line ends or control characters: {message[:200]!r}")
    if len(message) > LONGEST:
        raise Finding(f"message of {len(message):,} characters: {message[:100]!r}")


def check_study(study: Study, case: Case) -> None:
    """A study is sound, can be stored and shown, and accounts for every record."""
    scores = study.responses["score"]
    if scores.null_count() or not scores.is_between(0, 1).all():
        raise Finding(f"scores outside [0, 1]: {scores}")
    if not study.responses.height:
        raise Finding("an empty study")
    report = study.report
    for line in report.lines():
        if not line.isprintable():
            raise Finding(f"report line with control characters: {line[:200]!r}")
    json.dumps(report.to_json(), ensure_ascii=False).encode()
    for table in (study.responses, study.items, study.models, study.runs):
        table.write_parquet(io.BytesIO())
    _check_account(study, case)
    _check_ids(study, case)
    _check_untouched(study, case)


def _check_account(study: Study, case: Case) -> None:
    report = study.report
    dropped = sum(d.n for d in report.dropped.values())
    kept = int(study.responses["trials"].sum()) if case.seed.format == "inspect" else report.kept
    if report.kept != study.responses.height:
        raise Finding(f"{report.kept} said to be kept of {study.responses.height}")
    lost = report.read - kept - dropped
    # One instance of HELM may count in several splits.
    if lost > 0 or (lost < 0 and case.seed.format != "helm"):
        raise Finding(f"read {report.read}, kept {kept}, dropped {dropped}")
    if case.n_records is not None and report.read < case.n_records:
        raise Finding(f"{case.n_records} records, {report.read} read")


def _check_ids(study: Study, case: Case) -> None:
    """No item is invented: its id stands in the file."""
    formats = {format for _, format in study.report.sources}
    if formats & _MADE_IDS or any(n.endswith((".eval", ".parquet")) for n in case.files):
        return
    text = "\n".join(data.decode("utf-8", "replace") for data in case.files.values())
    plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), text)
    plain = plain.replace('""', '"') + plain.replace("\\\\", "\\").replace('\\"', '"')
    for source_id in study.items["source_id"]:
        shown = source_id.rpartition("/turn-")[0] if "mt-bench" in formats else source_id
        escaped = json.dumps(shown)[1:-1]
        if "\ufffd" in shown or shown in plain or shown in text or escaped in text:
            continue
        if "\n" in shown or "\x00" in shown or "\t" in shown:
            continue
        raise Finding(f"item {source_id!r} stands nowhere")


def _check_untouched(study: Study, case: Case) -> None:
    """An untouched record has the score that it had in the undamaged file."""
    if not case.untouched:
        return
    rules, expected = alone(case.seed)
    if _rules(study) != rules:
        return
    keys = study.responses.group_by("item_id", "model").agg(pl.len(), pl.col("score").first())
    found = {(i, m): (n, s) for i, m, n, s in keys.iter_rows()}
    dropped = sum(d.n for d in study.report.dropped.values())
    for number in case.untouched:
        for key, score in expected.get(number, {}).items():
            n, there = found.get(key, (0, None))
            if n == 1 and there != score:
                raise Finding(f"{key} had {score} in the clean file, now {there}")
            if n == 0 and not dropped and "item kept apart" not in str(study.report.notes):
                raise Finding(f"{key} is lost without a word")


def _rules(study: Study) -> list[str]:
    return [n for n in study.report.notes if n.startswith("score =") or "model" in n]


_ALONE: dict[int, tuple[Seed, list[str], dict[int, dict[tuple[str, str], float]]]] = {}


def alone(seed: Seed) -> tuple[list[str], dict[int, dict[tuple[str, str], float]]]:
    """The score rules of the undamaged file, and the scores of each of its records read alone."""
    key = hash((seed.format, seed.source, tuple(sorted(seed.files.items()))))
    if key not in _ALONE:
        _ALONE[key] = (seed, *_alone(seed))
    return _ALONE[key][1:]


def _alone(seed: Seed) -> tuple[list[str], dict[int, dict[tuple[str, str], float]]]:
    import tempfile

    name = seed.main
    document = parse(seed.files[name])
    assert document is not None
    assert seed.records_at is not None
    rules: list[str] = []
    expected: dict[int, dict[tuple[str, str], float]] = {}
    holder = document.holder(seed.records_at) or []
    everything = list(holder)
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(-1, len(everything)):
            holder[:] = everything if number < 0 else [everything[number]]
            _write({**seed.files, name: document.encode()}, Path(scratch))
            try:
                study = read(Path(scratch) / seed.source, format=seed.format, options=seed.options)
            except InputError:
                continue
            if number < 0:
                rules = _rules(study)
            elif _rules(study) == rules:
                rows = study.responses.select("item_id", "model", "score").iter_rows()
                expected[number] = {(i, m): s for i, m, s in rows}
    return rules, expected


def _check_saved(study: Study, folder: Path) -> None:
    """What is stored is what was read."""
    shutil.rmtree(folder, ignore_errors=True)
    study.save(folder)
    opened = Study.open(folder)
    for name in ("responses", "items", "models", "runs"):
        if not getattr(opened, name).equals(getattr(study, name)):
            raise Finding(f"table {name} is another after it was stored")
    shutil.rmtree(folder)


def quick(case: Case) -> Case:
    """The case without its texts of a million characters, to show."""
    return replace(case, files={k: v[:2000] for k, v in case.files.items()})


def limit_memory(gib: float) -> None:
    """Lets this process have no more than so much address space."""
    import resource

    most = int(gib * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def scratch_root() -> str | None:
    """A folder in memory, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def as_json(case: Case) -> dict[str, Any]:
    """How the case is to be read, for the file beside a found case."""
    options = {k: v for k, v in vars(case.seed.options).items() if v not in (None, {}, 1.0)}
    return {
        "format": case.format,
        "source": case.seed.source,
        "options": options,
        "note": case.note,
    }

"""Records of lm-evaluation-harness: their stream, their metrics and their prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.readers.builder import StudyBuilder
from thetascope.readers.json_stream import iter_pieces
from thetascope.readers.texts import common_prefix, line_start
from thetascope.readers.values import choose, describe, iter_jsonl, parse_score

Record = Mapping[str, Any]

_NOT_METRICS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps"}
_NOT_METRICS |= {"doc_hash", "prompt_hash", "target_hash", "filter", "metrics"}


def records(path: Path) -> Iterator[tuple[int, Any]]:
    """Records with their line number (JSON lines) or place (one array), streamed."""
    try:
        with path.open("rb") as file:
            first = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if first.startswith(b"["):
        return ((int(p.number or 0), p.value) for p in iter_pieces(path))
    return iter_jsonl(path)


def metric_key(record: Record, path: Path, number: int, builder: StudyBuilder) -> str:
    """The key of the metric that is the score.

    Raises:
        InputError: There is no metric, the one chosen is not there, or there are several.
    """
    listed = record.get("metrics")
    keys = [k for k in record if k not in _NOT_METRICS]
    if isinstance(listed, list):
        keys = [k for k in keys if k in listed] or keys
    keys = _of_one_filter(keys, path, number, builder.options.filter)
    by_name = {k.partition(",")[0]: k for k in keys}
    option = builder.options.metric
    if not by_name:
        raise InputError("has no metric", file=path, record=number)
    if option is not None:
        if option in keys:
            return option
        chosen = choose(option, list(by_name))
        if chosen is None:
            raise InputError(
                f"has no metric {option!r}; there are {', '.join(by_name)}",
                file=path,
                record=number,
            )
        return by_name[chosen]
    usable = [name for name, key in by_name.items() if _is_score(record[key])]
    if len(usable) == 1:
        return by_name[usable[0]]
    if usable:
        raise InputError(
            f"has the metrics {', '.join(usable)}",
            file=path,
            record=number,
            fix=f"choose one with --metric, e.g. --metric {usable[0]}",
        )
    found = ", ".join(f"{name} ({describe(record[key])})" for name, key in by_name.items())
    raise InputError(
        f"has no metric that is one number; there are {found}", file=path, record=number
    )


def _of_one_filter(keys: list[str], path: Path, number: int, wanted: str | None) -> list[str]:
    """Keys such as 'exact_match,strict-match' carry the filter: keeps those of one."""
    filters = list(dict.fromkeys(k.partition(",")[2] for k in keys if "," in k))
    if len(filters) < 2:
        return keys
    chosen = choose(wanted, filters)
    if chosen is None:
        raise InputError(
            f"has the filters {', '.join(filters)}",
            file=path,
            record=number,
            field="filter",
            fix=f"choose one with --filter, e.g. --filter {filters[0]}",
        )
    return [k for k in keys if k.partition(",")[2] == chosen]


def _is_score(value: Any) -> bool:
    """Whether a metric's value is one number, whatever its range."""
    try:
        parse_score(value, file=Path(), record=0, field="", scale=float("inf"))
    except InputError:
        return False
    return True


def shared_start(path: Path) -> int:
    """How many characters of whole lines every prompt of the file begins with."""
    prefix: str | None = None
    differ = False
    for _, record in records(path):
        text = prompt(record) if isinstance(record, dict) else None
        if text is None:
            continue
        if prefix is None:
            prefix = text
        elif not text.startswith(prefix):
            prefix, differ = common_prefix(prefix, text), True
        differ = differ or text != prefix
        if "\n" not in prefix:
            return 0
    return line_start(prefix) if differ and prefix is not None else 0


def _requests(record: Record) -> list[list[Any]]:
    """The arguments of each request: a list of lists, or {gen_args_0: {arg_0: ...}}."""
    arguments = record.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = list(arguments.values())
    if not isinstance(arguments, list):
        return []
    made = (list(a.values()) if isinstance(a, Mapping) else a for a in arguments)
    return [a for a in made if isinstance(a, list) and a]


def prompt(record: Record) -> str | None:
    """The prompt of the first request; of a chat, its last user message."""
    requests = _requests(record)
    if not requests or not isinstance(requests[0][0], str):
        return None
    text: str = requests[0][0]
    if text.startswith('[{"role"'):
        try:
            messages = json.loads(text)
            said = [m["content"] for m in messages if m["role"] == "user"]
        except (ValueError, KeyError, TypeError):
            return text
        if said and isinstance(said[-1], str):
            return said[-1]
    return text


def endings(record: Record) -> list[str]:
    """The answers that were compared, where they say more than a letter."""
    requests = _requests(record)
    found = [str(r[1]).strip() for r in requests if len(r) > 1 and isinstance(r[1], str)]
    return found if len(found) > 1 and max(map(len, found)) > 2 else []

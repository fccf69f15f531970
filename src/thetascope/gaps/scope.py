"""Concepts missing from a benchmark that lie within what it says it tests.

Without a language model missing concepts are only ranked, by the likeness of their labels'
vectors to the stated scope: a place to start reading, not a finding.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from thetascope.errors import InputError, one_line
from thetascope.gaps import prompts
from thetascope.gaps.asking import Inquiry, ask_all, batches, question_of
from thetascope.gaps.data import GapData
from thetascope.gaps.label_vectors import Vectors
from thetascope.llm import Endpoint
from thetascope.llm.structured import list_schema

MOST = 200
VERDICTS = ("yes", "no", "unclear")
_REASON = 160
_NEVER = "white space between words"
"""A label that no benchmark is about: the answers' control, with the scope itself."""


def read_scopes(given: Sequence[str], benchmarks: Sequence[str]) -> dict[str, str]:
    """Scopes from BENCHMARK=TEXT, or from TOML or JSON files of such pairs.

    Raises:
        InputError: A file cannot be read, a benchmark is unknown or named twice, a text is empty.
    """
    out: dict[str, str] = {}
    for value in given:
        file = Path(value) if value.endswith((".toml", ".json")) and "=" not in value else None
        name, equals, text = value.partition("=")
        pairs = _read(file) if file is not None else {name.strip(): text}
        if file is None and not equals:
            raise InputError(f"expected BENCHMARK=TEXT or a .toml or .json file, found {value!r}",
                             field="scope")  # fmt: skip
        for benchmark, scope in pairs.items():
            if benchmark not in benchmarks:
                raise InputError(
                    f"no benchmark named {benchmark!r}; there are {', '.join(benchmarks[:8])}",
                    file=file, field="scope",
                )  # fmt: skip
            if benchmark in out:
                raise InputError(f"{benchmark!r} has two scopes", file=file, field="scope")
            if not isinstance(scope, str) or not scope.strip():
                raise InputError(f"{benchmark!r}: expected a text", file=file, field="scope")
            out[benchmark] = " ".join(scope.split())
    return out


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text("utf-8")
        held = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not {file.suffix[1:].upper()}: {error}", file=file) from None
    if not isinstance(held, dict):
        raise InputError("expected benchmarks and their scopes", file=file)
    return held


def missing_ranked(
    data: GapData, benchmark: str, scope: str, vectors: Vectors, allowed: Sequence[bool],
    most: int = MOST,
) -> tuple[list[tuple[int, float]], int]:  # fmt: skip
    """The missing concepts most like the scope, with their cosine, and how many are missing.

    Args:
        data: Activations; with a reference, or nothing can be called missing.
        benchmark: Its name.
        scope: What it says it tests.
        vectors: Of labels.
        allowed: (C,) which concepts are looked at: not flagged, with a label.
        most: How many are returned.

    Raises:
        InputError: There is no reference.
    """
    if data.peak is None:
        raise InputError(
            "no concept can be called missing without a reference",
            fix="thetascope concepts extract --reference FILE makes one",
        )
    assert vectors.like is not None
    part = data.parts[data.benchmarks.index(benchmark)]
    n_active = np.asarray(data.active[part].sum(axis=0))[0]
    missing = np.flatnonzero((n_active == 0) & data.alive & np.array(allowed))
    like = vectors.like(scope)[missing]
    order = np.lexsort((missing, -like))[:most]
    return [(int(missing[i]), float(like[i])) for i in order], len(missing)


def scope_inquiry(scope: str) -> Inquiry:
    """The question which missing concepts lie in the scope."""

    def value(row: Mapping[str, Any]) -> tuple[str, str]:
        verdict, reason = row.get("in_scope"), row.get("reason", "")
        if isinstance(verdict, bool):
            verdict = "yes" if verdict else "no"
        if not isinstance(verdict, str) or verdict.strip().lower() not in VERDICTS:
            raise ValueError("expected yes, no or unclear")
        said = one_line(reason)[:_REASON] if isinstance(reason, str) else ""
        return verdict.strip().lower(), said

    return Inquiry(
        lambda lines: prompts.SCOPE.format(
            scope=json.dumps(scope, ensure_ascii=False), data=prompts.DATA, lines=lines),
        "answers", list_schema("answers", id="integer", in_scope="string", reason="string"), value,
        words=32, verdict=lambda value: value[0],
        controls=((scope, frozenset(["yes"])), (_NEVER, frozenset(["no", "unclear"]))),
    )  # fmt: skip


def scope_questions(scope: str, ids: Sequence[int], labels: Mapping[int, str],
                    tokens: frozenset[int]) -> list[str]:  # fmt: skip
    """All questions about one benchmark."""
    many, alone = batches(ids, labels, tokens)
    inquiry = scope_inquiry(scope)
    return [question_of(inquiry, b, labels)[0] for b in [*many, *([c] for c in alone)]]


def ask_scope(
    endpoint: Endpoint, scope: str, ids: Sequence[int], labels: Mapping[int, str], *,
    tokens: frozenset[int], progress: Callable[[int, int, str], None] | None = None,
) -> tuple[dict[int, tuple[str, str]], dict[str, int]]:  # fmt: skip
    """Whether each missing concept lies in the scope, and why; and what the answers were like.

    A concept without a valid answer is unclear.

    Raises:
        InputError: The endpoint cannot be used; answers so far are kept on disk.
    """
    inquiry = scope_inquiry(scope)
    found = ask_all(endpoint, inquiry, ids, labels, tokens=tokens, progress=progress,
                    what="asking what is in scope")  # fmt: skip
    return {c: found.get(c, ("unclear", "no valid answer")) for c in ids}, asdict(inquiry.counts)

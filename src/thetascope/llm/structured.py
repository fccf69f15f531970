"""Answers that are JSON, taken only where they are what was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from thetascope.errors import InputError
from thetascope.llm.endpoint import Endpoint
from thetascope.llm.sending import HalfAnswer

REPEATS = 2
"""How often an answer that does not fit is complained about."""
_SHOWN = 4000
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"```[a-zA-Z]*\s*(.*?)```", re.DOTALL)
T = TypeVar("T")


class InvalidAnswer(InputError):
    """The model's answers to one question stay invalid; others may be fine."""


def ask_json(
    endpoint: Endpoint,
    question: str,
    check: Callable[[Any], T],
    *,
    schema: dict[str, Any],
    answer_tokens: int,
    repeats: int = REPEATS,
) -> T:
    """Asks for JSON, and again with the complaint where the answer is none or does not fit.

    Args:
        endpoint: Who is asked.
        question: Says what JSON is wanted: not every server takes a schema.
        check: Called with the parsed answer; returns what it holds, or raises ValueError with
            the complaint that the model is told.
        schema: JSON schema, sent where the server takes one.
        answer_tokens: Most tokens of the answer.
        repeats: How often to complain.

    Raises:
        InvalidAnswer: No answer fitted, or none came whole.
        InputError: As `Endpoint.ask`.
    """
    messages = [{"role": "user", "content": question}]
    complaint = ""
    for _ in range(repeats + 1):
        try:
            answer = endpoint.chat(messages, answer_tokens=answer_tokens, schema=schema)
        except HalfAnswer as error:
            raise InvalidAnswer(error.problem, field="endpoint") from None
        try:
            return check(parse_json(answer))
        except ValueError as error:
            complaint = str(error)
        messages = [
            *messages[:1],
            {"role": "assistant", "content": answer[:_SHOWN]},
            {"role": "user", "content": f"That answer cannot be used: {complaint}. Answer again"
             " with the JSON that was asked for and nothing else."},
        ]  # fmt: skip
    raise InvalidAnswer(f"{endpoint.model} gives no usable answer: {complaint}", field="llm")


def parse_json(answer: str) -> Any:
    """The JSON of an answer, out of code fences, thoughts and words around it.

    Raises:
        ValueError: There is none.
    """
    text = _THOUGHT.sub("", answer).strip()
    fenced = _FENCE.findall(text)
    for part in [text, *fenced, text[text.find("{") : text.rfind("}") + 1]]:
        try:
            return json.loads(part, parse_constant=_no_number)
        except (ValueError, RecursionError):
            continue
    raise ValueError("it is not JSON")


def rows_of(value: Any, key: str) -> list[dict[str, Any]]:
    """The list of objects under a key.

    Raises:
        ValueError: There is none.
    """
    rows = value.get(key) if isinstance(value, dict) else None
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise ValueError(f"expected an object with a list of objects {key!r}")
    return rows


def list_schema(key: str, **fields: str) -> dict[str, Any]:
    """The schema of an object with a list of objects under `key`, with fields of these types."""
    row = {"type": "object", "properties": {n: {"type": t} for n, t in fields.items()},
           "required": list(fields), "additionalProperties": False}  # fmt: skip
    return {"type": "object", "properties": {key: {"type": "array", "items": row}},
            "required": [key], "additionalProperties": False}  # fmt: skip


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")

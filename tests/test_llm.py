"""An endpoint that fails in every way that is known: tried again, fallen back, or one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from tests.llm_server import Server, serving

from thetascope.errors import InputError
from thetascope.llm import (
    Endpoint,
    HalfAnswer,
    InvalidAnswer,
    Plan,
    Prices,
    Refused,
    ask_json,
    consent,
    plan_of,
    sending,
)
from thetascope.llm.structured import list_schema, parse_json, rows_of

SCHEMA = list_schema("rows", id="integer")


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda question, body: f"to {question}") as running:
        yield running


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were waited for between tries, not waited."""
    found: list[float] = []
    monkeypatch.setattr(sending, "sleep", found.append)
    return found


def endpoint(server: Server, folder: Path, **more: Any) -> Endpoint:
    return Endpoint(server.url, "m", folder / "answers", **{"timeout": 10.0, **more})


@pytest.mark.parametrize(
    "fault",
    ["malformed", "half", "short", "reset", "null", ("status", 500, {}), ("status", 503, {}),
     ("status", 429, {}), ("status", 408, {})],
)  # fmt: skip
def test_what_may_pass_is_tried_again(
    server: Server, tmp_path: Path, waits: list[float], fault: Any
) -> None:
    server.faults = [fault, fault]
    asked = endpoint(server, tmp_path)
    assert asked.ask("x") == "to x"
    assert waits == [1.0, 2.0], "waits grow"
    assert len(server.seen) == 3
    assert asked.ask("x") == "to x"
    assert len(server.seen) == 3, "what was answered is not asked again"


def test_time_outs_are_tried_again_and_then_one_line(
    server: Server, tmp_path: Path, waits: list[float]
) -> None:
    server.faults = ["hang"]
    assert endpoint(server, tmp_path, timeout=0.3).ask("x") == "to x"
    server.faults = ["hang"] * 9
    with pytest.raises(InputError, match="cannot be reached: timed out"):
        endpoint(server, tmp_path, timeout=0.1).ask("y")
    assert waits == [1.0, 1.0, 2.0, 4.0, 8.0]
    assert len(server.seen) == 2 + 5


@pytest.mark.parametrize(
    ("after", "waited"),
    [("7", 7.0), ("0", 1.0), ("3600", 60.0), ("soon", 1.0), ("-5", 1.0)],
)
def test_retry_after_is_honoured_and_capped(
    server: Server, tmp_path: Path, waits: list[float], after: str, waited: float
) -> None:
    server.faults = [("status", 429, {"Retry-After": after})]
    assert endpoint(server, tmp_path).ask("x") == "to x"
    assert waits == [waited]


def test_retry_after_may_be_a_date(server: Server, tmp_path: Path, waits: list[float]) -> None:
    date = formatdate(time.time() + 20, usegmt=True)
    server.faults = [("status", 503, {"Retry-After": date})]
    endpoint(server, tmp_path).ask("x")
    assert 15 < waits[0] <= 21


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [("malformed", HalfAnswer, "form that is not known"),
     ("half", HalfAnswer, "breaks off in the middle"),
     (("status", 429, {}), Refused, "answers 429"),
     (("status", 500, {}), Refused, "answers 500")],
)  # fmt: skip
def test_what_does_not_pass_is_one_line(
    server: Server, tmp_path: Path, waits: list[float], fault: Any, kind: type, said: str
) -> None:
    server.faults = [fault] * 9
    with pytest.raises(kind, match=said) as caught:
        endpoint(server, tmp_path).ask("x")
    assert "\n" not in str(caught.value)
    assert len(server.seen) == 5, "five tries and no more"
    assert not (tmp_path / "answers").exists(), "no answer is kept that was none"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 302, 308])
def test_a_refusal_is_not_tried_again(
    server: Server, tmp_path: Path, waits: list[float], status: int
) -> None:
    """Nor is a redirection followed: the key must not go elsewhere."""
    server.faults = [("status", status, {"Location": server.url + "/elsewhere"})]
    with pytest.raises(Refused, match=f"answers {status}") as caught:
        endpoint(server, tmp_path).ask("x")
    assert len(server.seen) == 1
    assert waits == []
    assert ("no such thing" in str(caught.value)) == (status in (400, 404))


def test_no_server_is_one_line_at_once(tmp_path: Path, waits: list[float]) -> None:
    with pytest.raises(InputError, match="cannot be reached"):
        Endpoint("http://127.0.0.1:9/v1", "m", tmp_path).ask("x")
    assert waits == []


def test_a_cut_answer_is_asked_for_with_more_tokens(
    server: Server, tmp_path: Path, waits: list[float]
) -> None:
    server.faults = ["length", "length"]
    assert endpoint(server, tmp_path).ask("x") == "to x"
    assert [b["max_tokens"] for b in server.seen] == [40, 80, 160]
    server.faults = ["length"] * 9
    with pytest.raises(HalfAnswer, match="stays cut"):
        endpoint(server, tmp_path).ask("y")
    assert waits == []


def test_interrupting_stops_at_once_and_keeps_answers(server: Server, tmp_path: Path) -> None:
    server.faults = [("say", "one"), "hang"]
    code = (
        "import sys; from pathlib import Path; from thetascope.llm import Endpoint\n"
        f"e = Endpoint({server.url!r}, 'm', Path({str(tmp_path)!r}))\n"
        "e.ask('first'); print('asked', flush=True); e.ask('second')"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=env) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"asked\n"
        while len(server.seen) < 2:
            time.sleep(0.02)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(10)
        assert time.monotonic() - start < 5
        assert process.returncode != 0
    assert Endpoint(server.url, "m", tmp_path).ask("first") == "one"
    assert len(server.seen) == 2


def rows(value: Any) -> list[dict[str, Any]]:
    found = rows_of(value, "rows")
    if not all(isinstance(r.get("id"), int) for r in found):
        raise ValueError("every row has an id")
    return found


def test_json_is_asked_for_by_schema(server: Server, tmp_path: Path) -> None:
    server.answer = lambda question, body: '{"rows": [{"id": 3}]}'
    found = ask_json(endpoint(server, tmp_path), "x", rows, schema=SCHEMA, answer_tokens=9)
    assert found == [{"id": 3}]
    form = server.seen[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"] == SCHEMA


def test_a_server_without_schemas_is_asked_plainly_and_once(server: Server, tmp_path: Path) -> None:
    server.refuses_schema = True
    server.answer = lambda question, body: '{"rows": []}'
    asked = endpoint(server, tmp_path)
    for question in ("x", "y"):
        assert ask_json(asked, question, rows, schema=SCHEMA, answer_tokens=9) == []
    assert ["response_format" in b for b in server.seen] == [True, False, False]


def test_invalid_answers_are_complained_about(server: Server, tmp_path: Path) -> None:
    server.faults = [("say", "I would say 3"), ("say", '{"rows": [{"id": "three"}]}'),
                     ("say", '```json\n{"rows": [{"id": 3}]}\n```')]  # fmt: skip
    asked = endpoint(server, tmp_path)
    assert ask_json(asked, "x", rows, schema=SCHEMA, answer_tokens=9) == [{"id": 3}]
    assert "it is not JSON" in server.seen[1]["messages"][-1]["content"]
    assert "every row has an id" in server.seen[2]["messages"][-1]["content"]
    assert ask_json(asked, "x", rows, schema=SCHEMA, answer_tokens=9) == [{"id": 3}]
    assert len(server.seen) == 3, "a conversation that was had is not had again"


@pytest.mark.parametrize("fault", [("say", "no"), "length", "malformed"])
def test_answers_that_stay_invalid(
    server: Server, tmp_path: Path, waits: list[float], fault: Any
) -> None:
    server.faults = [fault] * 20
    with pytest.raises(InvalidAnswer) as caught:
        ask_json(endpoint(server, tmp_path), "x", rows, schema=SCHEMA, answer_tokens=9)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": 1}', {"a": 1}), ('```\n{"a": 1}\n```', {"a": 1}),
     ('Sure: {"a": {"b": 2}} I hope', {"a": {"b": 2}}),
     ('<think>{"a": 0}</think> {"a": 1}', {"a": 1})],
)  # fmt: skip
def test_json_is_found(text: str, value: Any) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize("text", ["", "no", '{"a": NaN}', "[" * 100_000, '{"a": 1'])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        parse_json(text)


def test_cost_is_said(tmp_path: Path) -> None:
    """40 letters are 10 tokens, twice, and as many again; 4 answers of 100 tokens."""
    plan = plan_of(["x" * 40] * 2, 100, "labels", Prices(2.0, 10.0), more=2)
    assert plan == Plan(4, 40, 400, "labels", pytest.approx((40 * 2 + 400 * 10) / 1e6))
    assert plan_of(["x"], 1, "labels").usd is None
    dear = Plan(4, 40, 400, "labels", 12.5)
    with pytest.raises(InputError, match=r"4 questions .*about 12.50 USD.*nothing was sent"):
        consent([], Endpoint("http://h", "m", tmp_path), False, dear)
    with pytest.raises(InputError, match="price_in"):
        Prices(-1.0)


def test_the_key_is_sent_and_never_kept(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    server.faults = [("say", json.dumps({}))]
    ask_json(endpoint(server, tmp_path), "x", lambda v: v, schema=SCHEMA, answer_tokens=9)
    assert server.keys == ["Bearer sk-secret"]
    assert "sk-secret" not in "".join(p.read_text() for p in (tmp_path / "answers").iterdir())

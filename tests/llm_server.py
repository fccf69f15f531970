"""A local OpenAI-compatible server that answers well, or fails in every way that is known."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Play:
    """What `answer` returns in the place of an answer to play a fault."""

    def __init__(self, fault: Any) -> None:
        self.fault = fault


Answer = Callable[[str, dict[str, Any]], "str | Play"]


class Server(ThreadingHTTPServer):
    """Plays `faults` one by one, then answers with `answer(question, body)`.

    A fault is 'malformed', 'half', 'short' (cut in the middle, no length said), 'hang', 'reset',
    'length', 'null', ('status', code, headers), or ('say', text).

    Attributes:
        seen: Bodies of the requests.
        keys: Their authorisations.
        refuses_schema: Whether `response_format` is answered with 400.
    """

    daemon_threads = True
    answer: Answer
    seen: list[dict[str, Any]]
    keys: list[str | None]
    faults: list[Any]
    refuses_schema = False
    closing = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: Any) -> None:
        """A client that is gone is no error here."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(body)
        self.server.keys.append(self.headers.get("Authorization"))
        fault = self.server.faults.pop(0) if self.server.faults else None
        said: Any = None
        if fault is None and self.server.refuses_schema and "response_format" in body:
            fault = ("status", 400, {})
        if not isinstance(fault, tuple):
            said = self.server.answer(body["messages"][0]["content"], body)
            if isinstance(said, Play):
                fault, said = said.fault, ""
        if fault == "hang":
            while not self.server.closing:
                time.sleep(0.02)
        elif fault == "reset":
            self.connection.close()
        elif isinstance(fault, tuple) and fault[0] == "status":
            self._send(json.dumps({"error": {"message": "no such thing"}}).encode(), fault[1],
                       fault[2])  # fmt: skip
        else:
            self._answer(said, fault)

    def _answer(self, said: Any, fault: Any) -> None:
        text = fault[1] if isinstance(fault, tuple) else said
        why = "length" if fault == "length" else "stop"
        content = None if fault == "null" else text[: len(text) // 2] if why == "length" else text
        reply = {"choices": [{"message": {"content": content}, "finish_reason": why}]}
        data = json.dumps(reply).encode()
        if fault == "malformed":
            self._send(data[:-7] + b"}}}")
        elif fault in ("half", "short"):
            self.send_response(200)
            if fault == "half":
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self.connection.close()
        else:
            self._send(data)

    def _send(self, data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    """A server for as long as the block lasts."""
    server = Server(("127.0.0.1", 0), _Handler)
    server.answer, server.seen, server.keys, server.faults = answer, [], [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.closing = True
        server.shutdown()
        thread.join()
        server.server_close()


def asked_lines(question: str) -> dict[int, str]:
    """The lines 'number. "label"' of a question."""
    found = re.findall(r'^(\d+)\. (".*")$', question, re.MULTILINE)
    return {int(n): json.loads(label) for n, label in found}


def themes_of(question: str) -> dict[str, int]:
    """The themes that a question lists, by name."""
    part = question.partition("Themes:\n")[2].partition("0. none")[0]
    return {m[2]: int(m[1]) for m in re.finditer(r"^(\d+)\. (.*?): ", part, re.MULTILINE)}

"""Names of clusters from a language model: nothing unasked, answers kept, faults in one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.llm import Endpoint, consent, n_tokens
from thetascope.space.written_names import name_questions, written_names

CLUSTERS = [{"name": "cell, enzyme"}, {"name": ""}]
TEXTS = [["What is an enzyme?", "long " * 200], ["Who sues?"]]


class Stub(ThreadingHTTPServer):
    """Answers as an OpenAI-compatible endpoint does, and remembers what it was asked."""

    seen: list[dict[str, Any]]
    keys: list[str | None]
    status = 200
    reply: Any = None


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr("thetascope.llm.sending.sleep", lambda seconds: None)

    class Handler(BaseHTTPRequestHandler):
        server: Stub

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.seen.append(body)
            self.server.keys.append(self.headers.get("Authorization"))
            said = self.server.reply or {
                "choices": [{"message": {"content": f' "Name {len(self.server.seen)}."\n'}}]
            }
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = Stub(("127.0.0.1", 0), Handler)
    server.seen, server.keys = [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def endpoint(stub: Stub, folder: Path) -> Endpoint:
    return Endpoint(f"http://127.0.0.1:{stub.server_port}/v1/", "namer", folder / "answers")


def test_questions_hold_terms_and_cut_texts() -> None:
    first, second = name_questions(CLUSTERS, TEXTS)
    assert "cell, enzyme" in first
    assert "- What is an enzyme?" in first
    assert len(first) < 1000
    assert "(none)" in second


def test_names_are_asked_once(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    questions, here = name_questions(CLUSTERS, TEXTS), endpoint(stub, tmp_path)
    assert written_names(questions, here) == ["Name 1", "Name 2"]
    assert written_names(questions, here) == ["Name 1", "Name 2"]
    assert len(stub.seen) == 2
    assert stub.seen[0]["temperature"] == 0
    assert stub.keys == ["Bearer sk-secret"] * 2
    kept = "".join(p.read_text() for p in (tmp_path / "answers").iterdir())
    assert "sk-secret" not in kept


def test_nothing_is_sent_without_consent(stub: Stub, tmp_path: Path) -> None:
    questions = name_questions(CLUSTERS, TEXTS)
    with pytest.raises(InputError, match=r"2 questions of about \d+ tokens") as caught:
        consent(questions, endpoint(stub, tmp_path), yes=False)
    assert "--yes" in str(caught.value)
    consent(questions, endpoint(stub, tmp_path), yes=True)
    assert stub.seen == []
    assert n_tokens(["abcd" * 10]) == 10


@pytest.mark.parametrize(
    ("status", "reply", "what"),
    [(401, None, "answers 401"), (200, {"choices": []}, "form that is not known")],
)
def test_faults_of_the_endpoint_are_one_line(
    stub: Stub, tmp_path: Path, status: int, reply: Any, what: str
) -> None:
    stub.status, stub.reply = status, reply
    with pytest.raises(InputError, match=what):
        written_names(["x"], endpoint(stub, tmp_path))
    assert not (tmp_path / "answers").exists()


def test_no_endpoint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected http"):
        Endpoint("file:///etc/passwd", "m", tmp_path).ask("x")
    with pytest.raises(InputError, match="cannot be reached"):
        Endpoint("http://127.0.0.1:9/v1", "m", tmp_path).ask("x")

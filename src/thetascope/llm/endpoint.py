"""An endpoint that is asked one question at a time, and never the same one twice.

Answers are kept on disk by the question's hash. The key comes from the environment
(OPENAI_API_KEY) and is never written down.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.llm import sending
from thetascope.study import files

Messages = Sequence[Mapping[str, str]]
_NO_SCHEMA = (400, 404, 415, 422, 501)
"""What servers answer that do not know `response_format`."""


@dataclass(frozen=True)
class Endpoint:
    """Where a language model answers.

    Attributes:
        url: Base of an OpenAI-compatible API, such as http://localhost:8000/v1.
        model: The model's name there.
        cache: Folder of the answers.
        answer_tokens: Most tokens of an answer.
        timeout: Seconds of silence after which a try is given up.
        tries: How often a question is sent at most, see `sending.post`.
    """

    url: str
    model: str
    cache: Path
    answer_tokens: int = 40
    timeout: float = 120.0
    tries: int = 5
    _plain: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def ask(self, question: str) -> str:
        """Returns the answer to a question, from disk if it was asked before.

        Raises:
            InputError: The endpoint cannot be reached, refuses, or answers in no known form,
                after the tries that were worth it.
        """
        return self.chat([{"role": "user", "content": question}])

    def chat(
        self, messages: Messages, *, answer_tokens: int | None = None,
        schema: dict[str, Any] | None = None,
    ) -> str:  # fmt: skip
        """Returns the next message of a conversation, from disk if it was asked for before.

        Args:
            messages: Roles and contents.
            answer_tokens: Most tokens of the answer; the endpoint's own where None.
            schema: JSON schema that the answer is to follow. It is sent where the server takes
                one, and left out for the rest of the run once it was refused.

        Raises:
            InputError: As `ask`.
        """
        body = {
            "model": self.model,
            "messages": [dict(m) for m in messages],
            "temperature": 0,
            "max_tokens": answer_tokens or self.answer_tokens,
        }
        file = self._file(body, schema)
        try:
            return str(files.read_json(file)["answer"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        answer = self._send(body) if schema is None or self._plain else self._shaped(body, schema)
        self.cache.mkdir(parents=True, exist_ok=True)
        files.write_json(file, {"answer": answer})
        return answer

    def _file(self, body: dict[str, Any], schema: dict[str, Any] | None) -> Path:
        asked = [self.url, body] if schema is None else [self.url, body, schema]
        return self.cache / f"{files.hash_json(asked)}.json"

    def _shaped(self, body: dict[str, Any], schema: dict[str, Any]) -> str:
        wanted = {"name": "answer", "strict": True, "schema": schema}
        form = {"type": "json_schema", "json_schema": wanted}
        try:
            return self._send({**body, "response_format": form})
        except sending.Refused as error:
            if error.status not in _NO_SCHEMA:
                raise
        answer = self._send(body)  # where this is refused as well, the form was not the reason
        self._plain.append(True)
        return answer

    def _send(self, body: dict[str, Any]) -> str:
        if not self.url.startswith(("http://", "https://")):
            raise InputError(f"expected http:// or https://, found {self.url!r}", field="endpoint")
        return sending.post(
            self.url, body, os.environ.get("OPENAI_API_KEY"), self.timeout, self.tries
        )


def answers_folder() -> Path:
    """Where answers are kept: in the user's cache, outside of any study."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "thetascope" / "answers"

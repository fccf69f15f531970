"""A language model behind an OpenAI-compatible endpoint, asked one question at a time.

Answers are kept on disk by the question's hash, so asking twice costs once. The endpoint's key
comes from the environment (OPENAI_API_KEY) and is never written down.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thetascope.errors import InputError
from thetascope.study import files

_TIMEOUT = 120
_LETTERS = 4
"""Letters a token, roughly."""


@dataclass(frozen=True)
class Endpoint:
    """Where a language model answers.

    Attributes:
        url: Base of an OpenAI-compatible API, such as http://localhost:8000/v1.
        model: The model's name there.
        cache: Folder of the answers.
        answer_tokens: Most tokens of an answer.
    """

    url: str
    model: str
    cache: Path
    answer_tokens: int = 40

    def ask(self, question: str) -> str:
        """Returns the answer to a question, from disk if it was asked before.

        Raises:
            InputError: The endpoint cannot be reached, refuses, or answers in no known form.
        """
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": self.answer_tokens,
        }
        file = self.cache / f"{files.hash_json([self.url, body])}.json"
        try:
            return str(files.read_json(file)["answer"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        answer = self._send(body)
        self.cache.mkdir(parents=True, exist_ok=True)
        files.write_json(file, {"answer": answer})
        return answer

    def _send(self, body: dict[str, Any]) -> str:
        if not self.url.startswith(("http://", "https://")):
            raise InputError(f"expected http:// or https://, found {self.url!r}", field="endpoint")
        key = os.environ.get("OPENAI_API_KEY")
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(
            self.url.rstrip("/") + "/chat/completions",
            data=json.dumps(body).encode(),
            headers=headers,
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as reply:
                return str(json.load(reply)["choices"][0]["message"]["content"])
        except urllib.error.HTTPError as error:
            raise InputError(f"{self.url} answers {error.code} {error.reason}",
                             field="endpoint") from None  # fmt: skip
        except (OSError, urllib.error.URLError) as error:
            raise InputError(f"{self.url} cannot be reached: {error}", field="endpoint") from None
        except (ValueError, KeyError, IndexError, TypeError):
            raise InputError(f"{self.url} answers in a form that is not known",
                             field="endpoint") from None  # fmt: skip


def answers_folder() -> Path:
    """Where answers are kept: in the user's cache, outside of any study."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "thetascope" / "answers"


def n_tokens(questions: Sequence[str]) -> int:
    """About how many tokens the questions hold, a token for four letters."""
    return sum(len(q) for q in questions) // _LETTERS


def consent(questions: Sequence[str], endpoint: Endpoint, yes: bool) -> None:
    """Refuses to send anything that the user has not agreed to.

    Raises:
        InputError: `yes` is not set; says how much would be sent, and where.
    """
    if not yes:
        raise InputError(
            f"{len(questions):,} questions of about {n_tokens(questions):,} tokens, texts of items"
            f" among them, would be sent to {endpoint.model} at {endpoint.url}; nothing was sent",
            fix="agree with --yes",
        )

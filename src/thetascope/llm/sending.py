"""One request to an endpoint, sent again where that may help.

Sent again, after growing waits: a time-out, a broken connection, 408, 429 (as long after as
Retry-After says, at most a minute) and 5xx, a reply that is not whole or not in the known form.
An answer cut at its most tokens is asked for with twice as many. Not sent again: what the server
refuses (another 4xx), a redirection (the key must not follow it), a server that is not there.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from typing import Any

from thetascope.errors import InputError, one_line

FIRST_WAIT, LONGEST_WAIT, LONGEST_ASKED = 1.0, 30.0, 60.0
"""Seconds: before the second try, between later ones at most, and at most at a server's wish."""
_LONGEST_REPLY = 16 << 20
_AGAIN = (408, 409, 425, 429)
_DOUBLINGS = 2
sleep = time.sleep


class Refused(InputError):
    """The endpoint answers with an error.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, problem: str, status: int) -> None:
        super().__init__(problem, field="endpoint")
        self.status = status


class HalfAnswer(InputError):
    """The endpoint's replies stay cut, or in no known form."""


class _Failed(Exception):
    """A try that is worth another one.

    Attributes:
        error: What is raised where it was the last one.
        wait: Seconds that the server asks to wait.
        cut: Whether the answer was cut at its most tokens.
    """

    def __init__(self, error: InputError, wait: float | None = None, cut: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.wait, self.cut = error, wait, cut


def post(url: str, body: dict[str, Any], key: str | None, timeout: float, tries: int) -> str:
    """Sends a chat completion and returns the answer's text.

    Args:
        url: Base of the API.
        body: The request.
        key: Sent as bearer token where there is one.
        timeout: Seconds of silence that end a try; twice as many end it at all.
        tries: How often it is sent at most.

    Raises:
        Refused: The server answers with an error.
        HalfAnswer: Its replies stay cut or in no known form.
        InputError: It cannot be reached.
    """
    most, cut = int(body["max_tokens"]), 0
    for turn in range(1, tries + 1):
        try:
            return _try({**body, "max_tokens": most << cut}, url, key, timeout)
        except _Failed as failed:
            if failed.cut:
                cut += 1
            if turn == tries or cut > _DOUBLINGS:
                raise failed.error from None
            if not failed.cut:
                wait = min(FIRST_WAIT * 2 ** (turn - 1), LONGEST_WAIT)
                asked = failed.wait or 0.0
                sleep(max(wait, min(asked, LONGEST_ASKED)))
    raise AssertionError("no try was made")


def _try(body: dict[str, Any], url: str, key: str | None, timeout: float) -> str:
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(
        url.rstrip("/") + "/chat/completions", data=json.dumps(body).encode(), headers=headers
    )
    try:
        with _OPENER.open(request, timeout=timeout) as reply:
            held = _read(reply, 2 * timeout)
    except urllib.error.HTTPError as error:
        raise _refusal(url, error) from None
    except (TimeoutError, http.client.HTTPException, ConnectionError) as error:
        raise _broken(url, error) from None
    except urllib.error.URLError as error:
        reason = error.reason
        if isinstance(reason, ConnectionRefusedError | socket.gaierror):
            raise InputError(f"{url} cannot be reached: {reason}", field="endpoint") from None
        raise _broken(url, reason) from None
    except (OSError, ValueError) as error:  # ValueError: a URL that is none
        raise InputError(f"{url} cannot be reached: {error}", field="endpoint") from None
    return _answer(url, held)


def _read(reply: http.client.HTTPResponse, longest: float) -> bytes:
    """The reply's body; a server that sends a byte a minute ends as a time-out does."""
    length = reply.headers.get("Content-Length")
    whole = int(length) if length and length.isdigit() else None
    parts, size, start = [], 0, time.monotonic()
    while whole is None or size < whole:
        part = reply.read1(1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
        if time.monotonic() - start > longest:
            raise TimeoutError("timed out")
        if size > _LONGEST_REPLY:
            raise http.client.HTTPException("its reply does not end")
    if whole is not None and size < whole:
        raise http.client.IncompleteRead(b"".join(parts), whole - size)
    return b"".join(parts)


def _answer(url: str, held: bytes) -> str:
    try:
        choice = json.loads(held)["choices"][0]
        text, why = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        text, why = None, None
    if why == "length":
        raise _Failed(_half(f"{url}: its answer stays cut at its most tokens"), cut=True)
    if not isinstance(text, str):
        raise _Failed(_half(f"{url} answers in a form that is not known"))
    return text


def _refusal(url: str, error: urllib.error.HTTPError) -> Exception:
    said = _message(error) if error.code in (400, 404, 413, 422) else ""
    refused = Refused(f"{url} answers {error.code} {error.reason}{said}", error.code)
    if error.code in _AGAIN or error.code >= 500:
        return _Failed(refused, wait=_retry_after(error.headers.get("Retry-After")))
    return refused


def _message(error: urllib.error.HTTPError) -> str:
    """What the server says of it; never asked for where a key was refused."""
    try:
        said = json.loads(error.read(4096))
        said = said.get("error", said)
        said = said.get("message") if isinstance(said, dict) else said
        return f": {one_line(said, 200)}" if isinstance(said, str) else ""
    except (OSError, ValueError, AttributeError, RecursionError, http.client.HTTPException):
        return ""


def _retry_after(value: str | None) -> float | None:
    """Seconds, from seconds or a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _broken(url: str, error: Any) -> _Failed:
    if isinstance(error, TimeoutError):
        return _Failed(InputError(f"{url} cannot be reached: timed out", field="endpoint"))
    if isinstance(error, http.client.IncompleteRead):
        return _Failed(_half(f"{url} breaks off in the middle of its answer"))
    what = str(error) or type(error).__name__
    return _Failed(InputError(f"{url} cannot be reached: {what}", field="endpoint"))


def _half(problem: str) -> HalfAnswer:
    return HalfAnswer(problem, field="endpoint")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Leaves a redirection to be an error."""


_OPENER = urllib.request.build_opener(_NoRedirect)

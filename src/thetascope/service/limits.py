"""What a request may be: its size, its type, its rate. Pure ASGI, before any parsing.

Every refusal is JSON: {"error": {"code": ..., "reason": ...}}. The log has method, path,
status and milliseconds; never a query string, a header or a body, so no question and no secret.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from thetascope.errors import InputError

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("thetascope.service")
READS_BODY = "/v1/"
"""Paths that take a body; elsewhere none is read."""
_CLIENTS = 10_000
"""Addresses whose rate is remembered."""


@dataclass(frozen=True)
class Limits:
    """Limits of the service.

    Attributes:
        body_bytes: Greatest body.
        rate: Requests a second of one address, on average; 0 for no limit.
        burst: Requests that an address may send at once.
        read_seconds: Time in which a body has to arrive.
        at_once: Questions that are worked on at one time.
    """

    body_bytes: int = 65536
    rate: float = 50.0
    burst: int = 200
    read_seconds: float = 10.0
    at_once: int = 1

    def __post_init__(self) -> None:
        if self.body_bytes < 1:
            raise InputError(f"expected bytes from 1, found {self.body_bytes}", field="body_bytes")
        if not 0 <= self.rate < 1e9:
            raise InputError(f"expected a number from 0, found {self.rate}", field="rate")


class Refused(Exception):
    """A request that is answered without being looked at."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.code, self.reason = status, code, reason


class Rates:
    """A token bucket an address."""

    def __init__(self, rate: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.now = rate, float(burst), now
        self._buckets: dict[str, tuple[float, float]] = {}

    def allow(self, address: str) -> bool:
        """Whether one more request of this address may pass now."""
        if self.rate <= 0:
            return True
        now = self.now()
        tokens, before = self._buckets.pop(address, (self.burst, now))
        tokens = min(self.burst, tokens + (now - before) * self.rate)
        passed = tokens >= 1
        self._buckets[address] = (tokens - passed, now)  # the newest come last
        if len(self._buckets) > _CLIENTS:
            self._buckets.pop(next(iter(self._buckets)))
        return passed


class Guarded:
    """An application behind the limits."""

    def __init__(self, app: Application, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.rates = Rates(limits.rate, limits.burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            client = scope.get("client")
            if not self.rates.allow(client[0] if client else ""):
                raise Refused(429, "too_many_requests",
                              f"more than {self.limits.rate:g} requests a second")  # fmt: skip
            if scope["method"] == "POST" and scope["path"].startswith(READS_BODY):
                receive = await self._checked(scope, receive)
            await self.app(scope, receive, noted)
        except Refused as error:
            await _answer(noted, error)
        finally:
            took = 1000 * (time.perf_counter() - start)
            log.info("%s %s %d %.1f ms", _plain(scope["method"]), _plain(scope["path"]), status,
                     took)  # fmt: skip

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        """The body as a whole, if it is small enough, JSON by its header, and UTF-8."""
        headers = {k.lower(): v for k, v in scope["headers"]}
        kind, _, parameters = headers.get(b"content-type", b"").decode("latin-1").partition(";")
        charset = parameters.partition("charset=")[2].split(";")[0].strip(' "').lower()
        if kind.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8"):
            raise Refused(415, "wrong_type", "expected Content-Type: application/json (UTF-8)")
        most = self.limits.body_bytes
        too_large = Refused(413, "too_large", f"the body is larger than {most} bytes")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > most:
            raise too_large
        body = b""
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return _replay(message)
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_large
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise Refused(408, "too_slow", "the body did not arrive in time") from None
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(400, "not_utf8", f"the body is not UTF-8 (byte {error.start})") from None
        return _replay({"type": "http.request", "body": body, "more_body": False})


def error_body(code: str, reason: str, field: str | None = None) -> dict[str, Any]:
    """The JSON of every error."""
    return {"error": {"code": code, "reason": reason, "field": field}}


def to_bytes(value: Any) -> bytes:
    """JSON in ASCII: a name with half a surrogate pair must not break an answer."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def _replay(message: Message) -> Receive:
    waiting: list[Message] = [message]

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    return receive


async def _answer(send: Send, error: Refused) -> None:
    body = to_bytes(error_body(error.code, error.reason))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.status == 429:
        headers.append((b"retry-after", b"1"))
    else:  # the rest of the body is not read
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _plain(text: str) -> str:
    return text[:100].encode("unicode_escape").decode("ascii")

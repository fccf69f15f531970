"""The explorer's server as an ASGI application: read-only files, and two computed answers.

Paths are looked up whole among those that are known; no path of a request ever reaches the file
system. Every answer, an error's too, bears the headers of `guard.SECURITY`. The log has method,
path, status and milliseconds; never a query string (it may hold the token) or a body.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from thetascope.explorer.answers import Answers, Refusal
from thetascope.explorer.contents import Contents
from thetascope.explorer.guard import SECURITY, Door, same_origin
from thetascope.explorer.page import INDEX, media_type
from thetascope.service.limits import Message, Receive, Scope, Send, error_body, to_bytes

log = logging.getLogger("thetascope.explorer")
MOST_BYTES = {"api/route": 128 << 10, "api/onboard": 64 << 20}
"""Greatest body of each answer."""
READ_SECONDS = {"api/route": 10.0, "api/onboard": 120.0}
"""Time in which a body has to arrive."""
_JSON, _BYTES = "application/json", "application/octet-stream"
_TYPES = {"api/route": (_JSON,), "api/onboard": (_BYTES, _JSON)}
_PACKED = ("text/", _JSON, "image/svg")
"""Media types that shrink."""
_LEAST_PACKED = 1400
_PACKED_KEPT = 64


class Answer(NamedTuple):
    """Status, body, its media type and headers of its own."""

    status: int
    body: bytes
    kind: str = _JSON
    headers: tuple[tuple[str, str], ...] = ()


class Refused(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, code: str, reason: str, field: str | None = None,
                 headers: tuple[tuple[str, str], ...] = ()) -> None:  # fmt: skip
        super().__init__(reason)
        self.answer = Answer(status, to_bytes(error_body(code, reason, field)), _JSON, headers)


class App:
    """One study's page, files and answers behind a door."""

    def __init__(
        self, contents: Contents, page: Mapping[str, bytes], answers: Answers, door: Door
    ) -> None:
        self.contents, self.page, self.answers, self.door = contents, page, answers, door
        self._tags: dict[str, str] = {}
        self._packed: OrderedDict[str, bytes] = OrderedDict()
        self._turn: asyncio.Semaphore | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        start = time.perf_counter()
        try:
            answer = await self._answer(scope, receive)
        except Refused as refused:
            answer = refused.answer
        except Exception as error:
            log.exception("a fault")
            body = error_body("fault", f"a fault in thetascope: {type(error).__name__}")
            answer = Answer(500, to_bytes(body))
        await _send(send, answer, scope["method"] == "HEAD")
        took = 1000 * (time.perf_counter() - start)
        log.info("%s %s %d %.1f ms", _plain(scope["method"]), _plain(scope["path"]), answer.status,
                 took)  # fmt: skip

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        query = scope.get("query_string", b"").decode("latin-1")
        self._check_door(headers, query)
        method, path = scope["method"], scope["path"]
        if path.startswith("/api/"):
            return await self._computed(method, path[1:], headers, query, receive)
        if method not in ("GET", "HEAD"):
            raise _wrong_method("GET, HEAD")
        name = self._known(path)
        if name is None:
            raise Refused(404, "not_found", "there is no such file")
        if self.door.token is not None and self.door.token_of(query):
            cookie = f"{self.door.cookie}={self.door.token}; Path=/; HttpOnly; SameSite=Strict"
            return Answer(303, b"", _JSON, (("Location", path), ("Set-Cookie", cookie)))
        return await asyncio.to_thread(self._file, name, headers)

    def _check_door(self, headers: Mapping[str, str], query: str) -> None:
        if not self.door.knows_host(headers.get("host", "")):
            raise Refused(421, "wrong_host", "the request names another host than this machine")
        if not self.door.admits(headers, query):
            raise Refused(
                401, "no_token", "a token is needed: open the address that the server printed",
                headers=(("WWW-Authenticate", "Bearer"),),
            )  # fmt: skip

    def _known(self, path: str) -> str | None:
        """What a path names: a file of the page, or 'data/' and one of the study; None for none."""
        if path == "/":
            return INDEX
        name = path[1:]
        if not path.startswith("/"):
            return None
        if name.startswith("data/"):
            return name if name.removeprefix("data/") in self.contents else None
        return name if name in self.page else None

    def _file(self, name: str, headers: Mapping[str, str]) -> Answer:
        if name.startswith("data/"):
            data = self.contents.read(name.removeprefix("data/"))
        else:
            data = self.page[name]
        kind = media_type(name)
        tag = self._tags.get(name)
        if tag is None:
            tag = self._tags[name] = hashlib.sha256(data).hexdigest()[:24]
        more: list[tuple[str, str]] = [("Cache-Control", "no-cache")]
        if kind.startswith(_PACKED) and len(data) >= _LEAST_PACKED:
            more.append(("Vary", "Accept-Encoding"))
            if _takes_gzip(headers.get("accept-encoding", "")):
                data, tag = self._pack(name, data), f"{tag}-gz"
                more.append(("Content-Encoding", "gzip"))
        more.append(("ETag", f'"{tag}"'))
        if _matches(headers.get("if-none-match", ""), tag):
            kept = tuple((k, v) for k, v in more if k != "Content-Encoding")
            return Answer(304, b"", kind, kept)
        return Answer(200, data, kind, tuple(more))

    def _pack(self, name: str, data: bytes) -> bytes:
        found = self._packed.get(name)
        if found is None:
            found = self._packed[name] = gzip.compress(data, 6, mtime=0)
            while len(self._packed) > _PACKED_KEPT:
                self._packed.popitem(last=False)
        return found

    async def _computed(
        self, method: str, name: str, headers: Mapping[str, str], query: str, receive: Receive
    ) -> Answer:
        if name not in MOST_BYTES:
            raise Refused(404, "not_found", "there is no such answer")
        if method != "POST":
            raise _wrong_method("POST")
        if not same_origin(headers):
            raise Refused(403, "other_origin", "the request comes from a page of another origin")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in _TYPES[name]:
            expected = " or ".join(_TYPES[name])
            raise Refused(415, "wrong_type", f"expected Content-Type: {expected}")
        body = await _body(headers, receive, MOST_BYTES[name], READ_SECONDS[name])
        if self._turn is None:
            self._turn = asyncio.Semaphore(1)  # of the loop that serves
        async with self._turn:  # one at a time: they take memory
            try:
                found = await asyncio.to_thread(self._compute, name, body, query)
            except Refusal as refusal:
                raise Refused(refusal.status, refusal.code, refusal.reason, refusal.field) from None
        return Answer(200, to_bytes(found), _JSON, (("Cache-Control", "no-store"),))

    def _compute(self, name: str, body: bytes, query: str) -> Any:
        if name == "api/route":
            return self.answers.route(body)
        try:
            given = parse_qs(query, max_num_fields=20).get("name", ["results"])
        except ValueError:
            given = ["results"]
        return self.answers.onboard(body, given[0])


async def _body(headers: Mapping[str, str], receive: Receive, most: int, seconds: float) -> bytes:
    """The whole body, if it is small enough and comes in time."""
    too_large = Refused(413, "too_large", f"the body is larger than {most:,} bytes",
                        headers=(("Connection", "close"),))  # fmt: skip
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > most:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message: Message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "gone", "the request was broken off")
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                if size > most:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Refused(408, "too_slow", "the body did not arrive in time",
                      headers=(("Connection", "close"),)) from None  # fmt: skip


async def _send(send: Send, answer: Answer, head: bool) -> None:
    given = [*SECURITY, *answer.headers]
    if answer.status not in (304,):
        given += [("Content-Type", answer.kind), ("Content-Length", str(len(answer.body)))]
    if not any(k == "Cache-Control" for k, _ in answer.headers):
        given.append(("Cache-Control", "no-store"))
    headers = [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in given]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})


def _wrong_method(allowed: str) -> Refused:
    return Refused(405, "wrong_method", f"expected {allowed}", headers=(("Allow", allowed),))


def _takes_gzip(header: str) -> bool:
    for part in header.split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _matches(header: str, tag: str) -> bool:
    return any(t.strip().removeprefix("W/") in (f'"{tag}"', "*") for t in header.split(","))


def _plain(text: str) -> str:
    return text[:100].encode("unicode_escape").decode("ascii")

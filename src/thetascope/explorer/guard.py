"""Who may ask the explorer's server, and the headers of every answer. Pure functions.

Bound to this machine alone, only requests that name it by a loopback name are answered: a page
elsewhere whose name was made to point here (DNS rebinding) is refused. Bound elsewhere, a token
is demanded, in the address once, then in a cookie.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

SECURITY: tuple[tuple[str, str], ...] = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
        " img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'self' http://localhost:* http://127.0.0.1:*",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
"""On every answer."""


@dataclass(frozen=True)
class Door:
    """Whom a server lets in.

    Attributes:
        host: Address that it listens on.
        port: Its port.
        token: What a request has to know; None where it listens on loopback alone.
    """

    host: str
    port: int
    token: str | None

    @property
    def cookie(self) -> str:
        """Name of the cookie: cookies are not told apart by port."""
        return f"thetascope_{self.port}"

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        query = "" if self.token is None else f"?token={self.token}"
        return f"http://{shown}:{self.port}/{query}"

    def knows_host(self, header: str) -> bool:
        """Whether the Host header is a name of this server."""
        if self.token is not None:  # reached by names that are not known here
            return True
        name = host_name(header)
        return name == self.host or is_loopback(name)

    def admits(self, headers: Mapping[str, str], query: str) -> bool:
        """Whether the request knows the token, where one is demanded."""
        if self.token is None:
            return True
        known = same(self.token_of(query), self.token)
        known |= same(bearer(headers.get("authorization", "")), self.token)
        return known | same(cookie(headers.get("cookie", ""), self.cookie), self.token)

    def token_of(self, query: str) -> str:
        """The token in an address."""
        try:
            found = parse_qs(query, max_num_fields=20).get("token", [""])
        except ValueError:
            return ""
        return found[0]


def make_door(host: str, port: int) -> Door:
    """A door with a new token, where it is seen from elsewhere."""
    return Door(host, port, None if is_loopback(host) else secrets.token_urlsafe(24))


def is_loopback(host: str) -> bool:
    """Whether an address or a name is this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_name(header: str) -> str:
    """The name in a Host header, without the port; '' where it is none."""
    try:
        return (urlsplit(f"//{header}").hostname or "") if "@" not in header else ""
    except ValueError:
        return ""


def same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a request that computes comes from this page, or from no page at all."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        found = urlsplit(origin)
    except ValueError:
        return False
    return (
        found.scheme in ("http", "https")
        and found.netloc.lower() == headers.get("host", "").lower()
    )


def same(given: str, token: str) -> bool:
    """Whether two secrets are equal, in a time that tells nothing of where they differ."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


def bearer(header: str) -> str:
    """The token of an Authorization header."""
    kind, _, value = header.partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


def cookie(header: str, name: str) -> str:
    """One cookie of a Cookie header."""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value

"""Opens the explorer's pages in Chromium and keeps account of all that must not happen there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--use-gl=angle", "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
)  # fmt: skip
PAGES = ("overview", "map", "models", "concepts", "benchmarks", "items", "route")
STATES = (
    *(f"#/{name}" for name in PAGES), "#/map?by=cluster", "#/map?lasso=-9,-9_9,-9_9,9_-9,9",
    "#/models?a=1", "#/models?a=1&b=2", "#/concepts?concept=3&model=1&beside=2",
    "#/concepts?mode=benchmark", "#/benchmarks?benchmark=0", "#/items?item=0",
)  # fmt: skip
"""Addresses of all that a page can be about."""
READY = "main[data-page='{}'][data-ready='true']"

_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", e =>
  window.violations.push(`${e.effectiveDirective} ${e.blockedURI} ${e.sample}`));
"""
_MARKUP = """() => ({
  pwned: "pwned" in window,
  violations: window.violations,
  scripts: [...document.querySelectorAll("script")].map(s => [s.src, s.textContent.trim()]),
  // what markup in a name would have made, had it been read as markup
  strange: [...document.querySelectorAll(
    "iframe, object, embed, b, img[src='x'], [onerror], [onload], [onclick]")]
    .filter(e => e.tagName !== "B" || ["bold", "1"].includes(e.textContent)).map(e => e.outerHTML),
})"""
STATE = """() => ({
  text: document.querySelector("main").innerText,
  choices: [...document.querySelectorAll("main select, main input")].map(e =>
    [e.getAttribute("aria-label") || e.name || e.id, e.type === "checkbox" ? e.checked : e.value]),
  pressed: ["pressed", "selected", "sort", "current", "expanded"].flatMap(a =>
    [...document.querySelectorAll(`main [aria-${a}]`)].map(e =>
      `${a} ${e.getAttribute("aria-" + a)} ${e.textContent.trim().slice(0, 60)}`)),
})"""
"""What a person sees of a page: its words, what is chosen, what is pressed."""


@dataclass
class Watched:
    """A page and what it did.

    Attributes:
        page: Playwright's page.
        site: The site's address.
        faults: Errors on the console, failed requests, requests to elsewhere, dialogs.
    """

    page: Any
    site: str
    faults: list[str] = field(default_factory=list)

    def open(self, address: str) -> Watched:
        """Goes to an address behind '#', anew, and waits until the page says that it is ready."""
        self.page.goto("about:blank")
        self.page.goto(self.site + address)
        return self.settled()

    def settled(self) -> Watched:
        """Waits until the page that the address names is ready and drawn."""
        name = self.page.evaluate("location.hash").removeprefix("#/").partition("?")[0]
        self.page.wait_for_selector(READY.format(name or "overview"), timeout=30_000)
        self.page.wait_for_load_state("networkidle")
        # a figure is drawn once its library is read and its width is known: until nothing changes
        last = self.state()
        for _ in range(40):
            self.page.wait_for_timeout(120)
            now = self.state()
            if now == last:
                break
            last = now
        return self

    def state(self) -> Any:
        """What a person sees, see `STATE`."""
        return self.page.evaluate(STATE)

    def check(self) -> None:
        """Asserts that nothing happened that must not."""
        found = self.page.evaluate(_MARKUP)
        assert not found["pwned"], "a name or a text ran as a script"
        assert found["violations"] == []
        assert found["strange"] == []
        for source, text in found["scripts"]:
            assert source.startswith(self.site), source
            assert not text, "an inline script"
        alerts = self.page.locator("[role=alert]").all_inner_texts()
        assert alerts == []
        assert self.faults == []


@contextmanager
def watched(browser: Any, site: str, **options: Any) -> Iterator[Watched]:
    """A page in a context of its own that tells all that it does.

    Args:
        browser: Playwright's browser.
        site: The site's address, with a slash at its end.
        options: Of the context: viewport, color_scheme, ...
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.add_init_script(_WATCH)
    page = context.new_page()
    found = Watched(page, site)
    origin = urlsplit(site)[:2]

    def asked(request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts[:2] != origin:
            found.faults.append(f"a request to {request.url}")

    def answered(response: Any) -> None:
        if response.status >= 400:
            found.faults.append(f"{response.status} {response.url}")

    page.on("request", asked)
    page.on("response", answered)
    page.on("requestfailed", lambda r: found.faults.append(f"failed: {r.url} {r.failure}"))
    page.on("pageerror", lambda e: found.faults.append(f"error: {e}"))
    page.on("dialog", lambda d: (found.faults.append(f"dialog: {d.message}"), d.dismiss()))
    page.on(
        "console",
        lambda m: (
            found.faults.append(f"console: {m.text}") if m.type in ("error", "warning") else None
        ),
    )
    try:
        yield found
    finally:
        context.close()


@contextmanager
def static_site(folder: Path) -> Iterator[str]:
    """Serves a folder as any host would, and gives its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def violations(page: Any) -> list[str]:
    """axe-core's serious and critical findings, one line each."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{v['impact']} {v['id']}: {json.dumps([n['target'] for n in v['nodes'][:4]])}"
        f" {v['nodes'][0]['failureSummary'][:300]}"
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
    ]

"""Whether every page of the explorer works, how fast it is, and how large, in headless Chromium.

    python -m benchmarks.explorer_page [--work DIR] [--bundled STUDY] [--large STUDY] [--runs 5]

Bars: first useful paint (the overview has its data and is painted, in a browser without a cache;
the first visit, and the median of later ones) of the bundled study under 1.5 s and of 36,000 items
x 112 models x 16,384 concepts under 4 s, served and published; on both, both ways, all that a page
can be about without an error on the console, a request elsewhere, anything against the
Content-Security-Policy, a name read as markup, or a serious finding of axe-core; recolouring 36,000
points under 150 ms; sorting and searching a table of 16,384 concepts under 150 ms, each from the
event to the painted change, the median over several; all of the page's files under 500 kB gzipped;
the bundled study's export under 12 MB. WebGL is in software. The bundled study gets a fit,
taxonomy, map of models, gaps and bank first, the large one is made, where they are not given;
--work keeps both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright
from tests.explorer.browser_pages import ARGUMENTS, CHROMIUM, STATES, violations, watched

from benchmarks.bars import Bars
from benchmarks.explorer_study import Plan, make
from thetascope.decisions.saved import study_bank
from thetascope.demo.demo import bundled_study
from thetascope.explorer.page import page_files
from thetascope.explorer.publish import publish
from thetascope.gaps.saved import gaps_study
from thetascope.space.saved import models_study, taxonomy_study
from thetascope.study import store

_CLOCK = """
new MutationObserver(() => {
  if (window.useful || !document.querySelector("main[data-ready='true']")) return;
  window.useful = -1;
  requestAnimationFrame(() => requestAnimationFrame(() => { window.useful = performance.now(); }));
}).observe(document, {subtree: true, childList: true, attributes: true});
"""
_PAINTED = """() => new Promise(done => {
  const first = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null;
  const ask = () => window.useful > 0 ? done([window.useful, first()]) : setTimeout(ask, 5);
  ask();
})"""
_RECOLOUR = """async value => {
  const list = [...document.querySelectorAll("main select")].find(e =>
    [...e.options].some(o => o.value === value));
  const canvas = document.querySelector("main canvas"), gl = canvas.getContext("webgl");
  const painted = new Promise(done => new MutationObserver(done).observe(
    canvas, {attributes: true, attributeFilter: ["data-painted"]}));
  const start = performance.now();
  list.value = value;
  list.dispatchEvent(new Event("change", {bubbles: true}));
  await painted;
  gl?.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""
_ROWS = """async act => {
  const shown = () => document.querySelector("main table tbody").innerText;
  const before = shown(), start = performance.now();
  if (act.sort) [...document.querySelectorAll("main table button.sort")].find(e =>
    e.getAttribute("aria-label") === act.sort).click();
  else {
    const box = document.querySelector("main input[type=search][placeholder='words of the label']");
    box.value = act.search;
    box.dispatchEvent(new Event("input", {bubbles: true}));
  }
  for (let k = 0; k < 300; k++) {
    await new Promise(requestAnimationFrame);
    if (shown() !== before) return performance.now() - start;
  }
  return null;
}"""
_TURN = """async () => {
  const canvas = document.querySelector("main canvas"), gl = canvas.getContext("webgl");
  const box = canvas.getBoundingClientRect(), found = [];
  for (let k = 0; k < 30; k++) {
    const start = performance.now();
    canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: k % 2 ? 40 : -40, bubbles: true,
      cancelable: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2}));
    await new Promise(requestAnimationFrame);
    gl?.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
    found.push(performance.now() - start);
  }
  return found;
}"""


@contextmanager
def process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is stopped at the end."""
    made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield made
    finally:
        made.send_signal(signal.SIGINT)
        try:
            made.wait(20)
        except subprocess.TimeoutExpired:
            made.kill()


@contextmanager
def served(study: Path) -> Iterator[str]:
    """The address at which `thetascope explore` shows a study."""
    command = [sys.executable, "-m", "thetascope", "explore", str(study), "--port", "0",
               "--no-browser", "--json"]  # fmt: skip
    start = time.perf_counter()
    with process(command) as made:
        assert made.stdout is not None
        said = b""
        while not said.rstrip().endswith(b"}"):
            line = made.stdout.readline()
            assert line, "the server ended"
            said += line
        print(f"     `explore` says its address after {time.perf_counter() - start:.1f} s")
        yield json.loads(said)["url"]


@contextmanager
def static(folder: Path) -> Iterator[str]:
    """The address at which a plain web server shows a folder."""
    code = (
        "import functools,http.server as h,sys\n"
        "class Q(h.SimpleHTTPRequestHandler):\n"
        "    def log_message(self,*a): pass\n"
        "s=h.ThreadingHTTPServer(('127.0.0.1',0),functools.partial(Q,directory=sys.argv[1]))\n"
        "print(s.server_port,flush=True)\n"
        "s.serve_forever()\n"
    )
    with process([sys.executable, "-c", code, str(folder)]) as made:
        assert made.stdout is not None
        yield f"http://127.0.0.1:{int(made.stdout.readline())}/"


def first_paint(browser: Any, site: str, runs: int) -> tuple[list[float], float]:
    """Seconds to the useful overview, visit by visit; and the median to the first paint at all."""
    useful, any_paint = [], []
    for _ in range(runs):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(_CLOCK)
        page = context.new_page()
        page.goto(site + "#/overview")
        ready, painted = page.evaluate(_PAINTED)
        useful.append(max(ready, painted or 0) / 1000)
        any_paint.append((painted or ready) / 1000)
        context.close()
    return useful, float(np.median(any_paint))


def all_pages(browser: Any, site: str) -> tuple[list[str], float]:
    """What is wrong on any page, a line each; and the seconds of the slowest to settle."""
    wrong, slowest = [], 0.0
    with watched(browser, site) as page:
        for address in STATES:
            start = time.perf_counter()
            try:
                page.open(address).check()
                wrong += [f"{address}: {line}" for line in violations(page.page)]
            except (AssertionError, PlaywrightError) as error:
                wrong.append(f"{address}: {str(error).splitlines()[0]}")
            slowest = max(slowest, time.perf_counter() - start)
    return wrong, slowest


def opened(browser: Any, site: str, address: str) -> Any:
    """A page that is ready."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(site + address)
    page.wait_for_selector("main[data-ready='true']", timeout=120_000)
    page.wait_for_load_state("networkidle")
    return page


def interaction(browser: Any, site: str, runs: int, bars: Bars) -> None:
    """Recolouring, turning the map, sorting and searching, on the large study."""
    page = opened(browser, site, "#/map")
    page.wait_for_selector("main canvas[data-painted]")
    values = ["subject", "error", "cluster", "norm", "benchmark"]
    once = [page.evaluate(_RECOLOUR, v) for v in values]  # the first time much is compiled
    times = [page.evaluate(_RECOLOUR, v) for _ in range(runs) for v in values]
    print(f"     recolouring, the first time: {', '.join(f'{t:.0f}' for t in once)} ms")
    bars.at_most("recolouring 36,000 points, median", float(np.median(times)), 150, "ms")
    print(f"     at most {max(times):.0f} ms of {len(times)}")
    frames = page.evaluate(_TURN)
    print(f"     a frame while zooming: median {np.median(frames):.0f}, most {max(frames):.0f} ms")
    page.context.close()
    page = opened(browser, site, "#/concepts?mode=benchmark&benchmark=1&show=all")
    names = page.locator("main table button.sort").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label'))"
    )
    n_rows = int(page.locator("main table").first.get_attribute("aria-rowcount") or 0) - 1
    print(f"     the table has {n_rows:,} rows")
    acts = {
        "sorting": [{"sort": name} for name in [*names, *names]],
        "searching": [{"search": w} for w in ("p", "pr", "prime", "prime 1", "", "vote 77", "")],
    }
    for what, each in acts.items():
        found = [page.evaluate(_ROWS, act) for _ in range(runs) for act in each]
        moved = [t for t in found if t is not None]
        bars.at_most(f"{what} the table of concepts, median", float(np.median(moved)), 150, "ms")
        print(f"     at most {max(moved):.0f} ms of {len(moved)} ({len(found) - len(moved)} times"
              " the rows in sight stayed the same)")  # fmt: skip
    page.context.close()


def sizes(bundled: Path, bars: Bars) -> None:
    """The page's files and the bundled study's export."""
    packed = {name: len(gzip.compress(data, 9)) for name, data in page_files().items()}
    bars.at_most("the page's files, gzipped", sum(packed.values()) / 1e3, 500, "kB")
    first = {n: s for n, s in packed.items() if n.endswith(("index.html", "index.js", ".css"))}
    print(f"     of these before the overview: {sum(first.values()) / 1e3:.0f} kB")
    whole = sum(f.stat().st_size for f in bundled.rglob("*") if f.is_file())
    bars.at_most("export of the bundled study", whole / 1e6, 12, "MB")


def prepared(work: Path) -> Path:
    """The bundled study with everything."""
    folder = work / "bundled"
    if not store.is_study(folder):
        bundled_study(folder)
        taxonomy_study(folder)
        models_study(folder)
        gaps_study(folder)
        study_bank(folder)
    return folder


def measure(work: Path, bundled: Path | None, large: Path | None, runs: int) -> None:
    """All of it."""
    studies = {"bundled": bundled or prepared(work), "large": large or work / "large"}
    if not store.is_study(studies["large"]):
        make(studies["large"], Plan(), tell=print)
    published: dict[str, Path] = {}
    for name, study in studies.items():
        published[name] = work / f"published-{name}"
        if not published[name].exists():
            start = time.perf_counter()
            made = publish(study, published[name])
            print(f"     {name}: published in {time.perf_counter() - start:.0f} s,"
                  f" {made.n_files:,} files, {made.n_bytes / 1e6:.1f} MB")  # fmt: skip
    bars = Bars()
    sizes(published["bundled"], bars)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        for name, bar in (("bundled", 1.5), ("large", 4.0)):
            for way, at in (("published", static(published[name])),
                            ("served", served(studies[name]))):  # fmt: skip
                with at as site:
                    useful, painted = first_paint(browser, site, runs + 1)
                    what = f"{name}, {way}: first useful paint"
                    # a server makes its files when they are first asked for
                    bars.at_most(f"{what}, the first visit", useful[0], bar, "s")
                    bars.at_most(f"{what}, later, median", float(np.median(useful[1:])), bar, "s")
                    print(f"     at most {max(useful[1:]):.2f} s of {runs},"
                          f" first paint {painted:.2f} s")  # fmt: skip
                    wrong, slowest = all_pages(browser, site)
                    bars.at_most(f"{name}, {way}: faults on {len(STATES)} pages", len(wrong), 0)
                    print("".join(f"     {line}\n" for line in wrong), end="")
                    print(f"     the slowest settled after {slowest:.1f} s")
        with static(published["large"]) as site:
            interaction(browser, site, runs, bars)
        browser.close()
    bars.finish()


def main() -> None:
    """Measures."""
    parser = argparse.ArgumentParser()
    for name in ("work", "bundled", "large"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    if not CHROMIUM.is_file():
        print(f"skipped: there is no Chromium at {CHROMIUM}")
        return
    if given.work is not None:
        given.work.mkdir(parents=True, exist_ok=True)
        measure(given.work, given.bundled, given.large, given.runs)
        return
    with tempfile.TemporaryDirectory() as aside:
        measure(Path(aside), given.bundled, given.large, given.runs)


if __name__ == "__main__":
    main()

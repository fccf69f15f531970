"""The pages for everyone: keyboard, small screens, both schemes, axe-core, downloads."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from benchmarks.explorer_study import SMALL
from tests.explorer.browser_pages import PAGES, STATES, Watched, violations, watched
from tests.explorer.conftest import Sites

pytestmark = pytest.mark.browser
STUDIES = ("small-published", "bundled-published")

_REACHABLE = """() => {
  const seen = [...document.querySelectorAll(
    "a[href], button, select, input, textarea, summary, [tabindex]")].filter(e =>
    e.tabIndex >= 0 && !e.disabled && e.checkVisibility({visibilityProperty: true})
    && !(e.type === "radio" && !e.checked && document.querySelector(
      `input[type=radio][name="${CSS.escape(e.name)}"]:checked`)));
  seen.forEach((e, k) => e.dataset.turn = k);
  return seen.length;
}"""
_FOCUS = """() => {
  const e = document.activeElement, s = getComputedStyle(e);
  const of = t => t.getAttribute && `${t.tagName} ${t.textContent.trim().slice(0, 40)}`;
  const line = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0;
  return {turn: e.dataset.turn ?? null, what: of(e), body: e === document.body,
    visible: line || s.boxShadow !== "none"};
}"""


@pytest.mark.parametrize("name", PAGES)
def test_all_is_reached_by_the_keyboard_and_seen_to_be(
    browser: Any, sites: Sites, name: str
) -> None:
    with watched(browser, sites["small-served"]) as page:
        page.open(f"#/{name}")
        n = page.page.evaluate(_REACHABLE)
        reached: set[str] = set()
        hidden: set[str] = set()
        for _ in range(4 * n + 20):  # rows that come into sight are stops, too
            page.page.keyboard.press("Tab")
            found = page.page.evaluate(_FOCUS)
            if found["body"]:
                break
            if found["turn"] is not None:
                reached.add(found["turn"])
            if not found["visible"]:
                hidden.add(found["what"])
        assert hidden == set(), "focus cannot be seen"
        there = page.page.evaluate(
            "() => [...document.querySelectorAll('[data-turn]')].map(e => [e.dataset.turn,"
            " e.tagName + ' ' + e.textContent.trim().slice(0, 40)])"
        )
        missed = [what for turn, what in there if turn not in reached]
        assert missed == [], f"{len(missed)} of {n} are not reached"


@pytest.mark.parametrize("address", STATES)
@pytest.mark.parametrize("site", STUDIES)
def test_a_phone_shows_it_without_sideways_scrolling(
    browser: Any, sites: Sites, site: str, address: str
) -> None:
    with watched(browser, sites[site], viewport={"width": 390, "height": 844}) as page:
        page.open(address)
        wide = page.page.evaluate("""() => [...document.querySelectorAll("body *")].filter(e => {
          const box = e.getBoundingClientRect();
          for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
            if (getComputedStyle(p).overflowX !== "visible") return false;
          return box.width && box.right > innerWidth + 1;
        }).map(e => `${e.tagName}.${e.className} ${e.textContent.trim().slice(0, 40)}`)""")
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 390, wide[:5]
        assert page.page.evaluate("document.body.scrollWidth") <= 390, wide[:5]
        page.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", STATES)
@pytest.mark.parametrize("site", STUDIES)
def test_axe_finds_nothing_serious(
    browser: Any, sites: Sites, site: str, address: str, scheme: str
) -> None:
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    with watched(browser, sites[site], color_scheme=scheme) as page:
        page.open(address)
        assert violations(page.page) == []


def test_the_schemes_differ_and_the_button_switches(browser: Any, sites: Sites) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    seen: dict[str, str] = {}
    for scheme in ("light", "dark"):
        with watched(browser, sites["small-published"], color_scheme=scheme) as page:
            page.open("#/overview")
            seen[scheme] = page.page.evaluate(ground)
            page.page.get_by_role("button", name="colours").click()
            assert page.page.evaluate(ground) != seen[scheme]
    assert seen["light"] != seen["dark"]


def saved(page: Watched, button: Any) -> bytes:
    """What pressing a button downloads."""
    with page.page.expect_download(timeout=20_000) as waiting:
        button.click()
    return Path(waiting.value.path()).read_bytes()


@pytest.mark.parametrize(
    ("address", "kinds"),
    [("#/overview", {"PNG", "SVG", "CSV"}), ("#/map?arrows=1", {"PNG", "SVG", "CSV"}),
     (f"#/models?a={SMALL.n_models // 2}", {"PNG", "SVG", "CSV"}),
     ("#/models?a=5&b=11", {"CSV"}), ("#/concepts", {"PNG", "SVG", "CSV"}),
     ("#/concepts?mode=benchmark&benchmark=1", {"CSV"}),
     ("#/benchmarks?benchmark=1", {"PNG", "SVG", "CSV"}), ("#/items", {"CSV"})],
)  # fmt: skip
def test_figures_and_tables_are_downloaded(
    browser: Any, sites: Sites, address: str, kinds: set[str]
) -> None:
    with watched(browser, sites["small-published"]) as page:
        page.open(address)
        buttons = page.page.get_by_role("button", name=re.compile("^(PNG|SVG|CSV|Download.*)$"))
        seen: set[str] = set()
        for turn in range(buttons.count()):
            button = buttons.nth(turn)
            kind, content = button.inner_text().strip(), saved(page, button)
            seen.add(kind)
            if kind == "PNG":
                assert content.startswith(b"\x89PNG\r\n")
                assert len(content) > 500
            elif kind == "SVG":
                root = ET.fromstring(content)
                assert root.tag == "{http://www.w3.org/2000/svg}svg"
                assert len(list(root.iter())) > 5
                assert not [e for e in root.iter() if e.tag.endswith("script")]
            else:
                assert kind == "CSV"
                assert len(content.decode("utf-8-sig").splitlines()) > 1
        assert seen >= kinds
        page.check()

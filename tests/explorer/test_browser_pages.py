"""Every page on two studies, served and published: nothing fails, nothing leaks, nothing runs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from benchmarks.explorer_concepts import HOSTILE_LABELS
from benchmarks.explorer_study import (
    HOSTILE_BENCHMARK,
    HOSTILE_MODELS,
    HOSTILE_SUBJECT,
    HOSTILE_TEXT,
    SMALL,
)
from tests.explorer.browser_pages import PAGES, Watched, watched
from tests.explorer.conftest import Sites

pytestmark = pytest.mark.browser
SITES = ("small-served", "small-published", "bundled-served", "bundled-published")
WEAK = SMALL.n_models // 2
NAMES = {
    "overview": HOSTILE_MODELS,
    "map": (HOSTILE_BENCHMARK,),
    "models": HOSTILE_MODELS,
    "concepts": HOSTILE_MODELS,
    "benchmarks": (HOSTILE_BENCHMARK,),
    "items": (HOSTILE_BENCHMARK, HOSTILE_SUBJECT),
}
"""What must stand on a page as it is, character by character."""


def body(page: Any) -> str:
    """All words of the page, those of lists to choose from too."""
    return page.evaluate("document.body.textContent")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("site", SITES)
def test_nothing_happens_that_must_not(browser: Any, sites: Sites, site: str, name: str) -> None:
    with watched(browser, sites[site]) as page:
        page.open(f"#/{name}").check()
        if site.startswith("small") and name in NAMES:
            shown = body(page.page)
            for text in NAMES[name]:
                assert text in shown
        assert page.page.title()


@pytest.mark.parametrize("site", SITES[:2])
def test_names_are_text_in_every_state(browser: Any, sites: Sites, site: str) -> None:
    first = own_concepts(browser, sites[site])[0]
    states = {
        f"#/models?a={WEAK}&b={WEAK + 1}": HOSTILE_MODELS,
        f"#/concepts?mode=model&model={WEAK}&concept={first}": HOSTILE_LABELS[:1],
        f"#/concepts?mode=benchmark&benchmark=0&concept={first}": (
            HOSTILE_BENCHMARK, *HOSTILE_LABELS[:1],
        ),
        "#/benchmarks?benchmark=0": (HOSTILE_BENCHMARK,),
        "#/items?item=0": (HOSTILE_TEXT, HOSTILE_BENCHMARK, HOSTILE_SUBJECT),
    }  # fmt: skip
    with watched(browser, sites[site]) as page:
        for address, names in states.items():
            page.open(address).check()
            for name in names:
                assert name in body(page.page), address


def own_concepts(browser: Any, site: str) -> list[int]:
    """Concepts with the hostile labels, by the links of the page that lists them."""
    import numpy as np
    from benchmarks.explorer_concepts import draw_activations

    del browser, site
    rng = np.random.default_rng(SMALL.seed)
    subject = np.sort(rng.integers(0, SMALL.n_subjects, SMALL.n_items))
    held = draw_activations(subject, SMALL.n_concepts, SMALL.n_active, SMALL.n_benchmarks, rng)
    return held.own.tolist()


@pytest.mark.parametrize(
    "address",
    ["#/nothing", "#/items?item=999999", "#/items?item=-1", "#/models?a=abc&b=1e9",
     "#/concepts?concept=99999999&model=-3", "#/benchmarks?benchmark=<b>", "#/map?color=__proto__",
     "#/%00?%00=%00", "#/map?lasso=NaN,1,2"],
)  # fmt: skip
def test_odd_addresses_show_a_page_or_say_what_is_wrong(
    browser: Any, sites: Sites, address: str
) -> None:
    with watched(browser, sites["small-published"]) as page:
        page.page.goto(sites["small-published"] + address)
        page.page.wait_for_selector("main[data-ready='true']", timeout=30_000)
        assert page.faults == []
        assert page.page.locator("main").inner_text().strip()


CONTROLS = {
    "list": "main select:visible",
    "tabs": "main .tabs:visible",
    "table": "main table:has(button.sort):visible",
    "box": "main input[type=checkbox]:visible",
}
"""Kinds of what a person changes on a page, and where each stands."""


def change(control: Any, kind: str) -> bool:
    """Takes another choice of a list, another tab, order or tick; False where there is none."""
    if kind == "list":
        values = control.evaluate(
            "e => [...e.options].filter(o => !o.disabled && o.value !== e.value).map(o => o.value)"
        )
        if values:
            control.select_option(values[-1])
        return bool(values)
    if kind == "box":
        control.click()
        return True
    of = "button[aria-pressed=false]" if kind == "tabs" else "button.sort"
    buttons = control.locator(of)
    if buttons.count():
        buttons.last.click()
    return buttons.count() > 0


def changed(page: Watched, address: str) -> list[tuple[str, str]]:
    """Changes every control of a page in turn; gives each one's kind and the address after it."""
    found: list[tuple[str, str]] = []
    for kind, where in CONTROLS.items():
        page.open(address)
        for turn in range(page.page.locator(where).count()):
            page.open(address)
            if change(page.page.locator(where).nth(turn), kind):
                page.settled()
                found.append((kind, page.page.evaluate("location.hash")))
    return found


@pytest.mark.parametrize(
    ("start", "kinds"),
    [("#/overview", "table"), ("#/map", "list box"),
     ("#/map?lasso=-9,-9_9,-9_9,9_-9,9", "tabs table"),
     ("#/models", "list table"), ("#/models?a=1", "list tabs"), ("#/models?a=1&b=2", "tabs table"),
     ("#/concepts", "list tabs table"), ("#/concepts?model=1&concept=3", "list"),
     ("#/concepts?mode=groups", "table"), ("#/benchmarks", "list table"),
     ("#/benchmarks?benchmark=0", "tabs table"), ("#/items", "list tabs table"),
     ("#/items?item=0", "table")],
)  # fmt: skip
def test_an_address_holds_the_whole_state(
    browser: Any, sites: Sites, start: str, kinds: str
) -> None:
    """Whatever is changed stands in the address, and the address brings it back."""
    with watched(browser, sites["small-served"]) as page:
        plain = page.open(start).state()
        found = changed(page, start)
        assert set(kinds.split()) <= {kind for kind, _ in found}
        for kind, address in found:
            assert address != start, f"a {kind} that the address does not hold"
            page.open(address)
            first = page.state()
            assert first != plain, address
            page.page.reload()
            assert page.settled().state() == first, address
        page.check()


def test_a_concept_of_a_pair_keeps_both_models(browser: Any, sites: Sites) -> None:
    """From two models to a concept on which they differ, and back."""
    with watched(browser, sites["small-served"]) as page:
        pair = f"#/models?a={WEAK}&b={WEAK + 1}"
        page.open(f"{pair}&side=all&flags=1")
        page.page.locator("table[aria-label*='two models differ'] tbody a").first.click()
        card = page.settled().page.locator("article")
        first, second = HOSTILE_MODELS[0], page.page.locator("main select").nth(1)
        chosen = second.evaluate("e => e.selectedOptions[0].textContent")
        text = card.text_content()
        assert first in text
        assert chosen in text
        assert "items that both answered" in text
        card.get_by_role("link", name="beside").click()
        page.settled()
        assert page.page.evaluate("location.hash") == pair
        page.check()


@pytest.mark.parametrize("site", ["small-published", "bundled-published"])
def test_a_score_on_a_concept_is_the_mean_of_its_tiles(
    browser: Any, sites: Sites, site: str
) -> None:
    """Every benchmark with a trace counts, those that are too few items to test as well."""
    share = re.compile(r"score ([\d.]+) %")
    with watched(browser, sites[site]) as page:
        page.open("#/concepts?model=1")
        page.page.locator("table[aria-label^='Concepts of'] tbody tr").nth(1).click()
        card = page.settled().page.locator("article")
        whole = re.search(
            r"score ([\d.]+) %", card.locator("p", has_text="n_eff").first.inner_text()
        )
        assert whole is not None
        tiles = card.locator(".tile").all_inner_texts()
        parts = [float(m[1]) for m in map(share.search, tiles) if m]
        assert 1 <= len(parts) <= len(tiles)
        assert abs(float(whole[1]) - sum(parts) / len(parts)) < 0.3  # each is rounded
        page.check()


def test_back_and_forward_restore_a_page(browser: Any, sites: Sites) -> None:
    with watched(browser, sites["small-published"]) as page:
        first = page.open("#/overview").state()
        page.page.get_by_role("link", name="Concepts").first.click()
        second = page.settled().state()
        assert second != first
        page.page.go_back()
        assert page.settled().state() == first
        page.page.go_forward()
        assert page.settled().state() == second
        page.check()


@pytest.mark.parametrize(
    ("address", "named"),
    [("#/models?a=999", "a 999"), ("#/concepts?concept=-1", "concept -1"),
     ("#/items?item=abc", "item abc"), ("#/nosuch", "page nosuch")],
)  # fmt: skip
def test_a_link_to_what_is_not_there_is_told(
    browser: Any, sites: Sites, address: str, named: str
) -> None:
    with watched(browser, sites["small-published"]) as page:
        page.page.goto(sites["small-published"] + address)
        page.page.wait_for_selector("main[data-ready='true']", timeout=30_000)
        told = page.page.get_by_text("does not have").first.inner_text()
        assert named in told
        page.check()


def test_what_a_model_fails_against_expectation_is_a_list(browser: Any, sites: Sites) -> None:
    """From a model's profile: its misses, the most expected to be right first."""
    with watched(browser, sites["small-published"]) as page:
        page.open("#/models?a=1")
        page.page.get_by_role("link", name="although the space expects it right").click()
        page.settled()
        cells = page.page.locator("table[aria-label=Items] tbody tr").first.locator("td")
        texts = [t.strip() for t in cells.all_inner_texts()]
        score, predicted, surprise = texts[2:5]
        assert score == "0 %"
        assert int(predicted.removesuffix(" %")) > 50
        assert int(surprise.replace("−", "-")) < -50
        page.check()

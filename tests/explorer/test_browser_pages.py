"""Every page on two studies, served and published: nothing fails, nothing leaks, nothing runs."""

from __future__ import annotations

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


def changed(page: Watched, name: str) -> list[str]:
    """Takes another choice of every list on the page, in turn; returns the addresses."""
    found: list[str] = []
    page.open(f"#/{name}")
    n = page.page.locator("main select:visible").count()
    for turn in range(n):
        page.open(f"#/{name}")
        lists = page.page.locator("main select:visible")
        if turn >= lists.count():
            continue
        chosen = lists.nth(turn)
        values = chosen.evaluate(
            "e => [...e.options].filter(o => !o.disabled && o.value !== e.value).map(o => o.value)"
        )
        if not values:
            continue
        chosen.select_option(values[-1])
        page.settled()
        found.append(page.page.evaluate("location.hash"))
    return found


@pytest.mark.parametrize("name", [p for p in PAGES if p not in ("overview", "route")])
def test_an_address_holds_the_whole_state(browser: Any, sites: Sites, name: str) -> None:
    with watched(browser, sites["small-served"]) as page:
        addresses = changed(page, name)
        assert addresses, f"nothing to choose on {name}"
        plain = page.open(f"#/{name}").state()
        for address in addresses:
            assert address != f"#/{name}", "a choice that the address does not hold"
            page.open(address)
            first = page.state()
            assert first != plain, address
            page.page.reload()
            assert page.settled().state() == first, address
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

"""The page in a real browser: no errors, nothing wider than the window, sorting works."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_cases import HOSTILE, compared, made_study

from thetascope.report import write_report

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


@pytest.mark.browser
def test_no_errors_no_overflow_and_sorting(tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    study = compared(made_study(names=(*HOSTILE, "long-name-" * 12)), tmp_path / "study")
    page_file = write_report(study, tmp_path / "page.html")
    said: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        for width, scheme in ((390, "dark"), (1280, "light")):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("dialog", lambda dialog: said.append(dialog.message) or dialog.dismiss())
            page.goto(page_file.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("document.body.scrollWidth") <= width
            head = page.locator("#models th button").nth(1)
            head.click()
            head.click()
            column = (
                "[...document.querySelectorAll('#models tbody tr')].map(r => r.cells[1].dataset.v)"
            )
            ranks = [v for v in page.evaluate(column) if v]
            assert ranks == sorted(ranks, key=float)
        browser.close()
    assert said == []

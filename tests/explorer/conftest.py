"""Two studies, served and published, and a browser: each made once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.explorer_study import SMALL, make
from tests.explorer.browser_pages import ARGUMENTS, CHROMIUM, static_site

from thetascope.demo.demo import STUDY
from thetascope.gaps.saved import gaps_study


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 items, 12 models, 512 concepts, every part, and names that look like markup."""
    return make(tmp_path_factory.mktemp("small") / "study", SMALL, groups=True, bank=True)


@pytest.fixture(scope="session")
def bundled_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled study with gaps: no texts, no fit, so that much is missing."""
    folder = tmp_path_factory.mktemp("bundled") / "study"
    shutil.copytree(STUDY, folder)
    gaps_study(folder)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        yield browser
        browser.close()


def _published(study: Path, to: Path) -> Path:
    from thetascope.explorer.publish import publish

    publish(study, to)
    return to


@pytest.fixture(scope="session")
def sites(
    small_study: Path, bundled_study: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Addresses by name: a study, and how it is shown."""
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    import thetascope as ts

    folder = tmp_path_factory.mktemp("published")
    with (
        static_site(_published(small_study, folder / "small")) as small,
        static_site(_published(bundled_study, folder / "bundled")) as bundled,
    ):
        servers = [ts.explore(study, port=0) for study in (small_study, bundled_study)]
        try:
            yield {
                "small-published": small, "bundled-published": bundled,
                "small-served": servers[0].url, "bundled-served": servers[1].url,
            }  # fmt: skip
        finally:
            for server in servers:
                server.stop()

"""Two studies, served and published, each made once; and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from benchmarks.explorer_study import SMALL, make
from tests.explorer.browser_pages import ARGUMENTS, CHROMIUM, static_site

import thetascope as ts
from thetascope.demo.demo import STUDY
from thetascope.explorer.publish import publish
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium. Not for longer than a module: its event loop runs in the tests' thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def published(
    small_study: Path, bundled_study: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Addresses of both studies, published into folders that a plain web server shows."""
    folder = tmp_path_factory.mktemp("published")
    with ExitStack() as stack:
        found: dict[str, str] = {}
        for name, study in (("small", small_study), ("bundled", bundled_study)):
            publish(study, folder / name)
            found[name] = stack.enter_context(static_site(folder / name))
        yield found


@pytest.fixture(scope="session")
def served(small_study: Path, bundled_study: Path) -> Iterator[dict[str, str]]:
    """Addresses of both studies, shown by the explorer's own server."""
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    servers = {
        "small": ts.explore(small_study, port=0),
        "bundled": ts.explore(bundled_study, port=0),
    }
    yield {name: server.url for name, server in servers.items()}
    for server in servers.values():
        server.stop()


class Sites:
    """Addresses by study and way, started when they are first asked for."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request

    def __getitem__(self, name: str) -> str:
        study, _, way = name.partition("-")
        return self._request.getfixturevalue(way)[study]


@pytest.fixture
def sites(request: pytest.FixtureRequest) -> Sites:
    """Addresses by name: small or bundled, served or published."""
    return Sites(request)

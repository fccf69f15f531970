"""What the page says of a routing evaluation: every policy's figures, as they were kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.explorer.browser_pages import static_site, watched

from thetascope.decisions.routing.saved import evaluate_study, load_routing
from thetascope.decisions.routing.wording import POLICIES, row_of
from thetascope.explorer.contents import Contents
from thetascope.explorer.publish import publish
from thetascope.study import Study


@pytest.fixture(scope="module")
def evaluated(small_study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("routing") / "study"
    shutil.copytree(small_study, folder)
    evaluate_study(folder, "ridge", seeds=2)
    return folder


def test_every_policy_is_told_as_it_was_kept(evaluated: Path) -> None:
    contents = Contents(evaluated)
    found = json.loads(contents.read("routing.json"))
    table = load_routing(Study.open(evaluated)).table
    kept = [r for r in table["rows"] if r["benchmark"] == "all"]
    assert len(found["policies"]) == len(kept)
    assert f"{table['n_items']:,} unseen items" in found["told"][0]
    by_name: dict[str, Any] = {p["name"]: p for p in found["policies"]}
    for policy in ("random", "best_average", "knn", "oracle"):
        shown, row = by_name[POLICIES[policy]], row_of(table, policy)
        for value, key in zip(shown["score"], ("score", "score_low", "score_high"), strict=True):
            assert value == pytest.approx(row[key], abs=1e-4)
        for base, minus in zip(found["bases"], shown["minus"], strict=True):
            key = next(k for k, name in POLICIES.items() if name == base)
            assert minus[0] == pytest.approx(row[f"minus_{key}"], abs=1e-4)
    assert found["policies"][0]["name"] == "oracle"
    rest = [p["score"][0] for p in found["policies"][1:]]
    assert rest == sorted(rest, reverse=True)


@pytest.mark.browser
def test_the_page_shows_them(evaluated: Path, browser: Any, tmp_path: Path) -> None:
    publish(evaluated, tmp_path / "site")
    table = load_routing(Study.open(evaluated)).table
    with static_site(tmp_path / "site") as site, watched(browser, site) as page:
        page.open("#/route").check()
        rows = page.page.locator("table[aria-label=Policies] tbody tr").all_inner_texts()
        assert rows[0].startswith("oracle")
        best = next(r for r in rows if r.startswith("best average"))
        assert f"{100 * row_of(table, 'best_average')['score']:.1f} %" in best

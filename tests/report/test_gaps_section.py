"""Section What is tested: there once gaps were found, true to them, stale when they are."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_cases import Seen

from thetascope.demo.demo import STUDY
from thetascope.gaps.grouping_saved import GroupSettings, group_study, load_groups
from thetascope.gaps.interpret import interpret_study, load_interpretation
from thetascope.gaps.robust_saved import robust_study
from thetascope.gaps.saved import gaps_study, load_gaps
from thetascope.report import write_report
from thetascope.study import Study

MODEL = "gpt-4o-2024-05-13"


def section(folder: Path, to: Path) -> str | None:
    page = write_report(Study.open(folder), to / "page.html").read_text("utf-8")
    found = re.search(r'<section id="gaps">.*?</section>', page, re.DOTALL)
    return None if found is None else found[0]


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled study, eight of its models, with gaps and their checks."""
    folder = tmp_path_factory.mktemp("gaps") / "study"
    shutil.copytree(STUDY, folder)
    names = Study.open(folder).models["model"].to_list()
    kept = [MODEL, *(n for n in names if n != MODEL)][:8]
    Study.open(folder).filter(models=kept).save(folder)
    gaps_study(folder, focus=[MODEL])
    robust_study(folder, models=[MODEL])
    return folder


def test_it_says_what_was_found(bundled: Path, tmp_path: Path) -> None:
    html = section(bundled, tmp_path)
    assert html is not None
    saved = load_gaps(Study.open(bundled))
    weak = saved.list(MODEL)
    assert weak.height
    text = Seen(html).text
    assert f"Weak on {weak.height} concepts" in text
    for row in weak.head(10).iter_rows(named=True):
        assert f"{100 * row['score']:.1f}" in text
    assert "How far to trust it" in text
    assert "nan" not in text.lower().split()
    for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ElementTree.fromstring(svg)
    heat = re.findall(r'class="c0 heat"', html)
    assert len(heat) == 16


def test_groups_and_words_are_shown_once_they_are_there(bundled: Path, tmp_path: Path) -> None:
    shutil.copytree(bundled, tmp_path / "study")
    group_study(tmp_path / "study", settings=GroupSettings(k=12))
    interpret_study(tmp_path / "study")
    html = section(tmp_path / "study", tmp_path)
    assert html is not None
    text = Seen(html).text
    study = Study.open(tmp_path / "study")
    for group in load_groups(study).figures["groups"]:
        assert group["name"] in text
    for sentence in load_interpretation(study, "offline")["sentences"]:
        assert sentence["text"] in text
    assert "nan" not in text.lower().split()


def test_it_offers_the_command_where_there_are_none(tmp_path: Path) -> None:
    shutil.copytree(STUDY, tmp_path / "study")
    html = section(tmp_path / "study", tmp_path)
    assert html is not None
    assert "thetascope gaps study" in html


def test_stale_gaps_are_not_shown(bundled: Path, tmp_path: Path) -> None:
    shutil.copytree(bundled, tmp_path / "study")
    study = Study.open(tmp_path / "study")
    study.rename_models({study.models["model"][0]: "renamed"}).save(tmp_path / "study")
    html = section(tmp_path / "study", tmp_path)
    assert html is not None
    assert "other tables" in html
    assert "thetascope gaps study" in html

"""Section The leaderboard without holes: its numbers, hostile names, what is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from report_cases import HOSTILE, Seen, made_study

from thetascope.decisions import leaderboard, study_bank
from thetascope.report import write_report
from thetascope.study import Study


def section(study: Study, folder: Path) -> str:
    page = write_report(study, folder / "page.html").read_text("utf-8")
    found = re.search(r'<section id="leaderboard">.*?</section>', page, re.DOTALL)
    assert found is not None
    return found[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaderboard")
    made_study(m=8, names=HOSTILE, n=120).save(folder / "study")
    return folder


def test_without_a_bank_it_says_what_to_run(folder: Path) -> None:
    made_study(m=4, n=60).save(folder / "other")
    html = section(Study.open(folder / "other"), folder)
    assert "thetascope leaderboard other" in html
    assert "completed leaderboard yet" in html


def test_its_numbers_are_the_leaderboards(folder: Path) -> None:
    bank = study_bank(folder / "study", calibrate=False)
    html = section(Study.open(folder / "study"), folder)
    text = Seen(html).text
    for line in leaderboard(bank):
        assert f"{100 * line.mean.value:.1f}" in text
        assert f"{100 * line.raw_mean:.1f}" in text
    assert "<script" not in html
    assert "nan" not in text.lower().split()


def test_a_bank_of_other_tables_is_called_old(folder: Path) -> None:
    study = Study.open(folder / "study")
    study.rename_models({study.models["model"][0]: "renamed"}).save(folder / "study")
    assert "made from other tables" in section(Study.open(folder / "study"), folder)

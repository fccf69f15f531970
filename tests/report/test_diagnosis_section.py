"""Section Why one number is not enough: numbers, figures, hostile names, what is missing."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_cases import HOSTILE, Seen, made_study

from thetascope.predictors.diagnosis import diagnose_study, load_diagnosis
from thetascope.report import write_report
from thetascope.study import Study


def section(study: Study, folder: Path) -> str:
    page = write_report(study, folder / "page.html").read_text("utf-8")
    found = re.search(r'<section id="diagnosis">.*?</section>', page, re.DOTALL)
    assert found is not None
    return found[0]


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnosed")
    made_study(m=30, names=HOSTILE, n=160).save(folder / "study")
    diagnose_study(folder / "study", bootstraps=4)
    return folder


def test_its_numbers_stand_in_the_page(diagnosed: Path) -> None:
    study = Study.open(diagnosed / "study")
    table = load_diagnosis(study).table
    html = section(study, diagnosed)
    text = Seen(html).text
    share = table["discrimination"]["shares"]["all"]["negative"]
    assert f"{share['count']} of {share['n']} items" in text
    assert f"{table['reversals']['n']:,} cases" in text
    for row in table["losses"]["rows"]:
        if row["benchmark"] == "all":
            assert f"{row['log_loss']:.4f}" in text
    assert "Not run: jeirt_context: the study has no text vectors" in text
    assert "mirt_text" in text
    assert not re.search(r"\bnan\b", text.lower())


def test_its_figures_are_valid_and_names_are_only_text(diagnosed: Path) -> None:
    html = section(Study.open(diagnosed / "study"), diagnosed)
    figures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(figures) >= 7  # the histogram and six curves
    for figure in figures:
        assert ElementTree.fromstring(figure).find("title") is not None
    seen = Seen(html)
    assert not {"script", "img", "iframe", "b1"} & set(seen.tags)
    assert not [a for a in seen.attributes if a[1].startswith("on")]


@pytest.mark.parametrize(
    "study", [made_study(m=2), made_study(graded=True, m=26), made_study(n=5)],
    ids=["two_models", "graded", "five_items"],
)  # fmt: skip
def test_small_and_graded_studies_say_what_is_not_reported(study: Study, tmp_path: Path) -> None:
    study.save(tmp_path / "study")
    diagnose_study(tmp_path / "study", seeds=0, bootstraps=2)
    text = Seen(section(Study.open(tmp_path / "study"), tmp_path)).text
    assert "not reported, " in text.lower()
    assert "seeds = 0" in text
    assert not re.search(r"\bnan\b", text.lower())


def test_without_one_it_names_the_command(tmp_path: Path) -> None:
    made_study().save(tmp_path / "study")
    assert "thetascope diagnose study" in section(Study.open(tmp_path / "study"), tmp_path)
    diagnose_study(tmp_path / "study", seeds=0, bootstraps=2)
    made_study(n=100).save(tmp_path / "study")
    assert "made from other tables" in section(Study.open(tmp_path / "study"), tmp_path)


def test_its_comparison_is_not_taken_for_the_studys(tmp_path: Path) -> None:
    made_study().save(tmp_path / "study")
    diagnose_study(tmp_path / "study", bootstraps=2)
    page = write_report(Study.open(tmp_path / "study"), tmp_path / "x.html").read_text("utf-8")
    assert "thetascope compare study" in page

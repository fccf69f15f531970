"""The page as a whole: every section, made studies of every kind, hostile data, same bytes."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from report_cases import HOSTILE, Seen, compared, made_study

from thetascope.errors import InputError
from thetascope.predictors.saved import load_comparison
from thetascope.report import write_report
from thetascope.study import Study

SECTIONS = [
    "data",
    "models",
    "leaderboard",
    "predictors",
    "calibration",
    "difficulty",
    "space",
    "items",
    "diagnosis",
    "reading",
]


def _page(study: Study, folder: Path, **more: str) -> str:
    return write_report(study, folder / "page.html", **more).read_text("utf-8")


def _tiny(n_items: int, n_models: int) -> Study:
    rows = [
        {"item_id": f"b:{i}", "model": f"m{k}", "score": float((i + k) % 2)}
        for i in range(n_items)
        for k in range(n_models)
    ]
    return Study.from_tables(pl.DataFrame(rows))


KINDS = {
    "binary": lambda: made_study(),
    "graded": lambda: made_study(graded=True),
    "no_texts": lambda: made_study(texts=False),
    "tiny": lambda: _tiny(5, 2),
    "one_model": lambda: _tiny(5, 1),
    "one_item": lambda: _tiny(1, 3),
    "one_response": lambda: _tiny(1, 1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_study_has_every_section(kind: str, tmp_path: Path) -> None:
    page = _page(KINDS[kind](), tmp_path)
    seen = Seen(page)
    assert seen.ids == SECTIONS
    assert not re.search(r"\bnan\b", seen.text.lower())
    assert "thetascope compare STUDY" in seen.text
    assert "thetascope encode STUDY" in seen.text


@pytest.mark.parametrize("graded", [False, True])
def test_a_compared_study_has_figures_and_no_missing_parts(graded: bool, tmp_path: Path) -> None:
    study = compared(made_study(graded=graded), tmp_path / "study")
    page = _page(study, tmp_path)
    assert Seen(page).ids == SECTIONS
    assert page.count("Make it with") == 3
    assert "thetascope diagnose study" in page
    assert page.count("<svg") >= 8
    assert ("reducible" in page) == graded


def test_every_figure_is_valid_xml(tmp_path: Path) -> None:
    study = compared(made_study(names=HOSTILE), tmp_path / "study")
    figures = re.findall(r"<svg.*?</svg>", _page(study, tmp_path), re.DOTALL)
    assert figures
    for figure in figures:
        assert ElementTree.fromstring(figure).find("title") is not None


def test_hostile_names_and_texts_come_out_as_text(tmp_path: Path) -> None:
    plain = Seen(_page(made_study(names=("a", "b", "c", "d", "e")), tmp_path))
    study = made_study(names=HOSTILE, text=" ".join(HOSTILE))
    page = _page(study, tmp_path, title=HOSTILE[3])
    seen = Seen(page)
    assert set(seen.tags) == set(plain.tags)
    assert seen.tags["script"] == seen.tags["style"] == 1
    assert not [a for a in seen.attributes if a[1].startswith("on")]
    assert "\x00" not in page
    assert "\x07" not in page
    assert HOSTILE[0] in seen.text
    assert HOSTILE[2] in seen.text


def test_the_page_fetches_nothing(tmp_path: Path) -> None:
    study = compared(made_study(names=HOSTILE), tmp_path / "study")
    page = _page(study, tmp_path)
    references = [v for _, k, v in Seen(page).attributes if k in ("src", "href", "srcset", "data")]
    assert references
    assert all(v.startswith("#") or v == "data:," for v in references)
    assert "@import" not in page
    assert "url(" not in page


def test_same_study_same_bytes_and_no_place_of_this_machine(tmp_path: Path) -> None:
    study = compared(made_study(), tmp_path / "study")
    page = _page(study, tmp_path)
    assert _page(Study.open(tmp_path / "study"), tmp_path) == page
    assert str(tmp_path) not in page


def test_numbers_of_the_comparison_stand_in_the_page(tmp_path: Path) -> None:
    study = compared(made_study(), tmp_path / "study")
    seen = Seen(_page(study, tmp_path))
    for row in load_comparison(study).table["rows"]:
        if row["benchmark"] != "all":
            continue
        shown = [r for r in seen.rows if r and r[0].startswith(f"{row['predictor']}")]
        cells = [cell for r in shown for cell in r]
        low, high = 100 * row["accuracy_low"], 100 * row["accuracy_high"]
        assert f"{100 * row['accuracy']:.1f}[{low:.1f}, {high:.1f}]" in cells
        assert any(c.startswith(f"{row['log_loss']:.3f}[{row['log_loss_low']:.3f}") for c in cells)


def test_an_absent_benchmark_is_a_dash_and_costs_the_rank(tmp_path: Path) -> None:
    study = made_study()
    seen = Seen(_page(study, tmp_path))
    row = next(r for r in seen.rows if r and r[0] == "model 0")
    assert row[1] == "—"
    assert row[4] == "—"
    score = study.responses.filter(model="model 0")["score"].mean()
    assert row[2].startswith(f"{100 * float(str(score)):.1f}")
    assert "1 of 2" in row[2]


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    study = made_study().save(tmp_path / "study")
    with pytest.raises(InputError, match="no comparisons named 'other'"):
        write_report(study, tmp_path / "x.html", comparison="other")
    with pytest.raises(InputError, match="no fits named 'other'"):
        write_report(study, tmp_path / "x.html", fit="other")
    with pytest.raises(InputError, match="in memory only"):
        write_report(made_study(), tmp_path / "x.html", fit="other")
    assert not (tmp_path / "x.html").exists()


def test_a_stale_comparison_is_named_with_what_renews_it(tmp_path: Path) -> None:
    study = compared(made_study(), tmp_path / "study")
    fewer = study.filter(models=[f"model {i}" for i in range(5)])
    fewer.save(tmp_path / "study")
    seen = Seen(_page(Study.open(tmp_path / "study"), tmp_path))
    assert "made from other tables" in seen.text
    assert "thetascope compare study" in seen.text


def test_repeated_runs_are_averaged_in_the_open(tmp_path: Path) -> None:
    rows = [
        {"item_id": f"b:{i}", "model": m, "run_id": f"{m}-{k}", "score": float(k == 0)}
        for i in range(6)
        for m in ("x", "y")
        for k in range(2)
    ]
    study = Study.from_tables(pl.DataFrame(rows), policy="keep")
    assert "this page averages them" in Seen(_page(study, tmp_path)).text


def test_a_folder_gets_a_file(tmp_path: Path) -> None:
    assert write_report(_tiny(5, 2), tmp_path) == tmp_path / "report.html"
    assert write_report(_tiny(5, 2), tmp_path / "a/b.html").is_file()

"""Writes the page: gather, compute, render, one file."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from thetascope.report import (
    calibration_section,
    data_section,
    diagnosis_section,
    difficulty_section,
    gaps_section,
    head,
    items_section,
    leaderboard_section,
    models_section,
    predictors_section,
    routing_section,
    space_section,
    wording,
)
from thetascope.report.difficulty import difficulty
from thetascope.report.gather import Material, gather
from thetascope.report.page import Section, frame
from thetascope.report.ranking import rank_models
from thetascope.report.tested import tested
from thetascope.report.text import esc
from thetascope.study import Study, files

FILE = "report.html"


def write_report(
    study: Study,
    to: str | Path,
    *,
    comparison: str | None = None,
    fit: str | None = None,
    title: str | None = None,
) -> Path:
    """Writes one self-contained HTML page about a study.

    It uses what the study has; where a comparison, a fit or text vectors are missing, the
    section says so with the command that makes them. Same inputs, same bytes.

    Args:
        study: The study.
        to: The file to write, or a folder that is there (then `report.html` in it).
        comparison: Name of the comparison; None for 'cold-items', else the first by name.
        fit: Name of the fit; None for 'jeirt', else the first by name.
        title: Head of the page; the study's name where None.

    Returns:
        The file written.

    Raises:
        InputError: A comparison or fit was named and there is none of that name.
        StaleError: The one named was made from other tables than the study holds now.
    """
    place = Path(to)
    if place.is_dir():
        place = place / FILE
    page = render(gather(study, comparison, fit, title)).encode()
    place.parent.mkdir(parents=True, exist_ok=True)
    files.write_aside(place, lambda aside: aside.write_bytes(page))
    return place


def render(material: Material) -> str:
    """The page as text."""
    ranking = rank_models(material)
    cells = tested(material)
    found = None if cells is None else difficulty(material, cells)
    sections = [
        data_section.render(material),
        models_section.render(material, ranking),
        leaderboard_section.render(material),
        *routing_section.render(material),
        predictors_section.render(material, cells),
        calibration_section.render(material, cells),
        difficulty_section.render(material, cells, found),
        *gaps_section.render(material),
        space_section.render(material),
        items_section.render(material),
        diagnosis_section.render(material),
        _reading(),
    ]
    top = head.render(material, ranking, cells, found)
    return frame(f"{material.name} · thetascope", top, sections, _foot(material))


def _reading() -> Section:
    terms = "".join(f"<dt>{esc(t)}</dt><dd>{esc(meaning)}</dd>" for t, meaning in wording.TERMS)
    return Section("reading", "How to read this page", f"<dl>{terms}</dl>\n")


def _foot(material: Material) -> str:
    made = ", ".join(esc(h) for h in material.hashes)
    return (
        f"<p>Written by thetascope {esc(version('thetascope'))}"
        + (f" from {made}" if made else " from a study in memory")
        + ". The page fetches nothing and holds all that it shows.</p>"
    )

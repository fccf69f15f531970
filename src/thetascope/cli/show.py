"""Commands that show: report, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thetascope.cli.output import print_json, progress, say
from thetascope.study import Study


def report(
    study: Path,
    /,
    *,
    to: Path | None = None,
    comparison: str | None = None,
    fit: str | None = None,
    title: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write one self-contained HTML page about a study.

    Parameters
    ----------
    study
        The study's folder.
    to
        The page; report.html in the current folder where not given.
    comparison
        Name of the comparison to show, where the study has several.
    fit
        Name of the fit to show, where the study has several.
    title
        Title of the page; the folder's name where not given.
    json
        Print the page's path as one JSON object.
    """
    from thetascope.report import write_report

    page = write_report(
        Study.open(study), to or Path("report.html"), comparison=comparison, fit=fit, title=title
    )
    if json:
        print_json({"page": str(page)})
    else:
        say(f"report   {page} ({page.stat().st_size / 1024:,.0f} kB)")
    return 0


def demo(
    *,
    to: Path = Path("thetascope-demo"),
    seeds: int = 2,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Do the whole pass on the bundled real study: fit, compare, report.

    56 language models on 3,352 items of CRUXEval-O, GSM8K, MATH level 5 and NumerSense
    (figures only, no texts).

    Parameters
    ----------
    to
        Folder for the study and the report; made if there is none.
    seeds
        Tenths of the items that are tested (1 to 10).
    json
        Print what was found as one JSON object.
    """
    from thetascope.demo import run_demo

    with progress() as line:
        found = run_demo(to, seeds=seeds, progress=line)
    if json:
        print_json(found.to_json())
    else:
        say(*found.lines())
    return 0

"""What the commands about new models share: the item bank, results, and lines about both."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from thetascope.cli.output import percent, progress, say, table
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.saved import study_bank
from thetascope.decisions.scores import ScoreEstimate
from thetascope.errors import InputError
from thetascope.evaluation import Estimate
from thetascope.readers import ReadOptions, read, read_crosswalk
from thetascope.study import Study, store

_SHOWN = 5


@Parameter(name="*")
@dataclass(frozen=True)
class BankOptions:
    """How the study's item bank is made.

    Attributes:
        fit: Name of a JE-IRT fit to use; 2PL by subject, learnt from the study, where not given.
        crosswalk: CSV with columns model and canonical: models of one canonical name are twins.
        calibrate: Whether to measure on left-out models how far off intervals are.
        wait: Seconds to wait for another writer.
    """

    fit: str | None = None
    crosswalk: Path | None = None
    calibrate: bool = True
    wait: float = 10.0

    def bank(self, study: Path) -> ItemBank:
        """The study's bank, made where there is none yet."""
        return open_bank(study, self.fit, self.crosswalk, self.calibrate, self.wait)


def open_bank(
    study: Path, fit: str | None, crosswalk: Path | None, calibrate: bool, wait: float
) -> ItemBank:
    """The item bank of a study's folder, with a progress line."""
    if not store.is_study(study):
        Study.open(study)  # says what is wrong
    with progress() as line:
        return study_bank(
            study, fit=fit, twins=twins_of(crosswalk), calibrate=calibrate, wait=wait, progress=line
        )


def twins_of(crosswalk: Path | None) -> dict[str, str]:
    """Model -> canonical name; empty without a file."""
    return {} if crosswalk is None else dict(read_crosswalk(crosswalk))


def read_results(path: Path, format: str | None) -> Study:
    """A study as it is, anything else as `import` reads it; says what was left out."""
    if store.is_study(path):
        return Study.open(path)
    try:
        found = read(path, format=format, options=ReadOptions())
    except InputError as error:
        if error.fix is None or "--" not in error.fix:
            raise
        way = f"thetascope import {path} --into NEW ..., and give NEW"
        raise InputError(
            error.problem, file=error.file, record=error.record, field=error.field,
            fix=f"{error.fix}: {way}",
        ) from None  # fmt: skip
    if found.report is not None:
        for reason in found.report.dropped.values():
            print(f"left out: {reason.n:,}: {reason.reason} (first {reason.first})",
                  file=sys.stderr)  # fmt: skip
    return found


def print_scores(title: str, scores: Sequence[ScoreEstimate]) -> None:
    """A table with one line a benchmark."""
    rows = [
        [s.benchmark, f"{s.n_answered:,} of {s.n_items:,}",
         "-" if not s.n_answered else f"{100 * s.mean_answered:.1f}", percent_of(s)]
        for s in scores
    ]  # fmt: skip
    table(title, ["benchmark", "answered", "mean of these %", "score % [90 %]"], rows)


def percent_of(s: ScoreEstimate) -> str:
    """'78.5 [77.1, 79.8]'."""
    return percent(Estimate(s.value, s.low, s.high))


def say_unknown(unknown: tuple[str, ...]) -> None:
    """How many answers were not used, and the first of them."""
    if unknown:
        more = ", ..." if len(unknown) > _SHOWN else ""
        say(f"{len(unknown):,} answered items are not in the study and were not used:"
            f" {', '.join(unknown[:_SHOWN])}{more}")  # fmt: skip


def say_calibration(bank: ItemBank) -> None:
    """A line where intervals were not measured on left-out models."""
    if not bank.calibrated:
        say("intervals rest on the model's posterior alone: not calibrated on left-out models")

"""The whole pass on the bundled study: look over, compare, fit, report, and what it found."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.concepts.store import load_concepts
from thetascope.errors import InputError
from thetascope.gaps.performance import LEVEL
from thetascope.gaps.saved import SavedGaps, gaps_study, load_gaps
from thetascope.predictors import JEIRT
from thetascope.predictors.diff import Change
from thetascope.predictors.runs import Progress
from thetascope.predictors.saved import compare_study, fit_study, load_comparison
from thetascope.report import write_report
from thetascope.report.gather import gather
from thetascope.report.ranking import rank_models, two_strongest
from thetascope.space.saved import load_space, models_study
from thetascope.study import Study, store
from thetascope.study.doctor import Finding, doctor
from thetascope.study.policies import repeated_pairs

STUDY = Path(__file__).parent / "study"
TITLE = "thetascope demo"


@dataclass(frozen=True)
class Found:
    """What the demo found.

    Attributes:
        study: The study.
        strongest: The two strongest models.
        changes: The first minus the second, whole first, then benchmarks, then subjects.
        core: The benchmarks that 'strongest' is a mean over: those that most models ran.
        comparison: The comparison's table.
        findings: The doctor's.
        page: The report.
        map: The map of models, or None without torch.
        gaps: What the benchmarks cover and where models are weak.
        labels: Of the concepts.
        without_torch: Whether JE-IRT was left out because torch is not installed.
    """

    study: Study
    strongest: tuple[str, str]
    core: list[str]
    changes: list[Change]
    comparison: dict[str, Any]
    findings: list[Finding]
    page: Path
    map: dict[str, Any] | None
    gaps: SavedGaps
    labels: list[str]
    without_torch: bool

    def to_json(self) -> dict[str, Any]:
        """The same as one object."""
        return {
            "strongest": list(self.strongest),
            "core": self.core,
            "changes": [c.to_json() for c in self.changes],
            "comparison": self.comparison,
            "findings": [f.to_json() for f in self.findings],
            "gaps": self.gaps.figures,
            "page": str(self.page),
        }

    def lines(self) -> list[str]:
        """The same for a person: one screen."""
        return [
            f"{self.study.n_models} models, {self.study.n_items:,} items of"
            f" {len(self.study.benchmarks)} benchmarks, {self.study.responses.height:,} responses"
            " (real results; figures only, no texts)",
            "",
            *self._strongest(),
            "",
            *self._prediction(),
            "",
            *self._alike(),
            *self._gaps(),
            "",
            *self._suspect(),
            "",
            self._limits(),
            "",
            f"report   {self.page}",
            f"look     {_program()} explore {shlex.quote(str(self.study.path))}",
        ]

    def _strongest(self) -> list[str]:
        a, b = self.strongest
        whole, *parts = [c for c in self.changes if c.subject == "all"]
        clear = whole.verdict != "no clear change"
        lines = [
            f"The two strongest models by their mean over {', '.join(self.core)}; here every item"
            " that both answered counts alike:",
            f"    {a} {100 * whole.after:.1f} %, {b} {100 * whole.before:.1f} % on"
            f" {whole.n_items:,} shared items: {_points(whole)},"
            f" q {whole.q:.2g}: {'beyond noise' if clear else 'a tie within noise'}",
        ]
        for c in parts:
            lines.append(
                f"    {c.benchmark:<16} {100 * c.after:5.1f} % {100 * c.before:5.1f} %"
                f"  {_points(c)}, n {c.n_items:,}, q {c.q:.2g}"
                + ("" if c.verdict == "no clear change" else ": beyond noise")
            )
        return lines

    def _prediction(self) -> list[str]:
        rows = {
            r["predictor"]: r
            for r in self.comparison["rows"]
            if r["benchmark"] == "all" and r["subject"] == "all"
        }
        one = next(iter(rows.values()))
        lines = [
            f"Who gets what right, on items never seen ({one['n_items']:,} items,"
            f" {one['n_responses']:,} responses, {self.comparison['seeds']} splits):"
        ]
        for name, row in sorted(rows.items(), key=lambda pair: pair[1]["log_loss"]):
            lines.append(
                f"    {name:<16} accuracy {100 * row['accuracy']:.1f} %"
                f" [{100 * row['accuracy_low']:.1f}, {100 * row['accuracy_high']:.1f}]"
                f"  log-loss {row['log_loss']:.3f}"
                f" [{row['log_loss_low']:.3f}, {row['log_loss_high']:.3f}]"
            )
        if self.without_torch:
            lines.append("    JE-IRT is not in: pip install 'thetascope[fit]'")
        return lines

    def _alike(self) -> list[str]:
        if self.map is None or not self.map["pairs"]:
            return []
        pair, few = self.map["pairs"][0], self.map["portfolio"]
        lines = [
            "Models that answer alike:",
            f"    {pair['first']} and {pair['second']}, error consistency"
            f" {pair['kappa'][0]:.2f} [{pair['kappa'][1]:.2f}, {pair['kappa'][2]:.2f}],"
            f" n {pair['n']:,}" + (": one is redundant here" if pair["redundant"] else ""),
        ]
        if few is not None and len(few["order"]) > 1:
            lines.append(
                f"    {few['order'][0]} alone gets {100 * few['cover'][0]:.1f} % of"
                f" {few['n_items']:,} items right, with {few['order'][1]} one of the two"
                f" {100 * few['cover'][1]:.1f} %, all {len(few['models'])}"
                f" {100 * few['everything']:.1f} %"
            )
        return [*lines, ""]

    def _gaps(self) -> list[str]:
        f = self.gaps.figures
        c = f["coverage"]
        most = max(range(len(c["benchmarks"])), key=lambda b: c["rarefied"][b])
        weak = self.gaps.performance("all").filter(pl.col("q_low") < LEVEL)
        own = weak.filter(pl.col("q_adjusted_low") < LEVEL).sort("q_adjusted_low", "concept")
        lines = [
            f"What is tested, by {c['n_concepts']:,} concepts of a small open model:",
            f"    {c['n_missing_from_all']:,} are in no benchmark; of {c['n_rarefied']:,} items"
            f" each, {c['benchmarks'][most]} lacks the most"
            f" ({100 * c['rarefied'][most]:.0f} %)",
            f"    models are weak on a concept in {weak.height:,} cases (q < {LEVEL:.2f}); once"
            f" what the others score on the same items is taken off, {own.height:,} stay: the rest"
            " is hard for everyone",
        ]
        for r in own.head(2).iter_rows(named=True):
            lines.append(
                f"    surest: {r['model']} on {r['concept']} ({self.labels[r['concept']]}),"
                f" {100 * r['adjusted']:+.0f} points, q {r['q_adjusted_low']:.2g},"
                f" n {r['n_active']:,} (effectively {r['n_eff']:.0f})"
            )
        return lines

    def _limits(self) -> str:
        answered = self.study.responses.join(
            self.study.items.select("item_id", "benchmark"), on="item_id"
        )
        ran = answered.group_by("benchmark").agg(pl.col("model").n_unique().alias("n"))
        thinnest, n = ran.sort("n", "benchmark").row(0)
        limits = [f"only {n} of {self.study.n_models} models ran {thinnest}"]
        if not repeated_pairs(self.study.responses).height:
            limits.insert(0, "one run a pair, so run-to-run noise is in no interval")
        if "text" not in self.study.items.columns:
            limits.append("texts are not bundled")
        return f"What this data cannot tell: {'; '.join(limits)}."

    def _suspect(self) -> list[str]:
        finding = next(f for f in self.findings if f.check == "suspect items")
        lines = [f"Suspect items: {finding.summary}"]
        if finding.examples:
            lines.append(f"    most negative: {'; '.join(finding.examples)}")
        return lines


def _points(change: Change) -> str:
    d = change.difference
    return f"{100 * d.value:+.1f} points [{100 * d.low:+.1f}, {100 * d.high:+.1f}]"


def bundled_study(to: Path) -> Path:
    """Copies the bundled study to a folder (kept if it is there) and returns it.

    Raises:
        InputError: The folder is there and is no study.
    """
    if not store.is_study(STUDY):
        raise InputError("the bundled study is missing from this installation", file=STUDY)
    if store.is_study(to):
        return to
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InputError("is there and is no study", file=to, fix="name another with --to")
    to.parent.mkdir(parents=True, exist_ok=True)
    aside = to.with_name(f".{to.name}.part")
    if aside.exists():
        shutil.rmtree(aside)
    shutil.copytree(STUDY, aside)
    aside.rename(to)
    return to


def run_demo(to: Path, *, seeds: int = 2, progress: Progress | None = None) -> Found:
    """Copies the bundled study, compares, fits, and writes the report beside it.

    Args:
        to: Folder for `study/` and `report.html`.
        seeds: Splits of the comparison.
        progress: Called with (done, total, what).
    """
    folder = bundled_study(to / "study")
    torch = importlib.util.find_spec("torch") is not None
    compare_study(folder, seeds=seeds, progress=progress)
    if torch:
        if progress is not None:
            progress(0, -1, "fitting JE-IRT on the whole study")
        fit_study(folder, JEIRT())
        if progress is not None:
            progress(0, -1, "which models answer alike")
        models_study(folder, fit="jeirt")
    if progress is not None:
        progress(0, -1, "what is tested, and where models are weak")
    gaps_study(folder)
    study = Study.open(folder)
    material = gather(study, None, None, TITLE)
    ranking = rank_models(material)
    pair = two_strongest(material, ranking)
    assert pair is not None
    first, second, changes = pair
    return Found(
        study,
        (material.models[first], material.models[second]),
        [material.benchmarks[b] for b in ranking.core],
        changes,
        load_comparison(study).table,
        doctor(study, material.groups.labels),
        write_report(study, to / "report.html", title=TITLE),
        load_space(study, "models") if torch else None,
        load_gaps(study),
        load_concepts(study).labels,
        not torch,
    )


def _program() -> str:
    """The command as it can be typed here: by its path where it is not among the known ones."""
    own = Path(sys.executable).parent / "thetascope"
    if shutil.which("thetascope") or not own.is_file():
        return "thetascope"
    return shlex.quote(os.path.relpath(own))

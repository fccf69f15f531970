"""The whole pass on the bundled study: look over, compare, fit, report, and what it found."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from thetascope.errors import InputError
from thetascope.predictors import JEIRT
from thetascope.predictors.base import item_features
from thetascope.predictors.comparison import Progress
from thetascope.predictors.diff import Change, diff
from thetascope.predictors.saved import compare_study, fit_study, load_comparison
from thetascope.predictors.setup import study_groups
from thetascope.report import write_report
from thetascope.study import Study, store
from thetascope.study.doctor import Finding, doctor

STUDY = Path(__file__).parent / "study"


@dataclass(frozen=True)
class Found:
    """What the demo found.

    Attributes:
        study: The study.
        changes: The two strongest models side by side, whole first, then benchmarks.
        strongest: Their names.
        basis: What 'strongest' was taken over.
        comparison: The comparison's table.
        findings: The doctor's.
        page: The report.
        without_torch: Whether JE-IRT was left out because torch is not installed.
    """

    study: Study
    strongest: tuple[str, str]
    basis: str
    changes: list[Change]
    comparison: dict[str, Any]
    findings: list[Finding]
    page: Path
    without_torch: bool

    def to_json(self) -> dict[str, Any]:
        """The same as one object."""
        return {
            "strongest": list(self.strongest),
            "basis": self.basis,
            "changes": [c.to_json() for c in self.changes],
            "comparison": self.comparison,
            "findings": [f.to_json() for f in self.findings],
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
            *self._suspect(),
            "",
            "What this data cannot tell: one run a pair, so run-to-run noise is not in any"
            " interval; 9 models on numersense_v2; texts are not bundled.",
            "",
            f"report   {self.page}",
        ]

    def _strongest(self) -> list[str]:
        a, b = self.strongest
        whole, *parts = [c for c in self.changes if c.subject == "all"]
        d = whole.difference
        verdict = (
            "a tie within noise" if d.low <= 0 <= d.high
            else f"{b if d.value > 0 else a} is ahead"
        )  # fmt: skip
        lines = [
            f"The two strongest models ({self.basis}):",
            f"  {a} {100 * whole.before:.1f} %, {b} {100 * whole.after:.1f} % on"
            f" {whole.n_items:,} shared items: {-100 * d.value:+.1f} points"
            f" [{-100 * d.high:+.1f}, {-100 * d.low:+.1f}], {verdict}",
        ]
        for c in parts:
            e = c.difference
            lines.append(
                f"    {c.benchmark:<14} {100 * c.before:5.1f} % {100 * c.after:5.1f} %"
                f"  {-100 * e.value:+5.1f} [{-100 * e.high:+.1f}, {-100 * e.low:+.1f}]"
                f"  n {c.n_items:,}, q {c.q:.2g}"
                + ("" if c.verdict == "no clear change" else "  beyond noise")
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

    def _suspect(self) -> list[str]:
        finding = next(f for f in self.findings if f.check == "suspect items")
        return [
            f"Suspect items: {finding.summary}",
            f"    most negative: {'; '.join(finding.examples)}",
        ]


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


def run_demo(to: Path, *, seeds: int = 5, progress: Progress | None = None) -> Found:
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
    study = Study.open(folder)
    groups = study_groups(study, item_features(study)).labels
    a, b, basis = strongest_models(study)
    changes = diff(study, a, b, groups)
    page = write_report(study, to / "report.html", title="thetascope demo")
    return Found(
        study, (a, b), basis, changes, load_comparison(study).table,
        doctor(study, groups), page, not torch,
    )  # fmt: skip


def strongest_models(study: Study) -> tuple[str, str, str]:
    """The two models with the best mean over the benchmarks that most models ran.

    Only benchmarks that at least half of the models answered count, and only models that
    answered at least nine tenths of the items of each of them.
    """
    pairs = study.pairs("mean" if study.policy in ("error", "keep") else study.policy)
    sizes = dict(study.items.group_by("benchmark").len().iter_rows())
    table = (
        pairs.join(study.items.select("item_id", "benchmark"), on="item_id")
        .group_by("model", "benchmark")
        .agg(pl.col("score").mean(), pl.len().alias("n"))
    )
    ran = table.group_by("benchmark").len()
    common = set(ran.filter(pl.col("len") >= study.n_models / 2)["benchmark"]) or set(sizes)
    whole = table.filter(
        pl.col("benchmark").is_in(list(common))
        & (pl.col("n") >= 0.9 * pl.col("benchmark").replace_strict(sizes))
    )
    means = (
        whole.group_by("model")
        .agg(pl.col("score").mean(), pl.len().alias("n"))
        .filter(pl.col("n") == len(common))
        .sort("score", "model", descending=[True, False])
    )
    if means.height < 2:
        raise InputError("no two models answered the same benchmarks")
    names = [b for b in study.benchmarks if b in common]
    assert np.isfinite(means["score"][0])
    return means["model"][0], means["model"][1], f"mean over {', '.join(names)}"

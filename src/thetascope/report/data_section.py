"""Section Data: benchmarks, policy, imports, and what doctor finds."""

from __future__ import annotations

from typing import Any

import numpy as np

from thetascope.evaluation.columns import means
from thetascope.report.gather import Material
from thetascope.report.page import Cell, Row, Section, measured, number, table, word
from thetascope.report.text import esc, name, num, plural

_POLICIES = {
    "error": "Two runs of one (item, model) pair are refused on import; there are none.",
    "first": "Where a pair has several runs, the first counts.",
    "last": "Where a pair has several runs, the last counts.",
    "mean": "Where a pair has several runs, their mean counts, weighted by trials.",
    "keep": "Every run counts as a response of its own where predictors are compared.",
}


def render(material: Material) -> Section:
    """Benchmarks, policy, imports, findings."""
    policy = _POLICIES["mean"] if material.averaged else _POLICIES[material.study.policy]
    if material.averaged:
        policy += " (The study keeps all rows; this page averages them.)"
    groups = material.groups
    how = (
        "equal text"
        if groups.threshold is None
        else f"equal text or cosine of text vectors of at least {groups.threshold:g}"
    )
    html = (
        _benchmarks(material)
        + f"<p><b>Repeats.</b> {policy} "
        + f"<b>Near-duplicates</b> ({how}): {plural(groups.n_groups, 'group')} among"
        f" {plural(material.study.n_items, 'item')}, the largest of {groups.largest:,}.</p>\n"
        + _imports(material.imports)
        + _findings(material)
    )
    return Section("data", "Data", html)


def _benchmarks(material: Material) -> str:
    rows = []
    constant = material.items["constant"].to_numpy()
    for b, benchmark in enumerate(material.benchmarks):
        here = np.flatnonzero(material.benchmark == b)
        seen, score = material.observed[here], material.score[here]
        n = int(seen.sum())
        run = int(seen.any(axis=0).sum())
        whole = _pooled(material, here)
        asked = seen.sum(axis=1) >= 2
        binary = bool(np.isin(score[seen], (0.0, 1.0)).all())
        rows.append(
            Row(
                [
                    word(benchmark, "l name"),
                    number(len(here)),
                    number(run),
                    number(n),
                    number(n / max(seen.size, 1), scale=100),
                    measured(*whole, scale=100),
                    number(constant[here][asked].mean() if asked.any() else None, scale=100),
                    Cell("right or wrong" if binary else "graded", css="l"),
                ]
            )
        )
    head = [
        "benchmark", "items", "models", "responses", "density<small>% of pairs</small>",
        "mean score<small>95 % interval</small>",
        "constant<small>% of items, one score for all</small>", "scores",
    ]  # fmt: skip
    return table(head, rows, "Benchmarks. Density: share of (item, model) pairs with a response.")


def _pooled(material: Material, here: np.ndarray) -> tuple[float, float, float]:
    """Mean over all responses of a benchmark with its interval over groups of items."""
    item, model = np.nonzero(material.observed[here])
    if not len(item):
        return float("nan"), float("nan"), float("nan")
    value = material.score[here][item, model][:, None]
    found = means(
        value, np.ones_like(value, bool), material.groups.labels[here][item], material.weights,
        proportion=True,
    )  # fmt: skip
    return float(found.value[0]), float(found.low[0]), float(found.high[0])


def _imports(imports: list[dict[str, Any]]) -> str:
    if not imports:
        return "<p><b>Imports.</b> The study was made from tables; there is no import report.</p>\n"
    rows = []
    for report in imports:
        sources = report.get("sources", [])
        formats = sorted({str(s.get("format", "")) for s in sources})
        files = ", ".join(name(s.get("file", "")) for s in sources[:4])
        files += f" and {len(sources) - 4:,} more" if len(sources) > 4 else ""
        dropped = report.get("dropped", [])
        told = [f"{d.get('n', 0):,}: {esc(d.get('reason', ''))}"
                f" (first: {name(d.get('first', ''))})" for d in dropped]  # fmt: skip
        notes = [esc(n) for n in report.get("notes", [])]
        if report.get("ignored"):
            notes.append(f"{plural(len(report['ignored']), 'file')} of no known format ignored")
        if report.get("text_rule"):
            notes.append(f"texts: {esc(report['text_rule'])}")
        rows.append(
            Row(
                [
                    Cell(f"{files}<small>{esc(', '.join(formats))}</small>", css="l prose"),
                    number(report.get("read")),
                    number(report.get("kept")),
                    Cell("<br>".join(told) or "nothing", css="l prose"),
                    Cell("<br>".join(notes) or "none", css="l prose"),
                ]
            )
        )
    head = ["files", "records read", "responses kept", "dropped, and why", "notes"]
    return table(head, rows, "What the imports read, kept and dropped.", sort=False)


def _findings(material: Material) -> str:
    order = {"error": 0, "warning": 1, "note": 2, "ok": 3}
    found = sorted(material.findings, key=lambda f: order[f.level])
    rows = []
    for f in found:
        examples = f"<small>e.g. {name(f.examples[0])}</small>" if f.examples and f.n else ""
        rows.append(
            Row(
                [
                    Cell(f'<span class="badge {f.level}">{f.level}</span>', css="l"),
                    Cell(esc(f.check), css="l"),
                    Cell(num(f.n, 0), f.n),
                    Cell(num(f.total, 0), f.total),
                    Cell(f"{esc(f.summary)}{examples if f.level != 'ok' else ''}", css="l prose"),
                    Cell(esc(f.meaning) if f.n else "", css="l prose"),
                ]
            )
        )
    head = ["level", "check", "found", "of", "finding", "what it means"]
    return table(head, rows, "What <code>thetascope doctor</code> finds.", sort=False)

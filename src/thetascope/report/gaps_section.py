"""Section What is tested, and where models are weak: coverage and performance on concepts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from thetascope.gaps.cards import card
from thetascope.gaps.data import GapData
from thetascope.gaps.performance import LEVEL
from thetascope.report import groups_part
from thetascope.report.gaps_figures import heat_map, missing_curves, steps
from thetascope.report.gather import GapMaterial, Material
from thetascope.report.page import Cell, Row, Section, absent, figure, fold, measured, number, table
from thetascope.report.page import word as page_word
from thetascope.report.text import ends, esc, estimate, name, num, plural, q_value

TITLE = "What is tested, and where models are weak"
N_LISTED, N_CARDS, N_OVER = 10, 5, 5
INTRO = (
    "<p>A <b>dictionary</b> (a sparse autoencoder) writes what a language model makes of each"
    " token as a few of some thousand <b>concepts</b>. Averaged over an item's tokens they say what"
    " the item is about; what a concept means is read off where it is strongest, and its label is"
    " only a hint. <b>Coverage</b> says which concepts a benchmark asks for, <b>performance</b> how"
    " well a model does on the items that carry a concept, against its own mean on the same"
    " benchmark.</p>\n"
)


def render(material: Material) -> list[Section]:
    """The section; none where the study has no concept activations."""
    found = material.gaps
    if found is None:
        lack = material.missing.get("gaps")
        return [] if lack is None else [Section("gaps", TITLE, absent(lack.why, lack.command))]
    figures = found.saved.figures
    html = INTRO + _source(figures, found.saved.name)
    if found.stale:
        html += (
            f"<p>Not shown, for they were made from other gaps or tables than the study holds now:"
            f" {esc(', '.join(found.stale))}.</p>\n"
        )
    if found.interpretation is not None:
        html += groups_part.interpretation(found.interpretation)
    html += _coverage(found) + _performance(found)
    for model in figures["focus"]:
        html += _model(found, model)
    if found.groups is not None:
        html += groups_part.groups(found.groups, figures["focus"])
    if found.robust is not None:
        html += _robust(found.robust)
    return [Section("gaps", TITLE, html)]


def _source(figures: dict[str, Any], concepts: str) -> str:
    c = figures["coverage"]
    said = (
        f"<p>{plural(figures['n_items'], 'item')}, {c['n_concepts']:,} concepts of {name(concepts)}"
    )
    if figures["n_dropped"]:
        said += f"; {plural(figures['n_dropped'], 'item')} left out, nothing was read of them"
    if figures["reduced_to"]:
        said += (
            f"; activations are reduced to items whose maximum reaches {figures['reduced_to']} of"
            " a concept's own"
        )
    return said + ".</p>\n"


def _coverage(found: GapMaterial) -> str:
    figures = found.saved.figures
    c = figures["coverage"]
    names = c["benchmarks"]
    rows = []
    for i, b in enumerate(names):
        cells = [page_word(b), number(c["n_items"][i])]
        if c["missing"] is not None:
            cells += [number(c["n_missing"][i] / c["n_concepts"], 1, scale=100),
                      number(c["rarefied"][i], 1, scale=100)]  # fmt: skip
        rows.append(
            Row([*cells, number(c["top_share"][i], 0, scale=100), number(c["skewness"][i], 1)])
        )
    head = ["benchmark", "items"]
    if c["missing"] is not None:
        head += ["missing %", f"missing from {c['n_rarefied']:,} items %"]
    head += ["held by the top 1 %, %", "skewness"]
    html = "<h3>Coverage</h3>\n"
    if c["missing"] is None:
        html += (
            "<p>The activations have no reference, so no concept can be called missing"
            " (<code>thetascope concepts extract --reference FILE</code> makes one).</p>\n"
        )
    else:
        n = c["n_missing_from_all"]
        html += (
            f"<p>A concept is missing from a benchmark when it never reaches"
            f" {num(figures['threshold'], 2)} of its own maximum over a reference corpus. From all"
            f" benchmarks together {plural(n, 'concept')} are missing"
            f" ({num(n / max(1, c['n_concepts']), scale=100)}&#8239;%). A larger benchmark covers"
            " more by its size alone: the second column is for as many items of each.</p>\n"
        )
    html += table(head, rows, "Of the activation mass, and its skewness over concepts.")
    table_of = found.saved.coverage
    plots = []
    if c["missing"] is not None:
        plots.append(
            figure(
                missing_curves(
                    c["thresholds"], c["missing"], [*names, "all together"], figures["threshold"]
                ),
                "Missing concepts by threshold; dashed: the one in use.",
            )
        )
    chi = [
        np.log10(np.maximum(v[v > 0], 1e-6))
        for b in names
        if len(v := table_of.filter(benchmark=b)["chi"].to_numpy().astype(np.float64))
    ]
    plots.append(
        figure(
            steps(chi[:8], names[:8], "log10 of coverage (0: an average concept)",
                  "Coverage of concepts, by benchmark", low=-4, high=3),
            "Coverage &chi;<sub>bench</sub> of the concepts that are there"
            + (f", first 8 of {len(names)} benchmarks." if len(names) > 8 else "."),
        )
    )  # fmt: skip
    if len(names) > 1:
        overlap, what = (c["cosine"], "Cosine of coverage") if c["jaccard"] is None else (
            c["jaccard"], "Overlap (Jaccard) of the covered concepts")  # fmt: skip
        plots.append(figure(heat_map(overlap, names, what), f"{what}."))
    html += f'<div class="figs">{"".join(plots)}</div>\n'
    return html + _over(found, table_of)


def _over(found: GapMaterial, covered: pl.DataFrame) -> str:
    if "log_ratio" not in covered.columns:
        return ""
    data = found.data
    sure = covered.filter((pl.col("q") < LEVEL) & (pl.col("low") > 0)).sort("low", descending=True)
    rows = []
    for b in found.saved.figures["coverage"]["benchmarks"]:
        mine = [
            r
            for r in sure.filter(benchmark=b).head(200).iter_rows(named=True)
            if not data.flags[r["concept"]]
        ]
        for r in mine[:N_OVER]:
            rows.append(
                Row([page_word(b), page_word(r["concept"]), page_word(data.labels[r["concept"]]),
                     measured(math.exp(r["log_ratio"]), math.exp(r["low"]), math.exp(r["high"]),
                              0 if r["log_ratio"] > 3 else 1)
                     if r["share_reference"] else Cell("never there", 1e12)])
            )  # fmt: skip
    if not rows:
        return ""
    other = "the reference" if found.saved.figures["against"] else "the other benchmarks"
    return fold(
        f"What each benchmark asks more than {other}",
        table(["benchmark", "concept", "label", "times as much"], rows,
              "Ratio of the shares of the activation, 95 % by bootstrap over the items of both"
              " sides; flagged concepts are left out."),
    )  # fmt: skip


def _performance(found: GapMaterial) -> str:
    whole = found.saved.figures["scopes"][0]
    rows = []
    for m in sorted((m for m in whole["models"] if m["n_items"]), key=lambda m: -m["n_weak"]):
        rows.append(
            Row([page_word(m["model"]), number(m["n_items"]), number(m["mean"], 1, scale=100),
                 number(m["median_score"], 1, scale=100), number(m["n_tested"]),
                 number(m["n_untestable"]), number(m["n_weak"]), number(m["n_own"]),
                 number(m["n_strong"]),
                 number(m["detectable"], 0, scale=100)])
        )  # fmt: skip
    html = "<h3>Performance</h3>\n"
    html += (
        f"<p>A concept counts as weak (strong) where a model's answers on its items are worse"
        f" (better) than on the rest of the same benchmark, text length allowed for, at a false"
        f" discovery rate of {100 * LEVEL:.0f}&#8239;%. Tested are concepts with at least ten"
        " active items, effectively; the others are counted as too rare. <i>Detectable</i> is the"
        " least effect, in points, that is found with 80&#8239;% power on a concept of median"
        " size: smaller gaps may well be there. <i>Own</i> are the weak ones that stay once what"
        " the other models score on the same items is taken off: the others are hard for"
        " everyone.</p>\n"
    )
    html += table(
        ["model", "items", "mean", "median concept", "tested", "too rare", "weak", "own",
         "strong", "detectable"], rows, tall=len(rows) > 14,
    )  # fmt: skip
    focus = found.saved.figures["focus"]
    scope = found.saved.scopes[0]
    series = [
        found.saved.performance(scope, m)["score"].to_numpy().astype(np.float64) for m in focus
    ]
    kept = [(v, m) for v, m in zip(series, focus, strict=True) if len(v)][:8]
    if kept:
        html += '<div class="figs">' + figure(
            steps([v for v, _ in kept], [m for _, m in kept], "score on a concept, %",
                  "Scores on concepts", unit=100, low=0, high=100),
            "&chi;<sub>model</sub> of the tested concepts. Much of its spread is chance: concepts"
            " rest on few items.",
        ) + "</div>\n"  # fmt: skip
    return html


def _model(found: GapMaterial, model: str) -> str:
    saved, data = found.saved, found.data
    scope = saved.scopes[0]
    mine = next(m for m in saved.figures["scopes"][0]["models"] if m["model"] == model)
    suite = saved.figures["suites"][model]
    html = f"<h3>{name(model)}</h3>\n"
    if suite["median"][0] is not None:
        html += (
            f"<p>Median concept {estimate(*ends(suite['median']), scale=100)} over"
            f" {plural(suite['n_concepts'], 'concept')}.</p>\n"
        )
    for weak in (True, False):
        rows = saved.list(model, weak=weak, scope=scope)
        said = "weak" if weak else "strong"
        if not rows.height:
            least = "" if mine["detectable"] is None else (
                f"; effects under {num(mine['detectable'], 0, scale=100)} points are mostly missed"
            )  # fmt: skip
            html += (
                f"<p>No concept is surely {said} among {mine['n_tested']:,} tested{least}.</p>\n"
            )
            continue
        side = "low" if weak else "high"
        lines = [
            Row([
                page_word(r["concept"]), page_word(data.labels[r["concept"]]),
                Cell(esc(", ".join(data.flags[r["concept"]])), css="l"),
                measured(r["score"], r["low"], r["high"], scale=100),
                number(r["effect"], 1, scale=100), number(r["shrunk"], 1, scale=100),
                Cell(q_value(r[f"q_{side}"]), r[f"q_{side}"]),
                Cell(q_value(r["p_family"]), r["p_family"]), number(r["adjusted"], 1, scale=100),
                Cell(q_value(r[f"q_adjusted_{side}"]), r[f"q_adjusted_{side}"]),
                number(r["n_active"]),
                number(r["n_eff"]),
            ])
            for r in rows.head(N_LISTED).iter_rows(named=True)
        ]  # fmt: skip
        html += table(
            ["concept", "label", "flags",
             "mean of benchmarks" if len(saved.scopes) > 1 else "score", "effect", "shrunk", "q",
             "family p", "adjusted", "q adjusted", "active items", "n effective"], lines,
            f"{said.capitalize()} on {plural(rows.height, 'concept')} of {mine['n_tested']:,}"
            f" tested{', the first ' + str(N_LISTED) if rows.height > N_LISTED else ''}; effects"
            " in points, sorted by the shrunk one; adjusted: less what the other models score.",
        )  # fmt: skip
        cards = [
            _card(data, model, r["concept"], weak) for r in rows.head(N_CARDS).iter_rows(named=True)
        ]
        html += fold(f"The items behind the first {len(cards)} {said} ones", "".join(cards))
    return html


def _card(data: GapData, model: str, concept: int, weak: bool) -> str:
    found = card(data, data.model(model), concept)
    rows = []
    for side in ("worst", "best") if weak else ("best", "worst"):
        for e in found[side]:
            rows.append(
                Row([page_word(side), page_word(e["item_id"]), page_word(e["benchmark"]),
                     number(e["weight"], 1, scale=100), number(e["score"], 2),
                     number(e["others"], 2)])
            )  # fmt: skip
    if not rows:
        return ""
    return table(
        ["", "item", "benchmark", "share of the concept, %", "score", "others' mean"], rows,
        f"Concept {concept}, {esc(data.labels[concept])}: the items that speak most for and"
        " against it.", sort=False,
    )  # fmt: skip


def _robust(checks: dict[str, Any]) -> str:
    rows = []
    for model, c in checks["models"].items():
        s, r, v, a = c["subsampling"], c["removal"], c.get("validity"), c.get("agreement")
        cells = [
            page_word(model), number(s["model_concepts"], 3), number(s["model_median"], 4),
            number(s["bench_concepts"], 3), number(r["best"], 1, scale=100),
            number(r["worst"], 1, scale=100),
            measured(*ends((v or {}).get("pooled") or [None] * 3), scale=100, sign=True),
            number(a["between"][0] if a else None, 2), number(a["permuted"][0] if a else None, 2),
        ]  # fmt: skip
        rows.append(Row(cells))
    return "<h3>How far to trust it</h3>\n" + table(
        ["model", "sd of a concept's score", "sd of the median", "sd of coverage",
         "without the best, %", "without the worst, %", "held-out benchmarks, points",
         "two dictionaries", "permuted"], rows,
        "Standard deviations over 100 runs that drop 20 % of the items; change of the median"
        " without the items behind the 100 best and worst concepts; how much worse gaps found on"
        " all benchmarks but one are on that one than matched concepts are (below 0: gaps carry"
        " over); rank correlation of effects by two dictionaries on disjoint halves.",
    )  # fmt: skip

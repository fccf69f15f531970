"""The head of the page: what the study is, and what to look at first."""

from __future__ import annotations

import numpy as np
import polars as pl

from thetascope.report.difficulty import Difficulty
from thetascope.report.gather import Material
from thetascope.report.ranking import Ranking, two_strongest
from thetascope.report.tested import VARIANTS, Tested, verdict
from thetascope.report.text import esc, estimate, interval, name, names, num, plural, q_value
from thetascope.study.doctor import SUSPECT_Q
from thetascope.study.itemstats import MIN_MODELS

RIVALS = ("knn", "knn_weighted", "model_benchmark", "model_mean")


def render(
    material: Material, ranking: Ranking, cells: Tested | None, found: Difficulty | None
) -> str:
    """Title, one sentence, findings."""
    lines = [
        _two_models(material, ranking),
        _predictors(cells),
        _text_difficulty(found),
        _suspects(material),
        _constant(material),
        _limits(material, ranking),
    ]
    return (
        f'<h1>{name(material.name)}</h1>\n<p class="lead">{_sentence(material)}</p>\n'
        "<h3>What to look at first</h3>\n"
        f'<ul class="first">{"".join(line for line in lines if line)}</ul>\n'
    )


def _sentence(material: Material) -> str:
    n = int(material.observed.sum())
    cells = max(material.observed.size, 1)
    kind = "scores from 0 to 1" if material.graded else "right-or-wrong scores"
    return (
        f"Answers of {plural(len(material.models), 'language model')} to"
        f" {plural(material.study.n_items, 'item')} of"
        f" {plural(len(material.benchmarks), 'benchmark')} ({names(material.benchmarks, 6)}):"
        f" {n:,} {kind}, {num(n / cells, scale=100, digits=0)}&#8239;% of all pairs."
    )


def _line(what: str, html: str, css: str = "") -> str:
    return f'<li{f" class={css}" if css else ""}><span class="what">{esc(what)}</span>{html}</li>\n'


def _two_models(material: Material, ranking: Ranking) -> str:
    pair = two_strongest(material, ranking)
    if pair is None:
        return _line("The two strongest models", "There is one model: nothing to set beside it.")
    first, second, changes = pair
    a, b = name(material.models[first]), name(material.models[second])
    whole, parts = changes[0], [c for c in changes[1:] if c.subject == "all"]
    kind = "benchmark"
    if len(parts) < 2:
        parts, kind = [c for c in changes if c.subject != "all"], "subject"
    d = whole.difference
    if not np.isfinite(d.low) or whole.n_items < 5:
        told = "too few common items to say"
    elif whole.verdict == "no clear change":
        told = "a tie within noise"
    else:
        told = f"{a if d.value > 0 else b} is ahead beyond noise"
    text = (
        f"{a} and {b} score {num(whole.after, scale=100)} and {num(whole.before, scale=100)} on"
        f" the {plural(whole.n_items, 'item')} that both answered, difference"
        f" {estimate(*d, scale=100, sign=True)} points ({_test('p', whole.p)}): {told}."
    )
    parted = sorted((c for c in parts if c.verdict != "no clear change"), key=lambda c: c.q)
    if parted:
        shown = "; ".join(
            f"{name(c.benchmark if kind == 'benchmark' else c.subject)}"
            f" {estimate(*c.difference, scale=100, sign=True)} ({_test('q', c.q)},"
            f" n {c.n_items:,})"
            for c in parted[:3]
        )
        more = ", most surely" if len(parted) > 3 else ""
        count = f"{len(parted)} of {plural(len(parts), kind)}"
        text += f" They part beyond noise on {count}{more}: {shown}."
    elif len(parts) > 1:
        text += f" No single {kind} parts them beyond noise (all {len(parts)} with q ≥ 0.05)."
    return _line("The two strongest models side by side", text)


def _predictors(cells: Tested | None) -> str:
    if cells is None or cells.variant is None:
        return ""
    told = []
    for rival in [r for r in RIVALS if r in cells.p and r != "model_mean"][:3] or ["model_mean"]:
        if rival not in cells.p:
            continue
        d = cells.paired(cells.variant, rival)["log_loss"]
        said = verdict(d, "log_loss")
        link = "than" if said in ("better", "worse", "no worse") else "from"
        if link == "from" and said != "not told apart":
            said, link = "on too few items to be told apart", "from"
        told.append(f"<b>{said}</b> {link} {esc(rival)}: {estimate(*d, digits=3, sign=True)}")
    own = cells.rows()[cells.variant]
    text = (
        f"{esc(cells.variant)} predicts {plural(cells.n_items, 'unseen item')} with log-loss"
        f" {estimate(own['log_loss'], own['log_loss_low'], own['log_loss_high'], 3)}"
        f" and accuracy {num(own['accuracy'], scale=100)}"
        f' <span class="i">{interval(own["accuracy_low"], own["accuracy_high"], 1, 100)}</span>'
        f" ({len(cells.score):,} responses). By paired difference in log-loss"
        " (below 0: it is better) it is " + "; ".join(told) + "."
    )
    rows = cells.rows()
    best = min(rows, key=lambda k: rows[k]["log_loss"])
    if best not in VARIANTS:
        text += f" The lowest log-loss is {esc(best)}'s."
    return _line("JE-IRT beside its rivals", text)


def _text_difficulty(found: Difficulty | None) -> str:
    if found is None or found.ranks.within is None:
        return ""

    def one(k: int) -> str:
        w = found.ranks.within
        assert w is not None
        return estimate(w.value[k], w.low[k], w.high[k], 2)

    rival = next((k for k, n in enumerate(found.ranks.names) if n.startswith("knn")), None)
    text = (
        f"How hard unseen items turn out is ranked by {esc(found.ranks.names[0])} with Spearman"
        f" {one(0)}"
        f" within {found.ranks.kind} (mean over {plural(len(found.ranks.parts), found.ranks.kind)})"
    )
    if rival:
        text += f", by {esc(found.ranks.names[rival])} with {one(rival)}"
    return _line("Difficulty of unseen items", f"{text}; {plural(len(found.item), 'item')}.")


def _suspects(material: Material) -> str:
    tested = material.items.filter(pl.col("item_rest").is_not_null())
    what = "Suspect items"
    if not tested.height:
        return _line(what, f"No item has the {MIN_MODELS} answers that the check needs.")
    negative = tested.filter(pl.col("item_rest") < 0).sort("item_rest", "item_id")
    sure = negative.filter(pl.col("q_negative") < SUSPECT_Q)
    if sure.height:
        text = (
            f"{plural(sure.height, 'item')} of {tested.height:,} tested are failed by the better"
            f" models beyond chance (q &lt; {SUSPECT_Q:g}); read first {_ids(sure)}."
        )
    elif negative.height:
        text = (
            f"None beyond chance (q &lt; {SUSPECT_Q:g}) among {tested.height:,} tested;"
            f" {negative.height:,} have a negative item-rest correlation, the lowest"
            f" {_ids(negative)}."
        )
    else:
        text = f"None: no negative item-rest correlation among {tested.height:,} items tested."
    return _line(what, text)


def _ids(items: pl.DataFrame) -> str:
    return ", ".join(
        f"<code>{name(i)}</code> (r {num(r, 2, sign=True)})"
        for i, r in items.select("item_id", "item_rest").head(3).iter_rows()
    )


def _constant(material: Material) -> str:
    table = (
        material.items.filter(pl.col("n_models") >= 2)
        .group_by("benchmark", maintain_order=True)
        .agg(pl.col("constant").mean().alias("share"), pl.col("constant").sum(), pl.len())
        .sort("share", descending=True, maintain_order=True)
    )
    if not table.height or table["share"][0] == 0:
        return ""
    b, share, n, total = table.row(0)
    whole = int(table["constant"].sum())
    return _line(
        "Items that tell no models apart",
        f'{name(b)} has the most: <b class="n">{num(share, scale=100, digits=0)}&#8239;%</b>'
        f" ({n:,} of {total:,} items have one score for all models; {whole:,} in the study).",
    )


def _limits(material: Material, ranking: Ranking) -> str:
    told = []
    if len(material.models) < 20:
        told.append(
            f"{plural(len(material.models), 'model')} are few: what an item's correlation or"
            " difficulty says of other models is rough"
        )
    n_responses = material.study.responses.height
    if n_responses == int(material.observed.sum()):
        told.append("one run per pair, so no interval here covers a model's own run-to-run noise")
    n_all, incomplete = len(material.models), int((~ranking.complete).sum())
    if incomplete and len(material.benchmarks) > 1:
        told.append(f"{incomplete:,} of {n_all:,} models did not run every benchmark")
    elif incomplete:
        told.append(
            f"{incomplete:,} of {len(material.models):,} models answered under 90 % of items"
        )
    if not material.has_texts:
        told.append("there are no texts, so nothing here says what items are about")
    if not material.missing.keys().isdisjoint(("vectors",)) and material.has_texts:
        told.append("near-duplicates are found by equal text only")
    told.append("whether these items have leaked into training is not visible in answers")
    text = "; ".join(told)
    return _line("What this data cannot tell", text[0].upper() + text[1:] + ".", "limit")


def _test(letter: str, value: float) -> str:
    shown = q_value(value)
    return f"{letter}&#8239;{'' if shown.startswith('&lt;') else '=&#8239;'}{shown}"

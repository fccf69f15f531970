"""Section Why one number is not enough: what a single ability a model leaves unsaid."""

from __future__ import annotations

from typing import Any

from thetascope.predictors.diagnosis import wording
from thetascope.report import diagnosis_figures, figures
from thetascope.report.gather import Material
from thetascope.report.page import Cell, Row, Section, absent, figure, measured, number, table, word
from thetascope.report.text import esc, name, num, q_value, shorten

TITLE = "Why one number is not enough"
N_CURVES = 6
N_NEGATIVE = 15


def render(material: Material) -> Section:
    """Four parts: discriminations, curves, reversals, log-loss."""
    if material.diagnosis is None:
        lack = material.missing["diagnosis"]
        what = (
            f"{lack.why} It tells whether one ability a model describes these data: items that"
            " better models fail more often, models whose order depends on the benchmark, and what"
            " several dimensions predict better, each beside what noise alone gives."
        )
        return Section("diagnosis", TITLE, absent(what, lack.command))
    found = material.diagnosis.table
    html = (
        "<p>One score a model says enough where every item ranks the models alike. These are four"
        " looks at whether it does, each beside what noise alone gives.</p>\n"
        + _discriminations(found["discrimination"])
        + _curves(found["monotonicity"])
        + _reversals(found["reversals"])
        + _losses(found["losses"])
    )
    return Section("diagnosis", TITLE, html)


def _told(lines: list[str]) -> str:
    first, *rest = lines
    head, colon, body = first.partition(": ")
    text = body[:1].upper() + body[1:] if colon else head
    return f"<p>{esc(text)}</p>\n" + "".join(f'<p class="note">{esc(r)}</p>\n' for r in rest)


def _discriminations(found: dict[str, Any]) -> str:
    html = "<h3>Items that better models fail</h3>\n"
    html += _told(wording.discrimination_sentence(found))
    if found["why_not"]:
        return html
    band = "; the orange band is the 95&#8239;% range under noise alone"
    caption = "Items by discrimination in the 2PL without a sign constraint"
    caption += (band if found["bootstraps"] else "") + ". The outermost bins hold all beyond."
    html += figure(diagnosis_figures.discriminations(found["histogram"]), caption)
    rows = [
        Row([word(part, "l name"), number(n), *(_share(s) for s in shares)])
        for part, n, shares in wording.parts_of(found)
    ]
    head = ["benchmark", "n<small>items</small>", "a &lt; 0<small>% of items</small>"]
    head += ["|a| &lt; 0.2<small>%</small>", "a + 1.645 SE &lt; 0<small>%</small>"]
    under = "Below each share: mean and 95&#8239;% range of the same share under noise alone."
    html += table(head, rows, under)
    listed = found["surely_negative"]
    if listed:
        cells = [
            Row([word(i["item_id"], "l id"), number(i["n_models"]), number(i["a"], 2),
                 number(i["se"], 2)])
            for i in listed[:N_NEGATIVE]
        ]  # fmt: skip
        shown = f"Surely negative, surest first ({min(len(listed), N_NEGATIVE)} of {len(listed):,})"
        html += table(["item", "n<small>models</small>", "a", "SE"], cells, shown)
    return html


def _share(share: dict[str, Any]) -> Cell:
    low, high = share["noise_low"], share["noise_high"]
    under = "" if low is None else f"<small>{num(share['noise_mean'], 2, scale=100)}"
    if low is not None:
        under += f" [{num(low, 2, scale=100)}, {num(high, 2, scale=100)}]</small>"
    sure = high is not None and share["share"] > high
    return Cell(num(share["share"], 2, scale=100) + under, share["share"], "sure" if sure else "")


def _curves(found: dict[str, Any]) -> str:
    html = "<h3>Curves that fall</h3>\n" + _told(wording.curves_sentence(found))
    if found["why_not"]:
        return html
    sure = found["counts"]["not_monotone"]
    which = "The surest" if sure else "The least p, none of them beyond chance among so many"
    html += (
        f'<p class="note">{which}. A dot is a bin of models, its line a 95&#8239;% interval; the'
        " orange line is the best curve that does not fall.</p>\n"
    )
    panels = [
        figure(
            diagnosis_figures.curve(c, c["item_id"]),
            f"<b>{name(shorten(c['item_id'], 34))}</b><br>p {q_value(c['p'])}, q {q_value(c['q'])}",
        )
        for c in found["curves"][:N_CURVES]
    ]
    return html + f'<div class="row">{"".join(panels)}</div>\n'


def _reversals(found: dict[str, Any]) -> str:
    html = "<h3>Models that swap places</h3>\n" + _told(wording.reversals_sentence(found))
    if not found["examples"]:
        return html
    best = found["examples"][0]
    dots = [
        figures.Dot(s["part"], s["difference"], s["low"], s["high"], k)
        for k, s in enumerate((best["ahead"], best["behind"]))
    ]
    caption = (
        f"{name(best['first'])} minus {name(best['second'])}, points, paired over common items"
    )
    svg = figures.dots(
        dots, "difference, points", "A pair of models in two orders", unit=100, reference=0.0,
        width=460, label_width=150,
    )  # fmt: skip
    rows = [
        Row(
            [word(e["first"], "l name"), word(e["second"], "l name"), *_side(e["ahead"]),
             *_side(e["behind"])]
        )
        for e in found["examples"]
    ]  # fmt: skip
    head = ["first", "second", "first leads on", "difference", "second leads on", "difference"]
    told = "The surest reversals, one a pair of models: first minus second, points."
    return html + figure(svg, caption) + table(head, rows, told)


def _side(side: dict[str, Any]) -> list[Cell]:
    below = f" n {side['n']:,}"
    return [
        word(side["part"]),
        measured(
            side["difference"], side["low"], side["high"], 1, scale=100, sign=True, below=below
        ),
    ]


def _losses(found: dict[str, Any]) -> str:
    html = "<h3>What several dimensions predict</h3>\n" + _told(wording.losses_sentence(found))
    missing = wording.missing_predictors(found)
    html += "".join(f'<p class="note">{esc(m[:1].upper() + m[1:])}.</p>\n' for m in missing)
    every = sorted(found["rows"], key=lambda r: (r["benchmark"] != "all", r["benchmark"]))
    whole = sorted((r for r in every if r["benchmark"] == "all"), key=lambda r: r["log_loss"])
    if not whole:
        return html
    base, order = found["reference"], [r["predictor"] for r in whole]
    rows = [
        Row([
            Cell(f"{esc(r['predictor'])}<small>{esc(wording.ESTIMATES[r['predictor']])}</small>",
                 css="l"),
            measured(r["log_loss"], r["log_loss_low"], r["log_loss_high"], 4),
            _against(r["difference"]),
        ], "ref" if r["predictor"] == base else "")
        for r in whole
    ]  # fmt: skip
    told = (
        f"Log-loss on {whole[0]['n_responses']:,} held-out responses; the predictors know the other"
        " responses to the same items. Lower is better; bold: the interval leaves out 0."
    )
    html += table(["predictor", "log-loss", f"minus {esc(base)}"], rows, told)
    parts = list(dict.fromkeys(r["benchmark"] for r in every if r["benchmark"] != "all"))
    if len(parts) > 1:
        by = {(r["benchmark"], r["predictor"]): r for r in every}
        lines = [
            Row([word(p, "l name"), number(by[p, order[0]]["n_responses"]),
                 *(_loss(by[p, o]) for o in order)])
            for p in parts
        ]  # fmt: skip
        heads = ["benchmark", "n<small>responses</small>", *(esc(o) for o in order)]
        html += table(heads, lines, "The same by benchmark.")
    return html


def _loss(row: dict[str, Any]) -> Cell:
    return measured(row["log_loss"], row["log_loss_low"], row["log_loss_high"], 3)


def _against(row: dict[str, Any]) -> Cell:
    if not row:
        return Cell("")
    ends = row["log_loss_low"], row["log_loss_high"]
    return measured(row["log_loss"], *ends, 4, sign=True, mark=True)

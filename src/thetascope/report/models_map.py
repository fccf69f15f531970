"""The map of models in the space section: places, relatives, closest pairs, portfolios."""

from __future__ import annotations

from typing import Any

from thetascope.report.page import Cell, Row, figure, measured, number, table, word
from thetascope.report.space_figures import curve, named_points
from thetascope.report.text import ends, names, num, plural, q_value

N_PAIRS = 12


def render(found: dict[str, Any]) -> str:
    """Map, relatives, pairs, portfolio."""
    html = "<h3>The map of models</h3>\n" + _map(found)
    if found["families"]:
        f = found["families"]
        html += (
            f"<p>Of {f['n_models']} models with a relative in {f['n_families']} named families,"
            f" {num(f['same'], 0, scale=100)}&#8239;% have one as the model that answers most"
            f" alike (family names shuffled: {num(f['chance'], 0, scale=100)}&#8239;%, p"
            f" {q_value(f['p'])}). Names had no part in finding them.</p>\n"
        )
    return html + _pairs(found) + _portfolio(found["portfolio"])


def _map(found: dict[str, Any]) -> str:
    x, y = [p[0] for p in found["place"]], [p[1] for p in found["place"]]
    tips = []
    for model, near in zip(found["models"], found["relatives"], strict=True):
        told = "" if near is None else f"; answers most like {near[0]} ({near[1]:.2f})"
        tips.append(f"{model}{told}")
    first, second = found["explained"]
    plot = named_points(
        x, y, found["models"], tips, "first principal axis, logits", "second",
        "Models by their predicted logits", width=720, height=460,
    )  # fmt: skip
    return figure(
        plot,
        "Models by what they are predicted to get right, two principal axes of their logits"
        f" ({num(first, 0, scale=100)} and {num(second, 0, scale=100)}&#8239;% of what tells them"
        " apart). Near means alike in the space; names that would overlap are in the tips.",
    )


def _pairs(found: dict[str, Any]) -> str:
    rows = [
        Row([word(p["first"], "l name"), word(p["second"], "l name"), number(p["n"]),
             measured(*ends(p["kappa"]), 2), measured(*ends(p["differ"]), 1, scale=100),
             measured(*ends(p["rescued"]), 0, scale=100), Cell("yes" if p["redundant"] else "no")])
        for p in found["pairs"][:N_PAIRS]
    ]  # fmt: skip
    head = ["first", "second", "n<small>items</small>", "error consistency<small>κ</small>",
            "differ<small>% of items</small>", "rescued<small>% of the first's misses</small>",
            "redundant"]  # fmt: skip
    caption = (
        "Closest pairs. κ: agreement beyond that of two independent models with these means;"
        " redundant: its low end is .65 or more, what one model reaches that is served by two"
        " hosts."
    )
    return table(head, rows, caption) if rows else ""


def _portfolio(found: dict[str, Any] | None) -> str:
    if found is None:
        return "<p>No portfolio: no two models answered a common item.</p>\n"
    x = [float(k) for k in range(1, len(found["order"]) + 1)]
    held = [h[0] for h in found["held_out"]]
    others = [("chosen on other items", 0, held)] if held else []
    plot = curve(
        x, [*others, ("on these items", 1, found["cover"])],
        "models", "share some model gets right", "Cover of greedy portfolios",
        bars=[(h[1], h[2]) for h in found["held_out"]], reference=found["everything"],
    )  # fmt: skip
    nearly = found["nearly"]
    text = (
        f"<p>{plural(nearly, 'model')} {'reaches' if nearly == 1 else 'reach'} 95&#8239;% of"
        f" what all {len(found['models'])} do: {names(found['order'][:nearly])}.</p>\n"
        if nearly
        else ""
    )
    left = (
        f'<p class="note">{plural(len(found["left_out"]), "model")} did not answer all of these'
        f" items and are left out: {names(found['left_out'])}.</p>\n"
        if found["left_out"]
        else ""
    )
    return (
        figure(
            plot,
            f"Share of {found['n_items']:,} items that some model of a greedy portfolio gets right:"
            " on items that did not choose it (mean, least, greatest half) and on those that did;"
            " dashed: all models. It is what a router that always knows best would score.",
        )
        + text
        + left
    )

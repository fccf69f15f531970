"""The taxonomy in the space section: clusters, how stable, how far they are the subjects."""

from __future__ import annotations

from typing import Any

from thetascope.report.page import Cell, Row, figure, measured, number, table, word
from thetascope.report.space_figures import curve
from thetascope.report.text import ends, esc, name, num, plural, q_value

SURE = 0.05


def render(found: dict[str, Any]) -> str:
    """Clusters, stability, agreement."""
    kind = esc(found["kind"] or "label")
    who = {c.get("named_by", "terms") for c in found["clusters"]} - {"terms"}
    named = (
        f"Names were written by {name(min(who))}, a language model, from the items nearest to"
        " each centre."
        if who
        else "Names are the strongest words of their texts (c-TF-IDF), not a person's."
    )
    by = {
        "stability": "decided by what comes back from other items",
        "user": "decided by the user",
        "default": "a default: no number of clusters comes back from other items here",
    }[found["chosen_by"]]
    text = (
        f"<p>{plural(found['n_items'], 'item')} by the direction that the answers give them, in"
        f" {plural(found['k'], 'cluster')} ({by}). {named}</p>\n"
    )
    html = f"<h3>Taxonomy</h3>\n{text}" + _clusters(found, kind)
    if found["levels"]:
        html += _stability(found)
    if found["agreement"]:
        html += _agreement(found, kind)
    return html


def _clusters(found: dict[str, Any], kind: str) -> str:
    rows = []
    for c in found["clusters"]:
        mix = "; ".join(
            f"{name(s)} {num(share, 0, scale=100)}&#8239;%" for s, share in c["subjects"]
        )
        parted = c["q"] is not None and c["q"] < SURE
        models = "".join(
            f"{name(m)} {num(d, 0, scale=100, sign=True)}&#8239;±&#8239;{num(e, 0, scale=100)} "
            for m, d, e in [*c["above"][:1], *c["below"][:1]]
        )
        rows.append(
            Row(
                [
                    word(c["name"] or f"cluster {c['code']}", "l name"), number(c["n_items"]),
                    number(c["error"], 0, scale=100), Cell(mix, css="l"),
                    Cell(q_value(c["q"]), c["q"] if c["q"] is not None else float("nan"),
                         "sure" if parted else ""),
                    number(c["n_tested"]), Cell(models if parted else "", css="l"),
                ]
            )
        )  # fmt: skip
    head = ["cluster", "n<small>items</small>", "error<small>%</small>",
            f"{kind}s<small>share of its items</small>", "models part here<small>q</small>",
            "n<small>tested</small>", "furthest<small>points</small>"]  # fmt: skip
    caption = (
        f"Models part in a cluster where some do better or worse there than their {kind} means"
        " say, beyond what shuffled clusters give; asked of items whose answers the fit had not"
        " seen."
    )
    return table(head, rows, caption)


def _stability(found: dict[str, Any]) -> str:
    levels = found["levels"]
    x = [float(v["k"]) for v in levels]
    plot = curve(
        x, [("adjusted Rand index", 0, [v["stability"][0] for v in levels])],
        "clusters", "adjusted Rand index", "How far clusters come back from other items",
        bars=[(v["stability"][1], v["stability"][2]) for v in levels],
    )  # fmt: skip
    return figure(
        plot,
        "How far the clusters of one half of the items are those of the other half: mean, least and"
        " greatest over halves.",
    )


def _agreement(found: dict[str, Any], kind: str) -> str:
    labels = {"space": f"the space, {found['n_labels']} clusters",
              "text": f"raw text vectors, {found['n_labels']} clusters",
              "chosen": f"the space, {found['k']} clusters"}  # fmt: skip
    rows = [
        Row([word(labels[key], "l name"), measured(*ends(a["ari"]), 2),
             measured(*ends(a["ami"]), 2), measured(*ends(a["v_measure"]), 2),
             measured(*ends(a["shuffled_ari"]), 3),
             measured(*ends(a["shuffled_v"]), 3)])
        for key, a in found["agreement"].items()
    ]  # fmt: skip
    head = ["clusters of", "ARI", "AMI", "V-measure", "ARI<small>labels shuffled</small>",
            "V<small>labels shuffled</small>"]  # fmt: skip
    caption = f"Agreement with the {found['n_labels']} {kind}s that people gave."
    return table(head, rows, caption, sort=False)

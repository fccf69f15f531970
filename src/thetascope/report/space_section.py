"""Section The space: taxonomy, the map of models, benchmarks never seen, probes, difficulty."""

from __future__ import annotations

from typing import Any

from thetascope.report import models_map, taxonomy_part
from thetascope.report.figures import Dot, dots
from thetascope.report.gather import Material
from thetascope.report.page import Cell, Row, Section, absent, figure, measured, number, table, word
from thetascope.report.space_figures import named_points
from thetascope.report.text import ends, esc, estimate, name, num, plural, q_value

TITLE = "What the learnt space says"
_COMMANDS = {
    "taxonomy": "clusters of items as the answers suggest them",
    "models": "which models answer alike, and which few cover all",
    "ood": "what is lost on a benchmark never seen",
    "difficulty": "how hard items are, foreseen by the space and by others",
}
N_MODELS = 12


def render(material: Material) -> Section:
    """What was asked of the space; for the rest the commands."""
    found = material.spaces
    html = ""
    if "taxonomy" in found:
        html += taxonomy_part.render(found["taxonomy"])
    if "models" in found:
        html += models_map.render(found["models"])
    if "difficulty" in found:
        html += _difficulty(found["difficulty"])
    if "ood" in found:
        html += _ood(found["ood"])
    for key in sorted(k for k in found if k.startswith("probe-")):
        html += _probe(key.removeprefix("probe-"), found[key])
    html += _rest(material)
    return Section("space", TITLE, html)


def _rest(material: Material) -> str:
    stale, place = set(material.stale_spaces), material.place
    lacking = [k for k in _COMMANDS if k not in material.spaces]
    if not lacking:
        return ""
    old = [k for k in lacking if k in stale]
    why = f"{'Not looked at' if material.spaces else 'Nothing has been asked of the space'} yet"
    told = "; ".join(f"{esc(k)}: {esc(_COMMANDS[k])}" for k in lacking)
    if old:
        why += (
            f" (damaged, or made from other tables than the study holds now: {esc(', '.join(old))})"
        )
    return absent(f"{why}. {told}.", "\n".join(f"thetascope space {k} {place}" for k in lacking))


def _difficulty(found: dict[str, Any]) -> str:
    rows = []
    for key, whole in found["overall"].items():
        within = found["within"][key] if found["within"] else [None] * 3
        reach = found["coverage"].get(key)
        inside = Cell("") if reach is None else number(reach[0], 1, scale=100)
        width = Cell("") if reach is None else number(reach[1], 0, scale=100)
        rows.append(
            Row(
                [
                    word(key, "l name"),
                    measured(*ends(whole), 2),
                    measured(*ends(within), 2),
                    inside,
                    width,
                ]
            )
        )
    gain, flipped = found["directed"], found["reversed"]
    head = ["foreseen by", "all items", f"within {esc(found['kind'])}<small>mean</small>",
            "inside its 90&#8239;% interval<small>%</small>",
            "half width<small>points</small>"]  # fmt: skip
    caption = (
        f"Spearman rank correlation with the observed error of {found['n_items']:,} items that"
        f" nothing had answered before ({plural(found['seeds'], 'fold')} of ten)."
    )
    slopes = (
        f" Weaker models do better on {flipped['negative']:,} of {flipped['n_items']:,} items,"
        f" surely (5&#8239;%) on {flipped['surely_negative']:,}, where"
        f" {num(flipped['by_chance'], 0)} would be so if no item told models apart; the space"
        f" foresees an item's slope with Spearman {estimate(*ends(flipped['foreseen']), 2)}."
        if flipped["n_items"]
        else " No item was answered by eight models and more, so whether weaker models do better"
        " somewhere cannot be told."
    )
    text = (
        f"<p>A difficulty that depends on direction changes the log-loss by"
        f" {estimate(*ends(gain['common']), 4, sign=True)}.{slopes}</p>\n"
    )
    return "<h3>Difficulty, foreseen</h3>\n" + table(head, rows, caption, sort=False) + text


def _ood(found: dict[str, Any]) -> str:
    parts = found["parts"]
    kind = esc(found["kind"])
    head = [kind, "n<small>items</small>", "log-loss lost", "accuracy lost<small>points</small>",
            "alignment<small>mean</small>", "left over the whole fit<small>no answers</small>",
            "<small>after 10</small>", "<small>after 50</small>", "nearest"]  # fmt: skip
    rows = []
    for p in sorted(parts, key=lambda p: -p["log_loss"][0]):
        left = [measured(*ends(p["repaired"][n]), 3, sign=True) if n in p["repaired"] else Cell("")
                for n in ("0", "10", "50")]  # fmt: skip
        near = p["covered_by"][0] if p["covered_by"] else ("", 0.0)
        rows.append(
            Row([word(p["name"], "l name"), number(p["n_items"]),
                 measured(*ends(p["log_loss"]), 3, sign=True, mark=True),
                 measured(*ends(p["accuracy"]), 1, scale=100, sign=True, mark=True),
                 number(p["mean"], 2), *left, word(near[0])])
        )  # fmt: skip
    caption = (
        f"Each {kind} left out in turn ({plural(found['seeds'], 'fold')} of ten). Lost: beyond what"
        " each model's mean loses, too. Then how far above the fit that saw it the log-loss stays,"
        " once that many of its items are answered and every model's level there is moved."
    )
    told = ""
    for measure, c in found["correlation"].items():
        better = "worth reading" if c["informative"] else "not worth reading"
        told += (
            f"<p>Alignment ({esc(measure)}) against the loss: Spearman"
            f" {estimate(*ends(c['rho']), 2)}, p {q_value(c['p'])}; it foretells a left-out"
            f" {kind}'s loss to {num(c['error'], 3)}, the mean loss to"
            f" {num(c['error_of_mean'], 3)}: {better}.</p>\n"
        )
    tips = [f"{p['name']}: {p['log_loss'][0]:+.3f} at alignment {p['mean']:.2f}" for p in parts]
    plot = named_points(
        [p["mean"] for p in parts], [p["log_loss"][0] for p in parts],
        [p["name"] for p in parts], tips, "mean alignment with the training items",
        "log-loss lost", f"Log-loss lost against alignment, by {found['kind']}", zero=True,
        width=520, height=340,
    )  # fmt: skip
    return (
        "<h3>A benchmark never seen</h3>\n" + table(head, rows, caption, sort=False)
        + figure(plot) + told
    )  # fmt: skip


def _probe(label: str, found: dict[str, Any]) -> str:
    s, sets = found["separation"], found["sets"]
    text = (
        f"<p>In the space of fit {name(found['fit'])}, from {name(sets['negative'])}"
        f" ({found['n_negative']:,} items) to {name(sets['positive'])} ({found['n_positive']:,})."
        f" It tells {s['n_positive']:,} and {s['n_negative']:,} labelled items that it never saw"
        f" apart with AUC {estimate(*ends(s['space']), 3)}; the same on raw text vectors"
        f" {estimate(*ends(s['text']), 3)}.</p>\n"
    )
    rows = found["models"]
    shown = rows if len(rows) <= 2 * N_MODELS else [*rows[:N_MODELS], *rows[-N_MODELS:]]
    plot = dots(
        [Dot(m, v, low, high) for m, v, low, high in shown], "projected ability less the mean",
        f"Models on the axis {label}", width=460, label_width=200, digits=2, reference=0.0,
    )  # fmt: skip
    cut = "" if len(shown) == len(rows) else f" The {N_MODELS} highest and lowest of {len(rows)}."
    return (
        f"<h3>Axis {name(label)}</h3>\n{text}"
        + figure(plot, f"Models on the axis, 95&#8239;% over the items of both sets.{cut}")
    )  # fmt: skip

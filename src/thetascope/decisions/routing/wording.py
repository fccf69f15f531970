"""What a routing evaluation says, in the words that the terminal and the page share."""

from __future__ import annotations

from typing import Any

MARGIN = 0.003
"""'No worse': the upper end of the difference is 0 or more, and the value at least -0.3 points."""

POLICIES = {
    "random": "random",
    "best_average": "best average",
    "best_per_benchmark": "best per benchmark",
    "model_benchmark": "model x benchmark mean",
    "knn": "neighbours",
    "knn_weighted": "weighted neighbours",
    "knn_weighted_guarded": "weighted neighbours, guard",
    "oracle": "oracle",
    "cheapest": "cheapest model",
    "dearest": "dearest model",
}


BASES = ("best_average", "best_per_benchmark")
"""The policies that others are compared with."""


def bases_of(found: dict[str, Any]) -> list[str]:
    """Those of `BASES` that an evaluation compares with."""
    return [b for b in BASES if f"minus_{b}" in found["rows"][0]]


def sentences(found: dict[str, Any]) -> list[str]:
    """What an evaluation says: the verdicts, what the guards learnt, the frontier."""
    return [*verdict_sentences(found), *guard_sentences(found), *frontier_sentences(found)]


def policy_name(policy: str, router: str) -> str:
    """A policy in words."""
    if policy in POLICIES:
        return POLICIES[policy]
    rest = policy.removeprefix(router)
    words = {
        "": "", "_guarded": ", guard", "_blind": ", benchmark guessed",
        "_blind_guarded": ", benchmark guessed, guard", "_saver": ", as good as best average",
    }  # fmt: skip
    return router + words.get(rest, rest)


def rows_of(found: dict[str, Any], benchmark: str) -> list[dict[str, Any]]:
    """The rows of a part, worst first, the oracle last."""
    rows = [r for r in found["rows"] if r["benchmark"] == benchmark]
    return sorted(rows, key=lambda r: (r["policy"] == "oracle", r["score"]))


def row_of(found: dict[str, Any], policy: str, benchmark: str = "all") -> dict[str, Any]:
    """One row; KeyError where there is none."""
    for row in found["rows"]:
        if (row["policy"], row["benchmark"]) == (policy, benchmark):
            return row
    raise KeyError((policy, benchmark))


def tested_sentence(found: dict[str, Any]) -> str:
    """What was tested."""
    kind = (
        "every candidate answered each"
        if found["items"] == "complete"
        else "chosen among the candidates that answered each"
    )
    out = (
        f"{found['n_items']:,} unseen items of {found['seeds']} split"
        f"{'' if found['seeds'] == 1 else 's'},"
        f" {len(found['candidates'])} candidates ({kind})"
    )
    if found["n_items_left_out"]:
        out += f"; {found['n_items_left_out']:,} tested items left out"
    return out


def cell(row: dict[str, Any], key: str, sign: str = "") -> str:
    """'64.1 [62.9, 65.3]' in percent or points."""
    if row.get(key) is None:
        return "-"
    value = f"{100 * row[key]:{sign}.1f}"
    if row[f"{key}_low"] is None:
        return value
    return f"{value} [{100 * row[f'{key}_low']:{sign}.1f}, {100 * row[f'{key}_high']:{sign}.1f}]"


def cost_cell(row: dict[str, Any]) -> str:
    """Mean cost, '-' where a model that was chosen has none."""
    return "-" if row["cost"] is None else f"{row['cost']:.4g}"


def is_no_worse(row: dict[str, Any], base: str) -> bool | None:
    """Whether a policy is no worse than a default; None where that is not known."""
    value, high = row.get(f"minus_{base}"), row.get(f"minus_{base}_high")
    if value is None or high is None:
        return None
    return high >= 0 and value >= -MARGIN


def verdict_sentences(found: dict[str, Any]) -> list[str]:
    """The guarded router against each default."""
    out: list[str] = []
    router = found["router"]
    row = row_of(found, f"{router}_guarded")
    for base in BASES:
        low = row.get(f"minus_{base}_low")
        fine = is_no_worse(row, base)
        if fine is None or low is None:
            continue
        if row[f"minus_{base}"] == low == row[f"minus_{base}_high"] == 0:
            out.append(f"{policy_name(row['policy'], router)}: scores as {POLICIES[base]} does"
                       " throughout")  # fmt: skip
            continue
        verdict = "better than" if low > 0 else "no worse than" if fine else "worse than"
        out.append(
            f"{policy_name(row['policy'], router)}: {verdict} {POLICIES[base]},"
            f" {cell(row, f'minus_{base}', '+')} points"
        )
    return out


def guard_sentences(found: dict[str, Any]) -> list[str]:
    """What the guards learnt."""
    out: list[str] = []
    keys = [k for k in next(iter(found["learnt"].values())) if k.startswith("tau ")]
    for key in keys:
        values = [split[key] for split in found["learnt"].values()]
        shown = ", ".join("never" if v == "inf" else f"{100 * v:.1f}" for v in values)
        name = policy_name(key.removeprefix("tau "), found["router"])
        told = (
            "never leaves the default"
            if all(v == "inf" for v in values)
            else f"leaves the default beyond a gain of {shown} points (a split each)"
        )
        out.append(f"guard of {name}: {told}")
    return out


def frontier_sentences(found: dict[str, Any]) -> list[str]:
    """Costs: what is known of whom, the areas, and the cost at equal score."""
    costs, frontier = found["costs"], found["frontier"]
    if costs["unit"] is None:
        return ["no costs: neither cost_usd nor tokens nor prices are known"]
    out = [f"costs in {costs['unit']}"]
    if costs["unit"] == "USD per million tokens":
        out[0] += " (no tokens are known: prices alone, as if all answers were equally long)"
    without = costs["models_without"]
    if without:
        out.append(
            f"{len(without)} candidates have no cost and are left out of the frontier:"
            f" {', '.join(without[:5])}{' ...' if len(without) > 5 else ''}"
        )
    if frontier is None:
        return [*out, "fewer than two candidates have a cost: no frontier"]
    for curve in frontier["curves"]:
        name = policy_name(curve["policy"], found["router"])
        share = cell(curve, "cost_share_at_equal_score")
        at = (
            "never as good as the best average"
            if share == "-"
            else (f"as good as the best average at {share} % of its cost")
        )
        out.append(f"frontier of {name}: area {cell(curve, 'area')}; {at}")
    saver = next((p for p in frontier["points"] if p["policy"].endswith("_saver")), None)
    if saver is not None:
        out.append(
            "lambda chosen on validation data to equal the best average:"
            f" {cell(saver, 'minus_best_average', '+')} points at {cell(saver, 'cost_share')} %"
            " of its cost"
        )
    return out

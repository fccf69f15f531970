"""A diagnosis in sentences: for the terminal and for the page, from the saved object."""

from __future__ import annotations

from typing import Any

from thetascope.predictors.diagnosis.discrimination import SHARES

ESTIMATES = {
    "irt_1pl": "one ability, one discrimination for all items",
    "irt_2pl": "one ability, a discrimination for each item",
    "mirt": "several abilities",
    "mirt_text": "several abilities, items with a prior from their texts",
    "jeirt": "item text and model in one space",
    "jeirt_context": "item text and model in one space, plus the model x benchmark mean",
}
_BENEATH = {
    "benchmarks": "if all benchmarks were samples of the same items",
    "subjects": "if all subjects were samples of the same items",
}


def per_cent(value: float | None) -> str:
    """'1.4', or '-'."""
    return "-" if value is None else f"{100 * value:.1f}"


def shown(share: dict[str, Any]) -> str:
    """'1.41 (0.52 [0.31, 0.63])': a share and that of noise alone."""
    value, *noise = (
        "-" if share[k] is None else f"{100 * share[k]:.2f}"
        for k in ("share", "noise_mean", "noise_low", "noise_high")
    )
    return (
        value if share["noise_mean"] is None else f"{value} ({noise[0]} [{noise[1]}, {noise[2]}])"
    )


def parts_of(found: dict[str, Any]) -> list[tuple[str, int, list[dict[str, Any]]]]:
    """Part, items and the shares negative, weak, surely negative: all, then each of several
    benchmarks."""
    parts = sorted(found["shares"].items(), key=lambda p: p[0] != "all")
    parts = parts[:1] if len(parts) == 2 else parts
    rows = [(part, [shares[name] for name in SHARES]) for part, shares in parts]
    return [(part, shares[0]["n"], shares) for part, shares in rows if shares[0]["n"]]


def discrimination_sentence(found: dict[str, Any]) -> list[str]:
    """What the 2PL without a sign constraint says, and what it was asked of."""
    counts = found["counts"]
    if found["why_not"]:
        return [f"Discriminations: not reported, {found['why_not']}."]
    share, sure = (found["shares"]["all"][k] for k in ("negative", "surely_negative"))
    text = (
        f"Discriminations: {share['count']:,} of {share['n']:,} items"
        f" ({per_cent(share['share'])} %) have a negative discrimination in the 2PL without a sign"
        " constraint: better models fail them more often."
    )
    if share["noise_mean"] is not None:
        low, high = share["noise_low"], share["noise_high"]
        beyond = "more than" if share["share"] > high else (
            "fewer than" if share["share"] < low else "no more than")  # fmt: skip
        text += (
            f" That is {beyond} noise alone gives ({per_cent(share['noise_mean'])} %,"
            f" 95 % range {per_cent(low)} to {per_cent(high)}, {found['bootstraps']} bootstraps"
            f" of the 2PL with a > 0, sd of log a {found['sd_log_a']:.2f})."
        )
    text += f" {sure['count']:,} are negative beyond their standard error (a + 1.645 SE < 0)"
    if sure["noise_mean"] is not None:
        text += f"; noise alone gives {sure['noise_mean'] * sure['n']:.1f}"
    text += "."
    left = (
        f"Not counted: {counts['constant']:,} items with equal scores,"
        f" {counts['too_few_models']:,} with under 20 models,"
        f" {counts['without_responses']:,} without responses."
    )
    more = []
    if found["dispersion"] is not None:
        more = [
            "Scores are graded: standard errors are those of right-or-wrong scores, too wide, and"
            " noise is drawn from beta distributions with each benchmark's dispersion."
        ]
    return [text, left, *more]


def curves_sentence(found: dict[str, Any]) -> list[str]:
    """How many characteristic curves fall, and how many were not tested."""
    counts = found["counts"]
    if found["why_not"]:
        return [f"Characteristic curves: not reported, {found['why_not']}."]
    low, n = found["parts"]["all"]["low_p"] / counts["tested"], counts["not_monotone"]
    verb = "falls" if n == 1 else "fall"
    return [
        f"Characteristic curves: {n:,} of {counts['tested']:,} tested {verb} beyond chance"
        " (q < 0.05): the mean score goes down where the models' rest score goes up."
        f" {per_cent(low)} % have p < 0.05, which is at most about 5 % where all curves rise.",
        f"Not tested: {counts['constant']:,} items with equal scores,"
        f" {counts['too_few_models']:,} with under 25 models.",
    ]


def reversals_sentence(found: dict[str, Any]) -> list[str]:
    """How often two models swap places, and how often noise alone makes them."""
    if found["why_not"]:
        return [f"Order reversals: not reported, {found['why_not']}."]
    kind = found["parts"]
    text = (
        f"Order reversals: of {found['n']:,} cases (two models, two {kind}), the models are in"
        f" opposite order in {per_cent(found['share_flipped'])} %{{}}, with both differences"
        f" beyond noise in {per_cent(found['share_surely_flipped'])} %{{}}."
    )
    if found["noise_flipped"] is None:
        lines = [text.format("", "")]
    else:
        raw, both = (100 * found[k][0] for k in ("noise_flipped", "noise_surely_flipped"))
        lines = [
            text.format(f" (noise alone: {raw:.1f} %)", f" (noise alone: {both:.2f} %)"),
            f"Noise alone: {_BENEATH[kind]}; mean of {found['shuffles']} shuffles.",
        ]
    if found["not_compared"]:
        lines.append(
            f"Not compared: {found['not_compared']:,} cases with under 20 common items on a side."
        )
    return lines


def losses_sentence(found: dict[str, Any]) -> list[str]:
    """Whether more than one ability predicts better."""
    if found["why_not"]:
        return [f"Held-out log-loss: not reported, {found['why_not']}."]
    rows = [r for r in found["rows"] if r["benchmark"] == "all" and r["difference"]]
    more = [r for r in rows if r["predictor"] != "irt_1pl"]
    if not more:
        return ["Held-out log-loss: nothing to set beside the 2PL."]
    best = min(more, key=lambda r: r["log_loss"])
    change = best["difference"]
    value, low, high = (change[k] for k in ("log_loss", "log_loss_low", "log_loss_high"))
    if low is None:
        verdict, ends = "cannot be told apart from one (no interval)", ""
    else:
        verdict = "predicts better than one" if high < 0 else (
            "predicts worse than one" if low > 0 else "is not told apart from one")  # fmt: skip
        ends = f" [{low:+.4f}, {high:+.4f}]"
    return [
        f"Held-out log-loss: more than one ability a model {verdict}; {best['predictor']} is the"
        f" best of them, minus {found['reference']} {value:+.4f}{ends}."
    ]


def missing_predictors(found: dict[str, Any]) -> list[str]:
    """Which predictors did not run, and why."""
    return [f"not run: {name}: {why}" for name, why in found["left_out"].items()]

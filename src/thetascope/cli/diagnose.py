"""Command diagnose: why one number is not enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from thetascope.cli.output import print_json, progress, say, table
from thetascope.predictors.diagnosis import diagnose_study, load_diagnosis
from thetascope.predictors.diagnosis.wording import (
    ESTIMATES,
    curves_sentence,
    discrimination_sentence,
    losses_sentence,
    missing_predictors,
    parts_of,
    reversals_sentence,
    shown,
)
from thetascope.study import Study

_ROWS = 10


def diagnose(
    study: Path,
    /,
    *,
    seeds: int = 1,
    bootstraps: int = 50,
    seed: int = 0,
    encoder: str | None = None,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Why one number is not enough: does one ability a model describe the study?

    Items whose discrimination is negative, curves that fall where ability rises, models whose
    order flips between benchmarks, each beside what noise alone gives, and the log-loss of one
    and of several dimensions on held-out responses.

    Parameters
    ----------
    study
        The study's folder.
    seeds
        Tenths of the responses that are held out for the log-loss, each once (1 to 10); 0
        leaves the log-loss out.
    bootstraps
        Parametric bootstraps of the 2PL, for what noise alone gives.
    seed
        Of the draws.
    encoder
        Name of the text vectors; needed where the study has several.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    with progress() as line:
        made = diagnose_study(
            study, seeds=seeds, bootstraps=bootstraps, seed=seed, encoder=encoder,
            progress=line, wait=wait,
        )  # fmt: skip
    found = load_diagnosis(Study.open(study)).table
    if json:
        print_json({**found, "folder": str(made.folder)})
        return 0
    _print_discrimination(found["discrimination"])
    _print_curves(found["monotonicity"])
    _print_reversals(found["reversals"])
    _print_losses(found["losses"])
    say("", f"{'kept in' if made.new else 'was already in'} {made.folder}")
    return 0


def _print_discrimination(found: dict[str, Any]) -> None:
    say(*discrimination_sentence(found))
    if found["why_not"]:
        return
    rows = [[part, f"{n:,}", *(shown(s) for s in shares)] for part, n, shares in parts_of(found)]
    head = ["benchmark", "items", "a < 0", "|a| < 0.2", "a + 1.645 SE < 0"]
    table("% of items (mean and 95 % range under noise alone)", head, rows)
    listed = found["surely_negative"]
    if listed:
        say("")
        table(
            f"surely negative, {min(_ROWS, len(listed))} of {len(listed)}",
            ["item", "models", "a", "SE"],
            [[i["item_id"], str(i["n_models"]), f"{i['a']:.2f}", f"{i['se']:.2f}"]
             for i in listed[:_ROWS]],
        )  # fmt: skip


def _print_curves(found: dict[str, Any]) -> None:
    say("", *curves_sentence(found))
    listed = found["not_monotone"]
    if listed:
        table(
            f"not monotone, {min(_ROWS, len(listed))} of {len(listed)}",
            ["item", "bins", "statistic", "q"],
            [[i["item_id"], str(i["n_bins"]), f"{i['statistic']:.1f}", f"{i['q']:.2g}"]
             for i in listed[:_ROWS]],
        )  # fmt: skip


def _print_reversals(found: dict[str, Any]) -> None:
    say("", *reversals_sentence(found))
    if found["examples"]:
        table(
            "surest reversals: first minus second, points [95 %]",
            ["first", "second", "ahead on", "", "behind on", ""],
            [[e["first"], e["second"], e["ahead"]["part"], _side(e["ahead"]),
              e["behind"]["part"], _side(e["behind"])] for e in found["examples"]],
            left=3,
        )  # fmt: skip


def _side(side: dict[str, Any]) -> str:
    value, low, high = (100 * side[k] for k in ("difference", "low", "high"))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"


def _print_losses(found: dict[str, Any]) -> None:
    say("", *losses_sentence(found))
    rows = [r for r in found["rows"] if r["benchmark"] == "all"]
    if rows:
        base = found["reference"]
        table(
            f"held-out responses of known items ({rows[0]['n_responses']:,})",
            ["predictor", "", "log-loss", f"minus {base}"],
            [[r["predictor"], ESTIMATES[r["predictor"]], _loss(r), _loss(r["difference"], "+")]
             for r in sorted(rows, key=lambda r: r["log_loss"])],
            left=2,
        )  # fmt: skip
    say(*missing_predictors(found))


def _loss(row: dict[str, Any], sign: str = "") -> str:
    if not row or row["log_loss"] is None:
        return "-"
    value = f"{row['log_loss']:{sign}.4f}"
    if row["log_loss_low"] is None:
        return value
    return f"{value} [{row['log_loss_low']:{sign}.4f}, {row['log_loss_high']:{sign}.4f}]"

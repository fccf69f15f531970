"""Commands about a new model: onboard, next-items."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thetascope.cli.banks import (
    BankOptions,
    print_scores,
    read_results,
    say_calibration,
    say_unknown,
)
from thetascope.cli.output import print_json, say
from thetascope.decisions.adaptive import AdaptiveTest, Target
from thetascope.decisions.onboarding import Onboarded, match_answers
from thetascope.decisions.onboarding import onboard as onboard_model
from thetascope.decisions.saved import load_test, save_test
from thetascope.errors import InputError

_BANK = BankOptions()


def onboard(
    study: Path,
    results: Path,
    /,
    *,
    model: str | None = None,
    format: str | None = None,
    options: BankOptions = _BANK,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Score a new model on every benchmark from some of its answers.

    Nothing is written into the study but its item bank, which is made once.

    Parameters
    ----------
    study
        The study's folder.
    results
        The new model's results: any file or folder that `import` reads without options, or a
        study of its own (import them there where they need a metric, a filter, a scale).
    model
        Which model, where the results hold several; a name for it where they hold one.
    format
        Name of the results' format; found by looking where it is not given.
    json
        Print one JSON object.
    """
    given = read_results(results, format)
    found = onboard_model(options.bank(study), given, model=model)
    if json:
        dropped = [] if given.report is None else given.report.to_json()["dropped"]
        print_json({**found.to_json(), "dropped": dropped})
        return 0
    _print_onboarded(found)
    return 0


def next_items(
    study: Path,
    /,
    *,
    benchmark: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    against: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    answers: Path | None = None,
    state: Path | None = None,
    n: int = 10,
    target_sd: float | None = None,
    every: int | None = None,
    seed: int | None = None,
    model: str | None = None,
    format: str | None = None,
    options: BankOptions = _BANK,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Say which items a new model should answer next, and what its answers so far tell.

    With --state the test goes on where it stood: run the items, call again with --answers.

    Parameters
    ----------
    study
        The study's folder.
    benchmark
        Benchmarks whose mean score is wanted, separated by spaces; all where not given.
    against
        Known models to rank the new one against; needs one benchmark.
    answers
        Results of the new model so far: any file or folder that `import` reads without options,
        or a study of its own.
    state
        File that keeps the test between calls; made if there is none.
    n
        Items to give out.
    target_sd
        Stop at this standard deviation of the score (0.015: 1.5 points).
    every
        One item in so many is drawn at random, 0 for none; where not given, every fifth, or every
        one where adaptive choice did no better on left-out models.
    seed
        Of the random items; 0 where not given.
    model
        Which model, where the answers hold several.
    format
        Name of the answers' format; found by looking where it is not given.
    json
        Print one JSON object.
    """
    for option, value, least in (("--n", n, 1), ("--every", every, 0), ("--seed", seed, 0)):
        if value is not None and value < least:
            raise InputError(f"expected a whole number from {least}, found {value}", field=option)
    if target_sd is not None and not 0 < target_sd < float("inf"):
        raise InputError(
            f"expected a standard deviation above 0, found {target_sd}", field="--target-sd"
        )
    if state is not None and state.exists() and not state.is_file():
        raise InputError("is no file; --state needs a file", file=state)
    bank = options.bank(study)
    if state is not None and state.is_file():
        if benchmark or against or target_sd is not None:
            raise InputError(
                "the state has its own target; leave out --benchmark, --against and --target-sd",
                file=state,
            )
        test = load_test(bank, state)
        for option, value, own in (("--every", every, test.every), ("--seed", seed, test.seed)):
            if value is not None and value != own:
                raise InputError(
                    f"the state has {option} {own}, not {value}; leave out {option}", file=state
                )
    else:
        target = Target.make(bank, benchmark, against or (), target_sd)
        test = AdaptiveTest(bank, target, seed or 0, every)
    unknown: tuple[str, ...] = ()
    if answers is not None:
        given = match_answers(bank, read_results(answers, format), model=model)
        unknown = given.unknown
        ids = [bank.space.ids[r] for r in given.answers.rows.tolist()]
        test.answer(
            dict(zip(ids, given.answers.score.tolist(), strict=True)),
            dict(zip(ids, given.answers.trials.tolist(), strict=True)),
            model=given.model,
        )
    now = test.progress()
    items = [] if now.done else test.next(n)
    if state is not None:
        save_test(test, state)
    if json:
        print_json({"progress": now.to_json(), "next": items, "unknown_items": list(unknown)})
        return 0
    print_scores("so far", [now.score])
    if now.corrected is not None:
        say(f"corrected by its random items: {100 * now.corrected:.1f}"
            f" (standard error {100 * (now.corrected_sd or 0):.1f})")  # fmt: skip
    for name, chance in now.pairs.items():
        say(f"above {name}: chance {chance:.3f}")
    say_unknown(unknown)
    if test.every == 1 and test.every_by_bank:
        say("items are drawn at random: adaptive choice did no better on left-out models")
    say("done: the target is reached" if now.done else f"next {len(items)} items:", *items)
    return 0


def _print_onboarded(found: Onboarded) -> None:
    given = found.given
    print_scores(f"{given.model}: {len(given.answers):,} answers", found.scores)
    if given.cost_usd is not None:
        more = f", {given.n_without_cost:,} answers without a cost" if given.n_without_cost else ""
        say(f"cost of the answers: {given.cost_usd:.4f} USD{more}")
    if given.model in found.bank.space.models:
        say(f"{given.model} is in the study already: its own answers taught the items and the"
            " prior, so the intervals are not those of a new model")  # fmt: skip
    say_unknown(given.unknown)
    say_calibration(found.bank)

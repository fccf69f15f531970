"""Commands about new models: onboard, next-items, tiny, leaderboard."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thetascope.cli.output import percent, print_json, progress, say, table
from thetascope.decisions.adaptive import AdaptiveTest, Target
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.build import learn_items, twin_groups
from thetascope.decisions.calibration import left_out_folds
from thetascope.decisions.leaderboard import leaderboard as standings
from thetascope.decisions.onboarding import Onboarded, match_answers
from thetascope.decisions.onboarding import onboard as onboard_model
from thetascope.decisions.saved import load_test, save_test, study_bank, study_sample
from thetascope.decisions.scores import ScoreEstimate
from thetascope.decisions.tiny import LM_EVAL, TinySet, tiny_set
from thetascope.errors import InputError
from thetascope.evaluation import Estimate
from thetascope.readers import ReadOptions, read, read_crosswalk
from thetascope.study import Study, store

_SHOWN = 5
_WIDEST = 5
"""Benchmarks up to which a terminal holds a column each."""


def onboard(
    study: Path,
    results: Path,
    /,
    *,
    model: str | None = None,
    format: str | None = None,
    fit: str | None = None,
    crosswalk: Path | None = None,
    calibrate: bool = True,
    wait: float = 10.0,
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
    fit
        Name of a JE-IRT fit to use; 2PL by subject, learnt from the study, where not given.
    crosswalk
        CSV with columns model and canonical: models of one canonical name are twins.
    calibrate
        Whether to measure on left-out models how far off intervals are.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    given = _results(results, format)
    found = onboard_model(_bank(study, fit, crosswalk, calibrate, wait), given, model=model)
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
    fit: str | None = None,
    crosswalk: Path | None = None,
    calibrate: bool = True,
    wait: float = 10.0,
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
    fit
        Name of a JE-IRT fit to use; 2PL by subject where not given.
    crosswalk
        CSV with columns model and canonical: models of one canonical name are twins.
    calibrate
        Whether to measure on left-out models how far off intervals are.
    wait
        Seconds to wait for another writer.
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
    bank = _bank(study, fit, crosswalk, calibrate, wait)
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
        given = match_answers(bank, _results(answers, format), model=model)
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
    _print_scores("so far", [now.score])
    if now.corrected is not None:
        say(f"corrected by its random items: {100 * now.corrected:.1f}"
            f" (standard error {100 * (now.corrected_sd or 0):.1f})")  # fmt: skip
    for name, chance in now.pairs.items():
        say(f"above {name}: chance {chance:.3f}")
    _say_unknown(unknown)
    if test.every == 1 and test.every_by_bank:
        say("items are drawn at random: adaptive choice did no better on left-out models")
    say("done: the target is reached" if now.done else f"next {len(items)} items:", *items)
    return 0


def tiny(
    study: Path,
    /,
    *,
    benchmark: str,
    n: int = 100,
    to: Path | None = None,
    answers: Path | None = None,
    set: Path | None = None,
    model: str | None = None,
    format: str | None = None,
    crosswalk: Path | None = None,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Choose a few items that stand for a benchmark, or read a model's answers to such a set.

    Parameters
    ----------
    study
        The study's folder.
    benchmark
        The benchmark.
    n
        Items of the set.
    to
        Folder for the set: tiny.json, and lists for lm_eval --samples and inspect --sample-id.
    answers
        Results of a new model on a set; needs --set.
    set
        Folder (or tiny.json) of a set made before.
    model
        Which model, where the answers hold several.
    format
        Name of the answers' format; found by looking where it is not given.
    crosswalk
        CSV with columns model and canonical: models of one canonical name are twins.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    if (answers is None) != (set is None):
        raise InputError("--answers and --set go together")
    if n < 1:
        raise InputError(f"expected 1 item or more, found {n}", field="--n")
    if to is not None and to.exists() and not to.is_dir():
        raise InputError("is no folder; --to needs a folder", file=to)
    bank = _bank(study, None, crosswalk, True, wait)
    if answers is not None and set is not None:
        held = TinySet.load(set)
        if held.benchmark != benchmark:
            raise InputError(f"is a set of {held.benchmark!r}, not of {benchmark!r}", file=set)
        score, given = held.estimate(bank, _results(answers, format), model=model)
        if json:
            print_json({"model": given.model, "score": score.to_json(),
                        "unknown_items": list(given.unknown)})  # fmt: skip
        else:
            _print_scores(given.model, [score])
            _say_unknown(given.unknown)
        return 0
    n_items = int((bank.space.benchmark == bank.benchmark_code(benchmark)).sum())
    if n > n_items:
        raise InputError(f"expected 1 to {n_items} items, found {n}", field="--n")
    sample = study_sample(Study.open(study))
    twins = twin_groups(sample.responses.models, _twins(crosswalk))
    with progress() as line:
        folds = list(left_out_folds(sample, learn_items, bank.prior, twins, progress=line))
    made = tiny_set(bank, n, benchmark, folds=folds, sample=sample)
    written = made.save(to) if to is not None else []
    if json:
        print_json({**made.__dict__, "files": [str(f) for f in written]})
        return 0
    error = made.validation.get(made.design, {}).get(f"{made.share:g}")
    measured = (
        "not validated, as no left-out model answered 90 % of the benchmark and 2 x n items:"
        f" the design fell back to {made.design}, and the score is the model's alone"
    )
    if error is not None:
        measured = f"mean absolute error {100 * error:.2f} points on {made.n_validation} models"
        measured += " left out"
    say(f"{len(made.items)} items of {benchmark}: design {made.design},"
        f" {made.share:g} x weighted mean + {1 - made.share:g} x model; {measured}")  # fmt: skip
    say(*[f"wrote {f}" for f in written] if written else made.items)
    if written and all(f.name != LM_EVAL for f in written):
        say(f"{LM_EVAL} is left out: not all source ids are whole numbers")
    return 0


def leaderboard(
    study: Path,
    /,
    *,
    fit: str | None = None,
    crosswalk: Path | None = None,
    calibrate: bool = True,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Rank all models on all benchmarks, holes completed, with intervals.

    Parameters
    ----------
    study
        The study's folder.
    fit
        Name of a JE-IRT fit to use; 2PL by subject where not given.
    crosswalk
        CSV with columns model and canonical: models of one canonical name are twins.
    calibrate
        Whether to measure on left-out models how far off intervals are.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    bank = _bank(study, fit, crosswalk, calibrate, wait)
    lines = standings(bank, twins=twin_groups(bank.space.models, _twins(crosswalk)))
    if json:
        print_json({"calibrated": bank.calibrated, "models": [s.to_json() for s in lines]})
        return 0
    shown = len(bank.benchmarks) if len(bank.benchmarks) <= _WIDEST else 0
    header = ["model", "rank", "90 %", "raw rank", "mean %", *bank.benchmarks[:shown]]
    rows = [
        [
            s.model, str(s.rank), f"{s.rank_low}-{s.rank_high}", str(s.raw_rank), _percent(s.mean),
            *(_percent(e) + ("" if e.n_answered else " *") for e in s.scores[:shown]),
        ]
        for s in lines
    ]  # fmt: skip
    table(f"{len(lines)} models, equal weight a benchmark", header, rows)
    if not shown:
        say(f"the scores on {len(bank.benchmarks)} benchmarks: --json")
    say("They cover what was not run: other items of the same kind would move them further.")
    say("90 % intervals. * no item run: completed from the model's other answers. Raw rank: by"
        " the plain mean of whatever was run.")  # fmt: skip
    _say_calibration(bank)
    return 0


def _bank(
    study: Path, fit: str | None, crosswalk: Path | None, calibrate: bool, wait: float
) -> ItemBank:
    if not store.is_study(study):
        Study.open(study)  # says what is wrong
    with progress() as line:
        return study_bank(
            study, fit=fit, twins=_twins(crosswalk), calibrate=calibrate, wait=wait, progress=line
        )


def _twins(crosswalk: Path | None) -> dict[str, str]:
    return {} if crosswalk is None else dict(read_crosswalk(crosswalk))


def _results(path: Path, format: str | None) -> Study:
    """A study as it is, anything else as `import` reads it; says what was left out."""
    if store.is_study(path):
        return Study.open(path)
    try:
        found = read(path, format=format, options=ReadOptions())
    except InputError as error:
        if error.fix is None or "--" not in error.fix:
            raise
        way = f"thetascope import {path} --into NEW ..., and give NEW"
        raise InputError(
            error.problem, file=error.file, record=error.record, field=error.field,
            fix=f"{error.fix}: {way}",
        ) from None  # fmt: skip
    if found.report is not None:
        for reason in found.report.dropped.values():
            print(f"left out: {reason.n:,}: {reason.reason} (first {reason.first})",
                  file=sys.stderr)  # fmt: skip
    return found


def _print_onboarded(found: Onboarded) -> None:
    given = found.given
    _print_scores(f"{given.model}: {len(given.answers):,} answers", found.scores)
    if given.cost_usd is not None:
        more = f", {given.n_without_cost:,} answers without a cost" if given.n_without_cost else ""
        say(f"cost of the answers: {given.cost_usd:.4f} USD{more}")
    if given.model in found.bank.space.models:
        say(f"{given.model} is in the study already: its own answers taught the items and the"
            " prior, so the intervals are not those of a new model")  # fmt: skip
    _say_unknown(given.unknown)
    _say_calibration(found.bank)


def _print_scores(title: str, scores: Sequence[ScoreEstimate]) -> None:
    rows = [
        [s.benchmark, f"{s.n_answered:,} of {s.n_items:,}",
         "-" if not s.n_answered else f"{100 * s.mean_answered:.1f}", _percent(s)]
        for s in scores
    ]  # fmt: skip
    table(title, ["benchmark", "answered", "mean of these %", "score % [90 %]"], rows)


def _percent(s: ScoreEstimate) -> str:
    return percent(Estimate(s.value, s.low, s.high))


def _say_unknown(unknown: tuple[str, ...]) -> None:
    if unknown:
        more = ", ..." if len(unknown) > _SHOWN else ""
        say(f"{len(unknown):,} answered items are not in the study and were not used:"
            f" {', '.join(unknown[:_SHOWN])}{more}")  # fmt: skip


def _say_calibration(bank: ItemBank) -> None:
    if not bank.calibrated:
        say("intervals rest on the model's posterior alone: not calibrated on left-out models")

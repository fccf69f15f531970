"""Commands about benchmarks and known models: tiny, leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thetascope.cli.banks import (
    BankOptions,
    open_bank,
    percent_of,
    print_scores,
    read_results,
    say_calibration,
    say_unknown,
    twins_of,
)
from thetascope.cli.output import print_json, progress, say, table
from thetascope.decisions.build import learn_items, twin_groups
from thetascope.decisions.calibration import left_out_folds
from thetascope.decisions.leaderboard import leaderboard as standings
from thetascope.decisions.saved import study_sample
from thetascope.decisions.tiny import LM_EVAL, TinySet, tiny_set
from thetascope.errors import InputError
from thetascope.study import Study

_BANK = BankOptions()
_WIDEST = 5
"""Benchmarks up to which a terminal holds a column each."""


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
    bank = open_bank(study, None, crosswalk, True, wait)
    if answers is not None and set is not None:
        held = TinySet.load(set)
        if held.benchmark != benchmark:
            raise InputError(f"is a set of {held.benchmark!r}, not of {benchmark!r}", file=set)
        score, given = held.estimate(bank, read_results(answers, format), model=model)
        if json:
            print_json({"model": given.model, "score": score.to_json(),
                        "unknown_items": list(given.unknown)})  # fmt: skip
        else:
            print_scores(given.model, [score])
            say_unknown(given.unknown)
        return 0
    n_items = int((bank.space.benchmark == bank.benchmark_code(benchmark)).sum())
    if n > n_items:
        raise InputError(f"expected 1 to {n_items} items, found {n}", field="--n")
    sample = study_sample(Study.open(study))
    twins = twin_groups(sample.responses.models, twins_of(crosswalk))
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
    options: BankOptions = _BANK,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Rank all models on all benchmarks, holes completed, with intervals.

    Parameters
    ----------
    study
        The study's folder.
    json
        Print one JSON object.
    """
    bank = options.bank(study)
    lines = standings(bank, twins=twin_groups(bank.space.models, twins_of(options.crosswalk)))
    if json:
        print_json({"calibrated": bank.calibrated, "models": [s.to_json() for s in lines]})
        return 0
    shown = len(bank.benchmarks) if len(bank.benchmarks) <= _WIDEST else 0
    header = ["model", "rank", "90 %", "raw rank", "mean %", *bank.benchmarks[:shown]]
    rows = [
        [
            s.model, str(s.rank), f"{s.rank_low}-{s.rank_high}", str(s.raw_rank),
            percent_of(s.mean),
            *(percent_of(e) + ("" if e.n_answered else " *") for e in s.scores[:shown]),
        ]
        for s in lines
    ]  # fmt: skip
    table(f"{len(lines)} models, equal weight a benchmark", header, rows)
    if not shown:
        say(f"the scores on {len(bank.benchmarks)} benchmarks: --json")
    say("They cover what was not run: other items of the same kind would move them further.")
    say("90 % intervals. * no item run: completed from the model's other answers. Raw rank: by"
        " the plain mean of whatever was run.")  # fmt: skip
    say_calibration(bank)
    return 0

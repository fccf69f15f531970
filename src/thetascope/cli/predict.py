"""Commands that predict: fit, compare, forecast, diff."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
from cyclopts import Parameter
from cyclopts.validators import Number

from thetascope.cli.output import percent, print_json, progress, say, table, triple
from thetascope.encoders import encoder_for, load_vectors
from thetascope.errors import CheckFailed, InputError
from thetascope.evaluation import SplitName
from thetascope.gaps.saved import study_gap_data
from thetascope.gaps.versus import Versus, versus
from thetascope.predictors import JEIRT, Predictor, make_predictor
from thetascope.predictors import diff as difference
from thetascope.predictors.base import item_features, new_items
from thetascope.predictors.forecast import fit_with_interval
from thetascope.predictors.forecast import forecast as predict_mean
from thetascope.predictors.saved import (
    INTERVAL,
    compare_study,
    find_fit,
    fit_study,
    load_comparison,
)
from thetascope.predictors.setup import study_groups
from thetascope.readers.side_tables import read_questions
from thetascope.report.text import plural
from thetascope.study import Study, files
from thetascope.study.derived import Made

_DEFAULT = JEIRT()
_ROWS = 12
FEWEST = 50
"""Questions from which on the coverage of a forecast's intervals is measured."""


def fit(
    study: Path,
    /,
    *,
    predictor: str = "jeirt",
    name: str | None = None,
    settings: Annotated[JEIRT, Parameter(name="*")] = _DEFAULT,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Fit a predictor on a study and keep it there: JE-IRT, models and items in one space.

    --predictor blend keeps the default predictor instead, and the interval of its forecasts:
    forecast and route read it. Settings are JE-IRT's; another predictor takes those that it has
    too (--max-epochs, --seed, --vectors). --preset NAME starts from other settings: paper-mpnet
    and paper-modernbert are the published recipes. --config FILE.toml reads settings from its
    table [fit]. Flags override both. A killed fit goes on from its last checkpoint and ends in
    the same bytes.

    Parameters
    ----------
    study
        The study's folder; it needs text vectors (thetascope encode).
    predictor
        What is fitted: jeirt, or the name of any other predictor.
    name
        Name of the fit in the study; the predictor's where not given.
    wait
        Seconds to wait for another writer.
    json
        Print what was done as one JSON object.
    """
    made = fit_study(study, _chosen(predictor, settings), name=name, wait=wait)
    manifest = files.read_json(made.folder / "manifest.json")
    loaded = Predictor.load(made.folder)
    if not isinstance(loaded, JEIRT):
        return _say_fit(made, loaded, manifest, json)
    best = min(loaded.log_, key=lambda e: e["validation_log_loss"])
    if json:
        print_json({"folder": str(made.folder), "new": made.new,
                    "settings": manifest["settings"]["parameters"],
                    "epochs": len(loaded.log_), "best": best})  # fmt: skip
    else:
        offset = "with the benchmark offset" if loaded.offset_ is not None else "without offset"
        say(
            f"{'fitted' if made.new else 'already fitted'}: {len(loaded.models_)} models,"
            f" d = {loaded.dim_}, {offset}",
            f"validation log-loss {best['validation_log_loss']:.4f} at epoch {best['epoch']}"
            f" of {len(loaded.log_)}",
            f"{made.folder}",
        )
    return 0


def _chosen(name: str, settings: JEIRT) -> Predictor:
    """The predictor to fit, with the settings that were changed."""
    if name == "jeirt":
        return settings
    changed = {k: v for k, v in settings.get_params().items() if v != getattr(_DEFAULT, k)}
    known = make_predictor(name).get_params()
    for key in changed:
        if key not in known:
            raise InputError(f"is a setting of jeirt, {name} has none of that name", field=key)
    return make_predictor(name, **changed)


def _say_fit(made: Made, fit: Predictor, manifest: dict, json: bool) -> int:  # type: ignore[type-arg]
    models, interval = fit.models_, (made.folder / INTERVAL).is_file()  # type: ignore[attr-defined]
    if json:
        print_json({"folder": str(made.folder), "new": made.new, "predictor": fit.NAME,
                    "settings": manifest["settings"]["parameters"], "models": len(models),
                    "choices": manifest["choices"], "interval": interval})  # fmt: skip
        return 0
    chosen = ", ".join(f"{k} {v}" for k, v in manifest["choices"].items())
    say(f"{'fitted' if made.new else 'already fitted'}: {fit.NAME}, {len(models)} models")
    if chosen:
        say(f"chosen on validation data: {chosen}")
    if not interval:
        say("too few items to learn the interval of forecasts from: it has none")
    say(f"{made.folder}")
    return 0


def compare(
    study: Path,
    /,
    *,
    predictors: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    split: SplitName = "cold-items",
    seeds: int = 5,
    split_seed: int = 0,
    encoder: str | None = None,
    reference: str = "jeirt",
    name: str | None = None,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compare predictors of who gets what right, on data that they have not seen.

    Parameters
    ----------
    study
        The study's folder.
    predictors
        Names, separated by spaces; all that the study allows where not given.
    split
        What is unseen: whole items, single responses, or whole benchmarks.
    seeds
        Tenths of the items that are tested, each once (1 to 10).
    split_seed
        Seed of the one partition that all seeds share.
    encoder
        Name of the text vectors; needed where the study has several.
    reference
        Predictor for the paired differences.
    name
        Name under which the comparison is kept in the study; the split's where not given.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object: study, split, seeds, rows with intervals and differences.
    """
    named = None if predictors is None else [n for p in predictors for n in p.split(",") if n]
    with progress() as line:
        made = compare_study(
            study, named, name=name, split=split, seeds=seeds, split_seed=split_seed,
            encoder=encoder, reference=reference, progress=line, wait=wait,
        )  # fmt: skip
    saved = load_comparison(Study.open(study), name or split)
    if json:
        print_json({**saved.table, "folder": str(made.folder)})
        return 0
    _print_comparison(saved.table)
    say(f"{'kept in' if made.new else 'was already in'} {made.folder}")
    return 0


def _print_comparison(result: dict) -> None:  # type: ignore[type-arg]
    base = result["reference"]
    for benchmark in dict.fromkeys(r["benchmark"] for r in result["rows"]):
        rows = [r for r in result["rows"] if r["benchmark"] == benchmark and r["subject"] == "all"]
        if not rows:
            continue
        n = f"{rows[0]['n_items']:,} items, {rows[0]['n_responses']:,} responses"
        header = ["predictor", "accuracy %", "log-loss", "AUC", "AUC in model", "ECE"]
        shown = sorted(rows, key=lambda r: r["log_loss"])
        if base:
            header += [f"accuracy - {base}", f"log-loss - {base}"]
        table(f"{benchmark} ({n})", header, [_cells(r, bool(base)) for r in shown])
        say("")
    graded = result["score_entropy"] > 1e-9
    if graded:
        say(f"graded scores: log-loss has a floor of {result['score_entropy']:.4f}"
            f" (entropy of the scores); {result['n_responses_of_one_half']:,} scores of exactly"
            " 0.5 are left out of the accuracy")  # fmt: skip
    for name, why in result["skipped"].items():
        say(f"not run: {name}: {why}")
    if result["n_items_left_out"]:
        say(f"{result['n_items_left_out']:,} near-duplicates of left-out items were not trained on")
    say(f"{result['split']}, {result['seeds']} splits; 95 % intervals by bootstrap over"
        f" {result['groups']['n_groups']:,} groups of near-duplicate items")  # fmt: skip


def _cells(row: dict, paired: bool) -> list[str]:  # type: ignore[type-arg]
    cells = [
        row["predictor"],
        _range(row, "accuracy", 100, 1),
        _range(row, "log_loss", 1, 3),
        _value(row["auc"], 3),
        _value(row["auc_within_model"], 3),
        _value(row["ece"], 3),
    ]
    if paired:
        d = row["difference"]
        if not d:
            return [*cells, "", ""]
        cells += [_range(d, "accuracy", 100, 1, "+"), _range(d, "log_loss", 1, 3, "+")]
    return cells


def _range(row: dict, metric: str, scale: float, digits: int, sign: str = "") -> str:  # type: ignore[type-arg]
    if row[metric] is None:
        return "-"
    value = f"{scale * row[metric]:{sign}.{digits}f}"
    if row[f"{metric}_low"] is None:
        return value
    low, high = (scale * row[f"{metric}_{end}"] for end in ("low", "high"))
    return f"{value} [{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"


def _value(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def forecast(
    study: Path,
    questions: Path,
    /,
    *,
    benchmark: str | None = None,
    predictor: str = "blend",
    encoder: str | None = None,
    level: Annotated[float, Parameter(validator=Number(gt=0.5, lt=1))] = 0.95,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Expected mean score of every model on questions that nobody has answered.

    The interval is for the mean score that would be obtained on these very questions. It holds
    for sets of some 50 questions or more that are like the study's; a question that names no
    benchmark of the study is predicted as one of a benchmark never seen, without its offset.
    A fit kept in the study (thetascope fit STUDY --predictor blend) is used where it is fresh.

    Parameters
    ----------
    study
        The study's folder; it needs text vectors made here (thetascope encode) unless the
        predictor reads none.
    questions
        Table (CSV, TSV, JSONL, Parquet) with a column text, and benchmark and subject where
        known; or a .txt file with a question on each line.
    benchmark
        Benchmark of the study that all the questions are like.
    predictor
        Name of the predictor.
    encoder
        Name of the text vectors; needed where the study has several.
    level
        Of the interval.
    json
        Print one JSON object.
    """
    opened, given = Study.open(study), read_questions(questions)
    chosen, new = make_predictor(predictor), None
    if "vectors" in chosen.NEEDS:
        vectors = load_vectors(opened, encoder, path=study)
        encoder = vectors.name
        chosen = make_predictor(predictor, vectors=encoder)
        new = encoder_for(vectors).encode(given.texts)
    places = [b or benchmark for b in given.benchmarks]
    items = new_items(item_features(opened, encoder), given.texts, new, places, given.subjects)
    kept = find_fit(opened, chosen)
    with progress() as line:
        if kept is None:
            line(0, 0, f"fitting {predictor}")
        fitted, interval = (
            fit_with_interval(opened, chosen, vectors=encoder) if kept is None else kept[:2]
        )
        found = predict_mean(fitted, interval, items, level, given.texts)
    order = np.argsort(-found.mean)
    if json:
        rows = [
            {"model": found.models[i], "mean": float(found.mean[i]),
             "low": float(found.low[i]), "high": float(found.high[i])}
            for i in order
        ]  # fmt: skip
        print_json({"questions": found.n, "predictor": predictor, "level": level,
                    "saved_fit": kept is not None,
                    "dispersion": interval.dispersion, "shift": interval.shift,
                    "learnt_on_items": interval.n_items,
                    "learnt_on_benchmarks": interval.n_benchmarks,
                    "rows": rows})  # fmt: skip
        return 0
    shown = [[found.models[i], f"{100 * found.mean[i]:.1f}",
              f"[{100 * found.low[i]:.1f}, {100 * found.high[i]:.1f}]"] for i in order]  # fmt: skip
    table(f"{found.n:,} questions", ["model", "expected %", f"{100 * level:g} %"], shown)
    say(f"intervals learnt on {interval.n_items:,} items of {interval.n_benchmarks} benchmark"
        f"{'s' if interval.n_benchmarks != 1 else ''} set aside"
        + (": few, so they may be too narrow" if interval.n_items < FEWEST else ""))  # fmt: skip
    if kept is None:
        say(f"fitted for this once; kept with: thetascope fit {study} --predictor {predictor}")
    if found.n < FEWEST:
        say(f"fewer than {FEWEST} questions: the intervals' coverage is not measured there")
    if None in places:
        n = sum(p is None for p in places)
        say(f"{n:,} of them name no benchmark of the study: their level is a guess (--benchmark)")
    return 0


def diff(
    study: Path,
    before: str,
    after: str,
    /,
    *,
    encoder: str | None = None,
    by_concept: Annotated[bool, Parameter(negative="")] = False,
    concepts: str | None = None,
    fail_on_regression: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """What changed between two models, benchmark by benchmark, with q-values.

    Only items that both answered count. Exits with 1 under --fail-on-regression where the
    second model is worse beyond noise (q < 0.05) on any part. With --by-concept also concept by
    concept: better or worse at all, and more or less than the two differ in general.

    Parameters
    ----------
    study
        The study's folder.
    before
        The first model, the old version say.
    after
        The second model.
    encoder
        Name of the text vectors that find near-duplicates, where the study has several.
    by_concept
        Compare on the study's concepts too (thetascope concepts extract).
    concepts
        Name of the activations, where the study has several.
    fail_on_regression
        Exit with 1 where the second model is worse beyond noise.
    json
        Print one JSON object.
    """
    opened = Study.open(study)
    groups = study_groups(opened, item_features(opened, encoder)).labels
    changes = difference.diff(opened, before, after, np.asarray(groups))
    worse = difference.regressions(changes)
    found = labels = None
    if by_concept or concepts is not None:
        data = study_gap_data(opened, concepts, vectors=encoder)
        found, labels = versus(data, after, before), data.labels
    if json:
        print_json({
            "before": before, "after": after, "rows": [c.to_json() for c in changes],
            "regressions": len(worse),
            "concepts": None if found is None else files.finite(found.to_json()),
        })  # fmt: skip
    else:
        parts = [c for c in changes if c.subject == "all"]
        subjects = sorted((c for c in changes if c.subject != "all"), key=lambda c: (c.q, c.p))
        _print_changes(f"{before} -> {after}", parts)
        if subjects:
            say("")
            _print_changes(f"subjects, surest first ({len(subjects)})", subjects[:_ROWS])
        if found is not None and labels is not None:
            _print_concepts(found, labels)
    if fail_on_regression and worse:
        listed = ", ".join(
            c.benchmark if c.subject == "all" else f"{c.benchmark}/{c.subject}" for c in worse
        )
        raise CheckFailed(f"{after!r} is worse than {before!r} beyond noise on: {listed}")
    return 0


def _print_concepts(found: Versus, labels: Sequence[str]) -> None:
    """The concepts on which the two part, surest first in either direction and sense."""
    t = found.table
    say(
        "",
        f"{t.height:,} concepts tested on the {found.n_items:,} common items,"
        f" {found.n_untestable:,} too rare",
    )
    for title, q, effect, low in (
        ("worse", "q_worse", "difference", True), ("better", "q_better", "difference", False),
        ("worse than the two differ in general", "q_low", "shrunk", True),
        ("better than the two differ in general", "q_high", "shrunk", False),
    ):  # fmt: skip
        sure = t.filter(pl.col(q) < difference.Q_LEVEL).sort(effect, descending=not low)
        if not sure.height:
            say(f"no concept is surely {title}")
            continue
        table(
            f"{found.first} is {title} on {plural(sure.height, 'concept')} (q < 0.05)",
            ["concept", "label", "difference", "effect", "q", "items", "n eff"],
            [[str(r["concept"]), str(labels[r["concept"]]),
              triple([100 * r[k] for k in ("difference", "low", "high")], 1, "+"),
              f"{100 * r['effect']:+.1f}", f"{r[q]:.2g}", f"{r['n_active']:,}",
              f"{r['n_eff']:.0f}"] for r in sure.head(_ROWS).iter_rows(named=True)],
            left=2,
        )  # fmt: skip


def _print_changes(title: str, changes: list[difference.Change]) -> None:
    table(
        title,
        ["benchmark", "subject", "items", "before %", "after %", "change", "up", "down", "q", ""],
        [
            [
                c.benchmark, c.subject, f"{c.n_items:,}", f"{100 * c.before:.1f}",
                f"{100 * c.after:.1f}", percent(c.difference), str(c.gained), str(c.lost),
                f"{c.q:.3g}", c.verdict,
            ]
            for c in changes
        ],
        left=2,
    )  # fmt: skip

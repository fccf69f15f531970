"""Commands space difficulty, ood and models: what a fitted space says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from thetascope.cli.output import kept, print_json, progress, say, table, triple
from thetascope.predictors import JEIRT
from thetascope.readers.side_tables import read_questions
from thetascope.report.text import plural
from thetascope.space.new_items import new_difficulty, new_drop
from thetascope.space.saved import (
    BESIDE,
    difficulty_study,
    load_space,
    models_study,
    ood_study,
)
from thetascope.study import Study

_DEFAULT = JEIRT()
_PAPER = JEIRT(context=False)
_ROWS = 10
Json = Annotated[bool, Parameter(negative="")]
Settings = Annotated[JEIRT, Parameter(name="*")]
Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


def difficulty(
    study: Path,
    questions: Path | None = None,
    /,
    *,
    seeds: int = 5,
    beside: Several = None,
    benchmark: str | None = None,
    settings: Settings = _DEFAULT,
    wait: float = 10.0,
    json: Json = False,
) -> int:
    """How hard an item is, foreseen from its text, against how it was then answered.

    Cold items only: nothing had answered a tested item when it was predicted. With QUESTIONS,
    how hard those are expected to be, each with an interval whose width was learnt the same way.

    Parameters
    ----------
    study
        The study's folder; it needs text vectors (thetascope encode).
    questions
        Table with a column text (CSV, TSV, JSONL, Parquet), or a .txt file, a question a line.
    seeds
        Tenths of the items that are tested, each once (1 to 10).
    beside
        Predictors whose expectation stands beside the space's own.
    benchmark
        Benchmark of the study that the questions are like.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    given = None if questions is None else read_questions(questions)
    with progress() as line:
        made = difficulty_study(
            study, settings=settings, seeds=seeds, beside=tuple(_names(beside) or BESIDE),
            progress=line, wait=wait,
        )  # fmt: skip
        found = load_space(Study.open(study), "difficulty")
        new = None
        if given is not None:
            line(0, 0, "predicting the questions")
            new = new_difficulty(Study.open(study), found, given, benchmark, settings.vectors)
    if json:
        print_json({**found, "questions": None if new is None else new, "folder": str(made.folder)})
        return 0
    if new is None:
        _print_difficulty(found)
        kept(made)
        return 0
    table(
        f"{len(new['rows']):,} questions: models expected to be wrong ({new['predictor']})",
        ["question", "expected error %", "90 %", "harder than % of the study"],
        [[_short(r["text"]), f"{100 * r['error']:.1f}",
          f"[{100 * r['low']:.1f}, {100 * r['high']:.1f}]", f"{100 * r['rank']:.0f}"]
         for r in new["rows"]],
    )  # fmt: skip
    say(new["note"])
    return 0


def _print_difficulty(found: dict[str, Any]) -> None:
    kind = found["kind"]
    rows = []
    for name, whole in found["overall"].items():
        within = found["within"][name] if found["within"] else None
        reach = found["coverage"].get(name)
        rows.append(
            [name, triple(whole, 2), triple(within, 2),
             _reach(reach)]
        )  # fmt: skip
    table(
        f"Spearman with the observed error, {found['n_items']:,} cold items",
        ["foreseen by", "all items", f"within {kind} (mean)", "inside 90 % interval, %"],
        rows,
    )
    say("")
    parts = [[p, f"{e['n_items']:,}", *(triple(e[n], 2) for n in found["overall"])]
             for p, e in found["parts"].items()]  # fmt: skip
    table(f"within {kind}", [kind, "items", *found["overall"]], parts)
    gain, flipped = found["directed"], found["reversed"]
    if found["n_unanswered"]:
        say(f"{found['n_unanswered']:,} items that nobody answered are left out")
    say(
        "",
        f"a difficulty that depends on direction changes the log-loss ({gain['base'][0]:.4f}) by"
        f" {triple(gain['common'], 4, '+')} (one law for all models),"
        f" {triple(gain['own'], 4, '+')} (each its own)",
        *_reversed(flipped),
    )


def _reach(reach: list[float | None] | None) -> str:
    """Share inside and half width; '-' where too few items were set aside for an interval."""
    if reach is None:
        return ""
    inside, half = reach
    return "-" if inside is None or half is None else f"{100 * inside:.1f} ± {100 * half:.0f}"


def _reversed(flipped: dict[str, Any]) -> list[str]:
    if not flipped["n_items"]:
        return ["no item was answered by eight models and more, not all alike: whether weaker"
                " models do better somewhere cannot be told"]  # fmt: skip
    return [
        f"weaker models do better on {flipped['negative']:,} of {flipped['n_items']:,} items,"
        f" surely (5 %) on {flipped['surely_negative']:,} ({flipped['by_chance']:.0f} if no item"
        " had a slope);",
        f"the space foresees an item's slope with Spearman {triple(flipped['foreseen'], 2)}",
    ]


def ood(
    study: Path,
    questions: Path | None = None,
    /,
    *,
    seeds: int = 1,
    measure: Literal["mean", "best"] = "mean",
    settings: Settings = _PAPER,
    wait: float = 10.0,
    json: Json = False,
) -> int:
    """What is lost on a benchmark that the fit never saw, and whether its questions say so.

    Leaves every benchmark (every subject where there is one benchmark) out in turn. With
    QUESTIONS of a new benchmark: the drop to expect, and which parts of the study cover them.

    Parameters
    ----------
    study
        The study's folder; it needs text vectors (thetascope encode).
    questions
        Table with a column text (CSV, TSV, JSONL, Parquet), or a .txt file, a question a line.
    seeds
        Tenths of the items that are tested (1 to 10); each costs a fit a benchmark and one more.
    measure
        Alignment that foretells the drop of the questions: mean or best.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    given = None if questions is None else read_questions(questions)
    with progress() as line:
        made = ood_study(study, settings=settings, seeds=seeds, progress=line, wait=wait)
        found = load_space(Study.open(study), "ood")
        new = None
        if given is not None:
            line(0, 0, "placing the questions")
            new = new_drop(Study.open(study), given, measure)
    if json:
        print_json({**found, "questions": new, "folder": str(made.folder)})
        return 0
    if new is not None:
        _print_new_drop(new, found["kind"])
        return 0
    after = sorted({int(n) for p in found["parts"] for n in p["repaired"]})
    shown = [n for n in after if n in (0, 10, 50, 200)]
    table(
        f"left out: what is lost beyond the models' means ({found['seeds']} of 10 folds), and how"
        f" far above the whole fit's log-loss it stays once n items of it are answered",
        [found["kind"], "items", "log-loss lost", "accuracy", "alignment", "best",
         *(f"n = {n}" for n in shown), "nearest"],
        [[p["name"], f"{p['n_items']:,}", triple(p["log_loss"], 3, "+"),
          f"{-100 * p['accuracy'][0]:+.1f}", f"{p['mean']:.2f}", f"{p['best']:.2f}",
          *(f"{p['repaired'][str(n)][0]:+.3f}" if str(n) in p["repaired"] else "" for n in shown),
          ", ".join(f"{name} {100 * share:.0f} %" for name, share in p["covered_by"][:1])]
         for p in sorted(found["parts"], key=lambda p: -p["log_loss"][0])],
    )  # fmt: skip
    if found["passed_over"]:
        say(f"too few items in the tested folds: {', '.join(found['passed_over'])}")
    for m, c in found["correlation"].items():
        better = "worth reading" if c["informative"] else "not worth reading"
        say(
            f"{m} alignment against the drop: Spearman {triple(c['rho'], 2)}, p {_p(c['p'])}; a"
            f" left-out drop is foretold to {c['error']:.3f}, by the mean drop to"
            f" {c['error_of_mean']:.3f}: {better}"
        )
    kept(made)
    return 0


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def _print_new_drop(new: dict[str, Any], kind: str) -> None:
    drop = new["drop"]
    sure = "" if new["informative"] else (
        f"; on this study alignment foretold left-out {kind}s no better than the mean drop,"
        f" {new['mean_drop']:+.3f}, so believe the mean"
    )  # fmt: skip
    say(
        f"{new['n']:,} questions, {new['measure']} alignment {new['alignment']:.2f}",
        f"expected drop of log-loss as a {kind} never seen: {triple(drop, 3, '+')}{sure}",
        "covered by: " + ", ".join(f"{n} {100 * s:.0f} %" for n, s in new["covered_by"]),
    )


def models(
    study: Path,
    /,
    *,
    fit: str | None = None,
    seed: int = 0,
    wait: float = 10.0,
    json: Json = False,
) -> int:
    """The map of models: distances, who answers alike, who adds nothing, which few cover all.

    Parameters
    ----------
    study
        The study's folder; it needs text vectors (thetascope encode).
    fit
        Name of the JE-IRT fit; one without the benchmark offset, made where there is none.
    seed
        Of shuffles and halves.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    made = models_study(study, fit=fit, seed=seed, wait=wait)
    found = load_space(Study.open(study), "models")
    if json:
        print_json({**found, "folder": str(made.folder)})
        return 0
    near = sorted(
        (r[1], m, r[0], r[2]) for m, r in zip(found["models"], found["relatives"], strict=True) if r
    )[::-1]
    if not near:
        say("no two models have 30 common items that three others answered too: kinship unknown")
    table(
        "answers alike beyond what the items give away: each model's nearest",
        ["model", "nearest", "partial correlation", "items"],
        [[m, other, f"{rho:.2f}", f"{n:,}"] for rho, m, other, n in near[:_ROWS]],
        left=2,
    )
    if found["families"]:
        f = found["families"]
        say(
            f"of {f['n_models']} models with a relative in {f['n_families']} named families"
            f" {100 * f['same']:.0f} % have one as their nearest (names shuffled"
            f" {100 * f['chance']:.0f} %, p {f['p']:.2g}); AUC of pairs {f['auc']:.2f}"
        )
    say("")
    table(
        "closest pairs (error consistency; what the second would rescue of the first's misses)",
        ["first", "second", "items", "kappa", "differ %", "rescued %", "redundant"],
        [[p["first"], p["second"], f"{p['n']:,}", triple(p["kappa"], 2),
          f"{100 * p['differ'][0]:.1f}", f"{100 * (p['rescued'][0] or 0):.0f}",
          "yes" if p["redundant"] else "no"] for p in found["pairs"][:_ROWS]],
        left=2,
    )  # fmt: skip
    _print_portfolio(found["portfolio"])
    kept(made)
    return 0


def _print_portfolio(found: dict[str, Any] | None) -> None:
    if found is None:
        say("", "no portfolio: no two models answered a common item")
        return
    say("")
    rows = [
        [str(k), name, f"{100 * cover:.1f}", f"{100 * held[0]:.1f}" if held else "-"]
        for k, (name, cover, held) in enumerate(
            zip(
                found["order"],
                found["cover"],
                found["held_out"] or [None] * len(found["order"]),
                strict=True,
            ),
            start=1,
        )
    ]
    table(
        f"portfolio: what some model of the first k gets right ({found['n_items']:,} items,"
        f" {len(found['models'])} models without holes; all: {100 * found['everything']:.1f} %)",
        ["k", "adds", "on these items %", "chosen on other items %"],
        rows,
        left=2,
    )
    if found["nearly"]:
        n = found["nearly"]
        say(f"{plural(n, 'model')} {'reaches' if n == 1 else 'reach'} 95 % of what all do")
    if found["left_out"]:
        some = ", ".join(found["left_out"][:5]) + (", ..." if len(found["left_out"]) > 5 else "")
        say(f"{plural(len(found['left_out']), 'model')} left out for holes: {some}")


def _names(given: list[str] | None) -> list[str] | None:
    return None if given is None else [n for g in given for n in g.split(",") if n]


def _short(text: str, width: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"

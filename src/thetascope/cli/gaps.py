"""Command gaps: what benchmarks cover, where models are weak, and how far to trust it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from cyclopts import Parameter

from thetascope.cli.output import kept, print_json, progress, say, table, triple
from thetascope.concepts.store import Concepts, load_concepts
from thetascope.errors import InputError
from thetascope.gaps.cards import card
from thetascope.gaps.performance import ALL, LEAST, LEVEL
from thetascope.gaps.robust_saved import load_robust, robust_study
from thetascope.gaps.saved import (
    GapSettings,
    SavedGaps,
    gaps_study,
    load_gaps,
    study_gap_data,
)
from thetascope.report.text import plural
from thetascope.study import Study

_DEFAULT = GapSettings()
_MODELS, _OVER, _UNTESTED = 12, 3, 10
FEW = 100
"""Items of a reference under which it says little of what it lacks."""
Flag = Annotated[bool, Parameter(negative="")]
Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


def gaps(
    study: Path,
    /,
    *,
    concepts: str | None = None,
    model: Several = None,
    benchmark: str | None = None,
    rows: int = 10,
    card_of: Annotated[int | None, Parameter(name="--card")] = None,
    against: Path | None = None,
    robust: Flag = False,
    second: str | None = None,
    matched_on: Path | None = None,
    to: Path | None = None,
    file_type: Annotated[Literal["csv", "parquet", "json"] | None, Parameter(name="--as")] = None,
    settings: Annotated[GapSettings, Parameter(name="*")] = _DEFAULT,
    wait: float = 10.0,
    json: Flag = False,
) -> int:
    """What benchmarks cover and where models are weak, concept by concept, with q-values.

    A concept counts as a model's gap when its answers on the concept's items are worse than on
    the rest of the same benchmark, text length allowed for, at a false discovery rate of 5 %.
    Every model is tested; the lists of the models that are named (the two best where none is)
    are also controlled family-wise.

    Parameters
    ----------
    study
        The study's folder, with concept activations (thetascope concepts extract).
    concepts
        Name of the activations, where the study has several.
    model
        Models whose lists are printed.
    benchmark
        Only this benchmark in the lists.
    rows
        Rows of each list.
    card_of
        Show one concept: its items, and how each named model does on them.
    against
        Another study read with the same dictionary (your own traffic, say) that benchmarks are
        compared with; each other's where not given.
    robust
        Check the gaps of the named models: subsamples, removal, held-out benchmarks, thresholds.
    second
        Name of a second dictionary's activations that --robust compares with, or of the same
        dictionary's on texts read in another way (a chat template, say).
    matched_on
        A study read with both dictionaries, over which --second matches their concepts.
    to
        Folder for the tables: coverage, performance and concepts.
    file_type
        Type of those tables: csv (where not given), parquet or json.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    if (second or matched_on) and not robust:
        raise InputError("belongs to --robust", field="second" if second else "matched-on")
    if file_type is not None and to is None:
        raise InputError("belongs to --to", field="as")
    if rows < 1:
        raise InputError(f"expected at least 1, found {rows}", field="rows")
    focus = list(model or [])
    with progress() as line:
        made = gaps_study(
            study, concepts, settings=settings, focus=focus, against=against, progress=line,
            wait=wait,
        )  # fmt: skip
        opened = Study.open(study)
        found = load_gaps(opened, made.folder.name.rpartition("-")[0])
        checks = None
        if robust:
            robust_study(
                study, found.name, models=focus, second=second, matched_on=matched_on,
                progress=line, wait=wait,
            )  # fmt: skip
            checks = load_robust(opened, found.name)
    held = load_concepts(opened, found.name)
    if to is not None:
        _write_tables(found, held, to, file_type or "csv")
    if card_of is not None:
        return _cards(opened, found, card_of, settings, json)
    lists = {m: _lists(found, m, benchmark, rows) for m in found.figures["focus"]}
    if json:
        print_json(
            {**found.figures, "lists": lists, "robust": checks, "folder": str(found.folder),
             "over": _over(found, held), "untested": _untested(found, held)}
        )  # fmt: skip
        return 0
    _print_coverage(found, held)
    _print_models(found)
    for name, sides in lists.items():
        _print_lists(found, held, name, benchmark, sides)
    if checks is not None:
        _print_robust(checks)
        _print_readings(checks)
    if to is not None:
        say("", f"tables in {to}")
    kept(made)
    return 0


def _print_coverage(found: SavedGaps, held: Concepts) -> None:
    f = found.figures
    c = f["coverage"]
    dropped = f"; {f['n_dropped']:,} items left out, nothing was read of them" \
        if f["n_dropped"] else ""  # fmt: skip
    say(f"{f['n_items']:,} items, {c['n_concepts']:,} concepts of {found.name!r}{dropped}")
    if f["reduced_to"]:
        say(f"activations are reduced to maxima of at least {f['reduced_to']} of act_max")
    say("")
    missing = c["missing"]
    at = None if missing is None else c["thresholds"].index(_nearest(c["thresholds"], f))
    table(
        "coverage" if at is None else
        f"coverage (a concept is covered from {f['threshold']:g} of its maximum over the"
        " reference)",
        ["benchmark", "items", "missing %", f"from {c['n_rarefied']:,} items %", "top 1 % hold %",
         "skewness"],
        [[b, f"{c['n_items'][i]:,}",
          "-" if c["n_missing"] is None else f"{100 * c['n_missing'][i] / c['n_concepts']:.1f}",
          "-" if c["rarefied"] is None else f"{100 * c['rarefied'][i]:.1f}",
          f"{100 * c['top_share'][i]:.0f}", f"{c['skewness'][i]:.1f}"]
         for i, b in enumerate(c["benchmarks"])],
    )  # fmt: skip
    if c["n_missing_from_all"] is None:
        say("no reference: no concept can be called missing (thetascope concepts extract"
            " --reference FILE makes one)")  # fmt: skip
    else:
        n = c["n_missing_from_all"]
        say(f"missing from all: {n:,} concepts ({100 * n / max(1, c['n_concepts']):.1f} %)")
    over = _over(found, held)
    if over:
        other = "the reference" if f["against"] else "the other benchmarks"
        say("")
        table(
            f"asked more than in {other} (times as much of the activation)",
            ["benchmark", "concept", "label", "times"],
            [[r["benchmark"], str(r["concept"]), r["label"],
              "never there" if not r["share_reference"] else
              f"{math.exp(r['log_ratio']):,.0f} [{math.exp(r['low']):,.0f},"
              f" {math.exp(r['high']):,.0f}]"] for r in over],
            left=3,
        )  # fmt: skip
    if f["against"]:
        n = f["against"]["n_items"]
        say("", f"the reference: {plural(n, 'item')}"
            + ("; so few say little of what it lacks" if n < FEW else ""))  # fmt: skip
        untested = _untested(found, held)
        if untested:
            table(
                "asked in the reference, and surely less in every benchmark (share of the"
                " activation there, and times as much as in the benchmark that asks it most)",
                ["concept", "label", "share %", "times"],
                [[str(r["concept"]), r["label"], f"{100 * r['share_reference']:.3f}",
                  f"{math.exp(-r['log_ratio']):,.1f}" if r["share"] else "in none"]
                 for r in untested[:_UNTESTED]],
                left=2,
            )  # fmt: skip


def _nearest(thresholds: list[float], f: dict[str, Any]) -> float:
    return min(thresholds, key=lambda t: abs(t - f["threshold"]))


def _over(found: SavedGaps, held: Concepts) -> list[dict[str, Any]]:
    """The concepts that each benchmark asks surely more than the reference, unflagged ones."""
    covered = found.coverage
    if "log_ratio" not in covered.columns:
        return []
    flags, labels = held.flags, held.labels
    sure = covered.filter((pl.col("q") < LEVEL) & (pl.col("low") > 0)).sort("low", descending=True)
    out = []
    for b in found.figures["coverage"]["benchmarks"]:
        mine = [r for r in sure.filter(benchmark=b).head(200).iter_rows(named=True)
                if not flags[r["concept"]]]  # fmt: skip
        out += [{**r, "label": labels[r["concept"]]} for r in mine[:_OVER]]
    return out


def _untested(found: SavedGaps, held: Concepts) -> list[dict[str, Any]]:
    """What the reference asks and every benchmark asks surely less; unflagged concepts."""
    covered = found.coverage
    if not found.figures["against"] or "log_ratio" not in covered.columns:
        return []
    n = len(found.figures["coverage"]["benchmarks"])
    sure = (
        covered.filter((pl.col("q") < LEVEL) & (pl.col("high") < 0))
        .sort("log_ratio")
        .group_by("concept", maintain_order=True)
        .agg(pl.len(), pl.col("log_ratio", "share", "share_reference").last())
        .filter(pl.col("len") == n)
        .sort("share_reference", descending=True)
    )
    flags, labels = held.flags, held.labels
    return [
        {**r, "label": labels[r["concept"]]}
        for r in sure.drop("len").iter_rows(named=True)
        if not flags[r["concept"]]
    ]


def _print_models(found: SavedGaps) -> None:
    whole = found.figures["scopes"][0]
    shown = [m for m in whole["models"] if m["n_items"]]
    shown.sort(key=lambda m: -m["n_weak"])
    say("")
    table(
        f"models by the number of their gaps (q < {LEVEL:.2f}, {whole['scope']}), the first"
        f" {_MODELS} of {len(shown)}" if len(shown) > _MODELS else f"models ({whole['scope']})",
        ["model", "items", "mean %", "tested", "too rare", "weak", "own", "strong", "detectable"],
        [[m["model"], f"{m['n_items']:,}", _share(m["mean"]), f"{m['n_tested']:,}",
          f"{m['n_untestable']:,}", f"{m['n_weak']:,}",
          "-" if m["n_own"] is None else f"{m['n_own']:,}", f"{m['n_strong']:,}",
          _share(m["detectable"], 0)]
         for m in shown[:_MODELS]],
    )  # fmt: skip
    say("own: still weak once what the other models score on the same items is taken off")
    say("detectable: least effect in points found with 80 % power on a concept of median size,"
        " family-wise")  # fmt: skip


def _lists(
    found: SavedGaps, model: str, benchmark: str | None, rows: int
) -> dict[str, list[dict[str, Any]]]:
    return {
        side: found.list(model, weak=side == "weak", scope=benchmark).head(rows).to_dicts()
        for side in ("weak", "strong")
    }


def _print_lists(
    found: SavedGaps, held: Concepts, model: str, benchmark: str | None,
    sides: dict[str, list[dict[str, Any]]],
) -> None:  # fmt: skip
    flags, labels = held.flags, held.labels
    scope = benchmark or found.scopes[0]
    summary = next(s for s in found.figures["scopes"] if s["scope"] == scope)["models"]
    mine = next(m for m in summary if m["model"] == model)
    for side, rows in sides.items():
        say("")
        n = mine["n_weak" if side == "weak" else "n_strong"]
        if not rows:
            least = "" if mine["detectable"] is None else (
                f"; effects under {100 * mine['detectable']:.0f} points are mostly missed here"
            )  # fmt: skip
            say(f"{model}: no concept is surely {side} on {scope} among"
                f" {mine['n_tested']:,} tested{least}")  # fmt: skip
            continue
        q = "q_low" if side == "weak" else "q_high"
        table(
            f"{model}: {side} on {plural(n, 'concept')} of {mine['n_tested']:,} tested"
            f" ({scope}), by shrunk effect in points",
            ["concept", "label", "flags",
             "mean of benchmarks %" if scope == ALL else "score %", "effect", "shrunk", "q",
             "family p", "adjusted", "q adj", "active", "n eff"],
            [[str(r["concept"]), labels[r["concept"]], ", ".join(flags[r["concept"]]),
              f"{100 * r['score']:.1f} [{100 * r['low']:.1f}, {100 * r['high']:.1f}]",
              f"{100 * r['effect']:+.1f}", f"{100 * r['shrunk']:+.1f}",
              _q(r[q]),
              "-" if r["p_family"] is None else f"{r['p_family']:.3f}",
              _share(r["adjusted"], 1, "+"), _q(r[f"q_adjusted_{q[2:]}"]), f"{r['n_active']:,}",
              f"{r['n_eff']:.0f}"] for r in rows],
            left=3,
        )  # fmt: skip


def _cards(opened: Study, found: SavedGaps, concept: int, settings: GapSettings,
           json: bool) -> int:  # fmt: skip
    data = study_gap_data(opened, found.name, settings)
    if not 0 <= concept < data.n_concepts:
        raise InputError(f"there are concepts 0 to {data.n_concepts - 1}, asked for {concept}",
                         field="card")  # fmt: skip
    cards = [card(data, data.model(m), concept) for m in found.figures["focus"]]
    rows = [found.performance(model=m).filter(concept=concept) for m in found.figures["focus"]]
    if json:
        print_json({"cards": [{**c, "performance": r.to_dicts()}
                              for c, r in zip(cards, rows, strict=True)]})  # fmt: skip
        return 0
    say(f"concept {concept}: {data.labels[concept]}"
        + (f" ({', '.join(data.flags[concept])})" if data.flags[concept] else ""),
        f"active on {100 * data.density[concept]:.2f} % of tokens")  # fmt: skip
    for c, r in zip(cards, rows, strict=True):
        say("")
        if not r.height:
            a = data.activations[:, [concept]]
            say(f"{c['model']}: too rare to be tested, {a.nnz:,} items have any of it and"
                f" {int(data.active[:, [concept]].sum()):,} are active ({LEAST} of its answered"
                " items are needed, effectively too)")  # fmt: skip
        table(
            f"{c['model']}",
            ["scope", "score %", "effect", "q weak", "q strong", "active", "n eff"],
            [[x["scope"], f"{100 * x['score']:.1f} [{100 * x['low']:.1f}, {100 * x['high']:.1f}]",
              f"{100 * x['effect']:+.1f}", f"{x['q_low']:.2g}",
              _q(x["q_high"]),
              f"{x['n_active']:,}", f"{x['n_eff']:.0f}"] for x in r.iter_rows(named=True)],
        )  # fmt: skip
        for side in ("worst", "best"):
            if c[side]:
                table(
                    f"{side} items",
                    ["item", "share of the concept %", "score", "others' mean"],
                    [[e["item_id"], f"{100 * e['weight']:.1f}", f"{e['score']:g}",
                      "-" if e["others"] is None else f"{e['others']:.2f}"] for e in c[side]],
                )  # fmt: skip
    return 0


def _print_robust(checks: dict[str, Any]) -> None:
    for model, c in checks["models"].items():
        s, r = c["subsampling"], c["removal"]
        say(
            "",
            f"{model}: how far to trust it",
            "    drop 20 % of the items (100 runs): sd of chi_model"
            f" {_plain(s['model_concepts'], 3)} a concept, {_plain(s['model_median'], 4)} of the"
            f" median; chi_bench {_plain(s['bench_concepts'], 3)}, {_plain(s['bench_median'], 4)}",
            f"    without the {r['n_removed']} items behind its best (worst) 100 concepts: median"
            f" {_share(r['best'], 1, '+')} % ({_share(r['worst'], 1, '+')} %)",
        )
        v = c.get("validity")
        if v is not None:
            n = sum(p["n_gaps"] for p in v["parts"])
            found = "-" if v["pooled"] is None else _points(v["pooled"])
            say(
                f"    gaps found on all benchmarks but one, on that one: {found} points against"
                f" matched concepts ({n} gaps in all); slope {triple(v['slope'], 2)}"
            )
        a = c.get("agreement")
        if a is not None:
            say(
                f"    second dictionary {checks['second']!r}: {a['n_matched']:,} concepts match"
                f" ({100 * a['share_matched']:.0f} %); effects on disjoint halves agree at Spearman"
                f" {_plain(a['between'][0], 2)} (itself {_plain(a['ceiling'][0], 2)}, permuted"
                f" scores {_plain(a['permuted'][0], 2)})"
            )
        for t in c["thresholds"]:
            say(f"    threshold {t['threshold']:.1f}: {t['tested']:,} tested, {t['weak']:,} weak,"
                f" {t['strong']:,} strong")  # fmt: skip


def _q(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def _print_readings(checks: dict[str, Any]) -> None:
    """One dictionary, two readings of the texts."""
    for r in checks.get("readings", []):
        say(
            f"{r['model']} on {r['scope']}, read as {checks['second']!r} too: effects of"
            f" {r['n_both']:,} concepts agree at Spearman {_plain(r['spearman'], 2)};"
            f" {r['gaps_first']:,} and {r['gaps_second']:,} called (q < 0.1), {r['gaps_both']:,} by"
            " both"
        )


def _plain(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None, digits: int = 1, sign: str = "") -> str:
    """A share in per cent, '-' where there is none."""
    return "-" if value is None else f"{100 * value:{sign}.{digits}f}"


def _points(value: list[float]) -> str:
    return triple([100 * v for v in value], 1, "+")


def _write_tables(found: SavedGaps, held: Concepts, to: Path, kind: str) -> None:
    to.mkdir(parents=True, exist_ok=True)
    named = held.dictionary.select(
        "concept", "label", "label_source", "density", pl.col("flags").list.join(", ")
    )
    labels = named.select("concept", "label")
    tables = {
        "coverage": found.coverage.join(labels, on="concept", how="left"),
        "performance": found.performance().join(labels, on="concept", how="left"),
        "concepts": named,
    }
    for name, frame in tables.items():
        file = to / f"{name}.{kind}"
        if kind == "csv":
            frame.write_csv(file)
        elif kind == "parquet":
            frame.write_parquet(file)
        else:
            frame.write_json(file)

"""Command concepts group: concepts in named themes, and how models do on them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from cyclopts import Parameter

from thetascope.cli.output import kept, print_json, progress, say, table
from thetascope.errors import InputError
from thetascope.gaps.facts import weak_groups
from thetascope.gaps.grouping_saved import GroupSettings, SavedGroups, group_study, load_groups
from thetascope.gaps.interpret import interpret_study, load_interpretation
from thetascope.gaps.performance import LEVEL
from thetascope.gaps.scope import read_scopes
from thetascope.llm import Endpoint, Plan, Prices, answers_folder
from thetascope.study import Study

_DEFAULT, _FREE = GroupSettings(), Prices()
Flag = Annotated[bool, Parameter(negative="")]
Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


def group(
    study: Path,
    /,
    *,
    concepts: str | None = None,
    model: Several = None,
    rows: int = 8,
    scope: Several = None,
    interpret: Flag = False,
    llm: str | None = None,
    endpoint: str | None = None,
    cache: Path | None = None,
    yes: Flag = False,
    prices: Annotated[Prices, Parameter(name="*")] = _FREE,
    settings: Annotated[GroupSettings, Parameter(name="*")] = _DEFAULT,
    wait: float = 10.0,
    json: Flag = False,
) -> int:
    """Put a study's concepts into named themes, and say how models do on each.

    Without --llm concepts are clustered, by their labels or by the items on which they are active
    together, and groups are named by the words of their labels. With --llm a model behind an
    OpenAI-compatible endpoint proposes themes and puts each concept into one: it is sent labels,
    no item's text and no score, and nothing at all without --yes. Flagged concepts are in groups
    of their own.

    Parameters
    ----------
    study
        The study's folder, with concept activations (thetascope concepts extract).
    concepts
        Name of the activations, where the study has several.
    model
        Models whose groups are printed; the two best where not given.
    rows
        Rows of each list.
    scope
        What a benchmark says it tests: BENCHMARK=TEXT, or a .toml or .json file of such pairs.
        Missing concepts are ranked by it, and judged with --llm.
    interpret
        Also write an interpretation of the kept gaps (thetascope gaps), each sentence with its
        evidence.
    llm
        Name of a model at the endpoint.
    endpoint
        Its base, like http://localhost:8000/v1; else OPENAI_BASE_URL. The key is OPENAI_API_KEY.
    cache
        Folder of answers; ~/.cache/thetascope/answers where not given.
    yes
        Send the questions.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    if llm is None and (endpoint or cache or yes):
        given = "endpoint" if endpoint else "cache" if cache else "yes"
        raise InputError("belongs to --llm", field=given)
    if rows < 1:
        raise InputError(f"expected at least 1, found {rows}", field="rows")
    scopes = read_scopes(scope or [], Study.open(study).benchmarks)
    asked = None if llm is None else _endpoint(llm, endpoint, cache)
    with progress() as line:

        def announce(plan: Plan) -> None:
            line.close()
            if not json:
                assert asked is not None
                say(f"sending {plan.line()} to {asked.model} at {asked.url}")

        made = group_study(
            study, concepts, settings=settings, endpoint=asked, yes=yes, prices=prices,
            scopes=scopes, focus=list(model or []), announce=announce, progress=line, wait=wait,
        )  # fmt: skip
        opened = Study.open(study)
        found = load_groups(opened, made.folder.name.removeprefix("groups-").rpartition("-")[0])
        text = None
        if interpret:
            interpret_study(study, found.name, endpoint=asked, yes=yes, prices=prices,
                            announce=announce, wait=wait)  # fmt: skip
            text = load_interpretation(opened, found.name)
    lists = {m: _rows(found, m) for m in found.figures["focus"]}
    if json:
        print_json(
            {**found.figures, "coverage": found.coverage.to_dicts(), "lists": lists,
             "scope": found.scope.to_dicts(), "interpretation": text,
             "folder": str(found.folder)}
        )  # fmt: skip
        return 0
    _print_groups(found)
    for name, mine in lists.items():
        _print_model(found, name, mine, rows)
    _print_scope(found, rows)
    if text is not None:
        _print_text(text, study)
    kept(made)
    return 0


def _endpoint(model: str, url: str | None, cache: Path | None) -> Endpoint:
    chosen = url or os.environ.get("OPENAI_BASE_URL")
    if not chosen:
        raise InputError("expected a URL, or OPENAI_BASE_URL", field="endpoint")
    return Endpoint(chosen, model, cache or answers_folder())


def _rows(found: SavedGroups, model: str) -> list[dict[str, Any]]:
    """A model's tested groups over all benchmarks, the weakest first."""
    mine = found.performance.filter(model=model)
    if mine.is_empty():
        return []
    names = {g["group"]: g["name"] for g in found.figures["groups"]}
    rows = mine.filter(pl.col("scope") == mine["scope"][0]).sort("shrunk").fill_nan(None).to_dicts()
    return [{**r, "name": names[r["group"]]} for r in rows]


def _print_groups(found: SavedGroups) -> None:
    f = found.figures
    how = f"by {f['by']}" if f["by"] != "llm" else f"by {f['model']}"
    stable = "" if f["stability"] is None else (
        f"; two seeds agree at an adjusted Rand index of {f['stability']:.2f}"
    )  # fmt: skip
    say(f"{f['n_concepts']:,} concepts of {found.name!r}: {f['n_placed']:,} in"
        f" {sum(g['kind'] == 'theme' for g in f['groups'])} themes {how}, the others put apart"
        f"{stable}")  # fmt: skip
    if f.get("fell_back"):
        say(f"{f['model']} proposed no usable themes: clustered instead")
    if "answers" in f:
        _print_answers(f["answers"], f.get("n_nearest", 0))
    covered = {(r["benchmark"], r["group"]): r for r in found.coverage.iter_rows(named=True)}
    say("")
    table(
        "groups, and the share of their concepts that each benchmark covers (%)",
        ["group", "labels of typical concepts", "concepts", *f["benchmarks"]],
        [[g["name"], "; ".join(g["labels"][:2]), f"{g['size']:,}",
          *(_share(covered[b, g["group"]]) for b in f["benchmarks"])] for g in f["groups"]],
        left=2,
    )  # fmt: skip


def _share(row: dict[str, Any]) -> str:
    return "-" if not row["n_concepts"] else f"{100 * row['n_covered'] / row['n_concepts']:.0f}"


def _print_answers(counts: dict[str, int], n_nearest: int) -> None:
    odd = {
        "invalid_proposals": "proposals without a usable answer",
        "invalid": "batches without a usable answer",
        "distrusted": "batches not believed: a control came back wrong",
        "isolated": "labels asked about alone: they read as orders",
        "unknown": "answers for numbers that were not asked about, left out",
        "doubled": "labels with two answers", "missing": "labels left out and asked for again",
    }  # fmt: skip
    for key, what in odd.items():
        if counts.get(key):
            say(f"    {counts[key]:,} {what}")
    if n_nearest:
        say(f"    {n_nearest:,} concepts have no usable answer and are in the nearest group")


def _print_model(found: SavedGroups, model: str, mine: list[dict[str, Any]], n: int) -> None:
    say("")
    if not mine:
        say(f"{model}: no group is on enough items to be tested")
        return
    weak = len(weak_groups(found.performance, model, mine[0]["scope"]))
    strong = sum(r["q_high"] is not None and r["q_high"] < LEVEL for r in mine)
    shown = mine if len(mine) <= 2 * n else [*mine[:n], *mine[-n:]]
    part = "" if len(mine) <= 2 * n else f", its {n} weakest and strongest"
    table(
        f"{model}: surely weak on {weak} and strong on {strong} of {len(mine)} tested groups"
        f" ({mine[0]['scope']}){part}, effects in points",
        ["group", "score %", "effect", "shrunk", "q weak", "q strong", "items", "n eff"],
        [[r["name"], f"{100 * r['score']:.1f} [{100 * r['low']:.1f}, {100 * r['high']:.1f}]",
          f"{100 * r['effect']:+.1f}", f"{100 * r['shrunk']:+.1f}", f"{r['q_low']:.2g}",
          "-" if r["q_high"] is None else f"{r['q_high']:.2g}", f"{r['n_active']:,}",
          f"{r['n_eff']:.0f}"] for r in shown],
    )  # fmt: skip


def _print_scope(found: SavedGroups, n: int) -> None:
    f = found.figures
    rows = found.scope
    if not f["scopes"]:
        return
    labels = _labels(found)
    for benchmark in f["scopes"]:
        mine = rows.filter(benchmark=benchmark)
        judged = mine.filter(pl.col("in_scope").is_not_null())
        say("")
        if judged.height:
            inside = mine.filter(in_scope="yes")
            counts = {v: int((mine["in_scope"] == v).sum()) for v in ("yes", "no", "unclear")}
            table(
                f"{benchmark}: of {f['n_missing'][benchmark]:,} missing concepts the"
                f" {mine.height:,} most like its scope were asked about: {counts['yes']:,} in"
                f" scope, {counts['no']:,} not, {counts['unclear']:,} unclear",
                ["concept", "label", "why"],
                [[str(r["concept"]), labels[r["concept"]], r["reason"]]
                 for r in inside.head(n).iter_rows(named=True)],
                left=3,
            )  # fmt: skip
            continue
        table(
            f"{benchmark}: {f['n_missing'][benchmark]:,} missing concepts, those whose labels are"
            " most like its scope first (a ranking only: nobody judged them)",
            ["concept", "label", "likeness"],
            [[str(r["concept"]), labels[r["concept"]], f"{r['likeness']:.2f}"]
             for r in mine.head(n).iter_rows(named=True)],
            left=2,
        )  # fmt: skip


def _labels(found: SavedGroups) -> list[str]:
    from thetascope.concepts.store import load_concepts

    return load_concepts(Study.open(found.folder.parents[1]), found.name).labels


def _print_text(text: dict[str, Any], study: Path) -> None:
    say("", f"interpretation, by {text['by']}")
    if text["why"]:
        say(f"    the model's text is not used: {text['why']}")
    for sentence in text["sentences"]:
        say(f"    {sentence['text']} [{', '.join(sentence['evidence'])}]")
    if text["struck"]:
        say(f"    struck out, no such finding: {', '.join(text['struck'])}")
    if text["dropped"]:
        say(f"    {len(text['dropped'])} sentences rested on no finding and were left out")
    say("", "evidence")
    cited = {e for s in text["sentences"] for e in s["evidence"]}
    for fact in text["findings"]:
        if fact["id"] not in cited or not fact["items"]:
            continue
        more = "" if fact["concept"] is None else (
            f"; thetascope gaps {study} --model {fact['model']} --card {fact['concept']}"
        )  # fmt: skip
        said = "" if text["by"] == "findings" else f" {fact['text']}"
        say(f"    {fact['id']}{said}: items {', '.join(fact['items'])}{more}")

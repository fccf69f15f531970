"""Commands space taxonomy and space probe: items by what they are about."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from thetascope.cli.output import kept, print_json, progress, say, table, triple
from thetascope.errors import InputError
from thetascope.llm import Endpoint, answers_folder
from thetascope.predictors import JEIRT
from thetascope.report.text import plural
from thetascope.space.saved import (
    load_space,
    names_study,
    probe_study,
    taxonomy_study,
)
from thetascope.study import Study

_DEFAULT = JEIRT()
_PAPER = JEIRT(context=False)
_ROWS = 10
Json = Annotated[bool, Parameter(negative="")]
Settings = Annotated[JEIRT, Parameter(name="*")]
Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


_CHOSEN = {
    "stability": "as many as come back from other items",
    "user": "as asked",
    "default": "a default: no number comes back from other items",
}


def taxonomy(
    study: Path,
    /,
    *,
    fit: str | None = None,
    k: int | None = None,
    seed: int = 0,
    name_with: str | None = None,
    endpoint: str | None = None,
    yes: Annotated[bool, Parameter(negative="")] = False,
    wait: float = 10.0,
    json: Json = False,
) -> int:
    """Clusters of items by what they are about, as the answers suggest.

    Spherical clusters of the item directions at several granularities; how many is decided by
    what comes back from other items. They are compared with the study's subjects (or benchmarks)
    and with clusters of the raw text vectors, and each is asked whether models do there what
    their subject means say.

    Parameters
    ----------
    study
        The study's folder; it needs text vectors (thetascope encode).
    fit
        Name of the JE-IRT fit; one without the benchmark offset, made where there is none.
    k
        Clusters; as many as are stable where not given.
    seed
        Of starts, halves, shuffles and permutations.
    name_with
        Language model that names the clusters from their nearest items' texts; the strongest
        terms name them where not given. Answers are cached (~/.cache/thetascope/answers).
    endpoint
        Base URL of its OpenAI-compatible API; OPENAI_BASE_URL where not given. The key comes
        from OPENAI_API_KEY.
    yes
        Agree that texts of items are sent there; without it the command says how much would be.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    with progress() as line:
        made = taxonomy_study(study, fit=fit, k=k, seed=seed, progress=line, wait=wait)
        if name_with is not None:
            line(0, 0, f"asking {name_with} for names")
            names_study(study, _endpoint(endpoint, name_with), yes=yes, wait=wait)
    found = load_space(Study.open(study), "taxonomy")
    if json:
        print_json({**found, "folder": str(made.folder)})
        return 0
    say(
        f"{found['n_items']:,} items, {plural(found['k'], 'cluster')}"
        f" ({_CHOSEN[found['chosen_by']]}); |mean direction| {found['ray']:.2f};"
        f" {found['n_left_out']:,} items without a text vector left out",
        "",
    )
    for c in found["clusters"]:
        _print_cluster(c, found["kind"])
    say("")
    table(
        "how often clusters come back from other items",
        ["clusters", "adjusted Rand index (least, greatest of the halves)"],
        [[str(v["k"]), triple(v["stability"], 2)] for v in found["levels"]],
    )
    if found["kind"]:
        say("")
        names = {"space": f"the space, {found['n_labels']} clusters",
                 "text": f"raw text vectors, {found['n_labels']} clusters",
                 "chosen": f"the space, {found['k']} clusters"}  # fmt: skip
        table(
            f"agreement with the {found['n_labels']} {found['kind']}s (labels shuffled:"
            f" ARI {found['agreement']['space']['shuffled_ari'][0]:.3f}, V"
            f" {found['agreement']['space']['shuffled_v'][0]:.3f})",
            ["clusters of", "ARI", "AMI", "V-measure"],
            [[names[n], *(triple(a[m], 2) for m in ("ari", "ami", "v_measure"))]
             for n, a in found["agreement"].items()],
        )  # fmt: skip
    kept(made)
    return 0


def _endpoint(url: str | None, model: str) -> Endpoint:
    chosen = url or os.environ.get("OPENAI_BASE_URL")
    if chosen is None:
        raise InputError("expected a URL, or OPENAI_BASE_URL", field="endpoint")
    return Endpoint(chosen, model, answers_folder())


def _print_cluster(c: dict[str, Any], kind: str) -> None:
    mix = ", ".join(f"{name} {100 * share:.0f} %" for name, share in c["subjects"])
    head = f"{c['code']}  {c['name'] or '(no terms)'}: {c['n_items']:,} items"
    error = "-" if c["error"] is None else f"{100 * c['error']:.0f} %"
    lines = [head, f"   error {error}" + (f"; {mix}" if mix else "")]
    if c["q"] is not None:
        sure = "models part from their profile" if c["q"] < 0.05 else "no sign that models part"
        told = "; ".join(f"{m} {100 * d:+.0f} ± {100 * e:.0f}" for m, d, e in
                         [*c["above"][:1], *c["below"][:1]])  # fmt: skip
        lines.append(f"   {sure} here (q {c['q']:.2g}, {c['n_tested']} items): {told}")
    else:
        lines.append(f"   too few tested items ({c['n_tested']}) to say whether models part here"
                     f" from their {kind or 'overall'} means")  # fmt: skip
    say(*lines)


def probe(
    study: Path,
    /,
    *,
    positive: str,
    negative: str = "rest",
    held_positive: str | None = None,
    held_negative: str = "rest",
    name: str = "probe",
    fit: str | None = None,
    seed: int = 0,
    wait: float = 10.0,
    json: Json = False,
) -> int:
    """An axis from two sets of items: what lies on it, and which models are strong there.

    Sets are named by words: subject:NAME[,NAME], benchmark:NAME[,NAME], text:REGEX, ids:FILE,
    csv:FILE:COLUMN=VALUE, or rest; joined by ' & ', turned by '!'. The axis is the difference
    of the sets' mean directions; the same on raw text vectors stands beside it.

    Parameters
    ----------
    study
        The study's folder; it needs text vectors (thetascope encode).
    positive
        Items at the axis's head.
    negative
        Items at its foot.
    held_positive
        Labelled items to measure it on, taken out of both sets; five folds where not given.
    held_negative
        Their counterparts.
    name
        Under which the axis is kept in the study.
    fit
        Name of the JE-IRT fit; one without the benchmark offset, made where there is none.
    seed
        Of folds and bootstrap.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    made = probe_study(
        study, positive, negative, held_positive=held_positive, held_negative=held_negative,
        name=name, fit=fit, seed=seed, wait=wait,
    )  # fmt: skip
    found = load_space(Study.open(study), f"probe-{name}")
    if json:
        print_json({**found, "folder": str(made.folder)})
        return 0
    s = found["separation"]
    say(
        f"axis of {found['n_positive']:,} against {found['n_negative']:,} items",
        f"AUC on {s['n_positive']:,} + {s['n_negative']:,} labelled items that it never saw"
        f" ({found['held_out']}): {triple(s['space'], 3)}; raw text vectors"
        f" {triple(s['text'], 3)}; difference {triple(s['difference'], 3, '+')}",
        "",
    )
    if len(found["models"]) < 2:
        say("one model: nothing to set it against on the axis")
    table(
        "projected ability less the models' mean (95 % over the items of the sets)",
        ["model", "", "95 %"],
        [[m, f"{v:+.2f}", f"[{low:+.2f}, {high:+.2f}]"]
         for m, v, low, high in _ends(found["models"])],
    )  # fmt: skip
    kept(made)
    return 0


def _ends(rows: list[Any]) -> list[Any]:
    return rows if len(rows) <= 2 * _ROWS else [*rows[:_ROWS], *rows[-_ROWS:]]

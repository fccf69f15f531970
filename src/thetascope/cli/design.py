"""Command design: which items to add to a benchmark, or to keep of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from thetascope.cli.names import check_free
from thetascope.cli.output import kept, print_json, progress, say, table
from thetascope.gaps.design_study import DesignOptions, design_study, load_design
from thetascope.study import Study

_DEFAULT = DesignOptions()
_SHOWN = 10


def design(
    study: Path,
    /,
    *,
    add_to: str | None = None,
    keep: str | None = None,
    pool: str | None = None,
    options: Annotated[DesignOptions, Parameter(name="*")] = _DEFAULT,
    concepts: str | None = None,
    fit: str | None = None,
    name: str = "items",
    to: Path | None = None,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Choose items for a benchmark: to add for concepts that it misses, or to keep of it.

    Greedy, with a bound on how much better any other choice could be. The design is kept in the
    study as gaps/design-NAME; --to also writes its items as a CSV file.

    Parameters
    ----------
    study
        The study's folder; it needs concept activations (thetascope concepts extract).
    add_to
        Benchmark that is to be filled: its name, or a set of items in words (subject:NAME,
        benchmark:NAME[,NAME], text:REGEX, ids:FILE, csv:FILE:COLUMN=VALUE, joined by ' & ',
        turned by '!').
    keep
        Benchmark (or set) of which few items are to be kept.
    pool
        Where items to add come from, a benchmark or a set; all other items where not given.
    concepts
        Name of the activations; the only ones where not given.
    fit
        JE-IRT fit whose space says what items tell about models; the item bank where not given.
    name
        Under which the design is kept.
    to
        CSV file to write: item_id, benchmark, step, gain.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    if to is not None:
        check_free(to)
    with progress() as line:
        made = design_study(
            study, add_to=add_to, keep_of=keep, pool=pool, options=options, concepts=concepts,
            fit=fit, name=name, wait=wait, progress=line,
        )  # fmt: skip
    found = load_design(Study.open(study), name)
    if to is not None:
        shutil.copyfile(made.folder / "items.csv", to)
    if json:
        print_json({**found, "folder": str(made.folder)})
        return 0
    say(*_lines(found), "")
    table(
        f"the first {min(_SHOWN, found['n_chosen'])} of {found['n_chosen']} items",
        ["item", "concepts new with it", "adds", "new"],
        [[i["item_id"], "; ".join(i["new_concepts"][:3]), f"{i['gain']:.4f}",
          str(i["n_new_concepts"])] for i in found["items"][:_SHOWN]],
        left=2,
    )  # fmt: skip
    if to is not None:
        say(f"written to {to}")
    kept(made)
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    adds = found["use"] == "add"
    kind = (
        f"{found['n_concepts']:,} concepts that {found['target']} misses and the pool has"
        if adds
        else f"{found['n_concepts']:,} concepts of {found['target']}"
    )
    of = "of the pool" if adds else "of its own"
    told = found["information"]
    lines = [
        f"{kind}, each asked for {found['options']['per_concept']} times at most;"
        f" {found['n_candidates']:,} candidate items {of}",
        f"{found['n_chosen']:,} items: {found['n_touched']:,} concepts touched,"
        f" {found['n_covered']:,} as often as asked; coverage {100 * found['coverage']:.1f} %"
        f" (random items {100 * found['coverage_random']:.1f} %,"
        f" all candidates {100 * found['coverage_of_all']:.1f} %)",
    ]
    if told is None:
        lines.append("chosen by concepts alone")
    else:
        lines.append(f"of all that the candidates can tell about a new model"
                     f" {100 * told:.1f} % (random items"
                     f" {100 * found['information_random']:.1f} %)")  # fmt: skip
    lines.append(f"median length {found['tokens']:.0f} tokens (candidates"
                 f" {found['tokens_candidates']:.0f}): long items touch more concepts")  # fmt: skip
    lines.append(f"at least {100 * found['share_of_best']:.1f} % of the best possible gain")
    return lines

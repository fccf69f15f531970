"""The command concepts label."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thetascope.cli.output import print_json, progress, say
from thetascope.concepts.labelling import LabelResult, apply_labels, check_labels
from thetascope.concepts.labels import read_labels
from thetascope.concepts.store import load_concepts
from thetascope.concepts.written_labels import Endpoint, make_cases, n_tokens, write_labels
from thetascope.errors import InputError
from thetascope.llm import answers_folder
from thetascope.study import Study

_FLAG = Parameter(negative="")


def label(
    study: Path,
    /,
    *,
    labels: Annotated[Path | None, Parameter(name="--from")] = None,
    source: str | None = None,
    llm: str | None = None,
    endpoint: str | None = None,
    concepts: int | None = None,
    cache: Path | None = None,
    yes: Annotated[bool, _FLAG] = False,
    name: str | None = None,
    wait: float = 10.0,
    json: Annotated[bool, _FLAG] = False,
) -> int:
    """Give a study's concepts labels: from a file, or written by a language model.

    Extraction labels each concept with its heaviest tokens. --from takes better ones from a
    Neuronpedia export (folder or .jsonl.gz) or a .csv, .jsonl or .parquet table. --llm asks a
    model behind an OpenAI-compatible endpoint, with contexts of the study's texts (extract with
    --contexts), and measures on other contexts how well each label predicts where its concept
    fires. Without --yes it only says what would be sent.

    Parameters
    ----------
    study
        The study's folder.
    labels
        File or folder with labels.
    source
        Where they are from, as recorded; neuronpedia or file where not given.
    llm
        Name of a model at the endpoint.
    endpoint
        Its base, like http://localhost:8000/v1; else OPENAI_BASE_URL. The key is OPENAI_API_KEY.
    concepts
        Ask about this many concepts, the most active first; all where not given.
    cache
        Folder of answers; ~/.cache/thetascope/answers where not given.
    yes
        Send the questions.
    name
        Name of the activations in the study.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    if (labels is None) == (llm is None):
        raise InputError("expected either --from FILE or --llm MODEL")
    found = load_concepts(Study.open(study), name)
    if labels is not None:
        read = read_labels(labels, found.n_concepts)
        notes = check_labels(found, read)
        made = apply_labels(
            study, read.of, source or read.source, name=name, notes=notes, wait=wait
        )
        return _said(made, json)
    if concepts is not None and concepts < 1:
        raise InputError(f"expected at least 1, found {concepts}", field="concepts")
    cases = make_cases(found, concepts)
    url = endpoint or os.environ.get("OPENAI_BASE_URL")
    if not yes:
        plan = {"concepts": len(cases), "requests": 2 * len(cases), "tokens": n_tokens(cases)}
        if json:
            print_json({**plan, "sent": False})
        else:
            say(f"{plan['concepts']:,} concepts, {plan['requests']:,} requests, about"
                f" {plan['tokens']:,} tokens; nothing is sent without --yes")  # fmt: skip
        return 0
    if not url:
        raise InputError("expected a URL, or OPENAI_BASE_URL", field="endpoint")
    assert llm is not None
    where = cache or answers_folder()
    with progress() as line:
        written = write_labels(cases, Endpoint(url, llm, where), line)
    scores = {c: w.score for c, w in written.items() if not math.isnan(w.score)}
    notes = (_measured(list(scores.values()), len(written)),)
    given = {c: w.label for c, w in written.items()}
    made = apply_labels(
        study, given, source or "llm", scores=scores, name=name, notes=notes, wait=wait
    )
    return _said(made, json)


def _measured(scores: list[float], n_written: int) -> str:
    if not scores:
        return f"none of {n_written:,} labels could be tested"
    mean, good = sum(scores) / len(scores), sum(s >= 0.75 for s in scores)
    return (
        f"on held-out contexts {len(scores):,} of {n_written:,} labels were tested: mean score"
        f" {mean:.2f} (0.5 is guessing), {good:,} at 0.75 or above"
    )


def _said(made: LabelResult, as_json: bool) -> int:
    if as_json:
        print_json({**asdict(made), "folder": str(made.folder)})
        return 0
    sources = ", ".join(f"{n:,} {source}" for source, n in made.by_source.items())
    say(
        *made.notes,
        f"{made.n_given:,} of {made.n_concepts:,} concepts were given a label; now: {sources}",
        f"concepts {made.name!r}: {made.folder}",
    )
    return 0

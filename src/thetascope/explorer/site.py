"""`site.json`: what is in a study, the lists that give numbers to names, what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from thetascope.explorer.sources import Sources

VERSION = 1
"""Of the contract (docs/explorer-files.md)."""
_COLUMNS = {
    "family": "family", "params_b": "params_b", "price_in": "price_in_usd_per_mtok",
    "price_out": "price_out_usd_per_mtok", "organisation": "organisation", "release": "release",
}  # fmt: skip


def site_json(
    sources: Sources, *, answers: Sequence[str], item_chunk: int, concept_starts: Sequence[int],
    n_features: int, versus: Any, has: dict[str, bool],
) -> dict[str, Any]:  # fmt: skip
    """The object of `site.json`.

    Args:
        sources: The study.
        answers: What the server answers; none where the page is published.
        item_chunk: Items a file of texts, answers, neighbours.
        concept_starts: First concept of every file of activations, and the number of concepts.
        n_features: Rows an item in `features.parquet`.
        versus: 'all', or the pairs that there are files for.
        has: What there is.
    """
    material = sources.material
    place = material.place
    sizes = np.bincount(material.benchmark, minlength=len(sources.benchmarks))
    subjects = sources.subjects
    return {
        "version": VERSION, "thetascope": version("thetascope"), "name": material.name,
        "content": sources.content, "n_items": sources.n_items, "n_models": len(sources.models),
        "n_responses": material.study.responses.height, "averaged": material.averaged,
        "answers": list(answers),
        "commands": {
            "onboard": f"thetascope onboard {place} RESULTS",
            "route": f'thetascope route ask {place} "QUESTION"',
            "explore": f"thetascope explore {place}", "study": place,
        },
        "benchmarks": [
            {"name": b, "n_items": int(n)}
            for b, n in zip(sources.benchmarks, sizes, strict=True)
        ],
        "subjects": [
            {"name": s, "benchmark": int(b)}
            for s, b in zip(subjects.names, subjects.benchmark, strict=True)
        ],
        "models": _models(sources), "has": has,
        "missing": [
            {"what": what, "why": m.why, "command": m.command}
            for what, m in sorted(sources.missing.items())
        ],
        "item_chunk": item_chunk, "concept_starts": list(concept_starts),
        "n_features": n_features, "versus": versus,
    }  # fmt: skip


def _models(sources: Sources) -> list[dict[str, Any]]:
    table = sources.study.models
    known = {c: f for c, f in _COLUMNS.items() if f in table.columns}
    rows = {r["model"]: r for r in table.iter_rows(named=True)}
    answered = sources.material.observed.sum(axis=0)
    out = []
    for model, n in zip(sources.models, answered.tolist(), strict=True):
        row = rows.get(model, {})
        more = {c: _plain(row.get(known[c])) if c in known else None for c in _COLUMNS}
        out.append({"name": model, "n_answered": int(n), **more})
    return out


def _plain(value: Any) -> Any:
    """A cell as JSON holds it: dates as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)

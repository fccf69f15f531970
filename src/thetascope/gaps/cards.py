"""One concept looked at closely: the items that carry it, and how a model does on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thetascope.gaps.data import GapData

N_ITEMS = 5


class Evidence(NamedTuple):
    """An item as evidence for what is said of a concept.

    Attributes:
        item_id, benchmark: The item.
        weight: Its share of the concept's activation, over the items that the model answered.
        score: The model's.
        others: Mean score of the other models on it; None where there are none.
    """

    item_id: str
    benchmark: str
    weight: float
    score: float
    others: float | None


def evidence(
    data: GapData, model: int, concept: int, *, worst: bool = True, n: int = N_ITEMS
) -> list[Evidence]:
    """The items that speak most for a gap (`worst`) or a strength.

    Those with the most a_j (sbar - s_j), or a_j (s_j - sbar), sbar the model's mean on their
    benchmark.
    """
    column = data.activations[:, [concept]].tocoo()
    rows, a = column.row, column.data
    s = data.scores[rows, model]
    seen = np.isfinite(s)
    rows, a, s = rows[seen], a[seen], s[seen]
    if not len(rows):
        return []
    mean = np.array(
        [np.nanmean(x) if np.isfinite(x := data.scores[p, model]).any() else np.nan
         for p in data.parts]
    )  # fmt: skip
    off = a * (s - mean[data.benchmark[rows]])
    order = np.argsort(off if worst else -off, kind="stable")[:n]
    order = order[(off[order] < 0) if worst else (off[order] > 0)]
    rest = np.delete(data.scores, model, axis=1)
    out = []
    for k in order.tolist():
        j = int(rows[k])
        known = rest[j][np.isfinite(rest[j])]
        out.append(
            Evidence(
                data.item_ids[j], data.benchmarks[data.benchmark[j]], float(a[k] / a.sum()),
                float(s[k]), float(known.mean()) if len(known) else None,
            )
        )  # fmt: skip
    return out


def card(data: GapData, model: int, concept: int, n: int = N_ITEMS) -> dict[str, Any]:
    """All that is shown of one concept and one model."""
    return {
        "concept": concept, "label": data.labels[concept], "flags": list(data.flags[concept]),
        "density": float(data.density[concept]), "model": data.models[model],
        "worst": [e._asdict() for e in evidence(data, model, concept, n=n)],
        "best": [e._asdict() for e in evidence(data, model, concept, worst=False, n=n)],
    }  # fmt: skip

"""The plane that the map is drawn on: two principal axes of where items differ.

Items are drawn by `Space.topic` (u_j less the mean direction, of length 1), or without a fit by
their text vectors treated alike; models by their ability less the mean, on the same axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.explorer.sources import Sources
from thetascope.explorer.tables import short, significant
from thetascope.space.fitted import unit

Array = NDArray[np.float64]
REACH = 0.9
"""Of the items' radius, that the longest of the models' arrows spans."""
N_NEIGHBOURS = 10
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Plane:
    """Where things are drawn.

    Attributes:
        source: 'fit' or 'vectors'.
        rows: (n,) rows of the study's items that have a place.
        unit: (n, d) float32 directions of length 1, whose cosines say what is near.
        place: (n, 2).
        explained: Share of their variance on either axis; None where there is none.
        models: (M, 2) scaled places, NaN for a model that the fit does not know; None without.
        scale: What they were multiplied by.
    """

    source: str
    rows: NDArray[np.int64]
    unit: NDArray[np.float32]
    place: Array
    explained: tuple[float, float] | None
    models: Array | None
    scale: float


def has_plane(sources: Sources) -> bool:
    """Whether items can be drawn."""
    vectors = sources.material.vectors
    return sources.space is not None or (vectors is not None and bool(vectors.has.any()))


def plane(sources: Sources) -> Plane | None:
    """The plane of the drawn fit, else of the text vectors; None where there are neither."""
    space = sources.space
    if space is not None:
        topic = space.topic
        axes, place, explained = principal(topic)
        ability = np.full((len(sources.models), topic.shape[1]), np.nan)
        here = sources.fit_model >= 0
        ability[here] = (space.ability - space.mean_ability)[sources.fit_model[here]]
        models = ability @ axes
        longest = np.nanmax(np.linalg.norm(models, axis=1), initial=0.0)
        radius = np.linalg.norm(place, axis=1).max(initial=0.0)
        scale = float(REACH * radius / longest) if longest > 1e-9 and radius > 0 else 1.0
        return Plane(
            "fit", space.place, topic.astype(np.float32), place, explained, models * scale, scale
        )
    vectors = sources.material.vectors
    if vectors is None or not has_plane(sources):
        return None
    rows = np.flatnonzero(vectors.has)
    found = unit(vectors.vectors[rows].astype(np.float64))
    topic = unit(found - found.mean(axis=0))
    _, place, explained = principal(topic)
    return Plane("vectors", rows, topic.astype(np.float32), place, explained, None, 1.0)


def principal(x: Array) -> tuple[Array, Array, tuple[float, float] | None]:
    """The first two principal axes (d, 2), places (n, 2) on them, and their shares of variance.

    An axis points so that its heaviest loading is positive.
    """
    centred = x - x.mean(axis=0)
    d = x.shape[1]
    size, columns = np.linalg.eigh(centred.T @ centred)
    size, columns = np.maximum(size[::-1], 0.0), columns[:, ::-1]
    axes = np.zeros((d, 2))
    k = min(2, d)
    axes[:, :k] = columns[:, :k]
    heaviest = axes[np.abs(axes).argmax(axis=0), [0, 1]]
    axes *= np.where(heaviest < 0, -1.0, 1.0)
    total = float(size.sum())
    if total <= 1e-12:
        return axes, np.zeros((len(x), 2)), None
    share = [float(s / total) for s in size[:2]] + [0.0, 0.0]
    return axes, centred @ axes, (share[0], share[1])


def neighbours(
    found: Plane, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """The items nearest to some items of the plane.

    Args:
        found: The plane.
        rows: (k,) rows of the study's items, each with a place.

    Returns:
        Flat rows of the study: item, neighbour, and their cosine, the nearest first.
    """
    where = np.searchsorted(found.rows, rows)
    n = len(found.rows)
    most = min(N_NEIGHBOURS, n - 1)
    items, others, cosines = [], [], []
    step = max(1, _BLOCK // n)
    for start in range(0, len(where), step):
        mine = where[start : start + step]
        likeness = found.unit[mine] @ found.unit.T
        likeness[np.arange(len(mine)), mine] = -np.inf
        if most < n - 1:
            near = np.argpartition(-likeness, most, axis=1)[:, :most]
        else:
            near = np.argsort(-likeness, axis=1)[:, :most]
        cosine = np.round(np.take_along_axis(likeness, near, axis=1), 3)
        order = np.lexsort((near, -cosine), axis=1)
        items.append(np.repeat(found.rows[mine], most))
        others.append(found.rows[np.take_along_axis(near, order, axis=1)].ravel())
        cosines.append(np.take_along_axis(cosine, order, axis=1).ravel())
    if not items:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros(0)
    return np.concatenate(items), np.concatenate(others), np.concatenate(cosines)


def space_json(sources: Sources, found: Plane) -> dict[str, Any]:
    """The object of `space.json`."""
    models = None
    if found.models is not None:
        models = [None if np.isnan(p[0]) else short(p.tolist()) for p in found.models]
    taxonomy = sources.taxonomy
    return {
        "source": found.source,
        "fit": sources.fit_name or None,
        "explained": short(found.explained or (0.0, 0.0)),
        "models": models,
        "scale": round(found.scale, 6),
        "clusters": [] if taxonomy is None else _clusters(sources, found),
        "stability": [] if taxonomy is None else [
            [v["k"], short(v["stability"])] for v in taxonomy[0]["levels"]],
        "k": None if taxonomy is None else taxonomy[0]["k"],
        "probes": _probes(sources),
        "map": _map(sources),
    }  # fmt: skip


def _clusters(sources: Sources, found: Plane) -> list[dict[str, Any]]:
    assert sources.taxonomy is not None
    held, code = sources.taxonomy
    here = code[found.rows]
    out = []
    for cluster in held["clusters"]:
        c = cluster["code"]
        place = found.place[here == c]
        middle = place.mean(axis=0).tolist() if len(place) else [None, None]
        out.append(
            {
                "code": c, "name": cluster["name"], "named_by": cluster.get("named_by", "terms"),
                "n_items": cluster["n_items"], "x": short(middle[0]), "y": short(middle[1]),
                "subjects": short(cluster["subjects"]), "error": short(cluster["error"]),
                "p": significant(cluster["p"]), "q": significant(cluster["q"]),
                "above": short(cluster["above"]), "below": short(cluster["below"]),
            }
        )  # fmt: skip
    return out


def probe_names(sources: Sources) -> list[str]:
    """The kept probes' names in `spaces`, in order."""
    return [name for name in sorted(sources.material.spaces) if name.startswith("probe-")]


def _probes(sources: Sources) -> list[dict[str, Any]]:
    out = []
    for name in probe_names(sources):
        held = sources.material.spaces[name]
        auc = held["separation"]["space"]
        of = {row[0]: short(row[1:]) for row in held["models"]}
        out.append(
            {
                "name": name.removeprefix("probe-"), "positive": held["sets"]["positive"],
                "negative": held["sets"]["negative"],
                "auc": None if auc is None or auc[0] is None else short(auc),
                "models": [None if m not in of else of[m][0] for m in sources.models],
                "ranges": [None if m not in of else of[m][1:] for m in sources.models],
            }
        )  # fmt: skip
    return out


def _map(sources: Sources) -> dict[str, Any] | None:
    held = sources.material.spaces.get("models")
    if held is None:
        return None
    near = dict(zip(held["models"], held["relatives"], strict=True))
    return {
        "pairs": short(held["pairs"]), "portfolio": short(held["portfolio"]),
        "relatives": [short(near.get(m)) for m in sources.models],
    }  # fmt: skip

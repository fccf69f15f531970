"""Files about items: all of them with their figures, their texts, who got them right."""

from __future__ import annotations

import numpy as np
import polars as pl

from thetascope.explorer.places import Plane, neighbours, probe_names
from thetascope.explorer.sources import Sources
from thetascope.explorer.tables import floats, q_values, small
from thetascope.gaps.design import mean_information
from thetascope.space.saved import load_items


def items_table(sources: Sources, plane: Plane | None) -> pl.DataFrame:
    """A row an item, in the study's order."""
    n = sources.n_items
    items = sources.material.items
    nothing = np.full(n, np.nan)
    x, y, norm, information = nothing.copy(), nothing.copy(), nothing.copy(), nothing.copy()
    if plane is not None:
        x[plane.rows], y[plane.rows] = plane.place.T
    if sources.space is not None:
        norm[sources.space.place] = sources.space.norm
    calibrated = sources.logit_space
    if calibrated is not None:
        space, rows = calibrated
        # an answer tells theta  w_j x_j x_j': its trace; an offset is no ability
        d = space.blocks[0] if sources.material.bank is None and space.blocks else space.dim
        size = np.square(space.design[:, :d].astype(np.float64)).sum(axis=1)
        information[rows] = mean_information(space) * size
    cluster = np.full(n, -1) if sources.taxonomy is None else sources.taxonomy[1]
    mean = items["mean"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return pl.DataFrame(
        [
            small("benchmark", sources.material.benchmark),
            small("subject", sources.subjects.code),
            sources.study.items["source_id"].alias("source_id"),
            floats("x", x), floats("y", y), floats("norm", norm),
            small("cluster", cluster),
            floats("error", 1 - mean),
            small("n_answered", items["n_models"]),
            floats("item_rest", items["item_rest"].cast(pl.Float64).to_numpy()),
            items["q_negative"].alias("q_negative"),
            small("group", _groups(sources)),
            floats("information", information, 4),
            _tokens(sources),
        ]
    ).with_columns(q_values("q_negative"))  # fmt: skip


def _groups(sources: Sources) -> np.ndarray:
    """(N,) near-duplicate group, numbered anew; -1 for an item that is alone."""
    labels = sources.material.groups.labels
    sizes = np.bincount(labels, minlength=1)
    several = np.flatnonzero(sizes > 1)
    code = np.full(len(sizes), -1, np.int64)
    code[several] = np.arange(len(several))
    return code[labels]


def _tokens(sources: Sources) -> pl.Series:
    if "n_tokens" in sources.study.items.columns:
        return small("n_tokens", sources.study.items["n_tokens"])
    if sources.concepts is not None:
        counted = sources.concepts.n_tokens
        return small("n_tokens", pl.Series([int(t) if t > 0 else None for t in counted]))
    return pl.Series("n_tokens", [None] * sources.n_items, pl.UInt8)


def texts_table(sources: Sources, rows: slice) -> pl.DataFrame:
    """A row an item of a chunk."""
    return sources.material.items["text"][rows].alias("text").to_frame()


def answers_table(sources: Sources, rows: slice) -> pl.DataFrame:
    """A row an (item, model) of a chunk, models within an item."""
    return _cells(sources, rows, slice(None))


def scores_table(sources: Sources, model: int) -> pl.DataFrame:
    """A row an item, of one model."""
    return _cells(sources, slice(None), slice(model, model + 1))


def _cells(sources: Sources, rows: slice, models: slice) -> pl.DataFrame:
    material = sources.material
    score = np.where(material.observed[rows, models], material.score[rows, models], np.nan)
    p = sources.predicted
    predicted = np.full(score.size, np.nan) if p is None else p[rows, models].ravel()
    return pl.DataFrame([floats("observed", score.ravel()), floats("predicted", predicted)])


def neighbours_table(sources: Sources, plane: Plane, rows: slice) -> pl.DataFrame:
    """The ten nearest of each item of a chunk that has a place."""
    low, high = np.searchsorted(plane.rows, [rows.start, rows.stop])
    item, neighbour, cosine = neighbours(plane, plane.rows[low:high])
    return pl.DataFrame(
        [small("item", item), small("neighbour", neighbour), floats("cosine", cosine)]
    )


def probes_table(sources: Sources) -> pl.DataFrame:
    """A column a probe: every item's projection."""
    columns = []
    for k, name in enumerate(probe_names(sources)):
        table = load_items(sources.study, name)
        value = np.full(sources.n_items, np.nan)
        value[[sources.row_of[i] for i in table["item_id"].to_list()]] = table["projection"]
        columns.append(floats(f"p{k}", value))
    return pl.DataFrame(columns)

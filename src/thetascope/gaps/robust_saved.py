"""How far gaps can be trusted, kept in the study: gaps/robust-<concepts>-<hash>/robust.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from thetascope.concepts.store import load_concepts
from thetascope.errors import InputError
from thetascope.gaps.agreement import agreement, match_concepts, readings
from thetascope.gaps.data import GapData, gap_data
from thetascope.gaps.performance import LEVEL, performance
from thetascope.gaps.robustness import removal, subsampling
from thetascope.gaps.saved import (
    GAPS,
    VERSION,
    GapSettings,
    load_gaps,
    study_gap_data,
)
from thetascope.gaps.validity import entanglement, predictive_validity
from thetascope.study import Study, files
from thetascope.study.derived import Made, find, keep

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)


def robust_study(
    path: str | Path, concepts: str | None = None, *, models: Sequence[str] = (),
    second: str | None = None, matched_on: str | Path | None = None,
    progress: Any = None, wait: float = 10.0,
) -> Made:  # fmt: skip
    """Checks kept gaps: subsampling, removal, predictive validity, another dictionary, thresholds.

    Args:
        path: The study's folder, with kept gaps.
        concepts: Name of the concepts that they are on; None where there are gaps on one.
        models: Models to check; those in focus where empty.
        second: Name of activations of another dictionary on the same study, or of the same one
            read in another way (a chat template, say).
        matched_on: A study whose items are read with both dictionaries, over which concepts are
            matched; the study's own items where None (no scores are looked at either way).
        progress: Called with (done, total, what).
        wait: Seconds to wait for another writer.

    Raises:
        InputError, StaleError: As `load_gaps` and `load_concepts`.
    """
    study = Study.open(Path(path))
    held = load_gaps(study, concepts)
    chosen = list(models) or held.figures["focus"]
    study.filter(models=chosen)  # raises with close names
    if second == held.name:
        raise InputError("the second dictionary is the first", field="second")

    def make(opened: Study, work: Path) -> None:
        settings = GapSettings(**held.figures["settings"])
        data = study_gap_data(opened, held.name, settings)
        found: dict[str, Any] = {"concepts": held.name, "second": second, "models": {}}
        other = matched = None
        if second is not None:
            other = study_gap_data(opened, second, settings)
            both = _read_by_both(data, other)
            if _same_dictionary(data, other):  # another template, say: nothing to match
                rows = readings(*(_models_of(d, chosen) for d in both), length=settings.length)
                found["readings"] = rows.to_dicts()
            elif matched_on is None:
                matched = match_concepts(both[0].activations, both[1].activations)
            else:
                there = Study.open(Path(matched_on))
                pair = [gap_data(there, load_concepts(there, n)) for n in (held.name, second)]
                pair = list(_read_by_both(*pair))
                matched = match_concepts(pair[0].activations, pair[1].activations)
            data, other = both
        for i, model in enumerate(chosen):
            if progress is not None:
                progress(i, len(chosen), f"robustness of {model}")
            m = data.model(model)
            mine: dict[str, Any] = {
                "subsampling": subsampling(data, m, seed=settings.seed)._asdict(),
                "removal": removal(data, m)._asdict(),
                "thresholds": _thresholds(data, m, settings.length),
                "entanglement": _entangled(data, m, settings),
            }
            if len(data.benchmarks) > 1:
                mine["validity"] = asdict(
                    predictive_validity(data, m, length=settings.length, seed=settings.seed)
                )
            if other is not None and matched is not None:
                mine["agreement"] = agreement(
                    data, other, m, matched, length=settings.length, seed=settings.seed
                )._asdict()
            found["models"][model] = mine
        files.write_json(work / "robust.json", files.finite(_plain(found)))

    needs = [f"gaps/{held.name}", f"concepts/{held.name}"]
    needs += [] if second is None else [f"concepts/{second}"]
    place = None if matched_on is None else str(matched_on)
    settings = {"models": chosen, "second": second, "matched_on": place, "version": VERSION}
    name = f"robust-{held.name}"
    return keep(path, GAPS, name, make, needs=needs, settings=settings, wait=wait)


def load_robust(study: Study, concepts: str) -> dict[str, Any]:
    """The kept checks of gaps on these concepts.

    Raises:
        InputError: There are none.
        StaleError: What they are made from has changed since.
    """
    folder = find(study, GAPS, f"robust-{concepts}", "thetascope gaps --robust")
    return files.read_json(folder / "robust.json")


def _same_dictionary(first: GapData, second: GapData) -> bool:
    one, two = (d.meta.get("dictionary") or {} for d in (first, second))
    return one.get("fingerprint") is not None and one["fingerprint"] == two.get("fingerprint")


def _models_of(data: GapData, models: Sequence[str]) -> GapData:
    columns = [data.model(m) for m in models]
    return data.with_scores(data.scores[:, columns], tuple(models))


def _read_by_both(first: GapData, second: GapData) -> tuple[GapData, GapData]:
    """Both on the items that both have read."""
    common = set(first.item_ids) & set(second.item_ids)
    if not common:
        raise InputError("the two dictionaries have read no item in common")
    out = []
    for data in (first, second):
        rows = [j for j, item in enumerate(data.item_ids) if item in common]
        out.append(data.take(np.array(rows, np.int64)))
    return out[0], out[1]


def _thresholds(data: GapData, model: int, length: bool) -> list[dict[str, Any]]:
    """How many concepts are tested and called at other thresholds."""
    if data.peak is None:
        return []
    one = data.with_scores(data.scores[:, [model]], (data.models[model],))
    rows = []
    for threshold in THRESHOLDS:
        if threshold < data.floor:
            continue
        is_active = data.peak.data >= np.float32(threshold)
        active = data.peak.copy()
        active.data = is_active.astype(np.float64)
        whole = performance(replace(one, active=active), length=length)[0].table
        rows.append(
            {
                "threshold": threshold, "tested": whole.height,
                "weak": whole.filter(pl.col("q_low") < LEVEL).height,
                "strong": whole.filter(pl.col("q_high") < LEVEL).height,
            }
        )  # fmt: skip
    return rows


def _entangled(data: GapData, model: int, settings: GapSettings) -> list[dict[str, Any]]:
    rows = []
    for b, name in enumerate(data.benchmarks):
        if not np.isfinite(data.scores[data.parts[b], model]).any():
            continue
        value, null = entanglement(data, model, b, length=settings.length, n=200)
        rows.append({"benchmark": name, "rho": list(value), "permuted": list(null)})
    return rows


def _plain(value: Any) -> Any:
    """Named tuples and numpy scalars as lists and numbers."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value

"""All that the page is made from, read once: tables, groups, findings, comparison, fit."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.decisions import ItemBank
from thetascope.decisions.routing.saved import NAME as ROUTING
from thetascope.decisions.routing.saved import ROUTINGS, SavedRouting, load_routing
from thetascope.decisions.saved import BANKS, stored_bank
from thetascope.encoders import StudyVectors, load_vectors
from thetascope.errors import InputError, StaleError, ThetascopeError
from thetascope.evaluation import Groups, replicate_weights
from thetascope.evaluation.columns import Estimates, means
from thetascope.gaps.data import GapData
from thetascope.gaps.grouping_saved import SavedGroups, load_groups
from thetascope.gaps.interpret import load_interpretation
from thetascope.gaps.robust_saved import load_robust
from thetascope.gaps.saved import GAPS, GapSettings, SavedGaps, load_gaps, study_gap_data
from thetascope.predictors import JEIRT
from thetascope.predictors.base import item_features
from thetascope.predictors.diagnosis.saved import (
    DIAGNOSES,
    NAME,
    SavedDiagnosis,
    load_diagnosis,
)
from thetascope.predictors.saved import (
    COMPARISONS,
    FITS,
    SavedComparison,
    fits_of,
    load_comparison,
    load_fit,
)
from thetascope.predictors.setup import study_groups
from thetascope.space.saved import SPACES, load_space
from thetascope.study import ResponseMatrix, Study, store
from thetascope.study.doctor import Finding, doctor
from thetascope.study.itemstats import item_statistics
from thetascope.study.keys import n_distinct

Array = NDArray[np.float64]
PREFERRED = "cold-items"


@dataclass(frozen=True)
class Missing:
    """Something that the study lacks: why, and the command that makes it."""

    why: str
    command: str


@dataclass(frozen=True)
class KeptGaps:
    """Kept gaps, what checked them, their groups, and what of these is stale."""

    saved: SavedGaps
    robust: dict[str, Any] | None = None
    groups: SavedGroups | None = None
    interpretation: dict[str, Any] | None = None
    stale: tuple[str, ...] = ()


@dataclass(frozen=True)
class GapMaterial(KeptGaps):
    """The same with the activations and scores behind them."""

    data: GapData = field(kw_only=True)


@dataclass(frozen=True)
class Material:
    """What the sections draw on.

    Attributes:
        name: The study's name.
        place: The study in the commands that the page names.
        study: The study, read with a policy that gives one score a pair.
        averaged: Whether runs are averaged here because the policy decides nothing.
        matrix, score, observed: Responses; (N, M) scores and where there are any.
        benchmarks, benchmark: Names; (N,) code of each item.
        groups, weights: Near-duplicate groups and the bootstrap's draws of them.
        items: item_id, benchmark, subject, text and the classical statistics of each item.
        findings: What doctor says.
        imports: What the imports read, kept and dropped.
        hashes: Content names of what the page was made from.
        vectors, comparison, fit: What the study has of these, each with its name.
        missing: 'vectors', 'comparison', 'fit', 'diagnosis', 'bank' -> why there is none.
        diagnosis: What `diagnose` found.
        bank: The items as the leaderboard reads them.
        spaces: What `space` commands found, by name: 'taxonomy', 'models', 'ood', 'difficulty',
            'probe-NAME'.
        stale_spaces: Names of those made from other tables or fits than the study holds now.
        routing: What routing is worth, where it was evaluated.
        gaps: What benchmarks cover and where models are weak, where that was asked.
    """

    name: str
    place: str
    study: Study
    averaged: bool
    matrix: ResponseMatrix
    score: Array
    observed: NDArray[np.bool_]
    benchmarks: tuple[str, ...]
    benchmark: NDArray[np.int64]
    groups: Groups
    weights: NDArray[np.float32]
    items: pl.DataFrame
    findings: list[Finding]
    imports: list[dict[str, Any]]
    hashes: list[str]
    vectors: StudyVectors | None
    comparison: SavedComparison | None
    comparison_name: str
    fit: JEIRT | None
    fit_name: str
    missing: dict[str, Missing]
    diagnosis: SavedDiagnosis | None = None
    bank: ItemBank | None = None
    spaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    stale_spaces: tuple[str, ...] = ()
    routing: SavedRouting | None = None
    gaps: GapMaterial | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return self.matrix.models

    @property
    def graded(self) -> bool:
        """Whether some score is neither 0 nor 1."""
        return not self.matrix.binary

    @property
    def has_texts(self) -> bool:
        return "text" in self.study.items.columns and self.study.items["text"].null_count() < len(
            self.study.items
        )

    @cached_property
    def benchmark_scores(self) -> list[Estimates]:
        """Per benchmark the mean score of every model, with intervals."""
        out = []
        for b in range(len(self.benchmarks)):
            rows = np.flatnonzero(self.benchmark == b)
            out.append(
                means(
                    self.score[rows], self.observed[rows], self.groups.labels[rows], self.weights,
                    proportion=True,
                )
            )  # fmt: skip
        return out

    @cached_property
    def coverage(self) -> Array:
        """(M, B) share of a benchmark's answered items that each model answered."""
        out = np.zeros((len(self.models), len(self.benchmarks)))
        for b in range(len(self.benchmarks)):
            rows = self.observed[self.benchmark == b]
            rows = rows[rows.any(axis=1)]
            out[:, b] = rows.mean(axis=0) if len(rows) else 0.0
        return out


def gather(
    study: Study, comparison: str | None, fit: str | None, title: str | None, *,
    activations: bool = True, place: Path | None = None,
) -> Material:  # fmt: skip
    """Reads all that the page needs.

    Args:
        study: The study.
        comparison, fit: Names; None for the preferred ones.
        title: In the place of the study's name.
        activations: Whether to read the concepts' activations; without them `gaps` is None
            (`kept_gaps` reads what is kept of these).
        place: The study's folder as commands are to name it; its own name where None, for a page
            is read elsewhere, too.

    Raises:
        InputError: A comparison or fit was named and there is none of that name.
        StaleError: The one named was made from other tables than the study holds now.
    """
    averaged = study.policy in ("error", "keep") and study.responses.height != n_distinct(
        study.responses, ["item_id", "model"]
    )
    read = replace(study, policy="mean") if averaged else study
    index = None if study.path is None else store.read_index(study.path)
    name = "a study" if study.path is None else study.path.resolve().name
    where = "STUDY" if study.path is None else shlex.quote(str(place or name))
    missing: dict[str, Missing] = {}
    found, comparison_name = _comparison(study, index, comparison, where, missing)
    fitted, fit_name = _fit(study, index, fit, where, missing)
    diagnosis = _diagnosis(study, index, where, missing)
    encoder = found.table.get("encoder") if found is not None else None
    vectors = _vectors(
        study, index, encoder or (fitted.vectors if fitted else None), where, missing
    )
    features = item_features(
        study if vectors is not None else replace(study, path=None),
        None if vectors is None else vectors.name,
        looks=False,
    )
    groups = study_groups(study, features)
    matrix = read.matrix("mean" if read.policy == "error" else None)
    benchmarks = features.benchmarks
    return Material(
        title or name,
        where,
        read,
        averaged,
        matrix,
        matrix.filled().astype(np.float64),
        matrix.observed,
        benchmarks,
        features.benchmark,
        groups,
        replicate_weights(max(groups.n_groups, 1)),
        _items(study, matrix, features.benchmark),
        doctor(study, groups.labels),
        index.imports if index is not None else _own_report(study),
        [] if index is None else _hashes(index, comparison_name, fit_name, diagnosis is not None),
        vectors,
        found,
        comparison_name,
        fitted,
        fit_name,
        missing,
        diagnosis,
        _bank(study, index, where, missing),
        *_spaces(study, index),
        routing=_routing(study, index, where, missing),
        gaps=_gaps(read, index, where, missing) if activations else None,
    )


def _items(study: Study, matrix: ResponseMatrix, benchmark: NDArray[np.int64]) -> pl.DataFrame:
    kept = [
        c
        for c in ("item_id", "benchmark", "source_id", "subject", "text")
        if c in study.items.columns
    ]
    stats = item_statistics(matrix, benchmark).drop("item_id")
    items = study.items.select(kept).hstack(stats)
    lacking = [c for c in ("subject", "text") if c not in kept]
    return items.with_columns(pl.lit(None, pl.String).alias(c) for c in lacking)


def _pick(known: dict[str, str], name: str | None, preferred: str) -> str | None:
    if name is not None:
        return name
    if preferred in known:
        return preferred
    return min(known) if known else None


def _comparison(
    study: Study,
    index: store.Index | None,
    name: str | None,
    place: str,
    missing: dict[str, Missing],
) -> tuple[SavedComparison | None, str]:
    known = {} if index is None else dict(index.derived.get(COMPARISONS, {}))
    if name is None:
        known.pop(NAME, None)  # diagnose's own: shown in its section
    chosen = _pick(known, name, PREFERRED)
    command = f"thetascope compare {place}"
    if chosen is None or index is None:
        if name is not None:
            raise InputError(f"no comparison named {name!r}: the study is in memory only")
        missing["comparison"] = Missing("The study has no comparison of predictors yet.", command)
        return None, ""
    try:
        return load_comparison(study, chosen), chosen
    except (StaleError, InputError) as error:
        if name is not None:
            raise
        why = "The comparison was made from other tables than the study holds now."
        missing["comparison"] = Missing(_reason(error, why), command)
        return None, ""


def _fit(
    study: Study,
    index: store.Index | None,
    name: str | None,
    place: str,
    missing: dict[str, Missing],
) -> tuple[JEIRT | None, str]:
    known: dict[str, str] = {}
    if index is not None:  # the section reads the space of a JE-IRT fit
        jeirt = {n for n, kind in fits_of(study).items() if kind is JEIRT}
        known = {n: p for n, p in index.derived.get(FITS, {}).items() if n in jeirt}
    chosen = _pick(known, name, "jeirt")
    command = f"thetascope fit {place}"
    if chosen is None or index is None:
        if name is not None:
            raise InputError(f"no fit named {name!r}: the study is in memory only")
        missing["fit"] = Missing("The study has no JE-IRT fit yet.", command)
        return None, ""
    try:
        return load_fit(study, chosen), chosen
    except (StaleError, InputError) as error:
        if name is not None:
            raise
        why = "The fit was made from other tables or vectors than the study holds now."
        missing["fit"] = Missing(_reason(error, why), f"{command} --name {shlex.quote(chosen)}")
        return None, ""


def _routing(
    study: Study, index: store.Index | None, place: str, missing: dict[str, Missing]
) -> SavedRouting | None:
    chosen = None if index is None else _pick(index.derived.get(ROUTINGS, {}), None, ROUTING)
    if chosen is None:
        return None
    try:
        return load_routing(study, chosen)
    except (StaleError, InputError) as error:
        why = "Routing was evaluated on other tables or vectors than the study holds now."
        command = f"thetascope route evaluate {place} --name {shlex.quote(chosen)}"
        missing["routing"] = Missing(_reason(error, why), command)
        return None


def _gaps(
    study: Study, index: store.Index | None, place: str, missing: dict[str, Missing]
) -> GapMaterial | None:
    found = kept_gaps(study, index, place, missing)
    if found is None or index is None:
        return None
    try:
        settings = GapSettings(**found.saved.figures["settings"])
        data = study_gap_data(study, found.saved.name, settings)
    except (StaleError, InputError) as error:
        _no_gaps(error, index, found.saved.name, place, missing)
        return None
    return GapMaterial(**vars(found), data=data)


def kept_gaps(
    study: Study, index: store.Index | None, place: str, missing: dict[str, Missing]
) -> KeptGaps | None:
    """The gaps that are shown, without activations; else None, and `missing` says why."""
    concepts = {} if index is None else index.derived.get("concepts", {})
    if index is None or not concepts:
        return None
    known = {n: p for n, p in index.derived.get(GAPS, {}).items() if n in concepts}
    chosen = _pick(known, None, "offline")
    if chosen is None:
        why = "The study has concept activations, and no gaps yet."
        missing["gaps"] = Missing(why, f"thetascope gaps {place}")
        return None
    try:
        saved = load_gaps(study, chosen)
    except (StaleError, InputError) as error:
        _no_gaps(error, index, chosen, place, missing)
        return None
    found: dict[str, Any] = {}
    stale: list[str] = []
    for what, load in (
        ("robust", load_robust), ("groups", load_groups), ("interpretation", load_interpretation),
    ):  # fmt: skip
        try:
            found[what] = load(study, chosen)
        except StaleError:
            stale.append(what)
        except InputError:  # there is none
            continue
    return KeptGaps(saved, **found, stale=tuple(stale))


def _no_gaps(
    error: ThetascopeError, index: store.Index, name: str, place: str, missing: dict[str, Missing]
) -> None:
    command = f"thetascope gaps {place}"
    if len(index.derived.get("concepts", {})) > 1:
        command += f" --concepts {shlex.quote(name)}"
    why = "The gaps were made from other tables or activations than the study holds now."
    missing["gaps"] = Missing(_reason(error, why), command)


def _diagnosis(
    study: Study, index: store.Index | None, place: str, missing: dict[str, Missing]
) -> SavedDiagnosis | None:
    why = "The study has no diagnosis yet."
    if index is not None and NAME in index.derived.get(DIAGNOSES, {}):
        try:
            return load_diagnosis(study)
        except (StaleError, InputError) as error:
            why = "The diagnosis was made from other tables or vectors than the study holds now."
            why = _reason(error, why)
    missing["diagnosis"] = Missing(why, f"thetascope diagnose {place}")
    return None


def _bank(
    study: Study, index: store.Index | None, place: str, missing: dict[str, Missing]
) -> ItemBank | None:
    why = "The study has no completed leaderboard yet."
    if index is not None and index.derived.get(BANKS):
        try:
            return stored_bank(study)
        except (StaleError, InputError) as error:
            why = "The leaderboard was made from other tables than the study holds now."
            why = _reason(error, why)
    missing["bank"] = Missing(why, f"thetascope leaderboard {place}")
    return None


def _spaces(
    study: Study, index: store.Index | None
) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """What is fresh, and the names of what is not."""
    found: dict[str, dict[str, Any]] = {}
    stale: list[str] = []
    for name in sorted({} if index is None else index.derived.get(SPACES, {})):
        if name == "names":  # they stand in the taxonomy
            continue
        try:
            found[name] = load_space(study, name)
        except (StaleError, InputError):  # damaged: the command that makes it anew is offered
            stale.append(name)
    return found, tuple(stale)


def _vectors(
    study: Study,
    index: store.Index | None,
    name: str | None,
    place: str,
    missing: dict[str, Missing],
) -> StudyVectors | None:
    known = {} if index is None else index.derived.get("vectors", {})
    chosen = _pick(known, name, "")
    if chosen is None or chosen not in known:
        missing["vectors"] = Missing(
            "The study has no text vectors yet.", f"thetascope encode {place}"
        )
        return None
    try:
        return load_vectors(study, chosen)
    except InputError as error:
        missing["vectors"] = Missing(_reason(error, ""), f"thetascope encode {place}")
        return None


def _reason(error: ThetascopeError, stale: str) -> str:
    """Why something kept cannot be shown: it is of another state of the study, or damaged."""
    if isinstance(error, StaleError):
        return stale
    return f"It cannot be read: {getattr(error, 'problem', error)}."


def _own_report(study: Study) -> list[dict[str, Any]]:
    return [] if study.report is None else [study.report.to_json()]


def _hashes(index: store.Index, comparison: str, fit: str, diagnosis: bool) -> list[str]:
    tables = [index.tables[t]["file"].removesuffix(".parquet") for t in sorted(index.tables)]
    named = [(COMPARISONS, comparison), (FITS, fit)]
    named += [(DIAGNOSES, NAME)] if diagnosis else []
    return tables + [index.derived[kind][name] for kind, name in named if name]

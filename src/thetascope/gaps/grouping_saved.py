"""Groups kept in the study's folder, with how models do on them and what covers them.

gaps/groups-<concepts>-<hash>/
  groups.json           how they were made, a row a group, missing concepts in scope
  groups.parquet        a row a concept: concept, group, how
  performance.parquet   a row a tested (scope, model, group), see `performance.Performance`
  coverage.parquet      a row a (benchmark, group): chi, n_active, n_covered of n_concepts
  scope.parquet         a row a (benchmark, missing concept): likeness, in_scope, reason

A language model is asked before anything is written: its answers are kept by question, outside
of the study, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from thetascope.concepts.store import Concepts, load_concepts
from thetascope.errors import InputError
from thetascope.gaps.coverage import coverage
from thetascope.gaps.data import THRESHOLD, Array, GapData, gap_data
from thetascope.gaps.grouped import grouped
from thetascope.gaps.grouping import Grouping, apart, chosen_k, cluster
from thetascope.gaps.label_vectors import (
    Vectors,
    activation_vectors,
    encoder_vectors,
    label_words,
    tf_idf_vectors,
)
from thetascope.gaps.performance import Progress, performance
from thetascope.gaps.saved import GAPS, strongest
from thetascope.gaps.scope import MOST, ask_scope, missing_ranked, scope_questions
from thetascope.gaps.written_groups import Written, grouped_by, planned, write_groups
from thetascope.llm import Endpoint, Plan, Prices, consent, plan_of
from thetascope.study import Study, files
from thetascope.study.derived import Made, find, keep, short_name

VERSION = 1
SENT = "concept labels and stated scopes among them, no item's text, no score"
_ANSWER_TOKENS = 900
"""Tokens of the answer about a batch, roughly."""


@dataclass(frozen=True)
class GroupSettings:
    """Settings of the groups.

    Attributes:
        by: What concepts are clustered by: labels, activations, or auto (activations where most
            labels are bare tokens).
        k: Number of themes; round(sqrt(n / 2)), 40 at most, where not given.
        encoder: Sentence encoder of the labels; TF-IDF where not given.
        threshold: Share of a concept's maximum over the reference from which on it is active.
        length: Whether text length is a covariate.
        scope_top: Missing concepts a benchmark that are looked at, those most like its scope.
        seed: Of the clustering.
    """

    by: Literal["auto", "labels", "activations"] = "auto"
    k: int | None = None
    encoder: str | None = None
    threshold: float = THRESHOLD
    length: bool = True
    scope_top: int = MOST
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scope_top < 1:
            raise InputError(f"expected at least 1, found {self.scope_top}", field="scope-top")
        if self.encoder is not None and self.by == "activations":
            raise InputError("an encoder reads labels", field="encoder", fix="--by labels")


@dataclass(frozen=True)
class SavedGroups:
    """Groups as they are kept.

    Attributes:
        name: Of the concepts that they are of.
        folder: Where they are.
        figures: groups.json.
    """

    name: str
    folder: Path
    figures: dict[str, Any]

    @property
    def table(self) -> pl.DataFrame:
        """A row a concept: concept, group, how."""
        return pl.read_parquet(self.folder / "groups.parquet")

    @property
    def members(self) -> list[list[int]]:
        """Concepts of every group."""
        held = self.table.group_by("group").agg("concept").sort("group")
        return [sorted(c) for c in held["concept"].to_list()]

    @property
    def performance(self) -> pl.DataFrame:
        """A row a tested (scope, model, group)."""
        return pl.read_parquet(self.folder / "performance.parquet")

    @property
    def coverage(self) -> pl.DataFrame:
        """A row a (benchmark, group)."""
        return pl.read_parquet(self.folder / "coverage.parquet")

    @property
    def scope(self) -> pl.DataFrame:
        """A row a (benchmark, missing concept)."""
        return pl.read_parquet(self.folder / "scope.parquet")


@dataclass
class _Work:
    """What is computed when it is needed, once."""

    study: Study
    held: Concepts
    settings: GroupSettings
    scopes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def data(self) -> GapData:
        return gap_data(self.study, self.held, threshold=self.settings.threshold)

    @cached_property
    def words(self) -> list[str | None]:
        return label_words(self.held)

    @cached_property
    def reasons(self) -> list[str | None]:
        return apart(self.held.flags, self.words)

    @cached_property
    def ids(self) -> list[int]:
        return [c for c, why in enumerate(self.reasons) if why is None]

    @cached_property
    def labels(self) -> dict[int, str]:
        held = self.held.labels
        return {c: held[c] for c in self.ids}

    @cached_property
    def tokens(self) -> frozenset[int]:
        """Concepts whose labels are bare tokens."""
        sources = self.held.dictionary["label_source"].to_list()
        return frozenset(c for c in self.ids if sources[c] == "tokens")

    @property
    def by(self) -> str:
        by = self.settings.by
        if by == "auto":
            by = (
                "labels"
                if self.settings.encoder or 2 * len(self.tokens) < len(self.ids)
                else "activations"
            )
        return by

    @cached_property
    def label_vectors(self) -> Vectors:
        usable = set(self.ids)
        words = [w if c in usable else None for c, w in enumerate(self.words)]
        if self.settings.encoder is not None:
            return encoder_vectors(words, self.settings.encoder)
        return tf_idf_vectors(words)

    @cached_property
    def vectors(self) -> Vectors:
        if self.by == "labels":
            return self.label_vectors
        usable = np.zeros(self.held.n_concepts, bool)
        usable[self.ids] = True
        return activation_vectors(self.data, usable)

    @property
    def fallback(self) -> Vectors:
        """By which concepts without an answer find the nearest: their labels, unless asked."""
        return self.vectors if self.settings.by == "activations" else self.label_vectors

    @cached_property
    def k(self) -> int:
        return chosen_k(len(self.ids), self.settings.k)

    @cached_property
    def missing(self) -> dict[str, tuple[list[tuple[int, float]], int]]:
        usable = np.zeros(self.held.n_concepts, bool)
        usable[self.ids] = True
        return {
            b: missing_ranked(self.data, b, s, self.label_vectors, usable.tolist(),
                              self.settings.scope_top)
            for b, s in self.scopes.items()
        }  # fmt: skip


def group_study(
    path: str | Path, concepts: str | None = None, *, settings: GroupSettings | None = None,
    endpoint: Endpoint | None = None, yes: bool = False, prices: Prices | None = None,
    scopes: Mapping[str, str] | None = None, focus: Sequence[str] = (),
    announce: Callable[[Plan], None] | None = None, progress: Progress | None = None,
    wait: float = 10.0,
) -> Made:  # fmt: skip
    """Groups a study's concepts, scores models on the groups, and keeps both there.

    Args:
        path: The study's folder, with concept activations.
        concepts: Their name; None where there is one.
        settings: Settings.
        endpoint: A language model that proposes themes and puts concepts into them.
        yes: Whether the user agreed that labels are sent there.
        prices: For the plan.
        scopes: What benchmarks say they test, by benchmark.
        focus: Models that are looked at first; the two best where empty.
        announce: Called with what will be sent, before it is.
        progress: Called with (done, total, what).
        wait: Seconds to wait for another writer.

    Raises:
        InputError: As `load_concepts`, `gap_data`, `cluster` and `Endpoint.ask`; no consent.
        StaleError: As `load_concepts`.
    """
    chosen = settings or GroupSettings()
    opened = Study.open(Path(path))
    name = short_name(opened, "concepts", concepts)
    if focus:
        opened.filter(models=list(focus))  # raises with close names
    work = _Work(opened, load_concepts(opened, name), chosen, dict(scopes or {}))
    said = None if endpoint is None else _asked(work, endpoint, yes, prices, announce, progress)

    def make(_: Study, folder: Path) -> None:
        if progress is not None:
            progress(0, -1, f"grouping by {work.by}")
        _write(folder, work, said, list(focus), progress)

    wanted = {
        **asdict(chosen), "focus": list(focus), "scopes": work.scopes, "version": VERSION,
        "answers": None if said is None else files.hash_json(said.plain()),
    }  # fmt: skip
    return keep(
        path, GAPS, f"groups-{name}", make, needs=[f"concepts/{name}"], settings=wanted, wait=wait
    )


def load_groups(study: Study, concepts: str | None = None) -> SavedGroups:
    """The kept groups of these concepts.

    Args:
        study: The study.
        concepts: Their name; None where there is one.

    Raises:
        InputError: There are none.
        StaleError: The study or its activations have changed since.
    """
    name = short_name(study, "concepts", concepts)
    folder = find(study, GAPS, f"groups-{name}", "thetascope concepts group")
    return SavedGroups(name, folder, files.read_json(folder / "groups.json"))


def group_performance(
    data: GapData, grouping: Grouping, *, length: bool = True, progress: Progress | None = None
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """How models do on groups, and what covers these; a group is one concept (RULES M7).

    Args:
        data: Activations and scores of concepts.
        grouping: Its groups; their families are tested apart from those of single concepts.
        length: Whether text length is a covariate.
        progress: Called with (done, total, what).

    Returns:
        Performance (scope, model, group, score, low, high, effect, ..., q_low, q_high, n_active,
        n_eff), coverage (benchmark, group, chi, n_active, n_covered: its concepts that are active
        on an item, n_concepts: those that are not dead), and the two models that are best.
    """
    whole = grouped(data, grouping.names, grouping.members)
    found = performance(whole, length=length, progress=progress)
    table = pl.concat(
        [p.table.select(pl.lit(p.scope).alias("scope"), pl.all()) for p in found]
    ).rename({"concept": "group"})
    covered = coverage(whole)
    rows = []
    for b, benchmark in enumerate(data.benchmarks):
        n_active = np.asarray(data.active[data.parts[b]].sum(axis=0))[0]
        there = (n_active > 0) & data.alive
        for g, members in enumerate(grouping.members):
            rows.append(
                {
                    "benchmark": benchmark, "group": g, "chi": float(covered.chi[g, b]),
                    "n_active": int(np.asarray(whole.active[data.parts[b], g].sum())),
                    "n_covered": int(there[members].sum()),
                    "n_concepts": int(data.alive[members].sum()),
                }
            )  # fmt: skip
    return table, pl.DataFrame(rows, schema_overrides={"group": pl.Int32}), strongest(found[0])


@dataclass(frozen=True)
class _Said:
    """All that a language model answered."""

    groups: Written
    scope: dict[str, tuple[dict[int, tuple[str, str]], dict[str, int]]]

    def plain(self) -> list[Any]:
        """For hashing."""
        groups = [self.groups.model, self.groups.themes, sorted(self.groups.of.items())]
        return [groups, [[b, sorted(v.items())] for b, (v, _) in self.scope.items()]]


def _asked(
    work: _Work, endpoint: Endpoint, yes: bool, prices: Prices | None,
    announce: Callable[[Plan], None] | None, progress: Progress | None,
) -> _Said:  # fmt: skip
    if not work.ids:
        raise InputError("every concept is flagged or without a label: none can be grouped")
    tokens = work.tokens
    questions = planned(work.ids, work.labels, work.k, tokens)
    for benchmark, scope in work.scopes.items():
        ids = [c for c, _ in work.missing[benchmark][0]]
        questions += scope_questions(scope, ids, work.labels, tokens)
    plan = plan_of(questions, _ANSWER_TOKENS, SENT, prices)
    consent(questions, endpoint, yes, plan)
    if announce is not None:
        announce(plan)
    written = write_groups(
        endpoint, work.ids, work.labels, work.k, tokens=tokens, progress=progress
    )
    verdicts = {
        b: ask_scope(endpoint, s, [c for c, _ in work.missing[b][0]], work.labels, tokens=tokens,
                     progress=progress)
        for b, s in work.scopes.items()
    }  # fmt: skip
    return _Said(written, verdicts)


def _write(
    folder: Path, work: _Work, said: _Said | None, focus: list[str], progress: Progress | None
) -> None:
    if said is not None and said.groups.themes:
        vectors = work.fallback
        grouping = grouped_by(said.groups, work.ids, work.reasons, vectors)
    else:
        vectors = work.vectors
        grouping = cluster(vectors, work.words, work.reasons, work.settings.k,
                           work.settings.seed)  # fmt: skip
        if said is not None:  # asked, and no theme could be used
            grouping.figures.update(model=said.groups.model, answers=said.groups.counts,
                                    fell_back=True)  # fmt: skip
    data = work.data
    table, covered, best = group_performance(
        data, grouping, length=work.settings.length, progress=progress
    )
    table.write_parquet(folder / "performance.parquet")
    covered.write_parquet(folder / "coverage.parquet")
    pl.DataFrame(
        {"concept": np.arange(len(grouping.of), dtype=np.int32), "group": grouping.of,
         "how": list(grouping.how)}
    ).write_parquet(folder / "groups.parquet")  # fmt: skip
    scope = _scope_table(work, said)
    scope.write_parquet(folder / "scope.parquet")
    typical = _typical(vectors, grouping)
    figures = {
        **grouping.to_json(work.held.labels, typical), "settings": asdict(work.settings),
        "n_concepts": data.n_concepts, "n_items": data.n_items, "n_dropped": data.n_dropped,
        "benchmarks": list(data.benchmarks), "focus": focus or best, "scopes": work.scopes,
        "n_missing": {b: n for b, (_, n) in work.missing.items()},
        "scope_answers": {} if said is None else {b: c for b, (_, c) in said.scope.items()},
    }  # fmt: skip
    files.write_json(folder / "groups.json", files.finite(figures))


def _typical(vectors: Vectors, grouping: Grouping) -> Array:
    """(C,) how near each concept is to the middle of its group."""
    out = np.zeros(len(grouping.of))
    for members in grouping.members:
        rows = vectors.rows[members]
        out[members] = rows @ rows.mean(axis=0)
    return out


def _scope_table(work: _Work, said: _Said | None) -> pl.DataFrame:
    rows = []
    for benchmark, (ranked, _) in work.missing.items():
        verdicts = {} if said is None else said.scope[benchmark][0]
        for concept, like in ranked:
            verdict, reason = verdicts.get(concept, (None, None))
            rows.append((benchmark, concept, like, verdict, reason))
    return pl.DataFrame(
        rows, orient="row",
        schema={"benchmark": pl.String, "concept": pl.Int32, "likeness": pl.Float64,
                "in_scope": pl.String, "reason": pl.String},
    )  # fmt: skip

"""Designs of a study's benchmarks, kept in the study: items to add, items to keep.

Adding: concepts that no item of the target touches (above the threshold of activity) and that
items of the pool do are asked for, each `per_concept` times, all with the same weight. Keeping:
every concept that the benchmark touches is asked for, as often as it has it but no more than
`per_concept` times. Dead concepts and those of format tokens are never asked for.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.concepts.store import KIND as CONCEPTS
from thetascope.concepts.store import load_concepts
from thetascope.decisions.bank import ItemBank
from thetascope.decisions.saved import stored_bank, study_bank
from thetascope.encoders.config import check_name
from thetascope.errors import InputError, StaleError
from thetascope.gaps.data import THRESHOLD, GapData, gap_data
from thetascope.gaps.design import Chosen, Goal, choose, with_information
from thetascope.gaps.performance import Progress
from thetascope.gaps.saved import GAPS
from thetascope.gaps.sparse import column_sums
from thetascope.space.item_sets import item_set
from thetascope.study import Study, files
from thetascope.study.derived import Made, find, keep, short_name

VERSION = 1
PER_CONCEPT = 3
INFORMATION = 0.5
NOT_ASKED = frozenset({"dead", "format"})
"""Flags of concepts that no benchmark is to be filled with."""
_DRAWS = 20
_NAMED = 5
Rows = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class DesignOptions:
    """What a design is made with.

    Attributes:
        n: Items to choose.
        per_concept: Items that touch a concept from which on it counts as covered.
        information: Weight of what the items tell about models against coverage, 0 for none:
            1 makes all that the candidates can tell worth as much as covering every concept.
        threshold: Share of a concept's maximum over the reference from which it is active.
    """

    n: int = 50
    per_concept: int = PER_CONCEPT
    information: float = INFORMATION
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        for name in ("n", "per_concept"):
            if getattr(self, name) < 1:
                raise InputError(f"expected a whole number from 1, found {getattr(self, name)}",
                                 field=name.replace("_", "-"))  # fmt: skip
        if not 0 <= self.information < float("inf"):
            raise InputError(f"expected a number from 0, found {self.information}",
                             field="information")  # fmt: skip


class Task(NamedTuple):
    """Candidates, what is there already, and the concepts that are asked for (rows of data)."""

    candidates: Rows
    there: Rows
    concepts: Rows
    needed: NDArray[np.float64]


def adding(data: GapData, target: Bools, pool: Bools, per_concept: int) -> Task:
    """Concepts that the target misses and the pool has.

    Args:
        data: Activations.
        target, pool: (N,) items of data.
        per_concept: Items asked for, fewer where the pool has no more.

    Raises:
        InputError: The target or the pool is empty, or the target misses nothing.
    """
    pool = pool & ~target
    if not target.any() or not pool.any():
        raise InputError("no item of the target, or of the pool beside it, has activations")
    there, candidates = np.flatnonzero(target), np.flatnonzero(pool)
    offered = column_sums(data.active[candidates])
    missing = (column_sums(data.active[there]) == 0) & (offered > 0) & asked(data)
    if not missing.any():
        raise InputError("the pool has no concept that the target misses")
    concepts = np.flatnonzero(missing)
    return Task(candidates, there, concepts, np.minimum(offered[concepts], per_concept))


def keeping(data: GapData, target: Bools, per_concept: int) -> Task:
    """Concepts that the benchmark has.

    Raises:
        InputError: No item of it has activations, or none of its concepts is asked for.
    """
    candidates = np.flatnonzero(target)
    if not len(candidates):
        raise InputError("no item of the benchmark has activations")
    offered = column_sums(data.active[candidates])
    concepts = np.flatnonzero((offered > 0) & asked(data))
    if not len(concepts):
        raise InputError("no concept is active on any item of the benchmark")
    return Task(candidates, np.zeros(0, np.int64), concepts,
                np.minimum(offered[concepts], per_concept))  # fmt: skip


def asked(data: GapData) -> Bools:
    """(C,) concepts that may be asked for: not dead, and not of format tokens."""
    return np.array([not NOT_ASKED & set(f) for f in data.flags]) & data.alive


def goal_of(data: GapData, task: Task, bank: ItemBank | None, information: float) -> Goal:
    """F for a task: coverage, with information where there is a bank and a weight."""
    active = csr_matrix(data.active[task.candidates][:, task.concepts])
    held = column_sums(data.active[task.there][:, task.concepts])
    weight = np.full(len(task.concepts), 1 / len(task.concepts))
    goal = Goal(active, weight, task.needed, held)
    if bank is None or not information:
        return goal
    rows = np.array([bank.row(i) for i in data.item_ids], np.int64)
    used = np.concatenate([task.candidates, task.there])
    if (rows[used] < 0).any():
        lacking = data.item_ids[int(used[int(np.argmax(rows[used] < 0))])]
        raise InputError(f"the item bank has no item {lacking!r}")
    return with_information(
        goal, bank.space, bank.prior.covariance, rows[task.candidates], rows[task.there],
        information,
    )  # fmt: skip


def design_study(
    path: str | Path, *, add_to: str | None = None, keep_of: str | None = None,
    pool: str | None = None, options: DesignOptions | None = None, concepts: str | None = None,
    fit: str | None = None, name: str = "items", wait: float = 10.0,
    progress: Progress | None = None,
) -> Made:  # fmt: skip
    """Makes a design and keeps it in the study as gaps/design-NAME.

    The folder holds design.json (`load_design`) and items.csv (item_id, benchmark, step, gain).

    Args:
        path: The study's folder, with concept activations.
        add_to: Items of a benchmark that is to be filled: its name, or the words of
            `space.item_sets`.
        keep_of: Items of a benchmark of which few are to be kept; one of the two is given.
        pool: Candidates to add, a benchmark's name or words; all other items where None.
        options: Numbers.
        concepts: Name of the activations; the only ones where None.
        fit: Name of a JE-IRT fit whose space gives the information; the item bank where None.
        name: Under which it is kept.
        wait: Seconds to wait for another writer.
        progress: Called with (done, total, what).

    Raises:
        InputError: Not one of the two uses, no activations, an unknown set, nothing to do, or
            (with a weight on information) the study gives no item bank.
    """
    given = options or DesignOptions()
    check_name(name)
    if (add_to is None) == (keep_of is None):
        raise InputError("expected one of add-to and keep")
    if pool is not None and add_to is None:
        raise InputError("a pool is what items are added from; --keep has none", field="pool")
    folder = Path(path)
    study = Study.open(folder)
    chosen = short_name(study, CONCEPTS, concepts)
    bank = None
    if given.information:
        bank = _bank(study, folder, fit, wait, progress)

    def make(study: Study, work: Path) -> None:
        data = gap_data(study, load_concepts(study, chosen), threshold=given.threshold)
        found = {"concepts": chosen, "options": asdict(given)}
        if add_to is not None:
            target = _set(study, data, add_to)
            there = np.ones(data.n_items, bool) if pool is None else _set(study, data, pool)
            task = adding(data, target, there, given.per_concept)
            found |= {"use": "add", "target": add_to, "pool": pool}
        else:
            assert keep_of is not None
            task = keeping(data, _set(study, data, keep_of), given.per_concept)
            found |= {"use": "keep", "target": keep_of, "pool": None}
        if progress is not None:
            progress(0, 0, f"choosing from {len(task.candidates):,} items")
        goal = goal_of(data, task, bank, given.information)
        result = choose(goal, given.n)
        found |= described(data, task, goal, result)
        files.write_json(work / "design.json", found)
        _table(found).write_csv(work / "items.csv")

    needs = [f"{CONCEPTS}/{chosen}", *([] if fit is None else [f"fits/{fit}"])]
    settings = {
        "add_to": add_to, "keep": keep_of, "pool": pool, "fit": fit, "version": VERSION,
        "bank": None if bank is None else bank.calibrated, **asdict(given),
    }  # fmt: skip
    return keep(folder, GAPS, f"design-{name}", make, needs=needs, settings=settings, wait=wait)


def load_design(study: Study, name: str = "items") -> dict[str, Any]:
    """A kept design, as `described` says.

    Raises:
        InputError: There is none.
        StaleError: The study has changed since.
    """
    return files.read_json(find(study, GAPS, f"design-{name}", "thetascope design")
                           / "design.json")  # fmt: skip


def described(data: GapData, task: Task, goal: Goal, result: Chosen) -> dict[str, Any]:
    """A design as plain objects: what was chosen, what it is worth, what random items are."""
    k, empty = len(result.items), np.zeros(0, np.int64)
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(len(goal))[:k] for _ in range(_DRAWS)]
    every = np.arange(len(goal))
    count = goal.held.copy()
    items: list[dict[str, Any]] = []
    for step, j in enumerate(result.items.tolist()):
        on = goal.active.indices[goal.active.indptr[j] : goal.active.indptr[j + 1]]
        new = on[count[on] == 0]
        count[on] += 1
        row = int(task.candidates[j])
        items.append(
            {
                "item_id": data.item_ids[row],
                "benchmark": data.benchmarks[int(data.benchmark[row])],
                "gain": float(result.gains[step]), "n_new_concepts": len(new),
                "new_concepts": [data.labels[int(task.concepts[c])] for c in new[:_NAMED]],
            }
        )  # fmt: skip
    covered = np.minimum(1.0, count / goal.needed)

    base = goal.log_det(empty)
    whole = goal.log_det(every) - base

    def told(rows: Rows) -> float:
        return (goal.log_det(rows) - base) / whole

    return {
        "n_candidates": len(goal), "n_there": len(task.there), "n_chosen": k,
        "n_concepts": len(task.concepts), "n_covered": int((covered >= 1).sum()),
        "n_touched": int((count > goal.held).sum()),
        "coverage": goal.coverage(result.items), "coverage_before": goal.coverage(empty),
        "coverage_random": float(np.mean([goal.coverage(d) for d in drawn])),
        "coverage_of_all": goal.coverage(every),
        "information": told(result.items) if whole else None,
        "information_random": float(np.mean([told(d) for d in drawn])) if whole else None,
        "tokens": float(np.median(data.n_tokens[task.candidates[result.items]])),
        "tokens_candidates": float(np.median(data.n_tokens[task.candidates])),
        "value": result.value, "before": result.before, "bound": result.bound,
        "share_of_best": result.share,
        "value_random": float(np.mean([goal.value(d) for d in drawn])),
        "items": items,
    }  # fmt: skip


def _set(study: Study, data: GapData, words: str) -> Bools:
    """(data items,) a benchmark by name, or the words of item sets."""
    spelt = f"benchmark:{words}" if words in study.benchmarks else words
    if ":" not in spelt:
        raise InputError(f"no benchmark {words!r}; there are {', '.join(study.benchmarks)}")
    return item_set(study.items, spelt)[data.rows]


def _bank(
    study: Study, folder: Path, fit: str | None, wait: float, progress: Progress | None
) -> ItemBank:
    if fit is not None:
        return study_bank(folder, fit=fit, wait=wait, progress=progress)
    try:
        return stored_bank(study)
    except (InputError, StaleError):
        pass
    try:
        return study_bank(folder, calibrate=False, wait=wait, progress=progress)
    except InputError as error:
        raise InputError(
            f"there is no item bank to tell what items say about models: {error.problem}",
            fix="--information 0 goes by concepts alone",
        ) from None


def _table(found: dict[str, Any]) -> pl.DataFrame:
    rows = [{"item_id": i["item_id"], "benchmark": i["benchmark"], "step": step, "gain": i["gain"]}
            for step, i in enumerate(found["items"], start=1)]  # fmt: skip
    return pl.DataFrame(rows, schema={"item_id": pl.String, "benchmark": pl.String,
                                      "step": pl.Int64, "gain": pl.Float64})  # fmt: skip

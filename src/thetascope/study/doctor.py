"""Looks a study over: what is thin, doubled, constant, suspect or stale, and what it means."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.study import files, store
from thetascope.study.itemstats import MIN_MODELS, item_statistics
from thetascope.study.model_names import propose_renames
from thetascope.study.policies import repeated_pairs
from thetascope.study.schema import TABLES
from thetascope.study.study import Study

THIN_MODEL = 20
"""A model with fewer responses than this is thin."""
THIN_ITEM = 3
"""An item that fewer models answered is thin."""
SUSPECT_Q = 0.1


@dataclass(frozen=True)
class Finding:
    """One thing that a user should know.

    Attributes:
        check: Name of the check.
        level: 'ok', 'note' (know it), 'warning' (look at it) or 'error' (something is broken).
        n, total: How many, of how many.
        summary: The finding in one line.
        meaning: What it means and what to do.
        examples: Up to five ids.
    """

    check: str
    level: Literal["ok", "note", "warning", "error"]
    n: int
    total: int
    summary: str
    meaning: str
    examples: list[str]

    def to_json(self) -> dict[str, Any]:
        """The finding as a plain object."""
        return asdict(self)


def doctor(study: Study, groups: NDArray[np.int64] | None = None) -> list[Finding]:
    """Checks a study.

    Args:
        study: The study, opened from a folder or in memory.
        groups: (N,) near-duplicate group of each item; None for equal texts only.
    """
    policy = "mean" if study.policy == "error" else study.policy
    matrix = study.matrix(policy)
    names = study.benchmarks
    code = {b: i for i, b in enumerate(names)}
    benchmark = np.array([code[b] for b in study.items["benchmark"]], np.int64)
    stats = item_statistics(matrix, benchmark)
    findings = [
        _repeats(study),
        _near_duplicates(study, groups, benchmark),
        _constant(stats),
        _thin_items(stats),
        _thin_models(study),
        _extreme_models(study),
        _model_names(study),
        _suspect(stats),
        _texts(study),
    ]
    if study.path is not None:
        findings += _folder(study, study.path)
    return findings


def clean(path: Path) -> list[str]:
    """Deletes what nothing in the study points to and returns the names.

    These are left over from kills, and older states of tables and derived folders.
    """
    with store.writing(path) as writer:
        gone = store.unreferenced(path, writer.index)
        for item in gone:
            if item.is_dir():
                shutil.rmtree(item)
            else:
                item.unlink()
    return [p.relative_to(path).as_posix() for p in gone]


def _finding(
    check: str,
    n: int,
    total: int,
    summary: str,
    meaning: str,
    examples: list[str],
    level: Literal["note", "warning", "error"] = "note",
) -> Finding:
    return Finding(check, level if n else "ok", n, total, summary, meaning, examples[:5])


def _repeats(study: Study) -> Finding:
    repeated = repeated_pairs(study.responses)
    total = study.responses.select("item_id", "model").n_unique()
    shown = [f"{i} x {m}" for i, m, _ in repeated.head(5).iter_rows()]
    return _finding(
        "repeated pairs",
        repeated.height,
        total,
        f"{repeated.height:,} of {total:,} (item, model) pairs have more than one run;"
        f" policy '{study.policy}'",
        "Several runs of one pair. The policy decides what counts; all rows are kept on disk.",
        shown,
    )


def _near_duplicates(
    study: Study, groups: NDArray[np.int64] | None, benchmark: NDArray[np.int64]
) -> Finding:
    if groups is None:
        groups = _equal_texts(study)
        how = "the same text"
    else:
        how = "the same or nearly the same text"
    sizes = np.bincount(groups)
    doubled = np.flatnonzero(sizes >= 2)
    n = int(sizes[doubled].sum())
    crossing = sum(len(np.unique(benchmark[groups == g])) > 1 for g in doubled.tolist())
    ids = study.items["item_id"].to_list()
    shown = [" = ".join(ids[i] for i in np.flatnonzero(groups == g)[:3]) for g in doubled[:5]]
    return _finding(
        "near-duplicates",
        n,
        study.n_items,
        f"{n:,} items in {len(doubled):,} groups with {how},"
        f" {crossing} of them across benchmarks; the largest holds {int(sizes.max())}",
        "Such items never straddle a split, and count as one in the intervals of scores.",
        shown,
    )


def _equal_texts(study: Study) -> NDArray[np.int64]:
    if "text_hash" not in study.items.columns:
        return np.arange(study.n_items)
    key = pl.coalesce("text_hash", "item_id")
    return study.items.select(key.rank("dense"))["text_hash"].to_numpy().astype(np.int64) - 1


def _constant(stats: pl.DataFrame) -> Finding:
    constant = stats.filter("constant")
    right = constant.filter(pl.col("mean") == 1).height
    wrong = constant.filter(pl.col("mean") == 0).height
    return _finding(
        "constant items",
        constant.height,
        stats.height,
        f"{constant.height:,} items have one score for all models"
        f" ({right:,} all right, {wrong:,} all wrong)",
        "They cannot tell models apart. All wrong can also mean a wrong key or a parser that"
        " never matches.",
        constant["item_id"].head(5).to_list(),
    )


def _thin_items(stats: pl.DataFrame) -> Finding:
    thin = stats.filter(pl.col("n_models") < THIN_ITEM)
    return _finding(
        "thin items",
        thin.height,
        stats.height,
        f"{thin.height:,} items were answered by fewer than {THIN_ITEM} models",
        "Their difficulty is hardly known from responses.",
        thin["item_id"].head(5).to_list(),
    )


def _thin_models(study: Study) -> Finding:
    counts = study.responses.group_by("model", maintain_order=True).len()
    thin = counts.filter(pl.col("len") < THIN_MODEL)
    silent = study.n_models - counts.height
    return _finding(
        "thin models",
        thin.height + silent,
        study.n_models,
        f"{thin.height} models have fewer than {THIN_MODEL} responses, {silent} have none",
        "Their means and positions are guesses; intervals say how wide.",
        [f"{m} ({n})" for m, n in thin.head(5).iter_rows()],
    )


def _extreme_models(study: Study) -> Finding:
    means = (
        study.responses.join(study.items.select("item_id", "benchmark"), on="item_id")
        .group_by("model", "benchmark", maintain_order=True)
        .agg(pl.col("score").mean(), pl.len())
        .filter(pl.col("len") >= THIN_MODEL)
    )
    extreme = means.filter((pl.col("score") < 0.02) | (pl.col("score") > 0.999))
    return _finding(
        "extreme scores",
        extreme.height,
        means.height,
        f"{extreme.height} (model, benchmark) means are below 2 % or above 99.9 %",
        "Below 2 % is more often an answer format that the grader could not read than a lack"
        " of ability.",
        [f"{m} on {b}: {100 * s:.1f} %" for m, b, s, _ in extreme.head(5).iter_rows()],
        "warning",
    )


def _model_names(study: Study) -> Finding:
    alike = propose_renames(study.models["model"].to_list())
    return _finding(
        "model names",
        len(alike),
        study.n_models,
        f"{len(alike)} models seem to stand under another name too",
        "One model under two names counts as two. Where it is one, import again with --crosswalk"
        " FILE (columns model and canonical), which renames it in the study.",
        [r.line() for r in alike],
        "warning",
    )


def _suspect(stats: pl.DataFrame) -> Finding:
    tested = stats.filter(pl.col("item_rest").is_not_null())
    negative = tested.filter(pl.col("item_rest") < 0)
    sure = negative.filter(pl.col("q_negative") < SUSPECT_Q).sort("item_rest")
    return _finding(
        "suspect items",
        sure.height,
        tested.height,
        f"{negative.height:,} of {tested.height:,} items with {MIN_MODELS} answers or more have a"
        f" negative item-rest correlation, {sure.height:,} of them beyond chance"
        f" (q < {SUSPECT_Q:g})",
        "Better models get them wrong more often: a wrong key, an ambiguous question or a trap."
        " Read them first.",
        [f"{i} ({r:+.2f})" for i, r in sure.select("item_id", "item_rest").head(5).iter_rows()],
        "warning",
    )


def _texts(study: Study) -> Finding:
    if "text" in study.items.columns:
        missing = study.items.filter(pl.col("text").is_null())["item_id"].to_list()
    else:
        missing = study.items["item_id"].to_list()
    return _finding(
        "texts",
        len(missing),
        study.n_items,
        f"{len(missing):,} of {study.n_items:,} items have no text",
        "They cannot be encoded; add texts with: thetascope attach-texts STUDY TEXTS",
        missing,
    )


def _folder(study: Study, path: Path) -> list[Finding]:
    index = store.read_index(path)
    broken = [
        index.tables[name]["file"]
        for name in TABLES
        if files.hash_file(path / index.tables[name]["file"]) != index.table_hash(name)
    ]
    derived = [f for kind in index.derived.values() for f in kind.values()]
    for folder in derived:
        if (
            not (path / folder).is_dir()
            or files.hash_folder(path / folder) != folder.rpartition("-")[2]
        ):
            broken.append(folder)
    stale = [f for f in derived if f not in broken and _stale(path / f, index)]
    leftover = [p.relative_to(path).as_posix() for p in store.unreferenced(path, index)]
    return [
        _finding(
            "damaged files", len(broken), len(TABLES) + len(derived),
            f"{len(broken)} files differ from the hash in their name or are missing",
            "They were changed or lost after they were written. Import or make them again.",
            broken, "error",
        ),
        _finding(
            "stale folders", len(stale), len(derived),
            f"{len(stale)} derived folders were made from other tables than the study has now",
            "They are refused when used; make them again (fit, compare, diagnose).",
            stale, "warning",
        ),
        _finding(
            "leftovers", len(leftover), len(leftover),
            f"{len(leftover)} {'file or folder' if len(leftover) == 1 else 'files or folders'}"
            " that nothing points to",
            "Left by an interrupted command or by older states; thetascope doctor STUDY --clean"
            " deletes them.",
            leftover,
        ),
    ]  # fmt: skip


def _stale(folder: Path, index: store.Index) -> bool:
    inputs: dict[str, str] = files.read_json(folder / "manifest.json").get("inputs", {})
    now = {name: index.table_hash(name) for name in TABLES}
    for kind, entries in index.derived.items():
        for name, place in entries.items():
            now[f"{kind}/{name}"] = place.rpartition("-")[2]
    now["policy"] = index.policy
    made_from = {k: v for k, v in inputs.items() if k in now or "/" in k}
    return any(now.get(key) != value for key, value in made_from.items())

"""Putting labels on a study's concepts: a new folder with the same activations."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.concepts.assemble import write_table
from thetascope.concepts.labels import Labels, odd_rows
from thetascope.concepts.store import DICTIONARY, KIND, Concepts, load_concepts, read_part
from thetascope.errors import InputError
from thetascope.study import Study, files, store


@dataclass(frozen=True)
class LabelResult:
    """What labelling did.

    Attributes:
        name: The activations' name in the study.
        folder: Where they are now.
        n_concepts: Concepts of the dictionary.
        n_given: Concepts that were given a label.
        by_source: Concepts by where their label is from now; "none" for those without.
        notes: What is unusual, in words.
    """

    name: str
    folder: Path
    n_concepts: int
    n_given: int
    by_source: dict[str, int]
    notes: tuple[str, ...]


def apply_labels(
    path: str | Path,
    given: Mapping[int, str],
    source: str,
    *,
    scores: Mapping[int, float] | None = None,
    name: str | None = None,
    notes: tuple[str, ...] = (),
    wait: float = 10.0,
) -> LabelResult:
    """Makes labels part of a study's concept activations.

    A concept that is given none keeps the label that it has.

    Args:
        path: The study's folder.
        given: Labels by concept.
        source: Where they are from: neuronpedia, file, dictionary, llm.
        scores: How well each predicts where its concept fires, where that was measured.
        name: Name of the activations; None where the study has only one.
        notes: Passed on.
        wait: Seconds to wait for another writer.

    Raises:
        InputError: There are no such activations.
        LockedError: Another process still writes after `wait` seconds.
    """
    folder = Path(path)
    store.read_index(folder)
    with store.writing(folder, wait) as writer:
        found = load_concepts(Study.open(folder), name)
        table = labelled(read_part(found.folder, DICTIONARY), given, source, scores or {})
        manifest = {k: v for k, v in found.manifest.items() if k != "key"}
        key: dict[str, Any] = {
            "extraction": manifest["extraction"],
            "labels": files.hash_json(table.select("label", "label_source").rows()),
            "scores": files.hash_json(table["label_score"].to_list()),
        }
        final = writer.find_derived(KIND, found.name, key)
        if final is None:
            work = writer.work_folder(KIND, found.name, key)
            _copy(found, work)
            write_table(work / DICTIONARY, table)
            final = writer.put_derived(KIND, found.name, key, work, manifest)
        writer.point_to(KIND, found.name, final)
        writer.commit()
    counts = table["label_source"].fill_null("none").value_counts(sort=True, name="n")
    return LabelResult(found.name, final, table.height, len(given), dict(counts.iter_rows()), notes)


def labelled(
    table: pl.DataFrame, given: Mapping[int, str], source: str, scores: Mapping[int, float]
) -> pl.DataFrame:
    """Returns the table of concepts with these labels in place of those it has."""
    outside = [c for c in given if not 0 <= c < table.height]
    if outside:
        raise InputError(f"the dictionary has no concept {outside[0]}", field="concept")
    new = pl.DataFrame(
        {
            "concept": list(given),
            "new_label": list(given.values()),
            "new_score": [scores.get(c) for c in given],
        },
        schema={"concept": pl.Int32, "new_label": pl.String, "new_score": pl.Float32},
    )
    here = pl.col("new_label").is_not_null()
    return (
        table.join(new, on="concept", how="left", maintain_order="left")
        .with_columns(
            label=pl.when(here).then("new_label").otherwise("label"),
            label_source=pl.when(here).then(pl.lit(source)).otherwise("label_source"),
            label_score=pl.when(here).then("new_score").otherwise("label_score"),
        )
        .select(table.columns)
    )


def check_labels(found: Concepts, labels: Labels) -> tuple[str, ...]:
    """What is unusual about labels for these concepts, in words."""
    notes = odd_rows(labels)
    if labels.models:
        where = f"{labels.models[0]}, {', '.join(labels.layers)}"
        notes.append(f"the labels are of {where}; the concepts are of {found.manifest['model']},"
                     f" {found.manifest['hook']}")  # fmt: skip
    return tuple(notes)


def _copy(found: Concepts, work: Path) -> None:
    """All but the table of concepts: by link where the disk can, the files never change."""
    for file in found.folder.iterdir():
        if file.name in (DICTIONARY, "manifest.json"):
            continue
        target = work / file.name
        target.unlink(missing_ok=True)
        try:
            os.link(file, target)
        except OSError:
            shutil.copyfile(file, target)

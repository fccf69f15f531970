"""Labels for concepts from files: Neuronpedia's exports, tables, a dictionary's own.

A Neuronpedia export is a folder `v1/MODEL/SOURCE/explanations/` of `batch-*.jsonl.gz` (or one
such file), with rows that have modelId, layer, index (strings) and description.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from thetascope.errors import InputError
from thetascope.study import files

OWN = ("labels.csv", "labels.jsonl", "labels.jsonl.gz", "labels.parquet", "explanations")
"""What a dictionary's own labels are called in its folder; the last is Neuronpedia's folder."""
_CONCEPT = ("concept", "index", "feature", "latent")
_LABEL = ("label", "description", "explanation", "name")


class Labels(NamedTuple):
    """Labels read from a file.

    Attributes:
        of: Words for each concept that has some.
        source: neuronpedia or file.
        n_read: Rows read.
        n_empty: Of them, those without a label.
        n_repeated: Of them, those for a concept that already had one; the first counts.
        models: Models that the rows name.
        layers: Places that the rows name.
    """

    of: dict[int, str]
    source: str
    n_read: int
    n_empty: int
    n_repeated: int
    models: tuple[str, ...]
    layers: tuple[str, ...]


class OwnLabels(NamedTuple):
    """Labels that came with a dictionary.

    Attributes:
        place: The file or folder; None where it brings none.
        of: Words for each concept that has some.
        identity: Hash of the file or folder; None where there is none.
        notes: What is unusual about them, in words.
    """

    place: Path | None = None
    of: Mapping[int, str] = {}
    identity: str | None = None
    notes: tuple[str, ...] = ()


def own_labels(folder: Path, n_concepts: int) -> OwnLabels:
    """Returns the labels in a dictionary's own folder, see `OWN`.

    Raises:
        InputError: There are several, or they cannot be read.
    """
    found = [folder / name for name in OWN if (folder / name).exists()]
    if not found:
        return OwnLabels()
    if len(found) > 1:
        raise InputError(
            f"holds labels in {' and in '.join(p.name for p in found)}, expected one of them",
            file=folder,
        )
    place = found[0]
    labels = read_labels(place, n_concepts)
    code = files.hash_folder(place) if place.is_dir() else files.hash_file(place)
    return OwnLabels(place, labels.of, code, (f"labels from {place.name}", *odd_rows(labels)))


def odd_rows(labels: Labels) -> list[str]:
    """What is unusual about labels as they were read, in words.

    Raises:
        InputError: They are of several dictionaries.
    """
    notes: list[str] = []
    if labels.n_repeated:
        notes.append(f"{labels.n_repeated:,} rows are for a concept that has one; the first counts")
    if labels.n_empty:
        notes.append(f"{labels.n_empty:,} rows are without a label")
    if len(labels.models) > 1 or len(labels.layers) > 1:
        raise InputError(
            f"labels of several dictionaries: {', '.join((*labels.models, *labels.layers))}",
            fix="name one SOURCE's folder",
        )
    return notes


def read_labels(place: Path, n_concepts: int) -> Labels:
    """Reads labels.

    Args:
        place: A Neuronpedia folder or file (.jsonl.gz), or a .csv, .jsonl or .parquet table with
            a column for the concept (concept, index, feature or latent) and one for the label
            (label, description, explanation or name).
        n_concepts: Concepts of the dictionary.

    Raises:
        InputError: It is missing, damaged, has no such columns, or names a concept that the
            dictionary does not have.
    """
    if not place.exists():
        raise InputError("no such file or folder", file=place)
    found = sorted(place.rglob("batch-*.jsonl.gz")) if place.is_dir() else [place]
    if not found:
        raise InputError("expected batch-*.jsonl.gz in it, as Neuronpedia exports", file=place)
    of: dict[int, str] = {}
    counts = {"read": 0, "empty": 0, "repeated": 0}
    models: set[str] = set()
    layers: set[str] = set()
    for file in found:
        for number, row in _rows(file):
            counts["read"] += 1
            concept, label = _concept(row, file, number, n_concepts), _text(row, file, number)
            models |= {str(row["modelId"])} if row.get("modelId") else set()
            layers |= {str(row["layer"])} if row.get("layer") else set()
            if not label:
                counts["empty"] += 1
            elif concept in of:
                counts["repeated"] += 1
            else:
                of[concept] = label
    if not of:
        raise InputError("holds no label", file=place)
    source = "neuronpedia" if models else "file"
    return Labels(
        of, source, counts["read"], counts["empty"], counts["repeated"],
        tuple(sorted(models)), tuple(sorted(layers)),
    )  # fmt: skip


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if file.suffix in (".csv", ".parquet"):
        try:
            read = pl.read_csv(file, infer_schema=False) if file.suffix == ".csv" else (
                pl.read_parquet(file)
            )  # fmt: skip
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError(f"cannot be read: {error}", file=file) from None
        yield from enumerate(read.iter_rows(named=True), 1)
        return
    if not file.name.endswith((".jsonl", ".ndjson", ".jsonl.gz")):
        raise InputError("expected .jsonl.gz, .jsonl, .csv or .parquet", file=file)
    number = 0
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise InputError("expected an object", file=file, record=number)
                yield number, row
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"is damaged: {error}", file=file, record=number + 1) from None
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", file=file, record=number) from None


def _concept(row: dict[str, Any], file: Path, number: int, n_concepts: int) -> int:
    name = _present(row, _CONCEPT, file, number)
    try:
        concept = int(str(row[name]))
    except ValueError:
        raise InputError(
            f"expected a concept's number, found {row[name]!r}",
            file=file, record=number, field=name,
        ) from None  # fmt: skip
    if not 0 <= concept < n_concepts:
        raise InputError(
            f"the dictionary has concepts 0 to {n_concepts - 1}, found {concept}",
            file=file, record=number, field=name,
        )  # fmt: skip
    return concept


def _text(row: dict[str, Any], file: Path, number: int) -> str:
    value = row[_present(row, _LABEL, file, number)]
    return "" if value is None else " ".join(str(value).split())


def _present(row: dict[str, Any], names: tuple[str, ...], file: Path, number: int) -> str:
    for name in names:
        if name in row:
            return name
    raise InputError(f"expected one of {', '.join(names)}", file=file, record=number)

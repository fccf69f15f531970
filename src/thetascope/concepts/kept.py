"""Finished activations that are there already: found before a language model is loaded.

What decides activations is known without the model but for one thing: how many tokens of a text
it takes, which its files say. So the manifest keeps that number with the one that was asked for,
and where the files and the question are the same, so is the answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thetascope.concepts import lm_source
from thetascope.concepts.extraction import Asked, extraction_key
from thetascope.concepts.store import DICTIONARY, KIND, read_part
from thetascope.study import files, store

if TYPE_CHECKING:
    from thetascope.concepts.labels import OwnLabels

COUNTS = (
    "n_items", "n_read", "n_texts", "n_without_text", "n_without_tokens", "n_truncated", "n_cut",
    "n_tokens", "n_concepts",
)  # fmt: skip
"""What a manifest counts, and `ExtractResult` with it."""


def find_kept(asked: Asked, reference: Any) -> Path | None:
    """Returns the finished activations that this extraction would make again, or None.

    Args:
        asked: The extraction.
        reference: What decides the maxima, see `Reference.identity`.
    """
    folder, manifest = _named(asked.path, asked.name)
    limit = manifest.get("language_model", {}).get("max_tokens")
    same = manifest.get("max_tokens_asked", -1) == asked.config.max_tokens  # -1: not recorded
    if folder is None or limit is None or not same:
        return None
    fingerprint = lm_source.fingerprint(lm_source.locate(asked.config.model))
    key = extraction_key(
        asked.study, asked.config.identity(fingerprint, limit), asked.dictionary.info, asked.given,
        asked.contexts,
    )  # fmt: skip
    wanted = files.hash_json({**key, "reference": reference})
    return folder if manifest.get("extraction") == wanted and store.intact(folder) else None


def find_finished(path: Path, name: str, key: dict[str, Any], sealed: Any) -> Path | None:
    """Returns finished activations, with whatever labels they were given since, or None.

    Args:
        path: The study's folder.
        name: Their name.
        key: What decides the activations.
        sealed: The key under which they were put into the study: with the labels they came with.
    """
    folder, manifest = _named(path, name)
    wanted = files.hash_json(key)
    if folder and manifest.get("extraction") == wanted and store.intact(folder):
        return folder
    return store.Writer(path).find_derived(KIND, name, sealed)


def counts_of(folder: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    """What finished activations count, and what was unusual when they were made."""
    manifest = files.read_json(folder / "manifest.json")
    try:
        notes = files.read_json(folder / "run.json").get("notes", [])
    except (OSError, ValueError):  # it is outside of what is kept whole
        notes = []
    return {name: int(manifest[name]) for name in COUNTS}, tuple(str(n) for n in notes)


def newer_labels(folder: Path, labels: OwnLabels, study: Path, name: str) -> tuple[str, ...]:
    """A line where the dictionary's labels changed since, and are not those that are held now."""
    if labels.place is None:
        return ()
    if files.read_json(folder / "manifest.json").get("labels") == labels.identity:
        return ()
    held = read_part(folder, DICTIONARY)["label"].to_list()
    if all(held[concept] == label for concept, label in labels.of.items()):
        return ()
    command = f"thetascope concepts label {study} --name {name} --from {labels.place}"
    return (f"the dictionary's labels are new since these were extracted; take them with:"
            f" {command}",)  # fmt: skip


def _named(path: Path, name: str) -> tuple[Path | None, dict[str, Any]]:
    """The folder of that name in the study, and its manifest."""
    place = store.read_index(path).derived.get(KIND, {}).get(name)
    if place is None:
        return None, {}
    try:
        return path / place, files.read_json(path / place / "manifest.json")
    except (OSError, ValueError):
        return None, {}

"""Encodes the texts of a study: only what is new, safe to kill, the same bytes each time.

Vectors are kept by text_hash. Texts that are equal but for white space have one hash and one
vector, that of the first of them in code point order. An earlier vectors folder of the same
encoder and settings gives its rows. The rest is encoded in shards, each a file written
atomically; what a kill or Ctrl-C leaves is used by the next call.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from thetascope.encoders import source
from thetascope.encoders.batches import plan_shards
from thetascope.encoders.config import PRESETS, EncoderConfig, as_config, check_name
from thetascope.encoders.encoder import Encoder, Progress, Tokens
from thetascope.encoders.vectors import (
    clear_aside,
    read_keys,
    read_manifest,
    read_rows,
    write_rows,
)
from thetascope.errors import InputError
from thetascope.study import Study, files, normalise_text, store

SHARD_TOKENS = 1 << 17
"""Tokens in a shard, padding included: some ten seconds on two cores, what a kill costs."""


class EncodeResult(NamedTuple):
    """What `encode_study` did.

    Attributes:
        folder: The stored vectors.
        n_texts: Different texts that have a vector.
        n_new: Texts encoded or finished in this call, the others were there; 0: nothing to do.
        n_truncated: Texts longer than the encoder reads.
        n_without_text: Items that have no text, and no vector by their text_hash either.
        dim: Length of a vector.
        seconds: Time that it took.
    """

    folder: Path
    n_texts: int
    n_new: int
    n_truncated: int
    n_without_text: int
    dim: int
    seconds: float


@dataclass(frozen=True)
class _Reused:
    """Rows of earlier folders: keys (text_hash, n_tokens, truncated), (n, D) vectors."""

    keys: pl.DataFrame
    vectors: NDArray[np.float32]
    resolved: dict[str, Any]


def encode_study(
    path: str | Path,
    config: EncoderConfig | str = "offline",
    *,
    name: str | None = None,
    progress: Progress | None = None,
    wait: float = 10.0,
) -> EncodeResult:
    """Encodes the study's texts and makes the vectors part of the study.

    Args:
        path: The study's folder; it is locked for writing until the end.
        config: The encoder, or its model's name.
        name: Name of the vectors in the study; default the encoder's short name.
        progress: Called with (texts done, texts in all, what is being done).
        wait: Seconds to wait for another writer.

    Raises:
        MissingExtra: The packages for encoding are not installed.
        InputError: No study, no item with a text, or the encoder cannot be loaded.
        LockedError: Another process still writes after `wait` seconds.
    """
    began = time.monotonic()
    config = as_config(config)
    label = check_name(name or config.short_name)
    folder = Path(path)
    store.read_index(folder)  # `writing` would make a folder where there is none
    with store.writing(folder, wait) as writer:
        study = Study.open(folder)
        place = source.locate(config.model)
        encoder = Encoder(config) if isinstance(place, str) else None
        identity = encoder.identity if encoder else config.identity(source.fingerprint(Path(place)))
        job = _Job(folder, label, config, identity, str(place), encoder, progress)
        return job.run(writer, study, began)


@dataclass(frozen=True)
class _Job:
    """One call of `encode_study`; `encoder` is loaded late, only where there is work for it."""

    folder: Path
    label: str
    config: EncoderConfig
    identity: dict[str, Any]
    place: str
    encoder: Encoder | None
    progress: Progress | None

    def run(self, writer: store.Writer, study: Study, began: float) -> EncodeResult:
        texts, bare = _texts(study)
        reused = _reuse(self.folder, self.identity, {*texts, *bare})
        there = set(reused.keys["text_hash"].to_list())
        n_without = _count_without(study, {*texts, *there})
        hashes = sorted({*texts, *there})
        if not hashes:
            raise InputError(
                f"none of the {study.n_items} items has a text",
                file=self.folder,
                fix=f"add them with: thetascope attach-texts {self.folder}",
            )
        todo = [h for h in hashes if h not in there]
        key = {"encoder": self.identity, "texts": files.hash_json(hashes)}
        _drop_damaged(self.folder, self.label)
        stored = writer.find_derived("vectors", self.label, key)
        if stored is None:
            stored = self._make(writer, key, [texts[h] for h in todo], todo, reused)
        else:
            todo = []
        manifest = read_manifest(stored)
        entry = f"vectors/{stored.name}"
        if writer.index.derived.get("vectors", {}).get(self.label) != entry or todo:
            writer.point_to("vectors", self.label, stored)
            writer.commit()
        seconds = time.monotonic() - began
        return EncodeResult(
            stored,
            len(hashes),
            len(todo),
            manifest["n_truncated"],
            n_without,
            manifest["dim"],
            seconds,
        )

    def _make(
        self,
        writer: store.Writer,
        key: dict[str, Any],
        texts: list[str],
        hashes: list[str],
        reused: _Reused,
    ) -> Path:
        """Encodes the texts, joins them with the reused rows and seals the folder."""
        began = time.monotonic()
        keys, vectors, resolved = reused.keys, reused.vectors, reused.resolved
        encoder = self.encoder
        work_key: dict[str, Any] = {**key, "todo": files.hash_json(hashes), "shard": SHARD_TOKENS}
        if texts:
            encoder = encoder or Encoder(self.config)
            work_key["batch"] = encoder.batch_tokens
        work = writer.work_folder("vectors", self.label, work_key)
        clear_aside(work)
        if texts and encoder:
            tokens = encoder.tokenise(texts, self.progress)
            made = encode_shards(encoder, tokens, work / "shards", self.progress)
            keys = pl.concat([keys, _key_table(hashes, tokens)])
            vectors = np.concatenate([vectors.reshape(-1, encoder.dim), made])
            resolved = {
                "pooling": encoder.pooling,
                "max_tokens": encoder.max_tokens,
                "prefix": encoder.prefix,
            }
        order = keys["text_hash"].arg_sort().to_numpy()
        keys = keys[order]
        write_rows(work, "text_hash", keys, vectors[order])
        files.write_json(work / "run.json", _run_facts(self.place, encoder, len(texts), began))
        shutil.rmtree(work / "shards", ignore_errors=True)
        manifest = {
            "key_by": "text_hash",
            "model": self.config.short_name,
            "preset": self.config.model if self.config.model in PRESETS else None,
            "encoder": self.identity,
            "resolved": resolved,
            "n": keys.height,
            "dim": vectors.shape[1],
            "n_truncated": int(keys["truncated"].sum()),
            "inputs": {"texts": key["texts"]},
        }
        return writer.put_derived("vectors", self.label, key, work, manifest)


def encode_shards(
    encoder: Encoder, tokens: Tokens, folder: Path, progress: Progress | None = None
) -> NDArray[np.float32]:
    """Returns the (n, D) vectors, made in shards of fixed composition kept in `folder`.

    A shard that is there from an earlier call with the same tokens is read, not made.
    """
    folder.mkdir(exist_ok=True)
    vectors = np.zeros((len(tokens.ids), encoder.dim), np.float32)
    done = 0
    for number, shard in enumerate(plan_shards(encoder.plan(tokens), SHARD_TOKENS)):
        rows = np.concatenate([batch.rows for batch in shard])
        file = folder / f"{number:06d}.safetensors"
        part = _read_shard(file, (len(rows), encoder.dim))
        if part is None:
            made = np.concatenate([encoder.encode_batch(tokens, batch) for batch in shard])
            files.write_aside(file, lambda aside, made=made: save_file({"vectors": made}, aside))
            part = made
        vectors[rows] = part
        done += len(rows)
        if progress:
            progress(done, len(tokens.ids), "encoding")
    return vectors


def _read_shard(file: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    try:
        part = load_file(file)["vectors"]
    except (OSError, SafetensorError, KeyError):
        return None
    return part if part.shape == shape else None


def _texts(study: Study) -> tuple[dict[str, str], set[str]]:
    """Texts by hash, and the hashes of items whose text the study does not hold."""
    items = study.items
    if "text_hash" not in items.columns:
        return {}, set()
    texts: dict[str, str] = {}
    bare: set[str] = set()
    empty: list[str | None] = [None] * items.height
    raw = items["text"].to_list() if "text" in items.columns else empty
    for code, text in zip(items["text_hash"].to_list(), raw, strict=True):
        if text is None:
            bare.update([code] if code is not None else [])
        elif normalise_text(text):
            texts[code] = min(str(text), texts.get(code, str(text)))
    return texts, bare - set(texts)


def _count_without(study: Study, known: set[str]) -> int:
    if "text_hash" not in study.items.columns:
        return study.n_items
    return sum(code not in known for code in study.items["text_hash"].to_list())


def _reuse(folder: Path, identity: dict[str, Any], wanted: set[str]) -> _Reused:
    """Rows that earlier folders of the same encoder and settings have of the wanted texts."""
    tables: list[pl.DataFrame] = []
    parts: list[NDArray[np.float32]] = []
    resolved: dict[str, Any] = {}
    for earlier in sorted((folder / "vectors").glob("[!.]*/manifest.json")):
        try:
            manifest = read_manifest(earlier.parent)
        except InputError:
            continue  # damaged: its texts are encoded again
        if manifest["key_by"] != "text_hash" or manifest.get("encoder") != identity:
            continue
        if not _intact(earlier.parent):
            continue
        known = read_keys(earlier.parent, "text_hash")
        rows = known["text_hash"].is_in(list(wanted)).arg_true().to_numpy()
        if not rows.size:
            continue
        keys, vectors = read_rows(earlier.parent, "text_hash")
        tables.append(keys[rows])
        parts.append(vectors[rows])
        resolved = manifest["resolved"]
        wanted = wanted - set(tables[-1]["text_hash"].to_list())
    if not tables:
        return _Reused(_key_table([], None), np.zeros((0, 0), np.float32), {})
    return _Reused(pl.concat(tables), np.concatenate(parts), resolved)


def _intact(folder: Path) -> bool:
    """Whether the folder's contents are those that its name promises."""
    return files.hash_folder(folder) == folder.name.rpartition("-")[2]


def _drop_damaged(folder: Path, label: str) -> None:
    """Removes damaged folders of this name: they would stand in the way of the sound one."""
    for stored in (folder / "vectors").glob(f"{label}-*"):
        if stored.name.rpartition("-")[0] == label and not _intact(stored):
            shutil.rmtree(stored)


def _key_table(hashes: list[str], tokens: Tokens | None) -> pl.DataFrame:
    schema = {"text_hash": pl.String, "n_tokens": pl.Int64, "truncated": pl.Boolean}
    if tokens is None:
        return pl.DataFrame(schema=schema)
    columns = [hashes, tokens.n_tokens, tokens.truncated]
    return pl.DataFrame(dict(zip(schema, columns, strict=True)), schema=schema)


def _run_facts(place: str, encoder: Encoder | None, n_new: int, began: float) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "model": place,
        "n_new": n_new,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began, 3),
    }
    if encoder:
        import torch

        threads = torch.get_num_threads()
        facts |= {"device": encoder.device, "torch": torch.__version__, "threads": threads}
    return facts

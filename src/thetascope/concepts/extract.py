"""From a study, a language model and a dictionary to concept activations in the study.

The work is cut into shards that do not depend on who makes them (`reading_plan`): one process
makes them all, or several make those of their own (`shard=(i, n)`), and the last call, without
`shard`, makes what is missing and joins them. A stopped call goes on from the last whole shard
and ends in the same bytes.
"""

from __future__ import annotations

import platform
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from thetascope.concepts.assemble import assemble, write_contexts, write_table
from thetascope.concepts.concept_table import concept_table
from thetascope.concepts.corpus import Corpus
from thetascope.concepts.extract_reference import Reference, dictionary_folder
from thetascope.concepts.extraction import WORDS, Extraction, ask, load_extraction, make_shards
from thetascope.concepts.fit import SelfCheck, check_on_texts
from thetascope.concepts.formats import Overrides
from thetascope.concepts.kept import counts_of, find_finished, find_kept, newer_labels
from thetascope.concepts.labelling import labelled
from thetascope.concepts.labels import OwnLabels, own_labels
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.ray_shards import make_shards_with_ray, require_ray
from thetascope.concepts.reading_plan import NO_TEXT, NO_TOKENS
from thetascope.concepts.shards import check_shard, shard_file
from thetascope.concepts.store import DICTIONARY, ITEMS, KIND
from thetascope.errors import InputError
from thetascope.study import Study, files, store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class ExtractResult:
    """What `extract` did.

    Attributes:
        name: Name of the activations in the study.
        folder: Where they are; the work folder where shards are still missing.
        finished: Whether the activations are part of the study now.
        n_items: Items of the study.
        n_read: Items whose text was read.
        n_texts: Different texts.
        n_without_text: Items without a text, or with an empty one.
        n_without_tokens: Items whose text has no token.
        n_truncated: Items of whose text something was cut off.
        n_cut: Tokens that were.
        n_tokens: Counted tokens of the different texts.
        n_concepts: Concepts of the dictionary.
        n_shards: Shards of the work; 0 where the activations were there already.
        n_made: Of them, those that this call made.
        n_missing: Those that nobody has made yet.
        act_max: What the maxima are of, in words; None where there is no reference.
        check: How the dictionary does on some of the texts; None where nothing was to be made.
        notes: What cannot be told or is unusual about model and dictionary.
        seconds: Time that it took.
        tokens_per_second: Counted tokens read by this call, a second of reading.
    """

    name: str
    folder: Path
    finished: bool
    n_items: int
    n_read: int
    n_texts: int
    n_without_text: int
    n_without_tokens: int
    n_truncated: int
    n_cut: int
    n_tokens: int
    n_concepts: int
    n_shards: int
    n_made: int
    n_missing: int
    act_max: str | None
    check: SelfCheck | None
    notes: tuple[str, ...]
    seconds: float
    tokens_per_second: float


def extract(
    study: Study | str | Path,
    *,
    model: LanguageModelConfig | str = "offline",
    settings: Mapping[str, Any] | None = None,
    hook: str | None = None,
    dictionary: str | Path = "offline",
    name: str | None = None,
    shard: tuple[int, int] | None = None,
    ray: str | None = None,
    reference: Corpus | None = None,
    reference_tokens: int = 1_000_000,
    given: Overrides | None = None,
    any_model: bool = False,
    contexts: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    wait: float = 10.0,
) -> ExtractResult:
    """Extracts the concept activations of a study's items and makes them part of the study.

    a_j(c) = sum over counted tokens / T_j is read back with `store.load_concepts`.

    Args:
        study: The study, or its folder.
        model: The language model, or its name.
        settings: Other fields of `LanguageModelConfig` for a model that is given by name.
        hook: Its place in that case; None is where the dictionary says.
        dictionary: The dictionary, see `read_dictionary`.
        name: Name of the activations in the study; default the dictionary's.
        shard: (i, n): make every n-th shard from the i-th (from 1) only, and join nothing.
        ray: Address of a Ray cluster whose machines make the shards ("auto" for the one that
            this machine belongs to), or "local" for a Ray of its own on this machine.
        reference: Texts over which each concept's maximum is taken where the dictionary brings
            no reference of its own, or in place of it.
        reference_tokens: Tokens of them that are read at most.
        given: What is known better about the dictionary than its files say it.
        any_model: Whether another model's dictionary is meant.
        contexts: Whether the places where each concept is strongest are kept (they quote texts).
        progress: Called with (tokens done, tokens in all, what is being done).
        wait: Seconds to wait for another writer.

    Raises:
        MissingExtra: The packages for language models, or Ray, are not installed.
        InputError: The study, the model, the dictionary, its labels or a setting cannot be used,
            or a shard is damaged.
        LockedError: Another process still writes after `wait` seconds.
    """
    began = time.monotonic()
    if shard is not None and not (1 <= shard[0] <= shard[1]):
        raise InputError(f"expected i/n with i from 1 to n, found {shard[0]}/{shard[1]}",
                         field="shard")  # fmt: skip
    if ray is not None:
        if shard is not None:
            raise InputError("Ray makes all shards, and one call joins them", field="shard")
        require_ray()
    asked = ask(
        study, model=model, settings=settings, hook=hook, dictionary=dictionary, name=name,
        given=given, contexts=contexts,
    )  # fmt: skip
    source = Reference.of(dictionary, reference, reference_tokens)
    labels = own_labels(dictionary_folder(dictionary), asked.dictionary.info.n_latents)
    if kept := find_kept(asked, source.identity):
        return _kept(asked.path, asked.name, kept, labels, source.words, began)
    job, notes = load_extraction(asked, any_model=any_model, progress=progress)
    notes += labels.notes
    key = {**job.key, "reference": source.identity}
    sealed = key if labels.identity is None else {**key, "labels": labels.identity}
    if there := find_finished(job.path, job.name, key, sealed):
        _point(job, there, wait)
        return _kept(job.path, job.name, there, labels, source.words, began)
    work = job.work
    n_shards = len(job.plan.shards)
    i, n = shard or (1, 1)
    mine = range(i - 1, n_shards, n)
    check = check_on_texts(job.model, job.dictionary, job.plan.sample)
    if ray is None:
        made, rate = make_shards(job, mine, progress)
    else:
        made, rate = make_shards_with_ray(
            job, dictionary, address=ray, any_model=any_model,
            gpus=float(job.model.device != "cpu"), progress=progress,
        )  # fmt: skip
    missing = [s for s in range(n_shards) if not shard_file(work / "shards", s).exists()]
    if missing or shard is not None:
        return _result(job, work, False, notes, check, made, source.words, began, rate, missing)
    table = source.table(job, work, progress)
    with store.writing(job.path, wait) as writer:
        final = writer.find_derived(KIND, job.name, sealed)
        if final is None:
            manifest = _write_tables(job, work, table, source, key, labels, progress)
            facts = {**_run_facts(job, check, rate, began), "notes": list(notes)}
            files.write_json(work / "run.json", facts)
            for folder in ("shards", "reference"):
                shutil.rmtree(work / folder, ignore_errors=True)
            final = writer.put_derived(KIND, job.name, sealed, work, manifest)
        writer.point_to(KIND, job.name, final)
        writer.commit()
    return _result(job, final, True, notes, check, made, source.words, began, rate)


def _write_tables(
    job: Extraction,
    work: Path,
    reference: pl.DataFrame | None,
    source: Reference,
    key: dict[str, Any],
    labels: OwnLabels,
    progress: Callable[[int, int, str], None] | None,
) -> dict[str, Any]:
    """Writes all tables; returns the manifest."""
    info, plan = job.dictionary.info, job.plan
    shards = [shard_file(work / "shards", s) for s in range(len(plan.shards))]
    for file in shards:
        check_shard(file)
    counts = assemble(shards, work, plan.items.height, info.n_latents, progress)
    items = plan.items.with_columns(pl.Series("n_concepts", counts.of_item.astype(np.int32)))
    write_table(work / ITEMS, items)
    table = concept_table(
        counts.of_concept, counts.fired, reference=reference,
        n_read=int(plan.items["left_out"].null_count()), n_tokens=int(items["n_tokens"].sum()),
        special=(job.model.tokeniser.prefix.text,),
    )  # fmt: skip
    write_table(work / DICTIONARY, labelled(table, labels.of, "dictionary", {}))
    if job.contexts:
        words = {int(k): v for k, v in files.read_json(work / WORDS).items()}
        write_contexts(shards, work, plan.items["item_id"].to_list(), words)
        (work / WORDS).unlink()
    config = job.model.config
    return {
        "kind": KIND,
        "format": 1,
        "inputs": {"texts": key["texts"]},
        "extraction": files.hash_json(key),
        "language_model": job.model.identity,
        "max_tokens_asked": job.model.config.max_tokens,
        "labels": labels.identity,
        "model": _bare(config.public_name) if Path(config.model).exists() else config.public_name,
        "prefix": job.model.tokeniser.prefix._asdict(),
        "hook": str(job.model.hook),
        "template": config.template,
        "dictionary": {
            **{k: v for k, v in asdict(info).items() if k not in ("hook", "source", "model")},
            "name": job.dictionary_name,
            "model": None if info.model is None else _bare(info.model),
            "norm_factor": job.given.norm_factor,
        },
        "act_max": source.about,
        "contexts": job.contexts,
        **_counts(job),
    }


def _counts(job: Extraction) -> dict[str, int]:
    items = job.plan.items
    why = items["left_out"]
    return {
        "n_items": items.height,
        "n_read": int(why.null_count()),
        "n_texts": job.plan.n_texts,
        "n_without_text": int((why == NO_TEXT).sum()),
        "n_without_tokens": int((why == NO_TOKENS).sum()),
        "n_truncated": int(items["truncated"].sum()),
        "n_cut": int(items["n_cut"].sum()),
        "n_tokens": int(job.plan.n_tokens.sum()),
        "n_concepts": job.dictionary.info.n_latents,
    }


def _result(
    job: Extraction,
    folder: Path,
    finished: bool,
    notes: tuple[str, ...],
    check: SelfCheck | None,
    made: int,
    act_max: str | None,
    began: float,
    rate: float,
    missing: list[int] | tuple[int, ...] = (),
) -> ExtractResult:
    return ExtractResult(
        name=job.name, folder=folder, finished=finished, **_counts(job),
        n_shards=len(job.plan.shards), n_made=made, n_missing=len(missing), act_max=act_max,
        check=check, notes=notes, seconds=time.monotonic() - began, tokens_per_second=rate,
    )  # fmt: skip


def _kept(
    path: Path, name: str, folder: Path, labels: OwnLabels, act_max: str | None, began: float
) -> ExtractResult:
    """Activations that were there already."""
    counts, notes = counts_of(folder)
    notes += newer_labels(folder, labels, path, name)
    return ExtractResult(
        name=name, folder=folder, finished=True, **counts, n_shards=0, n_made=0, n_missing=0,
        act_max=act_max, check=None, notes=notes, seconds=time.monotonic() - began,
        tokens_per_second=0.0,
    )  # fmt: skip


def _point(job: Extraction, folder: Path, wait: float) -> None:
    """Makes the study name a folder that a kill just before the commit left."""
    entry = f"{KIND}/{folder.name}"
    if store.read_index(job.path).derived.get(KIND, {}).get(job.name) == entry:
        return
    with store.writing(job.path, wait) as writer:
        writer.point_to(KIND, job.name, folder)
        writer.commit()


def _bare(name: str) -> str:
    """A name without the path on this machine."""
    return PurePath(name.replace("\\", "/")).name if name.startswith(("/", ".", "~")) else name


def _run_facts(job: Extraction, check: SelfCheck, rate: float, began: float) -> dict[str, Any]:
    import torch

    return {
        "model": job.model.config.model,
        "dictionary": job.dictionary.info.source,
        "self_check": check._asdict(),
        "seconds": round(time.monotonic() - began, 3),
        "tokens_per_second": round(rate, 1),
        "device": job.model.device,
        "host": platform.node(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }

"""Commands about concepts: concepts extract, concepts train."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import Parameter

from thetascope.cli.output import print_json, progress, say
from thetascope.concepts.corpus import read_corpus
from thetascope.concepts.extract import ExtractResult
from thetascope.concepts.extract import extract as extract_study
from thetascope.concepts.formats import Overrides
from thetascope.concepts.lm_config import Device, Dtype, LanguageModelConfig, Template
from thetascope.concepts.train_config import TrainConfig
from thetascope.concepts.train_dictionary import TrainResult, train_dictionary
from thetascope.errors import InputError
from thetascope.readers.side_tables import read_questions
from thetascope.study import Study, store

_MODEL = LanguageModelConfig()
_TRAIN = TrainConfig()


def train(
    texts: Path,
    /,
    *,
    to: Path,
    column: str = "text",
    harvest_tokens: int = 1_000_000,
    work: Path | None = None,
    weights: str = "float16",
    language_model: Annotated[LanguageModelConfig, Parameter(name="*")] = _MODEL,
    training: Annotated[TrainConfig, Parameter(name="*")] = _TRAIN,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Train a dictionary (a sparse autoencoder) on a language model's hidden states.

    Hidden states are kept on disk (2 bytes x width for each token) and the first shard of them
    is held out. A killed run goes on where it stopped. The folder is in SAELens' format. A text
    is cut at 256 tokens unless --max-tokens says otherwise.

    Parameters
    ----------
    texts
        A .txt (paragraphs), .jsonl, .csv or .parquet file.
    to
        Folder of the dictionary; new or empty.
    column
        Column or key that holds the texts.
    harvest_tokens
        Tokens whose hidden states are kept.
    work
        Folder for hidden states and checkpoints; TO-work where not given. Delete it at the end.
    weights
        Type of the weights on disk: float16, bfloat16 or float32.
    json
        Print one JSON object.
    """
    corpus = read_corpus(texts, column)
    with progress() as line:
        made = train_dictionary(
            corpus, to, model=language_model, config=training, harvest_tokens=harvest_tokens,
            work=work, dtype=weights, progress=line,
        )  # fmt: skip
    if json:
        print_json({**asdict(made), "folder": str(made.folder)})
    else:
        say(*_lines(made))
    return 0


def extract(
    study: Path,
    /,
    *,
    model: str = "offline",
    dictionary: str = "offline",
    name: str | None = None,
    texts: Path | None = None,
    shard: str | None = None,
    ray: str | None = None,
    reference: Path | None = None,
    reference_tokens: int = 1_000_000,
    column: str = "text",
    contexts: Annotated[bool, Parameter(negative="")] = False,
    any_model: Annotated[bool, Parameter(negative="")] = False,
    hook: str | None = None,
    dtype: Dtype = "float32",
    device: Device = "auto",
    max_tokens: int | None = None,
    template: Template = "raw",
    prefix: str | None = None,
    count_all: Annotated[bool, Parameter(negative="")] = False,
    batch_tokens: int | None = None,
    norm_factor: float | None = None,
    wait: float = 10.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Extract what a study's items are about: the activations of a dictionary's concepts.

    A language model reads every text up to the hooked block, the dictionary writes each token's
    hidden state as a few concepts, and the study keeps their sum, maximum and count for each
    item. A killed run goes on where it stopped and ends in the same bytes. Several machines
    share the work with --shard 1/4, 2/4, ... on one folder; the same command without --shard
    makes what is missing and joins it all.

    Parameters
    ----------
    study
        The study's folder; its items need texts.
    model
        offline, offline-minilm, a hub name, a local folder, or a .gguf file.
    dictionary
        offline, offline-minilm, a preset, a folder or file, or sae_lens:RELEASE/ID.
    name
        Name of the activations in the study; the dictionary's where not given.
    texts
        Make the study first, of these texts alone (a table with a column text, or .txt): your
        traffic, for gaps --against.
    shard
        i/n: make every n-th shard from the i-th only, and join nothing.
    ray
        Make the shards on a Ray cluster: its address, auto, or local for this machine alone.
        The study's folder must be at the same path on every machine.
    reference
        Texts (.txt, .jsonl, .csv, .parquet) over which each concept's maximum is taken, where
        the dictionary brings none. Without either no concept is ever called missing.
    reference_tokens
        Tokens of them that are read at most (2 bytes x width each on disk, for a while).
    column
        Column or key of the reference that holds the texts.
    contexts
        Keep the ten places where each concept is strongest; they quote the texts.
    any_model
        Take another model's dictionary (a base model's on its chat version, say).
    hook
        Place in the model; the dictionary's own where not given.
    dtype
        float32, bfloat16 or float16.
    device
        auto, cpu, cuda, or spread over all GPUs.
    max_tokens
        Tokens kept of a text; the model's own limit, at most 2,048, where not given.
    template
        raw text, or the model's chat template with the text as the user's turn.
    prefix
        Token in front of each text, never counted; the model's own where not given.
    count_all
        Count prefix and template tokens too: they are most of the activation.
    batch_tokens
        Tokens in a batch, padding included; 4,096 on a CPU and 32,768 on a GPU.
    norm_factor
        What hidden states are multiplied by first, where the dictionary's files do not say.
    wait
        Seconds to wait for another writer.
    json
        Print one JSON object.
    """
    given = Overrides(norm_factor=norm_factor)
    config = {
        "dtype": dtype, "device": device, "max_tokens": max_tokens, "template": template,
        "prefix": prefix, "count_all": count_all, "batch_tokens": batch_tokens,
    }  # fmt: skip
    part = None if shard is None else _part(shard)
    if texts is not None:
        _study_of(texts, study, wait)
    corpus = None if reference is None else read_corpus(reference, column)
    with progress() as line:
        made = extract_study(
            study, model=model, settings=config, hook=hook, dictionary=dictionary, name=name,
            shard=part, ray=ray, reference=corpus, reference_tokens=reference_tokens, given=given,
            any_model=any_model, contexts=contexts, progress=line, wait=wait,
        )  # fmt: skip
    if json:
        check = None if made.check is None else made.check._asdict()
        print_json({**asdict(made), "folder": str(made.folder), "check": check})
    else:
        say(*_extract_lines(made, study))
    return 0


def _study_of(texts: Path, to: Path, wait: float) -> None:
    """Saves a study of items alone; one that was made of the same texts is kept as it is."""
    given = read_questions(texts)
    kinds = [b or texts.stem for b in given.benchmarks]
    ids = [f"{b}:{i}" for i, b in enumerate(kinds, 1)]
    items = pl.DataFrame({"item_id": ids, "benchmark": kinds, "text": given.texts})
    nothing = pl.DataFrame(schema={"item_id": pl.String, "model": pl.String, "score": pl.Float64})
    made = Study.from_tables(nothing, items)
    if not store.is_study(to):
        made.save(to, wait=wait)
    elif not Study.open(to).items.equals(made.items):
        raise InputError("is a study of other items; --texts makes a new one", file=to)


def _part(text: str) -> tuple[int, int]:
    first, slash, last = text.partition("/")
    if not (slash and first.isdecimal() and last.isdecimal()):
        raise InputError(f"expected i/n, like 2/8, found {text!r}", field="shard")
    return int(first), int(last)


def _extract_lines(made: ExtractResult, study: Path) -> list[str]:
    out = [f"note: {note}" for note in made.notes]
    left = f"; left out: {made.n_without_text:,} without a text" if made.n_without_text else ""
    if made.n_without_tokens:
        left += f"{',' if left else '; left out:'} {made.n_without_tokens:,} without a token"
    out.append(
        f"{made.n_read:,} of {made.n_items:,} items, {made.n_texts:,} different texts,"
        f" {made.n_tokens:,} tokens{left}"
    )
    if made.n_truncated:
        out.append(
            f"{made.n_truncated:,} items are cut: {made.n_cut:,} of their tokens are not read"
        )
    if made.check is not None:
        check = made.check
        out.append(
            f"self-check on {check.n_tokens:,} tokens: {100 * check.explained:.1f} % of the"
            f" variance explained ({100 * check.explained_all:.1f} % with {check.n_outliers:,}"
            " outliers),"
            f" {check.l0:.1f} concepts active on a token"
        )
        out += [f"warning: {warning}" for warning in check.warnings]
    if not made.finished:
        made_here = f"{made.n_made:,} of {made.n_shards:,} shards made"
        return [*out, f"{made_here}, {made.n_missing:,} are missing; the same command without"
                " --shard makes those and joins them"]  # fmt: skip
    rate = f" at {made.tokens_per_second:,.0f} tokens/s" if made.n_made else ""
    work = f"{made.n_made:,} of {made.n_shards:,} shards made{rate}"
    return [
        *out,
        f"maxima over {made.act_max}"
        if made.act_max
        else "no reference: no concept can be called missing (--reference FILE makes one)",
        f"{made.n_concepts:,} concepts, {work if made.n_shards else 'there already'}",
        f"{study}: concepts {made.name!r}",
    ]


def _lines(made: TrainResult) -> list[str]:
    empty = f"; {made.n_empty:,} empty texts left out" if made.n_empty else ""
    return [
        f"{made.model}, hook {made.hook}: {made.n_tokens:,} tokens of {made.n_texts:,} texts"
        f"{empty}",
        f"{'trained' if made.new else 'already trained'}: {made.n_latents:,} concepts,"
        f" {made.tokens_seen:,} tokens seen",
        f"held-out tokens ({made.held_out:,}): {100 * made.explained:.1f} % of the variance"
        f" explained ({100 * made.explained_all:.1f} % with {made.n_outliers:,} outliers),"
        f" {made.l0:.1f} concepts active on a token",
        f"dead: {made.dead:,} concepts ({100 * made.dead / made.n_latents:.2f} %) are active on"
        " none of these tokens",
        f"{made.folder}",
    ]

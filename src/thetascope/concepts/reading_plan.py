"""Which texts of a study are read, in which order, and in which shards.

Equal texts are read once. Items are numbered in the order in which their texts are read, the
longest first, so a shard holds a run of item numbers; items without a text come last. The plan
depends on the texts, the model and the size of a batch, never on who makes which shard.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.concepts.tokens import Rows, Tokens
from thetascope.encoders.batches import Batch, plan_shards
from thetascope.errors import InputError
from thetascope.study import Study, normalise_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from thetascope.concepts.language_model import LanguageModel

SHARD_TOKENS = 1 << 14
"""Tokens in a shard, padding included: some twenty seconds of SmolLM2 on two cores, which is
what a kill costs; a shard is never less than a batch."""
NO_TEXT, NO_TOKENS = "no text", "no tokens"
_CHUNK = 512
_SAMPLE = 64


@dataclass(frozen=True)
class ReadingPlan:
    """What is read, in order.

    Attributes:
        n_texts: Different texts.
        sample: Some of them, from all over the study: its first items are one benchmark's.
        tokens: Their tokens. The texts themselves are not kept.
        shards: Batches of texts, in runs.
        items: A row for each item in the order of its number: item_id, text_hash, n_tokens
            (counted tokens that are read, T_j), n_cut (those cut off), truncated, left_out
            (why nothing is read, or null).
        first_item: (n_texts,) number of the first item with each text; the others follow.
        n_items: (n_texts,) items with each text.
        shard_tokens: Tokens in a shard, padding included.
    """

    n_texts: int
    sample: list[str]
    tokens: Tokens
    shards: list[list[Batch]]
    items: pl.DataFrame
    first_item: NDArray[np.int64]
    n_items: NDArray[np.int64]
    shard_tokens: int

    @property
    def n_tokens(self) -> NDArray[np.int64]:
        """(n_texts,) counted tokens of each text that are read."""
        return self.tokens.n_read

    def shard_texts(self, number: int) -> NDArray[np.int64]:
        """The texts of a shard, in the order in which they are read."""
        return np.concatenate([batch.rows for batch in self.shards[number]])


def study_texts(study: Study) -> list[str | None]:
    """The text of each item; None where there is none or it is empty.

    Raises:
        InputError: No item has one.
    """
    found = list(_texts(study))
    if not any(found):
        raise InputError(
            f"none of the {study.n_items} items has a text",
            file=study.path,
            fix=f"add them with: thetascope attach-texts {study.path}",
        )
    return found


def texts_hash(study: Study) -> str:
    """Returns `files.hash_json` of the items and their texts, without all of it in memory."""
    digest = hashlib.sha256()
    for start, column in (("[[", study.items["item_id"]), ("],[", _texts(study))):
        before = start
        for value in column:
            text = before + json.dumps(value, ensure_ascii=False)
            digest.update(text.encode("utf-8", "surrogatepass"))
            before = ","
        if before == start:
            digest.update(start.encode())
    digest.update(b"]]")
    return digest.hexdigest()[:16]


def _texts(study: Study) -> Iterator[str | None]:
    """The text of each item, a chunk of the table at a time."""
    if "text" not in study.items.columns:
        yield from (None for _ in range(study.n_items))
        return
    for start in range(0, study.n_items, _CHUNK):
        for text in study.items["text"][start : start + _CHUNK].to_list():
            yield text if text is not None and normalise_text(text) else None


def make_plan(
    model: LanguageModel,
    study: Study,
    *,
    progress: Callable[[int, int, str], None] | None = None,
) -> ReadingPlan:
    """Returns the plan of reading a study with a model.

    Raises:
        InputError: No item has a text, or none has a token.
    """
    raw = study_texts(study)
    different = list(dict.fromkeys(t for t in raw if t is not None))
    texts, tokens = _tokenise(model, different, progress)
    if not texts:
        raise InputError("none of the texts has a token", file=study.path)
    shards = plan_shards(model.plan(tokens), SHARD_TOKENS)
    number = {text: i for i, text in enumerate(texts)}
    text_of = np.array([-1 if t is None else number.get(t, -1) for t in raw], np.int64)
    order = np.concatenate([batch.rows for shard in shards for batch in shard])
    turn = np.full(len(texts) + 1, len(texts), np.int64)
    turn[order] = np.arange(len(texts))  # the last entry, for items without a text, is greatest
    by_number = np.argsort(turn[text_of], kind="stable")
    n_items = np.bincount(text_of[text_of >= 0], minlength=len(texts))
    first_item = np.empty(len(texts), np.int64)
    first_item[order] = np.cumsum(n_items[order]) - n_items[order]
    items = _items(study, tokens, text_of[by_number], by_number, [raw[i] for i in by_number])
    sample = texts[:: max(1, len(texts) // _SAMPLE)][:_SAMPLE]
    return ReadingPlan(len(texts), sample, tokens, shards, items, first_item, n_items, SHARD_TOKENS)


def _items(
    study: Study,
    tokens: Tokens,
    text_of: NDArray[np.int64],
    by_number: NDArray[np.int64],
    raw: Sequence[str | None],
) -> pl.DataFrame:
    has = text_of >= 0
    read = tokens.n_read
    n_tokens, n_cut = np.zeros((2, len(text_of)), np.int64)
    n_tokens[has], n_cut[has] = read[text_of[has]], tokens.n_cut[text_of[has]]
    why = [
        None if there else NO_TEXT if text is None else NO_TOKENS
        for there, text in zip(has, raw, strict=True)
    ]
    table = study.items[by_number.tolist()]
    hashes = table["text_hash"] if "text_hash" in table.columns else [None] * table.height
    return pl.DataFrame(
        {
            "item_id": table["item_id"],
            "text_hash": pl.Series(hashes, dtype=pl.String),
            "n_tokens": n_tokens.astype(np.int32),
            "n_cut": n_cut.astype(np.int32),
            "truncated": n_cut > 0,
            "left_out": pl.Series(why, dtype=pl.String),
        }
    )


def _tokenise(
    model: LanguageModel,
    texts: list[str],
    progress: Callable[[int, int, str], None] | None,
) -> tuple[list[str], Tokens]:
    """The texts that have tokens, and those."""
    kept: list[str] = []
    parts: list[Tokens] = []
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        while chunk:
            try:
                parts.append(model.tokeniser(chunk))
                break
            except InputError as error:
                if not isinstance(error.record, int):
                    raise
                chunk = [t for i, t in enumerate(chunk, 1) if i != error.record]
        kept += chunk
        if progress:
            progress(min(start + _CHUNK, len(texts)), len(texts), "tokenising")
    none = np.zeros(0, np.int64)
    return kept, Tokens(
        Rows.joined([part.ids for part in parts], np.int32),
        Rows.joined([part.counted for part in parts], bool),
        np.concatenate([none, *(part.n_tokens for part in parts)]),
        np.concatenate([none, *(part.n_cut for part in parts)]),
    )

"""What each concept does on a reference corpus: its maximum, its density, its tokens.

A concept's maximum grows with the tokens looked at, so the corpus and its token count stand
beside it. Single tokens are quoted, never texts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.concepts.dictionary import Dictionary
from thetascope.concepts.harvest import Harvest, load_shard
from thetascope.study import files

TABLE, ABOUT = "reference.parquet", "reference.json"
_TOP_TOKENS = 8
_KEPT_TOKENS = 64

Progress = Callable[[int, int, str], None]


def concept_reference(
    dictionary: Dictionary,
    harvest: Harvest,
    token_texts: Callable[[NDArray[np.int64]], list[str]],
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Returns a row for each concept of what it does on all tokens of a harvest.

    Columns: concept; n_fired, tokens on which it is active; density, their share; act_max and
    act_mean over the tokens on which it is active (0 where none); tokens, its up to 8 tokens
    with the most activation mass, and token_share, the share of its mass on each. Where a
    concept fires on very many different tokens, those with little mass in every shard may be
    left out of the count of the last columns, never of the others.

    Args:
        dictionary: The dictionary.
        harvest: Hidden states of the corpus.
        token_texts: The text of each token id.
        progress: Called after each shard.
    """
    import torch

    n = dictionary.info.n_latents
    most, mass = np.zeros(n, np.float32), np.zeros(n)
    fired = np.zeros(n, np.int64)
    pairs, weights = np.zeros(0, np.int64), np.zeros(0)
    for turn, file in enumerate(harvest.shards):
        shard = load_shard(file)
        device = dictionary.weights.W_enc.device
        keys: list[NDArray[np.int64]] = []
        values: list[NDArray[np.float32]] = []
        start = 0
        for rows in dictionary.encode_chunks(torch.from_numpy(shard.states).to(device)):
            latent, value = rows.indices.cpu().numpy(), rows.values.cpu().numpy()
            np.maximum.at(most, latent, value)
            fired += np.bincount(latent, minlength=n)
            mass += np.bincount(latent, value, minlength=n)
            token = shard.token[start + rows.tokens.cpu().numpy()].astype(np.int64)
            keys.append(latent.astype(np.int64) << 32 | token)
            values.append(value)
            start += len(rows.offsets) - 1
        pairs, weights = _summed([pairs, *keys], [weights, *values])
        pairs, weights = _kept(pairs, weights)
        if progress:
            progress(turn + 1, len(harvest.shards), "looking at what each concept does")
    tokens, shares = _top_tokens(pairs, weights, mass, token_texts)
    return pl.DataFrame(
        {
            "concept": np.arange(n, dtype=np.int32),
            "n_fired": fired,
            "density": (fired / max(1, harvest.total)).astype(np.float32),
            "act_max": most,
            "act_mean": (mass / np.maximum(1, fired)).astype(np.float32),
            "tokens": pl.Series(tokens, dtype=pl.List(pl.String)),
            "token_share": pl.Series(shares, dtype=pl.List(pl.Float32)),
        }
    )


def write_reference(folder: Path, table: pl.DataFrame, about: dict[str, Any]) -> None:
    """Writes the table beside a dictionary, and what corpus it is of."""
    files.write_aside(
        folder / TABLE,
        lambda aside: table.write_parquet(aside, compression="zstd", compression_level=12),
    )
    files.write_json(folder / ABOUT, about)


def _summed(
    keys: list[NDArray[np.int64]], values: list[NDArray[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    unique, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.bincount(inverse, np.concatenate(values), minlength=len(unique))
    return unique, total.astype(np.float64)


def _ranks(pairs: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Each pair's place among its concept's, the heaviest first."""
    order = np.lexsort((pairs, -weights, pairs >> 32))
    concept = (pairs >> 32)[order]
    starts = np.searchsorted(concept, concept)
    ranks = np.empty(len(pairs), np.int64)
    ranks[order] = np.arange(len(pairs)) - starts
    return ranks


def _kept(
    pairs: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Bounds the memory: a concept's heaviest 64 tokens go on to the next shard."""
    kept = _ranks(pairs, weights) < _KEPT_TOKENS
    return pairs[kept], weights[kept]


def _top_tokens(
    pairs: NDArray[np.int64],
    weights: NDArray[np.float64],
    mass: NDArray[np.float64],
    token_texts: Callable[[NDArray[np.int64]], list[str]],
) -> tuple[list[list[str]], list[list[float]]]:
    ranks = _ranks(pairs, weights)
    top = ranks < _TOP_TOKENS
    ids, inverse = np.unique(pairs[top] & 0xFFFFFFFF, return_inverse=True)
    texts = token_texts(ids)
    tokens: list[list[str]] = [[] for _ in mass]
    shares: list[list[float]] = [[] for _ in mass]
    concept, weight = pairs[top] >> 32, weights[top]
    for i in np.lexsort((ranks[top], concept)):
        c = int(concept[i])
        tokens[c].append(texts[int(inverse[i])])
        shares[c].append(round(float(weight[i] / mass[c]), 4))
    return tokens, shares

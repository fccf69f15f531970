"""Batches that do not change a vector.

On a CPU the low bits of a text's vector depend on the length to which it is padded and on
nothing else in its batch: not on the other texts, their number or order, nor on the number of
threads (measured for BERT and ModernBERT layers, 32 to 1,024 wide, float32 and bfloat16; the
tests measure it again). So the padded length is a function of the text's own length. Then a
vector is the same bits whatever else is encoded, before or after, which is what lets next
week's items be added without touching the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Batch(NamedTuple):
    """Texts that are encoded together.

    Attributes:
        rows: (b,) positions of the texts.
        length: Tokens to which each is padded.
    """

    rows: NDArray[np.int64]
    length: int


def padded_lengths(n_tokens: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Returns the length to which each text is padded: at most 1/8 and 8 tokens above its own.

    Up to 256 tokens the next multiple of 8, up to 512 of 16, and so on, never above `limit`.

    Args:
        n_tokens: (n,) tokens of each text, at least 1.
        limit: The most tokens that the encoder takes.
    """
    assert (n_tokens >= 1).all(), n_tokens.min()
    doublings = np.ceil(np.log2(np.maximum(n_tokens, 256) / 256)).astype(np.int64)
    step = 8 * 2**doublings
    return np.minimum(-(-n_tokens // step) * step, limit)


def plan_batches(n_tokens: NDArray[np.int64], batch_tokens: int, limit: int) -> list[Batch]:
    """Returns batches of texts of one padded length, longest first.

    The longest come first so that a budget that does not fit the memory fails at once.

    Args:
        n_tokens: (n,) tokens of each text.
        batch_tokens: The most tokens in a batch, padding included; a longer text stands alone.
        limit: The most tokens that the encoder takes.
    """
    if not n_tokens.size:
        return []
    lengths = padded_lengths(n_tokens, limit)
    order = np.argsort(-lengths, kind="stable")
    starts = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    batches: list[Batch] = []
    for group in np.split(order, starts[1:]):
        length = int(lengths[group[0]])
        size = rows_per_batch(batch_tokens, length)
        batches += [Batch(group[i : i + size], length) for i in range(0, len(group), size)]
    return batches


def rows_per_batch(batch_tokens: int, length: int) -> int:
    """Returns how many texts of this padded length fill a batch."""
    return max(1, batch_tokens // length)


def plan_shards(batches: list[Batch], shard_tokens: int) -> list[list[Batch]]:
    """Returns the batches in runs of about `shard_tokens` tokens: what a kill can cost."""
    shards: list[list[Batch]] = []
    filled = shard_tokens
    for batch in batches:
        if filled >= shard_tokens:
            shards.append([])
            filled = 0
        shards[-1].append(batch)
        filled += batch.length * len(batch.rows)
    return shards

"""From the tokens of a batch to one row for each (text, concept): sum, maximum, count.

Tokens x concepts is never in memory: the dictionary encodes a chunk of tokens at a time, and of
a chunk only the active pairs are kept, already summed over the tokens of a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from thetascope.concepts.dictionary import Dictionary

if TYPE_CHECKING:
    from torch import Tensor

    from thetascope.concepts.language_model import HiddenStates


class Pooled(NamedTuple):
    """Rows of (text, concept), sorted by both.

    Attributes:
        text: (m,) position of the text among all texts, int64.
        concept: (m,) int64.
        sum: (m,) activation summed over the text's counted tokens, float64.
        max: (m,) its maximum over them, float32.
        n_active: (m,) tokens on which it is above 0, int64.
        at: (m,) where the maximum is first reached, in counted tokens from the text's start.
    """

    text: Tensor
    concept: Tensor
    sum: Tensor
    max: Tensor
    n_active: Tensor
    at: Tensor


def pool(dictionary: Dictionary, read: HiddenStates) -> Pooled:
    """Returns what each concept does on each text of a batch.

    Args:
        dictionary: The dictionary, on the device of the hidden states.
        read: (t, d) hidden states of the batch's counted tokens, text by text.
    """
    import torch

    n = dictionary.info.n_latents
    device = dictionary.weights.W_enc.device
    starts = np.flatnonzero(np.diff(read.rows, prepend=-1))
    place = np.arange(len(read.rows)) - np.repeat(
        starts, np.diff(np.append(starts, len(read.rows)))
    )
    rows, places = (torch.from_numpy(a).to(device) for a in (read.rows, place))
    parts: list[_Rows] = []
    done = 0
    for chunk in dictionary.encode_chunks(read.states):
        token = chunk.tokens + done
        done += len(chunk.offsets) - 1
        keys = rows[token] * n + chunk.indices
        ones = torch.ones_like(chunk.values, dtype=torch.float64)
        parts.append(
            _reduced(_Rows(keys, chunk.values.double(), chunk.values, ones, places[token]))
        )
    whole = _reduced(_Rows(*(torch.cat(column) for column in zip(*parts, strict=True))))
    text = torch.div(whole.key, n, rounding_mode="floor")
    return Pooled(text, whole.key - text * n, whole.sum, whole.max, whole.n_active.long(), whole.at)


class _Rows(NamedTuple):
    key: Tensor
    sum: Tensor
    max: Tensor
    n_active: Tensor
    at: Tensor


def _reduced(rows: _Rows) -> _Rows:
    """One row a key. Segments of a sorted array, so that a GPU too sums in a fixed order."""
    import torch

    if not len(rows.key):
        return rows
    keys, order = rows.key.sort(stable=True)
    unique, sizes = torch.unique_consecutive(keys, return_counts=True)
    maxima = rows.max[order]
    total = torch.segment_reduce(rows.sum[order], "sum", lengths=sizes)
    count = torch.segment_reduce(rows.n_active[order], "sum", lengths=sizes)
    most = torch.segment_reduce(maxima, "max", lengths=sizes)
    segment = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    peaks = torch.nonzero(maxima == most[segment]).squeeze(1)
    at = rows.at[order][peaks]
    first = torch.ones_like(peaks, dtype=torch.bool)
    first[1:] = segment[peaks][1:] != segment[peaks][:-1]
    return _Rows(unique, total, most, count, at[first])

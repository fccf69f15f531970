"""The scored attempts of one Inspect log: item, epoch, score and tokens, in a few bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_NONE = -1


class Attempt(NamedTuple):
    """One scored sample.

    Attributes:
        epoch: The epoch, from 1.
        score: In [0, 1].
        n_tokens_in, n_tokens_out: What the answer took; None where the log does not say it.
    """

    epoch: int
    score: float
    n_tokens_in: int | None
    n_tokens_out: int | None


class Attempts:
    """Attempts as they come; of two for one (item, epoch) the later counts."""

    def __init__(self) -> None:
        self._item, self._score = array("i"), array("d")
        self._epoch: list[int] = []  # any number; small ones are shared objects
        self._tokens = array("q"), array("q")
        self._seen: dict[int, set[int]] = {}
        self._again = False

    def add(self, item: int, epoch: int, score: float, n_in: int | None, n_out: int | None) -> bool:
        """Adds an attempt; False where there was one for this item and epoch."""
        self._item.append(item)
        self._epoch.append(epoch)
        self._score.append(score)
        for column, n in zip(self._tokens, (n_in, n_out), strict=True):
            column.append(_NONE if n is None else n)
        seen = self._seen.setdefault(epoch, set())
        new = item not in seen
        seen.add(item)
        self._again = self._again or not new
        return new

    def most_epochs(self) -> int:
        """The most epochs that an item has; 1 where there are no attempts."""
        if len(self._seen) < 2:
            return 1
        counts: dict[int, int] = {}
        for items in self._seen.values():
            for item in items:
                counts[item] = counts.get(item, 0) + 1
        return max(counts.values())

    def by_item(self) -> Iterator[tuple[int, list[Attempt]]]:
        """Yields items in the order in which they came, with their attempts by epoch."""
        if not self._item:
            return
        items = np.frombuffer(self._item, np.int32)
        _, first, place = np.unique(items, return_index=True, return_inverse=True)
        turn = first[place]  # where each row's item came first
        ranks = {epoch: rank for rank, epoch in enumerate(sorted(self._seen))}
        epochs = np.fromiter((ranks[e] for e in self._epoch), np.int64, len(self._epoch))
        rows = np.lexsort((np.arange(len(items)), epochs, turn))
        starts = np.flatnonzero(np.diff(turn[rows], prepend=-1))
        for start, end in zip(starts, np.append(starts[1:], len(rows)), strict=True):
            part = rows[start:end].tolist()
            kept = {self._epoch[row]: row for row in part} if self._again else None
            yield (
                int(items[part[0]]),
                [self._attempt(row) for row in (part if kept is None else kept.values())],
            )

    def _attempt(self, row: int) -> Attempt:
        n_in, n_out = (None if c[row] == _NONE else c[row] for c in self._tokens)
        return Attempt(self._epoch[row], self._score[row], n_in, n_out)

"""Names for clusters of items: the terms that set a cluster's texts apart.

Class-based TF-IDF (Grootendorst 2022, BERTopic): the texts of a cluster are one document,

    c-TF-IDF(t, c) = tf(t, c) / |c| * log(1 + A / f(t))

tf(t, c): in how many of the cluster's texts term t occurs (not how often, so that one long text
names no cluster); |c|: their sum over terms; f(t): the term's sum over clusters; A: the mean of
|c| over clusters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

N_TERMS = 4
_AUXILIARIES = frozenset({"did", "does", "doing", "don", "doesn", "didn", "isn"})
_WORD = re.compile(r"[^\W\d_]{3,}")
_STOP = ENGLISH_STOP_WORDS | _AUXILIARIES
_FEWEST = 3
"""Texts of a cluster that a term must occur in (two where the cluster has under ten)."""


def terms_of(text: str) -> set[str]:
    """The words of a text in lower case, three letters and more, without English stop words."""
    return {w for w in _WORD.findall(text.lower()) if w not in _STOP}


def names(
    texts: Sequence[str | None], clusters: NDArray[np.int64], n: int = N_TERMS,
    share: float = 0.0, terms: Callable[[str], set[str]] = terms_of,
) -> list[str]:  # fmt: skip
    """Names the clusters 0..K-1 by their n strongest terms; '' where no text says anything.

    A term that is another chosen term's plural is passed over.

    Args:
        texts: N texts, None where an item has none.
        clusters: (N,) codes.
        n: Terms in a name.
        share: Least share of a cluster's texts that a term must occur in.
        terms: What a text's terms are.
    """
    width = int(clusters.max()) + 1 if len(clusters) else 0
    counts: list[Counter[str]] = [Counter() for _ in range(width)]
    sizes = np.zeros(width, np.int64)
    for text, cluster in zip(texts, clusters.tolist(), strict=True):
        if text is not None:
            counts[cluster].update(terms(text))
            sizes[cluster] += 1
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    mean = sum(total.values()) / max(width, 1)
    return [_name(count, total, mean, int(size), n, share)
            for count, size in zip(counts, sizes, strict=True)]  # fmt: skip


def _name(
    count: Counter[str], total: Counter[str], mean: float, size: int, n: int, share: float
) -> str:
    least = max(_FEWEST if size >= 10 else 2, share * size)
    whole = sum(count.values())
    score = {
        term: tf / whole * float(np.log1p(mean / total[term]))
        for term, tf in count.items()
        if tf >= least
    }
    chosen: list[str] = []
    for term in sorted(score, key=lambda t: (-score[t], t)):
        if any(term in (c + "s", c + "es") or c in (term + "s", term + "es") for c in chosen):
            continue
        chosen.append(term)
        if len(chosen) == n:
            break
    return ", ".join(chosen)

"""Concepts in named groups, every concept in one.

Concepts that say nothing of a theme are put in groups of their own, named by why: dead, format,
near-universal, no label, on too few items. The others are clustered by k-means on unit vectors,
k = round(sqrt(n / 2)) and 40 at most unless it is chosen, and named by c-TF-IDF over the words
of their labels (`space.naming`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from thetascope.errors import InputError
from thetascope.gaps.data import Array
from thetascope.gaps.label_vectors import NUMBER, Vectors
from thetascope.space.naming import names

MOST = 40
SHARE = 0.03
"""Least share of a group's labels that a term of its name occurs in."""
SHOWN = 6
N_INIT: Any = 3
FLAGS = ("dead", "format", "near-universal")
"""Flags whose concepts are put apart, the first that a concept has."""


@dataclass(frozen=True)
class Group:
    """One group.

    Attributes:
        name: Its name, unlike any other's.
        kind: theme, or apart: put apart by a flag or for want of anything to go by.
        named_by: terms, flag, or the model that named it.
        about: A description, where a model gave one.
    """

    name: str
    kind: str
    named_by: str
    about: str = ""


@dataclass(frozen=True)
class Grouping:
    """C concepts in G groups.

    Attributes:
        of: (C,) each concept's group.
        how: (C,) why it is there: cluster, flag, model, or nearest (a model's answer was missing
            or invalid).
        groups: G groups.
        figures: How they were made: k, vectors, stability, what a model's answers were like.
    """

    of: NDArray[np.int32]
    how: tuple[str, ...]
    groups: tuple[Group, ...]
    figures: dict[str, Any]

    @property
    def members(self) -> list[list[int]]:
        """Concepts of every group, ascending."""
        order = np.argsort(self.of, kind="stable")
        ends = np.searchsorted(self.of[order], np.arange(1, len(self.groups)))
        return [part.tolist() for part in np.split(order, ends)]

    @property
    def names(self) -> list[str]:
        return [g.name for g in self.groups]

    def to_json(self, labels: Sequence[str], typical: Array) -> dict[str, Any]:
        """Its figures, each group with its size and its most typical concepts."""
        rows = []
        for g, held in enumerate(self.members):
            first = sorted(held, key=lambda c: (-typical[c], c))[:SHOWN]
            rows.append({"group": g, **asdict(self.groups[g]), "size": len(held),
                         "labels": [labels[c] for c in first], "concepts": first})  # fmt: skip
        return {**self.figures, "groups": rows}


def apart(flags: Sequence[Sequence[str]], words: Sequence[str | None]) -> list[str | None]:
    """(C,) why a concept is put apart before anything is clustered; None where it is not."""
    return [
        next((f for f in FLAGS if f in held), None if word is not None else "no label")
        for held, word in zip(flags, words, strict=True)
    ]


def chosen_k(n: int, k: int | None) -> int:
    """The number of clusters of n concepts: the one that is asked for, or the rule's.

    Raises:
        InputError: Fewer than 2, or more than there are concepts.
    """
    if k is None:
        return max(1, min(MOST, round((n / 2) ** 0.5)))
    if not 2 <= k <= max(n, 1):
        raise InputError(f"expected 2 to {n:,} groups, found {k}", field="k")
    return k


def cluster(
    vectors: Vectors, words: Sequence[str | None], why: Sequence[str | None],
    k: int | None = None, seed: int = 0,
) -> Grouping:  # fmt: skip
    """Groups without a language model.

    Args:
        vectors: Of the concepts.
        words: Their labels as words.
        why: As `apart` gives it.
        k: Number of clusters; by the rule where None.
        seed: Of k-means.

    Raises:
        InputError: No concept can be placed, or k does not fit.
    """
    reasons = list(why)
    lost = "on too few items" if vectors.of is None else "no words in its label"
    for c, known in enumerate(vectors.known.tolist()):
        if reasons[c] is None and not known:
            reasons[c] = lost
    placed = np.array([c for c, r in enumerate(reasons) if r is None], np.int64)
    if not len(placed):
        raise InputError("every concept is flagged or has nothing to go by: none can be grouped")
    k = chosen_k(len(placed), k)
    x = vectors.rows[placed]
    codes = _kmeans(x, k, seed)
    stable = None
    if k > 1:
        stable = float(adjusted_rand_score(codes, _kmeans(x, k, seed + 1)))
    found = theme_names([words[c] or "" for c in placed.tolist()], codes)
    themes = [Group(n, "theme", "terms") for n in found]
    figures = {"by": vectors.kind, "k": k, "stability": stable, "n_placed": len(placed)}
    return with_apart(themes, placed, codes, ["cluster"] * len(placed), reasons, figures)


def theme_names(words: Sequence[str], codes: NDArray[np.int64]) -> list[str]:
    """A name for each cluster, unlike any other's.

    Of words that say something; "numbers" where at least half of its labels are mostly digits
    (three in ten where no word says anything); else of any words, "of, the, in" say.
    """
    texts = [" ".join(w for w in t.split() if w != NUMBER) for t in words]
    first = names(texts, codes, share=SHARE)
    second = names(texts, codes, share=SHARE, terms=_any_words)
    digits = np.array([2 * t.split().count(NUMBER) >= len(t.split()) for t in words])
    out = []
    for g, (name, other) in enumerate(zip(first, second, strict=True)):
        digital = digits[codes == g].mean()
        if digital >= 0.5 or (not name and digital >= 0.3):
            name = "numbers"
        out.append(name or other or "nothing in common")
    return unique(out)


def _any_words(text: str) -> set[str]:
    return {w for w in text.lower().split() if any(c.isalpha() for c in w)}


def with_apart(
    themes: Sequence[Group], placed: NDArray[np.int64], codes: NDArray[np.int64],
    how: Sequence[str], reasons: Sequence[str | None], figures: dict[str, Any],
) -> Grouping:  # fmt: skip
    """Puts the themes that hold a concept first, the groups that are put apart last.

    Args:
        themes: T themes.
        placed: (P,) concepts in themes.
        codes: (P,) their themes.
        how: (P,) why each is there.
        reasons: (C,) why the others are put apart.
        figures: Passed on.
    """
    used = np.unique(codes)
    size = np.bincount(codes, minlength=len(themes))
    order = sorted(used.tolist(), key=lambda t: (-size[t], t))
    place = {t: g for g, t in enumerate(order)}
    groups = [themes[t] for t in order]
    of = np.full(len(reasons), -1, np.int32)
    why = ["flag"] * len(reasons)
    for c, t, h in zip(placed.tolist(), codes.tolist(), how, strict=True):
        of[c], why[c] = place[t], h
    for reason in [*FLAGS, "no label", "no words in its label", "on too few items"]:
        held = [c for c, r in enumerate(reasons) if r == reason and of[c] < 0]
        if held:
            of[held] = len(groups)
            name = unique([*(g.name for g in groups), f"({reason})"])[-1]
            groups.append(Group(name, "apart", "flag"))
    assert (of >= 0).all()
    return Grouping(of, tuple(why), tuple(groups), figures)


def unique(found: Any) -> list[str]:
    """The names, those that were there before with a number."""
    out: list[str] = []
    taken: set[str] = set()
    for name in found:
        new, turn = name, 2
        while new.casefold() in taken:
            new, turn = f"{name} ({turn})", turn + 1
        taken.add(new.casefold())
        out.append(new)
    return out


def nearest(rows: Array, centres: Array) -> NDArray[np.int64]:
    """(n,) the centre with the greatest product with each row; -1 for a row of zeros."""
    best = np.argmax(rows @ centres.T, axis=1)
    return np.where(np.linalg.norm(rows, axis=1) > 0.5, best, -1)


def _kmeans(x: Array, k: int, seed: int) -> NDArray[np.int64]:
    return np.asarray(KMeans(k, n_init=N_INIT, random_state=seed).fit_predict(x), np.int64)

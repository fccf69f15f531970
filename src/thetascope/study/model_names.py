"""Names that may be of one model: what differs in them is only how harnesses write names.

`meta-llama/Llama-3.1-8B-Instruct` and `llama-3.1-8b-instruct` are likely one model. A size, a
version, a date, a revision, a quantisation, a setting, base against instruct: each makes
another model, and no pair that differs in one is ever proposed. Nothing here renames anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import polars as pl

_DATE = re.compile(r"(?<!\d)(20\d\d)[-_.](\d\d)[-_.](\d\d)(?!\d)")
_TOKEN = re.compile(r"\d+(?:\.\d+)*[^\W\d_]+|\d+|[^\W\d_]+|[^\w\s.-]")
"""A number with its unit ('1.5b' is one, 1.5 in '1.5-pro' are two), a word, or an odd mark."""

_ABBREVIATED = {"ins": "instruct", "inst": "instruct", "it": "instruct"}
"""How some harnesses shorten a word."""

Confidence = Literal["sure", "likely"]


@dataclass(frozen=True)
class Rename:
    """A proposal: two names of what is probably one model.

    Attributes:
        model: The name to give up.
        canonical: The name to keep: of the two the one that stands first.
        confidence: 'sure' where only the organisation, the case or the separators differ;
            'likely' where a word is shortened, left out or stands elsewhere.
        reason: What differs.
    """

    model: str
    canonical: str
    confidence: Confidence
    reason: str

    def line(self) -> str:
        """The proposal for a person."""
        return f"{self.model} -> {self.canonical} ({self.confidence}: {self.reason})"

    def to_json(self) -> dict[str, str]:
        """The proposal as a plain object."""
        return asdict(self)


@dataclass(frozen=True)
class _Name:
    """A name in parts: what stands before the last '/', and the tokens of the rest."""

    name: str
    path: str
    tokens: tuple[str, ...]

    @property
    def organisation(self) -> str:
        """Who published the model: `meta-llama` of `hf/meta-llama/...`; '' where it is not said."""
        return self.path.rpartition("/")[2]

    @property
    def words(self) -> tuple[str, ...]:
        """The tokens with shortened words written out, without marks that change no model."""
        long = [_ABBREVIATED.get(t, t) for t in self.tokens]
        if long[:2] == ["meta", "llama"]:
            long = long[1:]
        if len(long) > 1 and long[-1] == "hf":  # the same weights, converted
            long = long[:-1]
        return tuple(long)

    @property
    def key(self) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
        """Equal for names of one model: the first word, words in any order, numbers in theirs."""
        words = self.words
        named = tuple(sorted(w for w in words if not w.isdigit()))
        return words[0], named, tuple(w for w in words if w.isdigit())


def propose_renames(names: Sequence[str], new: Collection[str] | None = None) -> list[Rename]:
    """Proposes which names are of one model.

    Args:
        names: Names of models, those to keep first.
        new: If given, only pairs with a name in it are proposed.

    Returns:
        Proposals in the order of `names`; no name is given up twice, none given up is kept.
        A name without an organisation that would fit models of several has none.
    """
    groups: dict[object, list[_Name]] = {}
    for name in dict.fromkeys(names):
        parts = _parts(name)
        if parts.tokens:
            groups.setdefault(parts.key, []).append(parts)
    found = [pair for group in groups.values() for pair in _pairs(group)]
    order = {name: i for i, name in enumerate(names)}
    return [
        Rename(other.name, kept.name, *_difference(kept, other))
        for kept, other in sorted(found, key=lambda pair: order[pair[1].name])
        if new is None or kept.name in new or other.name in new
    ]


def renames_table(renames: Sequence[Rename]) -> pl.DataFrame:
    """The proposals as a table, which is a crosswalk: model, canonical, confidence, reason."""
    columns = ("model", "canonical", "confidence", "reason")
    return pl.DataFrame([r.to_json() for r in renames], dict.fromkeys(columns, pl.String))


def _pairs(group: list[_Name]) -> list[tuple[_Name, _Name]]:
    """(kept, given up) of names with one key; two organisations never meet."""
    organisations = {n.organisation for n in group if n.organisation}
    if len(organisations) > 1:
        parts = [[n for n in group if n.organisation == o] for o in sorted(organisations)]
    else:
        parts = [group]
    return [(part[0], other) for part in parts for other in part[1:]]


def _parts(name: str) -> _Name:
    path, _, last = name.strip().rpartition("/")
    last = _DATE.sub(r"\1\2\3", last.casefold())
    return _Name(name, path.casefold(), tuple(_TOKEN.findall(last)))


def _difference(kept: _Name, other: _Name) -> tuple[Confidence, str]:
    reasons: list[str] = []
    sure = kept.tokens == other.tokens
    if kept.organisation != other.organisation:
        reasons.append("the organisation stands in one of them")
    elif kept.path != other.path:
        reasons.append("what stands before the organisation differs")
        sure = False
    if kept.tokens != other.tokens:
        ours, theirs = set(kept.tokens), set(other.tokens)
        if ours != theirs:
            apart = sorted(theirs - ours), sorted(ours - theirs)
            reasons.append(" against ".join(" ".join(words) or "nothing" for words in apart))
        if kept.words != other.words:
            reasons.append("the order of words differs")
    elif kept.name.rpartition("/")[2] != other.name.rpartition("/")[2] or not reasons:
        reasons.append("case or separators differ")
    return ("sure" if sure else "likely"), "; ".join(reasons)

"""Groups by a language model: themes are proposed, then each concept is put into one.

Sent are concept numbers and labels, never a text of an item, a score or a model's name. Concepts
that are flagged are not sent. Where an answer is missing or invalid a concept goes to the theme
whose concepts its vector is nearest to, and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from thetascope.errors import one_line
from thetascope.gaps import prompts
from thetascope.gaps.asking import Inquiry, ask_all, batches, question_of
from thetascope.gaps.grouping import Group, Grouping, nearest, unique, with_apart
from thetascope.gaps.label_vectors import Vectors
from thetascope.llm import Endpoint, InvalidAnswer, ask_json
from thetascope.llm.structured import list_schema, rows_of

OTHER = "other"
SAMPLE, SHEET = 1200, 150
"""Labels that themes are proposed from, in all and in one question."""
_NAME, _ABOUT = 60, 200
_THEME_TOKENS = 48
_THEMES = list_schema("themes", name="string", about="string")


class Theme(NamedTuple):
    """A name and a sentence."""

    name: str
    about: str


@dataclass(frozen=True)
class Written:
    """What a model said.

    Attributes:
        model: Its name.
        themes: T themes, none where it gave no usable ones.
        of: Theme of each concept, 1 to T, 0 for none of them; concepts without an answer are
            left out.
        counts: What its answers were like.
    """

    model: str
    themes: tuple[Theme, ...]
    of: dict[int, int]
    counts: dict[str, int]


def sheets(
    ids: Sequence[int], labels: Mapping[int, str], tokens: frozenset[int]
) -> list[list[int]]:
    """The concepts whose labels themes are proposed from; no label that reads as an order."""
    many, _ = batches(ids, labels, tokens)
    flat = [c for batch in many for c in batch][:SAMPLE]
    return [flat[i : i + SHEET] for i in range(0, len(flat), SHEET)]


def propose_question(sheet: Sequence[int], labels: Mapping[int, str], k: int) -> str:
    """Asks for themes."""
    shown = prompts.lines(sheet, [labels[c] for c in sheet])
    return prompts.PROPOSE.format(data=prompts.DATA, lines=shown, k=k)


def planned(
    ids: Sequence[int], labels: Mapping[int, str], k: int, tokens: frozenset[int]
) -> list[str]:
    """All questions, with themes of the usual length in place of those that are to come."""
    first = [propose_question(s, labels, k) for s in sheets(ids, labels, tokens)]
    guess = tuple(Theme("x" * 25, "x" * 100) for _ in range(k))
    merge = [_merge_question(guess * len(first), k)] if len(first) > 1 else []
    inquiry = assignment(guess)
    many, alone = batches(ids, labels, tokens)
    rest = [question_of(inquiry, b, labels)[0] for b in [*many, *([c] for c in alone)]]
    return [*first, *merge, *rest]


def write_groups(
    endpoint: Endpoint, ids: Sequence[int], labels: Mapping[int, str], k: int, *,
    tokens: frozenset[int], progress: Callable[[int, int, str], None] | None = None,
) -> Written:  # fmt: skip
    """Asks for themes, then for each concept's.

    Args:
        endpoint: Who is asked.
        ids: Concepts.
        labels: By concept.
        k: Most themes.
        tokens: Ids whose labels are bare tokens.
        progress: Called with (done, total, what).

    Raises:
        InputError: The endpoint cannot be used; answers so far are kept on disk.
    """
    themes, invalid = _themes(endpoint, ids, labels, k, tokens, progress)
    if not themes:
        return Written(endpoint.model, (), {}, {"invalid_proposals": invalid})
    inquiry = assignment(themes)
    of = ask_all(
        endpoint, inquiry, ids, labels, tokens=tokens, progress=progress, what="asking for groups"
    )
    return Written(
        endpoint.model, themes, of, {"invalid_proposals": invalid, **asdict(inquiry.counts)}
    )


def assignment(themes: Sequence[Theme]) -> Inquiry:
    """The question to which theme each label belongs; themes' own names are the controls."""
    listed = "\n".join(f"{i}. {t.name}: {t.about}" for i, t in enumerate(themes, 1))

    def value(row: Mapping[str, Any]) -> int:
        theme = row.get("theme")
        if isinstance(theme, str) and theme.strip().isdecimal() and len(theme) < 6:
            theme = int(theme)
        if isinstance(theme, bool) or not isinstance(theme, int) or not 0 <= theme <= len(themes):
            raise ValueError("no such theme")
        return theme

    return Inquiry(
        lambda lines: prompts.ASSIGN.format(themes=listed, data=prompts.DATA, lines=lines),
        "assignments", list_schema("assignments", id="integer", theme="integer"), value,
        controls=tuple((t.name, frozenset([i])) for i, t in enumerate(themes, 1)),
    )  # fmt: skip


def grouped_by(
    written: Written, ids: Sequence[int], reasons: Sequence[str | None], vectors: Vectors
) -> Grouping:
    """The groups that a model's answers make; unanswered concepts go to the nearest.

    Args:
        written: The answers, with at least one theme.
        ids: Concepts that were asked about.
        reasons: (C,) why the others are put apart.
        vectors: Of the concepts.
    """
    t = len(written.themes)
    themes = [Group(x.name, "theme", written.model, x.about) for x in written.themes]
    themes.append(Group(unique([*(x.name for x in themes), OTHER])[-1], "theme", written.model))
    placed = np.array(list(ids), np.int64)
    codes = np.array([written.of.get(c, -1) - 1 for c in placed.tolist()], np.int64)
    codes[codes == -1] = t  # answered 0: none of the themes
    lost = codes == -2
    sure = (codes >= 0) & (codes < t)
    centres = np.zeros((t, vectors.rows.shape[1]))
    np.add.at(centres, codes[sure], vectors.rows[placed[sure]])
    if vectors.of is not None:
        centres += vectors.of([f"{x.name} {x.about}" for x in written.themes])
    length = np.linalg.norm(centres, axis=1, keepdims=True)
    centres = np.divide(centres, length, out=np.zeros_like(centres), where=length > 0)
    near = nearest(vectors.rows[placed[lost]], centres)
    codes[lost] = np.where(near < 0, t, near)
    how = ["nearest" if missing else "model" for missing in lost.tolist()]
    figures = {
        "by": "llm", "model": written.model, "k": t, "stability": None, "n_placed": len(placed),
        "n_nearest": int(lost.sum()), "answers": written.counts,
        "unused_themes": [x.name for i, x in enumerate(written.themes) if not (codes == i).any()],
    }  # fmt: skip
    return with_apart(themes, placed, codes, how, reasons, figures)


def _themes(
    endpoint: Endpoint, ids: Sequence[int], labels: Mapping[int, str], k: int,
    tokens: frozenset[int], progress: Callable[[int, int, str], None] | None,
) -> tuple[tuple[Theme, ...], int]:  # fmt: skip
    """The themes, and how many questions had no usable answer."""
    found: list[Theme] = []
    invalid = 0
    asked = sheets(ids, labels, tokens)
    for turn, sheet in enumerate(asked, 1):
        try:
            found += _ask_themes(endpoint, propose_question(sheet, labels, k), k)
        except InvalidAnswer:
            invalid += 1
        if progress is not None:
            progress(turn, len(asked), "asking for themes")
    if len(asked) > 1 and len(found) > k:
        try:
            return tuple(_ask_themes(endpoint, _merge_question(found, k), k)), invalid
        except InvalidAnswer:
            invalid += 1
    often = Counter(t.name.casefold() for t in found)
    first = {t.name.casefold(): t for t in reversed(found)}
    names = sorted(first, key=lambda n: (-often[n], list(often).index(n)))
    return tuple(first[n] for n in names[:k]), invalid


def _ask_themes(endpoint: Endpoint, question: str, k: int) -> list[Theme]:
    def check(value: Any) -> list[Theme]:
        out: dict[str, Theme] = {}
        for row in rows_of(value, "themes"):
            name, about = row.get("name"), row.get("about", "")
            if not isinstance(name, str) or not name.strip() or not isinstance(about, str):
                raise ValueError("a theme has a name and a description in words")
            clean = one_line(name)[:_NAME].strip()
            if clean.casefold() != OTHER:
                out.setdefault(clean.casefold(), Theme(clean, one_line(about)[:_ABOUT]))
        if not 1 <= len(out) <= k:
            raise ValueError(f"expected 1 to {k} themes, found {len(out)}")
        return list(out.values())

    return ask_json(endpoint, question, check, schema=_THEMES, answer_tokens=64 + _THEME_TOKENS * k)


def _merge_question(found: Sequence[Theme], k: int) -> str:
    listed = "\n".join(f"- {t.name}: {t.about}" for t in found)
    return prompts.MERGE.format(k=k, lines=listed)

"""A short written interpretation of kept gaps, every sentence with the findings it rests on.

Without a language model it is the findings themselves (`facts`). With one, it is what the model
writes from them and from nothing else: citations that are no finding are struck out, sentences
that are left without one are too, and a figure that stands in none of the findings that its
sentence cites makes the whole text unusable: the findings are shown instead, and why.

    gaps/interpretation-<concepts>-<hash>/interpretation.json
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from thetascope.errors import InputError, one_line
from thetascope.gaps import prompts
from thetascope.gaps.facts import Fact, facts, known_names
from thetascope.gaps.grouped import grouped
from thetascope.gaps.grouping_saved import SavedGroups, load_groups
from thetascope.gaps.saved import GAPS, GapSettings, load_gaps, study_gap_data
from thetascope.llm import Endpoint, InvalidAnswer, Plan, Prices, ask_json, consent, plan_of
from thetascope.llm.structured import rows_of
from thetascope.study import Study, files, store
from thetascope.study.derived import Made, find, keep, path_of

VERSION = 2
SENT = "figures of gaps, labels and models' names among them, no item's text or id"
_TOKENS, _MOST, _LETTERS = 1200, 12, 600
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*(?:e[-+]?\d+)?", re.IGNORECASE)
_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "hundred": 100, "thousand": 1000, "half": 0.5, "twice": 2, "double": 2, "triple": 3,
    "dozen": 12, "third": 1 / 3, "quarter": 0.25, "million": 1e6,
}  # fmt: skip
"""Figures in words that are looked for as well."""
SCHEMA: dict[str, Any] = {
    "type": "object", "required": ["sentences"], "additionalProperties": False,
    "properties": {"sentences": {"type": "array", "items": {
        "type": "object", "required": ["text", "evidence"], "additionalProperties": False,
        "properties": {"text": {"type": "string"},
                       "evidence": {"type": "array", "items": {"type": "string"}}},
    }}},
}  # fmt: skip


@dataclass(frozen=True)
class Interpretation:
    """Sentences and what was done to them.

    Attributes:
        sentences: (text, ids of the findings it rests on).
        by: findings, or the model that wrote.
        struck: Citations that are no finding.
        dropped: Sentences that were left without one.
        why: Why a model's text was not used; None where it was, or none was asked for.
    """

    sentences: tuple[tuple[str, tuple[str, ...]], ...]
    by: str
    struck: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    why: str | None = None


def plain(listed: Sequence[Fact], why: str | None = None) -> Interpretation:
    """The findings as they are."""
    return Interpretation(tuple((f.text, (f.id,)) for f in listed), "findings", why=why)


def interpret_question(listed: Sequence[Fact]) -> str:
    """What a model is asked."""
    shown = "\n".join(f"{f.id}. {' '.join(f.text.split())}" for f in listed)
    return prompts.INTERPRET.format(facts=shown)


def written(endpoint: Endpoint, listed: Sequence[Fact], names: Sequence[str]) -> Interpretation:
    """What a model makes of the findings, or the findings where that cannot be used.

    Args:
        endpoint: Who is asked.
        listed: The findings.
        names: Names that may hold digits, the longest first.

    Raises:
        InputError: The endpoint cannot be used.
    """
    try:
        rows = ask_json(endpoint, interpret_question(listed), _sentences, schema=SCHEMA,
                        answer_tokens=_TOKENS)  # fmt: skip
    except InvalidAnswer as error:
        return plain(listed, error.problem)
    return checked(rows, listed, names, endpoint.model)


def checked(
    rows: Sequence[tuple[str, Sequence[str]]], listed: Sequence[Fact], names: Sequence[str],
    model: str,
) -> Interpretation:  # fmt: skip
    """Strikes out citations that are no finding, and refuses figures that are in none cited.

    Args:
        rows: Sentences with the ids that they cite.
        listed: The findings.
        names: Names that may hold digits, the longest first.
        model: Who wrote them.
    """
    known = {f.id: f for f in listed}
    kept: list[tuple[str, tuple[str, ...]]] = []
    struck: list[str] = []
    dropped: list[str] = []
    for text, cited in rows:
        right = tuple(dict.fromkeys(c for c in cited if c in known))
        inline = re.findall(r"\bF\d+\b", _without(text, names))
        struck += [c for c in dict.fromkeys([*cited, *inline]) if c not in known]
        for wrong in (c for c in inline if c not in known):
            text = re.sub(rf"[(\[]?\b{wrong}\b[)\]]?,?\s*", "", text).strip()
        if not right or not text:
            dropped.append(text)
            continue
        allowed = {x for c in right for x in figures_in(known[c].text, names)}
        strange = figures_in(text, names, words=True) - allowed
        if strange:
            odd = ", ".join(f"{x:g}" for x in sorted(strange))
            return plain(listed, f"{model} writes figures that are not in the findings that it"
                         f" cites: {odd}")  # fmt: skip
        kept.append((text, right))
    if not kept:
        return plain(listed, f"{model} writes no sentence that rests on a finding")
    return Interpretation(tuple(kept), model, tuple(struck), tuple(dropped))


def figures_in(text: str, names: Sequence[str], *, words: bool = False) -> set[float]:
    """The figures of a text, names and citations left out; those in words too where asked."""
    bare = re.sub(r"\bF\d+\b", " ", _without(text, names))
    found = {float(x.replace(",", "")) for x in _FIGURE.findall(bare) if x.count(".") < 2}
    found |= {float("nan") for x in _FIGURE.findall(bare) if x.count(".") > 1}
    if words:
        said = re.findall(r"[a-z]+", bare.lower())
        found |= {float(_WORDS[w]) for w in said if w in _WORDS}
    return found


def interpret_study(
    path: str | Path, concepts: str | None = None, *, endpoint: Endpoint | None = None,
    yes: bool = False, prices: Prices | None = None,
    announce: Callable[[Plan], None] | None = None, wait: float = 10.0,
) -> Made:  # fmt: skip
    """Writes an interpretation of kept gaps, and of kept groups where there are any.

    Args:
        path: The study's folder, with kept gaps.
        concepts: Name of the concepts that they are on; None where there are gaps on one.
        endpoint: A language model that writes it; the findings themselves where None.
        yes: Whether the user agreed that figures are sent there.
        prices: For the plan.
        announce: Called with what will be sent, before it is.
        wait: Seconds to wait for another writer.

    Raises:
        InputError, StaleError: As `load_gaps` and `Endpoint.ask`; no consent.
    """
    study = Study.open(Path(path))
    if concepts not in (None, *store.read_index(path_of(study)).derived.get(GAPS, {})):
        renew = f"make them with: thetascope gaps {path} --concepts {concepts}"
        raise InputError(f"no gaps on {concepts!r}", file=path, fix=renew)
    found = load_gaps(study, concepts)
    groups = _groups(study, found.name)
    data = study_gap_data(study, found.name, GapSettings(**found.figures["settings"]))
    names = [] if groups is None else [g["name"] for g in groups.figures["groups"]]
    whole = None if groups is None else grouped(data, names, groups.members)
    listed = facts(found, data, groups, whole)
    said = plain(listed)
    if endpoint is not None:
        question = interpret_question(listed)
        plan = plan_of([question], _TOKENS, SENT, prices)
        consent([question], endpoint, yes, plan)
        if announce is not None:
            announce(plan)
        said = written(endpoint, listed, known_names(listed, found, data, names))
    held = {
        **asdict(said), "concepts": found.name, "with_groups": groups is not None,
        "sentences": [{"text": t, "evidence": list(ids)} for t, ids in said.sentences],
        "findings": [asdict(f) for f in listed],
    }  # fmt: skip

    def make(_: Study, folder: Path) -> None:
        files.write_json(folder / "interpretation.json", files.finite(held))

    needs = [f"gaps/{found.name}", f"concepts/{found.name}"]
    needs += [] if groups is None else [f"gaps/groups-{found.name}"]
    settings = {"version": VERSION, "written": files.hash_json(held)}
    return keep(path, GAPS, f"interpretation-{found.name}", make, needs=needs, settings=settings,
                wait=wait)  # fmt: skip


def load_interpretation(study: Study, concepts: str) -> dict[str, Any]:
    """The kept interpretation of gaps on these concepts.

    Raises:
        InputError: There is none.
        StaleError: What it is made from has changed since.
    """
    folder = find(
        study, GAPS, f"interpretation-{concepts}", "thetascope concepts group --interpret"
    )
    return files.read_json(folder / "interpretation.json")


def _groups(study: Study, concepts: str) -> SavedGroups | None:
    """The groups of the same concepts, where there are any that are not stale."""
    try:
        return load_groups(study, concepts)
    except InputError:
        return None


def _sentences(value: Any) -> list[tuple[str, list[str]]]:
    out = []
    for row in rows_of(value, "sentences"):
        text, cited = row.get("text"), row.get("evidence")
        if not isinstance(text, str) or not isinstance(cited, list):
            raise ValueError("a sentence has a text and a list of evidence")
        out.append((one_line(text, _LETTERS), [one_line(str(c), 20) for c in cited]))
    if not 1 <= len(out) <= _MOST:
        raise ValueError(f"expected 1 to {_MOST} sentences, found {len(out)}")
    return out


def _without(text: str, names: Sequence[str]) -> str:
    """The text without the names."""
    for name in names:
        text = text.replace(name, " ")
    return text

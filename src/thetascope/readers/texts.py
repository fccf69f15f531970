"""An item's text: the question with its options, never the few-shot prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.errors import InputError
from thetascope.readers.values import describe

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _ranks(*names: str) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(names)}


# Names that the data sets of common benchmarks use, the more telling first.
_CONTEXTS = _ranks(
    "passage",
    "flores_passage",
    "context",
    "support",
    "story",
    "article",
    "narrative",
    "body",
    "premise",
    "sent1",
    "sentence1",
    "text1",
)
_QUESTIONS = _ranks(
    "question",
    "query",
    "problem",
    "Question",
    "Problem",
    "question_stem",
    "goal",
    "prompt",
    "input",
    "sentence",
    "instruction",
    "ctx",
    "qtext",
    "hypothesis",
    "sent2",
    "sentence2",
    "text2",
    "text",
    "code_prompt",
)
_OPTION_LISTS = ("choices", "options", "endings", "mc1_targets")
_OPTION_SETS = (
    ("option1", "option2"),
    ("sol1", "sol2"),
    ("choice1", "choice2", "choice3", "choice4"),
    ("choice1", "choice2"),
    ("opa", "opb", "opc", "opd"),
    ("answerA", "answerB", "answerC"),
    ("ending0", "ending1", "ending2", "ending3"),
    ("mc_answer1", "mc_answer2", "mc_answer3", "mc_answer4"),
    ("distractor1", "distractor2", "distractor3", "correct_answer"),
)


def with_options(question: str, options: Sequence[str]) -> str:
    """Returns the question with its options below, lettered, unless it shows them already."""
    if not options or all(o in question for o in options):
        return question
    letters = _LETTERS if len(options) <= len(_LETTERS) else range(1, len(options) + 1)
    lines = [f"{letter}. {option}" for letter, option in zip(letters, options, strict=False)]
    return "\n".join([question, *lines])


def doc_text(doc: Any) -> tuple[str, str] | None:
    """Makes the text of a data set's row from the fields that are known to hold it.

    Returns:
        The text and the rule ("doc fields passage + question"), None where no field is known.
    """
    if not isinstance(doc, dict):
        return None
    question, context = _first(_QUESTIONS, doc), _first(_CONTEXTS, doc)
    if question is None and context is None:
        return None
    used = [f for f in (context, question) if f is not None]
    text = "\n".join(doc[f] for f in used)
    name, options = _options(doc)
    if isinstance(options, str):
        text, used = f"{text}\n{options}", [*used, name]
    elif options:
        text, used = with_options(text, options), [*used, name]
    return text, "doc fields " + " + ".join(used)


def field_text(record: Mapping[str, Any], name: str, *, file: Path, record_name: int | str) -> str:
    """Returns the text in the field `name` ('a.b' looks inside a) that the user chose.

    Raises:
        InputError: There is no such field, or it holds no text.
    """
    value: Any = record
    for part in [name] if name in record else name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            there = sorted(value) if isinstance(value, Mapping) else []
            listed = ", ".join(there[:12]) or "none"
            raise InputError(
                f"there is no such field; there are {listed}",
                file=file,
                record=record_name,
                field=name,
                fix="choose another with --text-field",
            )
        value = value[part]
    if not isinstance(value, str):
        raise InputError(
            f"expected text, found {describe(value)}", file=file, record=record_name, field=name
        )
    return value


def common_prefix(one: str, other: str) -> str:
    """Returns what both texts begin with, found by halving."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return one[:high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return one[:low]


def common_start(texts: Iterable[str]) -> int:
    """Returns how many characters of whole lines all these texts begin with, 0 if all are equal."""
    prefix: str | None = None
    differ = False
    for text in texts:
        differ = differ or (prefix is not None and text != prefix)
        prefix = text if prefix is None else common_prefix(prefix, text)
    return line_start(prefix) if differ and prefix is not None else 0


def line_start(prefix: str) -> int:
    """Returns where the last line of a shared prefix starts: texts are cut at whole lines."""
    return prefix.rfind("\n") + 1


def shared_texts(items: pl.DataFrame) -> Iterator[str]:
    """Yields a warning for every benchmark whose texts are more than half the same.

    Instructions or few-shot examples in the text would make all its items look alike.
    """
    if "text" not in items.columns:
        return
    pairs = items.select("benchmark", "text")
    for (benchmark,), group in pairs.group_by("benchmark", maintain_order=True):
        texts = group["text"].drop_nulls().unique()
        if len(texts) < 3:
            continue
        # What the first and the last in sorted order share, all share.
        shared = 0
        for ends in (texts, texts.str.reverse()):
            ordered = ends.sort()
            shared += len(common_prefix(ordered[0], ordered[-1]))
        median = texts.str.len_chars().sort()[len(texts) // 2]
        share = shared / max(median, 1)
        if share > 0.5:
            yield (
                f"the texts of {benchmark} share {min(share, 1):.0%} of their length:"
                " examples or instructions may be in them; see --text-field"
            )


def _first(ranks: Mapping[str, int], doc: Mapping[str, Any]) -> str | None:
    """The field with text that stands first in `ranks`: a row has few fields, we know many."""
    found = [f for f in doc if f in ranks and _is_text(doc[f])]
    return min(found, key=ranks.__getitem__) if len(found) > 1 else (found or [None])[0]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _options(doc: Mapping[str, Any]) -> tuple[str, list[str] | str]:
    for name in _OPTION_LISTS:
        if name not in doc:
            continue
        value = doc[name]
        if isinstance(value, dict):  # arc: {"text": [...]}, truthfulqa: {"choices": [...]}
            value = value.get("text", value.get("choices"))
        if isinstance(value, list) and value:
            found = [o.get("text") if isinstance(o, Mapping) else o for o in value]
            if all(isinstance(o, str) for o in found):
                return name, [str(o) for o in found]
        if isinstance(value, str) and value.strip():  # mathqa: one text, lettered already
            return name, value
    for names in _OPTION_SETS:
        if names[0] in doc and all(_is_text(doc.get(n)) for n in names):
            return " + ".join(names), [doc[n] for n in names]
    return "", []

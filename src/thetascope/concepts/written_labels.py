"""Labels written by a language model behind an OpenAI-compatible endpoint, and how good they are.

For each concept the model sees contexts in which the concept is strong, the strongest token
marked, and writes a few words. Then, in a second question, it sees contexts that it has not seen,
some of the concept and as many of others, and says by the label alone in which the concept fires.
The score is the mean of the shares that it gets right of either kind: 0.5 is guessing.

Answers are kept on disk by the question's hash, so asking twice costs once. The endpoint's key
comes from the environment (OPENAI_API_KEY) and is never written down.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from thetascope.concepts.store import CONTEXTS, Concepts, read_part
from thetascope.errors import InputError
from thetascope.llm import Endpoint

SHOWN, HELD_OUT = 5, 4
_ANSWER_TOKENS = 40


class Case(NamedTuple):
    """What is asked about one concept.

    Attributes:
        concept: Its number.
        shown: Contexts from which the label is written.
        tested: Contexts of the second question, mixed.
        fires: Whether the concept fires in each of `tested`.
    """

    concept: int
    shown: tuple[str, ...]
    tested: tuple[str, ...]
    fires: tuple[bool, ...]


class Written(NamedTuple):
    """A label and its score; NaN where the answer to the second question was none."""

    label: str
    score: float


def make_cases(found: Concepts, n: int | None = None, seed: int = 0) -> list[Case]:
    """Returns the questions about the concepts with contexts enough, the most active first.

    Args:
        found: Activations, extracted with contexts.
        n: How many concepts; None is all.
        seed: Of the choice of other concepts' contexts.

    Raises:
        InputError: No contexts were kept, or no concept has enough of them.
    """
    if not (found.folder / CONTEXTS).is_file():
        raise InputError("no contexts were kept", file=found.folder, fix="extract with --contexts")
    table = read_part(found.folder, CONTEXTS)
    rng = np.random.default_rng(seed)
    plain = table["before"] + table["token"] + table["after"]
    marked = table["before"] + "<<" + table["token"] + ">>" + table["after"]
    places = table.with_row_index("row").group_by("concept", maintain_order=True).agg("row")
    rows = dict(places.iter_rows())
    order = found.dictionary.sort("n_items", descending=True)["concept"].to_list()
    wanted = [c for c in order if len(rows.get(c, ())) >= SHOWN + HELD_OUT]
    cases: list[Case] = []
    for concept in wanted[:n]:
        own = rows[concept][: SHOWN + HELD_OUT]
        shown, held = own[::2][:SHOWN], own[1::2][:HELD_OUT]  # both kinds strong and less strong
        strange = rng.choice(table.height, 20 * HELD_OUT)
        others = [int(i) for i in strange if table["concept"][int(i)] != concept][:HELD_OUT]
        mixed = [*held, *others]
        mixed = [mixed[i] for i in rng.permutation(len(mixed))]
        cases.append(
            Case(concept, tuple(marked[i] for i in shown), tuple(plain[i] for i in mixed),
                 tuple(i in held for i in mixed))
        )  # fmt: skip
    if not cases:
        raise InputError(
            f"no concept has the {SHOWN + HELD_OUT} contexts that a label takes", file=found.folder
        )
    return cases


def label_question(case: Case) -> str:
    """The first question."""
    listed = "\n".join(f"{i}. {_line(c)}" for i, c in enumerate(case.shown, 1))
    return (
        "A feature of a language model is active on the tokens between << and >> in these texts:\n"
        f"{listed}\n"
        "What is common to them? Answer with a label of at most eight words and nothing else."
    )


def check_question(case: Case, label: str) -> str:
    """The second question."""
    listed = "\n".join(f"{i}. {_line(c)}" for i, c in enumerate(case.tested, 1))
    return (
        f"A feature of a language model is described as: {label}\n"
        f"In which of these texts is it active?\n{listed}\n"
        "Answer with the numbers of those texts, parted by commas, and nothing else."
    )


def n_tokens(cases: Sequence[Case]) -> int:
    """Tokens that asking about all of them takes, roughly: a token is four characters."""
    label = "x" * _ANSWER_TOKENS
    asked = sum(len(label_question(c)) + len(check_question(c, label)) for c in cases)
    return asked // 4 + 2 * _ANSWER_TOKENS * len(cases)


def write_labels(
    cases: Sequence[Case],
    endpoint: Endpoint,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[int, Written]:
    """Asks about every concept.

    Raises:
        InputError: The endpoint cannot be used; answers so far are kept on disk.
    """
    out: dict[int, Written] = {}
    for turn, case in enumerate(cases, 1):
        label = " ".join(endpoint.ask(label_question(case)).split()).strip(" \"'.")[:200]
        if label:
            answer = endpoint.ask(check_question(case, label))
            out[case.concept] = Written(label, detection_score(answer, case.fires))
        if progress:
            progress(turn, len(cases), "asking for labels")
    return out


def detection_score(answer: str, fires: Sequence[bool]) -> float:
    """Balanced accuracy of an answer like "1, 4": mean of the shares right of either kind.

    Args:
        answer: Numbers from 1 of the texts in which the concept is said to fire.
        fires: Where it does; both kinds must be there.
    """
    said = {int(n) for n in re.findall(r"\d+", answer)}
    known = set(range(1, len(fires) + 1))
    if not said <= known or (not said and not re.search("none", answer, re.IGNORECASE)):
        return float("nan")
    right = np.array([(i in said) == there for i, there in enumerate(fires, 1)])
    there = np.array(fires)
    return float((right[there].mean() + right[~there].mean()) / 2)


def _line(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

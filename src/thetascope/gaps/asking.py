"""Asking about many labels: batches, whose answers are checked id by id.

An answer is used for the ids that were asked about and named once (twice with the same answer is
once). Unknown ids are left out, ids that are missing or contradict themselves are asked for again,
twice at most. Each batch holds two controls whose answer is known; where one comes back wrong
(one label spoke for the others, or ids slipped) nothing of the batch is believed, and its halves
are asked. A label that reads as an order is asked about alone. What is left has no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thetascope.gaps import prompts
from thetascope.llm import Endpoint, InvalidAnswer, ask_json
from thetascope.llm.structured import rows_of

BATCH, ROUNDS, LEAST_HALF = 50, 3, 8
_TOKENS = 16
"""Tokens of one id's answer, without words."""


@dataclass
class Counts:
    """What the answers were like.

    Attributes:
        asked: Labels that were asked about.
        isolated: Of these, alone, because they read as orders.
        invalid: Batches without a usable answer.
        distrusted: Batches whose controls came back wrong.
        unknown, doubled, missing: Ids in answers that were not asked about, that contradict
            themselves, that were left out.
        unanswered: Labels that have no answer in the end.
    """

    asked: int = 0
    isolated: int = 0
    invalid: int = 0
    distrusted: int = 0
    unknown: int = 0
    doubled: int = 0
    missing: int = 0
    unanswered: int = 0


@dataclass(frozen=True)
class Inquiry:
    """One kind of question about labels.

    Attributes:
        question: Makes the question of lines "id. label".
        key: Name of the list in the answer.
        schema: Its JSON schema.
        value: An answer's row to what it says, or ValueError.
        words: Tokens of free text in one row's answer.
        verdict: What of a value is compared: all of it, but for its reason where it has one.
        controls: Label and the verdicts that it may get; two are put into each batch.
        counts: Filled while asking.
    """

    question: Callable[[str], str]
    key: str
    schema: dict[str, Any]
    value: Callable[[Mapping[str, Any]], Any]
    words: int = 0
    verdict: Callable[[Any], Any] = lambda value: value
    controls: tuple[tuple[str, frozenset[Any]], ...] = ()
    counts: Counts = field(default_factory=Counts)

    def answer_tokens(self, n: int) -> int:
        return 64 + n * (_TOKENS + self.words)


def batches(
    ids: Sequence[int], labels: Mapping[int, str], tokens: frozenset[int]
) -> tuple[list[list[int]], list[int]]:
    """The batches, and the ids that are asked about alone.

    Ids are shuffled, so that no batch is made of neighbours and none of an order to exploit.
    """
    alone = [c for c in ids if prompts.suspicious(labels[c], c in tokens)]
    apart = set(alone)
    rest = [c for c in ids if c not in apart]
    rest = [rest[i] for i in np.random.default_rng(0).permutation(len(rest)).tolist()]
    return [rest[i : i + BATCH] for i in range(0, len(rest), BATCH)], alone


def ask_all(
    endpoint: Endpoint, inquiry: Inquiry, ids: Sequence[int], labels: Mapping[int, str],
    *, tokens: frozenset[int], progress: Callable[[int, int, str], None] | None = None,
    what: str = "",
) -> dict[int, Any]:  # fmt: skip
    """Answers by id; ids without one are left out and counted.

    Args:
        endpoint: Who is asked.
        inquiry: What.
        ids: About which labels.
        labels: By id.
        tokens: Ids whose labels are bare tokens.
        progress: Called with (done, total, what).
        what: For `progress`.

    Raises:
        InputError: The endpoint cannot be used; answers so far are kept on disk.
    """
    many, alone = batches(ids, labels, tokens)
    queue = [*many, *([c] for c in alone)]
    inquiry.counts.asked += len(ids)
    inquiry.counts.isolated += len(alone)
    out: dict[int, Any] = {}
    for turn, batch in enumerate(queue, 1):
        out |= _batch(endpoint, inquiry, batch, labels)
        if progress is not None:
            progress(turn, len(queue), what)
    inquiry.counts.unanswered += len(set(ids) - out.keys())
    return out


def question_of(
    inquiry: Inquiry, batch: Sequence[int], labels: Mapping[int, str]
) -> tuple[str, dict[int, frozenset[Any]]]:
    """The question about a batch, and the verdicts that its controls may get."""
    first = sum(batch)  # controls differ from batch to batch
    free = max(labels, default=0) + 1
    shown = {c: labels[c] for c in batch}
    wanted: dict[int, frozenset[Any]] = {}
    for turn in range(min(2, len(inquiry.controls)) if len(batch) > 1 else 0):
        label, answer = inquiry.controls[(first + turn) % len(inquiry.controls)]
        shown[free + turn], wanted[free + turn] = label, answer
    order = list(shown)
    mixed = [order[i] for i in np.random.default_rng(first).permutation(len(order)).tolist()]
    return inquiry.question(prompts.lines(mixed, [shown[i] for i in mixed])), wanted


def _batch(
    endpoint: Endpoint, inquiry: Inquiry, batch: list[int], labels: Mapping[int, str],
    whole: bool = True,
) -> dict[int, Any]:  # fmt: skip
    found: dict[int, Any] = {}
    left, counts = batch, inquiry.counts
    for _ in range(ROUNDS):
        question, wanted = question_of(inquiry, left, labels)
        try:
            rows = ask_json(
                endpoint, question, lambda value: rows_of(value, inquiry.key),
                schema=inquiry.schema, answer_tokens=inquiry.answer_tokens(len(left) + 2),
            )  # fmt: skip
        except InvalidAnswer:
            counts.invalid += 1
            return found
        got = _values(inquiry, rows, {*left, *wanted})
        if wanted and not _trusted(inquiry, got, wanted):
            counts.distrusted += 1
            if not whole or len(left) < 2 * LEAST_HALF:
                return found
            middle = len(left) // 2
            for half in (left[:middle], left[middle:]):
                found |= _batch(endpoint, inquiry, half, labels, whole=False)
            return found
        found |= {c: v for c, v in got.items() if c not in wanted}
        left = [c for c in left if c not in found]
        if not left:
            return found
        counts.missing += len(left)
    return found


def _trusted(
    inquiry: Inquiry, got: Mapping[int, Any], wanted: Mapping[int, frozenset[Any]]
) -> bool:
    """Whether a control came back right and none came back wrong."""
    there = [inquiry.verdict(got[c]) in allowed for c, allowed in wanted.items() if c in got]
    return bool(there) and all(there)


def _values(inquiry: Inquiry, rows: list[dict[str, Any]], asked: set[int]) -> dict[int, Any]:
    """What the rows say of each id that was asked about, those that contradict themselves not."""
    found: dict[int, Any] = {}
    doubled: set[int] = set()
    for row in rows:
        number = row.get("id")
        if isinstance(number, str) and number.strip().isdecimal() and len(number) < 12:
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int) or number not in asked:
            inquiry.counts.unknown += 1
            continue
        try:
            value = inquiry.value(row)
        except ValueError:
            continue
        if number in found and inquiry.verdict(found[number]) != inquiry.verdict(value):
            doubled.add(number)
        found[number] = value
    inquiry.counts.doubled += len(doubled)
    return {c: v for c, v in found.items() if c not in doubled}

"""What asking takes, said before anything is sent; nothing is sent without a yes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from thetascope.errors import InputError
from thetascope.llm.endpoint import Endpoint

_LETTERS = 4
"""Letters a token, roughly."""


@dataclass(frozen=True)
class Prices:
    """USD per million tokens.

    Attributes:
        price_in: Of questions.
        price_out: Of answers.
    """

    price_in: float = 0.0
    price_out: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value < float("inf"):
                raise InputError(f"expected USD per million tokens, found {value}", field=name)


@dataclass(frozen=True)
class Plan:
    """What would be sent.

    Attributes:
        n_questions: How many questions.
        tokens_in: Tokens of the questions, about: a token for four letters.
        tokens_out: Most tokens of the answers; None where it is not known.
        what: What the questions hold, in words.
        usd: With the longest answers and none asked for twice, where prices are given.
    """

    n_questions: int
    tokens_in: int
    tokens_out: int | None = None
    what: str = "texts of items among them"
    usd: float | None = None

    def line(self) -> str:
        """In words."""
        answers = "" if self.tokens_out is None else f" (answers: at most {self.tokens_out:,})"
        cost = "" if self.usd is None else f", about {self.usd:.2f} USD"
        return (
            f"{self.n_questions:,} questions of about {self.tokens_in:,} tokens{answers}{cost},"
            f" {self.what},"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def n_tokens(questions: Sequence[str]) -> int:
    """About how many tokens the questions hold, a token for four letters."""
    return sum(len(q) for q in questions) // _LETTERS


def plan_of(
    questions: Sequence[str], answer_tokens: int, what: str, prices: Prices | None = None,
    *, more: int = 0,
) -> Plan:  # fmt: skip
    """What sending these takes.

    Args:
        questions: All of them, or those that are known beforehand.
        answer_tokens: Most tokens of one answer.
        what: What they hold.
        prices: Where the user gave them.
        more: Questions of the same size that depend on answers.
    """
    n = len(questions) + more
    tokens = n_tokens(questions) * n // max(1, len(questions))
    out = answer_tokens * n
    usd = None
    if prices is not None and (prices.price_in or prices.price_out):
        usd = (tokens * prices.price_in + out * prices.price_out) / 1e6
    return Plan(n, tokens, out, what, usd)


def consent(
    questions: Sequence[str], endpoint: Endpoint, yes: bool, plan: Plan | None = None
) -> None:
    """Refuses to send anything that the user has not agreed to.

    Args:
        questions: What would be sent; not looked at where there is a plan.
        endpoint: To whom.
        yes: Whether the user agreed.
        plan: What it takes, where more is known than the questions.

    Raises:
        InputError: `yes` is not set; says how much would be sent, and where.
    """
    if not yes:
        held = plan or Plan(len(questions), n_tokens(questions))
        raise InputError(
            f"{held.line()} would be sent to {endpoint.model} at {endpoint.url}; nothing was sent",
            fix="agree with --yes",
        )

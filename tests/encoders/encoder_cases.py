"""Texts and studies that the encoder tests share."""

from __future__ import annotations

import random

import polars as pl

from thetascope.study import Study

WORDS = [f"w{i}" for i in range(60)]


def make_texts(n: int, seed: int = 0, longest: int = 60) -> list[str]:
    """n different texts of 1 to `longest` words of the tiny vocabulary."""
    rng = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < n:
        made[" ".join(rng.choices(WORDS, k=rng.randint(1, longest)))] = None
    return list(made)


def make_study(texts: list[str | None]) -> Study:
    ids = [f"bench:{i:04d}" for i in range(len(texts))]
    items = pl.DataFrame(
        {"item_id": ids, "benchmark": "bench", "text": pl.Series(texts, dtype=pl.String)}
    )
    responses = pl.DataFrame({"item_id": ids, "model": "m", "score": 1.0})
    return Study.from_tables(responses, items)

"""Two runs of one (item, model) pair: a policy by name decides, never silence.

All runs are kept on disk; the policy decides what a *reading* of the study sees.

`error`  refuse, name the first pair and its runs
`first`  the run that stands first in the runs table
`last`   the run that stands last
`mean`   the mean over runs, weighted by trials
`keep`   every row: the likelihood weighs a pair by its rows, metrics score each row
"""

from __future__ import annotations

from typing import Literal, get_args

import polars as pl

from thetascope.errors import InputError
from thetascope.study.keys import n_distinct

RunPolicy = Literal["error", "first", "last", "mean", "keep"]
RUN_POLICIES: tuple[RunPolicy, ...] = get_args(RunPolicy)


def check_policy(policy: str) -> RunPolicy:
    """Returns `policy` if it is one of `RUN_POLICIES`, else raises InputError."""
    if policy not in RUN_POLICIES:
        raise InputError(
            f"unknown policy {policy!r} for two runs of one pair,"
            f" expected one of {', '.join(RUN_POLICIES)}"
        )
    return policy


def repeated_pairs(responses: pl.DataFrame) -> pl.DataFrame:
    """Returns the (item_id, model) pairs with more than one row and their number `n`."""
    key = ["item_id", "model"]
    if n_distinct(responses, key) == responses.height:
        return responses.select(key).clear().with_columns(pl.lit(1, pl.UInt32).alias("n"))
    return (
        responses.group_by("item_id", "model", maintain_order=True)
        .agg(pl.len().alias("n"))
        .filter(pl.col("n") > 1)
    )


def apply_policy(responses: pl.DataFrame, runs: pl.DataFrame, policy: RunPolicy) -> pl.DataFrame:
    """Returns the responses that a reading sees: one row a pair, except under `keep`.

    Raises:
        InputError: Under `error`, when a pair has more than one row.
    """
    if policy == "keep":
        return responses
    repeated = repeated_pairs(responses)
    if not repeated.height:
        return responses
    if policy == "error":
        raise InputError(describe_repeats(responses, repeated))
    order = runs.select("run_id", pl.int_range(pl.len()).alias("_order"))
    ordered = responses.join(order, on="run_id", how="left", maintain_order="left")
    if policy in ("first", "last"):
        best = pl.col("_order").min() if policy == "first" else pl.col("_order").max()
        kept = ordered.filter(pl.col("_order") == best.over("item_id", "model"))
        return kept.drop("_order")
    columns = [c for c in responses.columns if c not in ("item_id", "model", "run_id")]
    mean = (pl.col("score") * pl.col("trials")).sum() / pl.col("trials").sum()
    sums = [pl.col(c).sum() for c in columns if c == "trials"]
    means = [pl.col(c).mean() for c in columns if c == "cost_usd"]
    whole = [pl.col(c).mean().round().cast(pl.Int64) for c in columns if c.startswith("n_tokens_")]
    return (
        ordered.sort("_order", maintain_order=True)
        .group_by("item_id", "model", maintain_order=True)
        .agg(pl.col("run_id").first(), mean.alias("score"), *sums, *means, *whole)
        .select(responses.columns)
    )


def describe_repeats(responses: pl.DataFrame, repeated: pl.DataFrame) -> str:
    """One line that names the first repeated pair, its runs, and the way out."""
    pair = repeated.sort("item_id", "model").row(0, named=True)
    runs = responses.filter(item_id=pair["item_id"], model=pair["model"])["run_id"].unique().sort()
    return (
        f"{repeated.height} (item, model) pairs have more than one response, first"
        f" {pair['item_id']!r} x {pair['model']!r} in runs {', '.join(runs[:3])};"
        f" choose what counts with --on-duplicate {'|'.join(RUN_POLICIES[1:])}"
    )

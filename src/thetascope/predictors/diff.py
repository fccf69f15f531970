"""What changed between two models, benchmark by benchmark, with q-values."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from thetascope.errors import InputError
from thetascope.evaluation import Estimate, ratio_interval, replicate_weights
from thetascope.evaluation.paired import sign_flip_test
from thetascope.study import Study

Q_LEVEL = 0.05


@dataclass(frozen=True)
class Change:
    """Two models on one part of the study, over the items that both answered.

    Attributes:
        benchmark, subject: The part; 'all' where it is not divided.
        n_items: Items that both answered.
        before, after: Mean scores.
        difference: after - before with its 95 % interval (bootstrap over item groups).
        gained, lost: Items whose score rose, fell.
        p, q: Sign-flip test over item groups; Benjamini-Hochberg over the parts of one
            level (benchmarks, subjects); the whole has q = p.
    """

    benchmark: str
    subject: str
    n_items: int
    before: float
    after: float
    difference: Estimate
    gained: int
    lost: int
    p: float
    q: float

    @property
    def verdict(self) -> str:
        """'better', 'worse' or 'no clear change' at q < 0.05."""
        if self.q >= Q_LEVEL:
            return "no clear change"
        return "better" if self.difference.value > 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        """Flat, with difference, difference_low and difference_high."""
        d = self.difference
        return {
            "benchmark": self.benchmark, "subject": self.subject, "n_items": self.n_items,
            "before": self.before, "after": self.after, "difference": d.value,
            "difference_low": d.low if isfinite(d.low) else None,
            "difference_high": d.high if isfinite(d.high) else None, "gained": self.gained,
            "lost": self.lost, "p": self.p, "q": self.q, "verdict": self.verdict,
        }  # fmt: skip


def diff(
    study: Study, before: str, after: str, groups: NDArray[np.int64] | None = None, *,
    weights: NDArray[np.float32] | None = None,
) -> list[Change]:  # fmt: skip
    """Compares two models on the items that both answered.

    Under the policy `keep` a pair counts with the mean of its rows.

    Args:
        study: The study.
        before, after: Names of the models (an old and a new version, say).
        groups: (N,) near-duplicate group of each item of the study; None for each its own.
        weights: `replicate_weights` of as many groups, where they were drawn already.

    Returns:
        The whole first, then benchmarks, then subjects.

    Raises:
        InputError: A name is unknown, or the two answered no item in common.
    """
    both = _common(study, before, after, groups)
    n_groups = int(both["group"].max() or 0) + 1  # type: ignore[arg-type]
    if weights is None or weights.shape[1] != n_groups:
        weights = replicate_weights(n_groups)
    draws = weights
    parts: list[tuple[str, str, pl.DataFrame]] = [("all", "all", both)]
    parts += [(str(b), "all", f) for (b,), f in both.group_by("benchmark", maintain_order=True)]
    levels = [1, len(parts) - 1]
    named = both.filter(pl.col("subject").is_not_null())
    subjects = list(named.group_by("benchmark", "subject", maintain_order=True))
    parts += [(str(b), str(s), f) for (b, s), f in subjects]
    levels.append(len(subjects))
    changes = [_change(b, s, frame, draws) for b, s, frame in parts]
    q = np.concatenate(
        [
            false_discovery_control([c.p for c in changes[start : start + n]])
            for start, n in zip(np.cumsum([0, *levels[:-1]]), levels, strict=True)
            if n
        ]
    )
    return [Change(**{**vars(c), "q": float(v)}) for c, v in zip(changes, q, strict=True)]


def regressions(changes: list[Change]) -> list[Change]:
    """The parts where the second model is worse beyond noise (q < 0.05)."""
    return [c for c in changes if c.verdict == "worse"]


def _common(
    study: Study, before: str, after: str, groups: NDArray[np.int64] | None
) -> pl.DataFrame:
    if before == after:
        raise InputError(f"expected two models, found {before!r} twice")
    for name in (before, after):
        if name not in set(study.models["model"]):
            study.filter(models=[name])  # raises with the names there are
    policy = "mean" if study.policy == "keep" else study.policy
    pairs = study.filter(models=[before, after]).pairs(policy)
    label = np.arange(study.n_items) if groups is None else groups
    items = study.items.with_columns(pl.Series("group", label))
    if "subject" not in items.columns:
        items = items.with_columns(pl.lit(None, pl.String).alias("subject"))
    both = items.select("item_id", "benchmark", "subject", "group")
    for column, name in (("before", before), ("after", after)):
        scores = pairs.filter(model=name).select("item_id", pl.col("score").alias(column))
        both = both.join(scores, on="item_id", how="inner", maintain_order="left")
    if not both.height:
        raise InputError(f"{before!r} and {after!r} answered no item in common")
    return both.with_columns((pl.col("after") - pl.col("before")).alias("d"))


def _change(
    benchmark: str, subject: str, frame: pl.DataFrame, weights: NDArray[np.float32]
) -> Change:
    d, group = frame["d"].to_numpy(), frame["group"].to_numpy()
    present, local = np.unique(group, return_inverse=True)
    whole = len(present) == weights.shape[1]
    draws = weights if whole else np.ascontiguousarray(weights[:, present])
    interval = ratio_interval(d, local, draws)
    test = sign_flip_test(np.bincount(local, d).astype(np.float64))
    return Change(
        benchmark, subject, frame.height, _mean(frame, "before"), _mean(frame, "after"),
        interval, int((d > 0).sum()), int((d < 0).sum()), test.p, test.p,
    )  # fmt: skip


def _mean(frame: pl.DataFrame, column: str) -> float:
    return float(frame[column].to_numpy().mean())

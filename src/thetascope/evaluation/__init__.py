"""Splits, metrics, intervals and paired comparison: arrays in, numbers out."""

from thetascope.evaluation.groups import Groups, near_duplicate_groups
from thetascope.evaluation.intervals import (
    METRICS,
    Cells,
    Estimate,
    estimate,
    evaluate,
    mean_replicates,
    ratio_interval,
    replicate_weights,
)
from thetascope.evaluation.splits import (
    SPLIT_NAMES,
    Split,
    SplitName,
    cold_items,
    leave_one_benchmark_out,
    partition,
    warm_cells,
)

__all__ = [
    "METRICS",
    "SPLIT_NAMES",
    "Cells",
    "Estimate",
    "Groups",
    "Split",
    "SplitName",
    "cold_items",
    "estimate",
    "evaluate",
    "leave_one_benchmark_out",
    "mean_replicates",
    "near_duplicate_groups",
    "partition",
    "ratio_interval",
    "replicate_weights",
    "warm_cells",
]

"""Routing on cold items, five seeds, offline encoder: all policies on three real sets.

    python -m benchmarks.routing [--work DIR] [--predictor NAME] [SET ...]

Prints one table a set. Bars (RULES, routing): with the guard the router is no worse than the
best average and the best per benchmark anywhere (upper end of the paired difference 0 or more,
value at least -0.3 points), and better than the best average somewhere. The cost at which the
router on llmrouter is as good as the best average is printed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bars import Bars
from benchmarks.compare_sets import SHARED, prepared, thetascope
from thetascope.decisions.routing.wording import MARGIN, row_of

SETS = ("llmrouter", "zeroeval", "mmlu_pro")


def check(name: str, found: dict[str, Any], bars: Bars) -> bool:
    """The bars of a set; returns whether the guarded router is better than the best average."""
    row = row_of(found, f"{found['router']}_guarded")
    for base in ("best_average", "best_per_benchmark"):
        if row.get(f"minus_{base}") is None:
            continue
        value, high = (100 * row[f"minus_{base}{end}"] for end in ("", "_high"))
        bars.at_least(f"{name}: guarded - {base}", value, -100 * MARGIN, "points")
        bars.at_least(f"{name}: guarded - {base}, upper end", high, 0, "points")
    return row["minus_best_average_low"] > 0


def main() -> None:
    """Evaluates the sets named, or all three."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path)
    parser.add_argument("--predictor", default="blend")
    parser.add_argument("--seeds", default="5")
    parser.add_argument("sets", nargs="*")
    given = parser.parse_args()
    if not SHARED.is_dir():
        print("skipped: the folder of real results beside the repository is absent")
        return
    bars, better = Bars(), 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.sets or SETS:
            print(f"-- {name}", flush=True)
            study = prepared(name, given.work or Path(scratch))
            command = ["route", "evaluate", str(study), "--predictor", given.predictor,
                       "--seeds", given.seeds]  # fmt: skip
            print(thetascope(*command), flush=True)
            better += check(name, json.loads(thetascope(*command, "--json")), bars)
    bars.at_least("sets on which the guarded router beats the best average", better, 1)
    bars.finish()


if __name__ == "__main__":
    main()

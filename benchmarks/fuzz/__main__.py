"""Fuzzes the readers: `python -m benchmarks fuzz --family NAME --minutes 30 --into FOLDER`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.bars import Bars
from benchmarks.fuzz.campaign import Campaign
from benchmarks.fuzz.seeds import FAMILIES


def main() -> None:
    """Searches in the families named, or in all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fuzz", description=__doc__)
    parser.add_argument("--family", choices=list(FAMILIES), action="append")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each family")
    parser.add_argument("--into", type=Path, help="folder for the cases found")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first round")
    given = parser.parse_args()
    into = given.into or Path(tempfile.mkdtemp(prefix="thetascope-fuzz-"))
    bars = Bars()
    for family in given.family or FAMILIES:
        seeds = list(FAMILIES[family]())
        campaign = Campaign(seeds, given.seed)
        campaign.run(given.minutes, into / family)
        n = campaign.endings.total()
        print(f"{family}: seed {given.seed}, {n:,} examples of {len(seeds)} files in"
              f" {given.minutes:g} minutes: {dict(campaign.endings)};"
              f" slowest {campaign.slowest[0]:.1f} s ({campaign.slowest[1]})")  # fmt: skip
        for mark, times in campaign.times.most_common():
            print(f"     {times:,} x {mark}")
        bars.at_most(f"kinds of findings in {family}", len(campaign.found), 0)
        if campaign.found:
            print(f"     the cases are in {into / family}")
    bars.finish()


if __name__ == "__main__":
    main()

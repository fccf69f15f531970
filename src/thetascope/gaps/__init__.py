"""Competency gaps: what benchmarks cover, how models do on concepts, and how sure that is.

found = ts.gaps(ts.open("my-study"))      # coverage, performance, adjusted, in memory
ts.gaps_study("my-study")                 # the same, kept in the study
ts.load_gaps(ts.open("my-study")).list("my-model")
"""

from thetascope.gaps.coverage import Coverage, coverage
from thetascope.gaps.data import GapData, gap_data
from thetascope.gaps.familywise import familywise
from thetascope.gaps.found import Gaps, gaps
from thetascope.gaps.performance import Performance, performance
from thetascope.gaps.versus import Versus, versus

__all__ = [
    "Coverage",
    "GapData",
    "Gaps",
    "Performance",
    "Versus",
    "coverage",
    "familywise",
    "gap_data",
    "gaps",
    "performance",
    "versus",
]

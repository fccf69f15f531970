"""Competency gaps: what benchmarks cover, how models do on concepts, and how sure that is."""

from thetascope.gaps.data import GapData, gap_data
from thetascope.gaps.performance import Performance, performance

__all__ = ["GapData", "Performance", "gap_data", "performance"]

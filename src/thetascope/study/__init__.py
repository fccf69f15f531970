"""A study: per-item results of language models on benchmarks, checked, in memory or on disk."""

from thetascope.study.matrix import MISSING, ResponseMatrix, build_matrix
from thetascope.study.policies import RUN_POLICIES, RunPolicy
from thetascope.study.study import Study
from thetascope.study.text import normalise_text, text_hash

__all__ = [
    "MISSING",
    "RUN_POLICIES",
    "ResponseMatrix",
    "RunPolicy",
    "Study",
    "build_matrix",
    "normalise_text",
    "text_hash",
]

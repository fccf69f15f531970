"""Sums of sparse matrices as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from thetascope.gaps.data import Array


def column_sums(matrix: Any) -> Array:
    """(C,) sums of a sparse (N, C) matrix's columns."""
    return np.asarray(matrix.sum(axis=0), dtype=np.float64).ravel()


def row_sums(matrix: Any) -> Array:
    """(N,) sums of a sparse (N, C) matrix's rows."""
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()

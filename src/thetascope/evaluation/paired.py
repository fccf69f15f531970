"""Two models on the same items: where do they differ beyond noise?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

N_FLIPS = 9999


class SignFlip(NamedTuple):
    """A two-sided sign-flip test that a mean difference is zero.

    Attributes:
        p: Probability of a sum as far from 0 under random signs.
        exact: Whether it is exact (binomial) or from `N_FLIPS` random flips.
    """

    p: float
    exact: bool


def sign_flip_test(difference: NDArray[np.float64], seed: int = 0) -> SignFlip:
    """Tests whether signed differences are symmetric about 0.

    Where all differences that are not 0 have one size (right-or-wrong scores) this is McNemar's
    exact test; else the p of 9,999 random sign flips, (1 + extreme) / (1 + flips).

    Args:
        difference: (n,) one difference an item, or a group of near-duplicates.
    """
    moved = difference[difference != 0]
    if not len(moved):
        return SignFlip(1.0, True)
    if np.ptp(np.abs(moved)) < 1e-12:
        ups = int((moved > 0).sum())
        return SignFlip(float(binomtest(ups, len(moved)).pvalue), True)
    rng = np.random.default_rng(seed)
    total, extreme = abs(moved.sum()) - 1e-12, 0
    for start in range(0, N_FLIPS, 1000):
        n = min(1000, N_FLIPS - start)
        signs = rng.integers(0, 2, (n, len(moved)), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ moved) >= total).sum())
    return SignFlip((1 + extreme) / (1 + N_FLIPS), False)

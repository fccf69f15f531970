"""Fitting 1PL, 2PL and MIRT to 36,000 items x 112 models, full and with a third observed.

Bar: the 2PL in under 2 minutes on 2 cores (one thread is used; processor time is taken).
"""

from __future__ import annotations

import time

import numpy as np
from scipy.special import expit

from benchmarks.bars import Bars
from thetascope.predictors.irt_fit import Prior, Responses, fit_unidimensional
from thetascope.predictors.mirt_fit import fit_mirt

N, M = 36_000, 112


def main() -> None:
    """Simulates a 2PL and fits it."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=M)
    a, b = np.exp(0.5 * rng.normal(size=N)), 1.2 * rng.normal(size=N)
    score = (rng.random((N, M)) < expit(a[:, None] * theta + b[:, None])).astype(np.float32)
    bars = Bars()
    for share in (1.0, 0.33):
        weight = (rng.random((N, M)) < share).astype(np.float32)
        data = Responses(score * weight, weight, np.zeros(N, np.int64), np.zeros(N))
        for name, prior in (("1PL", Prior(True, 0.0)), ("2PL", Prior())):
            start = time.process_time()
            fit = fit_unidimensional(data, prior)
            seconds = time.process_time() - start
            order = np.corrcoef(fit.theta, theta)[0, 1]
            print(f"{name}, {share:.0%} observed: {seconds:.1f} s, {fit.iterations} rounds,"
                  f" abilities correlate with the truth at {order:.4f}", flush=True)  # fmt: skip
            bars.at_most(f"{name}, {share:.0%} observed, processor time", seconds, 120, "s")
        start = time.process_time()
        found = fit_mirt(data, 6)
        print(f"MIRT in 6 dimensions, {share:.0%} observed: {time.process_time() - start:.1f} s,"
              f" {found.iterations} rounds", flush=True)  # fmt: skip
    bars.finish()


if __name__ == "__main__":
    main()

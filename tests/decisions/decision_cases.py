"""Made banks: items and models of a known space."""

from __future__ import annotations

import numpy as np

from thetascope.decisions import ItemBank
from thetascope.decisions.prior import AbilityPrior, population
from thetascope.predictors import ItemFeatures, Sample
from thetascope.predictors.logit_space import LogitSpace
from thetascope.study import MISSING, ResponseMatrix


def make_space(
    seed: int = 0, n: int = 200, d: int = 3, m: int = 15, benchmarks: int = 2, floor: bool = False
) -> LogitSpace:
    """Random items of `benchmarks` benchmarks and m random models."""
    rng = np.random.default_rng(seed)
    benchmark = rng.integers(0, benchmarks, n)
    ids = tuple(f"b{b}:{j}" for j, b in enumerate(benchmark))
    return LogitSpace(
        ids,
        benchmark,
        tuple(f"b{b}" for b in range(benchmarks)),
        rng.normal(size=(n, d)) * 0.8 + np.eye(d)[0],
        rng.normal(size=n),
        tuple(f"m{i}" for i in range(m)),
        rng.normal(size=(m, d)),
        chance=rng.choice([0.0, 0.25], n) if floor else None,
    )


def draw(space: LogitSpace, seed: int = 1, density: float = 1.0) -> ResponseMatrix:
    """Responses that follow the space."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-space.logits(space.theta)))
    if space.chance is not None:
        p = space.chance[:, None] + (1 - space.chance[:, None]) * p
    scores = (rng.random(p.shape) < p).astype(np.uint8)
    scores[rng.random(p.shape) >= density] = MISSING
    return ResponseMatrix(space.ids, space.models, scores)


def make_bank(
    space: LogitSpace | None = None, density: float = 1.0, misfit: float = 0.0
) -> ItemBank:
    """A bank with the population's own prior (kappa 1, rho .3)."""
    space = make_space() if space is None else space
    g = population(space, 1.0, 0.3)
    prior = AbilityPrior(g.mean, g.covariance, 1.0, 0.3, 1.0, {})
    width = np.full(len(space.benchmarks), misfit)
    return ItemBank(space, prior, draw(space, density=density), width)


def make_sample(seed: int = 0, n: int = 300, m: int = 24, density: float = 1.0) -> Sample:
    """2PL data: three subjects in two benchmarks, abilities that go together."""
    rng = np.random.default_rng(seed)
    subject = rng.integers(0, 3, n)
    benchmark = np.minimum(subject, 1)
    common = rng.normal(size=(m, 1))
    theta = 0.8 * common + 0.6 * rng.normal(size=(m, 3))
    a, c = rng.uniform(0.6, 2.0, n), rng.normal(size=n)
    p = 1 / (1 + np.exp(-(a[:, None] * theta[:, subject].T + c[:, None])))
    scores = (rng.random(p.shape) < p).astype(np.uint8)
    scores[rng.random(p.shape) >= density] = MISSING
    ids = tuple(f"b{b}:{j}" for j, b in enumerate(benchmark))
    items = ItemFeatures(
        ids, benchmark, ("b0", "b1"), subject, ("b0/x", "b1/y", "b1/z"),
    )  # fmt: skip
    models = tuple(f"m{i}" for i in range(m))
    return Sample(items, ResponseMatrix(ids, models, scores))

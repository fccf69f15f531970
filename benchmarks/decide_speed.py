"""Speed of decisions: one model onboarded at 256 dimensions, and a step of an adaptive test.

Bars: 1,000 responses at 256 dimensions in less than 100 ms; the next item among 36,000
candidates in less than 200 ms, answer taken in included. Medians of processor time (run it with
OMP_NUM_THREADS=1: then it is the time on an idle machine); made data, since only sizes matter.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.bars import Bars
from thetascope.decisions import AdaptiveTest, ItemBank, Target, onboard
from thetascope.decisions.prior import AbilityPrior, population
from thetascope.predictors.logit_space import LogitSpace
from thetascope.study import MISSING, ResponseMatrix


def made_bank(n: int, dim: int, n_models: int = 50) -> ItemBank:
    """n items of unit direction and 50 models, no responses."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(n, dim)).astype(np.float32)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    theta = rng.normal(size=(n_models, dim))
    ids = tuple(f"b:{j}" for j in range(n))
    models = tuple(f"m{i}" for i in range(n_models))
    space = LogitSpace(ids, np.zeros(n, np.int64), ("b",), u, -rng.random(n), models, theta)
    g = population(space, 1.0, 0.3)
    prior = AbilityPrior(g.mean, g.covariance, 1.0, 0.3, 1.0, {})
    empty = ResponseMatrix(ids, models, np.full((n, n_models), MISSING, np.uint8))
    return ItemBank(space, prior, empty, np.zeros(1))


def main() -> None:
    """Measures both."""
    bars = Bars()
    rng = np.random.default_rng(1)
    bank = made_bank(36_000, 256)
    answers = {f"b:{j}": float(rng.random() < 0.5) for j in rng.permutation(36_000)[:1000]}
    onboard(bank, answers)
    times = []
    for _ in range(7):
        start = time.process_time()
        posterior = bank.posterior(onboard_answers(bank, answers))
        times.append(time.process_time() - start)
    assert np.isfinite(posterior.mean).all()
    bars.at_most("onboard, 1,000 responses, d = 256", 1e3 * float(np.median(times)), 100, "ms")
    times = []
    for _ in range(7):
        start = time.process_time()
        onboard(bank, answers)
        times.append(time.process_time() - start)
    print(f"     with matching and the score of 36,000 items: {1e3 * np.median(times):.0f} ms")
    for dim in (256, 128):
        test = AdaptiveTest(bank if dim == 256 else made_bank(36_000, dim), Target({"b": 1.0}))
        times = []
        for _ in range(25):
            start = time.process_time()
            item = test.next(1)[0]
            test.answer({item: float(rng.random() < 0.5)})
            times.append(time.process_time() - start)
        what = f"next item among 36,000, d = {dim}"
        bars.at_most(what, 1e3 * float(np.median(times)), 200, "ms")
    bars.finish()


def onboard_answers(bank: ItemBank, answers: dict[str, float]):
    """The answers as arrays."""
    from thetascope.decisions.posterior import Answers

    rows = np.array([bank.row(k) for k in answers])
    return Answers(rows, np.array(list(answers.values())), np.ones(len(rows)))


if __name__ == "__main__":
    main()

"""A new model onboarded from 1 to 100 % of its answers, against joint training.

    python -m benchmarks.onboarding [--draws 10] [SET ...]

Five folds of models (twins together); items and prior are learnt without the fold. A fixed
random fifth of a model's answers is the test; 1 ... 100 % are nested parts of the others, in
random order, 10 draws. 'joint' is one more fit for every left-out model, with the training part
of its answers in. Bar: accuracy from 10 % within 0.5 points of joint, mean over models.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from benchmarks.bars import Bars
from benchmarks.decide_sets import SHARED, crosswalk, load
from thetascope.decisions.build import learn_items, twin_groups
from thetascope.decisions.calibration import answers_of, model_folds, take_models
from thetascope.decisions.posterior import chances, fit_ability
from thetascope.decisions.prior import learn_prior
from thetascope.evaluation.metrics import accuracy, log_loss
from thetascope.predictors import Sample

SETS = ("zeroeval", "mmlu_pro", "llmrouter", "alpaca_eval")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
Array = NDArray[np.float64]


def run(name: str, draws: int) -> tuple[Array, Array]:
    """(models, shares + 1) accuracy and log-loss on the test fifth; the last column is joint."""
    sample = load(name)
    twins = twin_groups(sample.responses.models, crosswalk(name))
    folds = model_folds(twins)
    rng = np.random.default_rng(0)
    test = np.zeros(sample.responses.observed.shape, bool)
    for i in range(test.shape[1]):
        rows = np.flatnonzero(sample.responses.observed[:, i])
        test[rng.permutation(rows)[: len(rows) // 5], i] = True
    accuracies = np.full((test.shape[1], len(SHARES) + 1), np.nan)
    losses = np.full_like(accuracies, np.nan)
    for f in range(int(folds.max()) + 1):
        out = folds == f
        train = take_models(sample, ~out)
        space = learn_items(train)
        prior = learn_prior(space, train.responses, twins=twins[~out]).gaussian
        for i in np.flatnonzero(out).tolist():
            answers = answers_of(sample, i)
            held = test[answers.rows, i]
            known, hidden = answers.take(~held), answers.take(held)
            found = np.zeros((draws, len(SHARES), 2))
            for draw in range(draws):
                order = np.random.default_rng((draw, i)).permutation(len(known))
                for s, share in enumerate(SHARES):
                    part = known.take(order[: max(1, round(share * len(known)))])
                    theta = fit_ability(
                        space.design[part.rows], space.intercept[part.rows],
                        part.score, part.trials, prior,
                    ).mean  # fmt: skip
                    logits = space.design[hidden.rows] @ theta + space.intercept[hidden.rows]
                    p = chances(logits, None)[0]
                    found[draw, s] = accuracy(p, hidden.score), log_loss(p, hidden.score)
            with_it = take_models(sample, ~out | (np.arange(len(out)) == i))
            place = with_it.responses.models.index(sample.responses.models[i])
            cells = np.ones(with_it.responses.scores.shape, bool)
            cells[:, place] = ~test[:, i]
            joint = learn_items(Sample(sample.items, with_it.responses.mask(cells)))
            logits = joint.design[hidden.rows] @ joint.theta[place] + joint.intercept[hidden.rows]
            p = chances(logits, None)[0]
            accuracies[i] = np.r_[found[:, :, 0].mean(0), accuracy(p, hidden.score)]
            losses[i] = np.r_[found[:, :, 1].mean(0), log_loss(p, hidden.score)]
    return accuracies, losses


def main() -> None:
    """Runs the sets named, or all four."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("sets", nargs="*")
    given = parser.parse_args()
    if not SHARED.is_dir():
        print("skipped: the folder of real results beside the repository is absent")
        return
    bars = Bars()
    for name in given.sets or SETS:
        accuracies, losses = run(name, given.draws)
        print(f"-- {name}: {len(accuracies)} models, mean over models of accuracy % and log-loss")
        head = [f"{100 * s:g} %" for s in SHARES] + ["joint"]
        print("   " + "  ".join(f"{h:>7s}" for h in head))
        print("   " + "  ".join(f"{100 * a:7.2f}" for a in np.nanmean(accuracies, axis=0)))
        print("   " + "  ".join(f"{v:7.4f}" for v in np.nanmean(losses, axis=0)), flush=True)
        gap = 100 * (accuracies[:, -1] - accuracies[:, SHARES.index(0.1)])
        draws = np.random.default_rng(0).integers(0, len(gap), (2000, len(gap)))
        low, high = np.quantile(gap[draws].mean(axis=1), [0.025, 0.975])
        print(f"   joint - 10 %: {gap.mean():.2f} [{low:.2f}, {high:.2f}] points")
        bars.at_most(f"{name}: joint - onboarded from 10 %", float(gap.mean()), 0.5, "points")
    bars.finish()


if __name__ == "__main__":
    main()

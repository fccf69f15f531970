"""Would a difficulty that depends on direction predict better than the scalar norm?

Beside a fit's logits, on cold items:

    common   logit + (k + n . y_j) z_j           one law for all models
    own      logit + (k_i + n_i . y_j) z_j       each model has its own

z_j: the standardised norm; y_j: the leading principal coordinates of the directions, of unit
variance. k and n are fitted on the training items by ridge, its strength chosen on validation
items from a grid that holds "not at all".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from thetascope.evaluation import Estimate, ratio_interval
from thetascope.predictors.base import Sample
from thetascope.predictors.jeirt import JEIRT

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
COORDINATES = 16
_RIDGES = (1e9, 1e4, 3e3, 1e3, 300.0, 100.0, 30.0)
_ROUNDS = 6


@dataclass(frozen=True)
class DirectedGain:
    """Change of the cold log-loss; negative where it helps.

    Attributes:
        base: Log-loss of the fit itself.
        common, own: Log-loss with the added law minus `base`, 95 % over groups.
    """

    base: Estimate
    common: Estimate
    own: Estimate

    def to_json(self) -> dict[str, Any]:
        """[value, low, high] each."""
        return {k: list(v) for k, v in vars(self).items()}


def directed_logits(sample: Sample, fit: JEIRT, split: Any) -> tuple[Array, Array, Array]:
    """(n, M) logits of the test items: the fit's own, with the common law, with own laws.

    Args:
        sample: The study.
        fit: Fitted on the split's training items.
        split: A cold-items split.
    """
    z, x, score, seen = {}, {}, {}, {}
    if not all(len(c.items) for c in (split.train, split.choose, split.test)):
        test = sample.take(split.test).items
        own = (
            fit.logit_space(test).logits(_theta(fit, sample))
            if len(test)
            else np.zeros((0, len(fit.models_)))
        )
        return own, own, own  # nothing to learn a law from, or to choose its strength on
    first = sample.take(split.train)
    space = fit.item_space(first.items)
    direction, norm = space.direction.astype(np.float64), space.norm.astype(np.float64)
    centre, mean, spread = direction.mean(axis=0), norm.mean(), max(norm.std(), 1e-9)
    _, size, vectors = np.linalg.svd(direction - centre, full_matrices=False)
    keep = min(COORDINATES, int((size > 1e-6 * size[0]).sum()))
    basis = vectors[:keep].T / (size[:keep] / np.sqrt(len(direction)))
    for side, cells in (("train", split.train), ("choose", split.choose), ("test", split.test)):
        here = sample.take(cells)
        space = fit.item_space(here.items)
        direction, norm = space.direction.astype(np.float64), space.norm.astype(np.float64)
        law = np.concatenate([np.ones((len(norm), 1)), (direction - centre) @ basis], axis=1)
        x[side] = law * ((norm - mean) / spread)[:, None]
        z[side] = fit.logit_space(here.items).logits(_theta(fit, here))
        score[side], seen[side] = (
            here.responses.filled().astype(np.float64),
            here.responses.observed,
        )
    common = _chosen(z, x, score, seen, shared=True)
    own = _chosen(z, x, score, seen, shared=False)
    return z["test"], z["test"] + x["test"] @ common, z["test"] + x["test"] @ own


def gain_of(
    base: Array, common: Array, own: Array, score: Array, seen: Bools,
    group: NDArray[np.int64], weights: NDArray[np.float32],
) -> DirectedGain:  # fmt: skip
    """Log-losses with intervals from (n, M) logits."""
    row, model = np.nonzero(seen)
    s = score[row, model]
    present, local = np.unique(group[row], return_inverse=True)
    draws = np.ascontiguousarray(weights[:, present])

    def loss(z: Array) -> Array:
        return np.logaddexp(0, z[row, model]) - s * z[row, model]

    own_loss = loss(base)
    return DirectedGain(
        ratio_interval(own_loss, local, draws),
        ratio_interval(loss(common) - own_loss, local, draws),
        ratio_interval(loss(own) - own_loss, local, draws),
    )


def _theta(fit: JEIRT, here: Sample) -> Array:
    return fit.logit_space(here.items.take(np.arange(1))).theta


def _chosen(
    z: dict[str, Array], x: dict[str, Array], score: dict[str, Array], seen: dict[str, Bools],
    *, shared: bool,
) -> Array:  # fmt: skip
    """(k, M) coefficients (equal columns where shared) of the ridge that validates best."""
    best: tuple[float, Array] | None = None
    for ridge in _RIDGES:
        w = _fitted(z["train"], x["train"], score["train"], seen["train"], ridge, shared)
        held = z["choose"] + x["choose"] @ w
        terms = np.logaddexp(0, held) - score["choose"] * held
        loss = float(terms[seen["choose"]].mean()) if seen["choose"].any() else 0.0
        if best is None or loss < best[0]:
            best = loss, w
    assert best is not None
    return best[1]


def _fitted(z: Array, x: Array, score: Array, seen: Bools, ridge: float, shared: bool) -> Array:
    """Newton steps of the ridge logistic regression of the scores on x beside the logits z."""
    k, m = x.shape[1], z.shape[1]
    w = np.zeros((k, m))
    if ridge >= _RIDGES[0]:
        return w  # not at all
    pairs = (x[:, :, None] * x[:, None, :]).reshape(len(x), k * k)
    for _ in range(_ROUNDS):
        p = expit(z + x @ w)
        slope = x.T @ ((score - p) * seen)  # (k, M)
        curve = (pairs.T @ (p * (1 - p) * seen)).T.reshape(m, k, k)
        if shared:
            step = np.linalg.solve(
                curve.sum(axis=0) + ridge * np.eye(k), slope.sum(axis=1) - ridge * w[:, 0]
            )
            w = w + step[:, None]
        else:
            rest = (slope - ridge * w).T[:, :, None]
            w = w + np.linalg.solve(curve + ridge * np.eye(k), rest)[:, :, 0].T
    return w

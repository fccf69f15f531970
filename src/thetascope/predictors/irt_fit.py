"""Fitting of the one- and two-parameter logistic models (1PL, 2PL), with a known chance level.

    P_ij = f_j + (1 - f_j) sigmoid(a_j theta_i + b_j)
    theta_i ~ N(0, 1),  log a_j ~ N(mu_a, s_a^2),  b_j ~ N(mu_b, s_b^2) of the item's benchmark

b_j is an intercept (easiness); the difficulty of the literature is -b_j / a_j. mu_a (the scale of
theta), mu_b and s_b are learnt (empirical Bayes). Without the constraint a > 0, a_j ~ N(1, 1).
Graded scores enter as a quasi-likelihood: the Bernoulli log-likelihood with the score in place
of 0 or 1, which is right for the mean.

Both sides are random: items are updated on the expected information over the models' posterior
and models over the items' (a Gaussian variational EM, three Gauss-Hermite nodes), so that neither
many items on few models nor many models on few items biases the scale, as joint maximum
likelihood does. Fisher scoring with halved steps; it starts from the models' mean scores, so
there is no random number in it. After every round theta is brought to mean 0 and variance 1 over
the models; a > 0 gives it the sign of the mean score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Array = NDArray[np.float64]

_NODES = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
_NODE_WEIGHTS = np.array([1 / 6, 2 / 3, 1 / 6])
_CELLS = 1 << 18
"""Cells of one block."""
_JOINT_MODELS = 4000
"""Models up to which errors are those of the joint curvature."""
_LAST_STEPS = 5
_SMALL_VARIANCE = 1e-4
"""Variance of a logit below which one node stands for three."""


class Responses(NamedTuple):
    """What is fitted: all (N, M).

    Attributes:
        score: Scores, 0 where there is none.
        weight: Trials behind each score, 0 where there is none.
        benchmark: (N,) code of each item's benchmark.
        chance: (N,) known chance level f_j.
    """

    score: NDArray[np.float32]
    weight: NDArray[np.float32]
    benchmark: NDArray[np.int64]
    chance: Array

    def rows(self, part: slice) -> Responses:
        """The items of a slice."""
        return Responses(
            self.score[part], self.weight[part], self.benchmark[part], self.chance[part]
        )


class Prior(NamedTuple):
    """Prior of the discriminations.

    Attributes:
        positive: log a ~ N(learnt mean, sd^2); otherwise a ~ N(1, sd^2).
        sd: Standard deviation; 0 with `positive` gives all items one discrimination (1PL).
    """

    positive: bool = True
    sd: float = 0.5


@dataclass
class Fitted:
    """A fitted 1PL or 2PL.

    Attributes:
        prior: Of the discriminations.
        theta: (M,) abilities; mean 0, variance 1 over the models.
        theta_variance: (M,) their posterior variances.
        alpha: (N,) log discriminations, or discriminations where they may be negative.
        b: (N,) intercepts.
        covariance: (N, 2, 2) of (alpha, b).
        mean_alpha: Mean of the prior of alpha.
        mean_b, sd_b: (B,) prior of b by benchmark.
        iterations: Rounds until nothing moved.
        converged: Whether they ended before `max_iterations`.
    """

    prior: Prior
    theta: Array
    theta_variance: Array
    alpha: Array
    b: Array
    covariance: Array
    mean_alpha: float
    mean_b: Array
    sd_b: Array
    iterations: int = 0
    converged: bool = False

    @property
    def a(self) -> Array:
        """(N,) discriminations."""
        return np.exp(self.alpha) if self.prior.positive else self.alpha

    def slope(self, part: slice = slice(None)) -> tuple[Array, Array]:
        """Discriminations and their derivatives by alpha."""
        a = self.a[part]
        return a, a if self.prior.positive else np.ones_like(a)


def fit_unidimensional(
    data: Responses, prior: Prior, *, max_iterations: int = 300, tolerance: float = 1e-4
) -> Fitted:
    """Fits a 2PL, or with a prior of width 0 a 1PL.

    Args:
        data: The responses.
        prior: Of the discriminations.
        max_iterations: Most rounds.
        tolerance: Largest change of a theta at which the rounds end.
    """
    state = _start(data, prior)
    for iteration in range(1, max_iterations + 1):
        before = state.theta.copy()
        _update_items(data, state)
        _update_priors(data, state)
        _update_models(data, state)
        _standardise(state)
        state.iterations = iteration
        if np.abs(state.theta - before).max(initial=0) < tolerance:
            state.converged = True
            break
    for _ in range(_LAST_STEPS):  # standardising leaves the items a little beside their mode
        _update_items(data, state)
    _joint_errors(data, state)
    return state


def _start(data: Responses, prior: Prior) -> Fitted:
    """Each model against what the items that it answered give on average."""
    n, m = data.score.shape
    weight = data.weight.astype(np.float64)
    overall = (data.score * weight).sum() / max(weight.sum(), 1)
    item_mean = ((data.score * weight).sum(1) + overall) / (weight.sum(1) + 1)
    gap = ((data.score * weight).sum(0) - item_mean @ weight) / (weight.sum(0) + 1)
    theta = gap - gap.mean() if m else gap
    theta = theta / max(float(theta.std()), 1e-9) if m else theta
    width = int(data.benchmark.max(initial=0)) + 1
    return Fitted(
        prior,
        theta,
        np.full(m, 0.1),
        np.zeros(n) if prior.positive else np.ones(n),
        logit(np.clip(item_mean, 0.02, 0.98)),
        np.tile(np.diag([0.25, 1.0]), (n, 1, 1)),
        0.0 if prior.positive else 1.0,
        np.zeros(width),
        np.full(width, 1.5),
    )


def response(logits: Array, chance: Array) -> tuple[Array, Array, Array]:
    """P, the weight of (s - P) in the score function, and the Fisher information of a logit.

    P = f + (1 - f) sigma, P' = (1 - f) sigma (1 - sigma); the factor is P' / (P (1 - P)) and
    the information P'^2 / (P (1 - P)); both are the logistic model's own where f = 0.
    """
    sigma = expit(logits)
    if not chance.any():
        return sigma, np.ones_like(sigma), sigma * (1 - sigma)
    p = chance + (1 - chance) * sigma
    # P' = (1 - P) sigma, so P' / (P (1 - P)) = sigma / P.
    factor = sigma / np.maximum(p, 1e-12)
    return p, factor, factor * (1 - p) * sigma


def inverse(matrices: Array) -> Array:
    """(..., k, k) inverses."""
    return np.asarray(np.linalg.inv(matrices), np.float64)


def _blocks(n_items: int, n_models: int) -> list[slice]:
    step = max(1, _CELLS // max(n_models, 1))
    return [slice(i, min(i + step, n_items)) for i in range(0, n_items, step)]


def _nodes(variance: float) -> list[tuple[float, float]]:
    if variance < _SMALL_VARIANCE:
        return [(0.0, 1.0)]
    return list(zip(_NODES.tolist(), _NODE_WEIGHTS.tolist(), strict=True))


def _update_items(data: Responses, state: Fitted) -> None:
    """One Fisher-scoring step of every (alpha, b) over the models' posterior."""
    sd_theta = np.sqrt(state.theta_variance)
    top = float((state.a**2).max(initial=0) * state.theta_variance.max(initial=0))
    for part in _blocks(*data.score.shape):
        rows = data.rows(part)
        b = state.b[part]
        a, da = state.slope(part)
        mean, sd = state.mean_b[rows.benchmark], state.sd_b[rows.benchmark]
        gradient = np.stack([np.zeros_like(b), (mean - b) / sd**2], axis=1)
        information = np.zeros((len(b), 2, 2))
        information[:, 1, 1] = 1 / sd**2
        if state.prior.sd > 0:
            gradient[:, 0] = (state.mean_alpha - state.alpha[part]) / state.prior.sd**2
            information[:, 0, 0] = 1 / state.prior.sd**2
        for node, share in _nodes(top):
            theta = state.theta + node * sd_theta
            p, factor, info = response(a[:, None] * theta + b[:, None], rows.chance[:, None])
            residual = share * rows.weight * (rows.score - p) * factor
            info = share * rows.weight * info
            gradient[:, 0] += da * (residual @ theta)
            gradient[:, 1] += residual.sum(axis=1)
            information[:, 0, 0] += da**2 * (info @ theta**2)
            information[:, 0, 1] += da * (info @ theta)
            information[:, 1, 1] += info.sum(axis=1)
        information[:, 1, 0] = information[:, 0, 1]
        if state.prior.sd == 0:
            gradient[:, 0], information[:, 0, 1], information[:, 1, 0] = 0, 0, 0
            information[:, 0, 0] = 1.0
        covariance = inverse(information)
        step = np.einsum("nij,nj->ni", covariance, gradient)
        step /= np.maximum(1, np.abs(step).max(axis=1, keepdims=True))  # at most 1 a round
        state.alpha[part] += step[:, 0]
        state.b[part] += step[:, 1]
        if state.prior.sd == 0:
            covariance[:, 0, 0] = 0
        state.covariance[part] = covariance


def _update_priors(data: Responses, state: Fitted) -> None:
    """Means and spread of the priors; s_b with two pseudo-items of spread 1.5."""
    width = len(state.mean_b)
    count = np.bincount(data.benchmark, minlength=width)
    state.mean_b = np.bincount(data.benchmark, state.b, minlength=width) / (count + 0.1)
    spread = (state.b - state.mean_b[data.benchmark]) ** 2 + state.covariance[:, 1, 1]
    total = np.bincount(data.benchmark, spread, minlength=width)
    state.sd_b = np.sqrt((total + 2 * 1.5**2) / (count + 2))
    if state.prior.positive and len(state.alpha):
        state.mean_alpha = float(state.alpha.mean())


def _update_models(data: Responses, state: Fitted) -> None:
    """One Fisher-scoring step of every theta over the items' posterior.

    alpha and the logit are correlated, so at a node of the logit a is taken at
    E[alpha | logit] = alpha + cov / sd * node.
    """
    gradient, information = -state.theta.copy(), np.ones_like(state.theta)
    for part in _blocks(*data.score.shape):
        rows = data.rows(part)
        v = state.covariance[part]
        a, da = state.slope(part)
        by_alpha = da[:, None] * state.theta  # d logit / d alpha
        logits = a[:, None] * state.theta + state.b[part][:, None]
        shared = v[:, 0, 0, None] * by_alpha + v[:, 0, 1, None]
        variance = by_alpha * (shared + v[:, 0, 1, None]) + v[:, 1, 1, None]
        sd = np.sqrt(np.maximum(variance, 1e-12))
        lean = np.clip(shared / sd, -1, 1)
        for node, share in _nodes(float(variance.max(initial=0))):
            p, factor, info = response(logits + node * sd, rows.chance[:, None])
            moved = node * lean
            pull = a[:, None] * np.exp(moved) if state.prior.positive else a[:, None] + moved
            weight = share * rows.weight
            gradient += (weight * (rows.score - p) * factor * pull).sum(axis=0)
            information += (weight * info * pull**2).sum(axis=0)
    state.theta_variance = 1 / information
    state.theta = state.theta + np.clip(gradient / information, -1, 1)


def _standardise(state: Fitted) -> None:
    """Brings theta to mean 0 and variance 1 over the models; no logit changes by it."""
    if len(state.theta) < 2:
        return
    shift = float(state.theta.mean())
    second = float(np.mean((state.theta - shift) ** 2 + state.theta_variance))
    scale = np.sqrt(second)
    state.b = state.b + state.a * shift
    state.theta = (state.theta - shift) / scale
    state.theta_variance = state.theta_variance / scale**2
    if state.prior.positive:
        state.alpha = state.alpha + np.log(scale)
        state.mean_alpha += float(np.log(scale))
    else:
        state.alpha = state.alpha * scale


def _joint_errors(data: Responses, state: Fitted) -> None:
    """Covariances from the joint curvature: either side's error widens the other's.

    With H the expected negative Hessian, Cov(theta) = (H_tt - sum_j H_tj H_jj^-1 H_jt)^-1 and
    Cov(item j) = H_jj^-1 + H_jj^-1 H_jt Cov(theta) H_tj H_jj^-1. Beyond `_JOINT_MODELS` models
    either side's errors are those given the other side.
    """
    m = len(state.theta)
    if m > _JOINT_MODELS:
        return
    own, loss = np.ones(m), np.zeros((m, m))
    for part in _blocks(*data.score.shape):
        cross, added = _cross(data, state, part)
        own += added
        half = np.linalg.cholesky(state.covariance[part] + 1e-12 * np.eye(2))
        flat = (cross @ half).transpose(1, 0, 2).reshape(m, -1)
        loss += flat @ flat.T
    joint = inverse(np.diag(own) - loss)
    for part in _blocks(*data.score.shape):
        lever = _cross(data, state, part)[0] @ state.covariance[part]
        through = (joint @ lever.transpose(1, 0, 2).reshape(m, -1)).reshape(m, -1, 2)
        state.covariance[part] += np.einsum("nia,inb->nab", lever, through, optimize=True)
    state.theta_variance = np.array(np.diag(joint))


def _cross(data: Responses, state: Fitted, part: slice) -> tuple[Array, Array]:
    """H_tj of a block, (n, M, 2), and the block's share of the diagonal of H_tt."""
    rows = data.rows(part)
    a, da = state.slope(part)
    by_alpha = da[:, None] * state.theta
    logits = a[:, None] * state.theta + state.b[part][:, None]
    info = rows.weight * response(logits, rows.chance[:, None])[2]
    own = (info * a[:, None] ** 2).sum(axis=0)
    sides = np.stack([by_alpha, np.ones_like(by_alpha)], axis=2)
    if state.prior.sd == 0:
        sides[:, :, 0] = 0
    return (info * a[:, None])[:, :, None] * sides, own

"""Fitting of multidimensional item response theory (MIRT).

    P_ij = sigmoid(a_j . theta_i + b_j),  theta_i in R^d
    theta_i ~ N(0, I),  z_j = (a_j, b_j) ~ N(mu_b + f(e_j), Sigma_b) of the item's benchmark

f is 0, or a regression on the text vector e_j (`text_prior`), which then tells of items that
nobody has answered.

Items are integrated out under a Gaussian posterior, models' thetas are maximised (variational
EM with Polya-Gamma weights): with w(c) = tanh(c / 2) / (2 c) and c_ij^2 = E[logit_ij^2] every
update is a weighted least-squares problem in closed form and no update lowers the bound, so
nothing has to be damped and there is no random number: it starts from a singular value
decomposition. mu and Sigma of every benchmark are learnt, which switches off dimensions that the
data do not need.

Logits do not change when theta is rotated; the axes given are the principal axes of the models'
part of the logits (of sum_j E[a_j a_j']), largest first, each with the sign
that makes theta rise with the model's mean score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from thetascope.predictors.irt_fit import Responses, inverse
from thetascope.predictors.logit_space import logit_variance
from thetascope.predictors.text_prior import TextPrior

Array = NDArray[np.float64]

_CELLS = 1 << 19
_POOLED_ITEMS = 50.0
"""Items' worth of the pooled covariance in a benchmark's own."""


@dataclass
class FittedMIRT:
    """A fitted MIRT.

    Attributes:
        theta: (M, d).
        theta_variance: (M, d, d) posterior covariance.
        z: (N, d + 1) discriminations and intercept.
        covariance: (N, d + 1, d + 1) of z.
        item_mean: (N, d + 1) prior mean of every item.
        mean: (B, d + 1) prior mean by benchmark.
        sigma: (B, d + 1, d + 1) prior covariance by benchmark.
        iterations, converged: As in `irt_fit.Fitted`.
    """

    theta: Array
    theta_variance: Array
    z: Array
    covariance: Array
    item_mean: Array
    mean: Array
    sigma: Array
    text: TextPrior | None = None
    iterations: int = 0
    converged: bool = False


def fit_mirt(
    data: Responses,
    dim: int,
    vectors: NDArray[np.float32] | None = None,
    *,
    max_iterations: int = 200,
    tolerance: float = 2e-3,
) -> FittedMIRT:
    """Fits MIRT with `dim` dimensions.

    Args:
        data: The responses; their chance levels are not used.
        dim: d.
        vectors: (N, D) text vectors for the prior mean of the items; None for none.
        max_iterations: Most rounds.
        tolerance: Change of theta (root of the mean square) at which the rounds end.
    """
    state = _start(data, dim)
    if vectors is not None:
        state.text = TextPrior(vectors, data.benchmark, len(state.mean))
    for iteration in range(1, max_iterations + 1):
        before = state.theta.copy()
        _update(data, state)
        _update_priors(data, state)
        state.iterations = iteration
        if np.sqrt(np.mean(np.square(state.theta - before))) < tolerance:
            state.converged = True
            break
    _to_principal_axes(data, state)
    return state


def _start(data: Responses, dim: int) -> FittedMIRT:
    n, m = data.score.shape
    weight = data.weight.astype(np.float64)
    overall = (data.score * weight).sum() / max(weight.sum(), 1)
    item_mean = ((data.score * weight).sum(1) + overall) / (weight.sum(1) + 1)
    residual = np.where(weight > 0, data.score - item_mean[:, None], 0.0)
    _, _, right = np.linalg.svd(residual.T @ residual, hermitian=True)
    kept = min(dim, m)
    theta = np.zeros((m, dim))
    theta[:, :kept] = right[:kept].T * np.sqrt(m)
    theta *= np.sign((theta * residual.sum(axis=0)[:, None]).sum(axis=0) + 1e-12)
    z = np.zeros((n, dim + 1))
    z[:, 0] = 1.0
    z[:, dim] = logit(np.clip(item_mean, 0.02, 0.98))
    width = int(data.benchmark.max(initial=0)) + 1
    mean = np.zeros((width, dim + 1))
    mean[:, 0] = 1.0
    sigma = np.tile(np.diag([*[0.25] * dim, 2.0]), (width, 1, 1))
    return FittedMIRT(
        theta,
        np.zeros((m, dim, dim)),
        z,
        np.tile(sigma[0], (n, 1, 1)),
        mean[data.benchmark],
        mean,
        sigma,
    )


def _update(data: Responses, state: FittedMIRT) -> None:
    """Posterior of every item, then every theta from all of them."""
    m, d = state.theta.shape
    x = np.concatenate([state.theta, np.ones((m, 1))], axis=1)  # (M, d + 1)
    pairs = (x[:, :, None] * x[:, None, :]).reshape(m, -1)
    prior = inverse(state.sigma)
    information = np.tile(np.eye(d), (m, 1, 1)).reshape(m, -1)
    right = np.zeros((m, d))
    step = max(1, _CELLS // max(m, 1))
    for start in range(0, len(state.z), step):
        part = slice(start, min(start + step, len(state.z)))
        weight = data.weight[part].astype(np.float64)
        kappa = weight * (data.score[part] - 0.5)
        b = data.benchmark[part]
        omega = weight * _omega(x, state.z[part], state.covariance[part])
        precision = (omega @ pairs).reshape(-1, d + 1, d + 1) + prior[b]
        covariance = inverse(precision)
        pull = np.einsum("nij,nj->ni", prior[b], state.item_mean[part])
        z = np.einsum("nij,nj->ni", covariance, kappa @ x + pull)
        state.z[part], state.covariance[part] = z, covariance
        omega = weight * _omega(x, z, covariance)
        second = covariance + z[:, :, None] * z[:, None, :]
        information += omega.T @ second[:, :d, :d].reshape(len(z), -1)
        right += kappa.T @ z[:, :d] - omega.T @ second[:, :d, d]
    precision = information.reshape(m, d, d)
    state.theta_variance = inverse(precision)
    state.theta = np.einsum("mij,mj->mi", state.theta_variance, right)


def _omega(x: Array, z: Array, covariance: Array) -> Array:
    """(n, M) Polya-Gamma means tanh(c / 2) / (2 c), c^2 = E[logit^2]."""
    c = np.sqrt(np.maximum((z @ x.T) ** 2 + logit_variance(x, covariance), 1e-12))
    return np.tanh(c / 2) / (2 * c)


def _update_priors(data: Responses, state: FittedMIRT) -> None:
    """mu_b, f and Sigma_b; a benchmark's Sigma is drawn towards the pooled one."""
    n, k = state.z.shape
    width = len(state.mean)
    member = np.zeros((width, n))
    member[data.benchmark, np.arange(n)] = 1.0
    count = member.sum(axis=1)
    state.mean = (member @ state.z) / np.maximum(count, 1)[:, None]
    gap = state.z - state.mean[data.benchmark]
    spread = np.zeros((width, k, k))
    state.item_mean = state.mean[data.benchmark]
    if state.text is not None:
        noise = np.einsum("b,bkk->k", count / n, state.sigma)
        fitted, variance = state.text.fit(gap, np.maximum(noise, 1e-6))
        state.item_mean = state.item_mean + fitted
        gap = gap - fitted
        spread[:, np.arange(k), np.arange(k)] = variance
    outer = (state.covariance + gap[:, :, None] * gap[:, None, :]).reshape(n, k * k)
    spread += (member @ outer).reshape(width, k, k)
    pooled = (spread.sum(axis=0) + np.eye(k)) / (n + 2.0)
    state.sigma = (spread + _POOLED_ITEMS * pooled) / (count + _POOLED_ITEMS)[:, None, None]


def _to_principal_axes(data: Responses, state: FittedMIRT) -> None:
    """Rotates theta and a; the prior of theta and every logit stay as they are."""
    d = state.theta.shape[1]
    a = state.z[:, :d]
    spread = a.T @ a + state.covariance[:, :d, :d].sum(axis=0)
    _, axes = np.linalg.eigh(spread)
    axes = axes[:, ::-1]
    weight = data.weight.astype(np.float64)
    means = (data.score * weight).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-9)
    turned = state.theta @ axes
    lean = ((means - means.mean())[:, None] * (turned - turned.mean(axis=0))).sum(axis=0)
    axes = axes * np.where(lean < 0, -1.0, 1.0)
    whole = np.eye(d + 1)
    whole[:d, :d] = axes
    state.theta = state.theta @ axes
    state.theta_variance = axes.T @ state.theta_variance @ axes
    state.z, state.mean, state.item_mean = (
        v @ whole for v in (state.z, state.mean, state.item_mean)
    )
    state.covariance = whole.T @ state.covariance @ whole
    state.sigma = whole.T @ state.sigma @ whole
    if state.text is not None:
        state.text.weights = state.text.weights @ whole
        # Independent errors of equal shape stay independent only along the old axes; their
        # variances are carried over as those of the rotated sums.
        state.text.variances = state.text.variances @ np.square(whole)

"""Item residuals of JE-IRT: what an item's responses say beyond its text.

    q_j = adapter(e_j) + delta_j,   delta_j ~ N(0, tau^2 I)

The second of two stages: adapter, model table, offset and floor are frozen, so every item is a
problem of its own and an item without responses keeps delta_j = 0. delta_j is the MAP estimate
by Fisher scoring with step halving, (S^-1 + J' W J) step = gradient, solved in the M x M dual.
With e the direction of q, c_i = e . m_i and a_i = u . m_i the derivative of logit i by q is
(m_i - c_i e) / r across e and -1 along it (next to q = 0, where u is shorter than 1,
c_i (1 - |u|^2) / r - |u|). S is the prior's tau^2 along e and 1 / (tau^-2 + k) across it:
k = max(0, sum_i pull_i (r + a_i)) / r^2 is the curvature of norm and direction themselves, which
Fisher scoring leaves out and without which steps overshoot near q = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from thetascope.predictors.base import Sample

Array = NDArray[np.float64]

TAUS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0)
"""Standard deviations tried after 0 (no residual), rising, until one is worse than the last."""
TRIED_ITEMS = 2000
"""Of more items with held-out responses some so many, evenly spaced, choose tau."""
MAX_STEPS = 15
TOLERANCE = 1e-5
"""Relative rise of an item's objective below which it has converged."""
GUARD = 1e-6
"""eps of the norm sqrt(|q|^2 + eps^2)."""
SMOOTH = (0.3, 0.1, 0.03, 0.01)
"""eps on the way there: an item that everybody answers is pulled to q = 0, the kink of the norm,
where no step can turn it any more before its direction has settled."""
_EDGE = 1e-9
_ROWS = 512


HELD_OUT = 0.1
"""Share of the training responses that tau is chosen on where none are given for it."""
Held = tuple[Array, Array]
"""(N, M) scores and weights of held-out responses; weight 0 where there is none."""


class Frozen(NamedTuple):
    """What the first stage learnt of n items and M models.

    Attributes:
        q: (n, d) adapter(e_j).
        models: (M, d) m_i.
        base: (n, M) o_ib + c; zeros without the offset.
        floor: (n, M) f_ij, or None.
    """

    q: Array
    models: Array
    base: Array
    floor: Array | None = None

    def take(self, rows: Any) -> Frozen:
        """Of the items at these rows."""
        floor = None if self.floor is None else self.floor[rows]
        return Frozen(self.q[rows], self.models, self.base[rows], floor)

    def logits(self, delta: Array, guard: float = GUARD) -> tuple[Array, Array, Array]:
        """(n, M) logits at q + delta, with u (n, d) and r (n, 1)."""
        q = self.q + delta
        r = np.sqrt(np.square(q).sum(axis=1, keepdims=True) + guard**2)
        u = q / r
        return self.base + u @ self.models.T - r, u, r

    def chances(self, delta: Array, guard: float = GUARD) -> Array:
        """(n, M) P."""
        p = expit(self.logits(delta, guard)[0])
        return p if self.floor is None else self.floor + (1 - self.floor) * p


@dataclass(frozen=True)
class Residuals:
    """What was learnt of items beyond their texts.

    Attributes:
        ids: n item ids.
        values: (n, d) delta_j.
        tau: Standard deviation of the prior, chosen on held-out responses; 0 for no residual.
    """

    ids: tuple[str, ...]
    values: NDArray[np.float32]
    tau: float

    def of(self, ids: tuple[str, ...]) -> NDArray[np.float32]:
        """(N, d) residuals of these items; 0 for an item that is not known."""
        place = {item: row for row, item in enumerate(self.ids)}
        rows = np.array([place.get(item, -1) for item in ids], np.int64)
        out = np.zeros((len(ids), self.values.shape[1]), np.float32)
        out[rows >= 0] = self.values[rows[rows >= 0]]
        return out


def learn_residuals(frozen: Frozen, train: Sample, held: Held | None, seed: int = 0) -> Residuals:
    """The second stage: tau by held-out responses to known items, then all that is learnt from.

    Args:
        frozen: The first stage's items, those of `train`.
        train: What is learnt from.
        held: Held-out responses to the same items (`warm_part`); None to hold out a random
            tenth of the training responses while tau is chosen.
        seed: Of that tenth.
    """
    score = train.responses.filled().astype(np.float64)
    weight = known = weights_of(train)
    if held is None:
        out = np.random.default_rng(seed).random(weight.shape) < HELD_OUT
        held, known = (score, weight * out), weight * ~out
    tau, _ = choose_tau(frozen, score, known, held)
    values = fit_residuals(frozen, score, weight, tau)
    return Residuals(train.items.ids, values.astype(np.float32), tau)


def weights_of(sample: Sample) -> NDArray[np.float64]:
    """(N, M) trials behind each score, 0 where there is none."""
    observed = sample.responses.observed.astype(np.float64)
    return observed if sample.responses.weights is None else observed * sample.responses.weights


def warm_part(train: Sample, validation: Sample | None) -> Held | None:
    """Scores and weights, (N, M) each, of validation responses to the N training items that the
    training part does not hold; None where there are none."""
    if validation is None:
        return None
    place = {item: row for row, item in enumerate(train.items.ids)}
    rows = np.array([place.get(item, -1) for item in validation.items.ids], np.int64)
    known = rows >= 0
    score = np.zeros(train.responses.scores.shape)
    weight = np.zeros(score.shape)
    score[rows[known]] = validation.responses.filled()[known]
    weight[rows[known]] = weights_of(validation)[known]
    weight[train.responses.observed] = 0.0  # a small study is its own validation
    return (score, weight) if weight.any() else None


def fit_residuals(frozen: Frozen, score: Array, weight: Array, tau: float) -> Array:
    """MAP estimates of delta_j.

    Args:
        frozen: The first stage's n items.
        score: (n, M) in [0, 1].
        weight: (n, M) trials behind each score, 0 where there is none.
        tau: Standard deviation of the prior; 0 gives zeros.

    Returns:
        (n, d); exactly 0 for an item without a response.
    """
    delta = np.zeros(frozen.q.shape)
    if tau == 0:
        return delta
    answered = np.flatnonzero(weight.any(axis=1))
    for start in range(0, len(answered), _ROWS):
        rows = answered[start : start + _ROWS]
        delta[rows] = _maximise(frozen.take(rows), score[rows], weight[rows], tau)
    return delta


def choose_tau(
    frozen: Frozen, score: Array, weight: Array, held: tuple[Array, Array]
) -> tuple[float, dict[float, float]]:
    """The tau with the least log-loss on held-out responses to the same items.

    Args:
        frozen: The first stage's n items.
        score, weight: (n, M) what is learnt from.
        held: (n, M) scores and weights of the held-out responses.

    Returns:
        tau (0 where no residual helps, or nothing is held out), and tau -> mean log-loss.
    """
    truth, count = held
    total = count.sum()
    if total == 0:
        return 0.0, {}
    rows = np.flatnonzero(count.any(axis=1))
    rows = rows[:: max(1, len(rows) // TRIED_ITEMS)]
    total = count[rows].sum()
    part, truth, count = frozen.take(rows), truth[rows], count[rows]
    losses: dict[float, float] = {}
    for tau in (0.0, *TAUS):
        delta = fit_residuals(part, score[rows], weight[rows], tau)
        losses[tau] = float(-(count * _log_likelihood(part.chances(delta), truth)).sum() / total)
        if losses[tau] > min(losses.values()):
            break
    return min(losses, key=lambda tau: losses[tau]), losses


def objective(
    frozen: Frozen, delta: Array, score: Array, weight: Array, tau: float, guard: float = GUARD
) -> Array:
    """(n,) log posterior of each item's delta, without its constant."""
    fit = (weight * _log_likelihood(frozen.chances(delta, guard), score)).sum(axis=1)
    return fit - np.square(delta).sum(axis=1) / (2 * tau**2)


def _log_likelihood(p: Array, score: Array) -> Array:
    p = np.clip(p, _EDGE, 1 - _EDGE)
    return score * np.log(p) + (1 - score) * np.log1p(-p)


def _maximise(frozen: Frozen, score: Array, weight: Array, tau: float) -> Array:
    delta = np.zeros(frozen.q.shape)
    for guard in (*SMOOTH, GUARD):
        delta = _climb(_Items(frozen, score, weight, tau, guard), delta)
    return delta


class _Items(NamedTuple):
    """Some items, what is known of them, the prior, and eps of the norm."""

    frozen: Frozen
    score: Array
    weight: Array
    tau: float
    guard: float

    def take(self, rows: Any) -> _Items:
        frozen = self.frozen.take(rows)
        return self._replace(frozen=frozen, score=self.score[rows], weight=self.weight[rows])

    def value(self, delta: Array) -> Array:
        return objective(self.frozen, delta, self.score, self.weight, self.tau, self.guard)


def _climb(items: _Items, delta: Array) -> Array:
    """Fisher scoring, each item's step halved until its objective rises."""
    delta, value = delta.copy(), items.value(delta)
    active = np.arange(len(delta))
    for _ in range(MAX_STEPS):
        part, before = items.take(active), value[active]
        away = _step(part, delta[active])
        pending, share = np.arange(len(active)), 1.0
        while len(pending) and share > 1e-3:
            rows = active[pending]
            tried = delta[rows] + share * away[pending]
            found = part.take(pending).value(tried)
            better = found > value[rows]
            delta[rows[better]], value[rows[better]] = tried[better], found[better]
            pending, share = pending[~better], share / 2
        active = active[value[active] - before > TOLERANCE * (1 + np.abs(before))]
        if not len(active):
            break
    return delta


def _step(items: _Items, delta: Array) -> Array:
    """(n, d) a whole step, S g - S J' R (1 + R J S J' R)^-1 R J S g, R = sqrt(information)."""
    frozen, m, tau = items.frozen, items.frozen.models, items.tau
    logits, u, r = frozen.logits(delta, items.guard)
    sigma = expit(logits)
    slope, p = sigma * (1 - sigma), sigma
    if frozen.floor is not None:
        slope, p = (1 - frozen.floor) * slope, frozen.floor + (1 - frozen.floor) * sigma
    share = items.weight * slope / np.maximum(p * (1 - p), _EDGE)
    information, pull = share * slope, share * (items.score - p)
    a, size = u @ m.T, np.sqrt(np.square(u).sum(axis=1, keepdims=True))
    e = u / np.maximum(size, _EDGE)
    c = e @ m.T
    bend = np.maximum((pull * (r + a)).sum(axis=1, keepdims=True), 0) / r**2
    across = 1 / (tau**-2 + bend)

    def times_s(v: Array) -> Array:
        along = (v * e).sum(axis=1, keepdims=True) * e
        return across * (v - along) + tau**2 * along

    def times_jt(x: Array) -> Array:
        return (x @ m - (x * a).sum(axis=1, keepdims=True) * u) / r - x.sum(axis=1)[:, None] * u

    straight = times_s(times_jt(pull) - delta / tau**2)
    root = np.sqrt(information)
    sideways, inwards = c / r, c * (1 - size**2) / r - size
    kernel = (across / r**2)[:, :, None] * (m @ m.T)
    kernel -= (across * sideways)[:, :, None] * sideways[:, None, :]
    kernel += tau**2 * inwards[:, :, None] * inwards[:, None, :]
    kernel *= root[:, :, None]
    kernel *= root[:, None, :]
    kernel[:, np.arange(len(m)), np.arange(len(m))] += 1
    along = (straight * u).sum(axis=1, keepdims=True)
    seen = root * ((straight @ m.T - a * along) / r - along)
    back = root * np.linalg.solve(kernel, seen[:, :, None])[:, :, 0]
    return straight - times_s(times_jt(back))

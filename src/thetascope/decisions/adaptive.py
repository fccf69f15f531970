"""Adaptive testing: the next items are those that tell most about the score asked for.

Item j lowers the expected posterior variance of the target by

    sum_b pi_b w_j (g_b' Sigma x_j)^2 / (1 + w_j x_j' Sigma x_j)

with w_j its Fisher information about the logit and g_b the gradient of benchmark b's score.
h = diag(X Sigma X') is kept; after item j: k = X Sigma x_j, h -= w_j k^2 / (1 + w_j h_j), which
is O(N d). Ranking a model against known ones on a benchmark has the same argmax.

Every fifth item is drawn at random (every item where, on left-out models, adaptive choice had
no smaller error: with few known models the items are not known well enough to choose by). The
model-based score S is reported beside its residual correction, S + share of the rest x mean
over random items of (s - P), which no misfit of the space can bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from thetascope.decisions.bank import ItemBank
from thetascope.decisions.posterior import Answers, Gaussian, chances, information
from thetascope.decisions.scores import LEVEL, ScoreEstimate, score_parts
from thetascope.errors import InputError

Array = NDArray[np.float64]

REFRESH = 25
EVERY = 5
"""One item in so many is drawn at random."""
MOST = 1e9
"""Trials behind one answer, at most."""
SURE = 0.95
"""A pair is ranked where the chance of its order is at least this."""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number | np.bool_)


@dataclass(frozen=True)
class Target:
    """What is to be known.

    Attributes:
        weights: Benchmark -> pi_b, summing to 1: the score is their weighted mean.
        against: Known models to rank the new one against; on one benchmark.
        sd: Standard deviation at which the score is known well enough; None for never.
    """

    weights: dict[str, float]
    against: tuple[str, ...] = ()
    sd: float | None = None

    @staticmethod
    def make(
        bank: ItemBank,
        benchmarks: str | Sequence[str] | Mapping[str, float] | None = None,
        against: Sequence[str] = (),
        sd: float | None = None,
    ) -> Target:
        """A target with checked names; None asks for the plain mean over all benchmarks.

        Raises:
            InputError: A name is unknown, a weight is not above 0, or sd is not.
        """
        if benchmarks is None:
            benchmarks = bank.benchmarks
        if isinstance(benchmarks, str):
            benchmarks = [benchmarks]
        given = (
            dict(benchmarks) if isinstance(benchmarks, Mapping) else dict.fromkeys(benchmarks, 1.0)
        )
        for name, weight in given.items():
            bank.benchmark_code(name)
            if not (np.isfinite(weight) and weight > 0):
                raise InputError(f"expected a weight above 0 for {name!r}, found {weight!r}")
        if not given:
            raise InputError("no benchmarks were named")
        for name in against:
            bank.model_index(name)
        if against and len(given) > 1:
            raise InputError("a ranking is on one benchmark; name it")
        if sd is not None and not (np.isfinite(sd) and sd > 0):
            raise InputError(f"expected a standard deviation above 0, found {sd!r}", field="sd")
        total = sum(given.values())
        if not (np.isfinite(total) and min(given.values()) / total > 0):
            raise InputError("the weights are too far apart, or too large")
        return Target({k: v / total for k, v in given.items()}, tuple(against), sd)


@dataclass(frozen=True)
class Progress:
    """What an adaptive test knows.

    Attributes:
        score: The target's estimate; its benchmark is 'mean' for several.
        corrected: S with its residual correction; None without a random item answered.
        corrected_sd: Standard error of the correction.
        pairs: Known model -> chance that the new model scores higher.
        done: Whether the target is reached.
    """

    score: ScoreEstimate
    corrected: float | None
    corrected_sd: float | None
    pairs: dict[str, float]
    done: bool

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {**self.__dict__, "score": self.score.to_json()}


class _View:
    """h = diag(X Sigma X') and X Sigma g', and what an item's answer takes from them."""

    def __init__(self, x: NDArray[Any], sigma: Array, h: Array, gain_to: Array) -> None:
        self.x, self.sigma, self.h, self.gain_to = x, sigma, h, gain_to
        self.lowered: list[tuple[Array, float]] = []

    def lower(self, j: int, w: float, *, keep: bool = True) -> None:
        """Takes item j's information w in, O(N (d + items kept)).

        With `keep` Sigma stays and the update is remembered, else Sigma itself is updated.
        """
        v = self.sigma @ self.x[j].astype(np.float64)
        k = (self.x @ v.astype(self.x.dtype)).astype(np.float64)  # X Sigma x_j
        for column, factor in self.lowered:
            k -= factor * column * column[j]
        factor = w / (1 + w * self.h[j])
        self.h = self.h - factor * k * k
        self.gain_to = self.gain_to - factor * k[:, None] * self.gain_to[j]
        if keep:
            self.lowered.append((k, factor))
        else:
            self.sigma = self.sigma - factor * np.outer(v, v)


@dataclass
class AdaptiveTest:
    """A test that is given batch by batch.

    Attributes:
        bank: The item bank.
        target: What is to be known.
        seed: Of the random items.
        every: One item in so many is random; 0 for none, None for what the bank found best.
        answered: Item id -> score.
        trials: Item id -> trials behind it.
        random: Ids that were drawn at random.
        pending: Ids given out and not answered yet.
        model: Name of the model that answered, where it is known.
        every_by_bank: Whether `every` is what the bank found best.
    """

    bank: ItemBank
    target: Target
    seed: int = 0
    every: int | None = None
    answered: dict[str, float] = field(default_factory=dict[str, float])
    trials: dict[str, float] = field(default_factory=dict[str, float])
    random: list[str] = field(default_factory=list[str])
    pending: list[str] = field(default_factory=list[str])
    model: str | None = None
    every_by_bank: bool = field(default=False, init=False)
    _posterior: Gaussian | None = field(default=None, init=False, repr=False)
    _start: Array | None = field(default=None, init=False, repr=False)
    _cache: _View | None = field(default=None, init=False, repr=False)
    _counted: set[str] = field(default_factory=set[str], init=False, repr=False)
    _renew: int = field(default=0, init=False, repr=False)
    _phi: float = field(default=1.0, init=False, repr=False)

    def __post_init__(self) -> None:
        items = self.bank.space
        codes = [self.bank.benchmark_code(b) for b in self.target.weights]
        if self.every is None:
            found = self.bank.every
            self.every_by_bank = found is not None
            self.every = EVERY if found is None else int(found[codes].max())
        self._rows = np.flatnonzero(np.isin(items.benchmark, codes))
        self._part = self.bank.space.take(self._rows)
        self._code = np.array([codes.index(b) for b in items.benchmark[self._rows]], np.int64)
        self._pi = np.array(list(self.target.weights.values()))
        self._size = np.bincount(self._code, minlength=len(codes)).astype(np.float64)
        self._place = {item: j for j, item in enumerate(self._part.ids)}

    @property
    def answers(self) -> Answers:
        """All answers so far, also those outside the target's benchmarks."""
        ids = list(self.answered)
        rows = np.array([self.bank.row(i) for i in ids], np.int64)
        score = np.array([self.answered[i] for i in ids], np.float64)
        return Answers(rows, score, np.array([self.trials.get(i, 1.0) for i in ids], np.float64))

    def posterior(self) -> Gaussian:
        """Of the model's vector, given all answers."""
        if self._posterior is None:
            answers = self.answers
            found = self.bank.posterior(answers, self._start)
            phi = self.bank.dispersion(answers, found.mean)
            self._start, self._phi = found.mean, phi
            self._posterior = Gaussian(found.mean, found.covariance * phi)
        return self._posterior

    def next(self, n: int = 1) -> list[str]:
        """The next n items; fewer where the benchmark has no more.

        Items given out before and not answered yet come first.

        Raises:
            InputError: n is below 1.
        """
        if n < 1:
            raise InputError(f"expected 1 item or more, found {n}", field="n")
        fresh = n - len(self.pending)
        if fresh > 0:
            self.pending += self._choose(fresh)
        return self.pending[:n]

    def answer(
        self,
        scores: Mapping[str, float],
        trials: Mapping[str, float] | None = None,
        *,
        model: str | None = None,
    ) -> None:
        """Takes answers in, to items given out or to any others of the bank.

        Raises:
            InputError: An item is not in the bank or was answered with another score before;
                a score is not in [0, 1]; trials are not above 0 and at most `MOST`, or of an
                item without an answer; the model is another one than before.
        """
        if model is not None and self.model not in (None, model):
            raise InputError(
                f"the test holds answers of model {self.model!r}, these are of {model!r}",
                fix="one test, and one state file, for each model",
            )
        for item, score in scores.items():
            if self.bank.row(item) < 0:
                raise InputError(f"the study has no item {item!r}")
            if not (_is_number(score) and 0 <= score <= 1):  # NaN too
                raise InputError(f"expected a score from 0 to 1, found {score!r} for {item!r}")
            if self.answered.get(item, score) != score:
                raise InputError(
                    f"{item!r} was answered with {self.answered[item]:g} before, now {score:g}"
                )
        for item, count in (trials or {}).items():
            if not (_is_number(count) and 0 < count <= MOST):
                raise InputError(
                    f"expected trials above 0 and at most {MOST:g}, found {count!r} for {item!r}"
                )
            if item not in scores and item not in self.answered:
                raise InputError(f"there are trials but no score for {item!r}")
        if scores and model is not None:
            self.model = model
        self.answered.update({k: float(v) for k, v in scores.items()})
        self.trials.update({k: float(v) for k, v in (trials or {}).items()})
        self.pending = [p for p in self.pending if p not in self.answered]
        self._posterior = None

    def progress(self, level: float = LEVEL) -> Progress:
        """The target's estimate, and whether it is known well enough."""
        score = self._score(level)
        corrected, error = self._corrected(score)
        pairs = self._pairs(score)
        done = self.target.sd is not None and score.sd <= self.target.sd
        if pairs:
            done = done or all(max(p, 1 - p) >= SURE for p in pairs.values())
        return Progress(score, corrected, error, pairs, done)

    def _choose(self, n: int) -> list[str]:
        part, posterior = self._part, self.posterior()
        x = part.design
        p, slope = chances(self._times(posterior.mean) + part.intercept, part.chance)
        w = information(p, slope) / self._phi
        taken = np.zeros(len(part), bool)
        taken[[self._place[i] for i in (*self.answered, *self.pending) if i in self._place]] = True
        rest = np.ones(len(part), bool)
        rest[[self._place[i] for i in self.answered if i in self._place]] = False
        g = np.stack(
            [
                (slope * (rest & (self._code == b))).astype(x.dtype) @ x / size
                for b, size in enumerate(self._size)
            ]
        ).astype(np.float64)  # (B, d)
        to_target = self._times(posterior.covariance @ g.T)
        view = _View(x, posterior.covariance, self._variance(w), to_target)
        for j in (self._place[i] for i in self.pending if i in self._place):
            view.lower(j, w[j])
        chosen: list[str] = []
        for _ in range(min(n, int((~taken).sum()))):
            number = len(self.answered) + len(self.pending) + len(chosen)
            if self.every and number % self.every == self.every - 1:
                j = self._draw(taken, number)
                self.random.append(part.ids[j])
            else:
                gain = w * (np.square(view.gain_to) @ self._pi) / (1 + w * view.h)
                j = int(np.argmax(np.where(taken, -np.inf, gain)))
            taken[j] = True
            chosen.append(part.ids[j])
            if len(chosen) < n:
                view.lower(j, w[j])
        return chosen

    def _times(self, v: Array) -> Array:
        """X v, in the precision of X."""
        return (self._part.design @ v.astype(self._part.design.dtype)).astype(np.float64)

    def _variance(self, w: Array) -> Array:
        """(N,) h = diag(X Sigma X'), updated by the items answered since it was made.

        The update is O(N d) an item and counts an answer's information as it was when it came;
        every `REFRESH` answers, and for answers to items of other benchmarks, h is made anew.
        """
        new = [i for i in self.answered if i not in self._counted]
        inside = all(i in self._place for i in new)
        if self._cache is None or not inside or len(self._counted) + len(new) >= self._renew:
            sigma = self.posterior().covariance
            x = self._part.design
            h = np.einsum("nd,nd->n", x @ sigma.astype(x.dtype), x).astype(np.float64)
            self._cache = _View(x, sigma, h, np.zeros((len(x), 0)))
            self._renew = len(self.answered) + REFRESH
        else:
            for item in new:
                j = self._place[item]
                self._cache.lower(j, w[j] * self.trials.get(item, 1.0), keep=False)
        self._counted.update(new)
        return self._cache.h.copy()

    def _draw(self, taken: NDArray[np.bool_], number: int) -> int:
        """An item at random: a benchmark by its weight, then an item of it evenly."""
        rng = np.random.default_rng((self.seed, number))
        weight = (self._pi / self._size)[self._code] * ~taken
        return int(rng.choice(len(weight), p=weight / weight.sum()))

    def _score(self, level: float) -> ScoreEstimate:
        posterior, answers = self.posterior(), self.answers
        space, items = self.bank.space, self.bank.space
        value = noise = misfit = certain = rest = 0.0
        gradient, n_answered, n_items = np.zeros(space.dim), 0, 0
        here = np.isin(answers.rows, self._rows)
        for name, pi in self.target.weights.items():
            b = self.bank.benchmark_code(name)
            rows = np.flatnonzero(items.benchmark == b)
            parts = score_parts(space, posterior.mean, answers, rows, self._phi)
            value += pi * parts.value
            gradient += pi * parts.gradient
            noise += pi**2 * parts.noise
            misfit += (pi * self.bank.misfit[b] * parts.rest) ** 2
            certain += pi * answers.score[np.isin(answers.rows, rows)].sum() / len(rows)
            rest += pi * parts.rest
            n_answered += int(np.isin(answers.rows, rows).sum())
            n_items += len(rows)
        sd = float(np.sqrt(gradient @ posterior.covariance @ gradient + noise + misfit))
        reach = float(norm.ppf((1 + level) / 2)) * sd
        name = next(iter(self.target.weights)) if len(self.target.weights) == 1 else "mean"
        mean = float(answers.score[here].mean()) if here.any() else float("nan")
        return ScoreEstimate(
            name, float(value), max(value - reach, float(certain)),
            min(value + reach, float(certain + rest)), sd, n_answered, n_items, mean,
        )  # fmt: skip

    def _corrected(self, score: ScoreEstimate) -> tuple[float | None, float | None]:
        drawn = [i for i in self.random if i in self.answered]
        if not drawn:
            return None, None
        rows = np.array([self.bank.row(i) for i in drawn], np.int64)
        space = self.bank.space
        floor = None if space.chance is None else space.chance[rows]
        mean = self.posterior().mean
        p = chances(space.design[rows] @ mean + space.intercept[rows], floor)[0]
        residual = np.array([self.answered[i] for i in drawn]) - p
        rest = 1 - score.n_answered / score.n_items
        error = float(np.sqrt((p * (1 - p)).mean() / len(drawn))) * rest
        return score.value + rest * float(residual.mean()), error

    def _pairs(self, score: ScoreEstimate) -> dict[str, float]:
        out: dict[str, float] = {}
        if not self.target.against:
            return out
        b = self.bank.benchmark_code(next(iter(self.target.weights)))
        for name in self.target.against:
            i = self.bank.model_index(name)
            answers = self.bank.known_answers(i)
            known = self.bank.score(self.bank.posterior(answers), answers, b)
            sd = float(np.hypot(score.sd, known.sd))
            gap = score.value - known.value
            out[name] = float(norm.cdf(gap / sd)) if sd > 0 else float(gap > 0)
        return out

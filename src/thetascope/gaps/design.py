"""Which items to add to a benchmark, or to keep of it: concepts covered and models told apart.

For a set S of items,

    F(S) = sum_c w_c min(1, n_c(S) / k_c) + lambda log det(I + S0^1/2 (sum_S w_j x_j x_j') S0^1/2)

n_c: items of S on which concept c is active; k_c: as many as it should have; x_j, w_j, S0: an
item's design vector, its information averaged over the known models, and the prior of a model's
vector, from an item bank or a fitted space. Both terms are monotone and submodular (the log
determinant is the information about a new model; its posterior variance would not be
submodular), so the greedy choice has at least 1 - 1/e of the best possible gain (Nemhauser,
Wolsey and Fisher 1978). How good it is on the data at hand is bounded by

    best <= F(S) + sum of the k largest gains that single items would still add

Greedy is lazy (Minoux 1978): gains only fall, so an item whose old gain is below another's new
one is not looked at again.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.decisions.posterior import chances, information
from thetascope.gaps.data import Array
from thetascope.predictors.logit_space import LogitSpace

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Goal:
    """What a set of the N candidate items is worth.

    Attributes:
        active: (N, C) 1 where a concept is active on an item.
        weight: (C,) w_c.
        needed: (C,) k_c, above 0.
        held: (C,) items on which each concept is active already, before any is chosen.
        information: lambda times what makes the log determinant's unit; 0 for none.
        root: (N, d) sqrt(w_j) S0^1/2 x_j, or None.
        start: (d, d) I + sum over the items that are there already of root_j root_j'.
    """

    active: csr_matrix
    weight: Array
    needed: Array
    held: Array
    information: float = 0.0
    root: Array | None = None
    start: Array | None = None

    def __len__(self) -> int:
        return self.active.shape[0]

    def value(self, items: Rows) -> float:
        """F of these candidates together with what is there already."""
        return self.coverage(items) + self.information * self.log_det(items)

    def coverage(self, items: Rows) -> float:
        """sum_c w_c min(1, n_c / k_c)."""
        count = self.held + np.asarray(self.active[items].sum(axis=0)).ravel()
        return float(self.weight @ np.minimum(1.0, count / self.needed))

    def log_det(self, items: Rows) -> float:
        """The log determinant; 0 without design vectors."""
        if self.root is None:
            return 0.0
        x = self.root[items]
        return float(np.linalg.slogdet(self._begin() + x.T @ x)[1])

    def _begin(self) -> Array:
        assert self.root is not None
        return np.eye(self.root.shape[1]) if self.start is None else self.start


class Chosen(NamedTuple):
    """A greedy choice.

    Attributes:
        items: (k,) candidates in the order in which they were chosen.
        gains: (k,) what each added to F.
        value: F(S).
        before: F of what is there already.
        bound: The best F of any k candidates is not above it.
        looked_at: Gains that were computed; k N without laziness.
    """

    items: Rows
    gains: Array
    value: float
    before: float
    bound: float
    looked_at: int

    @property
    def share(self) -> float:
        """At least this share of the best possible gain was reached.

        By the bound, or by the guarantee of k greedy steps, 1 - (1 - 1/k)^k.
        """
        best, k = self.bound - self.before, max(len(self.items), 1)
        return 1.0 if best <= 0 else max((self.value - self.before) / best, 1 - (1 - 1 / k) ** k)


class _State:
    """F of a growing set, and what one more item adds."""

    def __init__(self, goal: Goal) -> None:
        self.goal, self.count = goal, goal.held.astype(np.float64)
        self.inverse: Array | None = None
        if goal.root is not None and goal.information > 0:
            self.inverse = np.asarray(np.linalg.inv(goal._begin()), np.float64)

    def gain(self, j: int) -> float:
        goal = self.goal
        start, end = goal.active.indptr[j : j + 2]
        on = goal.active.indices[start:end]
        more = np.minimum(1.0, (self.count[on] + 1) / goal.needed[on])
        now = np.minimum(1.0, self.count[on] / goal.needed[on])
        out = float(goal.weight[on] @ (more - now))
        if self.inverse is not None and goal.root is not None:
            x = goal.root[j]
            out += goal.information * float(np.log1p(x @ self.inverse @ x))
        return out

    def add(self, j: int) -> None:
        goal = self.goal
        start, end = goal.active.indptr[j : j + 2]
        self.count[goal.active.indices[start:end]] += 1
        if self.inverse is not None and goal.root is not None:
            x = goal.root[j]
            k = self.inverse @ x
            self.inverse -= np.outer(k, k) / (1 + x @ k)


def choose(goal: Goal, k: int) -> Chosen:
    """Chooses k candidates greedily; all where there are no more. Ties fall to the earlier one.

    Args:
        goal: What a set is worth.
        k: How many.
    """
    state = _State(goal)
    k = min(k, len(goal))
    heap = [(-state.gain(j), j, 0) for j in range(len(goal))]
    heapq.heapify(heap)
    looked = len(heap)
    items: list[int] = []
    gains: list[float] = []
    while len(items) < k:
        gain, j, known = heapq.heappop(heap)
        if known != len(items):
            heapq.heappush(heap, (-state.gain(j), j, len(items)))
            looked += 1
            continue
        state.add(j)
        items.append(j)
        gains.append(-gain)
    chosen = np.array(items, np.int64)
    before = goal.value(chosen[:0])
    rest = np.setdiff1d(np.arange(len(goal)), chosen)
    still = np.sort([state.gain(j) for j in rest.tolist()])[::-1][:k]
    value = goal.value(chosen)
    return Chosen(chosen, np.array(gains), value, before, value + float(np.sum(still)), looked)


def with_information(
    goal: Goal, space: LogitSpace, covariance: Array, candidates: Rows, there: Rows, share: float
) -> Goal:
    """The goal with the log determinant, in units of what all candidates would add.

    Args:
        goal: With the concepts.
        space: Items and known models.
        covariance: (d, d) S0 of a new model.
        candidates: (N,) rows of the candidates in the space.
        there: Rows of the items that are there already.
        share: Weight: 1 makes knowing all that the candidates can tell worth as much as
            covering every concept that is asked for (weights that sum to 1).
    """
    known, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(known, 0))) @ vectors.T
    weight = mean_information(space)
    x = (np.asarray(space.design, np.float64) @ root) * np.sqrt(weight)[:, None]
    start = np.eye(x.shape[1]) + x[there].T @ x[there]
    found = replace(goal, root=x[candidates], start=start, information=1.0)
    all_of_it = found.log_det(np.arange(len(candidates))) - found.log_det(np.zeros(0, np.int64))
    if all_of_it <= 1e-12:
        return goal
    return replace(found, information=share / all_of_it)


def mean_information(space: LogitSpace) -> Array:
    """(N,) wbar_j, an answer's Fisher information on the logit, averaged over known models."""
    total = np.zeros(len(space))
    for theta in space.theta:
        p, slope = chances(space.design @ theta + space.intercept, space.chance)
        total += information(p, slope)
    return total / len(space.theta)

"""The taxonomy that the answers suggest: clusters of item directions at several granularities.

Clustered are the topics (u_j - ubar)/|u_j - ubar|: raw directions are nearly one ray. The number
of clusters is the largest whose clusters come back (with 200 items a cluster on average, so that
each holds some twenty on which its models can be tested): two trees are grown on two random
halves of the near-duplicate groups, both label all items, and their adjusted Rand index is
averaged over pairs of halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control
from sklearn.metrics import adjusted_rand_score

from thetascope.errors import InputError
from thetascope.evaluation import Estimate
from thetascope.predictors.runs import Progress
from thetascope.space.agreement import Agreement, agreement
from thetascope.space.clusters import Tree, grow
from thetascope.space.fitted import Space, unit
from thetascope.space.naming import names
from thetascope.space.profile import Profile, profile
from thetascope.study import ResponseMatrix

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
LEVELS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32)
STABLE = 0.6
"""Least mean adjusted Rand index of two halves' clusterings that counts as coming back."""
PAIRS, N_NEAREST = 8, 12
ROOM = 200
"""Items a cluster, on average, that the choice of a number leaves."""
FEWEST, FEWEST_TESTED = 40, 10
"""Items under which nothing is clustered, and tested items under which a cluster's models are
not told apart."""


@dataclass(frozen=True)
class Level:
    """One granularity.

    Attributes:
        k: Clusters.
        stability: Mean adjusted Rand index of two halves' clusterings; least and greatest pair.
    """

    k: int
    stability: Estimate


@dataclass(frozen=True)
class Cluster:
    """One cluster at the chosen granularity.

    Attributes:
        code: 0 for the largest.
        name: Its strongest terms (c-TF-IDF), or '' where the study has no texts.
        n_items: Items in it.
        subjects: Its commonest subjects (or benchmarks) with their share, three at most.
        nearest: Items nearest to its centre, twelve at most.
        error: Mean observed error over its items' responses.
        n_tested, p, q: Test that its models part from their subject profile (`profile`).
        above, below: Models furthest from their profile there, with deviation and its standard
            error in score units, three each.
    """

    code: int
    name: str
    n_items: int
    subjects: list[tuple[str, float]]
    nearest: list[str]
    error: float
    n_tested: int
    p: float
    q: float
    above: list[tuple[str, float, float]]
    below: list[tuple[str, float, float]]


@dataclass(frozen=True)
class Taxonomy:
    """Clusters of a study's items.

    Attributes:
        n_items, n_left_out: Clustered; without a text vector.
        ray: |ubar|, 1 where all directions are one.
        tree: The nested clustering.
        levels: Granularities and how stable each is.
        k: The chosen one.
        chosen_by: 'stability', 'user', or 'default' where no granularity came back.
        labels: (N,) cluster of each item at the chosen one.
        clusters: Its clusters.
        kind: Labels that the clusters are compared with, 'subject' or 'benchmark'; '' for none.
        n_labels: How many of them.
        agreement: 'space' and 'text' (raw text vectors clustered the same way), each at as many
            clusters as there are labels; 'chosen': the space at the chosen granularity.
    """

    n_items: int
    n_left_out: int
    ray: float
    tree: Tree
    levels: list[Level]
    k: int
    chosen_by: str
    labels: Codes
    clusters: list[Cluster]
    kind: str
    n_labels: int
    agreement: dict[str, Agreement]

    def to_json(self) -> dict[str, Any]:
        """Plain objects; the items' clusters are in a table beside it."""
        return {
            "n_items": self.n_items,
            "n_left_out": self.n_left_out,
            "ray": self.ray,
            "levels": [{"k": v.k, "stability": list(v.stability)} for v in self.levels],
            "k": self.k,
            "chosen_by": self.chosen_by,
            "clusters": [
                {k: None if v != v else v for k, v in vars(c).items()} for c in self.clusters
            ],
            "kind": self.kind,
            "n_labels": self.n_labels,
            "agreement": {k: v._asdict() for k, v in self.agreement.items()},
        }


def taxonomy(
    space: Space, responses: ResponseMatrix, texts: Sequence[str | None], group: Codes,
    untrained: NDArray[np.bool_], *, k: int | None = None, seed: int = 0,
    progress: Progress | None = None,
) -> Taxonomy:  # fmt: skip
    """Clusters N items by what they are about.

    Args:
        space: N items in a fitted space.
        responses: Of the same N items.
        texts: N texts, None where there is none; they name the clusters.
        group: (N,) near-duplicate group.
        untrained: (N,) items whose responses the fit did not learn from: the models' profiles
            are tested on them.
        k: Clusters; None for as many as are stable.
        seed: Of starts, halves, shuffles and permutations.
        progress: Called with (done, total, what).

    Raises:
        InputError: Fewer than 40 items, or k out of range.
    """
    n = len(space)
    if n < FEWEST:
        raise InputError(f"a taxonomy needs {FEWEST} items with text vectors, the study has {n}")
    tree = grow(space.topic, seed)
    if k is not None and not 2 <= k <= tree.n_leaves:
        raise InputError(f"expected 2 to {tree.n_leaves} for {n:,} items, found {k}", field="k")
    levels = stability(space.topic, group, seed, progress)
    chosen, by = (k, "user") if k is not None else stable_k(levels, n)
    labels = tree.labels(chosen)
    kind, code, shown = human_labels(space)
    found: dict[str, Agreement] = {}
    if kind:
        width = len(np.unique(code))
        text = grow(text_topics(space), seed)
        for name, clusters in (("space", tree.labels(width)), ("text", text.labels(width)),
                               ("chosen", labels)):  # fmt: skip
            if progress is not None:
                progress(len(found), 3, f"agreement with {kind}s")
            found[name] = agreement(clusters, code, group, seed)
    held = np.flatnonzero(untrained)
    tested = profile(
        responses.filled().astype(np.float64)[held], responses.observed[held], labels[held],
        code[held], int(labels.max()) + 1, group[held], seed,
    ) if len(held) > 1 else None  # fmt: skip
    clusters = _clusters(space, responses, texts, labels, code, shown, tested)
    return Taxonomy(
        n, space.n_left_out, float(np.linalg.norm(space.mean_direction)), tree, levels, chosen,
        by, labels, clusters, kind, len(np.unique(code)) if kind else 0, found,
    )  # fmt: skip


def human_labels(space: Space) -> tuple[str, Codes, list[str]]:
    """('subject' | 'benchmark' | '', code of each item, name of each code): the finest labels.

    Subjects where the study has more subjects than benchmarks, else benchmarks where it has two
    or more; '' and one code for all where it has neither.
    """
    items = space.items
    if len(np.unique(items.subject)) > len(np.unique(items.benchmark)):
        one = len(items.benchmarks) == 1
        return "subject", items.subject, [
            s.partition("/")[2] or s if one else s for s in items.subjects
        ]  # fmt: skip
    if len(np.unique(items.benchmark)) > 1:
        return "benchmark", items.benchmark, list(items.benchmarks)
    return "", np.zeros(len(space), np.int64), [""]


def text_topics(space: Space) -> Array:
    """(N, D) raw text vectors, centred and of length 1: what the space has to beat."""
    assert space.items.vectors is not None
    vectors = space.items.vectors.astype(np.float64)
    return unit(vectors - vectors.mean(axis=0))


def stability(
    x: Array, group: Codes, seed: int = 0, progress: Progress | None = None
) -> list[Level]:
    """How well the clusters of every granularity come back from other items.

    Args:
        x: (N, d) unit vectors.
        group: (N,) near-duplicate group: whole in one half.
        seed: Of the halves.
        progress: Called with (done, total, what).
    """
    rng = np.random.default_rng(seed)
    _, local = np.unique(group, return_inverse=True)
    n = int(local.max()) + 1
    found: dict[int, list[float]] = {}
    for pair in range(PAIRS):
        if progress is not None:
            progress(pair, PAIRS, "stability")
        side = np.zeros(n, bool)
        side[rng.permutation(n)[: n // 2]] = True
        first, second = x[side[local]], x[~side[local]]
        if min(len(first), len(second)) < FEWEST // 2:
            continue
        one, two = grow(first, seed), grow(second, seed)
        for k in LEVELS:
            if k <= min(one.n_leaves, two.n_leaves) // 2:
                score = adjusted_rand_score(one.assign(x, k), two.assign(x, k))
                found.setdefault(k, []).append(float(score))
    return [Level(k, Estimate(float(np.mean(v)), min(v), max(v))) for k, v in found.items()]


def stable_k(levels: Sequence[Level], n: int) -> tuple[int, str]:
    """The largest granularity that comes back, and 'stability'; else the best one, and 'default'.

    Args:
        levels: Granularities and their stability.
        n: Items: granularities with under 200 items a cluster are left to the user.
    """
    levels = [v for v in levels if v.k * ROOM <= n] or list(levels[:1])
    if not levels:
        return 2, "default"
    good = [v.k for v in levels if v.stability.value >= STABLE]
    if good:
        return max(good), "stability"
    return max(levels, key=lambda v: v.stability.value).k, "default"


def _clusters(
    space: Space, responses: ResponseMatrix, texts: Sequence[str | None], labels: Codes,
    code: Codes, shown: list[str], tested: Profile | None,
) -> list[Cluster]:  # fmt: skip
    named = names(texts, labels)
    q = _family(tested)
    score, observed = responses.filled().astype(np.float64), responses.observed
    out = []
    for c in range(int(labels.max()) + 1):
        rows = np.flatnonzero(labels == c)
        centre = space.topic[rows].sum(axis=0)
        near = rows[np.argsort(-(space.topic[rows] @ centre), kind="stable")[:N_NEAREST]]
        counts = np.bincount(code[rows], minlength=len(shown))
        top = [p for p in np.argsort(-counts, kind="stable")[:3].tolist() if counts[p]]
        seen = observed[rows].sum()
        above, below = _furthest(space.models, tested, c)
        out.append(
            Cluster(
                c,
                named[c],
                len(rows),
                [(shown[p], float(counts[p] / len(rows))) for p in top] if len(shown) > 1 else [],
                [space.items.ids[j] for j in near.tolist()],
                float(1 - score[rows][observed[rows]].sum() / seen) if seen else float("nan"),
                0 if tested is None else int(tested.n[c]),
                float("nan") if tested is None or q[c] != q[c] else float(tested.p[c]),
                float(q[c]) if len(q) else float("nan"),
                above,
                below,
            )
        )
    return out


def _family(tested: Profile | None) -> Array:
    """(K,) q over the clusters with enough tested items; NaN for the others."""
    if tested is None:
        return np.zeros(0)
    enough = (tested.n >= FEWEST_TESTED) & np.isfinite(tested.p)
    q = np.full(len(tested.p), np.nan)
    if enough.any():
        q[enough] = false_discovery_control(tested.p[enough])
    return q


def _furthest(
    models: tuple[str, ...], tested: Profile | None, cluster: int
) -> tuple[list[tuple[str, float, float]], list[tuple[str, float, float]]]:
    """Models furthest above and below their profile, by deviation over standard error."""
    if tested is None or tested.n[cluster] < FEWEST_TESTED:
        return [], []
    gap, error = tested.deviation[cluster], tested.error[cluster]
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(error > 0, gap / error, 0.0)
    order = [i for i in np.argsort(-z, kind="stable").tolist() if np.isfinite(gap[i])]
    row = [(models[i], float(gap[i]), float(error[i])) for i in order]
    return [r for r in row[:3] if r[1] > 0], [r for r in row[::-1][:3] if r[1] < 0]

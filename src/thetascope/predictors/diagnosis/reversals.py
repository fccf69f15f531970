"""Order reversals: pairs of models whose order differs between benchmarks, beside noise alone.

Two models are compared on the items that both answered. An order flips between two parts
(benchmarks, or subjects where there is one benchmark) where the mean differences have opposite
signs; it flips beyond noise where both differences have |z| > 1.96. What noise alone gives is
found by shuffling: the groups of near-duplicate items are dealt anew to parts of the same sizes,
so that every part is a sample of the same whole and all true orders agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.predictors.base import Sample

Array = NDArray[np.float64]

MIN_ITEMS = 20
"""Fewer common items in a part and a pair of models is not compared there."""
SHUFFLES = 20
N_EXAMPLES = 10
_Z = 1.959963984540054


class Side(NamedTuple):
    """The difference of two models on one part: `first` minus `second` over n common items."""

    part: str
    n: int
    difference: float
    se: float

    @property
    def z(self) -> float:
        return self.difference / self.se

    def to_json(self) -> dict[str, Any]:
        half = _Z * self.se
        ends = {"low": self.difference - half, "high": self.difference + half}
        return {**self._asdict(), "z": self.z, **ends}


class Reversal(NamedTuple):
    """A pair of models whose order flips; `first` leads on the first side."""

    first: str
    second: str
    ahead: Side
    behind: Side

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "second": self.second,
            "ahead": self.ahead.to_json(),
            "behind": self.behind.to_json(),
        }


@dataclass(frozen=True)
class Reversals:
    """How often the order of two models depends on where one looks.

    Attributes:
        why_not: Why nothing is reported; None where something is.
        parts: 'benchmarks' or 'subjects'.
        names: The parts with two models or more compared.
        n: Pairs of models times pairs of parts compared.
        not_compared: Those with under `MIN_ITEMS` common items on a side.
        flipped, surely_flipped: How many flip, and with both differences beyond noise.
        both_sure: How many have both differences beyond noise, in the same order or not.
        noise_flipped, noise_surely_flipped: Mean and 95 % range of the shares over shuffles.
        shuffles: How many.
        examples: The surest, one a pair of models.
    """

    why_not: str | None
    parts: str
    names: tuple[str, ...] = ()
    n: int = 0
    not_compared: int = 0
    flipped: int = 0
    surely_flipped: int = 0
    both_sure: int = 0
    noise_flipped: tuple[float, float, float] | None = None
    noise_surely_flipped: tuple[float, float, float] | None = None
    shuffles: int = 0
    examples: tuple[Reversal, ...] = ()

    def to_json(self) -> dict[str, Any]:
        share = {
            "share_flipped": self.flipped / self.n if self.n else None,
            "share_surely_flipped": self.surely_flipped / self.n if self.n else None,
        }
        return {
            **{k: v for k, v in vars(self).items() if k != "examples"},
            "names": list(self.names),
            "noise_flipped": _listed(self.noise_flipped),
            "noise_surely_flipped": _listed(self.noise_surely_flipped),
            **share,
            "examples": [e.to_json() for e in self.examples],
        }


def reversals(
    sample: Sample, groups: NDArray[np.int64], *, shuffles: int = SHUFFLES, seed: int = 0
) -> Reversals:
    """Counts order reversals between the parts of a study.

    Args:
        sample: N items with the responses of M models.
        groups: (N,) near-duplicate group of each item, the unit of the standard errors.
        shuffles: Shuffles of the groups over the parts; 0 for none.
        seed: Of the shuffles.
    """
    items = sample.items
    kind = "benchmarks" if len(items.benchmarks) > 1 else "subjects"
    code, names = (
        (items.benchmark, items.benchmarks)
        if kind == "benchmarks"
        else (items.subject, tuple(s.partition("/")[2] or s for s in items.subjects))
    )
    if len(names) < 2:
        return Reversals("the study has one benchmark and no subjects", kind)
    if sample.responses.n_models < 2:
        return Reversals("the study has one model", kind)
    score = sample.responses.filled().astype(np.float64)
    seen = sample.responses.observed.astype(np.float64)
    _, local = np.unique(groups, return_inverse=True)
    real = _differences(score, seen, code, local, len(names))
    valid = np.isfinite(real[1])
    n, flipped, sure, both, _ = _count(*real[:2])
    possible = valid.shape[1] * (valid.shape[1] - 1) // 2 * (len(names) * (len(names) - 1) // 2)
    if n == 0:
        why = f"no two models have {MIN_ITEMS} common items on two {kind}"
        return Reversals(why, kind, not_compared=possible)
    rng = np.random.default_rng(seed)
    noise = []
    for _ in range(shuffles):
        dealt = _deal(code, local, rng)
        counts = _count(*_differences(score, seen, dealt, local, len(names))[:2])
        noise.append([counts[1] / max(counts[0], 1), counts[2] / max(counts[0], 1)])
    spread = _spread(np.array(noise)) if noise else [None, None]
    used = tuple(name for name, v in zip(names, valid, strict=True) if v.any())
    return Reversals(
        None,
        kind,
        used,
        n,
        possible - n,
        flipped,
        sure,
        both,
        spread[0],
        spread[1],
        shuffles,
        tuple(_examples(real, names, sample.responses.models)),
    )


def _differences(
    score: Array, seen: Array, code: NDArray[np.int64], group: NDArray[np.int64], n_parts: int
) -> tuple[Array, Array, Array]:
    """(P, M, M) mean difference row minus column over common items, its standard error over
    groups (NaN where not compared), and the number of common items."""
    m = score.shape[1]
    mean, se, size = (np.full((n_parts, m, m), np.nan) for _ in range(3))
    for part in range(n_parts):
        rows = np.flatnonzero(code == part)
        s, o, g = score[rows], seen[rows], group[rows]
        n = o.T @ o
        total = s.T @ o - o.T @ s
        d = total / np.maximum(n, 1)
        alone = np.bincount(g, minlength=1)[g] == 1
        s1, o1 = s[alone], o[alone]
        square = (s1**2).T @ o1 + o1.T @ s1**2 - 2 * s1.T @ s1
        product = s1.T @ o1 - o1.T @ s1
        sizes = o1.T @ o1
        clusters = sizes.copy()
        for members in _clusters(g, alone):
            sg, og = s[members], o[members]
            common, sums = og.T @ og, sg.T @ og - og.T @ sg
            square += sums**2
            product += common * sums
            sizes += common**2
            clusters += common > 0
        spread = np.maximum(square - 2 * d * product + d**2 * sizes, 0)
        factor = clusters / np.maximum(clusters - 1, 1)
        enough = (n >= MIN_ITEMS) & (clusters > 1) & ~np.eye(m, dtype=bool)
        mean[part] = np.where(enough, d, np.nan)
        se[part] = np.where(enough, np.sqrt(spread * factor) / np.maximum(n, 1), np.nan)
        size[part] = n
    return mean, se, size


def _clusters(group: NDArray[np.int64], alone: NDArray[np.bool_]) -> Iterator[NDArray[np.int64]]:
    """The members of every group of two or more."""
    rows = np.flatnonzero(~alone)
    rows = rows[np.argsort(group[rows], kind="stable")]
    if len(rows):
        yield from np.split(rows, np.flatnonzero(np.diff(group[rows])) + 1)


def _count(mean: Array, se: Array) -> tuple[int, int, int, int, list[tuple[int, int]]]:
    """Compared, flipped, flipped beyond noise, both beyond noise; and the pairs of parts."""
    upper = np.triu_indices(mean.shape[1], 1)
    d, e = mean[:, upper[0], upper[1]], se[:, upper[0], upper[1]]
    sign = np.sign(d)  # NaN where not compared
    sure = np.abs(d) > _Z * e
    pairs = [(b, c) for b in range(len(d)) for c in range(b + 1, len(d))]
    n = flipped = surely = both = 0
    for b, c in pairs:
        flip = sign[b] * sign[c] < 0
        two = sure[b] & sure[c]
        n += int(np.isfinite(sign[b] * sign[c]).sum())
        flipped += int(flip.sum())
        surely += int((flip & two).sum())
        both += int(two.sum())
    return n, flipped, surely, both, pairs


def _deal(
    code: NDArray[np.int64], group: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Parts dealt anew: whole groups in random order fill parts of about the same sizes."""
    rank = rng.permutation(int(group.max()) + 1)
    order = np.argsort(rank[group], kind="stable")
    ends = np.cumsum(np.bincount(code))
    sizes = np.bincount(group)
    first = np.zeros(len(sizes), np.int64)
    by_rank = np.argsort(rank)
    first[by_rank] = np.concatenate([[0], np.cumsum(sizes[by_rank])[:-1]])
    dealt = np.empty_like(code)
    dealt[order] = np.searchsorted(ends, first[group[order]], side="right")
    return dealt


def _spread(noise: Array) -> list[tuple[float, float, float]]:
    ends = np.quantile(noise, [0.025, 0.975], axis=0)
    return [
        (float(noise[:, k].mean()), float(ends[0, k]), float(ends[1, k]))
        for k in range(noise.shape[1])
    ]


def _examples(
    real: tuple[Array, Array, Array], names: tuple[str, ...], models: tuple[str, ...]
) -> list[Reversal]:
    """The flips with the greatest lesser |z|, one a pair of models."""
    mean, se, size = real
    upper = np.triu_indices(mean.shape[1], 1)
    z = np.full(mean.shape, np.nan)
    np.divide(mean, se, out=z, where=se > 0)
    z = np.nan_to_num(z[:, upper[0], upper[1]])
    top, bottom = z.max(axis=0), z.min(axis=0)
    least = np.minimum(top, -bottom)
    out: list[Reversal] = []
    for k in np.argsort(-least, kind="stable")[:N_EXAMPLES].tolist():
        if least[k] <= _Z:
            break
        i, j = int(upper[0][k]), int(upper[1][k])
        sides = [
            Side(names[b], int(size[b, i, j]), float(mean[b, i, j]), float(se[b, i, j]))
            for b in (int(z[:, k].argmax()), int(z[:, k].argmin()))
        ]
        out.append(Reversal(models[i], models[j], *sides))
    return out


def _listed(value: tuple[float, float, float] | None) -> list[float] | None:
    return None if value is None else list(value)

"""Sums over items for every concept and model: the statistics that all tests are made of.

For one benchmark with n answered items, activations a_j and scores s_j (RULES M7):

    A = sum a_j,  S2 = sum a_j^2,  n_eff = A^2 / S2
    M = I - Q Q',  Q an orthonormal basis of the covariates X (n x p): a constant, or a constant,
        log T_j and (log T_j)^2, T_j the item's tokens
    T = a' M s                                   (without covariates: sum a_j (s_j - sbar))
    V = (a' M a)(s' M s) / (n - p)               variance of T when scores are permuted
    G = n [sum (M a)^3][sum (M s)^3] / ((n - 1)(n - 2))               its third moment

Activations are sparse, so sums over M a come from raw ones, with q = Q' a:

    sum (M a)^2 = S2 - |q|^2
    sum (M a)^3 = S3 - 3 sum a^2 (Q q) + 3 sum a (Q q)^2 - sum (Q q)^3

Without covariates the latter is S3 - 3 S1 S2 / n + 2 S1^3 / n^2. (With (a - abar)^3 in the place
of (M a)^3, a concept that follows length gets a skewness that its statistic does not have.) The
cost is linear in the non-zeros: one product with the scores of all models, and a few with some
columns for each distinct pattern of answered items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from thetascope.gaps.data import Array, GapData


@dataclass(frozen=True)
class Moments:
    """One benchmark, C concepts and M models; all arrays (C, M) unless said.

    Attributes:
        n: (M,) answered items.
        mean: (M,) sbar, mean score.
        variance: (M,) sum (s - sbar)^2 / (n - 1).
        mass: A. square: S2.
        n_active: Answered items on which the concept is active.
        weighted: sum a s. weighted_square: sum a s^2.
        t, v, g: Statistic, its variance and third moment under permutation; all 0 where the
            model answered no more items than there are covariates, or always the same.
    """

    n: NDArray[np.int64]
    mean: Array
    variance: Array
    mass: Array
    square: Array
    n_active: Array
    weighted: Array
    weighted_square: Array
    t: Array
    v: Array
    g: Array

    @property
    def n_eff(self) -> Array:
        """(C, M) A^2 / S2, 0 where a concept has no mass."""
        return n_eff(self.mass, self.square)

    @property
    def chi(self) -> Array:
        """(C, M) chi_model = sum a s / sum a, NaN where a concept has no mass."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.weighted / np.where(self.mass > 0, self.mass, np.nan)


@dataclass(frozen=True)
class Pattern:
    """Models that answered the same items of one benchmark.

    Attributes:
        models: Their columns.
        items: Rows that they answered, within the benchmark.
        basis: (n, p) Q, orthonormal.
        residuals: (n, models) M s.
    """

    models: NDArray[np.int64]
    items: NDArray[np.int64]
    basis: Array
    residuals: Array


def n_eff(mass: Array, square: Array) -> Array:
    """Effective number of items, (sum a)^2 / sum a^2; 0 where there is no mass."""
    return np.divide(np.square(mass), square, out=np.zeros_like(mass), where=square > 0)


def covariate_basis(n_tokens: NDArray[np.int64], length: bool) -> Array:
    """(n, p) orthonormal basis of the covariates; p is 3, less where lengths hardly differ.

    Args:
        n_tokens: (n,) tokens of each item.
        length: Whether log T and (log T)^2 are covariates beside the constant.
    """
    n = len(n_tokens)
    constant = np.full((n, 1), n**-0.5)
    if not length or n < 3:
        return constant
    x = np.log(n_tokens.astype(np.float64))
    x = x - x.mean()
    columns = [constant]
    for column in (x, np.square(x)):
        rest = column.copy()
        for _ in range(2):  # twice is enough
            for known in columns:
                rest -= known[:, 0] * (known[:, 0] @ rest)
        size = float(np.linalg.norm(rest))
        if size > 1e-9 * max(1.0, float(np.linalg.norm(column))):
            columns.append(rest[:, None] / size)
    return np.concatenate(columns, axis=1)


def patterns(data: GapData, part: slice, length: bool) -> Iterator[Pattern]:
    """The distinct patterns of answered items in one benchmark; models without any are left out."""
    scores = data.scores[part]
    answered = np.isfinite(scores)
    by_key: dict[bytes, list[int]] = {}
    for m in range(scores.shape[1]):
        by_key.setdefault(np.packbits(answered[:, m]).tobytes(), []).append(m)
    for models in by_key.values():
        items = np.flatnonzero(answered[:, models[0]])
        if not len(items):
            continue
        s = scores[np.ix_(items, np.array(models))]
        basis = covariate_basis(data.n_tokens[part][items], length)
        yield Pattern(np.array(models), items, basis, s - basis @ (basis.T @ s))


def by_concept(matrix: csr_matrix, part: slice) -> csr_matrix:
    """(C, n) a benchmark's rows of an items x concepts matrix, by concept."""
    return csr_matrix(matrix[part].T.tocsr())


def powered(matrix: csr_matrix, power: int) -> csr_matrix:
    """The matrix with its entries to a power; its structure is shared."""
    return csr_matrix((matrix.data**power, matrix.indices, matrix.indptr), shape=matrix.shape)


def cube_sum(a: csr_matrix, squared: csr_matrix, s3: Array, q: Array, pattern: Pattern) -> Array:
    """(C,) sum (M a)^3 over a pattern's items.

    Args:
        a, squared: (C, n) activations of a benchmark by concept, and their squares.
        s3: (C,) sum a^3 over the pattern's items.
        q: (C, p) Q' a.
        pattern: Whose items and basis.
    """
    n, p = a.shape[1], q.shape[1]
    basis = np.zeros((n, p))
    basis[pattern.items] = pattern.basis
    first, second = np.triu_indices(p)
    twice = np.where(first == second, 1.0, 2.0)
    on_squares = np.asarray(squared @ basis)
    on_pairs = np.asarray(a @ (basis[:, first] * basis[:, second]))
    cubes = np.einsum("jk,jl,jm->klm", basis, basis, basis)
    return (
        s3
        - 3 * (q * on_squares).sum(axis=1)
        + 3 * (twice * q[:, first] * q[:, second] * on_pairs).sum(axis=1)
        - np.einsum("ck,cl,cm,klm->c", q, q, q, cubes, optimize=True)
    )


def moments(data: GapData, b: int, *, length: bool = True) -> Moments:
    """The statistics of benchmark number b.

    Args:
        data: Activations and scores.
        b: The benchmark.
        length: Whether text length is a covariate.
    """
    part = data.parts[b]
    c, m, n_rows = data.n_concepts, len(data.models), part.stop - part.start
    scores = data.scores[part]
    filled = np.nan_to_num(scores)
    found = list(patterns(data, part, length))
    u = len(found)
    masks = np.zeros((n_rows, u))
    widths = [p.basis.shape[1] for p in found]
    bases = np.zeros((n_rows, sum(widths)))
    for k, (pattern, end) in enumerate(zip(found, np.cumsum(widths), strict=True)):
        masks[pattern.items, k] = 1
        bases[pattern.items, end - widths[k] : end] = pattern.basis
    a = by_concept(data.activations, part)
    weighted = np.asarray(a @ filled)
    binary = bool(np.isin(filled, (0.0, 1.0)).all())
    weighted_square = weighted if binary else np.asarray(a @ np.square(filled))
    on_basis = np.asarray(a @ bases)
    s1 = np.asarray(a @ masks)
    squared = powered(a, 2)
    s2 = np.asarray(squared @ masks)
    s3 = np.asarray(powered(a, 3) @ masks)
    active = np.asarray(by_concept(data.active, part) @ masks)

    n = np.zeros(m, np.int64)
    mean, variance = np.full(m, np.nan), np.zeros(m)
    shape = (c, m)
    mass, square, n_active = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    t, v, g = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for k, (pattern, end) in enumerate(zip(found, np.cumsum(widths), strict=True)):
        models, items, p = pattern.models, pattern.items, widths[k]
        size = len(items)
        n[models] = size
        s = scores[np.ix_(items, models)]
        mean[models] = s.mean(axis=0)
        if size > 1:
            variance[models] = s.var(axis=0, ddof=1)
        mass[:, models], square[:, models] = s1[:, [k]], s2[:, [k]]
        n_active[:, models] = active[:, [k]]
        if size <= max(p, 2):
            continue
        q = on_basis[:, end - p : end]
        ama = np.maximum(s2[:, k] - np.square(q).sum(axis=1), 0.0)
        ama[ama <= 1e-12 * s2[:, k]] = 0.0
        e = pattern.residuals
        ee = np.square(e).sum(axis=0)
        ee[ee <= 1e-12 * size] = 0.0
        t[:, models] = np.where(
            (ama[:, None] > 0) & (ee > 0), weighted[:, models] - q @ (pattern.basis.T @ s), 0.0
        )
        v[:, models] = ama[:, None] * ee / (size - p)
        cubes = cube_sum(a, squared, s3[:, k], q, pattern)
        g[:, models] = size * cubes[:, None] * (e**3).sum(axis=0) / ((size - 1) * (size - 2))
    g[v == 0] = 0.0
    return Moments(
        n, mean, variance, mass, square, n_active, weighted, weighted_square, t, v, g
    )  # fmt: skip

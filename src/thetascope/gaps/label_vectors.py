"""Vectors of concepts to cluster: of their labels, or of when they are active.

*Labels*: TF-IDF over words and over their letters (n-grams of 3 to 5 inside a word, so that
"add", "added" and "adding" are near), reduced by a truncated SVD; or a sentence encoder's. A
label made of tokens is first put into words: '" each", "##ing"' becomes "each ing".

*Activations*: concepts that are active on the same items. Columns of log1p(a) are centred within
each benchmark (what two concepts share is then more than the benchmark they are asked in) and
scaled to unit length, so that products are correlations; the leading singular vectors are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from scipy.sparse.linalg import LinearOperator, svds
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.extmath import randomized_svd

from thetascope.concepts.store import Concepts
from thetascope.errors import InputError
from thetascope.gaps.data import Array, GapData
from thetascope.space.naming import terms_of

NUMBER = "<number>"
"""Stands for a token of digits among a label's words."""
DIM = 64
LETTERS = 0.5
"""Weight of letter n-grams beside words."""
FEWEST_ITEMS = 5
"""Items on which a concept must be active for its activations to say what it goes with."""


@dataclass(frozen=True)
class Vectors:
    """C concepts in D dimensions.

    Attributes:
        rows: (C, D) of unit length, or 0 where there is nothing to go by.
        kind: What made them: tf-idf, an encoder's name, or activations.
        of: (n,) texts to (n, D) unit vectors in the same space; None for activations.
        like: A text to its (C,) cosine with each label, of unreduced vectors and without the
            text's stop words where these are TF-IDF; None for activations.
    """

    rows: Array
    kind: str
    of: Callable[[Sequence[str]], Array] | None = None
    like: Callable[[str], Array] | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """(C,) where there is something to go by."""
        return np.linalg.norm(self.rows, axis=1) > 0.5


def label_words(held: Concepts) -> list[str | None]:
    """(C,) each concept's label as words; None where it has none.

    Labels made of tokens are read from the tokens themselves, up to eight; a token of digits
    becomes the word "<number>", a continuation mark ("##") is taken off.
    """
    table = held.dictionary
    tokens = table["tokens"].to_list()
    out: list[str | None] = []
    for label, source, own in zip(table["label"], table["label_source"], tokens, strict=True):
        if label is None:
            out.append(None)
        elif source == "tokens":
            out.append(" ".join(_word(t) for t in (own or json.loads(f"[{label}]"))).strip())
        else:
            out.append(label)
    return out


def _word(token: str) -> str:
    bare = token.strip().removeprefix("##")
    return NUMBER if bare.isdigit() else bare


def tf_idf_vectors(words: Sequence[str | None]) -> Vectors:
    """TF-IDF over words and letter n-grams, reduced to 64 dimensions.

    Raises:
        InputError: No label has a letter.
    """
    texts = [w or "" for w in words]
    letters: Any = _letters
    makers = [
        (TfidfVectorizer(token_pattern=r"<number>|[^\W\d_]{2,}", min_df=2, sublinear_tf=True), 1.0),
        (TfidfVectorizer(analyzer=letters, min_df=2, sublinear_tf=True), LETTERS),
    ]
    try:
        for maker, _ in makers:
            maker.fit(texts)
    except ValueError:  # sklearn's: an empty vocabulary
        raise InputError("the labels hold no two words alike", fix="group by activations") from None

    def wide_of(more: Sequence[str]) -> csr_matrix:
        parts: list[Any] = [m.transform(more) for m, _ in makers]
        return csr_matrix(hstack([part * w for part, (_, w) in zip(parts, makers, strict=True)]))

    wide = wide_of(texts)
    dim = min(DIM, *(n - 1 for n in wide.shape))
    if dim < 1:
        raise InputError("expected several concepts with labels, found too few")
    _, _, axes = randomized_svd(wide, dim, random_state=0)

    def of(more: Sequence[str]) -> Array:
        return _unit(np.asarray(wide_of(more) @ axes.T))

    def like(text: str) -> Array:
        bare = wide_of([" ".join(sorted(terms_of(text)))])
        lengths = [np.sqrt(np.asarray(m.multiply(m).sum(axis=1)).ravel()) for m in (wide, bare)]
        whole = lengths[0] * lengths[1]
        shared = (wide @ bare.T).toarray()[:, 0]
        return np.divide(shared, whole, out=np.zeros_like(whole), where=whole > 0)

    return Vectors(_unit(np.asarray(wide @ axes.T)), "tf-idf", of, like)


def encoder_vectors(words: Sequence[str | None], encoder: str) -> Vectors:
    """A sentence encoder's vectors of the labels.

    Raises:
        MissingExtra, InputError: As `Encoder`.
    """
    from thetascope.encoders.encoder import Encoder

    texts = [None if w is None else w.replace(NUMBER, "number") for w in words]
    loaded = Encoder("offline" if encoder == "offline-minilm" else encoder)

    def of(more: Sequence[str]) -> Array:
        return _unit(loaded.encode(more).astype(np.float64))

    known = [c for c, w in enumerate(texts) if w]
    if not known:
        raise InputError("no concept has a label", fix="group by activations")
    distinct = sorted({w for w in texts if w})
    place = {w: i for i, w in enumerate(distinct)}
    found = of(distinct)
    rows = np.zeros((len(texts), found.shape[1]))
    rows[known] = found[[place[texts[c] or ""] for c in known]]
    return Vectors(rows, encoder, of, lambda text: rows @ of([text])[0])


def activation_vectors(data: GapData, usable: NDArray[np.bool_]) -> Vectors:
    """Leading singular vectors of the correlations between concepts over items.

    Args:
        data: Activations.
        usable: (C,) concepts to look at; those on fewer than 5 items are left at 0 as well.

    Raises:
        InputError: Fewer than three concepts or items are left.
    """
    a = data.activations.copy()
    a.data = np.log1p(a.data)
    often = np.bincount(a.indices[a.data > 0], minlength=data.n_concepts) >= FEWEST_ITEMS
    chosen = np.flatnonzero(usable & often)
    x = csr_matrix(a[:, chosen])
    n, c = x.shape
    mean = np.stack([np.asarray(x[p].mean(axis=0))[0] for p in data.parts])  # (B, c)
    square = np.asarray(x.multiply(x).sum(axis=0))[0]
    sizes = np.array([p.stop - p.start for p in data.parts])
    spread = np.sqrt(np.maximum(square - sizes @ mean**2, 0.0))
    scale = np.divide(1.0, spread, out=np.zeros(c), where=spread > 1e-9)
    member = csr_matrix((np.ones(n), (np.arange(n), data.benchmark)), (n, len(data.parts)))
    dim = min(DIM, n - 1, c - 1)
    if dim < 1:
        raise InputError("expected concepts that are active on several items, found too few")

    def forward(v: Array) -> Array:
        w = scale * v.ravel()
        return x @ w - member @ (mean @ w)

    def backward(u: Array) -> Array:
        u = u.ravel()
        return scale * (x.T @ u - mean.T @ (member.T @ u))

    whole = LinearOperator((n, c), matvec=forward, rmatvec=backward, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(0).standard_normal(min(n, c))
    _, values, axes = svds(whole, dim, v0=start)
    rows = np.zeros((data.n_concepts, dim))
    rows[chosen] = _unit(axes.T * values)
    return Vectors(rows, "activations")


def _letters(text: str) -> list[str]:
    """n-grams of 3 to 5 letters inside words, the word's ends marked."""
    out = []
    for word in text.lower().split():
        if word == NUMBER or not any(ch.isalpha() for ch in word):
            continue
        marked = f"<{word}>"
        out += [marked[i : i + n] for n in (3, 4, 5) for i in range(len(marked) - n + 1)]
    return out


def _unit(rows: Array) -> Array:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 1e-9)

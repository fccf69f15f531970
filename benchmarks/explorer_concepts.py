"""Made concept activations of any size, and keeping them as `concepts extract` does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.concepts.assemble import N_CONTEXTS, write_table
from thetascope.concepts.store import BY_CONCEPT, BY_ITEM, CONTEXTS, DICTIONARY, ITEMS, KIND
from thetascope.study import Study, store

NAME = "made"
HOSTILE_LABELS = (
    "\u202econcept read from the right\u202c",
    "&lt;img onerror=window.pwned=1>",
    "<img src=x onerror=window.pwned=1>",
    "\"quoted\", 'single' & `back`",
    "long-label-without-any-space-" * 8,
)
_TOPICS = (
    "sum", "prime", "angle", "verb", "cell", "force", "tax", "treaty", "loop", "melody", "acid",
    "vote", "planet", "proof", "rhyme",
)  # fmt: skip
_MANNERS = (
    "counting", "comparing", "naming", "negating", "dating", "ordering", "quoting", "estimating",
    "listing",
)  # fmt: skip


@dataclass(frozen=True)
class Activations:
    """Entries sorted by concept, then item.

    Attributes:
        n_items, n_concepts: Of the matrix.
        item, concept: (E,) where an entry is.
        largest, total: (E,) maximum and sum over the item's tokens.
        count: (E,) tokens on which the concept is active.
        n_tokens: (N,) of each item.
        act_max: (C,) maximum over the reference.
        own, hard: Concepts on which one model, or all, do worse.
    """

    n_items: int
    n_concepts: int
    item: NDArray[np.int32]
    concept: NDArray[np.int32]
    largest: NDArray[np.float32]
    total: NDArray[np.float32]
    count: NDArray[np.int32]
    n_tokens: NDArray[np.int32]
    act_max: NDArray[np.float32]
    own: NDArray[np.int64]
    hard: NDArray[np.int64]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(C + 1,) first entry of every concept."""
        return np.searchsorted(self.concept, np.arange(self.n_concepts + 1))

    def items_of(self, concept: int) -> NDArray[np.int32]:
        """The items on which a concept is active."""
        return self.item[self.starts[concept] : self.starts[concept + 1]]


def draw_activations(
    subject: NDArray[np.int64], n_concepts: int, n_active: int, n_benchmarks: int,
    rng: np.random.Generator,
) -> Activations:  # fmt: skip
    """Draws sparse, heavy-tailed activations: concepts at home in a subject, a few everywhere.

    Args:
        subject: (N,) of each item, ascending; its benchmark is the rest by `n_benchmarks`.
        n_concepts: C; one in a hundred is dead, one in fifty is missing from a benchmark.
        n_active: Concepts an item, on average.
        n_benchmarks: Number of benchmarks.
        rng: Source of chance.
    """
    n, n_subjects = len(subject), int(subject.max()) + 1
    weight = np.exp(rng.normal(0.0, 1.2, n_concepts))
    dead = rng.random(n_concepts) < 0.01
    weight[dead] = 0
    size = np.minimum(weight / weight.sum() * n_active * n * 1.15, 0.9 * n).astype(np.int64)
    size[~dead] = np.maximum(size[~dead], min(12, n))
    concept = np.repeat(np.arange(n_concepts), size)
    ends = np.searchsorted(subject, np.arange(n_subjects + 1))
    home = rng.integers(0, n_subjects, n_concepts)[concept]
    first, width = ends[home], (ends[home + 1] - ends[home]).clip(1)
    near = first + (rng.random(len(concept)) * width).astype(np.int64)
    far = rng.integers(0, n, len(concept))
    item = np.where(rng.random(len(concept)) < 0.6, near, far).clip(0, n - 1)
    benchmark = subject % n_benchmarks
    lacking = np.where(rng.random(n_concepts) < 0.02, rng.integers(0, n_benchmarks, n_concepts), -1)
    kept = benchmark[item] != lacking[concept]
    flat = np.unique(concept[kept] * n + item[kept])
    concept, item = (flat // n).astype(np.int32), (flat % n).astype(np.int32)
    n_tokens = np.exp(rng.normal(4.2, 0.6, n)).astype(np.int32).clip(8, 2000)
    act_max = np.exp(rng.normal(1.5, 0.5, n_concepts)).astype(np.float32)
    # Two thirds of the entries are above half of the maximum: those count as active.
    share = rng.beta(4.0, 3.0, len(item)) * 1.15
    largest = (act_max[concept] * share).astype(np.float32)
    count = np.minimum(1 + rng.poisson(1.5, len(item)), n_tokens[item]).astype(np.int32)
    total = (largest * (1 + 0.6 * (count - 1))).astype(np.float32)
    sizes = np.bincount(concept, minlength=n_concepts)
    # Large enough that a gap is found, small enough that it is the concept's and not everything's.
    apart = np.abs(np.log(sizes.clip(1) / np.clip(n / 7, 1, 400)))
    planted = np.argsort(apart, kind="stable")[: min(20, max(2, n // 150))]
    own, hard = planted[::2], planted[1::2]
    return Activations(
        n, n_concepts, item, concept, largest, total, count, n_tokens, act_max, own, hard
    )


def keep_concepts(folder: Path, held: Activations, rng: np.random.Generator) -> Path:
    """Writes activations into a study's folder under the manifest of an extraction.

    Args:
        folder: The study's folder.
        held: Activations of its items, in their order.
        rng: Source of chance.
    """
    with store.writing(folder) as writer:
        study = Study.open(folder)
        key = {"made": [held.n_items, held.n_concepts, len(held.item)]}
        work = writer.work_folder(KIND, NAME, key)
        sizes = np.bincount(held.item, minlength=held.n_items).astype(np.int32)
        order = np.argsort(held.item, kind="stable")
        rows = pl.DataFrame(
            {"item": held.item, "concept": held.concept, "sum": held.total, "max": held.largest,
             "count": held.count}
        )  # fmt: skip
        write_table(work / BY_CONCEPT, rows)
        write_table(work / BY_ITEM, rows[order])
        hashes = study.items["text_hash"] if "text_hash" in study.items.columns else (
            pl.lit(None, pl.String)
        )  # fmt: skip
        items = study.items.select("item_id").with_columns(
            hashes.alias("text_hash"),
            pl.Series("n_tokens", held.n_tokens),
            pl.lit(0, pl.Int32).alias("n_cut"),
            pl.lit(False).alias("truncated"),
            pl.lit(None, pl.String).alias("left_out"),
            pl.Series("n_concepts", sizes),
        )
        write_table(work / ITEMS, items)
        write_table(work / DICTIONARY, _dictionary(held, rng))
        texts = "text" in study.items.columns
        if texts:
            write_table(work / CONTEXTS, _contexts(held, study))
        final = writer.put_derived(KIND, NAME, key, work, _manifest(held, texts))
        writer.commit()
    return final


def _dictionary(held: Activations, rng: np.random.Generator) -> pl.DataFrame:
    c = held.n_concepts
    n_items = np.diff(held.starts).astype(np.int32)
    density = (n_items / held.n_items * rng.uniform(0.01, 0.05, c)).astype(np.float32)
    labels: list[str | None] = [
        f"{_MANNERS[k % len(_MANNERS)]} {_TOPICS[k % len(_TOPICS)]} {k}" for k in range(c)
    ]
    # On the surest gaps first: they are what every page shows.
    shown = [*held.own.tolist(), *held.hard.tolist(), *np.argsort(-n_items)[:8].tolist()]
    for turn, label in enumerate(HOSTILE_LABELS):
        labels[shown[turn]] = label
    labels[-1] = None
    universal = n_items >= 0.85 * held.n_items
    flags = [
        ["dead"] if n == 0 else ["near-universal"] if u else []
        for n, u in zip(n_items.tolist(), universal.tolist(), strict=True)
    ]
    counted = np.bincount(held.concept, held.count, minlength=c)
    return pl.DataFrame(
        {
            "concept": np.arange(c, dtype=np.int32),
            "label": labels,
            "label_source": [None if label is None else "file" for label in labels],
            "label_score": pl.Series([None] * c, dtype=pl.Float32),
            "tokens": [[f" {_TOPICS[k % len(_TOPICS)]}", "s"] for k in range(c)],
            "token_share": rng.uniform(0.2, 0.9, c).astype(np.float32),
            "density": density,
            "act_max": held.act_max,
            "n_items": n_items,
            "item_share": (n_items / held.n_items).astype(np.float32),
            "token_density": (counted / held.n_tokens.sum()).astype(np.float32),
            "flags": flags,
        },
        schema_overrides={"flags": pl.List(pl.String), "label": pl.String},
    )


def _contexts(held: Activations, study: Study) -> pl.DataFrame:
    """Each concept's strongest items with words of their texts around a token."""
    order = np.lexsort((-held.largest, held.concept))
    rank = np.arange(len(order)) - held.starts[held.concept[order]]
    best = order[rank < N_CONTEXTS]
    texts = study.items["text"].to_list()
    windows: list[tuple[str, str, str]] = []
    for entry in best.tolist():
        words = texts[held.item[entry]].split(" ")
        at = (7 * entry) % len(words)
        windows.append(
            (" ".join(words[max(0, at - 6) : at]), " " + words[at],
             " " + " ".join(words[at + 1 : at + 5]))
        )  # fmt: skip
    before, token, after = zip(*windows, strict=True)
    return pl.DataFrame(
        {
            "concept": held.concept[best],
            "item_id": study.items["item_id"].gather(held.item[best]),
            "value": held.largest[best],
            "before": before,
            "token": token,
            "after": after,
        }
    )


def _manifest(held: Activations, contexts: bool) -> dict[str, object]:
    n = held.n_items
    return {
        "kind": KIND, "format": 1, "inputs": {}, "extraction": "made",
        "language_model": {"fingerprint": "made", "hook": "0.output", "template": "raw"},
        "model": "made", "prefix": {"id": None, "text": None, "why": "made"},
        "hook": "0.output", "template": "raw",
        "dictionary": {"name": NAME, "fingerprint": f"made-{held.n_concepts}",
                       "n_latents": held.n_concepts, "activation": "topk", "model": "made"},
        "act_max": {"corpus": "made", "n_tokens": 1_000_000},
        "contexts": contexts, "n_items": n, "n_read": n, "n_texts": n, "n_without_text": 0,
        "n_without_tokens": 0, "n_truncated": 0, "n_cut": 0,
        "n_tokens": int(held.n_tokens.sum()), "n_concepts": held.n_concepts,
    }  # fmt: skip

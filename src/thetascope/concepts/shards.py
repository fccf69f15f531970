"""Shards of an extraction: files that are made in any order by anyone, each whole or absent."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from thetascope.concepts.pooling import Pooled, pool
from thetascope.concepts.reading_plan import ReadingPlan
from thetascope.errors import InputError
from thetascope.study import files

if TYPE_CHECKING:
    from collections.abc import Callable

    from thetascope.concepts.dictionary import Dictionary
    from thetascope.concepts.language_model import LanguageModel
    from thetascope.concepts.tokens import Tokens

CONTEXT_BEFORE, CONTEXT_AFTER = 12, 4
"""Tokens of a context before and behind the one on which the concept is strongest."""
SHARD_CONTEXTS = 10


class ShardRows(NamedTuple):
    """What concepts do on a shard's items, sorted by concept, then item.

    Attributes:
        item: (m,) item numbers, int32.
        concept: (m,) int32.
        sum, max: (m,) float32.
        n_active: (m,) tokens on which the concept is active, int32.
        starts: (n_concepts + 1,) int64: the rows of concept c are starts[c] to starts[c + 1].
    """

    item: NDArray[np.int32]
    concept: NDArray[np.int32]
    sum: NDArray[np.float32]
    max: NDArray[np.float32]
    n_active: NDArray[np.int32]
    starts: NDArray[np.int64]


class ShardContexts(NamedTuple):
    """Where the concepts of a shard are strongest: at most ten places a concept, one a text.

    Attributes:
        concept, item: (k,) int32.
        value: (k,) float32 activation.
        window: (k, 17) int32 token ids around the place, -1 where the text has none.
    """

    concept: NDArray[np.int32]
    item: NDArray[np.int32]
    value: NDArray[np.float32]
    window: NDArray[np.int32]


def shard_file(folder: Path, number: int) -> Path:
    """Where a shard is kept."""
    return folder / f"shard-{number:06d}.safetensors"


def make_shard(
    model: LanguageModel,
    dictionary: Dictionary,
    plan: ReadingPlan,
    number: int,
    folder: Path,
    *,
    contexts: bool,
    progress: Callable[[int], object] | None = None,
) -> None:
    """Reads the texts of a shard and writes its file.

    Args:
        model: The language model.
        dictionary: Its dictionary.
        plan: What is read.
        number: The shard's.
        folder: Where the file goes, aside first.
        contexts: Whether the places where concepts are strongest are kept.
        progress: Called with the tokens read so far.
    """
    parts: list[Pooled] = []
    done = 0
    for batch in plan.shards[number]:
        read = model.read_batch(plan.tokens, batch)
        pooled = pool(dictionary, read)
        parts.append(Pooled(*(column.cpu() for column in pooled)))
        done += len(read.tokens)
        if progress:
            progress(done)
    text, concept, total, most, count, at = (
        np.concatenate([column.numpy() for column in columns])
        for columns in zip(*parts, strict=True)
    )
    repeated = plan.n_items[text]
    first = np.repeat(np.cumsum(repeated) - repeated, repeated)
    pick = np.repeat(np.arange(len(text)), repeated)
    item = plan.first_item[text][pick] + np.arange(len(pick)) - first
    order = np.lexsort((item, concept[pick]))
    pick, item = pick[order], item[order]
    n = dictionary.info.n_latents
    tensors = ShardRows(
        item.astype(np.int32),
        concept[pick].astype(np.int32),
        total[pick].astype(np.float32),
        most[pick].astype(np.float32),
        count[pick].astype(np.int32),
        np.searchsorted(concept[pick], np.arange(n + 1)).astype(np.int64),
    )._asdict()
    if contexts:
        kept = _strongest(concept[pick], most[pick], SHARD_CONTEXTS, once=text[pick])
        where = ShardContexts(
            concept[pick][kept].astype(np.int32),
            item[kept].astype(np.int32),
            most[pick][kept].astype(np.float32),
            windows(plan.tokens, text[pick][kept], at[pick][kept]),
        )
        tensors |= {f"context_{k}": v for k, v in where._asdict().items()}
    # One key: safetensors writes several in an order that changes from run to run.
    about = {"sha256": _digest(tensors)}
    files.write_aside(
        shard_file(folder, number), lambda aside: save_file(tensors, aside, metadata=about)
    )


def check_shard(file: Path) -> None:
    """Reads a shard's file whole.

    Raises:
        InputError: It is damaged.
    """
    try:
        with safe_open(file, "np") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            sound = opened.metadata()["sha256"] == _digest(tensors)
    except (SafetensorError, OSError, KeyError, TypeError) as error:
        raise _damaged(file, str(error)) from None
    if not sound:
        raise _damaged(file, "its content is not what was written")


def load_rows(file: Path) -> ShardRows:
    """Reads a shard's rows.

    Raises:
        InputError: It is damaged.
    """
    try:
        with safe_open(file, "np") as opened:
            return ShardRows(*(opened.get_tensor(name) for name in ShardRows._fields))
    except (SafetensorError, OSError) as error:
        raise _damaged(file, str(error)) from None


def load_slice(file: Path, first: int, last: int) -> ShardRows:
    """Reads the rows of the concepts `first` to `last - 1` alone; `starts` is theirs."""
    with safe_open(file, "np") as opened:
        starts = opened.get_slice("starts")[first : last + 1]
        low, high = int(starts[0]), int(starts[-1])
        names = ("item", "concept", "sum", "max", "n_active")
        return ShardRows(*[opened.get_slice(name)[low:high] for name in names], starts=starts)


def load_contexts(file: Path) -> ShardContexts:
    """Reads a shard's contexts."""
    with safe_open(file, "np") as opened:
        return ShardContexts(*(opened.get_tensor(f"context_{n}") for n in ShardContexts._fields))


def windows(tokens: Tokens, text: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.int32]:
    """Returns the token ids around places in texts, (k, 17), -1 outside of the text.

    Args:
        tokens: The texts' tokens.
        text: (k,) texts.
        at: (k,) places in counted tokens.
    """
    own: dict[int, NDArray[np.int64]] = {}
    out = np.full((len(text), CONTEXT_BEFORE + 1 + CONTEXT_AFTER), -1, np.int32)
    for row, (i, place) in enumerate(zip(text.tolist(), at.tolist(), strict=True)):
        if i not in own:
            own[i] = tokens.ids[i][tokens.counted[i]]
        low, high = max(0, place - CONTEXT_BEFORE), min(len(own[i]), place + 1 + CONTEXT_AFTER)
        shift = low - (place - CONTEXT_BEFORE)
        out[row, shift : shift + high - low] = own[i][low:high]
    return out


def strongest(
    concept: NDArray[np.integer], value: NDArray[np.floating], n: int
) -> NDArray[np.int64]:
    """The rows of each concept's `n` greatest values, concept by concept, greatest first."""
    order = np.lexsort((-value, concept))
    sorted_concept = concept[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_concept, sorted_concept)
    return order[rank < n]


def _strongest(
    concept: NDArray[np.int64], value: NDArray[np.float32], n: int, once: NDArray[np.int64]
) -> NDArray[np.int64]:
    """`strongest` with each text taken once a concept: items with one text stand together."""
    new = (np.diff(concept, prepend=-1) != 0) | (np.diff(once, prepend=-1) != 0)
    first = np.flatnonzero(new)
    return first[strongest(concept[first], value[first], n)]


def _digest(tensors: dict[str, NDArray[np.generic]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def _damaged(file: Path, why: str) -> InputError:
    return InputError(f"is damaged: {why}", file=file, fix="delete it and go on")

"""Hidden states of a corpus, on disk in shuffled shards, in bounded memory.

Texts are taken in an order drawn from the seed; each shard holds the counted tokens of the next
texts, shuffled. A shard depends on the texts, the model and the seed, not on how many shards are
asked for, so a harvest can be made longer later. Each shard is written aside and renamed; after
a kill the same call goes on from the last whole shard and gives the same bytes. The texts
themselves and one shard are in memory, never more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from thetascope.errors import InputError, StaleError
from thetascope.study import files

if TYPE_CHECKING:
    from thetascope.concepts.language_model import LanguageModel

SHARD_TOKENS = 1 << 16
_CHUNK = 256
_MANIFEST = "harvest.json"

Progress = Callable[[int, int, str], None]
"""Called with (tokens done, tokens in all, what is being done)."""


class Shard(NamedTuple):
    """A shard's rows, shuffled.

    Attributes:
        states: (t, d) float16 or float32 hidden states.
        token: (t,) token ids.
        text: (t,) position of each token's text in the corpus.
    """

    states: NDArray[np.floating[Any]]
    token: NDArray[np.int32]
    text: NDArray[np.int32]


@dataclass(frozen=True)
class Harvest:
    """A folder of shards.

    Attributes:
        folder: Where they are.
        manifest: What they were made from: model, hook, prefix, corpus hash, seed.
        shards: The shards' files, in order.
        n_tokens: Tokens in each.
    """

    folder: Path
    manifest: dict[str, Any]
    shards: tuple[Path, ...]
    n_tokens: tuple[int, ...]

    @property
    def total(self) -> int:
        """Tokens in all shards."""
        return sum(self.n_tokens)


def harvest(
    model: LanguageModel,
    texts: Sequence[str],
    folder: Path,
    *,
    n_tokens: int,
    seed: int = 0,
    shard_tokens: int = SHARD_TOKENS,
    progress: Progress | None = None,
) -> Harvest:
    """Writes the hidden states of a corpus' counted tokens until there are `n_tokens`.

    Args:
        model: The language model, hooked.
        texts: The corpus; a text without any token is passed over, counted in the manifest.
        folder: Where the shards go; an unfinished harvest of the same inputs goes on.
        n_tokens: Tokens wanted; fewer where the corpus ends.
        seed: Of the order of texts and tokens.
        shard_tokens: Tokens in a shard, exceeded by less than a text.
        progress: Called after each batch.

    Raises:
        InputError: A state does not fit float16, or the corpus has no token.
        StaleError: The folder holds a harvest of other inputs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {
        "format": 1,
        "language_model": model.identity,
        "model": model.config.model,
        "prefix": model.tokeniser.prefix._asdict(),
        "max_tokens": model.tokeniser.max_tokens,
        "d_model": model.d_model,
        "corpus": files.hash_json(list(texts)),
        "n_texts": len(texts),
        "seed": seed,
        "shard_tokens": shard_tokens,
    }
    _check_manifest(folder, manifest)
    for aside in folder.glob(".tmp-*"):
        aside.unlink()
    order = np.random.default_rng(seed).permutation(len(texts))
    done, cursor, number = 0, 0, 0
    while (file := _shard_file(folder, number)).exists():
        count, cursor = _shard_size(file)
        done, number = done + count, number + 1
    while done < n_tokens and cursor < len(order):
        taken, used = _take(model, texts, order, cursor, shard_tokens)
        shard = _read_shard(
            model, taken, (seed, number), lambda n, d=done: progress and progress(
                d + n, n_tokens, "reading hidden states"
            ),
        )  # fmt: skip
        cursor += used
        if len(shard.token):
            write_shard(_shard_file(folder, number), shard, cursor)
            done, number = done + len(shard.token), number + 1
    if not done:
        raise InputError("the corpus has no text with a token in it")
    return open_harvest(folder)


def open_harvest(folder: Path) -> Harvest:
    """Opens a folder that `harvest` wrote; shards may still be missing at its end.

    Raises:
        InputError: It is none, or a shard is damaged.
    """
    try:
        manifest = files.read_json(folder / _MANIFEST)
    except (OSError, ValueError):
        raise InputError("is not a harvest: no harvest.json in it", file=folder) from None
    shards: list[Path] = []
    sizes: list[int] = []
    while (file := _shard_file(folder, len(shards))).exists():
        sizes.append(_shard_size(file)[0])
        shards.append(file)
    return Harvest(folder, manifest, tuple(shards), tuple(sizes))


def load_shard(file: Path) -> Shard:
    """Reads a shard.

    Raises:
        InputError: It is damaged.
    """
    try:
        with safe_open(file, "np") as opened:
            return Shard(*(opened.get_tensor(name) for name in Shard._fields))
    except (SafetensorError, OSError) as error:
        raise InputError(f"is damaged: {error}", file=file, fix="delete it and go on") from None


def _take(
    model: LanguageModel,
    texts: Sequence[str],
    order: NDArray[np.int64],
    cursor: int,
    shard_tokens: int,
) -> tuple[list[tuple[int, str]], int]:
    """The next texts with at least `shard_tokens` counted tokens, and how many were looked at."""
    taken: list[tuple[int, str]] = []
    filled, used = 0, 0
    while filled < shard_tokens and cursor + used < len(order):
        chunk = [int(i) for i in order[cursor + used : cursor + used + _CHUNK]]
        whole = [i for i in chunk if texts[i].strip()]
        sizes = model.tokeniser([texts[i] for i in whole]).n_read.tolist()
        size_of = dict(zip(whole, sizes, strict=True))
        for i in chunk:
            used += 1
            if i in size_of:
                taken.append((i, texts[i]))
                filled += size_of[i]
            if filled >= shard_tokens:
                break
    return taken, used


def _read_shard(
    model: LanguageModel,
    taken: list[tuple[int, str]],
    seed: tuple[int, int],
    progress: Callable[[int], object],
) -> Shard:
    import torch

    numbers = np.array([i for i, _ in taken], np.int32)
    tokens = model.tokeniser([t for _, t in taken])
    n = int(tokens.n_read.sum())
    out = Shard(
        np.empty((n, model.d_model), np.float16), np.empty(n, np.int32), np.empty(n, np.int32)
    )
    place = np.random.default_rng(seed).permutation(n)  # token by token, where each goes
    done = 0
    for batch in model.plan(tokens):
        read = model.read_batch(tokens, batch)
        if bool((read.states.abs() > torch.finfo(torch.float16).max).any()):
            raise InputError("hidden states beyond 65,504 do not fit the shards' float16")
        where = place[done : done + len(read.tokens)]
        out.states[where] = read.states.to(torch.float16).cpu().numpy()
        out.token[where], out.text[where] = read.tokens, numbers[read.rows]
        done += len(where)
        progress(done)
    return out


def write_shard(file: Path, shard: Shard, cursor: int) -> None:
    """Writes a shard; `cursor` is the place in the order of texts at which the next begins."""
    # One key: safetensors writes several in an order that changes from run to run.
    about = {"about": json.dumps({"n_tokens": len(shard.token), "next_text": cursor})}
    files.write_aside(file, lambda aside: save_file(shard._asdict(), aside, metadata=about))


def _shard_file(folder: Path, number: int) -> Path:
    return folder / f"shard-{number:05d}.safetensors"


def _shard_size(file: Path) -> tuple[int, int]:
    try:
        with safe_open(file, "np") as opened:
            about = json.loads(opened.metadata()["about"])
            return int(about["n_tokens"]), int(about["next_text"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"is damaged: {error}", file=file, fix="delete it and go on") from None


def _check_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    file = folder / _MANIFEST
    if not file.exists():
        files.write_json(file, manifest)
        return
    there = files.read_json(file)
    differ = [k for k in manifest if there.get(k) != json.loads(json.dumps(manifest[k]))]
    if differ:
        raise StaleError(
            f"{folder} holds a harvest of another {', '.join(differ)}; name another folder"
        )

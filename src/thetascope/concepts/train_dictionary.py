"""From texts to a dictionary in one call: harvest, train, save, measure, describe."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from thetascope.concepts.corpus import Corpus
from thetascope.concepts.fit import SelfCheck, self_check
from thetascope.concepts.formats import read_dictionary
from thetascope.concepts.harvest import SHARD_TOKENS, Harvest, harvest, load_shard
from thetascope.concepts.language_model import LanguageModel
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.reference import ABOUT, concept_reference, write_reference
from thetascope.concepts.saving import save_dictionary
from thetascope.concepts.train_config import TrainConfig
from thetascope.concepts.training import train
from thetascope.errors import InputError
from thetascope.study import files

CONTEXT = 256
"""Tokens at which a text is cut in training where `max_tokens` is not given."""

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class TrainResult:
    """What training gave.

    Attributes:
        folder: The dictionary, in SAELens' format, with reference.parquet and reference.json.
        model: The language model's public name.
        hook: Where it was read.
        n_latents: Concepts.
        n_texts: Texts whose tokens were harvested.
        n_empty: Texts left out because they are empty.
        n_tokens: Tokens harvested, the held-out ones included.
        held_out: Tokens held out.
        tokens_seen: Tokens trained on, counted each time.
        explained: Share of the held-out tokens' variance that the dictionary as saved explains,
            the few outliers left out (see `fit.self_check`).
        explained_all: The same share with them.
        n_outliers: How many they are.
        l0: Active concepts on a held-out token.
        dead: Concepts that are active on no harvested token.
        new: Whether anything was done; False where the folder held this very dictionary.
    """

    folder: Path
    model: str
    hook: str
    n_latents: int
    n_texts: int
    n_empty: int
    n_tokens: int
    held_out: int
    tokens_seen: int
    explained: float
    explained_all: float
    n_outliers: int
    l0: float
    dead: int
    new: bool


def train_dictionary(
    corpus: Corpus,
    to: Path,
    *,
    model: LanguageModelConfig | None = None,
    config: TrainConfig | None = None,
    harvest_tokens: int = 1_000_000,
    work: Path | None = None,
    dtype: str = "float16",
    shard_tokens: int | None = None,
    progress: Progress | None = None,
) -> TrainResult:
    """Trains a dictionary on the hidden states of a language model.

    Every step goes on from where a killed call stopped and ends in the same bytes.

    Args:
        corpus: The texts.
        to: Folder of the dictionary.
        model: The language model and its hook; a text is cut at its
            `max_tokens`, or 256.
        config: How it is trained.
        harvest_tokens: Tokens whose hidden states are kept on disk (2 bytes x width each); the
            first shard of them is held out.
        work: Folder for the hidden states and checkpoints; TO with "-work" behind it where not
            given. It can be deleted when all is done.
        dtype: Of the weights on disk.
        shard_tokens: Tokens in a shard of hidden states; None is a tenth of `harvest_tokens`,
            at most 65,536.
        progress: Called as the work goes on.

    Raises:
        MissingExtra: The packages for language models are not installed.
        InputError: The model, the texts or a setting cannot be used.
        StaleError: `work` holds hidden states of other inputs.
    """
    lm_config, config = model or LanguageModelConfig(), config or TrainConfig()
    if to.exists() and not (to / ABOUT).is_file() and (to.is_file() or any(to.iterdir())):
        raise InputError("is not empty", file=to, fix="name another folder")
    work = work or to.with_name(f"{to.name}-work")
    lm = LanguageModel(lm_config, longest=CONTEXT)
    shard_tokens = shard_tokens or min(SHARD_TOKENS, max(1, harvest_tokens // 10))
    states = harvest(
        lm, corpus.texts, work / "harvest",
        n_tokens=harvest_tokens, shard_tokens=shard_tokens, progress=progress,
    )  # fmt: skip
    identity = files.hash_json(
        {"harvest": states.manifest, "n_tokens": states.n_tokens, "config": asdict(config),
         "dtype": dtype, "model": lm_config.public_name}
    )  # fmt: skip
    there = _done(to, identity)
    new = there is None
    if there is None:
        trained = train(
            states, config, work / f"training-{identity[:8]}", device=lm.device, progress=progress
        )
        # Made beside its place and moved there whole: a kill leaves no half of a dictionary.
        aside = to.with_name(f".tmp-{identity[:8]}-{to.name}")
        save_dictionary(
            trained, config, states.manifest, aside, model_name=lm_config.public_name, dtype=dtype
        )
        there = _describe(aside, states, lm, corpus, identity, trained.tokens_seen, progress)
        if to.exists():
            to.rmdir()
        os.replace(aside, to)
        files.fsync_path(to.parent)
    kept = {k: there[k] for k in TrainResult.__dataclass_fields__ if k in there}
    return TrainResult(
        folder=to, model=lm_config.public_name, hook=str(lm.hook), new=new,
        n_latents=config.n_latents, n_empty=corpus.n_empty, **kept,
    )  # fmt: skip


def held_out_check(folder: Path, states: Harvest) -> SelfCheck:
    """Measures a saved dictionary on the harvest's held-out shard."""
    import torch

    held = torch.from_numpy(load_shard(states.shards[0]).states)
    return self_check(read_dictionary(folder), held)


def _describe(
    to: Path,
    states: Harvest,
    lm: LanguageModel,
    corpus: Corpus,
    identity: str,
    tokens_seen: int,
    progress: Progress | None,
) -> dict[str, Any]:
    """Measures what was saved, writes the reference table, and last the record of it all."""
    import numpy as np

    check = held_out_check(to, states)
    table = concept_reference(read_dictionary(to), states, lm.token_texts, progress)
    n_texts = len(np.unique(np.concatenate([load_shard(f).text for f in states.shards])))
    about = {
        "identity": identity,
        "corpus": corpus.name,
        "corpus_hash": states.manifest["corpus"],
        "n_texts": n_texts,
        "n_tokens": states.total,
        "held_out": states.n_tokens[0],
        "tokens_seen": tokens_seen,
        "explained": round(check.explained, 5),
        "explained_all": round(check.explained_all, 5),
        "n_outliers": check.n_outliers,
        "l0": round(check.l0, 3),
        "dead": int((table["n_fired"] == 0).sum()),
    }
    write_reference(to, table, about)
    return about


def _done(to: Path, identity: str) -> dict[str, Any] | None:
    """The record of a finished training of these inputs."""
    if not to.exists() or not any(to.iterdir()):
        return None
    there = files.read_json(to / ABOUT)
    if there.get("identity") != identity:
        raise InputError("holds another dictionary", file=to, fix="name another folder")
    return there

"""Commands about concepts: concepts train."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thetascope.cli.output import print_json, progress, say
from thetascope.concepts.corpus import read_corpus
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.train_config import TrainConfig
from thetascope.concepts.train_dictionary import TrainResult, train_dictionary

_MODEL = LanguageModelConfig()
_TRAIN = TrainConfig()


def train(
    texts: Path,
    /,
    *,
    to: Path,
    column: str = "text",
    harvest_tokens: int = 1_000_000,
    work: Path | None = None,
    weights: str = "float16",
    language_model: Annotated[LanguageModelConfig, Parameter(name="*")] = _MODEL,
    training: Annotated[TrainConfig, Parameter(name="*")] = _TRAIN,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Train a dictionary (a sparse autoencoder) on a language model's hidden states.

    Hidden states are kept on disk (2 bytes x width for each token) and the first shard of them
    is held out. A killed run goes on where it stopped. The folder is in SAELens' format. A text
    is cut at 256 tokens unless --max-tokens says otherwise.

    Parameters
    ----------
    texts
        A .txt (paragraphs), .jsonl, .csv or .parquet file.
    to
        Folder of the dictionary; new or empty.
    column
        Column or key that holds the texts.
    harvest_tokens
        Tokens whose hidden states are kept.
    work
        Folder for hidden states and checkpoints; TO-work where not given. Delete it at the end.
    weights
        Type of the weights on disk: float16, bfloat16 or float32.
    json
        Print one JSON object.
    """
    corpus = read_corpus(texts, column)
    with progress() as line:
        made = train_dictionary(
            corpus, to, model=language_model, config=training, harvest_tokens=harvest_tokens,
            work=work, dtype=weights, progress=line,
        )  # fmt: skip
    if json:
        print_json({**asdict(made), "folder": str(made.folder)})
    else:
        say(*_lines(made))
    return 0


def _lines(made: TrainResult) -> list[str]:
    empty = f"; {made.n_empty:,} empty texts left out" if made.n_empty else ""
    return [
        f"{made.model}, hook {made.hook}: {made.n_tokens:,} tokens of {made.n_texts:,} texts"
        f"{empty}",
        f"{'trained' if made.new else 'already trained'}: {made.n_latents:,} concepts,"
        f" {made.tokens_seen:,} tokens seen",
        f"held-out tokens ({made.held_out:,}): {100 * made.explained:.1f} % of the variance"
        f" explained ({100 * made.explained_all:.1f} % with {made.n_outliers:,} outliers),"
        f" {made.l0:.1f} concepts active on a token",
        f"dead: {made.dead:,} concepts ({100 * made.dead / made.n_latents:.2f} %) are active on"
        " none of these tokens",
        f"{made.folder}",
    ]

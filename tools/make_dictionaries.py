"""The bundled dictionaries, trained from the corpus kept beside the repository.

    python tools/make_dictionaries.py CORPUS.parquet WORK OUT [NAME ...] [--quick]

Run by `make dictionaries`. Hidden states and checkpoints go to WORK (about 3 GB) and a killed
run goes on from there. OUT/NAME gets the folder in SAELens' format, the reference table and a
model card; it must not hold another dictionary. --quick takes a quarter of the tokens; the bundled
ones were made with it (SmolLM2: 590 s of one core for the hidden states).
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from thetascope.concepts.corpus import Corpus
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.train_config import TrainConfig
from thetascope.concepts.train_dictionary import TrainResult, train_dictionary


class Recipe(NamedTuple):
    """A dictionary and the tokens it takes."""

    model: LanguageModelConfig
    config: TrainConfig
    harvest_tokens: int


RECIPES = {
    "smollm2-135m-l14-8k": Recipe(
        LanguageModelConfig("offline", hook="14", device="cpu", max_tokens=256),
        TrainConfig(n_latents=8192, k=32, n_tokens=3_500_000, lr=3e-3, checkpoint_steps=50),
        1_300_000,
    ),
    "minilm-l3-4k": Recipe(
        LanguageModelConfig("offline-minilm", hook="3", device="cpu", max_tokens=256),
        TrainConfig(n_latents=4096, k=32, n_tokens=5_000_000, lr=3e-3, checkpoint_steps=100),
        1_900_000,
    ),
}
LICENCES = {
    "offline": "Apache-2.0 (SmolLM2-135M-Instruct)",
    "offline-minilm": "Apache-2.0 (all-MiniLM-L6-v2)",
}


def main(arguments: list[str]) -> None:
    """Makes the dictionaries named, or both."""
    quick = "--quick" in arguments
    file, work, out, *names = [a for a in arguments if a != "--quick"]
    frame = pl.read_parquet(file)
    corpus = Corpus(frame["text"].to_list(), 0, Path(file).name)
    for name in names or list(RECIPES):
        recipe = RECIPES[name]
        if quick:
            tokens = recipe.config.n_tokens or 0
            recipe = recipe._replace(
                config=replace(recipe.config, n_tokens=tokens * 3 // 10),
                harvest_tokens=recipe.harvest_tokens // 4,
            )
        made = train_dictionary(
            corpus, Path(out) / name, model=recipe.model, config=recipe.config,
            harvest_tokens=recipe.harvest_tokens, work=Path(work) / name, shard_tokens=1 << 16,
            progress=Said(),
        )  # fmt: skip
        sys.stdout.write(write_card(made, recipe, frame))


class Said:
    """Prints how far it is every half minute."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, done: int, total: int, what: str) -> None:
        """Prints a line if it is time."""
        if time.monotonic() - self.last > 30 or done == total:
            self.last = time.monotonic()
            sys.stdout.write(f"{time.strftime('%H:%M:%S')} {done:,}/{total:,} {what}\n")
            sys.stdout.flush()


def write_card(made: TrainResult, recipe: Recipe, frame: pl.DataFrame) -> str:
    """Writes OUT/NAME/README.md and returns it."""
    config = recipe.config
    rows = frame.group_by("source", "licence").len().sort("source")
    sources = "\n".join(f"| {s} | {n:,} | {licence} |" for s, licence, n in rows.rows())
    dead = f"{made.dead:,} of {made.n_latents:,} ({100 * made.dead / made.n_latents:.2f} %)"
    with_all = f"{100 * made.explained_all:.1f}"
    text = f"""# {made.folder.name}

A sparse autoencoder ({config.activation}, {config.n_latents:,} latents, {config.k} active on a
token) of the residual stream of {made.model}, hook
{made.hook} (blocks counted from 0). SAELens' folder format, weights in float16.

| measured | |
|---|---|
| variance explained on held-out tokens ({made.held_out:,}) | {100 * made.explained:.1f} % |
| the same with {made.n_outliers:,} outliers (over 5 times the median length) | {with_all} % |
| concepts active on a token | {made.l0:.1f} |
| dead (active on none of {made.n_tokens:,} tokens) | {dead} |
| tokens harvested, trained on (counted each time) | {made.n_tokens:,}, {made.tokens_seen:,} |

**Data**: {made.n_texts:,} texts drawn at random from a corpus of permissively licensed English
prose, maths, code and questions, cut at {recipe.model.max_tokens} tokens, raw text, the model's
prefix token in front and not counted. None of its text is in this repository. The questions of
GSM8K test, CRUXEval and MATH level 5 are not in it.

| source | texts in the corpus | licence |
|---|---|---|
{sources}

**reference.parquet** holds, per concept, its maximum (`act_max`) and density over those
{made.n_tokens:,} tokens, and the single tokens on which most of its mass lies. A maximum grows with
the tokens looked at.

**Limits**: trained on few tokens, so most concepts are about single tokens or templates, rare ones
are noisy, and text unlike the corpus (other languages above all) is explained worse. Held-out texts
come from the same sources, whose answers to one question resemble each other. The language model is
small{" and quantised (Q4_1)" if recipe.model.model == "offline" else ""}.

Licence: Apache-2.0. Language model: {LICENCES[recipe.model.model]}.
"""
    (made.folder / "README.md").write_text(text, "utf-8")
    return text


if __name__ == "__main__":
    main(sys.argv[1:])

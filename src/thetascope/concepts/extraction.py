"""What decides an extraction, and making its shards: by one process, or by several at once."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from thetascope.concepts.dictionary import Dictionary, DictionaryInfo, DictionaryWeights
from thetascope.concepts.fit import check_pair
from thetascope.concepts.formats import Overrides, read_dictionary
from thetascope.concepts.language_model import LanguageModel
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.reading_plan import ReadingPlan, make_plan, study_texts, texts_hash
from thetascope.concepts.shards import check_shard, make_shard, shard_file
from thetascope.concepts.store import KIND
from thetascope.encoders.config import check_name
from thetascope.errors import InputError
from thetascope.study import Study, files, store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WORDS = "words.json"


@dataclass(frozen=True)
class Extraction:
    """What decides an extraction: a model, a dictionary, a study and what is kept.

    Attributes:
        path: The study's folder.
        study: The study.
        name: Name of the activations.
        model: The language model, loaded.
        dictionary: The dictionary, on the model's device.
        dictionary_name: Its short name.
        given: What the user said about it.
        contexts: Whether the places where concepts are strongest are kept.
        plan: What is read, in shards.
    """

    path: Path
    study: Study
    name: str
    model: LanguageModel
    dictionary: Dictionary
    dictionary_name: str
    given: Overrides
    contexts: bool
    plan: ReadingPlan

    @cached_property
    def key(self) -> dict[str, Any]:
        """Equal keys give equal activations, whoever makes them."""
        return extraction_key(
            self.study, self.model.identity, self.dictionary.info, self.given, self.contexts
        )

    @cached_property
    def work(self) -> Path:
        """The folder of its shards; several processes may write to it at once."""
        key = {**self.key, "batch": self.model.batch_tokens, "shard": self.plan.shard_tokens}
        return store.Writer(self.path).work_folder(KIND, self.name, key)


@dataclass(frozen=True)
class Asked:
    """What an extraction is asked for, before the language model is loaded.

    Attributes:
        path: The study's folder.
        study: The study.
        name: Name of the activations.
        config: The language model and its hook.
        dictionary: The dictionary.
        dictionary_name: Its short name.
        given: What the user said about it.
        contexts: Whether the places where concepts are strongest are kept.
    """

    path: Path
    study: Study
    name: str
    config: LanguageModelConfig
    dictionary: Dictionary
    dictionary_name: str
    given: Overrides
    contexts: bool


def extraction_key(
    study: Study,
    language_model: dict[str, Any],
    dictionary: DictionaryInfo,
    given: Overrides,
    contexts: bool,
) -> dict[str, Any]:
    """Returns what decides the activations, as JSON.

    Args:
        study: Items and their texts.
        language_model: Its identity, see `LanguageModelConfig.identity`.
        dictionary: What the dictionary is.
        given: What the user said about it.
        contexts: Whether the places where concepts are strongest are kept.
    """
    return {
        "language_model": language_model,
        "dictionary": {
            "fingerprint": dictionary.fingerprint,
            "activation": dictionary.activation,
            "k": dictionary.k,
            "normalise": dictionary.normalise,
            "norm_factor": given.norm_factor,
        },
        "texts": texts_hash(study),
        "contexts": contexts,
    }


def ask(
    study: Study | str | Path,
    *,
    model: LanguageModelConfig | str = "offline",
    settings: Mapping[str, Any] | None = None,
    hook: str | None = None,
    dictionary: str | Path = "offline",
    name: str | None = None,
    given: Overrides | None = None,
    contexts: bool = False,
) -> Asked:
    """Reads study and dictionary; the language model is named only.

    Raises:
        MissingExtra: The packages for dictionaries are not installed.
        InputError: The study has no texts, or the dictionary or a setting cannot be used.
    """
    opened = study if isinstance(study, Study) else Study.open(study)
    if opened.path is None:
        raise InputError("the study is in memory only", fix="save it to a folder first")
    study_texts(opened)  # no texts: said before a model is loaded
    given = given or Overrides()
    loaded = read_dictionary(dictionary, given)
    short = short_name(str(dictionary))
    label = check_name(name or short)
    if isinstance(model, str):
        place = hook or loaded.info.hook
        if place is None:
            raise InputError(
                "the dictionary does not say where in the model it reads", field="hook",
                fix="name the hook, like 14 for the output of block 14",
            )  # fmt: skip
        model = LanguageModelConfig(model, **{**(settings or {}), "hook": str(place)})
    _check_hook(loaded, model)
    return Asked(opened.path, opened, label, model, loaded, short, given, contexts)


def load_extraction(
    asked: Asked,
    *,
    any_model: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[Extraction, tuple[str, ...]]:
    """Loads the language model, refuses what does not fit, and plans the reading.

    Returns:
        The extraction, and what cannot be told or is unusual, in words.

    Raises:
        MissingExtra: The packages for language models are not installed.
        InputError: The model cannot be used, or model and dictionary do not fit.
    """
    lm = LanguageModel(asked.config)
    notes = check_pair(lm, asked.dictionary, any_model=any_model)
    loaded = _moved(asked.dictionary, lm.device)
    plan = make_plan(lm, asked.study, progress=progress)
    job = Extraction(
        asked.path, asked.study, asked.name, lm, loaded, asked.dictionary_name, asked.given,
        asked.contexts, plan,
    )  # fmt: skip
    return job, notes


def open_extraction(
    study: Study | str | Path,
    *,
    any_model: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    **what: Any,
) -> tuple[Extraction, tuple[str, ...]]:
    """Loads all that an extraction needs and refuses what does not fit, before the first batch.

    Args:
        study: The study, or its folder.
        any_model: Whether another model's dictionary is meant.
        progress: Called as texts are tokenised.
        what: The other arguments of `ask`.

    Returns:
        The extraction, and what cannot be told or is unusual, in words.

    Raises:
        MissingExtra: The packages for language models are not installed.
        InputError: The study has no texts, or model and dictionary do not fit.
    """
    return load_extraction(ask(study, **what), any_model=any_model, progress=progress)


def _check_hook(dictionary: Dictionary, model: LanguageModelConfig) -> None:
    """Said before the model is loaded."""
    hook = dictionary.info.hook
    if hook is not None and hook != model.place:
        raise InputError(
            f"the dictionary reads {hook.saelens}, the model is hooked at {model.place.saelens}",
            field="hook",
            fix=f"use hook {hook}",
        )


def make_shards(
    job: Extraction,
    numbers: Sequence[int],
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[int, float]:
    """Makes those of the numbered shards that are not there.

    Returns:
        How many it made, and the counted tokens that it read a second.

    Raises:
        InputError: One that is there is damaged.
    """
    folder = job.work / "shards"
    folder.mkdir(exist_ok=True)
    if job.contexts and not (job.work / WORDS).exists():
        _write_words(job)
    n_tokens = job.plan.n_tokens
    sizes = {s: int(n_tokens[job.plan.shard_texts(s)].sum()) for s in numbers}
    todo = [s for s in numbers if not shard_file(folder, s).exists()]
    for s in set(numbers) - set(todo):
        check_shard(shard_file(folder, s))
    total, done = sum(sizes.values()), sum(sizes[s] for s in set(numbers) - set(todo))
    began, first = time.monotonic(), done
    for s in todo:

        def tell(tokens: int, before: int = done) -> None:
            rate = (before + tokens - first) / max(1e-9, time.monotonic() - began)
            if progress:
                progress(before + tokens, total, f"tokens read, {rate:,.0f} a second")

        make_shard(
            job.model, job.dictionary, job.plan, s, folder, contexts=job.contexts, progress=tell
        )
        done += sizes[s]
    return len(todo), (done - first) / max(1e-9, time.monotonic() - began)


def short_name(dictionary: str) -> str:
    """The last part of a dictionary's name, fit for a folder's name."""
    last = PurePath(dictionary.replace("\\", "/")).name
    return re.sub(r"[^A-Za-z0-9._-]+", "_", last).strip("._-") or "dictionary"


def _write_words(job: Extraction) -> None:
    """The text of each token id of the study: joining shards needs no tokenizer then."""
    ids = np.unique(job.plan.tokens.ids.flat)
    texts = job.model.token_texts(ids)
    words = {str(i): text for i, text in zip(ids.tolist(), texts, strict=True)}
    files.write_json(job.work / WORDS, words)


def _moved(dictionary: Dictionary, device: str) -> Dictionary:
    if device == "cpu":
        return dictionary
    w = dictionary.weights
    fields = {name: t.to(device) for name, t in w._asdict().items() if t is not None}
    return Dictionary(dictionary.info, DictionaryWeights(**fields))

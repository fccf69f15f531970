"""A loaded language model, read at one place of its residual stream.

The forward pass stops there: a hook on the block keeps the hidden states and ends the pass, and
the blocks behind it are dropped after loading. Texts are padded on the right to a length that
depends on their own length alone (see `encoders.batches`), so a text's hidden states are the
same whatever stands in its batch, in which order; tests hold this to 1e-4 relative in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.concepts import lm_source
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.tokens import Tokeniser, Tokens, find_prefix
from thetascope.encoders.batches import Batch, plan_batches
from thetascope.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from torch import Tensor

_CPU_TOKENS, _GPU_TOKENS = 4096, 32768
LONGEST = 2048
"""Tokens kept of a text where nothing else says how many."""


class HiddenStates(NamedTuple):
    """The hidden states of a batch's counted tokens.

    Attributes:
        states: (t, d_model) in the model's dtype, on its device; text by text, in order.
        rows: (t,) position of each token's text among all texts.
        tokens: (t,) token ids.
    """

    states: Tensor
    rows: NDArray[np.int64]
    tokens: NDArray[np.int64]


class _Stop(Exception):
    """Ends a forward pass at the hooked block."""


class LanguageModel:
    """A model that is loaded once and kept warm.

    Attributes:
        config: What was asked for.
        hook: The place that is read.
        d_model: Width of the residual stream.
        n_layers: Blocks of the whole model.
        is_encoder: Whether every token sees every other (BERT).
        tokeniser: Texts to tokens, with the prefix and the template.
        fingerprint: Hash of the model's files, or the hub's name and revision.
        identity: What decides the hidden states, as recorded with what is made from them.
        device: Where the tokens go: "cpu" or "cuda".
        batch_tokens: Tokens in a batch, padding included.

    Raises:
        MissingExtra: The packages for language models are not installed.
        InputError: The model cannot be found or loaded, or a setting does not fit it.
    """

    def __init__(
        self, config: LanguageModelConfig, *, longest: int = LONGEST, whole: bool = False
    ) -> None:
        """Loads the model.

        Args:
            config: What to load and how to read it.
            longest: Tokens kept of a text where neither the config nor the model keeps fewer.
            whole: Whether the blocks behind the hook are kept and run too.
        """
        self.config, self.hook = config, config.place
        lm_source.require()  # before a model is looked for: it needs them, wherever it is
        place = lm_source.locate(config.model)
        device = _pick_device(config.device)
        loaded = lm_source.load(config, place, device)
        self._body, self.is_encoder = loaded.body, loaded.is_encoder
        blocks = lm_source.find_blocks(self._body)
        self.n_layers, self._whole = len(blocks), whole
        if self.hook.layer >= self.n_layers:
            raise InputError(
                f"the model has blocks 0 to {self.n_layers - 1}, asked for {self.hook.layer}",
                field="hook",
            )
        self._hooked = blocks[self.hook.layer]
        if not whole:
            del blocks[self.hook.layer + 1 :]
        if device != "spread":
            self._body.to(device)
        self.device = "cpu" if device == "cpu" else "cuda"
        self.fingerprint = lm_source.fingerprint(place)
        self._pad = loaded.tokenizer.pad_token_id or 0
        self.tokeniser = Tokeniser(
            loaded.tokenizer,
            find_prefix(loaded.tokenizer, config.prefix, self.is_encoder),
            max_tokens=_max_tokens(config, self._body.config, loaded.tokenizer, longest),
            template=config.template,
            is_encoder=self.is_encoder,
            count_all=config.count_all,
        )
        self.identity = config.identity(self.fingerprint, self.tokeniser.max_tokens)
        self._tokenizer = loaded.tokenizer
        self.batch_tokens = config.batch_tokens or (
            _CPU_TOKENS if self.device == "cpu" else _GPU_TOKENS
        )
        self.d_model = self._forward([np.zeros(1, np.int64)], 1).shape[2]

    def token_texts(self, ids: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """Returns the text of each token id."""
        return [self._tokenizer.decode([int(i)]) for i in ids]

    def plan(self, tokens: Tokens) -> list[Batch]:
        """Returns the batches in which these texts are read, longest first."""
        return plan_batches(tokens.lengths, self.batch_tokens, self.tokeniser.max_tokens)

    def read_batch(self, tokens: Tokens, batch: Batch) -> HiddenStates:
        """Returns the hidden states of one batch's counted tokens.

        Raises:
            InputError: They are not finite, or the GPU's memory is too small.
        """
        import torch

        ids = [tokens.ids[int(i)] for i in batch.rows]
        hidden = self._forward(ids, batch.length)  # (b, T, d)
        own = np.zeros((len(ids), batch.length), bool)
        for i, row in enumerate(batch.rows):
            mask = tokens.counted[int(row)]
            own[i, : len(mask)] = mask
        states = hidden[torch.from_numpy(own).to(hidden.device)]  # (t, d)
        if not bool(torch.isfinite(states).all()):
            raise InputError(
                f"the model's hidden states are not finite in {self.config.dtype}",
                field="dtype",
                fix="use bfloat16 or float32"
                if self.config.dtype == "float16"
                else "the model's"
                " weights are damaged, or it does not fit this version of transformers",
            )
        rows = np.repeat(batch.rows, own.sum(1))
        flat = [row[tokens.counted[int(i)]] for i, row in zip(batch.rows, ids, strict=True)]
        return HiddenStates(states, rows, np.concatenate(flat).astype(np.int64))

    def read(self, texts: Sequence[str]) -> Iterator[HiddenStates]:
        """Yields the hidden states of texts, batch by batch, longest texts first.

        Raises:
            InputError: A text has no tokens (the record is its position, from 1).
        """
        tokens = self.tokeniser(texts)
        for batch in self.plan(tokens):
            yield self.read_batch(tokens, batch)

    def _forward(self, rows: list[NDArray[np.integer]], length: int) -> Tensor:
        """Returns the (b, T, d) hidden states at the hook; padding's are without meaning."""
        import torch

        ids = np.full((len(rows), length), self._pad, np.int64)
        mask = np.zeros((len(rows), length), np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        kept: list[Tensor] = []

        def keep(state: Any) -> None:
            kept.append(state[0] if isinstance(state, tuple) else state)
            if not self._whole:
                raise _Stop

        if self.hook.site == "output":
            handle = self._hooked.register_forward_hook(lambda _m, _a, out: keep(out))
        else:
            handle = self._hooked.register_forward_pre_hook(
                lambda _m, args, named: keep(args[0] if args else named["hidden_states"]),
                with_kwargs=True,
            )
        try:
            with torch.inference_mode():
                # On the right, positions 0, 1, ... are right for texts of any length.
                self._body(
                    input_ids=torch.from_numpy(ids).to(self.device),
                    attention_mask=torch.from_numpy(mask).to(self.device),
                )
        except _Stop:
            pass
        except torch.OutOfMemoryError:
            raise InputError(
                f"{len(rows)} texts of {length} tokens do not fit the GPU's memory",
                field="batch_tokens",
                fix=f"try {max(length, self.batch_tokens // 2)}",
            ) from None
        finally:
            handle.remove()
        return kept[0]


def _pick_device(device: str) -> str:
    try:
        import torch
    except ImportError:
        raise MissingExtra("running a language model", "sae") from None
    there = torch.cuda.is_available()
    if device in ("cuda", "spread") and not there:
        raise InputError("torch sees no GPU here", field="device", fix="use cpu or auto")
    if device == "auto":
        return "cuda" if there else "cpu"
    return device


def _max_tokens(config: LanguageModelConfig, settings: Any, tokenizer: Any, longest: int) -> int:
    """The model's own limit, at most `longest`; or the config's if the model can take it."""
    if hasattr(settings, "get_text_config"):
        settings = settings.get_text_config()
    known = [
        getattr(settings, "max_position_embeddings", None),
        getattr(tokenizer, "model_max_length", None),
    ]
    # A tokenizer without a limit says 1e30.
    limits = [int(v) for v in known if isinstance(v, int | float) and 0 < v < 10**9]
    if config.max_tokens is None:
        return min([*limits, longest])
    if limits and config.max_tokens > min(limits):
        raise InputError(
            f"the model takes {min(limits)} tokens, asked for {config.max_tokens}",
            field="max_tokens",
        )
    return config.max_tokens

"""A loaded encoder: text -> tokens -> one vector.

On one CPU a text's vector is the same bits in any batch, order and number of threads (see
`batches`), so vectors made in one run and in several are equal byte for byte. Another
processor, a GPU or another version of torch may change the last bits (about 1e-6 relative in
float32); `run.json` beside stored vectors says what made the newest of them. On a GPU the
kernels depend on the batch's shape, so there every batch is filled up to its full number of
rows: the shape is then a function of padded length and token budget alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.encoders import source
from thetascope.encoders.batches import Batch, plan_batches, rows_per_batch
from thetascope.encoders.config import Device, EncoderConfig, as_config, recorded_config
from thetascope.encoders.vectors import StudyVectors
from thetascope.errors import InputError, MissingExtra, StaleError

if TYPE_CHECKING:
    from torch import Tensor

Progress = Callable[[int, int, str], None]
"""Called with (texts done, texts in all, what is being done)."""

_CHUNK = 1024
_CPU_TOKENS, _GPU_TOKENS = 8192, 65536


class Tokens(NamedTuple):
    """Tokenised texts.

    Attributes:
        ids: One array of token ids a text, cut at the encoder's limit.
        n_tokens: (n,) tokens of the whole text, before the cut.
        truncated: (n,) whether it was cut.
    """

    ids: list[NDArray[np.int64]]
    n_tokens: NDArray[np.int64]
    truncated: NDArray[np.bool_]


class Encoder:
    """A model that is loaded once and kept warm.

    Attributes:
        config: What was asked for.
        fingerprint: Hash of the model folder's contents, or the hub's name and revision.
        identity: What decides the vectors, as recorded with them.
        pooling: How tokens become one vector, in words ("mean", "cls", ...).
        max_tokens: The most tokens of a text that are read.
        prefix: Text put in front of every text.
        dim: Length of a vector.
        device: "cpu" or "cuda".

    Raises:
        MissingExtra: The packages for encoding are not installed.
        InputError: The model cannot be found or loaded, or a setting does not fit it.
    """

    def __init__(self, config: EncoderConfig | str = "offline") -> None:
        self.config = as_config(config)
        place = source.locate(self.config.model)
        self.device = _pick_device(self.config.device)
        self._model = source.load_model(self.config, place, self.device)
        self.fingerprint = (
            source.fingerprint(place) if isinstance(place, Path) else source.hub_revision(place)
        )
        self.identity = self.config.identity(self.fingerprint)
        self.prefix = _prefix(self.config, self._model)
        self._tokenizer: Any = self._model.tokenizer
        self.max_tokens = _max_tokens(self.config, self._model)
        self.pooling = _pooling(self.identity["pooling"], self._model, self.prefix)
        self.batch_tokens = self.config.batch_tokens or (
            _CPU_TOKENS if self.device == "cpu" else _GPU_TOKENS
        )
        self.dim = self._forward([np.zeros(1, np.int64)], 1).shape[1]

    def tokenise(self, texts: Sequence[str], progress: Progress | None = None) -> Tokens:
        """Returns the tokens of each text, with the prefix and the model's special tokens.

        Raises:
            InputError: A text has no tokens.
        """
        ids: list[NDArray[np.int64]] = []
        whole = np.zeros(len(texts), np.int64)
        for start in range(0, len(texts), _CHUNK):
            chunk = [self.prefix + _sound(t) for t in texts[start : start + _CHUNK]]
            rows: list[list[int]] = self._tokenizer(chunk, verbose=False)["input_ids"]
            whole[start : start + len(rows)] = [len(r) for r in rows]
            long = [i for i, row in enumerate(rows) if len(row) > self.max_tokens]
            if long:  # cut by the tokenizer, which keeps the closing special token
                cut = self._tokenizer(
                    [chunk[i] for i in long], truncation=True, max_length=self.max_tokens
                )["input_ids"]
                for i, row in zip(long, cut, strict=True):
                    rows[i] = row
            ids += [np.asarray(row, np.int64) for row in rows]
            if progress:
                progress(start + len(rows), len(texts), "tokenising")
        empty = np.flatnonzero(whole == 0)
        if empty.size:
            raise InputError("the text has no tokens", record=int(empty[0]) + 1)
        return Tokens(ids, whole, whole > self.max_tokens)

    def plan(self, tokens: Tokens) -> list[Batch]:
        """Returns the batches in which these texts are encoded."""
        lengths = np.array([len(row) for row in tokens.ids], np.int64)
        return plan_batches(lengths, self.batch_tokens, self.max_tokens)

    def encode_batch(self, tokens: Tokens, batch: Batch) -> NDArray[np.float32]:
        """Returns the (b, D) vectors of one batch.

        Raises:
            InputError: A vector is not finite, or the GPU's memory is too small.
        """
        rows = [tokens.ids[int(i)] for i in batch.rows]
        vectors = self._forward(rows, batch.length)
        if not np.isfinite(vectors).all():
            raise InputError(
                f"the encoder's output is not finite in {self.config.dtype}",
                field="dtype",
                fix="use float32",
            )
        return vectors

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Returns the (n, D) vectors of the texts.

        Raises:
            InputError: A text has no tokens (the record is its position, from 1).
        """
        tokens = self.tokenise(texts, progress)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        done = 0
        for batch in self.plan(tokens):
            vectors[batch.rows] = self.encode_batch(tokens, batch)
            done += len(batch.rows)
            if progress:
                progress(done, len(texts), "encoding")
        return vectors

    def _forward(self, rows: list[NDArray[np.int64]], length: int) -> NDArray[np.float32]:
        import torch

        filled = len(rows)
        if self.device != "cpu":
            filled = max(filled, rows_per_batch(self.batch_tokens, length))
        pad = self._tokenizer.pad_token_id or 0
        ids = np.full((filled, length), pad, np.int64)
        mask = np.zeros((filled, length), np.int64)
        mask[:, 0] = 1  # a row without any token would be NaN
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        features = {
            "input_ids": torch.from_numpy(ids).to(self.device),
            "attention_mask": torch.from_numpy(mask).to(self.device),
        }
        try:
            with torch.inference_mode():
                vectors = self._pool(features)[: len(rows)].float()  # (b, D)
                if self.config.normalize:
                    vectors = torch.nn.functional.normalize(vectors, dim=1)
                return vectors.cpu().numpy()
        except torch.OutOfMemoryError:
            raise InputError(
                f"{filled} texts of {length} tokens do not fit the GPU's memory",
                field="batch_tokens",
                fix=f"try {max(length, self.batch_tokens // 2)}",
            ) from None

    def _pool(self, features: dict[str, Tensor]) -> Tensor:
        how = self.identity["pooling"]
        if how == "model":
            return self._model(features)["sentence_embedding"]
        hidden = self._model[0](features)["token_embeddings"].float()  # (b, T, D)
        if how == "cls":
            return hidden[:, 0]
        weight = features["attention_mask"].unsqueeze(-1).float()  # (b, T, 1)
        return (hidden * weight).sum(1) / weight.sum(1)


def encode_texts(
    texts: Sequence[str], config: EncoderConfig | Encoder | str = "offline"
) -> NDArray[np.float32]:
    """Returns the (n, D) float32 vectors of new texts.

    Args:
        texts: n texts.
        config: A config or its model's name; an `Encoder` saves loading it each time.

    Raises:
        MissingExtra: The packages for encoding are not installed.
        InputError: The model cannot be found or loaded, or a text has no tokens.
    """
    encoder = config if isinstance(config, Encoder) else Encoder(config)
    return encoder.encode(texts)


def encoder_for(
    vectors: StudyVectors, model: str | None = None, device: Device = "auto"
) -> Encoder:
    """Returns the encoder that made stored vectors, for new texts to compare with them.

    Args:
        vectors: Vectors that `encode_study` made.
        model: Where the model is on this machine, if it has moved.
        device: Where to run it.

    Raises:
        InputError: The vectors were made elsewhere, or the model is not found.
        StaleError: The model found is not the one that made them.
    """
    place = model or vectors.model
    if vectors.encoder is None or place is None:
        raise InputError(
            f"vectors {vectors.name!r} were not made here, so a new text cannot be encoded alike",
            fix="give the new text's vector instead",
        )
    encoder = Encoder(replace(recorded_config(vectors.encoder, place), device=device))
    if encoder.identity != vectors.encoder:
        raise StaleError(
            f"the encoder {place!r} is no longer the one that made the vectors"
            f" {vectors.name!r}; encode the study again with: thetascope encode STUDY"
        )
    return encoder


def _pick_device(device: str) -> str:
    try:
        import torch
    except ImportError:
        raise MissingExtra("encoding texts", "encode") from None
    if device == "cpu":
        return "cpu"
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise InputError("torch sees no GPU here", field="device", fix="use cpu or auto")
    return "cuda" if there else "cpu"


def _max_tokens(config: EncoderConfig, model: Any) -> int:
    """The model's own limit, or the config's if the model can take it."""
    inner = getattr(model[0], "auto_model", None)
    known = [
        getattr(getattr(inner, "config", None), "max_position_embeddings", None),
        getattr(model.tokenizer, "model_max_length", None),
    ]
    # A tokenizer without a limit says 1e30.
    limits = [int(v) for v in known if isinstance(v, int | float) and 0 < v < 10**9]
    if config.max_tokens is None:
        own = model.max_seq_length or (min(limits) if limits else None)
        if own is None:
            raise InputError("the model has no limit of its own; name one", field="max_tokens")
        return int(own)
    if limits and config.max_tokens > min(limits):
        raise InputError(
            f"the model takes {min(limits)} tokens, asked for {config.max_tokens}",
            field="max_tokens",
        )
    special = model.tokenizer.num_special_tokens_to_add()
    if config.max_tokens <= special:
        raise InputError(
            f"the model adds {special} tokens of its own, asked for {config.max_tokens}",
            field="max_tokens",
        )
    return config.max_tokens


def _prefix(config: EncoderConfig, model: Any) -> str:
    if config.prefix is not None:
        return config.prefix
    default = getattr(model, "default_prompt_name", None)
    return (getattr(model, "prompts", None) or {}).get(default, "") if default else ""


def _pooling(how: str, model: Any, prefix: str) -> str:
    """What "model" means for this model, in words."""
    if how != "model":
        return how
    words: list[str] = []
    for module in list(model)[1:]:
        mode = getattr(module, "pooling_mode", None)
        if mode is None and hasattr(module, "get_pooling_mode_str"):
            mode = module.get_pooling_mode_str()
        if mode is not None and prefix and not getattr(module, "include_prompt", True):
            raise InputError(
                "the model leaves the prompt out of its mean, which is not supported",
                field="prefix",
                fix="use prefix '' or pooling mean",
            )
        words.append(mode if isinstance(mode, str) else type(module).__name__.lower())
    return "+".join(words)


def _sound(text: str) -> str:
    """The text with halves of broken characters replaced: tokenizers refuse them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

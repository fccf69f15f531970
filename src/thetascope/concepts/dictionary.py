"""A dictionary: a sparse autoencoder that turns hidden states into concept activations.

Every published architecture comes down to one encoder here (what a reader folds is said in
`formats`): scale the input, take off a bias, one product with the encoder, then

    relu       z = max(0, p)
    jumprelu   z = p where p > threshold and p > 0
    topk       z = max(0, p) for the k largest p of the token
    gated      z = max(0, p * exp(r) + b_mag) where p + b_gate > 0 (p without bias)

Activations come as sparse rows, in chunks: tokens x concepts is never in memory beyond a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from thetascope.concepts.hook import Hook

if TYPE_CHECKING:
    from torch import Tensor

Activation = Literal["relu", "jumprelu", "topk", "gated"]
Normalise = Literal["none", "layer_norm", "constant_norm_rescale"]

CHUNK_ELEMENTS = 1 << 23
"""Pre-activations in memory at once: 32 MB in float32."""


@dataclass(frozen=True)
class DictionaryInfo:
    """What a dictionary is and what it was made for.

    Attributes:
        activation: Which latents are active.
        d_in: Width of the hidden states.
        n_latents: Concepts.
        k: Active latents a token, for topk.
        normalise: What is done to each hidden state first.
        subtract_b_dec: Whether the decoder's bias is taken off the input.
        model: The language model that it was trained on, as its source names it.
        hook: Where in that model.
        prefix: Whether a prefix token stood in front of the texts; None where not said.
        context_size: Tokens in a text it was trained on.
        source: Where it was read from, in words: format and place.
        fingerprint: Hash of its files.
        model_fingerprint: Hash of the language model's files, where its source recorded one.
        template: Chat template or raw text in training, where its source recorded it.
    """

    activation: Activation
    d_in: int
    n_latents: int
    k: int | None = None
    normalise: Normalise = "none"
    subtract_b_dec: bool = False
    model: str | None = None
    hook: Hook | None = None
    prefix: bool | None = None
    context_size: int | None = None
    source: str = ""
    fingerprint: str = ""
    model_fingerprint: str | None = None
    template: str | None = None


class DictionaryWeights(NamedTuple):
    """A dictionary's tensors, float32 unless asked for otherwise.

    Attributes:
        W_enc: (d_in, n) encoder.
        b_enc: (n,) its bias (the gate's bias, for gated).
        W_dec: (n, d_in) decoder, used for checks only.
        b_dec: (d_in,) its bias.
        threshold: (n,) for jumprelu.
        r_mag: (n,) log of the magnitude path's scale, for gated.
        b_mag: (n,) the magnitude path's bias, for gated.
    """

    W_enc: Tensor
    b_enc: Tensor
    W_dec: Tensor
    b_dec: Tensor
    threshold: Tensor | None = None
    r_mag: Tensor | None = None
    b_mag: Tensor | None = None


class SparseRows(NamedTuple):
    """Activations of t tokens as sparse rows.

    Attributes:
        values: (m,) activations, all above 0, float32.
        indices: (m,) their concepts; in no order within a token.
        offsets: (t + 1,) the activations of token i are offsets[i] to offsets[i + 1].
    """

    values: Tensor
    indices: Tensor
    offsets: Tensor

    @property
    def tokens(self) -> Tensor:
        """(m,) the token of each activation."""
        import torch

        sizes = self.offsets.diff()
        return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)


class Dictionary:
    """A dictionary that is loaded and ready to encode.

    Attributes:
        info: What it is and what it was made for.
        weights: Its tensors, on one device.
    """

    def __init__(self, info: DictionaryInfo, weights: DictionaryWeights) -> None:
        self.info, self.weights = info, weights
        self._chunk = max(1, CHUNK_ELEMENTS // info.n_latents)

    def encode(self, states: Tensor) -> SparseRows:
        """Returns the activations of (t, d_in) hidden states, worked out in chunks.

        The result holds active pairs only; use `encode_chunks` where even those are many.
        """
        import torch

        parts = list(self.encode_chunks(states))
        if len(parts) == 1:
            return parts[0]
        sizes = [0] if not parts else [int(p.offsets[-1]) for p in parts]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        empty = self.weights.W_enc.new_zeros(0)
        first = torch.zeros(1, dtype=torch.int64, device=states.device)
        return SparseRows(
            torch.cat([empty, *(p.values for p in parts)]),
            torch.cat([empty.long(), *(p.indices for p in parts)]),
            torch.cat([first, *(p.offsets[1:] + s for p, s in zip(parts, starts, strict=False))]),
        )

    def encode_chunks(self, states: Tensor) -> Iterator[SparseRows]:
        """Yields the activations of (t, d_in) hidden states, a chunk of tokens at a time."""
        import torch

        with torch.inference_mode():
            for chunk in states.split(self._chunk):
                yield self._encode(chunk)

    def decode(self, rows: SparseRows, states: Tensor) -> Tensor:
        """Returns the (t, d_in) reconstructions of hidden states.

        Args:
            rows: Their activations.
            states: (t, d_in) the states themselves, for the normalisation that is undone.
        """
        import torch
        from torch.nn.functional import embedding_bag

        w = self.weights
        with torch.inference_mode():
            out = embedding_bag(
                rows.indices, w.W_dec, rows.offsets, mode="sum",
                per_sample_weights=rows.values.to(w.W_dec.dtype), include_last_offset=True,
            )  # fmt: skip
            out = (out + w.b_dec).float()
            x = states.to(device=out.device, dtype=torch.float32)
            if self.info.normalise == "layer_norm":
                centred = x - x.mean(-1, keepdim=True)
                return out * centred.std(-1, keepdim=True) + x.mean(-1, keepdim=True)
            if self.info.normalise == "constant_norm_rescale":
                return out * (x.norm(dim=-1, keepdim=True) / self.info.d_in**0.5)
            return out

    def _encode(self, states: Tensor) -> SparseRows:
        import torch

        w = self.weights
        x = normalised(states.to(w.W_enc.device, torch.float32), self.info)
        x = x.to(w.W_enc.dtype)
        if self.info.subtract_b_dec:
            x = x - w.b_dec
        if self.info.activation == "gated":
            assert w.r_mag is not None, "gated without r_mag"
            assert w.b_mag is not None, "gated without b_mag"
            pre = x @ w.W_enc  # (t, n)
            magnitude = pre * w.r_mag.exp() + w.b_mag
            return _where((pre + w.b_enc > 0) & (magnitude > 0), magnitude)
        pre = torch.addmm(w.b_enc, x, w.W_enc)  # (t, n)
        if self.info.activation == "topk":
            assert self.info.k is not None, "topk without k"
            return _topk(pre, self.info.k)
        if self.info.activation == "jumprelu":
            assert w.threshold is not None, "jumprelu without threshold"
            return _where(pre > w.threshold.clamp(min=0), pre)
        return _where(pre > 0, pre)


def normalised(x: Tensor, info: DictionaryInfo) -> Tensor:
    """Returns hidden states as the dictionary takes them, (t, d_in).

    layer_norm centres a state and divides by its standard deviation (n - 1, plus 1e-5);
    constant_norm_rescale gives it length sqrt(d_in).
    """
    if info.normalise == "layer_norm":
        x = x - x.mean(-1, keepdim=True)
        return x / (x.std(-1, keepdim=True) + 1e-5)
    if info.normalise == "constant_norm_rescale":
        return x * (info.d_in**0.5 / x.norm(dim=-1, keepdim=True))
    return x


def _where(active: Tensor, value: Tensor) -> SparseRows:
    import torch

    token, latent = torch.nonzero(active, as_tuple=True)
    return SparseRows(value[token, latent].float(), latent, _offsets(active.sum(1)))


def _topk(pre: Tensor, k: int) -> SparseRows:
    import torch

    value, latent = torch.topk(pre, k, dim=1, sorted=False)
    positive = value > 0
    return SparseRows(value[positive].float(), latent[positive], _offsets(positive.sum(1)))


def _offsets(sizes: Tensor) -> Tensor:
    from torch.nn.functional import pad

    return pad(sizes.cumsum(0), (1, 0))

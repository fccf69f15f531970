"""One training step of a sparse autoencoder that touches active latents only.

The encoder's product is dense (every latent has to be looked at); everything behind it runs on
the (token, latent) pairs that are active, B k of the B n: reconstruction, the gradient of the
activations, and both weight gradients, as products with one sparse matrix in two layouts. The
gradients are those of the dense formulas, tested against autograd.

Shapes: B tokens, d the width of the residual stream, n latents, m active pairs.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Weights(NamedTuple):
    """A dictionary's weights in training layout, one latent a row.

    Attributes:
        enc: (n, d) encoder directions.
        b_enc: (n,) encoder biases.
        dec: (n, d) decoder directions, each of length 1.
        b_dec: (d,) what is subtracted before the encoder and added behind the decoder.
    """

    enc: Tensor
    b_enc: Tensor
    dec: Tensor
    b_dec: Tensor


class Active(NamedTuple):
    """The active (token, latent) pairs of a batch, sorted by token.

    Attributes:
        rows: (B + 1,) offsets: the pairs of token t are rows[t] to rows[t + 1].
        latent: (m,) latent of each pair.
        value: (m,) its activation, not negative.
    """

    rows: Tensor
    latent: Tensor
    value: Tensor


def pre_activations(weights: Weights, x: Tensor) -> Tensor:
    """Returns (B, n) pre-activations: (x - b_dec) W_enc + b_enc."""
    import torch

    return torch.addmm(weights.b_enc, x - weights.b_dec, weights.enc.T)


def pick_topk(pre: Tensor, k: int) -> Active:
    """Returns the k largest latents of each token, negative ones with activation 0."""
    import torch

    value, latent = torch.topk(pre, k, dim=1, sorted=False)
    rows = torch.arange(0, pre.shape[0] * k + 1, k, device=pre.device)
    return Active(rows, latent.flatten(), value.flatten().relu_())


def pick_batch_topk(pre: Tensor, k: int, guess: float = 0.0) -> tuple[Active, float]:
    """Returns the k B largest positive pre-activations of a batch, and the least of them.

    Args:
        pre: (B, n) pre-activations.
        k: Active latents a token, on average.
        guess: A bound that is probably below the least; it saves time, never changes the result.
    """
    import torch

    wanted = k * pre.shape[0]
    token, latent = torch.nonzero(pre > guess, as_tuple=True)
    if guess > 0 and len(token) < wanted:
        token, latent = torch.nonzero(pre > 0, as_tuple=True)
    value = pre[token, latent]
    if len(value) > wanted:
        kept = torch.topk(value, wanted, sorted=False).indices.sort().values
        token, latent, value = token[kept], latent[kept], value[kept]
    rows = torch.zeros(pre.shape[0] + 1, dtype=torch.int64, device=pre.device)
    rows[1:] = torch.bincount(token, minlength=pre.shape[0]).cumsum(0)
    least = float(value.min()) if len(value) else 0.0
    return Active(rows, latent, value), least


def decode(active: Active, dec: Tensor, b_dec: Tensor | None = None) -> Tensor:
    """Returns (B, d) reconstructions: the sum of value x decoder row, plus b_dec."""
    from torch.nn.functional import embedding_bag

    out = embedding_bag(
        active.latent,
        dec,
        active.rows,
        mode="sum",
        per_sample_weights=active.value,
        include_last_offset=True,
    )
    return out if b_dec is None else out.add_(b_dec)


def gradients(
    weights: Weights, x: Tensor, active: Active, g: Tensor, *, linear: bool = False
) -> Weights:
    """Returns the gradients of the weights, given that of the reconstruction.

    Args:
        weights: The weights.
        x: (B, d) inputs.
        active: What was active.
        g: (B, d) gradient of the loss with respect to the reconstruction.
        linear: Whether negative activations count too, as in the auxiliary loss.
    """
    import torch

    n = weights.enc.shape[0]
    sizes = active.rows.diff()
    token = torch.repeat_interleave(torch.arange(len(sizes), device=x.device), sizes)
    g_value = _dots(g, weights.dec, active, token)
    if not linear:
        g_value.mul_(active.value > 0)
    order = torch.argsort(active.latent, stable=True)
    bounds = torch.zeros(n + 1, dtype=torch.int64, device=x.device)
    bounds[1:] = torch.bincount(active.latent, minlength=n).cumsum(0)
    by_latent = token[order]

    def spread(value: Tensor, rows: Tensor) -> Tensor:
        # Row l: the sum over tokens that have latent l of value x their row.
        return decode(Active(bounds, by_latent, value[order]), rows)

    g_b_enc = torch.zeros(n, device=x.device).index_add_(0, active.latent, g_value)
    return Weights(
        enc=spread(g_value, x - weights.b_dec),
        b_enc=g_b_enc,
        dec=spread(active.value, g),
        b_dec=g.sum(0) - g_b_enc @ weights.enc,
    )


def pick_dead(pre: Tensor, dead: Tensor, k: int) -> Active:
    """Returns each token's k largest dead latents, negative ones as they are.

    Without the ReLU a latent whose pre-activations are all negative is reached too.

    Args:
        pre: (B, n) pre-activations.
        dead: (q,) the dead latents.
        k: How many, at most q.
    """
    import torch

    value, latent = torch.topk(pre[:, dead], min(k, len(dead)), dim=1, sorted=False)
    rows = torch.arange(0, latent.numel() + 1, latent.shape[1], device=pre.device)
    return Active(rows, dead[latent.flatten()], value.flatten())


def _dots(g: Tensor, dec: Tensor, active: Active, token: Tensor) -> Tensor:
    """Returns (m,) g_t . dec_l for each active pair (t, l)."""
    import torch

    if g.is_cuda or torch.backends.mkl.is_available():
        shape = (g.shape[0], dec.shape[0])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support")
            pairs = torch.sparse_csr_tensor(
                active.rows, active.latent, torch.zeros_like(active.value), shape,
                check_invariants=False,
            )  # fmt: skip
        return torch.sparse.sampled_addmm(pairs, g, dec.T, beta=0.0).values()
    parts = torch.arange(len(token), device=g.device).split(1 << 10)  # fits a cache
    return torch.cat([(g[token[p]] * dec[active.latent[p]]).sum(1) for p in parts])

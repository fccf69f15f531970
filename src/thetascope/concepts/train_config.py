"""How a dictionary is trained: the keyword arguments, the options and the record in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from thetascope.errors import InputError

Activation = Literal["topk", "batchtopk"]


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run.

    Attributes:
        n_latents: Concepts in the dictionary.
        k: Latents that are active on a token (on average, for batchtopk).
        activation: "topk" keeps the k largest latents of each token, "batchtopk" the k x tokens
            largest of a batch; the second is saved as JumpReLU with one threshold.
        n_tokens: Tokens to train on, counted again each time they are seen; None is two passes
            over the harvest.
        batch: Tokens in a step.
        lr: Adam's step size at its highest.
        warmup: Share of the steps over which the step size rises from zero.
        decay: Share of the steps, at the end, over which it falls to zero.
        dead_after: Tokens without firing after which a latent counts as dead and is trained to
            explain what the others leave (the auxiliary loss of Gao et al. 2024, section 2.3).
        aux_weight: Weight of that loss.
        mixed: Shards whose tokens are mixed, in memory at once.
        checkpoint_steps: Steps between checkpoints: what a kill costs.
        seed: Of the first weights and of the order of tokens.
    """

    n_latents: int = 8192
    k: int = 32
    activation: Activation = "topk"
    n_tokens: int | None = None
    batch: int = 2048
    lr: float = 3e-3
    warmup: float = 0.05
    decay: float = 0.4
    dead_after: int = 100_000
    aux_weight: float = 1 / 32
    mixed: int = 4
    checkpoint_steps: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.activation not in get_args(Activation):
            raise InputError(
                f"expected one of {', '.join(get_args(Activation))}, found {self.activation!r}",
                field="activation",
            )
        for name in ("n_latents", "k", "batch", "dead_after", "mixed", "checkpoint_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"expected at least 1, found {getattr(self, name)}", field=name)
        if self.k > self.n_latents:
            raise InputError(
                f"expected at most n_latents = {self.n_latents}, found {self.k}", field="k"
            )
        if self.n_tokens is not None and self.n_tokens < self.batch:
            raise InputError(
                f"expected at least one batch of {self.batch}, found {self.n_tokens}",
                field="n_tokens",
            )
        if not self.lr > 0:
            raise InputError(f"expected a positive number, found {self.lr}", field="lr")
        if not (0 <= self.warmup < 1 and 0 <= self.decay <= 1 and self.warmup + self.decay <= 1):
            raise InputError("expected shares that are at most 1 together", field="warmup")

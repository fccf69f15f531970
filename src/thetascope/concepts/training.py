"""Training a dictionary on harvested hidden states: TopK and BatchTopK sparse autoencoders.

Loss: mean over tokens of |x - x'|^2 / d with x scaled so that its mean length is sqrt(d), plus
the auxiliary loss of Gao et al. 2024 (arXiv 2406.04093, section 2.3) for latents that have not
fired for long. Decoder rows have length 1: the part of their gradient along themselves is taken
out and they are rescaled after each step. The first shard is held out: it is never trained on.

A checkpoint holds everything, so a run that was killed ends in the same bytes as one that was
not (on one machine and number of threads).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from thetascope.concepts import sparse_training as sparse
from thetascope.concepts.harvest import Harvest, load_shard
from thetascope.concepts.train_config import TrainConfig
from thetascope.errors import InputError, StaleError
from thetascope.study import files

if TYPE_CHECKING:
    from torch import Tensor

_CHECKPOINT = "checkpoint.safetensors"
_CALIBRATION_BATCHES = 16

Progress = Callable[[int, int, str], None]
"""Called with (steps done, steps in all, what is being done)."""


class Trained(NamedTuple):
    """A trained dictionary, in units of the hidden states.

    Attributes:
        weights: Training layout; activations are in the hidden states' units because decoder
            rows have length 1.
        threshold: The least activation, for batchtopk; None for topk.
        tokens_seen: Tokens trained on, each time counted.
        dead: Latents that did not fire on the held-out shard's tokens nor lately in training.
    """

    weights: sparse.Weights
    threshold: float | None
    tokens_seen: int
    dead: int


class _State(NamedTuple):
    weights: sparse.Weights
    mean: sparse.Weights
    square: sparse.Weights
    idle: Tensor
    """(n,) tokens since each latent last fired."""
    least: Tensor
    """() running least activation, for batchtopk's guess."""


def train(
    harvest: Harvest,
    config: TrainConfig,
    folder: Path,
    *,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Trained:
    """Trains a dictionary; an unfinished run of the same inputs in `folder` goes on.

    Args:
        harvest: Hidden states, at least two shards.
        config: The settings.
        folder: Where checkpoints go.
        device: "cpu" or "cuda".
        progress: Called after each step, with the share of variance explained on its batch.

    Raises:
        InputError: Fewer than two shards, or less than one batch.
        StaleError: The folder's checkpoint is of other inputs.
    """
    if len(harvest.shards) < 2:
        raise InputError("expected at least two shards: one is held out", file=harvest.folder)
    tokens = config.n_tokens or 2 * sum(harvest.n_tokens[1:])
    steps = tokens // config.batch
    if not steps or min(harvest.n_tokens[1:]) < 1 or sum(harvest.n_tokens[1:]) < config.batch:
        raise InputError(f"expected at least one batch of {config.batch} tokens to train on")
    folder.mkdir(parents=True, exist_ok=True)
    identity = files.hash_json(
        {"config": asdict(config), "steps": steps, "harvest": harvest.manifest,
         "shards": harvest.n_tokens}
    )  # fmt: skip
    scale, center = _scale(harvest, device)
    done, state = _restore(folder / _CHECKPOINT, identity, device)
    if state is None:
        state = _first(config, harvest.manifest["d_model"], center, device)
    for batch in batches(harvest, config, done, steps, device):
        explained = _step(state, config, batch * scale, done, steps)
        done += 1
        if progress:
            progress(done, steps, f"training, {explained:.3f} of the variance explained")
        if done % config.checkpoint_steps == 0 or done == steps:
            _save_checkpoint(folder / _CHECKPOINT, state, done, identity)
    threshold = None
    if config.activation == "batchtopk":
        threshold = _threshold(state, harvest, config, scale, device) / scale
    w = state.weights
    weights = sparse.Weights(w.enc, w.b_enc / scale, w.dec, w.b_dec / scale)
    dead = int((state.idle > config.dead_after).sum())
    return Trained(weights, threshold, done * config.batch, dead)


def _scale(harvest: Harvest, device: str) -> tuple[float, Tensor]:
    """What gives training tokens a mean length of sqrt(d), and their scaled mean."""
    import torch

    states = torch.from_numpy(load_shard(harvest.shards[1]).states).to(device).float()
    scale = states.shape[1] ** 0.5 / float(states.norm(dim=1).mean())
    return scale, states.mean(0) * scale


def _first(config: TrainConfig, d: int, center: Tensor, device: str) -> _State:
    """Random decoder rows of length 1; the encoder starts as their transpose."""
    import torch

    generator = torch.Generator().manual_seed(config.seed)
    dec = torch.randn(config.n_latents, d, generator=generator)
    dec = torch.nn.functional.normalize(dec, dim=1).to(device)
    n = config.n_latents
    weights = sparse.Weights(dec.clone(), torch.zeros(n, device=device), dec, center.clone())
    mean, square = (sparse.Weights(*(torch.zeros_like(w) for w in weights)) for _ in range(2))
    idle = torch.zeros(n, dtype=torch.int64, device=device)
    return _State(weights, mean, square, idle, torch.zeros((), device=device))


def _step(state: _State, config: TrainConfig, x: Tensor, done: int, steps: int) -> float:
    """One step of Adam, in place; returns the share of the batch's variance explained."""
    import torch

    w = state.weights
    pre = sparse.pre_activations(w, x)
    if config.activation == "topk":
        active = sparse.pick_topk(pre, config.k)
    else:
        active, least = sparse.pick_batch_topk(pre, config.k, 0.5 * float(state.least))
        state.least.copy_(torch.tensor(least))
    error = sparse.decode(active, w.dec, w.b_dec).sub_(x)  # (B, d)
    per = 2 / x.numel()
    grads = sparse.gradients(w, x, active, error * per)
    fired = torch.zeros(len(state.idle), dtype=torch.bool, device=x.device)
    fired[active.latent[active.value > 0]] = True
    state.idle.add_(len(x)).masked_fill_(fired, 0)
    dead = torch.nonzero(state.idle > config.dead_after).flatten()
    if len(dead):
        extra = sparse.pick_dead(pre, dead, config.k)
        # The dead are to explain what is left, with a weight that falls with their number.
        aux_error = sparse.decode(extra, w.dec).add_(error)
        weight = config.aux_weight * min(1.0, len(dead) / config.k)
        more = sparse.gradients(w, x, extra, aux_error * (per * weight), linear=True)
        for name in ("enc", "b_enc", "dec"):  # b_dec has its say in the error already
            getattr(grads, name).add_(getattr(more, name))
    _project(grads.dec, w.dec)
    _adam(state, grads, config.lr * _rate(done, steps, config), done + 1)
    torch.nn.functional.normalize(w.dec, dim=1, out=w.dec)
    spread = (x - x.mean(0)).square().sum()
    return 1 - float(error.square().sum() / spread)


def _project(grad: Tensor, dec: Tensor) -> None:
    """Takes out of each row's gradient the part that would change the row's length."""
    grad.sub_((grad * dec).sum(1, keepdim=True) * dec)


def _rate(done: int, steps: int, config: TrainConfig) -> float:
    """The step size's factor: a rise, a plateau, and a fall to zero."""
    rise = (done + 1) / max(1.0, config.warmup * steps)
    fall = (steps - done) / max(1.0, config.decay * steps)
    return min(1.0, rise, fall)


def _adam(state: _State, grads: sparse.Weights, lr: float, turn: int) -> None:
    """Adam (Kingma and Ba 2015) with its usual constants, step `turn` counted from 1."""
    first, second = 1 - 0.9**turn, 1 - 0.999**turn
    for w, mean, square, g in zip(state.weights, state.mean, state.square, grads, strict=True):
        mean.lerp_(g, 0.1)
        square.mul_(0.999).addcmul_(g, g, value=0.001)
        w.addcdiv_(mean, (square / second).sqrt_().add_(1e-8), value=-lr / first)


def batches(
    harvest: Harvest, config: TrainConfig, done: int, steps: int, device: str
) -> Iterator[Tensor]:
    """Yields the batches of steps `done` to `steps`; each epoch mixes the shards anew.

    The tokens of a group of shards that do not fill a batch wait for the next group.
    """
    import torch

    turn, epoch = 0, 0
    shards = list(range(1, len(harvest.shards)))
    while turn < steps:
        rng = np.random.default_rng((config.seed, epoch))
        order = rng.permutation(shards)
        rest: list[np.ndarray[Any, Any]] = []
        n_rest = 0
        for start in range(0, len(order), config.mixed):
            group = order[start : start + config.mixed]
            total = n_rest + sum(harvest.n_tokens[i] for i in group)
            mixed = rng.permutation(total)
            whole = total // config.batch
            skipped = turn + whole <= done and not total % config.batch
            if skipped:  # whole groups before a checkpoint need not be read
                turn, rest, n_rest = turn + whole, [], 0
                continue
            pool = np.concatenate([*rest, *(load_shard(harvest.shards[i]).states for i in group)])
            for b in range(whole):
                if turn >= steps:
                    return
                if turn >= done:
                    rows = np.sort(mixed[b * config.batch : (b + 1) * config.batch])
                    yield torch.from_numpy(pool[rows]).to(device).float()
                turn += 1
            rest = [pool[mixed[whole * config.batch :]]]
            n_rest = len(rest[0])
        epoch += 1


def _threshold(
    state: _State, harvest: Harvest, config: TrainConfig, scale: float, device: str
) -> float:
    """The mean least activation over batches of trained-on tokens, for inference."""
    import torch

    states = load_shard(harvest.shards[1]).states
    found: list[float] = []
    for start in range(0, len(states), config.batch):
        if len(found) == _CALIBRATION_BATCHES:
            break
        x = torch.from_numpy(states[start : start + config.batch]).to(device).float() * scale
        pre = sparse.pre_activations(state.weights, x)
        found.append(sparse.pick_batch_topk(pre, config.k)[1])
    return float(np.mean(found))


def _save_checkpoint(file: Path, state: _State, done: int, identity: str) -> None:
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {"idle": state.idle, "least": state.least}
    for name in ("weights", "mean", "square"):
        for field, value in getattr(state, name)._asdict().items():
            tensors[f"{name}.{field}"] = value.contiguous()
    # One key: safetensors writes several in an order that changes from run to run.
    about = {"about": json.dumps({"done": done, "identity": identity, "format": 1})}
    files.write_aside(file, lambda aside: save_file(tensors, aside, metadata=about))


def _restore(file: Path, identity: str, device: str) -> tuple[int, _State | None]:
    if not file.exists():
        return 0, None
    try:
        with safe_open(file, "pt", device=device) as opened:
            about = json.loads((opened.metadata() or {})["about"])
            tensors = {k: opened.get_tensor(k) for k in opened.keys()}  # noqa: SIM118
            done = int(about["done"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"is damaged: {error}", file=file, fix="delete it") from None
    if about.get("identity") != identity:
        raise StaleError(
            f"{file.parent} holds an unfinished training of other inputs; name another folder"
        )
    weights, mean, square = (
        sparse.Weights(*(tensors[f"{name}.{field}"] for field in sparse.Weights._fields))
        for name in ("weights", "mean", "square")
    )
    return done, _State(weights, mean, square, tensors["idle"], tensors["least"])

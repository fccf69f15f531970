"""Training of JE-IRT with torch: batched by item, all models at once.

One adapter pass an item and one (B, d) x (d, M) product a batch, masked where there is no
response. No gradient goes into the text vectors. Randomness comes from one generator an
epoch, seeded by (seed, epoch), so that a run can go on after any finished epoch.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetascope.errors import InputError, MissingExtra
from thetascope.predictors.base import Sample
from thetascope.study import MISSING
from thetascope.study.files import write_aside

if TYPE_CHECKING:
    from torch import Tensor

    from thetascope.predictors.jeirt import JEIRT

try:
    import torch
    import torch.nn.functional as F
    from safetensors import safe_open
    from safetensors.torch import save_file
except ImportError as error:  # pragma: no cover - exercised in a torch-free environment
    raise MissingExtra("Fitting JE-IRT", "fit") from error

CHECKPOINT_SECONDS = 2.0
ONE_THREAD_WORK = 1 << 26
"""Multiply-adds of a batch's largest product up to which one thread trains."""
PARAMETERS = (
    "adapter.0.weight",
    "adapter.0.bias",
    "adapter.2.weight",
    "adapter.2.bias",
    "models",
    "offset",
    "guessing",
)
GUESSING_RATE = 20.0
"""Factor on the learning rate of gamma's logits, one number a model: at the adapter's own rate
they would hardly leave where they start."""
_LEAST = 1e-30


class Trained(NamedTuple):
    """Weights by name, and the learning curve: one entry an epoch."""

    weights: dict[str, NDArray[Any]]
    log: list[dict[str, float]]


class Data(NamedTuple):
    """A sample as tensors: vectors (N, D), scores (N, M), and what belongs to them."""

    vectors: Tensor
    scores: Tensor
    weights: Tensor | None
    offset: Tensor | None
    benchmark: Tensor
    chance: Tensor | None = None

    @property
    def n_items(self) -> int:
        return self.vectors.shape[0]


def forward(
    parameters: dict[str, Tensor], vectors: Tensor, offset: Tensor | None, keep: Tensor | None
) -> Tensor:
    """(B, M) logits u_j . m_i - r_j (+ o_ib + c).

    Args:
        parameters: By name, see `PARAMETERS`.
        vectors: (B, D) text vectors.
        offset: (B, M) o_ib, or None.
        keep: (B, H) dropout mask, already divided by the share kept, or None.
    """
    hidden = F.relu(F.linear(vectors, parameters["adapter.0.weight"], parameters["adapter.0.bias"]))
    if keep is not None:
        hidden = hidden * keep
    q = F.linear(hidden, parameters["adapter.2.weight"], parameters["adapter.2.bias"])  # (B, d)
    norm = torch.sqrt(q.square().sum(dim=1, keepdim=True) + 1e-12)  # rho, (B, 1)
    logits = (q / norm) @ parameters["models"].T - norm
    if offset is not None:
        logits = logits + offset + parameters["offset"]
    return logits


def batch_loss(
    logits: Tensor, scores: Tensor, weights: Tensor | None, floor: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy over the observed responses of a batch, and their weight.

    Args:
        logits: (B, M).
        scores: (B, M).
        weights: (B, M) trials, or None.
        floor: (B, M) f_ij, or None.
    """
    if scores.dtype == torch.uint8:
        weight = (scores != MISSING).to(logits.dtype)
        target = torch.where(scores == 1, 1.0, 0.0).to(logits.dtype)
    else:
        weight = (~scores.isnan()).to(logits.dtype)
        target = scores.nan_to_num(0.0)
    if weights is not None:
        weight = weight * weights
    if floor is None:
        loss = F.softplus(logits) - target * logits
    else:  # in logs, as P and 1 - P may both round to 0 or 1
        rest = torch.log1p(-floor)
        right = torch.logaddexp(floor.clamp_min(_LEAST).log(), rest + F.logsigmoid(logits))
        loss = -target * right - (1 - target) * (rest - F.softplus(logits))
    return (loss * weight).sum(), weight.sum()


def train(config: JEIRT, sample: Sample, validation: Sample | None, folder: Path | None) -> Trained:
    """Trains with early stopping on the validation log-loss.

    Args:
        config: The settings.
        sample: What is learnt from; every item has a response.
        validation: What early stopping looks at; without it all `max_epochs` are run and the
            training loss decides.
        folder: For checkpoints, or None.

    Raises:
        InputError: There is nothing to learn from, or the loss is not finite.
    """
    if len(sample.items) == 0:
        raise InputError("JE-IRT has no responses to learn from")
    device = _device(config.device)
    chance = config.chance_levels(sample.items)
    if chance is not None and not chance.any():
        raise InputError(
            "JE-IRT with a floor needs chance levels, and every item's is 0 or missing",
            field="floor",
        )
    table = config.training_offset(sample)
    data = held = to_tensors(sample, table, device, chance)
    if validation is not None:
        held = to_tensors(validation, table, device, config.chance_levels(validation.items))
    dim = config.space_size(sample.items)
    parameters = initial_parameters(
        config, dim, data.vectors.shape[1], data.scores.shape[1], device
    )
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in parameters.items() if name != "guessing"], "factor": 1.0}
    ]
    if "guessing" in parameters:
        guessing = {"params": [parameters["guessing"]], "factor": GUESSING_RATE}
        groups.append({**guessing, "weight_decay": 0.0})
    optimizer = torch.optim.AdamW(
        groups,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=True,
    )
    state = _State(parameters, optimizer)
    state.restore(folder)
    work = config.batch_size(data.n_items) * parameters["adapter.0.weight"].numel()
    with few_threads(work):
        _run(config, data, held, state, folder)
    return Trained({k: v.cpu().numpy() for k, v in state.best.items()}, state.log)


def _run(config: JEIRT, data: Data, held: Data, state: _State, folder: Path | None) -> None:
    parameters, optimizer = state.parameters, state.optimizer
    saved = time.monotonic()
    while not state.finished(config):
        epoch = len(state.log)
        rate = config.learning_rate * config.gamma**epoch
        for group in optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        loss = run_epoch(config, data, parameters, optimizer, epoch)
        held_loss = evaluate(parameters, held)
        if not (math.isfinite(loss) and math.isfinite(held_loss)):
            raise InputError(
                f"the loss became {loss} in epoch {epoch}", fix="lower the learning rate"
            )
        state.record(epoch, rate, loss, held_loss)
        if folder is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
            state.save(folder)
            saved = time.monotonic()


@contextmanager
def few_threads(work: int) -> Generator[None]:
    """One thread where a batch is small work, as many as there were elsewhere.

    Small products gain nothing from a second thread and lose much on a busy machine; with one
    thread the result does not depend on the number of cores either.
    """
    before = torch.get_num_threads()
    if work <= ONE_THREAD_WORK:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_epoch(
    config: JEIRT,
    data: Data,
    parameters: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
    epoch: int,
) -> float:
    """One pass over the items in random order; returns the mean training loss."""
    device = data.vectors.device
    generator = torch.Generator(device).manual_seed(config.seed * 1_000_003 + epoch)
    order = torch.randperm(data.n_items, generator=generator, device=device)
    hidden = parameters["adapter.0.weight"].shape[0]
    total = torch.zeros((), device=device)
    count = torch.zeros((), device=device)
    for rows in order.split(config.batch_size(data.n_items)):
        keep = None
        if config.dropout:
            keep = dropout_mask(len(rows), hidden, config.dropout, generator)
        logits = forward(parameters, data.vectors[rows], _offset(data, rows), keep)
        weights = None if data.weights is None else data.weights[rows]
        floor = _floor(parameters, data, rows)
        loss, weight = batch_loss(logits, data.scores[rows], weights, floor)
        optimizer.zero_grad(set_to_none=True)
        (loss / weight).backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), config.clip_norm)
        optimizer.step()
        total += loss.detach()
        count += weight
    return float(total / count)


def dropout_mask(n_rows: int, n_units: int, share: float, generator: torch.Generator) -> Tensor:
    """(n_rows, n_units): 0 where a unit is dropped, else 1 / share kept.

    A byte decides a unit, so the share is kept to a 256th; torch's own Bernoulli draws cost a
    quarter of an epoch.
    """
    device, n = generator.device, n_rows * n_units
    draws = torch.empty(-(-n // 8), dtype=torch.int64, device=device)
    draws.random_(-(2**63), None, generator=generator)
    kept = min(max(round(256 * (1 - share)), 1), 256)
    mask = draws.view(torch.uint8)[:n].view(n_rows, n_units) < kept
    return mask.to(torch.float32).mul_(256 / kept)


@torch.no_grad()
def evaluate(parameters: dict[str, Tensor], data: Data, rows: int = 4096) -> float:
    """Mean cross-entropy on a sample, no dropout."""
    total, count = 0.0, 0.0
    for part in torch.arange(data.n_items, device=data.vectors.device).split(rows):
        logits = forward(parameters, data.vectors[part], _offset(data, part), None)
        weights = None if data.weights is None else data.weights[part]
        floor = _floor(parameters, data, part)
        loss, weight = batch_loss(logits, data.scores[part], weights, floor)
        total += float(loss)
        count += float(weight)
    return total / count if count else math.nan


def to_tensors(
    sample: Sample,
    table: NDArray[np.float64] | None,
    device: Any,
    chance: NDArray[np.float64] | None = None,
) -> Data:
    """A sample as tensors on the device; scores stay bytes where they are right or wrong."""
    responses = sample.responses
    offset = None if table is None else torch.from_numpy(table.T.astype(np.float32)).to(device)
    weights = responses.weights
    return Data(
        torch.from_numpy(np.ascontiguousarray(sample.items.text_vectors("jeirt"))).to(device),
        torch.from_numpy(np.ascontiguousarray(responses.scores)).to(device),
        None if weights is None else torch.from_numpy(weights).to(device),
        offset,
        torch.from_numpy(sample.items.benchmark).to(device),
        None if chance is None else torch.from_numpy(chance.astype(np.float32)).to(device),
    )


def initial_parameters(
    config: JEIRT, dim: int, n_inputs: int, n_models: int, device: Any
) -> dict[str, Tensor]:
    """Adapter by torch's own rule for Linear (uniform in 1/sqrt(inputs)), model table normal."""
    generator = torch.Generator().manual_seed(config.seed)
    hidden = config.hidden or 2 * n_inputs
    sizes = (
        ("adapter.0", hidden, n_inputs),
        ("adapter.2", dim, hidden),
    )
    parameters: dict[str, Tensor] = {}
    for name, n_out, n_in in sizes:
        bound = 1 / math.sqrt(n_in)
        for part, shape in (("weight", (n_out, n_in)), ("bias", (n_out,))):
            value = torch.empty(shape).uniform_(-bound, bound, generator=generator)
            parameters[f"{name}.{part}"] = value
    table = torch.empty((n_models, dim))
    parameters["models"] = table.normal_(0.0, config.init_std, generator=generator)
    parameters["offset"] = torch.zeros(1)
    if config.floor:
        parameters["guessing"] = torch.zeros(n_models)  # gamma = 1/2
    return {k: v.to(device).requires_grad_() for k, v in parameters.items()}


class _State:
    """Where training stands: parameters, optimiser, the best so far and the curve."""

    def __init__(self, parameters: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
        self.parameters, self.optimizer = parameters, optimizer
        self.best = {k: v.detach().clone() for k, v in parameters.items()}
        self.log: list[dict[str, float]] = []

    def record(self, epoch: int, rate: float, loss: float, held: float) -> None:
        losses = [entry["validation_log_loss"] for entry in self.log]
        if not losses or held < min(losses):
            self.best = {k: v.detach().clone() for k, v in self.parameters.items()}
        self.log.append(
            {
                "epoch": epoch,
                "learning_rate": rate,
                "train_log_loss": loss,
                "validation_log_loss": held,
            }
        )

    def finished(self, config: JEIRT) -> bool:
        losses = [entry["validation_log_loss"] for entry in self.log]
        if len(losses) >= config.max_epochs:
            return True
        return bool(losses) and len(losses) - 1 - int(np.argmin(losses)) >= config.patience

    def save(self, folder: Path) -> None:
        tensors = {f"now.{k}": v.detach() for k, v in self.parameters.items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        for name, value in self._moments():
            tensors[name] = value
        tensors = {k: v.contiguous() for k, v in tensors.items()}
        metadata = {"log": json.dumps(self.log)}
        write_aside(
            folder / "checkpoint.safetensors",
            lambda path: save_file(tensors, path, metadata=metadata),
        )

    def restore(self, folder: Path | None) -> None:
        file = None if folder is None else folder / "checkpoint.safetensors"
        if file is None or not file.is_file():
            return
        device = next(iter(self.parameters.values())).device
        with safe_open(file, "pt", device=str(device)) as saved:
            self.log = json.loads(saved.metadata()["log"])
            names = set(saved.keys())
            with torch.no_grad():
                for name, parameter in self.parameters.items():
                    parameter.copy_(saved.get_tensor(f"now.{name}"))
            self.best = {k: saved.get_tensor(f"best.{k}") for k in self.parameters}
            for name, parameter in self.parameters.items():
                self.optimizer.state[parameter] = {
                    key: saved.get_tensor(f"{key}.{name}")
                    for key in ("exp_avg", "exp_avg_sq", "step")
                    if f"{key}.{name}" in names
                }

    def _moments(self) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                yield f"{key}.{name}", value


def _offset(data: Data, rows: Tensor) -> Tensor | None:
    return None if data.offset is None else data.offset[data.benchmark[rows]]


def _floor(parameters: dict[str, Tensor], data: Data, rows: Tensor) -> Tensor | None:
    """(B, M) gamma_i g_j; below 1, where 1 - f would have no logarithm."""
    if data.chance is None:
        return None
    gamma = torch.sigmoid(parameters["guessing"])
    return (data.chance[rows][:, None] * gamma).clamp_max(1 - 1e-6)


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' was asked for and torch finds none", field="device")
    return torch.device(name)

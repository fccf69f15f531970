"""Training of EmbedLLM with torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thetascope.predictors.base import Sample
from thetascope.predictors.jeirt_training import (
    Data,
    batch_loss,
    few_threads,
    to_tensors,
    torch,
)

if TYPE_CHECKING:
    from torch import Tensor

    from thetascope.predictors.embedllm import EmbedLLM


def train(
    config: EmbedLLM, sample: Sample, validation: Sample | None
) -> tuple[dict[str, NDArray[Any]], list[dict[str, float]]]:
    """Returns the weights of the epoch with the best validation log-loss, and the curve."""
    data = to_tensors(sample, None, "cpu")
    held = data if validation is None else to_tensors(validation, None, "cpu")
    parameters = _initial(config, data.vectors.shape[1], data.scores.shape[1])
    optimizer = torch.optim.AdamW(
        list(parameters.values()),
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=True,
    )
    with few_threads(config.batch_items * parameters["projection.weight"].numel()):
        return _run(config, data, held, parameters, optimizer)


def _run(
    config: EmbedLLM,
    data: Data,
    held: Data,
    parameters: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
) -> tuple[dict[str, NDArray[Any]], list[dict[str, float]]]:
    spread = float(data.vectors.std()) * config.noise
    best, log = parameters, list[dict[str, float]]()
    for epoch in range(config.max_epochs):
        loss = _epoch(config, data, parameters, optimizer, epoch, spread)
        held_loss = _evaluate(parameters, held)
        if not log or held_loss < min(e["validation_log_loss"] for e in log):
            best = {k: v.detach().clone() for k, v in parameters.items()}
        log.append({"epoch": epoch, "train_log_loss": loss, "validation_log_loss": held_loss})
        if epoch - int(np.argmin([e["validation_log_loss"] for e in log])) >= config.patience:
            break
    return {k: v.detach().numpy() for k, v in best.items()}, log


def _forward(parameters: dict[str, Tensor], vectors: Tensor) -> Tensor:
    text = vectors @ parameters["projection.weight"].T + parameters["projection.bias"]  # (B, d)
    weighted = parameters["models"] * parameters["classifier.weight"]  # (M, d)
    return text @ weighted.T + parameters["classifier.bias"]


def _epoch(
    config: EmbedLLM,
    data: Data,
    parameters: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
    epoch: int,
    spread: float,
) -> float:
    generator = torch.Generator().manual_seed(config.seed * 1_000_003 + epoch)
    total, count = 0.0, 0.0
    for rows in torch.randperm(data.n_items, generator=generator).split(config.batch_items):
        vectors = data.vectors[rows]
        if spread:
            vectors = vectors + spread * torch.randn(vectors.shape, generator=generator)
        weights = None if data.weights is None else data.weights[rows]
        loss, weight = batch_loss(_forward(parameters, vectors), data.scores[rows], weights)
        optimizer.zero_grad(set_to_none=True)
        (loss / weight).backward()
        optimizer.step()
        total += float(loss.detach())
        count += float(weight)
    return total / count


def _evaluate(parameters: dict[str, Tensor], data: Data) -> float:
    with torch.no_grad():
        loss, weight = batch_loss(_forward(parameters, data.vectors), data.scores, data.weights)
    return float(loss / weight) if float(weight) else math.nan


def _initial(config: EmbedLLM, n_inputs: int, n_models: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(config.seed)
    bound = 1 / math.sqrt(n_inputs)
    weight = torch.empty((config.dim, n_inputs)).uniform_(-bound, bound, generator=generator)
    share = 1 / math.sqrt(config.dim)
    return {
        k: v.requires_grad_()
        for k, v in {
            "projection.weight": weight,
            "projection.bias": torch.zeros(config.dim),
            "models": torch.empty((n_models, config.dim)).normal_(0.0, 1.0, generator=generator),
            "classifier.weight": torch.empty(config.dim).uniform_(
                -share, share, generator=generator
            ),
            "classifier.bias": torch.zeros(1),
        }.items()
    }

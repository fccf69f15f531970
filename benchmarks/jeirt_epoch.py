"""An epoch of JE-IRT at EmbedLLM's shape against its floor and against the authors' way.

112 models x 29,673 items, 768-d vectors, d = 256, H = 1,536, all observed, synthetic. The
floor is the matrix products that an epoch needs: no gradient into the vectors. The other side
is a loop with one adapter pass a response, in batches of 512 responses, timed on a sample.
"""

from __future__ import annotations

import time

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.bars import Bars, peak_gib
from thetascope.predictors import ItemFeatures, PlainJEIRT, Sample
from thetascope.predictors import jeirt_training as training
from thetascope.study import ResponseMatrix

N, M, D, H, DIM, BATCH = 29_673, 112, 768, 1536, 256, 512
PASSES = 3


def make_sample(n: int, m: int, d: int) -> Sample:
    """Random vectors and right-or-wrong scores, all observed."""
    rng = np.random.default_rng(0)
    ids = tuple(str(i) for i in range(n))
    zero = np.zeros(n, np.int64)
    vectors = rng.standard_normal((n, d), dtype=np.float32) / np.float32(np.sqrt(d))
    items = ItemFeatures(ids, zero, ("b",), zero, ("b",), vectors)
    scores = rng.integers(0, 2, (n, m), dtype=np.uint8)
    return Sample(items, ResponseMatrix(ids, tuple(str(i) for i in range(m)), scores))


def gemm_seconds() -> float:
    """The products of one epoch, batch by batch, in the shapes in which they occur."""
    x, w1 = torch.randn(BATCH, D), torch.randn(H, D)
    h, w2 = torch.randn(BATCH, H), torch.randn(DIM, H)
    q, m, g = torch.randn(BATCH, DIM), torch.randn(M, DIM), torch.randn(BATCH, M)
    steps = -(-N // BATCH)
    start = time.perf_counter()
    for _ in range(steps):
        x @ w1.T  # forward
        h @ w2.T
        q @ m.T
        g @ m  # gradient into q
        g.T @ q  # into the models
        q @ w2  # into the hidden layer
        q.T @ h  # into W2
        h.T @ x  # into W1
    return time.perf_counter() - start


def epoch_seconds(
    config: PlainJEIRT, data: training.Data, state: tuple[dict, torch.optim.Optimizer], epoch: int
) -> float:
    """One epoch of training."""
    start = time.perf_counter()
    training.run_epoch(config, data, *state, epoch)
    return time.perf_counter() - start


def loop_responses_per_second(sample: Sample, n: int = 4096) -> float:
    """One adapter pass a response: gathers a vector for each of 512 responses a batch."""
    adapter = torch.nn.Sequential(
        torch.nn.Linear(D, H), torch.nn.ReLU(), torch.nn.Dropout(0.4), torch.nn.Linear(H, DIM)
    )
    table = torch.nn.Embedding(M, DIM)
    optimizer = torch.optim.AdamW([*adapter.parameters(), *table.parameters()], lr=5e-5)
    texts = {i: torch.from_numpy(v) for i, v in enumerate(sample.items.vectors)}  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    pairs = [(int(i), int(j)) for i, j in zip(rng.integers(0, N, n), rng.integers(0, M, n))]  # noqa: B905
    start = time.perf_counter()
    for k in range(0, n, 512):
        part = pairs[k : k + 512]
        vectors = torch.stack([texts[i] for i, _ in part])
        q = adapter(vectors)
        norm = q.norm(dim=1)
        models = table(torch.tensor([j for _, j in part]))
        logits = (q / norm[:, None] * models).sum(dim=1) - norm
        target = torch.tensor([float(sample.responses.scores[i, j]) for i, j in part])
        loss = F.binary_cross_entropy_with_logits(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return n / (time.perf_counter() - start)


def main() -> None:
    """Measures, interleaved, and compares with the bars."""
    sample = make_sample(N, M, D)
    config = PlainJEIRT(dim=DIM, hidden=H, batch_items=BATCH)
    data = training.to_tensors(sample, None, "cpu")
    parameters = training.initial_parameters(config, DIM, D, M, "cpu")
    optimizer = torch.optim.AdamW(list(parameters.values()), lr=1e-3, fused=True)
    epoch_seconds(config, data, (parameters, optimizer), 0)
    gemm_seconds()
    floors, epochs = [], []
    for k in range(PASSES):
        floors.append(gemm_seconds())
        epochs.append(epoch_seconds(config, data, (parameters, optimizer), k + 1))
    rate = loop_responses_per_second(sample)
    floor, epoch, loop = min(floors), min(epochs), N * M / rate
    print(f"products {floor:.2f} s, epoch {epoch:.2f} s, threads {torch.get_num_threads()}")
    print(f"a pass a response: {rate:,.0f} responses/s, {loop:,.0f} s an epoch")
    bars = Bars()
    bars.at_most("epoch / its matrix products", epoch / floor, 1.6)
    bars.at_least("a pass a response / epoch", loop / epoch, 100)
    bars.aim("a pass a response / epoch", loop / epoch, 300)
    bars.at_most("peak memory", peak_gib(), 2.5, "GiB")
    bars.finish()


if __name__ == "__main__":
    main()

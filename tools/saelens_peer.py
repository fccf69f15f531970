"""Steps of sae-lens' own TopK training, timed: run by benchmarks/concepts_training.

    python tools/saelens_peer.py BATCH WIDTH LATENTS K STEPS

Prints one JSON object: seconds and CPU seconds a step, by its own trainer on random batches.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator

import torch


def main() -> None:
    """Times the steps after three for warming up."""
    batch, width, latents, k, steps = (int(a) for a in sys.argv[1:6])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from sae_lens import TopKTrainingSAE, TopKTrainingSAEConfig
    from sae_lens.config import LoggingConfig, SAETrainerConfig
    from sae_lens.training.sae_trainer import SAETrainer

    generator = torch.Generator().manual_seed(0)
    data = torch.randn(batch, width, generator=generator)

    def provider() -> Iterator[torch.Tensor]:
        while True:
            yield data

    sae = TopKTrainingSAE(TopKTrainingSAEConfig(d_in=width, d_sae=latents, k=k))

    def trainer(n: int) -> SAETrainer:  # type: ignore[type-arg]
        config = SAETrainerConfig(
            total_training_samples=n * batch, train_batch_size_samples=batch, lr=3e-4, lr_end=3e-5,
            logger=LoggingConfig(log_to_wandb=False),
        )  # fmt: skip
        return SAETrainer(cfg=config, sae=sae, data_provider=provider())

    trainer(3).fit()
    start, cpu = time.perf_counter(), time.process_time()
    trainer(steps).fit()
    taken = {
        "seconds": (time.perf_counter() - start) / steps,
        "cpu": (time.process_time() - cpu) / steps,
    }
    sys.stdout.write(json.dumps(taken) + "\n")


if __name__ == "__main__":
    main()

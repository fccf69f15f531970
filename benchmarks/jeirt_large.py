"""An epoch at 8,500 models x 36,000 items, scores as bytes: does it fit in 12 GB?"""

from __future__ import annotations

import time

import torch

from benchmarks.bars import Bars, peak_gib
from benchmarks.jeirt_epoch import make_sample
from thetascope.predictors import PlainJEIRT
from thetascope.predictors import jeirt_training as training


def main() -> None:
    """Runs one epoch and an evaluation."""
    sample = make_sample(36_000, 8_500, 384)
    config = PlainJEIRT(dim=256, batch_items=512)
    data = training.to_tensors(sample, None, "cpu")
    parameters = training.initial_parameters(config, 256, 384, 8_500, "cpu")
    optimizer = torch.optim.AdamW(list(parameters.values()), lr=1e-3, fused=True)
    start = time.perf_counter()
    training.run_epoch(config, data, parameters, optimizer, 0)
    print(f"epoch {time.perf_counter() - start:.1f} s for {36_000 * 8_500:,} responses")
    training.evaluate(parameters, data)
    bars = Bars()
    bars.at_most("peak memory", peak_gib(), 12, "GiB")
    bars.finish()


if __name__ == "__main__":
    main()

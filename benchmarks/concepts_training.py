"""Training steps against sae-lens' own, 2,048 tokens x 384 -> 4,096 latents, k = 32, one thread.

`make saelens-peer` makes the other interpreter; SAELENS_PYTHON names another one. The sides take
turns, and CPU time is the measure, which other work on the machine changes least.

Bar: at least 3 times faster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.bars import Bars
from thetascope.concepts.harvest import Shard, open_harvest, write_shard
from thetascope.concepts.train_config import TrainConfig
from thetascope.concepts.training import train
from thetascope.study import files

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(os.environ.get("SAELENS_PYTHON", ROOT / ".venv-saelens" / "bin" / "python"))
BATCH, WIDTH, LATENTS, K, STEPS = 2048, 384, 4096, 32, 12
TURNS = 3
BAR = 3


def theirs() -> dict[str, float]:
    """Runs sae-lens' trainer under the other interpreter."""
    words = [str(v) for v in (BATCH, WIDTH, LATENTS, K, STEPS)]
    script = ROOT / "tools" / "saelens_peer.py"
    done = subprocess.run([PYTHON, script, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-1000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(folder: Path) -> dict[str, float]:
    """Trains with `concepts train`'s own loop, shards read from disk and checkpoint included."""
    clocks: list[tuple[float, float]] = []
    config = TrainConfig(n_latents=LATENTS, k=K, batch=BATCH, n_tokens=BATCH * (STEPS + 3))
    with tempfile.TemporaryDirectory() as work:
        train(
            open_harvest(folder), config, Path(work),
            progress=lambda *_: clocks.append((time.perf_counter(), time.process_time())),
        )  # fmt: skip
    first, last = clocks[2], clocks[-1]
    return {"seconds": (last[0] - first[0]) / STEPS, "cpu": (last[1] - first[1]) / STEPS}


def main() -> None:
    """Times both sides by turns; the fastest of three counts for either."""
    if not PYTHON.is_file():
        print(f"not measured: {PYTHON} is absent; make it with: make saelens-peer")
        sys.exit(0)
    torch.set_num_threads(1)
    bars = Bars()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        files.write_json(folder / "harvest.json", {"d_model": WIDTH})
        rng = np.random.default_rng(0)
        size = BATCH * (STEPS + 3)
        for number, count in enumerate((BATCH, size)):
            ids = np.zeros(count, np.int32)
            states = rng.standard_normal((count, WIDTH)).astype(np.float16)
            write_shard(folder / f"shard-{number:05d}.safetensors", Shard(states, ids, ids), 0)
        both = [(theirs(), ours(folder)) for _ in range(TURNS)]
    for clock in ("seconds", "cpu"):
        other, mine = (min(b[i][clock] for b in both) for i in (0, 1))
        print(
            f"     a step: sae-lens {1e3 * other:.0f} ms, thetascope {1e3 * mine:.0f} ms ({clock})"
        )
        bars.at_least(f"times faster ({clock})", other / mine, BAR)
    bars.finish()


if __name__ == "__main__":
    main()

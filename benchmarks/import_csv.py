"""Import of 4 million responses from a long CSV: seconds and memory."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.bars import Bars, peak_gib
from thetascope.cli import main as thetascope

N_ITEMS, N_MODELS = 36_000, 112


def write_csv(file: Path) -> int:
    """112 models x 36,000 items in random order, model by model; returns the rows."""
    rng = np.random.default_rng(0)
    items = np.array([f"benchmark_{i % 10}:question-{i:06d}" for i in range(N_ITEMS)])
    with file.open("wb") as out:
        out.write(b"item_id,model,score\n")
        for m in range(N_MODELS):
            frame = pl.DataFrame({
                "item_id": items[rng.permutation(N_ITEMS)],
                "model": f"organisation/model-{m:03d}-instruct",
                "score": rng.integers(0, 2, N_ITEMS),
            })  # fmt: skip
            frame.write_csv(out, include_header=False)
    return N_ITEMS * N_MODELS


def main() -> None:
    """Writes the file in another process, imports it here."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "long.csv"
        import subprocess

        code = f"from pathlib import Path; from benchmarks.import_csv import write_csv;\
 write_csv(Path({str(file)!r}))"
        subprocess.run([sys.executable, "-c", code], check=True)
        print(f"{N_ITEMS * N_MODELS:,} rows, {file.stat().st_size / 2**20:,.0f} MiB")
        start = time.perf_counter()
        status = thetascope(["import", str(file), "--into", str(Path(folder) / "study")])
        seconds = time.perf_counter() - start
    bars = Bars()
    bars.at_most("exit status", status, 0)
    bars.at_most("import", seconds, 60, "s")
    bars.at_most("peak memory", peak_gib(), 2, "GiB")
    bars.finish()


if __name__ == "__main__":
    main()

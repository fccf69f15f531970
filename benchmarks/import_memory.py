"""Peak memory of importing a log of 2 GiB, format by format.

Records are of ordinary size, 2.5 to 4.5 kB, a prompt with examples in each. The import runs in a
process of its own, whose peak resident memory is measured; the study on disk is part of it.
`python -m benchmarks.import_memory FORMAT [GIB]` measures one format. Logs are written into a
temporary folder, or into one within BENCH_DIR where that is set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.bars import Bars
from benchmarks.large_logs import WRITERS

GIB = 2.0
BAR_GIB = 1.0

_IMPORT = """
import sys
from benchmarks.bars import peak_gib
from thetascope.cli import main
status = main(["import", *sys.argv[1:]])
print(f"PEAK {peak_gib():.4f}")
sys.exit(status)
"""


class Measured(NamedTuple):
    """One import: its size and records, and what it took."""

    gib: float
    records: int
    seconds: float
    peak_gib: float


def measure(name: str, gib: float) -> Measured:
    """Writes a log, imports it in another process and deletes it.

    Raises:
        RuntimeError: The import failed.
    """
    writer = WRITERS[name]
    # The temporary folder may itself be in memory: BENCH_DIR names another.
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as scratch:
        source, study = Path(scratch) / "out", Path(scratch) / "study"
        source.mkdir()
        records = writer.write(source, int(gib * 2**30))
        size = sum(p.stat().st_size for p in source.rglob("*") if p.is_file()) / 2**30
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT, source, "--into", study, *writer.options],
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - start
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr.strip()[-1000:]}")
        peak = float(done.stdout.rpartition("PEAK ")[2])
    return Measured(size, records, seconds, peak)


def main(names: list[str], gib: float) -> None:
    """Measures the formats, or all."""
    bars = Bars()
    for name in names or WRITERS:
        place = os.environ.get("BENCH_DIR") or tempfile.gettempdir()
        if shutil.disk_usage(place).free < 2 * gib * 2**30:
            print(f"{name}: not measured, {place} has less than {2 * gib:g} GiB free")
            continue
        found = measure(name, gib)
        print(
            f"     {name}: {found.gib:.2f} GiB, {found.records:,} records of"
            f" {found.gib * 2**30 / found.records:,.0f} bytes, {found.seconds:.0f} s",
            flush=True,
        )
        bars.at_most(f"{name}: peak memory", found.peak_gib, BAR_GIB, "GiB")
    bars.finish()


if __name__ == "__main__":
    main(sys.argv[1:2], float(sys.argv[2]) if len(sys.argv) > 2 else GIB)

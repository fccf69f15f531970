"""Import of Inspect logs against Inspect's own `samples_df` with its default columns, in one run.

`make inspect-peer` makes the other interpreter; INSPECT_PYTHON names another one. Both sides read
the same logs: one made of 20,000 samples of 6.5 kB and, where they are there, the real ones with
scores. Inspect reads the summaries alone, which hold the beginnings of long texts; an import reads
every sample. Each side is timed by the clock and by its CPU time, which other work on the machine
hardly changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.bars import Bars
from thetascope.errors import InputError
from thetascope.readers import read

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(os.environ.get("INSPECT_PYTHON", ROOT / ".venv-inspect" / "bin" / "python"))
REAL = ROOT.parent / "shared" / "data" / "formats" / "inspect"
N_SAMPLES = 20_000
TIMES = 3
BAR = 10


def peer(*words: str) -> str:
    """Runs `tools/inspect_peer.py` under the other interpreter and returns what it prints."""
    script = ROOT / "tools" / "inspect_peer.py"
    done = subprocess.run([PYTHON, script, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-1000:])
    return done.stdout


def ours(log: Path) -> dict[str, float]:
    """Reads a log into a study, as `thetascope import` does."""
    start, cpu = time.perf_counter(), time.process_time()
    rows = read(log).report.read
    taken = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    return {**taken, "rows": rows}


def compare(bars: Bars, name: str, log: Path) -> None:
    """Times both sides by turns; the fastest of three counts for either."""
    both = [(json.loads(peer("time", str(log))), ours(log)) for _ in range(TIMES)]
    assert both[0][0]["rows"] == both[0][1]["rows"], both[0]
    for clock in ("seconds", "cpu"):
        theirs, mine = (min(b[i][clock] for b in both) for i in (0, 1))
        rows = both[0][1]["rows"]
        print(f"     {name}, {rows:,} samples: samples_df {theirs:.3f} s, import {mine:.3f} s"
              f" ({clock})")  # fmt: skip
        bars.at_least(f"{name}: times faster ({clock})", theirs / mine, BAR)


def main() -> None:
    """Makes the log and compares, or says why not."""
    if not PYTHON.is_file():
        print(f"not measured: {PYTHON} is absent; make it with: make inspect-peer")
        sys.exit(0)
    bars = Bars()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "made.eval"
        peer("make", str(log), str(N_SAMPLES))
        compare(bars, "made", log)
    for log in sorted(p for p in REAL.glob("*") if p.suffix in (".eval", ".json")):
        try:
            read(log)
        except InputError as error:
            print(f"     {log.name}: not compared: {error.problem.partition(';')[0]}")
            continue
        compare(bars, log.name, log)
    bars.finish()


if __name__ == "__main__":
    main()

"""Import of a million records of JSON lines: records a second, and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bars import Bars

N_RECORDS = 1_000_000

_READ = """
import sys, time
from benchmarks.bars import peak_gib
from thetascope.readers import read
start = time.perf_counter()
study = read(sys.argv[1])
print(study.responses.height, time.perf_counter() - start, peak_gib())
"""


def write_records(path: Path, layout: str, n: int = N_RECORDS) -> None:
    """A long table, or the samples of Every Eval Ever; every record another item."""
    with path.open("w", encoding="utf-8") as out:
        for i in range(n):
            record = (
                {"item_id": f"b:{i}", "model": "m", "score": i % 2}
                if layout == "tables"
                else {
                    "evaluation_id": "e",
                    "model_id": "m",
                    "evaluation_name": "b",
                    "sample_id": str(i),
                    "evaluation": {"score": i % 2},
                }
            )
            out.write(json.dumps(record) + "\n")


def main() -> None:
    """Writes each file here, reads it in another process."""
    bars = Bars()
    for layout in ("tables", "every-eval-ever"):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "a_samples.jsonl"
            write_records(path, layout)
            command = [sys.executable, "-c", _READ, str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows, seconds, gib = done.stdout.split()
        bars.at_least(f"responses ({layout})", int(rows), N_RECORDS)
        bars.at_least(f"records a second ({layout})", N_RECORDS / float(seconds), 20_000, "/s")
        bars.at_most(f"peak memory ({layout})", float(gib), 1.25, "GiB")
    bars.finish()


if __name__ == "__main__":
    main()

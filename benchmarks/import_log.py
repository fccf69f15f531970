"""Import of a 1 GB log of lm-evaluation-harness samples: memory, and records a second.

The log is of ordinary records of about 3.5 kB, a few-shot prompt in each, every item another;
the bar on the rate is for all of the import, the study on disk included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.bars import Bars, peak_gib
from thetascope.cli import main as thetascope

N_RECORDS = 300_000


def write_log(folder: Path, n: int = N_RECORDS) -> None:
    """One model's samples of one task, as 0.4.3 and later write them."""
    folder.mkdir(parents=True)
    shots = "Question: what is one and one? Answer: two. " * 60
    with (folder / "samples_made_2025-01-01T00-00-00.000000.jsonl").open("w") as out:
        for i in range(n):
            question = f"What is {i} times {i % 97}, and why would somebody want to know it?"
            record = {
                "doc_id": i,
                "doc": {"question": question, "answer": str(i * (i % 97))},
                "target": str(i * (i % 97)),
                "arguments": {
                    "gen_args_0": {"arg_0": shots + question, "arg_1": {"until": ["\n"]}}
                },
                "resps": [["It is " + str(i * (i % 97)) + ". " + "Because of that. " * 8]],
                "filtered_resps": [str(i * (i % 97))],
                "doc_hash": f"{i:064x}",
                "prompt_hash": f"{i + 1:064x}",
                "target_hash": f"{i + 2:064x}",
                "exact_match": float(i % 3 == 0),
            }
            out.write(json.dumps(record) + "\n")


def main() -> None:
    """Writes the log in another process, imports it here."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "out" / "maker__model"
        code = (
            "from pathlib import Path; from benchmarks.import_log import write_log;"
            f" write_log(Path({str(folder)!r}))"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
        size = sum(p.stat().st_size for p in folder.iterdir()) / 2**30
        start = time.perf_counter()
        status = thetascope(["import", str(folder.parent), "--into", str(Path(scratch) / "study")])
        seconds = time.perf_counter() - start
    print(f"{N_RECORDS:,} records, {size:.2f} GiB, {seconds:.1f} s")
    bars = Bars()
    bars.at_most("exit status", status, 0)
    bars.at_least("records a second", N_RECORDS / seconds, 20_000, "/s")
    bars.at_most("peak memory / size of the log", peak_gib() / size, 1.0)
    bars.finish()


if __name__ == "__main__":
    main()

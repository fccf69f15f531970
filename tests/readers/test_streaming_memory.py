"""A large log is streamed: its size does not decide the memory that reading takes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MEGABYTES = 100
ALLOWED_MEGABYTES = 60

_READ = """
import resource, sys
from thetascope.readers import read
import polars as pl
read(sys.argv[1])  # a small one: all code and its buffers are loaded
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
study = read(sys.argv[2])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(study.responses.height, (after - before) // 1024)
"""


def write(path: Path, n: int, array: bool) -> None:
    shots = "Question: an example?\\nAnswer: yes.\\n\\n" * 130
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            prompt = json.dumps({"arg_0": f"{shots}Why {i}?", "arg_1": "x"})
            head = "[" if array and i == 0 else "," if array else ""
            file.write(
                f'{head}{{"doc_id": {i}, "doc": {{"question": "Why {i}?"}}, "target": "x",'
                f' "arguments": {{"gen_args_0": {prompt}}}, "acc": {i % 2}.0}}\n'
            )
        file.write("]\n" if array else "")


@pytest.mark.skipif(sys.platform == "win32", reason="no peak memory there")
@pytest.mark.parametrize("array", [False, True], ids=["lines", "array"])
def test_lm_eval(tmp_path: Path, array: bool) -> None:
    small, large = (tmp_path / f"samples_{t}_2025-01-02T03-04-05.jsonl" for t in ("s", "l"))
    write(small, 10, array)
    n = MEGABYTES * 10**6 // (small.stat().st_size // 10)
    write(large, n, array)
    assert large.stat().st_size > 0.9 * MEGABYTES * 10**6
    done = subprocess.run(
        [sys.executable, "-c", _READ, small, large], check=True, capture_output=True, text=True
    )
    rows, grown = map(int, done.stdout.split())
    assert rows == n
    assert grown < ALLOWED_MEGABYTES, f"{grown} MB for a file of {MEGABYTES} MB"


def write_annotations(path: Path, n: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            record = {
                "instruction": f"Why {i}?",
                "output_1": "an answer " * 250,
                "output_2": "an answer " * 250,
                "generator_1": "b",
                "generator_2": "m",
                "annotator": "j",
                "preference": 1 + i % 2,
            }
            file.write(("[" if i == 0 else ",\n") + json.dumps(record))
        file.write("]")


def write_samples(path: Path, n: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            record = {
                "evaluation_id": "e",
                "model_id": "m",
                "evaluation_name": "b",
                "sample_id": str(i),
                "input": {"raw": f"Why {i}?", "formatted": "an example " * 450},
                "evaluation": {"score": i % 2},
            }
            file.write(json.dumps(record) + "\n")


def write_details(path: Path, n: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write('{"accuracy": 50.0, "details": {"type": "GEN"')
        for i in range(n):
            record = {"prompt": [{"role": "HUMAN", "prompt": f"Why {i}?"}], "correct": bool(i % 2)}
            file.write(f', "{i}": ' + json.dumps({**record, "origin_prediction": "so " * 1600}))
        file.write("}}")


@pytest.mark.skipif(sys.platform == "win32", reason="no peak memory there")
@pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_annotations, "a.json"),
        (write_samples, "a_samples.jsonl"),
        (write_details, "results/m/a.json"),
    ],
    ids=["alpaca-eval", "every-eval-ever", "opencompass"],
)
def test_others(tmp_path: Path, write: Callable[[Path, int], None], name: str) -> None:
    small, large = tmp_path / "s" / name, tmp_path / "l" / name
    for path in (small, large):
        path.parent.mkdir(parents=True)
    write(small, 10)
    n = MEGABYTES * 10**6 // (small.stat().st_size // 10)
    write(large, n)
    done = subprocess.run(
        [sys.executable, "-c", _READ, small, large], check=True, capture_output=True, text=True
    )
    rows, grown = map(int, done.stdout.split())
    assert rows == n
    assert grown < ALLOWED_MEGABYTES, f"{grown} MB for a file of {MEGABYTES} MB"

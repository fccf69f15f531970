"""SIGKILL at random moments of one extraction: the final files equal an undisturbed run's.

A tiny model with random weights reads a study in many shards. The extraction is run once
undisturbed; on a copy of the same study it is then started and killed at a random moment, again
and again, and goes on from what each kill left. 50 kills; the tests do 5.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.concepts.extract_cases import save_dictionary, save_study, some_texts
from tests.concepts.tiny_models import save_tiny_llama

from benchmarks.kills import contents
from thetascope.study import Study, store
from thetascope.study.doctor import clean

_PAUSE = 0.03
_CODE = """
import sys, time
from importlib import import_module
from thetascope.concepts import assemble, extraction, reading_plan
extract = import_module("thetascope.concepts.extract")  # the package has a function of this name
reading_plan.SHARD_TOKENS, assemble.PIECE_ROWS = 300, 500
from thetascope.cli import main
make, join, slow = extraction.make_shard, extract.assemble, float(sys.argv[1])
def slowly(*a, **k):
    print("begins", flush=True)
    make(*a, **k)
    time.sleep(slow)
def joining(*a, **k):
    print("begins", flush=True)
    return join(*a, **k)
extraction.make_shard, extract.assemble = slowly, joining
sys.exit(main(sys.argv[2:]))
"""


def run(study: Path, words: list[str], kill_after: float | None = None, slow: float = 0.0) -> float:
    """Extracts; kills it some seconds after work begins.

    Returns:
        Seconds from the first shard to the end; 0 where it was killed.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, str(slow), "concepts", "extract", str(study), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    began = time.monotonic()
    try:
        _, complaint = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return 0.0
    if process.returncode:
        raise AssertionError(f"exit {process.returncode}: {complaint.decode()}")
    return time.monotonic() - began


def disturb(scratch: Path, kills: int, n_texts: int, seed: int = 0) -> tuple[int, int]:
    """Kills one extraction that many times and compares the bytes at the end.

    Returns:
        How many of the kills left shards behind, and the most that one left.
    """
    model = save_tiny_llama(scratch / "tiny-llama")
    dictionary = save_dictionary(scratch / "dictionary")
    texts: list[str | None] = [*some_texts(n_texts)]
    base = save_study(scratch / "base", texts)
    calm, stormy = (Path(shutil.copytree(base, scratch / n)) for n in ("calm", "stormy"))
    words = ["--model", str(model), "--dictionary", str(dictionary), "--device", "cpu",
             "--batch-tokens", "256", "--contexts"]  # fmt: skip
    seconds = run(calm, words, slow=_PAUSE)
    moments = random.Random(seed)
    hits, amid, most = 0, 0, 0
    while hits < kills:
        # The pause behind each shard makes reading long enough to be hit, joining is hit as is.
        ended = run(stormy, words, moments.uniform(0, 0.8 * seconds), slow=_PAUSE) > 0
        opened = Study.open(stormy)
        assert opened.items.equals(Study.open(base).items)
        if ended or store.read_index(stormy).derived:
            # It was done before the kill: the next begins anew.
            shutil.rmtree(stormy)
            shutil.copytree(base, stormy)
            continue
        hits += 1
        left = len(list(stormy.glob("concepts/.work-*/shards/shard-*")))
        amid, most = amid + (left > 0), max(most, left)
    run(stormy, words)
    for folder in (calm, stormy):
        clean(folder)
    there, here = contents(calm), contents(stormy)
    assert here == there, {k for k in there.keys() | here.keys() if there.get(k) != here.get(k)}
    assert any("activations-by-concept" in name for name in here)
    return amid, most


def main() -> None:
    """50 kills."""
    with tempfile.TemporaryDirectory() as scratch:
        amid, most = disturb(Path(scratch), 50, 600)
    print(
        f"ok   50 kills of an extraction ({amid} with shards behind it, up to {most}): equal bytes"
    )


if __name__ == "__main__":
    main()

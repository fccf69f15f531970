"""SIGKILL at random moments of one extraction: the final files equal an undisturbed run's.

A tiny model with random weights reads a study in many shards. The extraction is run once
undisturbed; on a copy of the same study it is then started and killed at a random moment, again
and again, and goes on from what each kill left. 50 kills; the tests do 5.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.concepts.extract_cases import save_dictionary, save_study, some_texts
from tests.concepts.tiny_models import save_tiny_llama

from benchmarks.kills import contents
from thetascope.study import Study, store
from thetascope.study.doctor import clean

_PAUSE = 0.03
_CODE = """
import json, os, sys, time
from importlib import import_module
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
from thetascope.concepts import assemble, extraction, reading_plan
extract = import_module("thetascope.concepts.extract")  # the package has a function of this name
reading_plan.SHARD_TOKENS, assemble.PIECE_ROWS = 300, 500
from thetascope.cli import main
make, join, slow = extraction.make_shard, extract.assemble, 0.0
def slowly(*a, **k):
    print("begins", flush=True)
    make(*a, **k)
    time.sleep(slow)
def joining(*a, **k):
    print("begins", flush=True)
    return join(*a, **k)
extraction.make_shard, extract.assemble = slowly, joining
for line in sys.stdin:
    slow, *words = json.loads(line)
    child = os.fork()
    if not child:
        code = 1
        try:
            code = main(words)
        finally:
            sys.stdout.flush()
            os._exit(code)
    print("started", child, flush=True)
    _, status = os.waitpid(child, 0)
    print("ended", os.waitstatus_to_exitcode(status), flush=True)
"""


class Runner:
    """Runs extractions, each in a process of its own that is forked when all is imported."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", _CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def run(
        self, study: Path, words: list[str], kill_after: float | None = None, slow: float = 0.0
    ) -> float:
        """Extracts; kills it some seconds after work begins.

        Returns:
            Seconds from the first shard to the end; 0 where it was killed.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        asked = [slow, "concepts", "extract", str(study), *words]
        print(json.dumps(asked), file=self._server.stdin, flush=True)
        child, began, said = 0, 0.0, list[str]()
        timer: threading.Timer | None = None
        for line in self._server.stdout:
            said.append(line)
            if line.startswith("started "):
                child = int(line.split()[1])
            if child and timer is None and "begins\n" in said:
                began = time.monotonic()
                timer = threading.Timer(kill_after or 0, _kill, [child])
                if kill_after is not None:
                    timer.start()
            if line.startswith("ended "):
                if timer is not None:
                    timer.cancel()
                code = int(line.split()[1])
                if code == -signal.SIGKILL:
                    return 0.0
                if code:
                    raise AssertionError(f"exit {code}: {''.join(said)}")
                return time.monotonic() - began
        raise AssertionError("".join(said))


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


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
    with Runner() as runner:
        seconds = runner.run(calm, words, slow=_PAUSE)
        moments = random.Random(seed)
        hits, amid, most = 0, 0, 0
        while hits < kills:
            # The pause behind each shard makes reading long enough to be hit, joining is hit as is.
            fresh = not any(stormy.glob("concepts/.work-*"))
            took = runner.run(stormy, words, moments.uniform(0, 0.8 * seconds), slow=_PAUSE)
            if took and fresh:
                # The machine has become faster: later moments would be behind the end.
                seconds = min(seconds, took)
            opened = Study.open(stormy)
            assert opened.items.equals(Study.open(base).items)
            if took or store.read_index(stormy).derived:
                # It was done before the kill: the next begins anew.
                shutil.rmtree(stormy)
                shutil.copytree(base, stormy)
                continue
            hits += 1
            left = len(list(stormy.glob("concepts/.work-*/shards/shard-*")))
            amid, most = amid + (left > 0), max(most, left)
            if hits % 10 == 0:
                print(f"     {hits} kills, {amid} with shards behind them", flush=True)
        runner.run(stormy, words)
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

"""SIGKILL at random moments of import, encode and fit: nothing lost, same bytes at the end.

Every command is run once undisturbed and timed. On a copy of the same beginning it is then
started and killed at a random moment, again and again; after each kill the study must open
with all that it had. At last the command runs to its end, and the folder must equal the
undisturbed one, byte for byte (`run.json` with its times left out).
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

import numpy as np
import polars as pl

from thetascope.study import Study, files, store
from thetascope.study.doctor import clean

COMMAND = [sys.executable, "-m", "thetascope"]
_OUTSIDE = ("run.json", ".lock")


def write_results(file: Path, n_items: int, n_models: int, seed: int = 0) -> None:
    """A long table of made results with made texts of 5 to 60 words."""
    rng = np.random.default_rng(seed)
    words = np.array(["sum", "river", "prove", "cell", "list", "price", "angle", "verb", "atom"])
    texts = [" ".join(rng.choice(words, rng.integers(5, 60))) + f" {i}?" for i in range(n_items)]
    item, model = (a.ravel() for a in np.indices((n_items, n_models)))
    pl.DataFrame({
        "item_id": [f"b{i % 3}:{i}" for i in item],
        "model": [f"model-{m}" for m in model],
        "score": rng.integers(0, 2, len(item)),
        "text": [texts[i] for i in item],
    }).write_csv(file)  # fmt: skip


def contents(study: Path) -> dict[str, str]:
    """Hash of every file of the study by name, without what is outside the promise."""
    return {
        p.relative_to(study).as_posix(): files.hash_file(p)
        for p in sorted(study.rglob("*"))
        if p.is_file() and p.name not in _OUTSIDE
    }


def run(arguments: list[str], kill_after: float | None = None) -> bool:
    """Runs a command; kills it after some seconds. Returns whether it came to its end."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    try:
        _, complaint = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False
    if process.returncode:
        raise AssertionError(f"{arguments}: exit {process.returncode}: {complaint.decode()}")
    return True


def disturb(
    begin: Path | None, arguments: list[str], place: str, kills: int, seed: int, scratch: Path
) -> None:
    """Runs a command undisturbed and disturbed by that many kills, and compares.

    Args:
        begin: The study that the command starts from; None for none.
        arguments: The command line; `place` in it stands for the study.
        place: The word to replace.
        kills: Number of kills.
        seed: Of the moments.
        scratch: A folder to work in.
    """
    calm, stormy = scratch / "calm", scratch / "stormy"
    for folder in (calm, stormy):
        shutil.rmtree(folder, ignore_errors=True)
        if begin is not None:
            shutil.copytree(begin, folder)
    before = None if begin is None else Study.open(begin)
    start = time.monotonic()
    run([a.replace(place, str(calm)) for a in arguments])
    seconds = time.monotonic() - start
    moments, hits = random.Random(seed), 0
    while hits < kills:
        if run([a.replace(place, str(stormy)) for a in arguments], moments.uniform(0.05, seconds)):
            # It came to its end before the kill: the next kill starts from the beginning.
            shutil.rmtree(stormy)
            if begin is not None:
                shutil.copytree(begin, stormy)
            continue
        hits += 1
        if store.is_study(stormy):
            opened = Study.open(stormy)
            if before is not None:
                assert opened.n_items >= before.n_items
                assert opened.responses.height >= before.responses.height
        else:
            assert before is None, "the study is gone"
    run([a.replace(place, str(stormy)) for a in arguments])
    clean(stormy)
    clean(calm)
    there, here = contents(calm), contents(stormy)
    assert here == there, {k for k in there.keys() | here.keys() if there.get(k) != here.get(k)}


def all_commands(
    scratch: Path, kills: tuple[int, int, int, int], n_items: int, n_models: int, epochs: int
) -> None:
    """Disturbs import, encode, fit and the fit of the blend, each by its number of kills."""
    first, second = scratch / "first.csv", scratch / "second.csv"
    write_results(first, n_items, n_models)
    write_results(second, n_items, n_models, seed=0)
    frame = pl.read_csv(second).with_columns(pl.col("model") + "-next-week")
    frame.write_csv(second)
    base = scratch / "base"
    run(["import", str(first), "--into", str(base)])
    disturb(base, ["import", str(second), "--into", "@"], "@", kills[0], 1, scratch)
    disturb(base, ["encode", "@"], "@", kills[1], 2, scratch)
    run(["encode", str(base)])
    fit = ["fit", "@", "--max-epochs", str(epochs), "--patience", str(epochs)]
    disturb(base, fit, "@", kills[2], 3, scratch)
    blend = ["fit", "@", "--predictor", "blend", "--max-epochs", str(epochs)]
    disturb(base, blend, "@", kills[3], 4, scratch)


def main() -> None:
    """40 kills on a study of 3,000 items and 30 models."""
    with tempfile.TemporaryDirectory() as scratch:
        all_commands(Path(scratch), (10, 10, 10, 10), 3000, 30, 60)
    print("ok   40 kills before the end of import, encode and two fits; equal bytes every time")


if __name__ == "__main__":
    main()

"""Reads cases in a process of its own, so that an abort or a hang is seen and survived."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from benchmarks.fuzz.mutate import Case
from benchmarks.fuzz.oracle import examine, limit_memory, scratch_root

MEMORY_GIB = 6.0
SECONDS = 40.0


class Verdict(NamedTuple):
    """How a reading ended: 'read', 'refused' or 'finding', and for a finding its mark and story."""

    ended: str
    mark: str = ""
    story: str = ""


class Watcher:
    """A child that reads one case after the other; a new one when it dies."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self._context = multiprocessing.get_context("spawn")
        self._child: multiprocessing.process.BaseProcess | None = None
        self._scratch = tempfile.TemporaryDirectory(dir=scratch_root())

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._scratch.cleanup()

    def read(self, case: Case) -> Verdict:
        """Reads the case; a death or a hang of the child is a finding."""
        if self._child is None:
            self._pipe, other = self._context.Pipe()
            folder = Path(self._scratch.name)
            self._child = self._context.Process(target=_serve, args=(other, folder), daemon=True)
            self._child.start()
            other.close()
            self._pipe.recv()  # it is up
        try:
            self._pipe.send(case)
            if self._pipe.poll(self.seconds):
                return self._pipe.recv()
            self._end()
            return Verdict("finding", f"hang {case.seed.format}", f"no end in {self.seconds:g} s")
        except (EOFError, OSError):
            child, self._child = self._child, None
            child.join()
            mark = f"death {case.seed.format} {child.exitcode}"
            return Verdict("finding", mark, f"the process ended with {child.exitcode}")

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._pipe.close()
            self._child = None


def _serve(pipe: Connection, scratch: Path) -> None:
    limit_memory(MEMORY_GIB)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # polars prints its panics there
    pipe.send(True)
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        pipe.send(judge(case, scratch))


def judge(case: Case, scratch: Path) -> Verdict:
    """Reads the case in this process."""
    try:
        return Verdict(examine(case, scratch))
    except BaseException as error:  # whatever it is, it is what is looked for
        story = "".join(traceback.format_exception(error))
        if len(story) > 20_000:
            story = story[:10_000] + "\n...\n" + story[-10_000:]
        return Verdict("finding", _mark(error, case.seed.format), story)


def _mark(error: BaseException, format: str) -> str:
    """Names a finding by its kind and the line of ours where it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "thetascope" in f.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    if "oracle.py" in frames[-1].filename:
        place = f"{frames[-1].name} {format} {str(error)[:24]}"
    return f"{type(error).__name__} {place}"

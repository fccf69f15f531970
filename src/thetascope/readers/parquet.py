"""Parquet files are tried out in another process before they are read in this one.

One wrong bit in a page can make the library ask for an exabyte, and a failed allocation ends
the process without an exception. So a helper, started once and fed with names, reads the
columns first: if it dies, the file is damaged, and the one that asked lives.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from thetascope.errors import InputError

_HELPER = """
import json, os, sys
try:
    import resource
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") + (4 << 30)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, OSError, ValueError):
    pass  # without a limit of its own the system's holds
import polars as pl
for line in sys.stdin:
    path, columns = json.loads(line)
    try:
        table = pl.scan_parquet(path, glob=False)
        table.select(columns if columns else pl.all()).collect(engine="streaming")
        fault = ""
    except pl.exceptions.PanicException:
        fault = "the file is damaged"
    except (pl.exceptions.PolarsError, OSError) as error:
        fault = str(error).strip().split("\\n")[0] or type(error).__name__
    print(json.dumps(fault), flush=True)
"""

_lock = Lock()
_helper: tuple[int, subprocess.Popen[str]] | None = None


def try_out(path: Path, columns: Sequence[str] = ()) -> None:
    """Reads the columns (all, where none are named) in the helper.

    Raises:
        InputError: They cannot be read.
    """
    with _lock:
        fault = _ask(json.dumps([str(path.resolve()), list(columns)]))
    if fault:
        raise InputError(f"cannot be read as a table: {fault}", file=path)


def _ask(question: str) -> str:
    helper = _running()
    assert helper.stdin is not None
    assert helper.stdout is not None
    try:
        helper.stdin.write(question + "\n")
        helper.stdin.flush()
        answer = helper.stdout.readline()
    except BrokenPipeError:
        answer = ""
    if answer:
        return json.loads(answer)
    _stop()
    return "the file is damaged (reading it ended the process)"


def _running() -> subprocess.Popen[str]:
    """The helper of this process; one that a fork brought along is another's."""
    global _helper
    if _helper is None or _helper[0] != os.getpid() or _helper[1].poll() is not None:
        started = subprocess.Popen(
            [sys.executable, "-c", _HELPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        _helper = os.getpid(), started
    return _helper[1]


@atexit.register
def _stop() -> None:
    """Lets the helper end: it does when nobody can ask it any more."""
    global _helper
    if _helper is not None and _helper[0] == os.getpid():
        process = _helper[1]
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()
    _helper = None

"""The command line: parse, call the library, print. Only this room prints.

Exit status: 0 done, 1 a check failed, 2 bad input (one clear line), 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    from thetascope.cli.app import run

    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    try:
        return run(arguments)
    except KeyboardInterrupt:
        _complain("interrupted; finished work is kept, the same command goes on from there")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        return _report(error)


def _report(error: Exception) -> int:
    from thetascope.errors import ThetascopeError

    if isinstance(error, ThetascopeError):
        _complain(str(error))
        return error.exit_code
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        why = error.strerror or str(error)
        kept = "; the study is as it was" if error.errno == errno.ENOSPC else ""
        _complain(f"{where}{why}{kept}")
        return 2
    if isinstance(error, MemoryError):
        _complain("out of memory; the study is as it was")
        return 2
    if f"(os error {errno.ENOSPC})" in str(error):  # polars and safetensors raise their own kinds
        _complain(f"{os.strerror(errno.ENOSPC)}; the study is as it was")
        return 2
    first = (str(error).splitlines() or [""])[0]
    _complain(f"a fault in thetascope: {type(error).__name__}: {first} (see it with --debug)")
    return 1


def _complain(text: str) -> None:
    sys.stdout.flush()
    print(f"thetascope: {text}", file=sys.stderr)

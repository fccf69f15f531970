"""Says a measured number beside its bar."""

from __future__ import annotations

import resource
import sys


class Bars:
    """Collects results; `finish` exits with 1 where a bar was missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def at_most(self, what: str, value: float, bar: float, unit: str = "") -> None:
        """A number that should not be above its bar."""
        self._say(what, value, f"at most {bar:g}", unit, value <= bar)

    def at_least(self, what: str, value: float, bar: float, unit: str = "") -> None:
        """A number that should not be below its bar."""
        self._say(what, value, f"at least {bar:g}", unit, value >= bar)

    def aim(self, what: str, value: float, aim: float, unit: str = "") -> None:
        """A number with a goal beyond its bar; not reaching it is said, and no miss."""
        met = "reached" if value >= aim else "not reached"
        print(f"     {what}: {value:.4g} {unit} (aim: {aim:g}, {met})", flush=True)

    def _say(self, what: str, value: float, bar: str, unit: str, met: bool) -> None:
        print(f"{'ok  ' if met else 'MISS'} {what}: {value:.4g} {unit} (bar: {bar})", flush=True)
        if not met:
            self.missed.append(what)

    def finish(self) -> None:
        """Ends the process."""
        sys.exit(1 if self.missed else 0)


def peak_gib() -> float:
    """Greatest resident memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

"""Searches for readings that end badly, and makes what it finds small."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from benchmarks.fuzz.mutate import Case, Pick, mutated
from benchmarks.fuzz.oracle import as_json
from benchmarks.fuzz.seeds import Seed
from benchmarks.fuzz.watched import Verdict, Watcher

EXAMPLES_A_ROUND = 400


@st.composite
def cases(draw: st.DrawFn, seeds: Sequence[Seed]) -> Case:
    """A seed, damaged."""
    numbers = st.integers

    def pick(below: int) -> int:
        return draw(numbers(0, below - 1)) if below > 1 else 0

    chosen: Pick = pick
    return mutated(seeds[chosen(len(seeds))], list(seeds), chosen)


class Campaign:
    """Rounds of examples until the time is up; a kind of finding is made small once.

    Attributes:
        endings: How many readings ended in which way.
        found: The findings, by mark: how often each was met, and the smallest case.
    """

    def __init__(self, seeds: Sequence[Seed], first_seed: int = 0) -> None:
        self.seeds, self.next_seed = seeds, first_seed
        self.endings: Counter[str] = Counter()
        self.found: dict[str, tuple[Case, Verdict]] = {}
        self.times: Counter[str] = Counter()
        self.slowest = (0.0, "")

    def run(self, minutes: float, into: Path | None = None) -> None:
        """Searches; writes each finding into the folder `into` as it is made."""
        end = time.monotonic() + 60 * minutes
        with Watcher() as watcher:
            while time.monotonic() < end:
                found = self._round(watcher, end)
                if found is not None:
                    case, verdict = found
                    self.found[verdict.mark] = found
                    print(f"FOUND {verdict.mark}: {case.seed.format}: {case.note}", flush=True)
                    if into is not None:
                        write_case(into / f"{len(self.found):03d}", case, verdict)

    def _round(self, watcher: Watcher, end: float) -> tuple[Case, Verdict] | None:
        known = set(self.found)
        last: list[tuple[Case, Verdict]] = []
        target: list[str] = []

        @seed(self.next_seed)
        @settings(
            max_examples=EXAMPLES_A_ROUND,
            deadline=None,
            database=None,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        @given(cases(self.seeds))
        def attempt(case: Case) -> None:
            if time.monotonic() > end + (60 if target else 0):
                return
            start = time.monotonic()
            verdict = watcher.read(case)
            taken = time.monotonic() - start
            if taken > self.slowest[0]:
                self.slowest = (taken, f"{case.seed.format}: {case.note}")
            self.endings[verdict.ended] += 1
            if verdict.ended == "finding":
                self.times[verdict.mark] += 1
                # Only one kind is made small a round, else one would turn into another.
                if verdict.mark not in known and verdict.mark in (target or [verdict.mark]):
                    target[:] = [verdict.mark]
                    last[:] = [(case, verdict)]
                    raise AssertionError(verdict.mark)

        self.next_seed += 1
        try:
            attempt()
        except Exception:  # what was raised above, or that it did not come again
            if not last:
                raise
        return last[0] if last else None


def write_case(folder: Path, case: Case, verdict: Verdict) -> None:
    """Puts a case's files into a folder, with how to read them and what happened."""
    for name, data in case.files.items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "case.json").write_text(json.dumps(as_json(case), indent=1), encoding="utf-8")
    story = f"{verdict.mark}\n{verdict.story}"
    (folder / "story.txt").write_text(story, encoding="utf-8", errors="backslashreplace")

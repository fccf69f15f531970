"""Five SIGKILLs at random moments of one extraction (fifty in `make bench`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.concepts_kills import disturb


@pytest.mark.kill
@pytest.mark.timeout(600)
def test_a_killed_extraction_ends_in_the_same_bytes(tmp_path: Path) -> None:
    amid, _ = disturb(tmp_path, 5, 200)
    assert amid, "no kill came between the first shard and the end"

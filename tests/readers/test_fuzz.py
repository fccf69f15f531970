"""A short fuzz of every reader, the same each time; `python -m benchmarks fuzz` is the long one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.fuzz.campaign import cases
from benchmarks.fuzz.mutate import Case
from benchmarks.fuzz.oracle import Finding, check_message, examine
from benchmarks.fuzz.seeds import FAMILIES, Seed
from benchmarks.fuzz.trees import Members, Raw, dump, parse
from benchmarks.fuzz.watched import Watcher
from hypothesis import HealthCheck, Phase, given, settings

from thetascope.readers import readers

SEEDS: dict[str, list[Seed]] = {}
for _family in FAMILIES.values():
    for _seed in _family():
        SEEDS.setdefault(_seed.format, []).append(_seed)


def test_every_reader_has_a_seed() -> None:
    assert SEEDS.keys() == readers().keys()


@pytest.mark.parametrize("format", SEEDS)
def test_seeds_end_well(format: str, tmp_path: Path) -> None:
    endings = [examine(Case(s, dict(s.files), format), tmp_path) for s in SEEDS[format]]
    assert "read" in endings


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format", SEEDS)
def test_damaged_files_end_well(format: str, tmp_path: Path) -> None:
    @settings(
        max_examples=60,
        derandomize=True,
        database=None,
        deadline=20_000,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(SEEDS[format]))
    def attempt(case: Case) -> None:
        examine(case, tmp_path)

    attempt()


def test_a_tree_may_be_what_no_parser_gives() -> None:
    document = parse(b'{"a": [1, "x"]}')
    assert document is not None
    document.value.append(["a", Raw("NaN")])
    assert dump(document.value) == '{"a": [1, "x"], "a": NaN}'
    assert isinstance(document.holder("a"), list)
    assert not isinstance(document.holder("a"), Members)
    lines = parse(b'{"a": 1}\n{"a": 2}\n')
    assert lines is not None
    assert lines.lines
    assert lines.encode() == b'{"a": 1}\n{"a": 2}\n'


def test_the_oracle_sees_what_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(s for s in SEEDS["every-eval-ever"] if s.records_at == "")
    case = Case(seed, dict(seed.files), seed.format, 2, frozenset({0, 1}))
    assert examine(case, tmp_path) == "read"
    cleaned = {seed.main: seed.files[seed.main].replace(b'"score": 1.0', b'"score": 0.0')}
    with pytest.raises(Finding, match=r"had 1\.0 in the clean file, now 0\.0"):
        examine(Case(seed, cleaned, seed.format, 2, frozenset({0, 1})), tmp_path)
    with pytest.raises(Finding, match="3 records, 2 read"):
        examine(Case(seed, dict(seed.files), seed.format, 3), tmp_path)
    with pytest.raises(Finding, match="line ends or control characters"):
        check_message("a\x1b[31m")

    def careless(path: Path, **_: Any) -> None:
        (path.parent.parent / "left behind").touch()

    monkeypatch.setattr("benchmarks.fuzz.oracle.read", careless)
    with pytest.raises(Finding, match="wrote"):
        examine(case, tmp_path)


def test_a_dying_reader_is_seen() -> None:
    seed = Seed("tables", {"a.csv": b"item_id,model,score\nb:1,m,1\n"}, "a.csv")
    with Watcher(20) as watcher:
        assert watcher.read(Case(seed, dict(seed.files), "tables")).ended == "read"
        watcher._child.kill()  # type: ignore[union-attr]
        watcher._child.join()  # type: ignore[union-attr]
        verdict = watcher.read(Case(seed, dict(seed.files), "tables"))
        assert (verdict.ended, verdict.mark) == ("finding", "death tables -9")
        assert watcher.read(Case(seed, dict(seed.files), "tables")).ended == "read"

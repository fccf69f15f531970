"""Inspect itself reads an exported log; `make inspect-peer` makes the interpreter that has it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from thetascope.readers import read
from thetascope.study import Study
from thetascope.writers import export_study

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(os.environ.get("INSPECT_PYTHON", ROOT / ".venv-inspect" / "bin" / "python"))


@pytest.mark.skipif(not PYTHON.is_file(), reason="no inspect_ai: make inspect-peer")
def test_real_study(shared: Path, tmp_path: Path) -> None:
    models = ["Athene-70B", "Qwen2.5-7B-Instruct", "gpt-4o-2024-05-13"]
    study = read(shared / "data" / "zeroeval").filter(models=models)
    files = export_study(study, tmp_path / "out", "inspect")
    done = subprocess.run(
        [PYTHON, ROOT / "tools" / "inspect_peer.py", "read", *files],
        capture_output=True,
        text=True,
        check=True,
    )
    logs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(logs) == len(files)
    found = sorted((id, scores["score"]) for log in logs for id, epoch, scores in log if epoch == 1)
    assert found == expected(study)


def expected(study: Study) -> list[tuple[str, float]]:
    named = study.responses.join(study.items.select("item_id", "source_id"), on="item_id")
    return sorted(named.select("source_id", "score").iter_rows())

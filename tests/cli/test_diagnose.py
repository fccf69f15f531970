"""Command diagnose: sentences, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from thetascope.cli import main
from thetascope.study import Study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """25 models; the second half is better at words and worse at sums."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(160):
        benchmark = "sums" if i % 2 else "words"
        for m in range(25):
            lean = 0.25 if (m > 12) == (benchmark == "words") else -0.1
            rows.append((f"{benchmark}:{i}", f"m{m}", float(rng.random() < 0.5 + lean)))
    frame = pl.DataFrame(rows, schema=["item_id", "model", "score"], orient="row")
    folder = tmp_path_factory.mktemp("study") / "study"
    Study.from_tables(frame).save(folder)
    return folder


def test_it_says_what_it_found(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(study), "--bootstraps", "3"]) == 0
    out = capsys.readouterr().out
    for said in ("Discriminations: ", "Characteristic curves: ", "Order reversals: ",
                 "Held-out log-loss: ", "surest reversals", "kept in", "Not counted: ",
                 "not run: jeirt_context: the study has no text vectors"):  # fmt: skip
        assert said in out
    assert main(["diagnose", str(study), "--bootstraps", "3"]) == 0
    assert "was already in" in capsys.readouterr().out


def test_json_is_one_object(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(study), "--bootstraps", "3", "--seeds", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {
        "study", "settings", "discrimination", "monotonicity", "reversals", "losses", "folder"
    }  # fmt: skip
    assert found["settings"] == {"bootstraps": 3, "seeds": 0, "seed": 0}
    reversed_pairs = found["reversals"]
    assert reversed_pairs["share_surely_flipped"] > 10 * reversed_pairs["noise_surely_flipped"][0]
    assert "seeds = 0" in found["losses"]["why_not"]


def test_bad_input_exits_with_2(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(study), "--seeds", "11"]) == 2
    assert "expected 0 to 10" in capsys.readouterr().err
    assert main(["diagnose", str(tmp_path)]) == 2
    assert main(["diagnose", str(study), "--encoder", "none"]) == 2

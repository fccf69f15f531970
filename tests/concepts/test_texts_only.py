"""A study of texts alone, made by extract --texts: what traffic is compared by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from extract_cases import save_dictionary, save_study, some_texts
from tiny_models import save_tiny_llama

from thetascope.cli import main
from thetascope.study import Study


def test_traffic_is_compared_with_benchmarks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(save_tiny_llama(tmp_path / "tiny-llama"))
    dictionary = str(save_dictionary(tmp_path / "dictionary"))
    study = save_study(tmp_path / "study", [*some_texts(40)])
    traffic = tmp_path / "traffic.jsonl"
    traffic.write_text("".join(json.dumps({"text": t}) + "\n" for t in some_texts(25, seed=7)))
    words = ["--model", model, "--dictionary", dictionary, "--device", "cpu"]
    assert main(["concepts", "extract", str(study), *words]) == 0
    to = tmp_path / "traffic"
    args = ["concepts", "extract", str(to), "--texts", str(traffic), *words]
    assert main(args) == 0
    assert main(args) == 0  # the same again is no fault
    made = Study.open(to)
    assert made.n_items == 25
    assert made.n_models == 0
    assert made.items["item_id"][0] == "traffic:1"
    capsys.readouterr()
    assert main(["gaps", str(study), "--against", str(to), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["against"]["n_items"] == 25
    assert main(["gaps", str(to)]) == 2
    assert "no responses" in capsys.readouterr().err
    traffic.write_text(json.dumps({"text": "another"}) + "\n")
    assert main(args) == 2
    assert "study of other items" in capsys.readouterr().err

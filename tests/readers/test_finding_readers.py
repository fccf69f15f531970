"""Finding the right reader, and nothing in silence."""

from __future__ import annotations

import json
from pathlib import Path

from thetascope.readers import ReadOptions, read, readers

LOG = json.dumps({"doc_id": 0, "doc": {"question": "Why?"}, "target": "x", "acc": 1}) + "\n"


def test_formats() -> None:
    assert list(readers()) == [
        "helm",
        "lm-eval",
        "inspect",
        "embedllm",
        "alpaca-eval",
        "llmrouter",
        "router-tables",
        "openai-evals",
        "swe-bench",
        "lm-eval-old",
        "livecodebench",
        "mt-bench",
        "bfcl",
        "mmlu-pro",
        "zeroeval",
        "opencompass",
        "lighteval",
        "every-eval-ever",
        "evalplus",
        "tables",
    ]


def test_each_real_file_is_claimed_by_its_reader_alone(shared: Path) -> None:
    expected = {
        "lm_eval_new": "lm-eval",
        "inspect": "inspect",
        "alpaca_eval": "alpaca-eval",
        "evalplus": "evalplus",
        "opencompass": "opencompass",
        "zeroeval": "zeroeval",
        "mmlu_pro": "mmlu-pro",
        "mt_bench": "mt-bench",
        "livecodebench": "livecodebench",
        "lm_eval_old": "lm-eval-old",
        "swe_bench": "swe-bench",
        "openai_evals": "openai-evals",
        "llmrouter": "llmrouter",
        "routellm": "router-tables",
    }
    for path in sorted((shared / "data/formats").rglob("*")):
        if path.is_dir() or path.parent.parent.name == "helm":
            continue
        head = path.read_bytes()[: 1 << 16]
        claimed = [name for name, reader in readers().items() if reader.claims(path, head)]
        folder = path.relative_to(shared / "data/formats").parts[0]
        assert claimed == ([expected[folder]] if folder in expected else []), path


def test_a_folder_of_several_formats(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/samples_t_2025-01-02T03-04-05.jsonl").write_text(LOG, encoding="utf-8")
    (tmp_path / "m/notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "a.csv").write_text("item_id,model,score\nb:1,m,0\n", encoding="utf-8")
    (tmp_path / ".hidden.csv").write_text("item_id,model,score\nb:1,m,0\n", encoding="utf-8")
    study = read(tmp_path)
    assert study.report.sources == [
        ("a.csv", "tables"),
        ("m/samples_t_2025-01-02T03-04-05.jsonl", "lm-eval"),
    ]
    assert study.report.ignored == ["m/notes.txt"]
    assert dict(study.responses.select("item_id", "score").iter_rows()) == {"b:1": 0, "t:0": 1}
    only = read(tmp_path, format="tables")
    assert only.n_items == 1


def test_repeated_files_are_a_matter_of_policy(tmp_path: Path) -> None:
    for date in ("2025-01-02T03-04-05", "2025-02-02T03-04-05"):
        path = tmp_path / f"m/samples_t_{date}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(LOG, encoding="utf-8")
    study = read(tmp_path, options=ReadOptions(on_duplicate="first"))
    assert study.responses.height == 2
    assert study.pairs().height == 1

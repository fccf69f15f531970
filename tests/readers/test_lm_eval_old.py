"""lm-evaluation-harness before 0.4: records of --write_out, and results that hold none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

NAMED = ReadOptions(model="m")


def record(doc_id: Any, *prompts: str, **more: Any) -> dict[str, Any]:
    asked = {f"prompt_{i}": p for i, p in enumerate(prompts)}
    logits = {f"logit_{i}": "-1.5" for i in range(len(prompts))}
    return {"doc_id": doc_id, **asked, **logits, "truth": "x", **more}


def write(folder: Path, *records: Any, task: str = "quiz") -> Path:
    path = folder / f"{task}_write_out_info.json"
    path.write_text(json.dumps(records, indent=4), encoding="utf-8")
    return path


def results(folder: Path, name: str = "m.json") -> None:
    content = {
        "results": {"quiz": {"acc": 0.5, "acc_stderr": 0.1}},
        "versions": {"quiz": 0},
        "config": {"model": "hf", "model_args": "pretrained=maker/m,revision=step9"},
    }
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def test_real_files(shared: Path) -> None:
    folder = shared / "data/formats/lm_eval_old"
    records = folder / "flare_german_desc_write_out_info.json"
    with pytest.raises(InputError) as caught:
        read(records, options=NAMED)
    assert str(caught.value) == (
        f"{records}, record 1: has the metrics acc, missing"
        " (choose one with --metric, e.g. --metric acc)"
    )
    study = read(records, options=ReadOptions(model="calm", metric="acc"))
    assert scores(study) == {
        "flare_german_desc:0": 0.0,
        "flare_german_desc:1": 0.0,
        "flare_german_desc:2": 1.0,
    }
    assert study.items["text"][0].startswith("Text: 'The state of Status of existing checking")
    assert study.items["reference"].to_list() == ["good", "good", "good"]
    assert study.models["model"].to_list() == ["calm"]

    with pytest.raises(InputError) as caught:
        read(folder / "12b-5shot_step103000.json")
    assert str(caught.value).endswith(
        "12b-5shot_step103000.json: is a results file: averages over all items, not the items'"
        " results (run again with --write_out, or with --log_samples in version 0.4 and newer)"
    )


def test_model_of_the_results_beside(tmp_path: Path) -> None:
    write(tmp_path, record(0, "Why?", acc="1.0"), record(1, "How?", acc="False"))
    results(tmp_path)
    study = read(tmp_path)
    assert scores(study) == {"quiz:0": 1.0, "quiz:1": 0.0}
    assert study.models["model"].to_list() == ["maker/m@step9"]
    assert sorted(f for f, _ in study.report.sources) == ["m.json", "quiz_write_out_info.json"]
    assert study.report.ignored == []
    results(tmp_path, "n.json")
    with pytest.raises(InputError, match="cannot tell the model: several results files beside it"):
        read(tmp_path)


def test_texts_without_shots_and_answers(tmp_path: Path) -> None:
    shots = "Q: 1+1?\nA: 2\n\n"
    write(
        tmp_path,
        record("0", f"{shots}Q: Why?\nA: red", f"{shots}Q: Why?\nA: round", acc="0.0"),
        record("00", f"{shots}Q: How?\nA: A", f"{shots}Q: How?\nA: B", acc="1.0"),
    )
    study = read(tmp_path, options=NAMED)
    assert dict(study.items.select("source_id", "text").iter_rows()) == {
        "0": "Q: Why?\nA:\nA. red\nB. round",
        "00": "Q: How?\nA:",
    }
    assert study.report.text_rule == (
        "the prompt without the first 14 characters, common to all (quiz)"
    )


def test_missing_scores_are_counted(tmp_path: Path) -> None:
    gone = record(2, "So?")
    write(tmp_path, record(0, "Why?", acc="1"), record(1, "How?", acc="nan"), gone)
    study = read(tmp_path, options=NAMED)
    assert scores(study) == {"quiz:0": 1.0}
    assert {d.reason: d.n for d in study.report.dropped.values()} == {
        "no score (null or NaN)": 1,
        "quiz: no acc in the record": 1,
    }


BROKEN = [
    (record(None, "Why?", acc="1"), "record 1, field 'doc_id': expected a number or text"),
    (record(0, "Why?"), "record 1: has no metric"),
    (
        record(0, "Why?", f1="('a', 'b')"),
        "record 1: has no metric that is one number; there are f1 (text)",
    ),
    (record(0, "Why?", acc="7"), "record 1, field 'acc': must be between 0 and 1, found 7"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_broken_records(tmp_path: Path, broken: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(write(tmp_path, broken), options=NAMED)
    assert message in str(caught.value)


def test_names_that_are_needed(tmp_path: Path) -> None:
    path = write(tmp_path, record(0, "Why?", acc="1"))
    with pytest.raises(InputError, match="cannot tell the model: no results file beside it"):
        read(path)
    path = path.rename(tmp_path / "a.json")
    with pytest.raises(InputError, match="cannot tell the task: the file's name is not TASK_write"):
        read(path, options=NAMED)
    study = read(path, options=ReadOptions(model="m", benchmark="b"))
    assert scores(study) == {"b:0": 1.0}

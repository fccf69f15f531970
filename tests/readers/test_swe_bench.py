"""SWE-bench's reports: absent is not failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

NAMED = ReadOptions(model="m", benchmark="b")


def put(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def dropped(study: Study) -> dict[str, int]:
    return {d.reason: d.n for d in study.report.dropped.values()}


def test_real_files(shared: Path) -> None:
    folder = shared / "data/formats/swe_bench"
    path = folder / "swe_bench_pro_eval_results.json"
    study = read(path, options=ReadOptions(model="gpt-4o", benchmark="pro"))
    found = scores(study)
    assert len(found) == 8
    assert [i for i, s in found.items() if s == 1] == [
        "pro:instance_ansible__ansible-0ea40e09d1b35bcb69ff4d9cecf3d0defa4b36e8"
        "-v30a923fb5c164d6cd18280c02422f75e611e8fb2"
    ]
    vuls = "pro:instance_future-architect__vuls-7e91f5ef7e5712b1a3d7d5066ad6607e9debc21c"
    assert found[vuls] == 0
    study = read(folder / "test.swebench_eval.jsonl", options=ReadOptions(model="m"))
    assert scores(study) == {"swe-bench:test-instance-1": 1.0, "swe-bench:test-instance-2": 0.0}
    assert study.report.notes == [
        "the reports name no benchmark: it is 'swe-bench'; see --benchmark"
    ]
    for name in ("swe_bench_pro_eval_results.json", "test.swebench_eval.jsonl"):
        with pytest.raises(InputError, match="cannot tell the model: the file does not say it"):
            read(folder / name)


REPORT = {
    "total_instances": 8,
    "completed_ids": ["a__a-1", "a__a-2", "a__a-3"],
    "incomplete_ids": ["a__a-7"],
    "empty_patch_ids": ["a__a-4"],
    "submitted_ids": ["a__a-1", "a__a-2", "a__a-3", "a__a-4", "a__a-5"],
    "resolved_ids": ["a__a-1", "a__a-3"],
    "unresolved_ids": ["a__a-2"],
    "error_ids": ["a__a-5"],
    "schema_version": 2,
}


def test_lists_of_the_harness(tmp_path: Path) -> None:
    path = put(tmp_path / "maker__m-1.5.run_1.json", REPORT)
    study = read(path, options=ReadOptions(benchmark="b"))
    assert scores(study) == {"b:a__a-1": 1, "b:a__a-3": 1, "b:a__a-2": 0, "b:a__a-4": 0}
    assert dropped(study) == {"in error_ids, not graded": 1, "in incomplete_ids, not graded": 1}
    assert (study.report.read, study.report.kept) == (6, 4)
    assert study.models["model"].to_list() == ["maker/m-1.5"]
    assert study.report.notes == [
        "maker__m-1.5.run_1.json: the model 'maker/m-1.5' is from the file's name",
        "score = 1 in resolved_ids, 0 in unresolved_ids, empty_patch_ids (b)",
    ]


def test_lists_of_old_submissions(tmp_path: Path) -> None:
    lists = {"no_logs": ["a__a-9"], "applied": ["a__a-1", "a__a-2"], "resolved": ["a__a-1"]}
    study = read(put(tmp_path / "results.json", lists), options=NAMED)
    assert scores(study) == {"b:a__a-1": 1, "b:a__a-2": 0}
    assert dropped(study) == {"in no_logs, not graded": 1}


def test_lists_without_failures_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "results.json", {"no_generation": ["a__a-2"], "resolved": ["a__a-1"]})
    with pytest.raises(InputError) as caught:
        read(path, options=NAMED)
    assert str(caught.value) == (
        f"{path}: lists no instances that were evaluated and failed, and an instance in no list"
        " did not fail (give the harness's report, with unresolved_ids or completed_ids)"
    )


def test_reports_by_id(tmp_path: Path) -> None:
    path = put(
        tmp_path / "report.json",
        {
            "a__a-1": {"resolved": True, "patch_exists": True},
            "a__a-2": {"resolved": False},
            "a__a-3": {"patch_exists": False},
        },
    )
    study = read(path, options=NAMED)
    assert scores(study) == {"b:a__a-1": 1, "b:a__a-2": 0}
    assert dropped(study) == {"no report: not evaluated": 1}


def test_a_record_a_line(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "a.jsonl",
        {"instance_id": "1", "resolved": True, "model_name_or_path": "n"},
        {"instance_id": "2", "test_result": {"report": {"resolved": False, "error_eval": True}}},
        {"instance_id": "3", "test_result": {}},
        {
            "instance_id": "4",
            "resolved": "False",
            "model_name_or_path": "n",
            "instance": {"problem_statement": "It\u2028fails."},
        },
    )
    study = read(path, options=ReadOptions(benchmark="b"))
    assert scores(study) == {"b:1": 1, "b:4": 0}
    assert dropped(study) == {"error in the evaluation": 1, "no report: not evaluated": 1}
    assert study.models["model"].to_list() == ["n"]
    assert study.items["text"].to_list() == [None, "It\u2028fails."]


BROKEN = [
    ({"a__a-1": True, "a__a-2": "x"}, "record a__a-2, field 'score': expected a number from 0 to"),
    ({"a__a-1": True, "a__a-2": None}, None),
    ({**REPORT, "error_ids": [1]}, "record 1, field 'error_ids': expected an id, found a number"),
    (
        {**REPORT, "unresolved_ids": ["a__a-1"]},
        "field 'unresolved_ids': 'a__a-1' is resolved too (resolved_ids)",
    ),
    ({"resolved_ids": None, "error_ids": []}, "field 'resolved_ids': has no list of resolved"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN, ids=[str(m) for _, m in BROKEN])
def test_broken_reports(tmp_path: Path, content: Any, message: str | None) -> None:
    path = put(tmp_path / "a.json", content)
    if message is None:
        study = read(path, options=NAMED)
        assert dropped(study) == {"no score (null or NaN)": 1}
        return
    with pytest.raises(InputError) as caught:
        read(path, format="swe-bench", options=NAMED)
    assert message in str(caught.value)


def test_patches_are_no_results(tmp_path: Path) -> None:
    record = {"instance_id": "1", "model_name_or_path": "n", "model_patch": "diff"}
    path = lines(tmp_path / "a.jsonl", record)
    with pytest.raises(InputError, match="holds patches, not whether they resolve"):
        read(path)


def test_settings_are_not_claimed(tmp_path: Path) -> None:
    path = put(tmp_path / "settings.json", {"verbose": True, "dark-mode": False})
    with pytest.raises(InputError, match="is of no known format"):
        read(path)

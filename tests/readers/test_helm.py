"""HELM run folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

SPEC = {
    "name": "mmlu:subject=law,method=multiple_choice_joint,model=maker_m",
    "scenario_spec": {"class_name": "x.MMLUScenario", "args": {"subject": "law"}},
    "adapter_spec": {"method": "multiple_choice_joint", "model": "maker/m"},
}


def stat(name: str, mean: float | None, split: str = "test") -> dict[str, Any]:
    made: dict[str, Any] = {"name": {"name": name, "split": split}, "count": 0}
    return made if mean is None else {**made, "count": 1, "mean": mean}


def answer(instance: str, mean: float | None, split: str = "test", **more: Any) -> dict[str, Any]:
    stats = [stat("num_prompt_tokens", 30, split), stat("exact_match", mean, split)]
    return {"instance_id": instance, "train_trial_index": 0, "stats": stats, **more}


def instance(key: str, **more: Any) -> dict[str, Any]:
    references = [
        {"output": {"text": "Yes"}, "tags": ["correct"]},
        {"output": {"text": "No"}, "tags": []},
    ]
    return {"input": {"text": f"{key}?"}, "references": references, "id": key, **more}


def run(folder: Path, *answers: Any, spec: Any = SPEC, **files: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"run_spec": spec, "per_instance_stats": answers, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def test_real_run(shared: Path) -> None:
    folder = shared / "data/formats/helm"
    with pytest.raises(InputError, match="has the metrics exact_match, exact_match@5, quasi_"):
        read(folder)
    study = read(folder, options=ReadOptions(metric="exact_match"))
    assert scores(study) == {"simple_mcqa:id60": 0.0, "simple_mcqa:id38": 0.0}
    assert study.responses["n_tokens_in"].to_list() == [385, 385]
    assert study.items["text"][0] == "Is 70 even or odd?\nA. Even\nB. Odd"
    assert study.items["reference"].to_list() == ["Even", "Even"]
    facts = study.runs.row(0, named=True)
    assert (facts["model"], facts["harness"], facts["shots"]) == ("simple/model1", "helm", 5)


def test_benchmark_and_subject_come_from_the_scenario(tmp_path: Path) -> None:
    run(tmp_path / "r", answer("id0", 1.0), instances=[instance("id0")])
    study = read(tmp_path)
    row = study.items.row(0, named=True)
    assert (row["item_id"], row["subject"]) == ("mmlu:subject=law:id0", "law")
    assert row["text"] == "id0?\nA. Yes\nB. No"


def test_references_of_open_questions_are_no_options(tmp_path: Path) -> None:
    spec = {**SPEC, "adapter_spec": {"method": "generation", "model": "maker/m"}}
    run(tmp_path / "r", answer("id0", 1.0), spec=spec, instances=[instance("id0")])
    row = read(tmp_path).items.row(0, named=True)
    assert (row["text"], row["reference"]) == ("id0?", "Yes")


def test_texts_of_a_state_without_instances(tmp_path: Path) -> None:
    states = [{"instance": instance("id0")}, {"instance": instance("id0")}]
    run(tmp_path / "r", answer("id0", 1.0), scenario_state={"request_states": states})
    assert read(tmp_path).items["text"].to_list() == ["id0?\nA. Yes\nB. No"]


def test_no_texts_at_all(tmp_path: Path) -> None:
    run(tmp_path / "r", answer("id0", 1.0))
    study = read(tmp_path)
    assert scores(study) == {"mmlu:subject=law:id0": 1.0}
    assert "r: neither instances.json nor scenario_state.json: no texts" in study.report.notes


def test_perturbed_and_empty_are_dropped(tmp_path: Path) -> None:
    run(
        tmp_path / "r",
        answer("id0", 1.0),
        answer("id0", 0.0, perturbation={"name": "typos"}),
        answer("id1", None),
        instances=[instance("id0"), instance("id0", perturbation={"name": "typos"})],
    )
    study = read(tmp_path)
    assert scores(study) == {"mmlu:subject=law:id0": 1.0}
    assert {d.reason: d.n for d in study.report.dropped.values()} == {
        "perturbed instance": 1,
        "the metric has no value": 1,
    }


def test_split_test_is_preferred(tmp_path: Path) -> None:
    run(
        tmp_path / "r", answer("id0", 1.0, "valid"), answer("id1", 0.0), answer("id2", 1.0, "valid")
    )
    study = read(tmp_path)
    assert scores(study) == {"mmlu:subject=law:id1": 0.0}
    dropped = study.report.dropped["split 'valid', not 'test'"]
    assert (dropped.n, dropped.first) == (2, "r/per_instance_stats.json, record 1")


def test_a_lone_other_split_is_taken_and_said(tmp_path: Path) -> None:
    run(tmp_path / "r", answer("id0", 1.0, "valid"))
    study = read(tmp_path)
    assert scores(study) == {"mmlu:subject=law:id0": 1.0}
    assert "r/per_instance_stats.json: split 'valid': there is no 'test'" in study.report.notes


def test_train_trials_are_repeats(tmp_path: Path) -> None:
    run(tmp_path / "r", *(answer("id0", float(t), train_trial_index=t) for t in (0, 1)))
    study = read(tmp_path, options=ReadOptions(on_duplicate="mean"))
    assert study.pairs().select("score", "trials").row(0) == (0.5, 2)

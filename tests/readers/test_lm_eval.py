"""Logs of lm-evaluation-harness, every layout; literals stand in the files themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read
from thetascope.study import Study

DATE = "2025-01-02T03-04-05.678901"


def record(doc_id: Any, doc: Any, *prompts: str, **more: Any) -> dict[str, Any]:
    """A record as 0.4.3 and newer write it; each prompt is one request."""
    arguments = {f"gen_args_{i}": {"arg_0": p, "arg_1": f" {i}"} for i, p in enumerate(prompts)}
    made = {"doc_id": doc_id, "doc": doc, "target": "x", "arguments": arguments}
    return {**made, "resps": [["a"]], "filtered_resps": ["a"], "doc_hash": f"h{doc_id}", **more}


def write(folder: Path, task: str, *records: Any, model: str = "maker__model-1") -> Path:
    path = folder / model / f"samples_{task}_{DATE}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def results(folder: Path, **content: Any) -> None:
    path = folder / "maker__model-1" / f"results_{DATE}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def scores(study: Study) -> dict[str, float]:
    return dict(study.responses.select("item_id", "score").iter_rows())


def texts(study: Study) -> dict[str, str]:
    return dict(study.items.select("source_id", "text").iter_rows())


def test_real_files(shared: Path) -> None:
    study = read(shared / "data/formats/lm_eval_new")
    assert scores(study) == {
        "metabench_gsm8k_secondary:0": 0.0,
        "metabench_gsm8k_secondary:1": 0.0,
        "metabench_truthfulqa_secondary:0": 0.0,
        "metabench_truthfulqa_secondary:1": 1.0,
    }
    assert study.models["model"].to_list() == ["EleutherAI/pythia-14m"]
    assert study.runs["date"].unique().to_list() == ["2024-11-26T10-50-23.349203"]
    first = study.items.filter(item_id="metabench_gsm8k_secondary:0").row(0, named=True)
    assert first["doc_hash"].startswith("860dbaed1d007d0d")
    assert first["text"].startswith("A robe takes 2 bolts")
    assert "glasses" not in first["text"], "the doc's few-shot examples must stay out"
    lines = study.report.lines()
    assert lines[0] == "read     4 records from 2 files (lm-eval)"
    assert "note     score = metric acc (metabench_truthfulqa_secondary)" in lines


def test_facts_come_from_the_results_file(tmp_path: Path) -> None:
    write(tmp_path, "arc", record("7", {"question": "Why?"}, acc=1.0), model="maker__model-1")
    results(
        tmp_path,
        model_name="maker/model-1",
        config={"model_args": "pretrained=maker/model-1,revision=step9,dtype=float16"},
        configs={"arc": {"num_fewshot": 5}},
        date=1735787045.5,
        lm_eval_version="0.4.7",
    )
    study = read(tmp_path)
    run = study.runs.row(0, named=True)
    assert run["model"] == "maker/model-1@step9", "a checkpoint is a model of its own"
    assert (run["harness"], run["harness_version"], run["shots"], run["date"]) == (
        "lm-evaluation-harness",
        "0.4.7",
        5,
        "2025-01-02T03:04:05+00:00",
    )
    assert study.report.ignored == []
    assert len(study.report.sources) == 2


def test_arrays_of_the_first_versions(tmp_path: Path) -> None:
    records = [
        {
            "doc_id": i,
            "doc": {"question": f"Question {i}?", "choices": ["p", "q"]},
            "target": i,
            "arguments": [["Q", " p"], ["Q", " q"]],
            "resps": [[[-1.5, False]], [[-2.5, True]]],
            "filtered_resps": [[-1.5, False], [-2.5, True]],
            "acc": value,
        }
        for i, value in enumerate([1.0, "False", True, "1.0", float("nan")])
    ]
    name = "pretrained__maker__model-1,dtype__float16_arc_easy.jsonl"
    (tmp_path / name).write_text(json.dumps(records, indent=2), encoding="utf-8")
    (tmp_path / "results.json").write_text(
        json.dumps({"results": {"easy": {}, "arc_easy": {}}, "config": {}}), encoding="utf-8"
    )
    study = read(tmp_path)
    assert scores(study) == {
        "arc_easy:0": 1.0,
        "arc_easy:1": 0.0,
        "arc_easy:2": 1.0,
        "arc_easy:3": 1.0,
    }
    assert study.models["model"].to_list() == ["maker/model-1"]
    assert study.items["reference"][0] == "0"
    assert texts(study)["1"] == "Question 1?\nA. p\nB. q"
    dropped = study.report.dropped["no score (null or NaN)"]
    assert (dropped.n, dropped.first) == (1, f"{name}, record 5")


def test_one_of_several_filters(tmp_path: Path) -> None:
    rows = [
        record(i, {"question": f"{i}?"}, filter=name, metrics=["exact_match"], exact_match=value)
        for name, values in (("strict-match", [0, 1]), ("flexible-extract", [1, 1]))
        for i, value in enumerate(values)
    ]
    write(tmp_path, "gsm8k", *rows)
    write(tmp_path, "arc", record(0, {"question": "?"}, filter="none", metrics=["acc"], acc=1))
    study = read(tmp_path, options=ReadOptions(filter="strict-match"))
    assert scores(study) == {"arc:0": 1.0, "gsm8k:0": 0.0, "gsm8k:1": 1.0}
    assert study.report.dropped["gsm8k: filter 'flexible-extract'"].n == 2
    assert "score = metric exact_match, filter strict-match (gsm8k)" in study.report.notes
    with pytest.raises(InputError, match="has the filters strict-match, flexible-extract"):
        read(tmp_path)


def test_filters_without_names_come_in_the_order_of_the_task(tmp_path: Path) -> None:
    rows = [record(i, {"question": f"{i}?"}, exact_match=v) for i, v in [(0, 0), (1, 0)]]
    rows += [record(i, {"question": f"{i}?"}, exact_match=v) for i, v in [(0, 1), (1, 1)]]
    write(tmp_path, "gsm8k", *rows)
    filters = [{"name": "strict-match"}, {"name": "flexible-extract"}]
    results(tmp_path, model_name="m", configs={"gsm8k": {"filter_list": filters}})
    study = read(tmp_path, options=ReadOptions(filter="flexible-extract"))
    assert scores(study) == {"gsm8k:0": 1.0, "gsm8k:1": 1.0}
    with pytest.raises(InputError, match="has the filters strict-match, flexible-extract"):
        read(tmp_path)


def test_filters_without_names_or_results_are_two_responses(tmp_path: Path) -> None:
    rows = [record(0, {"question": "?"}, exact_match=v) for v in (0, 1)]
    write(tmp_path, "gsm8k", *rows)
    with pytest.raises(InputError, match="more than one response"):
        read(tmp_path)


def test_keys_with_a_filter_behind_a_comma(tmp_path: Path) -> None:
    keys = {"exact_match,strict-match": 0.0, "exact_match,flexible-extract": 1.0}
    write(tmp_path, "gsm8k", record(0, {"question": "?"}, **keys))
    chosen = ReadOptions(filter="flexible-extract")
    assert scores(read(tmp_path, options=chosen)) == {"gsm8k:0": 1.0}
    whole = ReadOptions(metric="exact_match,strict-match", filter="strict-match")
    assert scores(read(tmp_path, options=whole)) == {"gsm8k:0": 0.0}


def test_metrics_may_differ_between_tasks(tmp_path: Path) -> None:
    write(tmp_path, "arc", record(0, {"question": "?"}, acc=0.0, acc_norm=1.0))
    write(tmp_path, "gsm8k", record(0, {"question": "?"}, exact_match=1.0, f1=[0, 1]))
    study = read(tmp_path, options=ReadOptions(metric="acc_norm,exact_match"))
    assert scores(study) == {"arc:0": 1.0, "gsm8k:0": 1.0}


def test_a_record_without_the_metric_is_counted(tmp_path: Path) -> None:
    rows = [record(0, {"question": "?"}, acc=1), record(1, {"question": "??"}, other=1)]
    path = write(tmp_path, "arc", *rows)
    report = read(path).report
    assert (report.read, report.kept) == (2, 1)
    assert report.dropped["arc: no acc in the record"].first == f"{path.name}, record 2"


def test_repeats_are_one_trial_and_said(tmp_path: Path) -> None:
    write(tmp_path, "gsm8k", record(0, {"question": "?"}, exact_match=1, resps=[["a", "b", "c"]]))
    study = read(tmp_path)
    assert study.responses["trials"].to_list() == [1]
    assert any(note.startswith("gsm8k: 3 repeats a doc") for note in study.report.notes)


def test_ids_are_text_and_lines_end_at_line_feeds(tmp_path: Path) -> None:
    path = write(tmp_path, "t")
    rows = [
        record(i, {"question": q}, acc=1)
        for i, q in [("007", "one\u2028line\u0085"), ("7", "two"), ("NA", "half \ud83d emoji")]
    ]
    lines = "".join(json.dumps(r, ensure_ascii=r["doc_id"] == "NA") + "\n" for r in rows)
    path.write_bytes(b"\xef\xbb\xbf" + lines.encode())
    study = read(tmp_path)
    assert study.items["source_id"].to_list() == ["007", "7", "NA"]
    assert texts(study)["NA"] == "half \ufffd emoji"


def test_prompts_lose_what_they_share(tmp_path: Path) -> None:
    shots = "Example: up?\nAnswer: no\n\n"
    rows = [record(i, {"x": i}, f"{shots}Why {w}?\nAnswer:", acc=1) for i, w in enumerate("abc")]
    write(tmp_path, "t", *rows)
    study = read(tmp_path)
    assert texts(study) == {"0": "Why a?\nAnswer:", "1": "Why b?\nAnswer:", "2": "Why c?\nAnswer:"}
    assert study.report.text_rule == "the prompt without the first 25 characters, common to all (t)"


def test_a_single_prompt_is_kept_whole_and_chats_give_their_last_question(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Example"}, {"role": "assistant", "content": "Yes"}]
    chat = json.dumps([*said, {"role": "user", "content": "Why is it so?"}])
    write(tmp_path, "t", record(0, {"x": 0}, chat, acc=1))
    assert texts(read(tmp_path)) == {"0": "Why is it so?"}


def test_the_user_may_name_the_field_of_the_text(tmp_path: Path) -> None:
    write(tmp_path, "t", record(0, {"question": "?", "more": {"stem": "Why?"}}, acc=1))
    study = read(tmp_path, options=ReadOptions(text_field="more.stem"))
    assert texts(study) == {"0": "Why?"}
    assert study.report.text_rule == "the field 'more.stem' (t)"


def test_shared_texts_are_warned_of(tmp_path: Path) -> None:
    rows = [
        record(i, {"question": "Always the same words. " * 4 + w}, acc=1)
        for i, w in enumerate("abc")
    ]
    write(tmp_path, "t", *rows)
    assert any(n.startswith("the texts of t share") for n in read(tmp_path).report.notes)


def test_models_share_items_and_another_text_is_no_silent_merge(tmp_path: Path) -> None:
    for model, question in (("a", "Why  so?"), ("b", "Why so?"), ("c", "How so?")):
        write(tmp_path, "t", record(0, {"question": question}, acc=1), model=model)
    with pytest.raises(InputError, match="item 't:0' has another text here"):
        read(tmp_path)
    study = read(tmp_path, options=ReadOptions(text_conflict="separate"))
    assert study.items.height == 2
    assert study.n_models == 3


def test_model_and_benchmark_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(record(0, {"question": "?"}, acc=1)) + "\n", encoding="utf-8")
    study = read(path, options=ReadOptions(model="mine", benchmark="quiz"))
    assert scores(study) == {"quiz:0": 1.0}
    assert study.models["model"].to_list() == ["mine"]

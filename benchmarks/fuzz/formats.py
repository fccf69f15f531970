"""Small files of every JSON format, to be damaged by tests and by the fuzzer."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thetascope.readers import ReadOptions

LOG = [
    {
        "doc_id": i,
        "doc": {"question": f"Why {i}?", "choices": {"text": ["a", "b"]}, "subject": "s"},
        "target": "x",
        "arguments": {"gen_args_0": {"arg_0": "Q", "arg_1": " a"}},
        "resps": [[["-1.5", "False"]]],
        "filtered_resps": [["-1.5", "False"]],
        "doc_hash": "h",
        "filter": "none",
        "metrics": ["acc"],
        "acc": 1.0,
    }
    for i in range(3)
]
RESULTS = {
    "model_name": "m",
    "config": {"model_args": "pretrained=m"},
    "configs": {"t": {"num_fewshot": 0, "filter_list": [{"name": "none"}]}},
    "higher_is_better": {"t": {"acc": True}},
    "date": 1.5e9,
}
HEADER = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "t",
        "model": "m",
        "created": "2025",
        "config": {"epochs_reducer": ["mean"]},
        "packages": {"inspect_ai": "1"},
    },
}
SAMPLES = [
    {
        "id": i,
        "epoch": e,
        "input": [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}],
        "choices": ["a", "b"],
        "target": ["x"],
        "scores": {"m": {"value": "C"}},
        "metadata": {"subject": "s"},
        "attachments": {},
        "model_usage": {"m": {"input_tokens": 1, "output_tokens": 2}},
    }
    for i in range(2)
    for e in (1, 2)
]
SPEC = {
    "name": "t:model=m",
    "scenario_spec": {"args": {"subject": "s"}},
    "adapter_spec": {"model": "m", "method": "multiple_choice_joint", "max_train_instances": 5},
}
STATS = [
    {
        "instance_id": f"id{i}",
        "train_trial_index": 0,
        "stats": [
            {"name": {"name": n, "split": "test"}, "count": 1, "mean": 1.0}
            for n in ("num_prompt_tokens", "exact_match")
        ],
    }
    for i in range(2)
]
INSTANCES = [
    {
        "id": f"id{i}",
        "input": {"text": "Why?"},
        "references": [{"output": {"text": "a"}, "tags": ["correct"]}],
    }
    for i in range(2)
]


def put(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_lm_eval(folder: Path, parts: list[Any]) -> None:
    log, results = parts
    records = log if isinstance(log, list) else [log]
    lines = "".join(json.dumps(r) + "\n" for r in records)
    (folder / "samples_t_2025-01-02T03-04-05.jsonl").write_text(lines, encoding="utf-8")
    put(folder / "results_2025-01-02T03-04-05.json", results)


def write_inspect(folder: Path, parts: list[Any]) -> None:
    header, samples = parts
    put(folder / "a.json", {**header, "samples": samples} if isinstance(header, dict) else header)
    with zipfile.ZipFile(folder / "a.eval", "w") as file:
        file.writestr("header.json", json.dumps(header))
        for n, sample in enumerate(samples if isinstance(samples, list) else [samples]):
            file.writestr(f"samples/{n}_epoch_1.json", json.dumps(sample))


def write_helm(folder: Path, parts: list[Any]) -> None:
    for name, part in zip(("run_spec", "per_instance_stats", "instances"), parts, strict=True):
        put(folder / f"{name}.json", part)


def json_file(name: str) -> Callable[[Path, list[Any]], None]:
    """A writer of one JSON file that holds the parts themselves."""
    return lambda folder, parts: put(folder / name, parts)


ANNOTATIONS = [
    {
        "instruction": f"Why {i}?",
        "generator_1": "b",
        "generator_2": "m",
        "dataset": "d",
        "annotator": "j",
        "preference": 1.5,
    }
    for i in range(2)
]

QUESTIONS = [{"question": f"Why {i}?", "scores": {"m": 1.0, "n": 0}} for i in range(2)]


def lines_file(name: str) -> Callable[[Path, list[Any]], None]:
    """A writer of one file of JSON lines."""

    def write(folder: Path, parts: list[Any]) -> None:
        text = "".join(json.dumps(part) + "\n" for part in parts)
        (folder / name).write_text(text, encoding="utf-8")

    return write


EVENTS = [
    {"spec": {"completion_fns": ["m"], "eval_name": "e", "created_at": "2025"}},
    {"sample_id": "q.0", "type": "sampling", "data": {"prompt": "Why?"}},
    {"sample_id": "q.0", "type": "match", "data": {"correct": True, "expected": ["x"]}},
    {
        "sample_id": "q.1",
        "type": "sampling",
        "data": {"prompt": [{"role": "user", "content": "?"}]},
    },
    {"sample_id": "q.1", "type": "match", "data": {"correct": False}},
    {"final_report": {"accuracy": 0.5}},
]

WRITTEN_OUT = [
    {
        "doc_id": i,
        "prompt_0": f"Shot.\nWhy {i}?\nyes",
        "logit_0": "-1",
        "prompt_1": f"Shot.\nWhy {i}?\nno",
        "logit_1": "-2",
        "truth": "x",
        "acc": "1.0",
    }
    for i in range(2)
]

PERFORMANCES = [
    [
        {"question_id": i, "model": "m", "pass@1": 50.0, "difficulty": "easy", "platform": "p"}
        for i in range(2)
    ],
    [{"model_name": "m"}],
]


def write_performances(folder: Path, parts: list[Any]) -> None:
    put(folder / "performances_x.json", {"performances": parts[0], "models": parts[1]})


JUDGEMENTS = [
    {
        "question_id": i,
        "model": "m",
        "judge": ["j", "single"],
        "user_prompt": "[Question]\nWhy?\n\n[The Start of Assistant's Answer]\nSo.",
        "turn": 1,
        "score": 5,
    }
    for i in range(2)
]

FAILURES = [
    {"accuracy": 0.5, "correct_count": 1, "total_count": 2},
    {
        "id": "simple_1",
        "model_name": "m",
        "valid": False,
        "prompt": {"question": [[{"role": "user", "content": "Why?"}]]},
    },
]

OUTPUTS = [
    {
        "question_id": i,
        "question": "Why?",
        "options": ["a", "b"],
        "answer": "A",
        "category": "law",
        "pred": "A",
    }
    for i in range(2)
]
CHATS = [
    {
        "session_id": f"s{i}",
        "chat_history": ["Why?"],
        "output": ["So."],
        "generator": "m",
        "dataset": "d",
        "id": f"d-{i}",
        "question": "Why?",
        "choices": ["a", "b"],
        "answer": "a",
        "correct": True,
    }
    for i in range(2)
]

DETAILS = [
    {
        "accuracy": 50.0,
        "details": {
            "type": "GEN",
            "0": {"prompt": "Why?", "predictions": "A", "references": "A", "correct": True},
            "1": {"prompt": [{"role": "HUMAN", "prompt": "?"}], "correct": False},
        },
    }
]

EEE = [
    {
        "evaluation_id": "e",
        "model_id": "m",
        "evaluation_name": "b",
        "sample_id": str(i),
        "input": {"raw": "Why?", "reference": ["x"], "choices": ["x", "y"]},
        "evaluation": {"score": 1.0, "is_correct": True},
        "token_usage": {"input_tokens": 1, "output_tokens": 2},
    }
    for i in range(2)
]
TASKS = [
    {
        "date": "2025",
        "config": {"n_samples": 10},
        "eval": {
            "HumanEval/0": [{"base_status": "pass", "plus_status": "fail"}],
            "HumanEval/1": {"pass@1": 50.0, "base": 50.0},
        },
    }
]

REPORTS = [
    {
        "instance_id": f"a__a-{i}",
        "model_name_or_path": "m",
        "test_result": {"report": {"resolved": True, "error_eval": False}},
        "instance": {"problem_statement": "It fails."},
    }
    for i in range(2)
]

RESOLVED = {"completed_ids": ["a__a-1", "a__a-2"], "resolved_ids": ["a__a-1"], "error_ids": ["x"]}


def parts_beside(folder: Path, parts: list[Any]) -> None:
    """Every part a file of its own: 0.json, 1.json, ..."""
    for number, part in enumerate(parts):
        put(folder / f"{number}.json", part)


@dataclass(frozen=True)
class Kind:
    """A format's files.

    Attributes:
        parts: What is broken, value by value.
        write: Writes the parts into a folder.
        sources: The files to read.
        number_at: Where the number of a record stands in the path of a value; the first record
            stands for all. None where the records differ.
        options: What the format needs to be read at all.
    """

    parts: list[Any]
    write: Callable[[Path, list[Any]], None]
    sources: list[str]
    number_at: int | None = 0
    options: ReadOptions | None = None


FORMATS = {
    "lm-eval": Kind([LOG, RESULTS], write_lm_eval, ["samples_t_2025-01-02T03-04-05.jsonl"], 1),
    "inspect": Kind([HEADER, SAMPLES], write_inspect, ["a.json", "a.eval"], 1),
    "helm": Kind([SPEC, STATS, INSTANCES], write_helm, ["."], 1),
    "alpaca-eval": Kind(ANNOTATIONS, json_file("a.json"), ["a.json"]),
    "openai-evals": Kind(EVENTS, lines_file("a.jsonl"), ["a.jsonl"], None),
    "swe-bench": Kind(REPORTS, lines_file("a.jsonl"), ["a.jsonl"]),
    "swe-bench reports": Kind(
        [RESOLVED, {"a__a-1": True, "a__a-2": {"resolved": False}}],
        parts_beside,
        ["0.json", "1.json"],
        None,
        ReadOptions(model="m"),
    ),
    "lm-eval-old": Kind(
        WRITTEN_OUT, json_file("a.json"), ["a.json"], options=ReadOptions(model="m", benchmark="t")
    ),
    "livecodebench": Kind(PERFORMANCES, write_performances, ["performances_x.json"], 1),
    "mt-bench": Kind(JUDGEMENTS, lines_file("a.jsonl"), ["a.jsonl"]),
    "bfcl": Kind(FAILURES, lines_file("a.json"), ["a.json"], None),
    "mmlu-pro": Kind(
        OUTPUTS, json_file("a.json"), ["a.json"], options=ReadOptions(model="m", metric="pred")
    ),
    "zeroeval": Kind(CHATS, json_file("a.json"), ["a.json"], options=ReadOptions(metric="correct")),
    "opencompass": Kind(DETAILS, parts_beside, ["0.json"], None, options=ReadOptions(model="m")),
    "every-eval-ever": Kind(EEE, lines_file("a.jsonl"), ["a.jsonl"]),
    "evalplus": Kind(
        TASKS, parts_beside, ["0.json"], None, options=ReadOptions(model="m", metric="base")
    ),
    "llmrouter": Kind(QUESTIONS, json_file("a.json"), ["a.json"]),
}

"""Writes logs of any size in the formats that are streamed, each record as its tool writes it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_SHOTS = "Question: what is one and one, and how do you know? Answer: two, by counting. " * 32


class Writer(NamedTuple):
    """How a format's log is made (folder, bytes -> records), and how it is imported."""

    write: Callable[[Path, int], int]
    options: tuple[str, ...] = ()


def _question(i: int) -> str:
    return f"What is {i} times {i % 97}, and why would somebody want to know it?"


def _said(i: int) -> str:
    return f"It is {i * (i % 97)}. " + "Because of that and for no other reason. " * 8


def _lines(
    path: Path, size: int, record: Callable[[int], Any], start: str = "", between: str = "\n",
    end: str = "\n",
) -> int:  # fmt: skip
    """Writes records until the file has the size; returns their number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        written, n = out.write(start), 0
        while written < size:
            made = record(n)
            text = made if isinstance(made, str) else json.dumps(made)
            written += out.write((between if n else "") + text)
            n += 1
        out.write(end)
    return n


def _exactly(path: Path, n: int, record: Callable[[int], Any]) -> None:
    """Writes one array of n records."""
    with path.open("w", encoding="utf-8") as out:
        for i in range(n):
            out.write(("," if i else "[") + json.dumps(record(i)) + "\n")
        out.write("]")


def _lm_eval_record(i: int) -> dict[str, Any]:
    return {
        "doc_id": i,
        "doc": {"question": _question(i), "answer": str(i * (i % 97))},
        "target": str(i * (i % 97)),
        "arguments": {"gen_args_0": {"arg_0": _SHOTS + _question(i), "arg_1": {"until": ["\n"]}}},
        "resps": [[_said(i)]],
        "filtered_resps": [str(i * (i % 97))],
        "doc_hash": f"{i:064x}",
        "prompt_hash": f"{i + 1:064x}",
        "target_hash": f"{i + 2:064x}",
        "exact_match": float(i % 3 == 0),
    }


def _lm_eval(folder: Path, size: int) -> int:
    file = folder / "maker__model" / "samples_made_2025-01-01T00-00-00.000000.jsonl"
    return _lines(file, size, _lm_eval_record)


def _lm_eval_prompts(folder: Path, size: int) -> int:
    """Docs without a known field: the text is the prompt without what all begin with."""
    file = folder / "maker__model" / "samples_made_2025-01-01T00-00-00.000000.jsonl"
    shots = _SHOTS.replace("? ", "?\n")
    return _lines(
        file, size, lambda i: {**_lm_eval_record(i), "doc": {"x": i},
                               "arguments": [[shots + "\n" + _question(i), {"until": ["\n"]}]]},
    )  # fmt: skip


def _lm_eval_array(folder: Path, size: int) -> int:
    file = folder / "pretrained__maker__model_made.jsonl"
    (folder / "results.json").write_text(
        json.dumps({"results": {"made": {}}, "config": {"model_args": "pretrained=maker/model"}})
    )
    return _lines(file, size, _lm_eval_record, "[", ",\n", "]\n")


def _lm_eval_write_out(folder: Path, size: int) -> int:
    shots = _SHOTS.replace("? ", "?\n")
    return _lines(
        folder / "made_write_out_info.json", size,
        lambda i: {"doc_id": i, "prompt_0": shots + "\n" + _question(i),
                   "logit_0": _said(i), "truth": str(i), "acc": str(float(i % 3 == 0))},
        "[", ",\n", "]\n",
    )  # fmt: skip


def _inspect_sample(i: int) -> dict[str, Any]:
    system, user = {"role": "system", "content": _SHOTS}, {"role": "user", "content": _question(i)}
    return {
        "id": i,
        "epoch": 1,
        "input": [system, user],
        "target": str(i * (i % 97)),
        "messages": [user, {"role": "assistant", "content": _said(i)}],
        "output": {"model": "maker/model", "choices": [{"message": {"content": _said(i)}}]},
        "scores": {"match": {"value": "C" if i % 3 else "I", "answer": str(i)}},
        "metadata": {},
        "model_usage": {"maker/model": {"input_tokens": 700, "output_tokens": 90}},
    }


def inspect_header(n: int) -> dict[str, Any]:
    """The header of a finished log of one model, one scorer and one epoch."""
    moment = "2025-01-01T00:00:00+00:00"
    metric = {"accuracy": {"name": "accuracy", "value": 0.6, "params": {}}}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": "e", "run_id": "r", "created": moment, "task": "made", "task_id": "t",
            "task_version": 0, "dataset": {"name": "made", "samples": n}, "model": "maker/model",
            "config": {"epochs": 1, "epochs_reducer": ["mean"]}, "packages": {},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": n, "completed_samples": n,
            "scores": [{"name": "match", "scorer": "match", "params": {}, "metrics": metric}],
        },
        "stats": {"started_at": moment, "completed_at": moment, "model_usage": {}},
    }  # fmt: skip


def write_inspect_eval(path: Path, samples: Iterator[tuple[str, str]]) -> int:
    """Writes an `.eval` archive of (member, JSON); returns the number of samples."""
    n = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in samples:
            archive.writestr(name, data)
            n += 1
        archive.writestr("header.json", json.dumps(inspect_header(n)))
    return n


def inspect_samples(size: int) -> Iterator[tuple[str, str]]:
    """Members of an archive that unpack to about `size` bytes."""
    i = 0
    while size > 0:
        data = json.dumps(_inspect_sample(i))
        yield f"samples/{i}_epoch_1.json", data
        size -= len(data)
        i += 1


def _inspect_eval(folder: Path, size: int) -> int:
    """The archive unpacks to `size`: what is packed well is as much work to read."""
    return write_inspect_eval(folder / "2025-01-01T00-00-00_made_x.eval", inspect_samples(size))


def _inspect_json(folder: Path, size: int) -> int:
    header = json.dumps(inspect_header(0))
    return _lines(
        folder / "2025-01-01T00-00-00_made_x.json", size, _inspect_sample,
        header[:-1] + ', "samples": [', ",\n", "]}\n",
    )  # fmt: skip


def _stat(name: str, mean: float) -> dict[str, Any]:
    return {
        "name": {"name": name, "split": "test"}, "count": 1, "sum": mean, "sum_squared": mean**2,
        "min": mean, "max": mean, "mean": mean, "variance": 0.0, "stddev": 0.0,
    }  # fmt: skip


_HELM_STATS = (
    "num_references", "num_train_trials", "num_prompt_tokens", "num_completion_tokens",
    "num_output_tokens", "inference_runtime", "batch_size", "finish_reason_length",
    "finish_reason_stop", "finish_reason_endoftext", "finish_reason_unknown",
    "num_train_instances", "prompt_truncated", "logprob", "num_perplexity_tokens", "num_bytes",
)  # fmt: skip


def _helm_folder(folder: Path) -> Path:
    run = folder / "made:subject=sums,model=maker_model"
    run.mkdir(parents=True)
    (run / "run_spec.json").write_text(
        json.dumps({
            "name": "made:subject=sums,model=maker_model",
            "scenario_spec": {"class_name": "made", "args": {"subject": "sums"}},
            "adapter_spec": {"model": "maker/model", "method": "generation",
                             "max_train_instances": 5},
        })
    )  # fmt: skip
    return run


def _helm_record(i: int) -> dict[str, Any]:
    stats = [_stat("exact_match", float(i % 3 == 0)), *(_stat(s, 1.0) for s in _HELM_STATS)]
    return {"instance_id": f"id{i}", "train_trial_index": 0, "stats": stats}


def _helm_instance(i: int) -> dict[str, Any]:
    answer = {"output": {"text": _said(i)}, "tags": ["correct"]}
    return {
        "input": {"text": _question(i)},
        "references": [answer],
        "split": "test",
        "id": f"id{i}",
    }


def _helm(folder: Path, size: int) -> int:
    run = _helm_folder(folder)
    n = _lines(run / "per_instance_stats.json", size, _helm_record, "[", ",\n", "]")
    _exactly(run / "instances.json", n, _helm_instance)
    return n


def _helm_state(folder: Path, size: int) -> int:
    """Texts from the state of the scenario, which holds every request with its examples."""
    run = _helm_folder(folder)

    def state(i: int) -> dict[str, Any]:
        return {
            "instance": _helm_instance(i),
            "train_trial_index": 0,
            "request": {"model": "maker/model", "prompt": _SHOTS + _question(i)},
            "result": {"success": True, "completions": [{"text": _said(i), "logprob": 0}]},
        }

    n = _lines(
        run / "scenario_state.json", size // 2, state,
        '{"adapter_spec": {}, "request_states": [', ",\n", "]}",
    )  # fmt: skip
    _exactly(run / "per_instance_stats.json", n, _helm_record)
    return n


def _oai_spec() -> str:
    spec = {"completion_fns": ["maker/model"], "eval_name": "made.dev.v0", "run_id": "r"}
    return json.dumps({"spec": spec}) + "\n"


def _oai_event(i: int, sample: int, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "run_id": "r", "event_id": i, "sample_id": f"made.dev.{sample}", "type": kind,
        "data": data, "created_by": "", "created_at": "2025-01-01 00:00:00.000000+00:00",
    }  # fmt: skip


def _openai_evals(prompt: Callable[[int], Any]) -> Callable[[Path, int], int]:
    def event(i: int) -> dict[str, Any]:
        sample, kind = divmod(i, 2)
        if kind == 0:
            return _oai_event(i, sample, "sampling",
                              {"prompt": prompt(sample), "sampled": [_said(sample)]})  # fmt: skip
        data = {"correct": sample % 3 == 0, "expected": str(sample), "picked": None}
        return _oai_event(i, sample, "match", data)

    def write(folder: Path, size: int) -> int:
        return _lines(folder / "250101_m_made.jsonl", size, event, _oai_spec()) // 2

    return write


def _oai_chat(i: int) -> list[dict[str, str]]:
    system = {"role": "system", "content": _SHOTS}
    return [system, {"role": "user", "content": _question(i)}]


def _oai_plain(i: int) -> str:
    return _SHOTS + "\n" + _question(i)


def _every_eval_ever(folder: Path, size: int) -> int:
    return _lines(
        folder / "0a_samples.jsonl", size,
        lambda i: {"schema_version": "0.3.0", "evaluation_id": "e", "model_id": "maker/model",
                   "evaluation_name": "made", "sample_id": str(i), "interaction_type": "single",
                   "input": {"raw": _question(i), "formatted": _SHOTS + _question(i),
                             "reference": [str(i)]},
                   "output": {"raw": [_said(i)]}, "answer_attribution": [],
                   "evaluation": {"score": float(i % 3 == 0), "is_correct": i % 3 == 0}},
    )  # fmt: skip


def _opencompass(folder: Path, size: int) -> int:
    def entry(i: int) -> str:
        asked = [{"role": "HUMAN", "prompt": _SHOTS}, {"role": "HUMAN", "prompt": _question(i)}]
        return f'"{i}": ' + json.dumps(
            {"prompt": asked, "origin_prediction": _said(i), "predictions": str(i),
             "references": str(i), "correct": i % 3 == 0}
        )  # fmt: skip

    start = '{"accuracy": 33.3, "details": {"type": "GEN", '
    return _lines(folder / "results" / "m" / "made.json", size, entry, start, ",\n", "}}")


def _alpaca_eval(folder: Path, size: int) -> int:
    return _lines(
        folder / "annotations.json", size,
        lambda i: {"instruction": _question(i), "output_1": _SHOTS[:1400], "generator_1": "base",
                   "dataset": "made", "output_2": _said(i) + _SHOTS[:1000],
                   "generator_2": "model", "annotator": "judge", "preference": 1.0 + i % 2},
        "[", ",\n", "]",
    )  # fmt: skip


def _llmrouter(folder: Path, size: int) -> int:
    scores = {f"maker/model-{m}": float(m % 2) for m in range(10)}
    return _lines(
        folder / "routes.json", size,
        lambda i: {"question": _question(i), "scores": scores, "context": _SHOTS},
        "[", ",\n", "]",
    )  # fmt: skip


_N_TABLE_ITEMS = 15_000


def _table_row(i: int) -> tuple[str, str, str, str, int]:
    item, model = i % _N_TABLE_ITEMS, i // _N_TABLE_ITEMS
    text = f"{_SHOTS} {_question(item)}"
    return f"made:{item}", f"maker/model-{model}", text, _said(i), int(i % 3 == 0)


def _csv(columns: str, row: Callable[[int], str]) -> Callable[[Path, int], int]:
    def write(folder: Path, size: int) -> int:
        return _lines(folder / "rows.csv", size, row, columns + "\n")

    return write


def _csv_row(i: int) -> str:
    item, model, text, said, score = _table_row(i)
    return f'{item},{model},"{text}","{said}",{score}'


def _embedllm_row(i: int) -> str:
    item, model, text, _, score = _table_row(i)
    number, place = item.partition(":")[2], model.rpartition("-")[2]
    return f'{number},{place},0,{score},{model},"{text}",made'


def _jsonl_table(folder: Path, size: int) -> int:
    names = ("item_id", "model", "text", "answer", "score")
    return _lines(
        folder / "rows.jsonl", size, lambda i: dict(zip(names, _table_row(i), strict=True))
    )


WRITERS = {
    "lm-eval": Writer(_lm_eval),
    "lm-eval, text from prompts": Writer(_lm_eval_prompts),
    "lm-eval, one array (0.4.0)": Writer(_lm_eval_array),
    "lm-eval, write-out (0.3)": Writer(_lm_eval_write_out, ("--model", "maker/model")),
    "inspect, .eval": Writer(_inspect_eval),
    "inspect, .json": Writer(_inspect_json),
    "helm": Writer(_helm),
    "helm, text from scenario_state": Writer(_helm_state),
    "openai-evals, chats": Writer(_openai_evals(_oai_chat)),
    "openai-evals, plain prompts": Writer(_openai_evals(_oai_plain)),
    "every-eval-ever": Writer(_every_eval_ever),
    "opencompass": Writer(_opencompass),
    "alpaca-eval": Writer(_alpaca_eval),
    "llmrouter": Writer(_llmrouter),
    "embedllm": Writer(
        _csv("prompt_id,model_id,category_id,label,model_name,prompt,category", _embedllm_row)
    ),
    "table, CSV": Writer(_csv("item_id,model,text,answer,score", _csv_row)),
    "table, JSON lines": Writer(_jsonl_table),
}
"""By format: a log of one run (tables: of as many models as are needed)."""

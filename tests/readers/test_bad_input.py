"""Every kind of bad input ends in one line that names file, record, field and the way out."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from thetascope.errors import InputError
from thetascope.readers import ReadOptions, read, readers


@dataclass
class Case:
    name: str
    message: str
    files: dict[str, bytes | str]
    source: str = ""
    format: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, folder: Path) -> str:
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        source = self.source or next(iter(self.files))
        with pytest.raises(InputError) as caught:
            read(source, format=self.format, options=ReadOptions(**self.options))
        return str(caught.value)


def parquet(**columns: list[Any]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer)
    return buffer.getvalue()


def lines(*records: Any) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


def doc(doc_id: Any = 0, question: str = "Why?", **more: Any) -> dict[str, Any]:
    return {"doc_id": doc_id, "doc": {"question": question}, "target": "x", **more}


def archive(header: Any = None, **samples: Any) -> bytes:
    """An Inspect log; samples are given as id_epoch."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        if header is not False:
            file.writestr("header.json", json.dumps(header or HEADER))
        for name, sample in samples.items():
            text = sample if isinstance(sample, str) else json.dumps(sample)
            file.writestr(f"samples/{name}.json", text)
    return buffer.getvalue()


def sample(**more: Any) -> dict[str, Any]:
    made = {"id": 1, "epoch": 1, "input": "Why?", "target": "x", "scores": {"m": {"value": "C"}}}
    return {**made, **more}


def encrypted(data: bytes) -> bytes:
    """Sets the flag 'encrypted' on the first entry of the zip's directory."""
    at = data.index(b"PK\x01\x02") + 8
    return data[:at] + struct.pack("<H", 1) + data[at + 2 :]


def huge(data: bytes) -> bytes:
    """Says in the zip's directory that its second entry unpacks to 1 GiB."""
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4) + 24
    return data[:at] + struct.pack("<I", 1 << 30) + data[at + 4 :]


def stat(name: str, mean: float, split: str = "test", **more: Any) -> dict[str, Any]:
    return {"name": {"name": name, "split": split, **more}, "count": 1, "mean": mean}


def helm(stats: Any, spec: Any = None, **files: str) -> dict[str, bytes | str]:
    made = spec or {"name": "toy:model=m", "adapter_spec": {"model": "m"}}
    text = stats if isinstance(stats, str) else json.dumps(stats)
    return {"run/run_spec.json": json.dumps(made), "run/per_instance_stats.json": text, **files}


KNOWN = ", ".join(readers())
HEADER = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}}
SAMPLES = "m/samples_t_2025-01-02T03-04-05.jsonl"
RESULTS = "m/results_2025-01-02T03-04-05.json"
EMBED = "prompt_id,model_id,category_id,label,model_name,prompt,category\n"

CASES = [
    Case("nothing there", "b.csv: does not exist", {"a.csv": ""}, source="b.csv"),
    Case(
        "unknown file",
        (f"a.txt: is of no known format (name it with --format; known are {KNOWN})"),
        {"a.txt": "hello"},
    ),
    Case(
        "empty folder",
        (f"a: no file of a known format here (name it with --format; known are {KNOWN})"),
        {"a/b/c.txt": "x"},
        source="a",
    ),
    Case(
        "unknown format",
        f"unknown format 'excel'; known are {KNOWN}",
        {"a.csv": "x"},
        format="excel",
    ),
    Case(
        "pickle",
        (
            "a.pkl: is a pickle, which can run any program when it is opened: it is not "
            "read (save its table as CSV or Parquet where you trust it)"
        ),
        {"a.pkl": b"\x80\x04N."},
        format="tables",
    ),
    # plain tables
    Case("table empty", "a.csv: is empty", {"a.csv": ""}, format="tables"),
    Case("table without rows", "a.csv: has no rows", {"a.csv": "item_id,model,score\n"}),
    Case(
        "table not UTF-8",
        "a.csv: cannot be read as a table: invalid utf-8 sequence",
        {"a.csv": b"item_id,model,score\n\xff,m,1\n"},
    ),
    Case(
        "column missing",
        (
            "a.csv, field 'item_id': the column is missing; found qid, model, score "
            "(map it, e.g. --columns.item_id qid; a wide table needs --wide)"
        ),
        {"a.csv": "qid,model,score\n1,m,1\n"},
        format="tables",
    ),
    Case(
        "columns unknown",
        (
            "unknown column 'item'; ours are item_id, model, score, benchmark, run_id, "
            "subject, text, reference, chance, n_tokens, text_hash, trials, "
            "n_tokens_in, n_tokens_out, cost_usd"
        ),
        {"a.csv": "qid,model,score\n1,m,1\n"},
        format="tables",
        options={"columns": {"item": "qid"}},
    ),
    Case(
        "id empty",
        "a.csv, record 2, field 'item_id': is empty",
        {"a.csv": "item_id,model,score\nb:1,m,1\n,m,1\n"},
    ),
    Case(
        "id decimal",
        (
            "a.parquet, field 'item_id': ids must be text or whole numbers, found "
            "decimals (write the column as text)"
        ),
        {"a.parquet": parquet(item_id=[1.0, float("nan")], model=["m", "m"], score=[1, 0])},
    ),
    Case(
        "benchmark unknown",
        (
            "a.csv, field 'item_id': cannot tell the benchmark of item '7' (add a "
            "benchmark column, ids like 'benchmark:id', or --benchmark NAME)"
        ),
        {"a.csv": "item_id,model,score\n7,m,1\n"},
    ),
    Case(
        "score a word",
        ("a.csv, record 2, field 'score': expected a number from 0 to 1, found 'good'"),
        {"a.csv": "item_id,model,score\nb:1,m,1\nb:2,m,good\n"},
    ),
    Case(
        "score too high",
        (
            "a.csv, record 1, field 'score': must be between 0 and 1, found 85 (say "
            "what stands for 1 with --scale)"
        ),
        {"a.csv": "item_id,model,score\nb:1,m,85\n"},
    ),
    Case(
        "score negative",
        (
            "a.csv, record 1, field 'score': must be between 0 and 1, found -0.5 (say "
            "what stands for 1 with --scale)"
        ),
        {"a.csv": "item_id,model,score\nb:1,m,-0.5\n"},
    ),
    Case(
        "score infinite",
        "a.csv, record 1, field 'score': must be between 0 and 1, found inf",
        {"a.csv": "item_id,model,score\nb:1,m,inf\n"},
    ),
    Case(
        "only missing scores",
        (
            "no responses were found; read 2 records from 1 file (tables); kept 0 "
            "responses; dropped 2: no score (null or NaN) (first: a.csv, record 1)"
        ),
        {"a.csv": "item_id,model,score\nb:1,m,NaN\nb:2,m,\n"},
    ),
    Case(
        "trials none",
        "a.csv, record 1, field 'trials': must be at least 1, found 0",
        {"a.csv": "item_id,model,score,trials\nb:1,m,1,0\n"},
    ),
    Case(
        "trials a word",
        "a.csv, record 1, field 'trials': expected a whole number, found 'few'",
        {"a.csv": "item_id,model,score,trials\nb:1,m,1,few\n"},
    ),
    Case(
        "pair twice",
        (
            "1 (item, model) pairs have more than one response, first 'b:1' x 'm' in "
            "runs m@9aa856fe, m@9aa856fe#2; choose what counts with --on-duplicate "
            "first|last|mean|keep"
        ),
        {"a.csv": "item_id,model,score\nb:1,m,1\nb:1,m,0\n"},
    ),
    Case(
        "two texts",
        "a.csv, record 2, field 'text': item 'b:1' has two values of it",
        {"a.csv": "item_id,model,score,text\nb:1,m,1,Why?\nb:1,n,0,How?\n"},
    ),
    Case(
        "item not in items",
        ("f/responses.csv, record 2, field 'item_id': 'b:2' is not in the items table"),
        {
            "f/responses.csv": "item_id,model,score\nb:1,m,1\nb:2,m,1\n",
            "f/items.csv": "item_id,text\nb:1,Why?\n",
        },
        source="f",
    ),
    Case(
        "two tables of responses",
        "f: holds both responses.csv and responses.jsonl (keep one)",
        {"f/responses.csv": "item_id,model,score\n", "f/responses.jsonl": ""},
        source="f",
    ),
    Case(
        "wide id twice",
        "a.csv, record 2, field 'id': the id 'b:1' occurs twice",
        {"a.csv": "id,m,n\nb:1,1,0\nb:1,0,1\n"},
        format="tables",
        options={"wide": "items-in-rows"},
    ),
    Case(
        "wide score",
        (
            "a.csv, record 2, field 'score': must be between 0 and 1, found 2 (say what "
            "stands for 1 with --scale)"
        ),
        {"a.csv": "id,m,n\nb:1,1,0\nb:2,2,1\n"},
        format="tables",
        options={"wide": "items-in-rows"},
    ),
    Case(
        "jsonl nested",
        ("a.jsonl, record 1, field 'score': expected a plain value, found a list or an object"),
        {"a.jsonl": '{"item_id": "b:1", "model": "m", "score": [1]}\n'},
    ),
    Case(
        "jsonl broken",
        "a.jsonl, record 2: is not JSON: Expecting value at column 13",
        {"a.jsonl": '{"item_id": "b:1", "model": "m", "score": 1}\n{"item_id": \n'},
    ),
    # lm-evaluation-harness
    Case(
        "no task",
        (
            "x.jsonl: cannot tell the task from the file's name (name it with "
            "--benchmark, and the model with --model)"
        ),
        {"x.jsonl": lines(doc(acc=1))},
    ),
    Case(
        "no records",
        "m/samples_t_2025-01-02T03-04-05.jsonl: has no records",
        {SAMPLES: "\n"},
        format="lm-eval",
    ),
    Case(
        "line cut off",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 2: is not JSON: Unterminated "
            "string starting at column 23"
        ),
        {SAMPLES: lines(doc(acc=1)) + '{"doc_id": 1, "doc": {"qu'},
    ),
    Case(
        "line not an object",
        ("m/samples_t_2025-01-02T03-04-05.jsonl, record 2: expected an object, found a list"),
        {SAMPLES: lines(doc(acc=1), [1])},
    ),
    Case(
        "line not UTF-8",
        "m/samples_t_2025-01-02T03-04-05.jsonl, record 2: is not UTF-8 (byte 12)",
        {SAMPLES: lines(doc(acc=1)).encode() + b'{"doc_id": "\xe9"}\n'},
    ),
    Case(
        "doc_id missing",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 2, field 'doc_id': expected "
            "a number or text, found null"
        ),
        {SAMPLES: lines(doc(acc=1), {"doc": {}, "acc": 1})},
    ),
    Case(
        "doc_id a list",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 1, field 'doc_id': expected "
            "a number or text, found a list"
        ),
        {SAMPLES: lines(doc([1], acc=1))},
    ),
    Case(
        "several metrics",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 1: has the metrics acc, "
            "acc_norm (choose one with --metric, e.g. --metric acc)"
        ),
        {SAMPLES: lines(doc(acc=1.0, acc_norm=0.0))},
    ),
    Case(
        "metric unknown",
        ("m/samples_t_2025-01-02T03-04-05.jsonl, record 1: has no metric 'f1'; there are acc"),
        {SAMPLES: lines(doc(acc=1.0))},
        options={"metric": "f1"},
    ),
    Case(
        "no metric",
        "m/samples_t_2025-01-02T03-04-05.jsonl, record 1: has no metric",
        {SAMPLES: lines(doc())},
    ),
    Case(
        "metrics no scalars",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 1: has no metric that is one "
            "number; there are f1 (a list), word_perplexity (a list)"
        ),
        {SAMPLES: lines(doc(f1=[0, 1], word_perplexity=[-3.5, 2]))},
    ),
    Case(
        "metric no scalar",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 1, field 'f1': expected a "
            "number from 0 to 1, found [0, 1]"
        ),
        {SAMPLES: lines(doc(f1=[0, 1]))},
        options={"metric": "f1"},
    ),
    Case(
        "metric turns into a list",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 2, field 'acc': expected a "
            "number from 0 to 1, found [1]"
        ),
        {SAMPLES: lines(doc(acc=1), doc(1, acc=[1]))},
    ),
    Case(
        "metric in percent",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 1, field 'bleu': must be "
            "between 0 and 1, found 31.5 (say what stands for 1 with --scale)"
        ),
        {SAMPLES: lines(doc(bleu=31.5))},
    ),
    Case(
        "several filters",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 2, field 'filter': has the "
            "filters strict-match, flexible-extract (choose one with --filter, e.g. "
            "--filter strict-match)"
        ),
        {
            SAMPLES: lines(
                doc(filter="strict-match", metrics=["exact_match"], exact_match=1),
                doc(filter="flexible-extract", metrics=["exact_match"], exact_match=1),
            )
        },
    ),
    Case(
        "several filters in keys",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 1, field 'filter': has the "
            "filters strict, loose (choose one with --filter, e.g. --filter strict)"
        ),
        {SAMPLES: lines(doc(**{"exact_match,strict": 1, "exact_match,loose": 1}))},
    ),
    Case(
        "filter unknown",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, field 'filter': has no filter "
            "'strict'; there are strict-match"
        ),
        {SAMPLES: lines(doc(filter="strict-match", metrics=["exact_match"], exact_match=1))},
        options={"filter": "strict"},
    ),
    Case(
        "lower is better",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl: lower is better for 'brier' of t: a "
            "score must grow with the answer's quality (choose another with --metric)"
        ),
        {
            SAMPLES: lines(doc(brier=0.2)),
            RESULTS: json.dumps({"model_name": "m", "higher_is_better": {"t": {"brier": False}}}),
        },
    ),
    Case(
        "results broken",
        ("m/results_2025-01-02T03-04-05.json: is not JSON: Expecting value at column 16"),
        {SAMPLES: lines(doc(acc=1)), RESULTS: '{"model_name": '},
    ),
    Case(
        "another text",
        (
            "n/samples_t_2025-01-02T03-04-05.jsonl, record 1: item 't:0' has another "
            "text here than at m/samples_t_2025-01-02T03-04-05.jsonl, record 1 (another "
            "version of the data set? keep both with --text-conflict separate)"
        ),
        {SAMPLES: lines(doc(acc=1)), SAMPLES.replace("m/", "n/"): lines(doc(0, "How?", acc=1))},
        source=".",
    ),
    Case(
        "text field unknown",
        (
            "m/samples_t_2025-01-02T03-04-05.jsonl, record 1, field 'stem': there is no "
            "such field; there are acc, doc, doc_id, question, target (choose another "
            "with --text-field)"
        ),
        {SAMPLES: lines(doc(acc=1))},
        options={"text_field": "stem"},
    ),
    Case(
        "text field no text",
        ("m/samples_t_2025-01-02T03-04-05.jsonl, record 1, field 'q': expected text, found a list"),
        {SAMPLES: lines({**doc(acc=1), "doc": {"q": ["Why?"]}})},
        options={"text_field": "q"},
    ),
    Case(
        "array cut off",
        "a_t.jsonl, record 2: is cut off: the file ends inside it",
        {"a_t.jsonl": "[\n" + json.dumps(doc(acc=1), indent=2) + ",\n {"},
        options={"benchmark": "t"},
    ),
    # Inspect
    Case(
        "no zip",
        "a.eval: is no complete zip archive: File is not a zip file",
        {"a.eval": b"PK\x03\x04 and no more"},
    ),
    Case(
        "no header",
        "a.eval: has neither header.json nor _journal/start.json",
        {"a.eval": archive(False, s_1=sample())},
    ),
    Case(
        "no model",
        "a.eval, field 'eval.model': expected a name",
        {"a.eval": archive({"eval": {"task": "t"}}, s_1=sample())},
    ),
    Case(
        "member encrypted",
        "a.eval, record header.json: is encrypted",
        {"a.eval": encrypted(archive(s_1=sample()))},
    ),
    Case(
        "member too large",
        ("a.eval, record samples/s_1.json: unpacks to 1,024 MiB; at most 256 are read"),
        {"a.eval": huge(archive(s_1=sample()))},
    ),
    Case(
        "member damaged",
        ("a.eval, record samples/s_1.json: is damaged: Bad CRC-32 for file 'samples/s_1.json'"),
        {"a.eval": archive(s_1=sample()).replace(b'"Why?"', b'"Who?"', 1)},
    ),
    Case(
        "sample broken",
        (
            "a.eval, record samples/s_1.json: is not JSON: Expecting property name "
            "enclosed in double quotes at column 10"
        ),
        {"a.eval": archive(s_1='{"id": 1,')},
    ),
    Case(
        "several scorers",
        (
            "a.eval, record samples/s_1.json: has the scores m, n (choose one with "
            "--metric, e.g. --metric m)"
        ),
        {"a.eval": archive(s_1=sample(scores={"m": {"value": 1}, "n": {"value": 0}}))},
    ),
    Case(
        "scorer unknown",
        "a.eval, record samples/s_1.json: has no scorer 'n'; there are m",
        {"a.eval": archive(s_1=sample())},
        options={"metric": "n"},
    ),
    Case(
        "score a word",
        (
            "a.eval, record samples/s_1.json, field 'scores.m': expected C, I, P, N or "
            "a number, found 'A' (choose another scorer with --metric)"
        ),
        {"a.eval": archive(s_1=sample(scores={"m": {"value": "A"}}))},
    ),
    Case(
        "score an object",
        (
            "a.eval, record samples/s_1.json: has the scores m/a, m/b (choose one with "
            "--metric, e.g. --metric m/a)"
        ),
        {"a.eval": archive(s_1=sample(scores={"m": {"value": {"a": 1, "b": 0}}}))},
    ),
    Case(
        "score a list",
        (
            "a.eval, record samples/s_1.json, field 'scores.m': expected C, I, P, N or "
            "a number, found a list (choose another scorer with --metric)"
        ),
        {"a.eval": archive(s_1=sample(scores={"m": {"value": [1, 0]}}))},
    ),
    Case(
        "score of ten",
        (
            "a.eval, record samples/s_1.json, field 'scores.m': must be between 0 and "
            "1, found 7 (say what stands for 1 with --scale)"
        ),
        {"a.eval": archive(s_1=sample(scores={"m": {"value": 7}}))},
    ),
    Case(
        "no samples",
        (
            "no responses were found; read 0 records from 1 file (inspect); kept 0 "
            "responses; note a.json: the log holds no samples"
        ),
        {"a.json": json.dumps(HEADER)},
    ),
    Case(
        "log cut off",
        "a.json, record 1: is cut off: the file ends inside it",
        {"a.json": json.dumps({**HEADER, "samples": [sample()]})[:-20]},
    ),
    # HELM
    Case(
        "no stats",
        "run: has no per_instance_stats.json (give the folder of a finished run)",
        {"run/run_spec.json": "{}", "run/scenario_state.json": "{}"},
        source="run",
    ),
    Case(
        "no run name",
        "run/run_spec.json, field 'name': expected a name",
        helm([], {"adapter_spec": {"model": "m"}}),
        source="run",
    ),
    Case(
        "stats no list",
        "run/per_instance_stats.json: expected a list, found an object",
        helm({"a": 1}),
        source="run",
    ),
    Case(
        "stat without name",
        ("run/per_instance_stats.json, record 1, field 'stats': expected stats with a name"),
        helm([{"instance_id": "id0", "stats": [{"mean": 1}]}]),
        source="run",
    ),
    Case(
        "several stats",
        (
            "run/per_instance_stats.json, record 1: has the metrics exact_match, "
            "f1_score (choose one with --metric, e.g. --metric exact_match)"
        ),
        helm([{"instance_id": "id0", "stats": [stat("exact_match", 1), stat("f1_score", 1)]}]),
        source="run",
    ),
    Case(
        "stat unknown",
        ("run/per_instance_stats.json: has no metric 'f1_score'; there are exact_match"),
        helm([{"instance_id": "id0", "stats": [stat("exact_match", 1)]}]),
        source="run",
        options={"metric": "f1_score"},
    ),
    Case(
        "several splits",
        ("run/per_instance_stats.json: has the splits valid, train, none of them 'test'"),
        helm(
            [
                {"instance_id": "id0", "stats": [stat("exact_match", 1, "valid")]},
                {"instance_id": "id1", "stats": [stat("exact_match", 1, "train")]},
            ]
        ),
        source="run",
    ),
    Case(
        "several train trials",
        (
            "1 (item, model) pairs have more than one response, first 'toy:id0' x 'm' "
            "in runs m@e48b4462, m@e48b4462#2; choose what counts with --on-duplicate "
            "first|last|mean|keep"
        ),
        helm(
            [
                {"instance_id": "id0", "train_trial_index": t, "stats": [stat("exact_match", t)]}
                for t in (0, 1)
            ]
        ),
        source="run",
    ),
    # EmbedLLM
    Case(
        "embedllm column",
        (
            "a.csv, field 'label': the column is missing; found prompt_id, model_id, "
            "category_id, y, model_name, prompt, category"
        ),
        {"a.csv": EMBED.replace("label", "y")},
        format="embedllm",
    ),
    Case("embedllm empty", "a.csv: has no rows", {"a.csv": EMBED}),
    Case(
        "embedllm label",
        "a.csv, record 1, field 'label': expected a number from 0 to 1, found 'yes'",
        {"a.csv": EMBED + "1,1,1,yes,m,Why?,c\n"},
    ),
    Case(
        "embedllm model",
        "a.csv, record 1, field 'model_name': is empty",
        {"a.csv": EMBED + "1,1,1,1,,Why?,c\n"},
    ),
    Case(
        "embedllm prompts",
        "a.csv, record 1, field 'prompt': prompt_id '1' has two prompts",
        {"a.csv": EMBED + "1,1,1,1,m,Why?,c\n2,1,1,0,m,So?,c\n1,2,1,0,n,How?,c\n"},
    ),
    Case(
        "embedllm splits differ",
        (
            "f/train.csv, record 1: item 'c:1' has another text here than at test.csv, "
            "record 1 (another version of the data set? keep both with --text-conflict "
            "separate)"
        ),
        {"f/test.csv": EMBED + "1,1,1,1,m,Why?,c\n", "f/train.csv": EMBED + "1,1,1,1,n,How?,c\n"},
        source="f",
    ),
    Case(
        "embedllm twice",
        (
            "1 (item, model) pairs have more than one response, first 'c:1' x 'm' in "
            "runs m@10dec3ca, m@85fed8d1; choose what counts with --on-duplicate "
            "first|last|mean|keep"
        ),
        {"f/test.csv": EMBED + "1,1,1,1,m,Why?,c\n", "f/train.csv": EMBED + "1,1,1,0,m,Why?,c\n"},
        source="f",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_message(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert case.run(tmp_path) == case.message

"""The files that the fuzzer starts from: small made ones, and real ones where they are at hand."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.fuzz.formats import FORMATS
from thetascope.readers import ReadOptions

REAL = Path(__file__).resolve().parents[3] / "shared/data/formats"


@dataclass(frozen=True)
class Seed:
    """Files that one reader can read.

    Attributes:
        format: The reader.
        files: Content by path, relative to a folder.
        source: What to read, relative to that folder; '' is the folder.
        options: What the reader needs to be told.
        records_at: Where the records stand in the (JSON) source: '' for a top-level array or
            lines, a key for the member that holds them; None where records are not independent.
    """

    format: str
    files: Mapping[str, bytes] = field(repr=False)
    source: str
    options: ReadOptions = field(default_factory=ReadOptions)
    records_at: str | None = None

    @property
    def main(self) -> str:
        """The file with the results."""
        if self.source in self.files:
            return self.source
        names = sorted(self.files)
        return next((n for n in names if n.endswith("per_instance_stats.json")), names[-1])


_RECORDS_AT = {
    "lm-eval": "",
    "inspect": "samples",
    "helm": "",
    "alpaca-eval": "",
    "swe-bench": "",
    "lm-eval-old": "",
    "livecodebench": "performances",
    "mt-bench": "",
    "mmlu-pro": "",
    "zeroeval": "",
    "opencompass": "details",
    "every-eval-ever": "",
    "evalplus": "eval",
    "llmrouter": "",
}


def _made(*formats: str) -> Iterator[Seed]:
    """The seeds of `FORMATS`, one a source."""
    for name in formats:
        kind = FORMATS[name]
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            kind.write(folder, kind.parts)
            files = {p.name: p.read_bytes() for p in folder.iterdir()}
        for source in kind.sources:
            beside = {} if name == "inspect" else files
            given = files if source == "." else {**beside, source: files[source]}
            yield Seed(
                name.split()[0],
                given,
                "" if source == "." else source,
                kind.options or ReadOptions(),
                None if source.endswith(".eval") else _RECORDS_AT.get(name),
            )


def _real(format: str, pattern: str, records_at: str | None = None, **options: Any) -> list[Seed]:
    """Real files; a folder counts with all that is in it."""
    seeds: list[Seed] = []
    for path in sorted(REAL.glob(pattern)) if REAL.is_dir() else ():
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        files = {p.relative_to(path.parent).as_posix(): p.read_bytes() for p in inside}
        seeds.append(Seed(format, files, path.name, ReadOptions(**options), records_at))
    return seeds


def _frame(frame: pl.DataFrame, name: str) -> bytes:
    buffer = io.BytesIO()
    if name.endswith(".parquet"):
        frame.write_parquet(buffer, compression="snappy", row_group_size=4)
    elif name.endswith(".jsonl"):
        frame.write_ndjson(buffer)
    else:
        frame.write_csv(buffer, separator="\t" if name.endswith(".tsv") else ",")
    return buffer.getvalue()


def _tables() -> Iterator[Seed]:
    long = pl.DataFrame({
        "item_id": [f"b:{i:03d}" for i in range(6)] * 2,
        "model": ["m"] * 6 + ["n"] * 6,
        "score": [1.0, 0.0, 0.5, 1.0, None, 0.25] * 2,
        "text": [f'Why, "{i}"?\nSo.' for i in range(6)] * 2,
        "trials": [1] * 12,
        "cost_usd": [0.5] * 12,
        "own": ["x"] * 12,
    })  # fmt: skip
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.parquet"):
        at = "" if name.endswith(".jsonl") else None
        yield Seed("tables", {name: _frame(long, name)}, name, records_at=at)
    wide = pl.DataFrame({"id": ["b:1", "b:01", "b:2"], "m": [1.0, 0.0, None], "n": [0, 1, 1]})
    for name, way in (("w.csv", "items-in-rows"), ("w.parquet", "models-in-rows")):
        options = ReadOptions(wide=way, benchmark="b")
        yield Seed("tables", {name: _frame(wide, name)}, name, options)
    items = long.select("item_id", "text").unique(maintain_order=True)
    models = pl.DataFrame({"model": ["m", "n"], "family": ["f", None], "params_b": [1.0, 2.0]})
    for suffix in ("csv", "jsonl", "parquet"):
        parts = {"responses": long.drop("text", "own"), "items": items, "models": models}
        files = {f"f/{k}.{suffix}": _frame(v, f"{k}.{suffix}") for k, v in parts.items()}
        yield Seed("tables", files, "f")
    bench = pl.DataFrame({
        "sample_id": ["007", "7", "8"],
        "prompt": ["['Be brief.', \"It's\\nso?\"]", "[not a list", "So?"],
        "eval_name": ["quiz", "quiz", "maths"],
        "m/1": [1.0, None, 0.0],
        "n": [0.25, 1.0, 1.0],
        "m/1|model_response": ["long, \n text", "x", "x"],
        "n|model_response": ["x", "x", "x"],
        "m/1|total_cost": [0.001, None, 1.0],
        "n|total_cost": [0.5, 0.0, 0.0],
    })  # fmt: skip
    for name in ("r.csv", "r.parquet"):
        yield Seed("router-tables", {name: _frame(bench, name)}, name)
    route = pl.DataFrame(
        {"prompt": ["Why?", "How, so?"], "a": ["True", "False"], "b": ["False"] * 2}
    )
    yield Seed("router-tables", {"q.csv": _frame(route, "q.csv")}, "q.csv")
    embed = pl.DataFrame({
        "prompt_id": ["007", "7", "007", "7"],
        "model_id": [0, 0, 5, 5],
        "category_id": [1] * 4,
        "label": [1, 0, 0, None],
        "model_name": ["maker/a"] * 2 + ["b"] * 2,
        "prompt": ["Why, or\nnot?", "How?"] * 2,
        "category": ["quiz"] * 4,
    })  # fmt: skip
    yield Seed("embedllm", {"test.csv": _frame(embed, "e.csv")}, "test.csv")
    files = {
        "s/test.csv": _frame(embed.head(2), "e.csv"),
        "s/train.csv": _frame(embed.tail(2), "e"),
    }
    yield Seed("embedllm", files, "s")


def _lighteval() -> Iterator[Seed]:
    docs = [
        {
            "query": "Hi. Why?",
            "choices": [" red", " blue"],
            "gold_index": [i % 2],
            "instruction": "Hi.",
            "id": str(i),
            "task_name": "leaderboard|arc:challenge|25",
        }
        for i in range(6)
    ]
    metrics = [{"acc": v} for v in (1.0, 0.25, 0.0, float("nan"), 1.0, None)]
    frame = pl.DataFrame({"doc": docs, "model_response": [{"text": ["x"]}] * 6, "metric": metrics})
    date = "2025-01-02T03-04-05.678901"
    name = f"details/maker/m/{date}/details_leaderboard|arc:challenge|25_{date}.parquet"
    yield Seed("lighteval", {name: _frame(frame, name)}, name)
    old = pl.DataFrame({"example": ["x"], "metrics": [{"acc": 1.0}]})
    yield Seed("lighteval", {"o.parquet": _frame(old, "o.parquet")}, "o.parquet")


def _deflated() -> Iterator[Seed]:
    """The made Inspect log packed with deflate, a sample logged twice."""
    for seed in _made("inspect"):
        if seed.source.endswith(".eval"):
            buffer = io.BytesIO()
            with (
                zipfile.ZipFile(io.BytesIO(seed.files[seed.source])) as old,
                zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new,
            ):
                for entry in old.infolist():
                    new.writestr(entry.filename.replace("samples/", "samples/a/"), old.read(entry))
            yield Seed("inspect", {"b.eval": buffer.getvalue()}, "b.eval")


def _harnesses() -> Iterator[Seed]:
    yield from _made("lm-eval", "lm-eval-old", "opencompass", "every-eval-ever")
    log = next(_made("lm-eval"))
    lines = log.files[log.source].splitlines()
    array = b"[" + b",\n".join(lines) + b"]"
    yield Seed(
        "lm-eval", {"m_t.jsonl": array}, "m_t.jsonl", ReadOptions(benchmark="t", metric="acc"), ""
    )
    yield Seed("lm-eval", dict(log.files), "")
    yield from _lighteval()
    yield from _real("lm-eval", "lm_eval_new/*", metric="acc,exact_match", filter="strict-match")
    yield from _real(
        "lm-eval-old", "lm_eval_old/*_write_out_info.json", "", model="m", metric="acc"
    )
    yield from _real("lm-eval-old", "lm_eval_old/12b*")
    yield from _real("opencompass", "opencompass/predictions/*/*.json", model="m")
    yield from _real("opencompass", "opencompass/*.csv", model="m")


def _inspect() -> Iterator[Seed]:
    yield from _made("inspect", "helm")
    yield from _deflated()
    yield from _real("inspect", "inspect/*.json", "samples")
    yield from _real("inspect", "inspect/*.eval")
    yield from _real("helm", "helm/*")


def _all_tables() -> Iterator[Seed]:
    yield from _tables()
    yield from _real("router-tables", "routellm/*.csv")
    yield from _real("alpaca-eval", "alpaca_eval/*.csv")


def _outputs() -> Iterator[Seed]:
    yield from _made(
        "openai-evals", "swe-bench", "swe-bench reports", "livecodebench", "mt-bench", "bfcl",
        "mmlu-pro", "zeroeval", "evalplus", "llmrouter", "alpaca-eval",
    )  # fmt: skip
    yield from _real("openai-evals", "openai_evals/*.jsonl")
    yield from _real("swe-bench", "swe_bench/*.json*", model="m")
    yield from _real("livecodebench", "livecodebench/*.json", "performances")
    yield from _real("mt-bench", "mt_bench/*.jsonl", "")
    yield from _real("mmlu-pro", "mmlu_pro/*.json", "", metric="pred")
    yield from _real("zeroeval", "zeroeval/*.json", "")
    yield from _real("evalplus", "evalplus/*.json", "eval")
    yield from _real("llmrouter", "llmrouter/*.json", "")
    yield from _real("alpaca-eval", "alpaca_eval/*/annotations.json", "")


FAMILIES: Mapping[str, Callable[[], Iterator[Seed]]] = {
    "harnesses": _harnesses,
    "inspect": _inspect,
    "tables": _all_tables,
    "outputs": _outputs,
}

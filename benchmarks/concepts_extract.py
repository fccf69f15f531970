"""Extraction against the bare forward pass, against unsorted batches, its memory, and reads.

Bars, ratios within one run, CPU time: extraction takes at most 1.25 times the bare forward to the
hook on SmolLM2 (the bundled dictionary) and 1.5 times on MiniLM (block 3, 4,096 random latents);
it is at least 2 times faster than batches of 16 texts in a random order (SmolLM2, timed without
pooling or writing) and 3 times faster than a plain sae-lens loop over the same items, whose means
it must equal; its memory grows at most 10 % from 1,000 to 30,000 items (MiniLM, short texts); one
concept of 65,536 over 36,000 items is read in under 50 ms. The sides take turns, the fastest of
three counts for each; what only explains the gain is timed once.

    python -m benchmarks.concepts_extract [ITEMS]   # ITEMS of ../shared/data/zeroeval, 160

`make saelens-peer` makes the interpreter of the sae-lens loop; SAELENS_PYTHON names another one.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import thetascope as ts
from benchmarks.bars import Bars
from benchmarks.concepts_training import PYTHON
from thetascope.concepts.shards import load_rows, shard_file
from thetascope.concepts.store import (
    BY_CONCEPT,
    BY_ITEM,
    DICTIONARY,
    ITEMS,
    KIND,
    ROW_GROUP,
    load_concepts,
)
from thetascope.study import store

if TYPE_CHECKING:
    from thetascope.concepts.extraction import Extraction

TEXTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "zeroeval" / "items.parquet"
BUNDLED = Path(ts.__file__).parent / "concepts" / "bundled" / "smollm2-135m-l14-8k"
TURNS = 3


def timed(work: Callable[[], object]) -> float:
    """CPU seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def speeds(folder: Path, n: int, bars: Bars) -> None:
    """Both models against their bare forward, and the rivals on the first; by turns."""
    import torch
    from tests.concepts.extract_cases import save_dictionary, save_study

    from thetascope.concepts.extraction import make_shards, open_extraction

    torch.set_num_threads(1)
    table = pl.read_parquet(TEXTS)
    texts = table.gather_every(max(1, table.height // n))["text"].unique(maintain_order=True)
    texts = texts.to_list()
    mini = save_dictionary(folder / "mini", d=384, n=4096, k=32, model="all-MiniLM-L6-v2")
    settings = json.loads((mini / "cfg.json").read_text())
    settings["metadata"]["hook_name"] = "blocks.3.hook_resid_post"
    (mini / "cfg.json").write_text(json.dumps(settings))
    for model, dictionary, bar in (("offline", BUNDLED, 1.25), ("offline-minilm", mini, 1.5)):
        took: dict[str, list[float]] = {}
        length, peer = 0, None
        for turn in range(TURNS):
            study = save_study(folder / f"{model}-{turn}", list(texts))
            job, _ = open_extraction(study, model=model, dictionary=dictionary)
            tokens = job.plan.tokens
            batches = [b for shard in job.plan.shards for b in shard]
            length = int(job.plan.n_tokens.sum())
            if not turn:
                job.model.read_batch(tokens, batches[0])
                peer = save_peer(job, texts, folder) if model == "offline" else None
            works: dict[str, Callable[[], object]] = {
                "bare": lambda b=batches, j=job: [j.model.read_batch(j.plan.tokens, x) for x in b],
                "ours": lambda j=job: make_shards(j, range(len(j.plan.shards))),
            }
            if model == "offline":
                works |= rivals(job, explain=not turn)
            for name, work in works.items():
                took.setdefault(name, []).append(timed(work))
            if peer is not None:
                for name, seconds in peer_seconds(job, peer, folder, explain=not turn).items():
                    took.setdefault(name, []).append(seconds)
        best = {name: min(seconds) for name, seconds in took.items()}
        ours = best.pop("ours")
        print(f"     {model}: {length:,} tokens, {length / ours:,.0f} a CPU second", flush=True)
        bars.at_most(f"{model}: extraction / bare forward", ours / best["bare"], bar)
        for name, least in (("batches of 16", 2), ("a sae-lens loop", 3)):
            if name in best:
                bars.at_least(f"{model}: faster than {name}", best[name] / ours, least, "times")
        for name in ("one text at a time", "one text at a time, all blocks", "sae-lens, no logits"):
            if name in best:
                print(f"     {model}: {name}: {best[name] / ours:.2f} times the time", flush=True)
        if model == "offline" and peer is None:
            print(f"     no sae-lens loop: {PYTHON} is absent; make it with: make saelens-peer")


def rivals(job: Extraction, explain: bool) -> dict[str, Callable[[], object]]:
    """Reading and encoding the same texts by other plans: nothing is pooled or written.

    Args:
        job: The extraction.
        explain: Whether those are made too that only say where the gain is from.
    """
    from thetascope.concepts.language_model import LanguageModel
    from thetascope.encoders.batches import Batch, padded_lengths

    tokens = job.plan.tokens
    n = job.plan.n_texts
    rows = np.random.default_rng(0).permutation(n)
    wide = padded_lengths(tokens.lengths, job.model.tokeniser.max_tokens)
    loose = [Batch(r, int(wide[r].max())) for r in np.split(rows, range(16, n, 16))]
    single = [Batch(np.array([i]), int(tokens.lengths[i])) for i in range(n)]

    def read(model: LanguageModel, batches: list[Batch]) -> None:
        for batch in batches:
            job.dictionary.encode(model.read_batch(tokens, batch).states)

    out: dict[str, Callable[[], object]] = {"batches of 16": lambda: read(job.model, loose)}
    if explain:
        whole = LanguageModel(job.model.config, whole=True)
        out["one text at a time"] = lambda: read(job.model, single)
        out["one text at a time, all blocks"] = lambda: read(whole, single)
    return out


def save_peer(job: Extraction, texts: list[str], folder: Path) -> Path | None:
    """The language model and the texts, as the other interpreter reads them."""
    if not PYTHON.is_file():
        return None
    from thetascope.concepts import lm_source
    from thetascope.encoders import source

    config = job.model.config
    loaded = lm_source.load(config, lm_source.locate(config.model), "cpu")
    # transformers does not save what it read from GGUF: the same weights in a model of its own.
    settings = copy.deepcopy(loaded.body.config)
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(settings, name):
            delattr(settings, name)
    plain = type(loaded.body)(settings)
    plain.load_state_dict(loaded.body.state_dict())
    peer = folder / "peer"
    with source.quiet():
        plain.save_pretrained(peer)
    loaded.tokenizer.save_pretrained(peer)
    (peer / "texts.json").write_text(json.dumps(texts))
    return peer


def peer_seconds(job: Extraction, peer: Path, folder: Path, *, explain: bool) -> dict[str, float]:
    """CPU seconds of the plain sae-lens loop; its means must be those of our shards."""
    out = folder / "peer.npy"
    words = [peer, BUNDLED, str(job.model.tokeniser.prefix.id), peer / "texts.json", out]
    words += ["body"] if explain else []
    script = Path(__file__).resolve().parents[1] / "tools" / "saelens_loop.py"
    done = subprocess.run([PYTHON, script, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-1000:])
    theirs, ours = np.load(out), np.zeros((job.plan.n_texts, job.dictionary.info.n_latents))
    n_tokens, turn = job.plan.n_tokens, np.argsort(job.plan.first_item)
    for number in range(len(job.plan.shards)):
        rows = load_rows(shard_file(job.work / "shards", number))
        text = turn[np.searchsorted(job.plan.first_item[turn], rows.item, side="right") - 1]
        ours[text, rows.concept] = rows.sum / n_tokens[text]
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    taken = json.loads(done.stdout.strip().splitlines()[-1])
    names = {"whole": "a sae-lens loop", "body": "sae-lens, no logits"}
    return {names[name]: seconds for name, seconds in taken.items()}


def memory_of(folder: Path, n: int) -> None:
    """Extracts n short texts with MiniLM and prints the peak memory; in a process of its own."""
    from tests.concepts.extract_cases import save_study, some_texts

    from thetascope.concepts.extract import extract

    study = save_study(folder / f"n{n}", [f"{t} {i}" for i, t in
                                          enumerate(some_texts(n, longest=8))])  # fmt: skip
    made = extract(study, model="offline-minilm", dictionary=folder / "mini")
    assert made.finished
    # Not getrusage: its maximum takes over that of the process which started this one.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 2**20
    print(json.dumps({"peak": peak, "tokens": made.n_tokens}))


def memory(folder: Path, bars: Bars) -> None:
    """1,000 against 30,000 items."""
    peaks = []
    for n in (1_000, 30_000):
        code = (
            "from pathlib import Path\nfrom benchmarks.concepts_extract import memory_of\n"
            f"memory_of(Path({str(folder)!r}), {n})"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        found = json.loads(done.stdout.strip().splitlines()[-1])
        peaks.append(found["peak"])
        print(
            f"     {n:,} items, {found['tokens']:,} tokens: peak {found['peak']:.3f} GiB",
            flush=True,
        )
    bars.at_most("memory at 30,000 items / at 1,000", peaks[1] / peaks[0], 1.1)


def reads(folder: Path, bars: Bars) -> None:
    """One concept of 65,536 over 36,000 items with 500 concepts each: 18 million rows."""
    from tests.concepts.extract_cases import save_study

    n, c, each = 36_000, 65_536, 500
    study = save_study(folder / "reads", [f"question {i}" for i in range(n)])
    rng = np.random.default_rng(0)
    # Concepts are as uneven as real ones: a few fire on most items.
    concept = (c * rng.random((n, each)) ** 4).astype(np.int32)
    item = np.repeat(np.arange(n, dtype=np.int32), each)
    rows = pl.DataFrame({"item": item, "concept": concept.ravel()}).unique().sort("item", "concept")
    del concept, item
    figures = rng.random(rows.height, dtype=np.float32)
    rows = rows.with_columns(
        sum=pl.Series(figures), max=pl.Series(figures), count=pl.lit(1, pl.Int32)
    )
    opened = ts.open(study)
    with store.writing(study) as writer:
        work = writer.work_folder(KIND, "c", "key")
        rows.write_parquet(work / BY_ITEM, row_group_size=ROW_GROUP)
        by_concept = rows.sort("concept", "item")
        by_concept.write_parquet(work / BY_CONCEPT, row_group_size=ROW_GROUP)
        per_item = np.bincount(rows["item"].to_numpy(), minlength=n).astype(np.int32)
        per_concept = np.bincount(rows["concept"].to_numpy(), minlength=c).astype(np.int32)
        opened.items.select("item_id", "text_hash").with_columns(
            n_tokens=pl.lit(9, pl.Int32), left_out=pl.lit(None, pl.String),
            n_concepts=pl.Series(per_item),
        ).write_parquet(work / ITEMS)  # fmt: skip
        pl.DataFrame(
            {"concept": np.arange(c, dtype=np.int32), "n_items": per_concept}
        ).write_parquet(work / DICTIONARY)
        writer.put_derived(KIND, "c", "key", work, {"kind": KIND})
        writer.commit()
    found = load_concepts(ts.open(study))
    found.of_concept(1), found.of_item(found.item_ids[0])  # the small tables are read once
    for what, read, picks in (
        ("concept", found.of_concept, [0, 1, 50, *rng.integers(0, c, 30).tolist()]),
        ("item", found.of_item, [found.item_ids[i] for i in rng.integers(0, n, 30)]),
    ):
        took = []
        for pick in picks:
            start = time.perf_counter()
            read(pick)
            took.append(1e3 * (time.perf_counter() - start))
        print(f"     one {what}: median {np.median(took):.1f} ms, slowest {max(took):.1f} ms")
        bars.at_most(
            f"one {what} of {rows.height:,} rows, median", float(np.median(took)), 50, "ms"
        )


def main() -> None:
    """All of it."""
    bars = Bars()
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 160
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        speeds(folder, n, bars)
        reads(folder, bars)
        memory(folder, bars)
    bars.finish()


if __name__ == "__main__":
    main()

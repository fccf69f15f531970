"""Small studies with texts and random dictionaries, for the tests of extraction."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import torch
from safetensors.torch import save_file

import thetascope as ts

WORDS = "the a cat dog sat on mat ran far sum of two and three is five why how many".split()  # noqa: SIM905


def save_dictionary(
    folder: Path, *, d: int = 32, n: int = 64, k: int = 4, model: str = "tiny-llama", seed: int = 1
) -> Path:
    """A random TopK dictionary in SAELens' format, for the output of block 1."""
    folder.mkdir(parents=True)
    made = torch.Generator().manual_seed(seed)
    enc = torch.randn(d, n, generator=made)
    tensors = {
        "W_enc": enc,
        "W_dec": (enc.T / d).contiguous(),
        "b_enc": torch.zeros(n),
        "b_dec": torch.zeros(d),
    }
    save_file(tensors, folder / "sae_weights.safetensors")
    settings = {
        "architecture": "topk", "k": k, "d_in": d, "d_sae": n, "dtype": "float32",
        "apply_b_dec_to_input": True, "normalize_activations": "none",
        "rescale_acts_by_decoder_norm": False,
        "metadata": {
            "sae_lens_version": "6.0.0", "model_name": model, "prepend_bos": True,
            "hook_name": "blocks.1.hook_resid_post", "context_size": 4096,
        },
    }  # fmt: skip
    (folder / "cfg.json").write_text(json.dumps(settings))
    return folder


def some_texts(n: int, seed: int = 0, longest: int = 30) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(2, longest))) for _ in range(n)]


def save_study(folder: Path, texts: list[str | None]) -> Path:
    """A study of two benchmarks and two models with these texts."""
    rng = np.random.default_rng(0)
    rows = [
        {"item_id": f"b{i % 2}:{i:05d}", "model": m, "score": int(rng.integers(2)), "text": t}
        for i, t in enumerate(texts)
        for m in ("m1", "m2")
    ]
    file = folder.with_suffix(".csv")
    pl.DataFrame(rows, schema_overrides={"text": pl.String}).write_csv(file)
    ts.read(file).save(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a derived folder but run.json."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != "run.json"
    }

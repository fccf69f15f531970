"""Random dictionaries written in each published format, with a dense reference encoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file

if TYPE_CHECKING:  # `make parity` writes these cases where there is no thetascope
    from thetascope.concepts.dictionary import Dictionary

D, N, K = 10, 32, 4


class Case(NamedTuple):
    """A dictionary on disk and what it must say: (t, D) -> (t, N)."""

    place: Path
    encode: Callable[[np.ndarray], np.ndarray]
    model: str | None
    hook: str | None


def dense(dictionary: Dictionary, x: torch.Tensor) -> torch.Tensor:
    """(t, n) activations, for small cases."""
    rows = dictionary.encode(x)
    out = torch.zeros(len(x), dictionary.info.n_latents)
    out[rows.tokens, rows.indices] = rows.values
    return out


def weights(seed: int) -> dict[str, np.ndarray]:
    """W_enc (D, N), b_enc, W_dec (N, D), b_dec, and a threshold each."""
    rng = np.random.default_rng(seed)
    return {
        "W_enc": rng.standard_normal((D, N)).astype(np.float32) * 0.5,
        "b_enc": rng.standard_normal(N).astype(np.float32) * 0.3,
        "W_dec": rng.standard_normal((N, D)).astype(np.float32),
        "b_dec": rng.standard_normal(D).astype(np.float32),
        "threshold": rng.random(N).astype(np.float32),
        "r_mag": rng.standard_normal(N).astype(np.float32) * 0.3,
        "b_mag": rng.standard_normal(N).astype(np.float32) * 0.3,
    }


def relu(p: np.ndarray) -> np.ndarray:
    return np.maximum(p, 0)


def topk(p: np.ndarray, k: int) -> np.ndarray:
    least = np.sort(p, axis=1)[:, -k][:, None]
    return np.where(p >= least, relu(p), 0)


def t(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


def gemma_scope(to: Path) -> Case:
    w = weights(1)
    folder = to / "gemma-scope-2b-pt-res" / "layer_20" / "width_16k" / "average_l0_71"
    folder.mkdir(parents=True)
    names = ("W_enc", "b_enc", "W_dec", "b_dec", "threshold")
    np.savez(folder / "params.npz", **{n: w[n] for n in names})

    def encode(x: np.ndarray) -> np.ndarray:
        p = x @ w["W_enc"] + w["b_enc"]
        return np.where(p > w["threshold"], relu(p), 0)

    return Case(folder, encode, "google/gemma-2-2b", "20.output")


def llama_scope(to: Path) -> Case:
    w = weights(2)
    folder = to / "Llama3_1-8B-Base-L15R-8x"
    (folder / "checkpoints").mkdir(parents=True)
    tensors = {
        "encoder.weight": t(w["W_enc"].T), "encoder.bias": t(w["b_enc"]),
        "decoder.weight": t(w["W_dec"].T), "decoder.bias": t(w["b_dec"]),
    }  # fmt: skip
    save_file(tensors, folder / "checkpoints" / "final.safetensors")
    settings = {
        "d_model": D, "d_sae": N, "jump_relu_threshold": 0.6,
        "dataset_average_activation_norm": {"in": 5.0},
        "hook_point_in": "blocks.15.hook_resid_post",
    }  # fmt: skip
    (folder / "hyperparams.json").write_text(json.dumps(settings))

    def encode(x: np.ndarray) -> np.ndarray:
        factor = np.sqrt(D) / 5.0
        p = (x * factor) @ w["W_enc"] + w["b_enc"]
        return np.where(p > 0.6 * factor, relu(p), 0)

    return Case(folder, encode, "meta-llama/Llama-3.1-8B", "15.output")


def sparsify(to: Path) -> Case:
    w = weights(3)
    folder = to / "run" / "layers.7"
    folder.mkdir(parents=True)
    tensors = {
        "encoder.weight": t(w["W_enc"].T), "encoder.bias": t(w["b_enc"]),
        "W_dec": t(w["W_dec"]), "b_dec": t(w["b_dec"]),
    }  # fmt: skip
    save_file(tensors, folder / "sae.safetensors")
    cfg = {"d_in": D, "num_latents": N, "expansion_factor": 32, "k": K, "normalize_decoder": True}
    (folder / "cfg.json").write_text(json.dumps(cfg))
    (folder.parent / "config.json").write_text(json.dumps({"model": "some/model", "ctx_len": 64}))
    return Case(
        folder,
        lambda x: topk((x - w["b_dec"]) @ w["W_enc"] + w["b_enc"], K),
        "some/model",
        "7.output",
    )


def goodfire(to: Path) -> Case:
    w = weights(4)
    file = to / "Llama-3.1-8B-Instruct-SAE-l19.pth"
    tensors = {
        "encoder_linear.weight": t(w["W_enc"].T), "encoder_linear.bias": t(w["b_enc"]),
        "decoder_linear.weight": t(w["W_dec"].T), "decoder_linear.bias": t(w["b_dec"]),
    }  # fmt: skip
    torch.save(tensors, file)
    return Case(
        file,
        lambda x: relu(x @ w["W_enc"] + w["b_enc"]),
        "meta-llama/Llama-3.1-8B-Instruct",
        "19.output",
    )


def deepseek(to: Path) -> Case:
    w = weights(5)
    file = to / "DeepSeek-R1-Distill-Llama-8B-SAE-l19.pt"
    tensors = {
        "encoder.weight": t(w["W_enc"].T), "encoder.bias": t(w["b_enc"]),
        "decoder.weight": t(w["W_dec"].T), "decoder.bias": t(w["b_dec"]),
    }  # fmt: skip
    torch.save(tensors, file)
    return Case(
        file,
        lambda x: relu(x @ w["W_enc"] + w["b_enc"]),
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
        "19.output",
    )


def qwen_scope(to: Path) -> Case:
    w = weights(6)
    folder = to / "SAE-Res-Qwen3-8B-Base-W64K-L0_4"
    folder.mkdir()
    tensors = {
        "W_enc": t(w["W_enc"].T), "b_enc": t(w["b_enc"]),
        "W_dec": t(w["W_dec"].T), "b_dec": t(w["b_dec"]),
    }  # fmt: skip
    torch.save(tensors, folder / "layer18.sae.pt")
    return Case(
        folder / "layer18.sae.pt",
        lambda x: topk(x @ w["W_enc"] + w["b_enc"], 4),
        "Qwen/Qwen3-8B-Base",
        "18.output",
    )


def dictionary_learning(to: Path, kind: str) -> Case:
    w = weights(7)
    folder = to / kind
    folder.mkdir()
    trainer = {
        "dict_class": kind, "activation_dim": D, "dict_size": N, "layer": 3, "k": K,
        "lm_name": "EleutherAI/pythia-70m-deduped",
    }  # fmt: skip
    settings = {"trainer": trainer, "buffer": {"ctx_len": 128}}
    (folder / "config.json").write_text(json.dumps(settings))
    linear = {"encoder.weight": t(w["W_enc"].T), "decoder.weight": t(w["W_dec"].T)}
    plain = {n: t(w[n]) for n in ("W_enc", "b_enc", "W_dec", "b_dec")}
    one = {"k": torch.tensor(K), "threshold": torch.tensor(0.7)}
    bias = {"encoder.bias": t(w["b_enc"])}
    tensors: dict[str, Any] = {
        "AutoEncoder": {**linear, **bias, "bias": t(w["b_dec"])},
        "AutoEncoderNew": {**linear, **bias, "decoder.bias": t(w["b_dec"])},
        "GatedAutoEncoder": {
            **linear, "decoder_bias": t(w["b_dec"]), "r_mag": t(w["r_mag"]),
            "gate_bias": t(w["b_enc"]), "mag_bias": t(w["b_mag"]),
        },
        "AutoEncoderTopK": {**linear, **bias, "b_dec": t(w["b_dec"]), **one},
        "BatchTopKSAE": {**linear, **bias, "b_dec": t(w["b_dec"]), **one},
        "MatryoshkaBatchTopKSAE": {**plain, **one, "group_sizes": torch.tensor([8, 24])},
        "JumpReluAutoEncoder": {**plain, "threshold": t(w["threshold"])},
    }[kind]  # fmt: skip
    torch.save(tensors, folder / "ae.pt")

    def encode(x: np.ndarray) -> np.ndarray:
        plain_in = kind in ("JumpReluAutoEncoder", "AutoEncoderNew")
        raw = (x if plain_in else x - w["b_dec"]) @ w["W_enc"]
        p = raw + w["b_enc"]
        if kind == "GatedAutoEncoder":
            return (p > 0) * relu(np.exp(w["r_mag"]) * raw + w["b_mag"])
        if kind == "AutoEncoderTopK":
            return topk(p, K)
        if kind == "JumpReluAutoEncoder":
            return relu(p * (p > w["threshold"]))
        if kind in ("BatchTopKSAE", "MatryoshkaBatchTopKSAE"):
            return relu(p) * (relu(p) > 0.7)
        return relu(p)

    return Case(folder, encode, "EleutherAI/pythia-70m-deduped", "3.output")


MAKERS: dict[str, Callable[[Path], Case]] = {
    "gemma_scope": gemma_scope,
    "llama_scope": llama_scope,
    "sparsify": sparsify,
    "goodfire": goodfire,
    "deepseek": deepseek,
    "qwen_scope": qwen_scope,
    **{
        kind: lambda to, kind=kind: dictionary_learning(to, kind)
        for kind in (
            "AutoEncoder", "AutoEncoderNew", "GatedAutoEncoder", "AutoEncoderTopK",
            "BatchTopKSAE", "MatryoshkaBatchTopKSAE", "JumpReluAutoEncoder",
        )
    },
}  # fmt: skip

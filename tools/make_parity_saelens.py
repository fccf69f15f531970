"""Concept activations by sae-lens, as golden figures: run by `make parity`.

    python tools/make_parity_saelens.py OUT_FOLDER BUNDLED_FOLDER

saelens.safetensors holds, for each case, the weights as sae-lens saved them, inputs and what
sae-lens makes of them; its metadata holds each case's cfg.json. bundled.safetensors holds the
same for the bundled dictionaries (their weights' hash in place of the weights) and whether
sae-lens loads them bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

D, N, T, K = 12, 40, 24, 5
FACTOR = 0.37
NORMALISATIONS = ("none", "layer_norm", "constant_norm_rescale", "expected_average_only_in")


def random_weights(sae: Any, seed: int) -> None:
    """Fills every parameter; thresholds are positive, decoder rows of different lengths."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sae.named_parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        scale = {"W_enc": 0.5, "r_mag": 0.3}.get(name, 0.4)
        parameter.data = drawn * scale
        if name == "threshold":
            parameter.data = drawn.abs() * 0.3
        if name == "b_dec":
            parameter.data = drawn


def inputs(seed: int, d: int = D) -> torch.Tensor:
    """(T, d) inputs of different lengths and a common offset."""
    generator = torch.Generator().manual_seed(1000 + seed)
    x = torch.randn(T, d, generator=generator)
    return x * (0.5 + 2 * torch.rand(T, 1, generator=generator)) + 0.7


def inference_cases() -> dict[str, dict[str, Any]]:
    """cfg of each architecture and normalisation, as it goes into SAE.from_dict."""
    cases: dict[str, dict[str, Any]] = {}
    for normalise in NORMALISATIONS:
        for apply in (True, False):
            end = f"{normalise}-{'b_dec' if apply else 'plain'}"
            common = {
                "d_in": D, "d_sae": N, "normalize_activations": normalise,
                "apply_b_dec_to_input": apply,
                "metadata": {"model_name": "tiny", "hook_name": "blocks.1.hook_resid_post"},
            }  # fmt: skip
            for kind in ("standard", "gated", "jumprelu"):
                cases[f"{kind}-{end}"] = {"architecture": kind, **common}
            for rescale in (True, False):
                name = f"topk{'-rescaled' if rescale else ''}-{end}"
                more = {"k": K, "rescale_acts_by_decoder_norm": rescale}
                cases[name] = {"architecture": "topk", **more, **common}
    return cases


def training_cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """Training classes that are saved in their own form or as a JumpReLU for inference."""
    common = {"d_in": D, "d_sae": N, "k": K, "apply_b_dec_to_input": True}
    return {
        "batchtopk": ("batchtopk", common),
        "matryoshka": ("matryoshka_batchtopk", {**common, "matryoshka_widths": [10, N]}),
    }


def main() -> None:
    """Writes the golden files."""
    out, bundled = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    tensors: dict[str, torch.Tensor] = {}
    settings: dict[str, str] = {}

    def keep(case: str, folder: Path, x: torch.Tensor, acts: torch.Tensor) -> None:
        for name, tensor in load_file(folder / "sae_weights.safetensors").items():
            tensors[f"{case}/weights/{name}"] = tensor.clone()
        tensors[f"{case}/x"], tensors[f"{case}/acts"] = x.clone(), acts.detach().clone()
        settings[case] = (folder / "cfg.json").read_text()

    with tempfile.TemporaryDirectory() as work:
        _inference(Path(work), keep)
        _training(Path(work), keep)
        _legacy(Path(work), keep)
    save_file(tensors, out / "saelens.safetensors", metadata=settings)
    _bundled(bundled, out)


def _inference(work: Path, keep: Any) -> None:
    from sae_lens import SAE

    for seed, (case, cfg) in enumerate(inference_cases().items()):
        sae = SAE.from_dict(cfg)
        random_weights(sae, seed)
        folder = work / case
        sae.save_model(folder)
        x = inputs(seed)
        loaded = SAE.load_from_disk(folder)
        back = loaded
        if cfg["normalize_activations"] == "expected_average_only_in":
            loaded.fold_activation_norm_scaling_factor(FACTOR)
        with torch.no_grad():
            keep(case, folder, x, back.encode(x))


def _training(work: Path, keep: Any) -> None:
    from sae_lens import SAE
    from sae_lens.registry import get_sae_training_class

    for seed, (case, (kind, cfg)) in enumerate(training_cases().items()):
        sae_class, cfg_class = get_sae_training_class(kind)
        sae = sae_class(cfg_class(**cfg))
        random_weights(sae, 100 + seed)
        sae.topk_threshold = torch.tensor(0.8, dtype=torch.float64)
        folder, checkpoint = work / case, work / f"{case}-checkpoint"
        sae.save_inference_model(folder)
        sae.save_model(checkpoint)
        x = inputs(100 + seed)
        with torch.no_grad():
            acts = SAE.load_from_disk(folder).encode(x)
        keep(f"{case}-inference", folder, x, acts)
        keep(f"{case}-checkpoint", checkpoint, x, acts)


def _legacy(work: Path, keep: Any) -> None:
    """Folders of SAELens before 6.0, by its own way of reading them."""
    from sae_lens import SAE

    old = {
        "d_in": D, "d_sae": N, "dtype": "torch.float32", "device": "cpu",
        "model_name": "gpt2-small", "hook_point": "blocks.8.hook_resid_pre", "hook_point_layer": 8,
        "prepend_bos": True, "context_size": 128, "normalize_activations": False,
    }  # fmt: skip
    cases = {
        "legacy-standard": old,
        "legacy-topk": {**old, "activation_fn_str": "topk", "activation_fn_kwargs": {"k": K}},
    }
    for seed, (case, cfg) in enumerate(cases.items()):
        sae = SAE.from_dict({"architecture": "standard", "d_in": D, "d_sae": N})
        random_weights(sae, 200 + seed)
        folder = work / case
        sae.save_model(folder)
        (folder / "cfg.json").write_text(json.dumps(cfg))
        x = inputs(200 + seed)
        with torch.no_grad():
            keep(case, folder, x, SAE.load_from_disk(folder).encode(x))


def _bundled(bundled: Path, out: Path) -> None:
    from sae_lens import SAE

    tensors: dict[str, torch.Tensor] = {}
    about: dict[str, str] = {}
    for folder in sorted(p.parent for p in bundled.glob("*/cfg.json")):
        weights = folder / "sae_weights.safetensors"
        saved = load_file(weights)
        loaded = SAE.load_from_disk(folder)
        state = loaded.state_dict()
        same = state.keys() == saved.keys() and all(torch.equal(state[k], saved[k]) for k in saved)
        x = inputs(7, loaded.cfg.d_in) * 3
        with torch.no_grad():
            acts = SAE.load_from_disk(folder, dtype="float32").encode(x)
        kept = acts.to_sparse()
        tensors[f"{folder.name}/x"] = x
        tensors[f"{folder.name}/where"] = kept.indices().contiguous()
        tensors[f"{folder.name}/acts"] = kept.values().contiguous()
        about[folder.name] = json.dumps(
            {
                "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
                "same_bits": bool(same),
                "hook_name": loaded.cfg.metadata.hook_name,
                "model_name": loaded.cfg.metadata.model_name,
            }
        )
    if tensors:
        save_file(tensors, out / "bundled.safetensors", metadata=about)


if __name__ == "__main__":
    main()

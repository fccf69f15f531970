"""Concept activations by sae-lens, as golden figures: run by `make parity`.

    python tools/make_parity_saelens.py OUT_FOLDER BUNDLED_FOLDER

saelens.safetensors holds, for each case, the weights as sae-lens saved them, inputs and what
sae-lens makes of them; its metadata holds each case's cfg.json. published.safetensors holds what
sae-lens makes of the other formats, as tests/concepts/formats_cases.py writes them.
bundled.safetensors holds what it makes of the bundled dictionaries, their weights' hash, and
whether sae-lens loads them bit for bit.
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
        cfg = json.loads((folder / "cfg.json").read_text())
        settings[case] = json.dumps(cfg, sort_keys=True)

    with tempfile.TemporaryDirectory() as work:
        _inference(Path(work), keep)
        _training(Path(work), keep)
        _legacy(Path(work), keep)
    write(out / "saelens.safetensors", tensors, settings)
    _published(out)
    _bundled(bundled, out)


def write(file: Path, tensors: dict[str, torch.Tensor], about: dict[str, str]) -> None:
    """Writes tensors and, as one key (several come in any order), what is said of each case."""
    save_file(tensors, file, metadata={"cases": json.dumps(about, sort_keys=True)})


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


# Case: sae-lens' loader, the repository and the path in it that the loader is given. sparsify is
# not among them: sae-lens expects its decoder the other way round than sparsify saves it.
PUBLISHED = {
    "gemma_scope": (
        "gemma_2", "google/gemma-scope-2b-pt-res", "layer_20/width_16k/average_l0_71",
    ),
    "llama_scope": ("llama_scope", "fnlp/Llama3_1-8B-Base-LXR-8x", "Llama3_1-8B-Base-L15R-8x"),
    "goodfire": (
        "goodfire", "Goodfire/Llama-3.1-8B-Instruct-SAE-l19", "Llama-3.1-8B-Instruct-SAE-l19.pth",
    ),
    "deepseek": (
        "deepseek_r1", "qresearch/DeepSeek-R1-Distill-Llama-8B-SAE-l19",
        "DeepSeek-R1-Distill-Llama-8B-SAE-l19.pt",
    ),
    "AutoEncoder": ("dictionary_learning_1", "x/y", "AutoEncoder"),
    "GatedAutoEncoder": ("dictionary_learning_1", "x/y", "GatedAutoEncoder"),
    "AutoEncoderTopK": ("dictionary_learning_1", "x/y", "AutoEncoderTopK"),
    "BatchTopKSAE": ("dictionary_learning_1", "x/y", "BatchTopKSAE"),
    "MatryoshkaBatchTopKSAE": ("dictionary_learning_1", "x/y", "MatryoshkaBatchTopKSAE"),
    "JumpReluAutoEncoder": ("dictionary_learning_1", "x/y", "JumpReluAutoEncoder"),
}  # fmt: skip


def _published(out: Path) -> None:
    from sae_lens import SAE
    from sae_lens.loading import pretrained_sae_loaders as loaders

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "concepts"))
    import formats_cases

    tensors: dict[str, torch.Tensor] = {}
    for seed, (case, (name, repo, path)) in enumerate(PUBLISHED.items()):
        with tempfile.TemporaryDirectory() as work:
            place = formats_cases.MAKERS[case](Path(work)).place

            def fetch(_repo: str = "", filename: str = "", place: Path = place, **_: Any) -> str:
                if place.is_file():
                    return str(place)
                kept = Path(filename).parts
                inside = place / kept[-1]
                return str(inside if inside.exists() else place / "checkpoints" / kept[-1])

            loaders.hf_hub_download = lambda *a, fetch=fetch, **k: fetch(
                *a, **{("_repo" if n == "repo_id" else n): v for n, v in k.items()}
            )
            load = loaders.NAMED_PRETRAINED_SAE_LOADERS[name]
            cfg, state, _ = load(repo, path, "cpu", False, {"dtype": "float32"})
            cfg = loaders.handle_config_defaulting(cfg)
            cfg |= {"d_in": formats_cases.D, "d_sae": formats_cases.N}
            sae = SAE.from_dict(cfg)
            state = {k: v.clone() for k, v in state.items() if v is not None}
            sae.process_state_dict_for_loading(state)
            sae.load_state_dict(state)
            if cfg["normalize_activations"] == "expected_average_only_in":
                sae.fold_activation_norm_scaling_factor(formats_cases.D**0.5 / 5.0)
            x = inputs(300 + seed, formats_cases.D)
            with torch.no_grad():
                tensors[f"{case}/x"], tensors[f"{case}/acts"] = x, sae.encode(x).contiguous()
    save_file(tensors, out / "published.safetensors")


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
        write(out / "bundled.safetensors", tensors, about)


if __name__ == "__main__":
    main()

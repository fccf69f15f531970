"""Writing a trained dictionary as a SAELens folder: cfg.json + sae_weights.safetensors.

SAELens loads it as it is, bit for bit (checked by `make parity`). What SAELens has no key for
stands under metadata.thetascope.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thetascope.concepts.formats.saelens import CFG, WEIGHTS
from thetascope.concepts.hook import Hook
from thetascope.concepts.train_config import TrainConfig
from thetascope.errors import InputError
from thetascope.study import files

if TYPE_CHECKING:
    from thetascope.concepts.training import Trained

SAELENS_VERSION = "6.54.12"
"""The version whose format this is; from 6 on SAELens reads the hook under metadata."""


def save_dictionary(
    trained: Trained,
    config: TrainConfig,
    harvest: dict[str, Any],
    folder: Path,
    *,
    model_name: str | None = None,
    dtype: str = "float16",
) -> None:
    """Writes a dictionary; cfg.json is written last.

    Args:
        trained: What training gave.
        config: Its settings.
        harvest: The harvest's manifest: model, hook, prefix, context size.
        folder: Where; made if need be.
        model_name: The language model's public name, where `harvest` has another.
        dtype: Of the weights on disk: float16, bfloat16 or float32.

    Raises:
        InputError: A weight does not fit the dtype.
    """
    import torch
    from safetensors.torch import save_file

    kind = getattr(torch, dtype)
    w = trained.weights
    tensors = {"W_enc": w.enc.T, "b_enc": w.b_enc, "W_dec": w.dec, "b_dec": w.b_dec}
    if trained.threshold is not None:
        tensors["threshold"] = torch.full_like(w.b_enc, trained.threshold)
    kept = {k: v.to("cpu", kind).contiguous() for k, v in tensors.items()}
    for name, tensor in kept.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(f"{name} does not fit {dtype}", field="dtype", fix="use float32")
    folder.mkdir(parents=True, exist_ok=True)
    files.write_aside(folder / WEIGHTS, lambda aside: save_file(kept, aside))
    files.write_json(folder / CFG, _settings(trained, config, harvest, model_name, dtype))


def _settings(
    trained: Trained,
    config: TrainConfig,
    harvest: dict[str, Any],
    model_name: str | None,
    dtype: str,
) -> dict[str, Any]:
    model = harvest["language_model"]
    layer, _, site = model["hook"].partition(".")
    n, d = trained.weights.enc.shape
    batch = config.activation == "batchtopk"
    return {
        "architecture": "jumprelu" if batch else "topk",
        "d_in": d,
        "d_sae": n,
        "dtype": dtype,
        "device": "cpu",
        **({} if batch else {"k": config.k, "rescale_acts_by_decoder_norm": False}),
        "apply_b_dec_to_input": True,
        "normalize_activations": "none",
        "reshape_activations": "none",
        "metadata": {
            "sae_lens_version": SAELENS_VERSION,
            "sae_lens_training_version": None,
            "model_name": model_name or harvest["model"],
            "hook_name": Hook(int(layer), "input" if site == "input" else "output").saelens,
            "prepend_bos": harvest["prefix"]["id"] is not None,
            "context_size": harvest["max_tokens"],
            "exclude_special_tokens": not model["count_all"],
            "thetascope": {
                "model_fingerprint": model["fingerprint"],
                "template": model["template"],
                "prefix": harvest["prefix"],
                "tokens_seen": trained.tokens_seen,
                "k": config.k,
                "activation": config.activation,
                "seed": config.seed,
            },
        },
    }

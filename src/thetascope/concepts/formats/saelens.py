"""SAELens folders: cfg.json + sae_weights.safetensors, every version since the first.

What changed over the versions, and what is done about it here:
- before 6.0 model and hook stand at the top of cfg.json, since then under "metadata"; SAELens
  itself reads the second only where metadata.sae_lens_version is 6 or more. Both are looked at.
- "hook_point" became "hook_name"; `activation_fn_str: topk` with `activation_fn_kwargs.k` became
  the architecture "topk"; `normalize_activations` was a bool.
- `expected_average_only_in` scales hidden states by a factor that is not in the folder (but for
  training checkpoints, in activation_scaler.json) and that SAELens' load_from_disk leaves out.
  Here it is asked for.
- a training checkpoint of BatchTopK or Matryoshka holds `topk_threshold`; saved for inference it
  is a JumpReLU with thresholds.
- a `scaling_factor` tensor of ones was saved for a time; others multiply decoder rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thetascope.concepts.dictionary import Activation, Normalise
from thetascope.concepts.formats.build import Draft, Overrides
from thetascope.concepts.formats.tensors import load_safetensors, load_settings
from thetascope.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

CFG, WEIGHTS = "cfg.json", "sae_weights.safetensors"
_SCALER = "activation_scaler.json"
_ACTIVATIONS: dict[str, Activation] = {
    "standard": "relu",
    "gated": "gated",
    "jumprelu": "jumprelu",
    "topk": "topk",
    "batchtopk": "jumprelu",
    "matryoshka_batchtopk": "jumprelu",
}
_TRAINING = ("batchtopk", "matryoshka_batchtopk")


def read(folder: Path, given: Overrides) -> Draft:
    """Reads a SAELens folder.

    Raises:
        InputError: Its files are damaged, its architecture is none that encodes a residual
            stream, or its normalisation factor is not known.
    """
    cfg = load_settings(folder / CFG)
    about = {**cfg, **(cfg.get("metadata") or {})}
    architecture = _architecture(cfg, folder)
    tensors = load_safetensors(folder / WEIGHTS)
    if "b_gate" in tensors:
        tensors["b_enc"] = tensors.pop("b_gate")
    if architecture in _TRAINING and "topk_threshold" in tensors:
        tensors["threshold"] = tensors.pop("topk_threshold")
    _scale_decoder(tensors, cfg, folder)
    if str(cfg.get("reshape_activations", "none")) != "none":
        raise InputError("is a dictionary of attention heads, not of the residual stream",
                         file=folder / CFG, field="reshape_activations")  # fmt: skip
    normalise, scale = _normalisation(cfg, given, folder)
    ours = about.get("thetascope") or {}
    return Draft(
        activation=_ACTIVATIONS[architecture],
        tensors=tensors,
        file=folder / WEIGHTS,
        source="SAELens",
        k=_k(cfg, folder),
        normalise=normalise,
        scale=scale,
        subtract_b_dec=bool(cfg.get("apply_b_dec_to_input", True)),
        scaled_by_decoder=bool(
            cfg.get("rescale_acts_by_decoder_norm", architecture in _TRAINING)
            and architecture in ("topk", *_TRAINING)
        ),
        model=about.get("model_name"),
        hook=about.get("hook_name") or about.get("hook_point"),
        prefix=about.get("prepend_bos"),
        context_size=about.get("context_size"),
        width=cfg.get("d_sae"),
        d_in=cfg.get("d_in"),
        model_fingerprint=ours.get("model_fingerprint"),
        template=ours.get("template"),
    )


def _architecture(cfg: dict[str, Any], folder: Path) -> str:
    found = str(cfg.get("architecture") or "standard")
    function = cfg.get("activation_fn_str") or cfg.get("activation_fn") or "relu"
    if found == "standard" and function == "topk":
        found = "topk"
    elif function not in ("relu", "topk"):
        raise InputError(
            f"has the activation {function!r}; read are relu and topk",
            file=folder / CFG,
            field="activation_fn",
        )
    if found not in _ACTIVATIONS:
        raise InputError(
            f"expected one of {', '.join(_ACTIVATIONS)}, found {found!r}",
            file=folder / CFG,
            field="architecture",
        )
    return found


def _k(cfg: dict[str, Any], folder: Path) -> int | None:
    found = cfg.get("k")
    if found is None:
        found = (cfg.get("activation_fn_kwargs") or {}).get("k")
    if found is None:
        return None
    try:
        return int(found)
    except (TypeError, ValueError):
        raise InputError(
            f"expected a number, found {found!r}", file=folder / CFG, field="k"
        ) from None


def _normalisation(cfg: dict[str, Any], given: Overrides, folder: Path) -> tuple[Normalise, float]:
    found = given.normalise or cfg.get("normalize_activations") or "none"
    if found is True:
        found = "expected_average_only_in"
    factor = given.norm_factor
    if found == "expected_average_only_in":
        if factor is None and (folder / _SCALER).is_file():
            factor = load_settings(folder / _SCALER).get("scaling_factor")
        if factor is None:
            raise InputError(
                "scales hidden states by a factor that is not in the folder",
                file=folder / CFG,
                field="normalize_activations",
                fix="give norm_factor: sqrt(width) / mean length of the hidden states, or 1 if"
                " it is already in the weights",
            )
        return "none", float(factor)
    if found == "none":
        return "none", 1.0 if factor is None else float(factor)
    if found in ("layer_norm", "constant_norm_rescale"):
        return found, 1.0
    raise InputError(
        f"has the normalisation {found!r}, which is not read",
        file=folder / CFG,
        field="normalize_activations",
    )


def _scale_decoder(tensors: dict[str, Tensor], cfg: dict[str, Any], folder: Path) -> None:
    """Takes the scaling factor of a fine-tuning into the decoder, which alone it concerns."""
    import torch

    factor = tensors.pop("scaling_factor", None)
    if factor is None:
        factor = tensors.pop("finetuning_scaling_factor", None)
    if factor is None or torch.allclose(factor.float(), torch.ones_like(factor).float()):
        return
    if not cfg.get("finetuning_scaling_factor"):
        raise InputError(
            "holds a scaling_factor that cfg.json says nothing of", file=folder / WEIGHTS
        )
    tensors["W_dec"] = tensors["W_dec"] * factor[:, None]

"""Gemma Scope (params.npz) and Llama Scope (hyperparams.json + a safetensors checkpoint)."""

from __future__ import annotations

import re
from pathlib import Path

from thetascope.concepts.formats.build import Draft, Overrides, transposed
from thetascope.concepts.formats.tensors import load_npz, load_safetensors, load_settings
from thetascope.errors import InputError

_GEMMA = re.compile(r"gemma-scope-(2b|9b|27b)-(pt|it)-(res|mlp|att)")


def read_gemma_scope(place: Path, given: Overrides) -> Draft:
    """Reads Gemma Scope's params.npz: JumpReLU, a threshold a latent, nothing subtracted.

    The file says neither model nor layer; they come from a path that is kept as published
    (gemma-scope-2b-pt-res/layer_20/width_16k/average_l0_71), or from the overrides.

    Raises:
        InputError: The file is damaged, or is of an attention or MLP output.
    """
    file = place / "params.npz" if place.is_dir() else place
    arrays = load_npz(file)
    path = file.absolute().as_posix()
    model, hook = given.model, given.hook
    if found := _GEMMA.search(path):
        size, kind, site = found.groups()
        if site != "res":
            raise InputError("is of an attention or MLP output, not the residual stream", file=file)
        model = model or f"google/gemma-2-{size}{'-it' if kind == 'it' else ''}"
    if hook is None and (layer := re.search(r"layer_(\d+)(?:/|$)", path)):
        hook = layer.group(1)
    return Draft(
        activation="jumprelu",
        tensors=transposed(
            arrays, W_enc="W_enc", b_enc="b_enc", W_dec="W_dec", b_dec="b_dec",
            threshold="threshold",
        ),
        file=file,
        source="Gemma Scope",
        model=model,
        hook=hook,
        prefix=True,
        context_size=1024,
    )  # fmt: skip


def read_llama_scope(folder: Path, given: Overrides) -> Draft:
    """Reads a Llama Scope folder: JumpReLU with one threshold, hidden states scaled.

    The factor is sqrt(d) / the average norm in hyperparams.json; the threshold is in units of
    that scale too. Without the gate about 1,089 latents are active on a token instead of 42.

    Raises:
        InputError: A file is missing or damaged, or a figure is not in hyperparams.json.
    """
    settings = load_settings(folder / "hyperparams.json")
    file = folder / "checkpoints" / "final.safetensors"
    if not file.is_file():
        file = folder / "final.safetensors"
    tensors = load_safetensors(file)
    try:
        d_in = int(settings["d_model"])
        factor = d_in**0.5 / float(settings["dataset_average_activation_norm"]["in"])
        threshold = float(settings["jump_relu_threshold"]) * factor
        hook = str(settings["hook_point_in"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError(
            f"lacks what a Llama Scope folder has: {error}", file=folder / "hyperparams.json"
        ) from None
    import torch

    return Draft(
        activation="jumprelu",
        tensors={
            **transposed(
                tensors, W_enc="encoder.weight T", b_enc="encoder.bias",
                W_dec="decoder.weight T", b_dec="decoder.bias",
            ),
            "threshold": torch.tensor(threshold),
        },
        file=file,
        source="Llama Scope",
        scale=factor if given.norm_factor is None else given.norm_factor,
        model="meta-llama/Llama-3.1-8B",
        hook=hook,
        prefix=True,
        context_size=1024,
        d_in=d_in,
        width=settings.get("d_sae"),
    )  # fmt: skip

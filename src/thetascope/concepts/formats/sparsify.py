"""EleutherAI sparsify: a folder per hook with cfg.json + sae.safetensors, TopK.

The decoder's bias is taken off the input unless the folder is a transcoder; layers are counted
from 0 and "layers.10" is the output of block 10.
"""

from __future__ import annotations

from pathlib import Path

from thetascope.concepts.formats.build import Draft, Overrides, transposed
from thetascope.concepts.formats.tensors import load_safetensors, load_settings
from thetascope.errors import InputError

WEIGHTS = "sae.safetensors"


def read(folder: Path, given: Overrides) -> Draft:
    """Reads one hook's folder, named after the hook (layers.10).

    Raises:
        InputError: A file is damaged, or it is a transcoder, signed or grouped dictionary.
    """
    cfg_file = folder / "cfg.json"
    cfg = load_settings(cfg_file)
    for field in ("transcode", "signed", "skip_connection"):
        if cfg.get(field):
            raise InputError("is not a plain dictionary", file=cfg_file, field=field)
    if cfg.get("activation", "topk") != "topk":
        raise InputError(
            f"expected topk, found {cfg['activation']!r}", file=cfg_file, field="activation"
        )
    tensors = load_safetensors(folder / WEIGHTS)
    names = {"W_enc": "encoder.weight T", "b_enc": "encoder.bias", "b_dec": "b_dec"}
    names["W_dec"] = "W_dec" if "W_dec" in tensors else "decoder.weight T"
    above = folder.parent / "config.json"
    run = load_settings(above) if above.is_file() else {}
    d_in = cfg.get("d_in")
    width = cfg.get("num_latents") or (d_in and d_in * cfg.get("expansion_factor", 0)) or None
    name = folder.absolute().name
    return Draft(
        activation="topk",
        tensors=transposed(tensors, **names),
        file=folder / WEIGHTS,
        source="sparsify",
        k=cfg.get("k"),
        subtract_b_dec=True,
        model=run.get("model"),
        hook=name if any(c.isdigit() for c in name) else None,
        context_size=run.get("ctx_len"),
        width=width,
        d_in=d_in,
    )

"""Dictionaries that are published as torch files, read with weights_only: tensors, no code.

dictionary_learning folders (ae.pt + config.json), Goodfire's Llama dictionaries, Qwen Scope's
layerN.sae.pt and qresearch's DeepSeek-R1 dictionary.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thetascope.concepts.dictionary import Activation
from thetascope.concepts.formats.build import Draft, Overrides, transposed
from thetascope.concepts.formats.tensors import load_pickled, load_settings
from thetascope.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

_GOODFIRE = re.compile(r"(Llama-3\.\d-\d+B-Instruct)-SAE-l(\d+)")
_QWEN = re.compile(r"SAE-Res-(Qwen[\w.-]+?)-W\d+K-L0_(\d+)")
_DEEPSEEK = re.compile(r"(DeepSeek-R1-Distill-[\w.-]+?)-SAE-l(\d+)")
_DICT_CLASSES: dict[str, Activation] = {
    "AutoEncoder": "relu",
    "AutoEncoderNew": "relu",
    "GatedAutoEncoder": "gated",
    "AutoEncoderTopK": "topk",
    "JumpReluAutoEncoder": "jumprelu",
    "BatchTopKSAE": "jumprelu",
    "MatryoshkaBatchTopKSAE": "jumprelu",
}


def read_dictionary_learning(folder: Path, given: Overrides) -> Draft:
    """Reads a dictionary_learning folder.

    The bias is taken off the input but for JumpReluAutoEncoder and AutoEncoderNew; BatchTopK
    is read by its threshold, TopK by its k although it saves a threshold too.

    Raises:
        InputError: A file is damaged, or the class is not one of a residual-stream dictionary.
    """
    settings = load_settings(folder / "config.json")
    trainer: dict[str, Any] = settings.get("trainer") or {}
    kind = str(trainer.get("dict_class"))
    if kind not in _DICT_CLASSES:
        raise InputError(
            f"expected one of {', '.join(_DICT_CLASSES)}, found {kind}",
            file=folder / "config.json",
            field="dict_class",
        )
    file = folder / "ae.pt"
    found = load_pickled(file)
    layer = trainer.get("layer")
    return Draft(
        activation=_DICT_CLASSES[kind],
        tensors=_dictionary_learning_tensors(found),
        file=file,
        source=f"dictionary_learning {kind}",
        k=int(trainer["k"]) if trainer.get("k") else None,
        subtract_b_dec=kind not in ("JumpReluAutoEncoder", "AutoEncoderNew"),
        model=trainer.get("lm_name"),
        hook=None if layer is None else str(layer),
        prefix=True,
        context_size=(settings.get("buffer") or {}).get("ctx_len"),
        width=trainer.get("dict_size"),
        d_in=trainer.get("activation_dim"),
    )


def read_torch_file(file: Path, given: Overrides) -> Draft:
    """Reads a single torch file: Goodfire, Qwen Scope or qresearch, told by its tensors.

    Model, layer and k come from the file's or its folder's published name, or the overrides.

    Raises:
        InputError: It is damaged, of none of these kinds, or its k is not known.
    """
    found = load_pickled(file)
    path = file.absolute().as_posix()
    if "encoder_linear.weight" in found:
        return _linear(found, file, path, "Goodfire", "_linear", _GOODFIRE, "meta-llama/")
    if "encoder.weight" in found:
        return _linear(found, file, path, "qresearch", "", _DEEPSEEK, "deepseek-ai/")
    if {"W_enc", "W_dec", "b_enc", "b_dec"} <= found.keys():
        return _qwen_scope(found, file, path, given)
    raise InputError(
        f"is no dictionary that is known; its tensors are {', '.join(sorted(found)[:8])}", file=file
    )


def _linear(
    found: dict[str, Tensor],
    file: Path,
    path: str,
    source: str,
    suffix: str,
    pattern: re.Pattern[str],
    owner: str,
) -> Draft:
    named = pattern.search(path)
    return Draft(
        activation="relu",
        tensors=transposed(
            found,
            W_enc=f"encoder{suffix}.weight T", b_enc=f"encoder{suffix}.bias",
            W_dec=f"decoder{suffix}.weight T", b_dec=f"decoder{suffix}.bias",
        ),
        file=file,
        source=source,
        model=owner + named.group(1) if named else None,
        hook=named.group(2) if named else None,
        prefix=True,
    )  # fmt: skip


def _qwen_scope(found: dict[str, Tensor], file: Path, path: str, given: Overrides) -> Draft:
    named = _QWEN.search(path)
    layer = re.search(r"layer(\d+)\.sae\.pt$", path)
    k = given.k or (int(named.group(2)) if named else None)
    if k is None:
        raise InputError(
            "the number of active latents is not in the file", file=file, field="k",
            fix="keep the published folder's name (...-L0_50), or give k",
        )  # fmt: skip
    return Draft(
        activation="topk",
        tensors=transposed(found, W_enc="W_enc T", b_enc="b_enc", W_dec="W_dec T", b_dec="b_dec"),
        file=file,
        source="Qwen Scope",
        k=k,
        model=f"Qwen/{named.group(1)}" if named else None,
        hook=layer.group(1) if layer else None,
        prefix=True,
        context_size=1024,
    )


def _dictionary_learning_tensors(found: dict[str, Tensor]) -> dict[str, Tensor]:
    if "W_enc" in found:
        names = {"W_enc": "W_enc", "b_enc": "b_enc", "W_dec": "W_dec", "b_dec": "b_dec"}
    else:
        names = {"W_enc": "encoder.weight T", "W_dec": "decoder.weight T"}
        names["b_enc"] = "gate_bias" if "gate_bias" in found else "encoder.bias"
        names["b_dec"] = next(
            (n for n in ("b_dec", "bias", "decoder_bias", "decoder.bias") if n in found), "b_dec"
        )
    return transposed(found, **names, threshold="threshold", r_mag="r_mag", b_mag="mag_bias")

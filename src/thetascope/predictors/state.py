"""A fitted predictor as two files: `config.json` and `weights.safetensors`.

What a predictor is made of (its settings, what it learnt, its members) is written as a tree:
arrays go into the safetensors file under the path at which they stand, everything else into
the JSON. Only the classes named in `_CLASSES` are ever made when a tree is read; nothing in a
file is executed, and no torch is needed. The same fit gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from thetascope.errors import InputError
from thetascope.study import files

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
Tensors = dict[str, NDArray[Any]]

_CLASSES = {
    "Blend": "blend", "Extension": "blend", "JEIRT": "jeirt", "PlainJEIRT": "jeirt",
    "ContextJEIRT": "jeirt", "KNN": "knn", "WeightedKNN": "knn", "ModelMean": "means",
    "ModelBenchmarkMean": "means", "ModelSubjectMean": "means", "Ridge": "ridge",
    "EmbedLLM": "embedllm", "OnePL": "irt", "TwoPL": "irt", "MIRT": "irt", "TextMIRT": "irt",
    "Fitted": "irt_fit", "Prior": "irt_fit", "FittedMIRT": "mirt_fit", "TextPrior": "text_prior",
    "Residuals": "jeirt_residual",
}  # fmt: skip
"""Class -> the module of this package that has it."""


def write_state(fitted: Any, name: str, folder: Path) -> None:
    """Writes a fitted predictor into a folder; `config.json` comes last.

    Args:
        fitted: The predictor; an attribute that its class names in `TRANSIENT` is left out.
        name: Its name, for whoever reads the JSON.
        folder: An existing folder.
    """
    tensors: Tensors = {}
    tree = _pack(fitted, "", tensors)
    files.write_aside(folder / WEIGHTS, lambda aside: save_file(tensors, aside))
    files.write_json(folder / CONFIG, {"predictor": name, "fit": tree})


def read_state(folder: Path) -> Any:
    """Reads what `write_state` wrote.

    Raises:
        InputError: A file is missing or damaged; one line says which.
    """
    try:
        config = files.read_json(folder / CONFIG)
    except (OSError, ValueError) as error:
        raise InputError(f"is no readable fit: {error}", file=folder) from None
    try:
        tensors = load_file(folder / WEIGHTS)
    except OSError as error:
        raise InputError(f"is no readable fit: {error}", file=folder) from None
    except (SafetensorError, ValueError) as error:
        raise InputError(f"{WEIGHTS} is damaged: {error}", file=folder) from None
    try:
        return _unpack(config["fit"], tensors)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(
            f"{CONFIG} is damaged, or of an older thetascope ({type(error).__name__}: {error})",
            file=folder,
            fix="renew the fit with: thetascope fit STUDY",
        ) from None


def _pack(value: Any, path: str, tensors: Tensors) -> Any:
    if isinstance(value, np.ndarray):
        return _pack_array(value, path, tensors)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) in (list, tuple):
        inner = [_pack(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]
        return inner if isinstance(value, list) else {"tuple": inner}
    if isinstance(value, dict):
        return {"dict": [[k, _pack(v, f"{path}/{k}", tensors)] for k, v in value.items()]}
    name = type(value).__name__
    assert name in _CLASSES, f"{name} cannot be saved"
    return {"class": name, "state": _pack(_attributes(value), path, tensors)}


def _attributes(value: Any) -> dict[str, Any]:
    if isinstance(value, tuple):  # a NamedTuple
        return value._asdict()  # type: ignore[attr-defined]
    transient = getattr(type(value), "TRANSIENT", ())
    return {k: v for k, v in vars(value).items() if k not in transient}


def _pack_array(value: NDArray[Any], path: str, tensors: Tensors) -> dict[str, Any]:
    name = path.lstrip("/")
    turned = value.flags.f_contiguous and not value.flags.c_contiguous
    tensors[name] = np.ascontiguousarray(value.T if turned else value)
    # The order in memory is kept: products of the same numbers in another order may differ in
    # the last digit.
    return {"tensor": name, "turned": True} if turned else {"tensor": name}


def _unpack(tree: Any, tensors: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(tree, list):
        return [_unpack(v, tensors) for v in tree]
    if not isinstance(tree, dict):
        return tree
    if "tensor" in tree:
        array = tensors[tree["tensor"]]
        return array.T if tree.get("turned") else array
    if "float" in tree:
        return float(tree["float"])
    if "tuple" in tree:
        return tuple(_unpack(v, tensors) for v in tree["tuple"])
    if "dict" in tree:
        return {k: _unpack(v, tensors) for k, v in tree["dict"]}
    name = tree["class"]
    kind = getattr(import_module(f"thetascope.predictors.{_CLASSES[name]}"), name)
    state = _unpack(tree["state"], tensors)
    if issubclass(kind, tuple):
        return kind(**state)
    made = object.__new__(kind)
    made.__dict__.update(state)
    return made

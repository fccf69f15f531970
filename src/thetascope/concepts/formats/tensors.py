"""Reading weight files without running anything in them, and one line for each that is broken."""

from __future__ import annotations

import pickle
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thetascope.errors import InputError, MissingExtra
from thetascope.study import files

if TYPE_CHECKING:
    from torch import Tensor


def load_safetensors(file: Path) -> dict[str, Tensor]:
    """Reads a safetensors file.

    Raises:
        MissingExtra: torch is not installed.
        InputError: It is missing, cut short or damaged.
    """
    need_torch()
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    _must_be_there(file)
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"is damaged or cut short: {error}", file=file) from None


def load_pickled(file: Path) -> dict[str, Tensor]:
    """Reads a torch file (.pt, .pth) of tensors, and nothing but tensors.

    Raises:
        MissingExtra: torch is not installed.
        InputError: It is missing or damaged, or would run code.
    """
    need_torch()
    import torch

    _must_be_there(file)
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(
            "holds a pickle of more than tensors, which is never opened",
            file=file,
            fix="save its state_dict as safetensors",
        ) from None
    except (RuntimeError, OSError, ValueError, EOFError, KeyError) as error:
        raise InputError(f"is damaged or cut short: {error}", file=file) from None
    if not isinstance(found, dict):
        raise InputError(f"expected named tensors, found a {type(found).__name__}", file=file)
    tensors = {str(k): v for k, v in found.items() if isinstance(v, torch.Tensor)}
    if not tensors:
        raise InputError("holds no tensor", file=file)
    return tensors


def load_npz(file: Path) -> dict[str, Tensor]:
    """Reads a NumPy archive of arrays.

    Raises:
        MissingExtra: torch is not installed.
        InputError: It is missing, damaged, or holds a pickle.
    """
    need_torch()
    import torch

    _must_be_there(file)
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {k: torch.from_numpy(archive[k].astype(np.float32)) for k in archive.files}
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise InputError("holds a pickle, which is never opened", file=file) from None
        raise InputError(f"is damaged: {error}", file=file) from None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"is damaged or cut short: {error}", file=file) from None


def load_settings(file: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        InputError: It is missing or no JSON object.
    """
    _must_be_there(file)
    try:
        found = files.read_json(file)
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", file=file) from None
    if not isinstance(found, dict):
        raise InputError("expected a JSON object", file=file)
    return found


def need_torch() -> None:
    """Raises MissingExtra where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra("reading a dictionary", "sae") from None


def _must_be_there(file: Path) -> None:
    if not file.is_file():
        raise InputError("no such file", file=file)

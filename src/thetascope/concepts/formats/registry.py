"""Which reader takes which file or folder, and reading a dictionary by any of its names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from thetascope.concepts.dictionary import Dictionary
from thetascope.concepts.formats import saelens, scopes, sparsify, torch_files
from thetascope.concepts.formats.build import Draft, Overrides, build
from thetascope.concepts.formats.catalogue import Found, find
from thetascope.errors import InputError
from thetascope.study import files


class Format(NamedTuple):
    """A format: what it looks like, and its reader."""

    name: str
    takes: Callable[[Path], bool]
    read: Callable[[Path, Overrides], Draft]
    shape: str


FORMATS = (
    Format("saelens", lambda p: _has(p, saelens.CFG, saelens.WEIGHTS), saelens.read,
           "cfg.json + sae_weights.safetensors"),
    Format("sparsify", lambda p: _has(p, "cfg.json", sparsify.WEIGHTS), sparsify.read,
           "cfg.json + sae.safetensors"),
    Format("gemma-scope", lambda p: p.suffix == ".npz" or _has(p, "params.npz"),
           scopes.read_gemma_scope, "params.npz"),
    Format("llama-scope", lambda p: _has(p, "hyperparams.json"), scopes.read_llama_scope,
           "hyperparams.json + checkpoints/final.safetensors"),
    Format("dictionary-learning", lambda p: _has(p, "config.json", "ae.pt"),
           torch_files.read_dictionary_learning, "config.json + ae.pt"),
    Format("torch", lambda p: p.suffix in (".pt", ".pth"), torch_files.read_torch_file,
           "one .pt or .pth file (Goodfire, Qwen Scope, qresearch)"),
)  # fmt: skip
"""In the order in which they are tried."""


def read_dictionary(
    name: str | Path,
    given: Overrides | None = None,
    *,
    dtype: str = "float32",
    device: str = "cpu",
) -> Dictionary:
    """Reads a dictionary.

    Args:
        name: A folder or file in one of the formats; a preset (`catalogue.PRESETS`), among them
            "offline" and "offline-minilm", which come with thetascope; or
            "sae_lens:RELEASE/ID", an entry of SAELens' catalogue.
        given: What is known better than the files say it.
        dtype: Of the weights in memory: float32, bfloat16 or float16.
        device: "cpu" or "cuda".

    Raises:
        MissingExtra: torch, or SAELens' catalogue, is not installed.
        InputError: There is no such dictionary, or its files are damaged, of no known format,
            or do not fit each other.
    """
    found = find(str(name)) or Found(Path(name).expanduser())
    given = _merged(given or Overrides(), found.says)
    place = found.place
    if not place.exists():
        raise InputError("no such file or folder", file=place)
    for form in FORMATS:
        if form.takes(place):
            draft = form.read(place, given)
            return build(draft, given, dtype=dtype, device=device, fingerprint=_hash(draft.file))
    raise InputError(
        "is no dictionary that is known; expected "
        + "; or ".join(f"{form.shape}" for form in FORMATS),
        file=place,
    )


def _has(place: Path, *names: str) -> bool:
    return place.is_dir() and all((place / n).is_file() for n in names)


def _hash(weights: Path) -> str:
    """Of the weights and of the settings beside them."""
    parts = [files.hash_file(weights)]
    for settings in ("cfg.json", "config.json", "hyperparams.json"):
        beside = weights.parent / settings
        if weights.suffix != ".pth" and beside.is_file():
            parts.append(files.hash_file(beside))
    return files.hash_json(parts)


def _merged(given: Overrides, says: Overrides) -> Overrides:
    """The user's word, where there is none the catalogue's."""
    fields = {
        name: getattr(given, name) if getattr(given, name) is not None else getattr(says, name)
        for name in Overrides.__dataclass_fields__
    }
    return Overrides(**fields)

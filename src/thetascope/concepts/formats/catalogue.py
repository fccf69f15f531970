"""Dictionaries by name: those that come with thetascope, presets, and SAELens' catalogue.

A name only resolves to files and to what is known about them; reading is always native.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from thetascope.concepts.formats.build import Overrides
from thetascope.errors import InputError, MissingExtra

_BUNDLED = Path(__file__).parents[1] / "bundled"


class Found(NamedTuple):
    """Where a dictionary is, and what its catalogue says about it."""

    place: Path
    says: Overrides = Overrides()


class Preset(NamedTuple):
    """A published dictionary: its repository on the hub, the files, and what is known.

    Attributes:
        repo: Repository.
        files: Files to fetch, the first of which (or its folder) is read.
        folder: The folder that is read, where it is not one file.
        says: What is known about it.
        meaning: One line for a person.
    """

    repo: str
    files: tuple[str, ...]
    folder: str | None
    says: Overrides
    meaning: str


PRESETS: Mapping[str, Preset] = {
    "gemma-2-2b": Preset(
        "google/gemma-scope-2b-pt-res",
        ("layer_20/width_16k/average_l0_71/params.npz",),
        None,
        Overrides(model="google/gemma-2-2b", hook="20"),
        "Gemma Scope, layer 20, 16k; the CG paper's for Gemma 2 2B",
    ),
    "llama-3.1-8b-instruct": Preset(
        "Goodfire/Llama-3.1-8B-Instruct-SAE-l19",
        ("Llama-3.1-8B-Instruct-SAE-l19.pth",),
        None,
        Overrides(model="meta-llama/Llama-3.1-8B-Instruct", hook="19"),
        "Goodfire, layer 19, 65,536; the CG paper's main one",
    ),
    "llama-3.1-8b": Preset(
        "fnlp/Llama3_1-8B-Base-LXR-8x",
        tuple(
            f"Llama3_1-8B-Base-L19R-8x/{name}"
            for name in ("hyperparams.json", "checkpoints/final.safetensors")
        ),
        "Llama3_1-8B-Base-L19R-8x",
        Overrides(model="meta-llama/Llama-3.1-8B"),
        "Llama Scope, layer 19, 32k, for Llama 3.1 8B (base)",
    ),
    "mistral-7b": Preset(
        "JoshEngels/Mistral-7B-Residual-Stream-SAEs",
        ("mistral_7b_layer_16/cfg.json", "mistral_7b_layer_16/sae_weights.safetensors"),
        "mistral_7b_layer_16",
        Overrides(model="mistralai/Mistral-7B-v0.1", normalise="constant_norm_rescale"),
        "the input of block 16, 65,536, for Mistral 7B",
    ),
    "qwen3-8b": Preset(
        "Qwen/SAE-Res-Qwen3-8B-Base-W64K-L0_50",
        ("layer18.sae.pt",),
        None,
        Overrides(model="Qwen/Qwen3-8B-Base", hook="18", k=50),
        "Qwen Scope, layer 18, 65,536, for Qwen3 8B (base)",
    ),
    "deepseek-r1-distill-llama-8b": Preset(
        "qresearch/DeepSeek-R1-Distill-Llama-8B-SAE-l19",
        ("DeepSeek-R1-Distill-Llama-8B-SAE-l19.pt",),
        None,
        Overrides(model="deepseek-ai/DeepSeek-R1-Distill-Llama-8B", hook="19"),
        "qresearch, layer 19, 65,536, for DeepSeek-R1-Distill-Llama-8B",
    ),
}
"""Published dictionaries for the models of the CG paper, by a short name."""

BUNDLED: Mapping[str, str] = {
    "offline": "smollm2-135m-l14-8k",
    "offline-minilm": "minilm-l3-4k",
}
"""Dictionaries that come with thetascope, for the language models of the same names."""

# SAELens' loaders whose files are read here; the value says whether the path is a folder.
_LOADERS: Mapping[str, tuple[bool, tuple[str, ...]]] = {
    "sae_lens": (True, ("cfg.json", "sae_weights.safetensors")),
    "gemma_2": (True, ("params.npz",)),
    "llama_scope": (True, ("hyperparams.json", "checkpoints/final.safetensors")),
    "sparsify": (True, ("cfg.json", "sae.safetensors")),
    "dictionary_learning_1": (True, ("config.json", "ae.pt")),
    "goodfire": (False, ()),
    "deepseek_r1": (False, ()),
    "qwen_scope": (False, ()),
}


def find(name: str) -> Found | None:
    """Returns where a named dictionary is, fetched from the hub if need be; None for a path.

    Raises:
        MissingExtra: SAELens is not installed, for its catalogue; or the hub's client is not.
        InputError: The catalogue has no such entry, or it cannot be fetched.
    """
    if name in BUNDLED:
        return Found(_BUNDLED / BUNDLED[name])
    if preset := PRESETS.get(name):
        place = _fetch(preset.repo, preset.files, preset.folder)
        return Found(place, preset.says)
    if name.startswith("sae_lens:"):
        return _from_saelens(name.removeprefix("sae_lens:"))
    return None


def _from_saelens(entry: str) -> Found:
    release, _, number = entry.partition("/")
    table = _saelens_table()
    if release not in table:
        raise InputError(f"SAELens' catalogue has no release {release!r}", field="dictionary")
    about = table[release]
    rows = {str(row["id"]): row for row in about["saes"]}
    if number not in rows:
        some = ", ".join(list(rows)[:5])
        raise InputError(
            f"the release {release} has no {number!r}; it has {some}{' ...' * (len(rows) > 5)}",
            field="dictionary",
        )
    row = rows[number]
    loader = about.get("conversion_func") or "sae_lens"
    if loader not in _LOADERS:
        raise InputError(
            f"the release {release} is in the format {loader!r}, which is not read;"
            f" read are {', '.join(_LOADERS)}",
            field="dictionary",
        )
    is_folder, names = _LOADERS[loader]
    path = str(row["path"])
    wanted = tuple(f"{path}/{n}" if path != "." else n for n in names) if is_folder else (path,)
    changed = about.get("config_overrides") or {}
    says = Overrides(
        model=about.get("model"),
        norm_factor=row.get("norm_scaling_factor"),
        normalise=changed.get("normalize_activations"),
        hook=changed.get("hook_name"),
    )
    return Found(_fetch(about["repo_id"], wanted, path if is_folder else None), says)


def _saelens_table() -> dict[str, Any]:
    """SAELens' table of published dictionaries; the package itself is not imported."""
    spec = importlib.util.find_spec("sae_lens")
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        raise MissingExtra("SAELens' catalogue", "saelens")
    import yaml

    file = Path(folders[0]) / "pretrained_saes.yaml"
    with file.open(encoding="utf-8") as opened:
        return yaml.load(opened, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _fetch(repo: str, wanted: tuple[str, ...], folder: str | None) -> Path:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise MissingExtra("fetching a dictionary from the hub", "sae") from None
    try:
        paths = [Path(hf_hub_download(repo, name)) for name in wanted]
    except Exception as error:  # the client raises many kinds, all of them long
        text = str(error).strip().splitlines()
        raise InputError(
            f"cannot fetch {repo} from the hub: {text[0] if text else type(error).__name__}",
            fix="give a folder that holds its files",
        ) from None
    if folder is None:
        return paths[0]
    depth = len(Path(wanted[0]).parts) - (0 if folder == "." else len(Path(folder).parts))
    return paths[0].parents[depth - 1]

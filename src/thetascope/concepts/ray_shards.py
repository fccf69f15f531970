"""The shards of an extraction as Ray tasks: on several machines that share the study's folder.

Each task makes one shard; a worker loads model and dictionary once. A task whose node dies is
run again elsewhere, and a shard is whole or absent, so the joined files are the same.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from thetascope.concepts.extraction import Extraction, make_shards, open_extraction
from thetascope.concepts.formats import Overrides
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.shards import shard_file
from thetascope.errors import InputError, MissingExtra, one_line


def make_shards_with_ray(
    job: Extraction,
    dictionary: str | Path,
    *,
    address: str | None = None,
    any_model: bool = False,
    cpus: float = 1,
    gpus: float = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[int, float]:
    """Makes the missing shards of an extraction on a Ray cluster.

    Without an address Ray is joined where it runs (`ray.init(address=...)` before, or
    RAY_ADDRESS), else started on this machine. The study's folder and the dictionary's must be at
    the same path on every machine.

    Args:
        job: The extraction; `extract` called with the same arguments then joins the shards.
        dictionary: Its dictionary's name or folder, as on every machine.
        address: Of the cluster; "local" starts a Ray of this machine's own.
        any_model: As in `open_extraction`.
        cpus, gpus: That each task takes.
        progress: Called with (shards made, shards to make, what is being done).

    Returns:
        How many shards were made, and the counted tokens that were read a second.

    Raises:
        MissingExtra: Ray is not installed.
        InputError: There is no cluster at the address, or a shard that is there is damaged.
    """
    ray = require_ray()
    ours = not ray.is_initialized()
    if ours:
        _join(ray, address)
    try:
        return _make(ray, job, dictionary, any_model, cpus, gpus, progress)
    finally:
        if ours:
            ray.shutdown()


def require_ray() -> Any:
    """Returns the package, or raises MissingExtra where it is not installed."""
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("extracting on a Ray cluster", "ray") from None
    return ray


def _join(ray: Any, address: str | None) -> None:
    # A wrong address is waited for, minutes long, in Ray's own code: the port is tried first.
    host, _, port = (address or "").rpartition(":")
    try:
        if host and port.isdecimal() and "://" not in host:
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"no Ray cluster at {address!r}: {one_line(str(error), 200)}", field="ray"
        ) from None


def _make(
    ray: Any,
    job: Extraction,
    dictionary: str | Path,
    any_model: bool,
    cpus: float,
    gpus: float,
    progress: Callable[[int, int, str], None] | None,
) -> tuple[int, float]:
    began = time.monotonic()
    folder = job.work / "shards"
    folder.mkdir(exist_ok=True)
    todo = [s for s in range(len(job.plan.shards)) if not shard_file(folder, s).exists()]
    make_shards(job, [s for s in range(len(job.plan.shards)) if s not in set(todo)])  # checked
    words = (str(job.path.resolve()), job.model.config, str(dictionary), job.name, job.given,
             any_model, job.contexts)  # fmt: skip
    task: Any = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=-1)(_make_one)
    waiting = [task.remote(words, s) for s in todo]
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=1)
        try:
            ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise getattr(error, "cause", None) or error from None
        if progress:
            progress(len(todo) - len(waiting), len(todo), "shards made by Ray")
    n_tokens = job.plan.n_tokens
    read = sum(int(n_tokens[job.plan.shard_texts(s)].sum()) for s in todo)
    return len(todo), read / max(1e-9, time.monotonic() - began)


def _make_one(words: tuple[Any, ...], number: int) -> None:
    make_shards(_opened(*words), [number])


@lru_cache(maxsize=1)
def _opened(
    path: str,
    model: LanguageModelConfig,
    dictionary: str,
    name: str,
    given: Overrides,
    any_model: bool,
    contexts: bool,
) -> Extraction:
    return open_extraction(
        path, model=model, dictionary=dictionary, name=name, given=given, any_model=any_model,
        contexts=contexts,
    )[0]  # fmt: skip

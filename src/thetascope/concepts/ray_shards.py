"""The shards of an extraction as Ray tasks: on several machines that share the study's folder.

Each task makes one shard; a worker loads model and dictionary once. A task whose node dies is
run again elsewhere, and a shard is whole or absent, so the joined files are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from thetascope.concepts.extraction import Extraction, make_shards, open_extraction
from thetascope.concepts.formats import Overrides
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.shards import shard_file
from thetascope.errors import MissingExtra


def make_shards_with_ray(
    job: Extraction,
    dictionary: str | Path,
    *,
    any_model: bool = False,
    cpus: float = 1,
    gpus: float = 0,
    progress: Callable[[int, int, str], None] | None = None,
) -> int:
    """Makes the missing shards of an extraction on a Ray cluster; returns how many they were.

    Ray is joined where it runs (`ray.init(address=...)` before, or RAY_ADDRESS), else started on
    this machine. The study's folder must be at the same path on every machine.

    Args:
        job: The extraction; `extract` called with the same arguments then joins the shards.
        dictionary: Its dictionary's name or folder, as on every machine.
        any_model: As in `open_extraction`.
        cpus, gpus: That each task takes.
        progress: Called with (shards made, shards to make, what is being done).

    Raises:
        MissingExtra: Ray is not installed.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("extracting on a Ray cluster", "ray") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
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
        ray.get(done)
        if progress:
            progress(len(todo) - len(waiting), len(todo), "shards made by Ray")
    return len(todo)


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

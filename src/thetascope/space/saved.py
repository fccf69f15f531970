"""What a space says, kept in the study's folder: made once, named by what it was made from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from thetascope.encoders.config import check_name
from thetascope.errors import InputError, StaleError
from thetascope.evaluation.splits import Cells, check_seeds
from thetascope.llm import Endpoint, consent
from thetascope.predictors.base import Sample, study_sample
from thetascope.predictors.jeirt import JEIRT, PlainJEIRT
from thetascope.predictors.registry import reading
from thetascope.predictors.runs import Progress
from thetascope.predictors.saved import fit_features, fit_study, fits_of, load_fit
from thetascope.predictors.setup import fit_sets, study_groups
from thetascope.space.difficulty import Difficulty, difficulty
from thetascope.space.fitted import Space, space_of
from thetascope.space.item_sets import item_set
from thetascope.space.model_map import model_map
from thetascope.space.ood import Ood, ood, ood_from_json
from thetascope.space.probes import Probe, probe
from thetascope.space.taxonomy import taxonomy
from thetascope.space.written_names import name_questions, written_names
from thetascope.study import ResponseMatrix, Study, files, store
from thetascope.study.derived import Made, find, keep, path_of, short_name

SPACES = "spaces"
VERSION = 2
"""Of what the results say; another number makes them anew."""
SPACE = "space"
"""Name of the fit that is made where the study has none without the offset."""
BESIDE = ("blend", "knn", "knn_weighted")
"""Predictors whose difficulty stands beside the space's own."""


@dataclass(frozen=True)
class Fitted:
    """A study in the space of one of its fits.

    Attributes:
        study: The study.
        fit, name: The fit and its name.
        space: Items (those with a text vector) and models.
        responses: (N, M) of the same items.
        groups: (N,) near-duplicate group of each.
        texts: N texts, None where there is none.
    """

    study: Study
    fit: JEIRT
    name: str
    space: Space
    responses: ResponseMatrix
    groups: np.ndarray[Any, np.dtype[np.int64]]
    texts: list[str | None]


def fitted(study: Study, fit: str) -> Fitted:
    """Opens a study in the space of one of its fits.

    Args:
        study: A study on disk.
        fit: Name of the fit.

    Raises:
        InputError, StaleError: As `load_fit`.
    """
    found = load_fit(study, fit)
    items = fit_features(study, found)
    space = space_of(found, items)
    groups = study_groups(study, items).labels[space.place]
    texts = study.items["text"].to_list() if "text" in study.items.columns else []
    texts = texts or [None] * study.n_items
    return Fitted(
        study, found, fit, space, study.matrix().take(space.place), groups,
        [texts[j] for j in space.place.tolist()],
    )  # fmt: skip


def taxonomy_study(
    path: str | Path, *, fit: str | None = None, k: int | None = None, seed: int = 0,
    progress: Progress | None = None, wait: float = 10.0,
) -> Made:  # fmt: skip
    """Clusters a study's items by a fit's directions and keeps the taxonomy there.

    Beside the object that `Taxonomy.to_json` gives, `items.parquet` holds each item's cluster at
    every granularity (item_id, k2, k3, ..., cluster).
    """

    check_seeds(seed=seed)
    chosen = space_fit(path, fit, wait)

    def make(study: Study, work: Path) -> None:
        here = fitted(study, chosen)
        _, held = fit_sets(study, here.fit.vectors)
        untrained = np.isin(here.space.items.ids, list(held.items.ids))
        found = taxonomy(
            here.space, here.responses, here.texts, here.groups, untrained, k=k, seed=seed,
            progress=progress,
        )  # fmt: skip
        _write(work / "taxonomy.json", {"fit": here.name, **found.to_json()})
        columns = {f"k{v.k}": found.tree.labels(v.k).astype(np.int32) for v in found.levels}
        table = pl.DataFrame(
            {"item_id": list(here.space.items.ids), **columns,
             "cluster": found.labels.astype(np.int32)}
        )  # fmt: skip
        table.write_parquet(work / "items.parquet", statistics=False)

    return _keep(path, "taxonomy", make, chosen, {"k": k, "seed": seed}, wait)


def names_study(
    path: str | Path, endpoint: Endpoint, *, yes: bool = False, wait: float = 10.0
) -> Made:
    """Lets a language model name the clusters of the kept taxonomy; the names are kept too.

    Args:
        path: The study's folder, with texts and a kept taxonomy.
        endpoint: Who is asked.
        yes: Whether the user agreed that texts of items are sent there.
        wait: Seconds to wait for another writer.

    Raises:
        InputError: No taxonomy, no texts, no consent, or as `Endpoint.ask`.
    """
    study = Study.open(Path(path))
    if "text" not in study.items.columns:
        raise InputError("a language model names clusters by their texts; the study has none")
    clusters = load_space(study, "taxonomy", named=False)["clusters"]
    texts = dict(study.items.select("item_id", "text").iter_rows())
    questions = name_questions(
        clusters, [[texts[i] for i in c["nearest"] if texts[i]] for c in clusters]
    )
    consent(questions, endpoint, yes)

    def make(_: Study, work: Path) -> None:
        found = {"model": endpoint.model, "names": written_names(questions, endpoint)}
        files.write_json(work / "names.json", found)

    settings = {"url": endpoint.url, "model": endpoint.model}
    needs = [f"{SPACES}/taxonomy"]
    return keep(path, SPACES, "names", make, needs=needs, settings=settings, wait=wait)


def models_study(
    path: str | Path, *, fit: str | None = None, seed: int = 0, wait: float = 10.0
) -> Made:
    """Maps a study's models and keeps the map there."""

    check_seeds(seed=seed)
    chosen = space_fit(path, fit, wait)

    def make(study: Study, work: Path) -> None:
        here = fitted(study, chosen)
        models = study.models
        family = models["family"].to_list() if "family" in models.columns else []
        found = model_map(
            here.space, here.fit, here.responses, here.groups,
            family or [None] * study.n_models, seed,
        )  # fmt: skip
        _write(work / "models.json", {"fit": here.name, **found.to_json()})

    return _keep(path, "models", make, chosen, {"seed": seed}, wait)


def probe_study(
    path: str | Path, positive: str, negative: str = "rest", *, held_positive: str | None = None,
    held_negative: str = "rest", name: str = "probe", fit: str | None = None, seed: int = 0,
    wait: float = 10.0,
) -> Made:  # fmt: skip
    """Makes an axis from two sets of items and keeps it in the study.

    Args:
        path: The study's folder.
        positive, negative: The two sets in the words of `item_sets`; 'rest' are all items that
            the other side does not hold.
        held_positive, held_negative: Labelled items that the axis must not see; five folds of
            the two sets where None.
        name: Under which it is kept.
        fit: Name of the fit.
        seed: Of folds and replicates.
        wait: Seconds to wait for another writer.
    """
    check_name(name)
    check_seeds(seed=seed)
    if held_positive is None and held_negative != "rest":
        raise InputError("held-negative needs held-positive beside it", field="held-negative")
    words = {"positive": positive, "negative": negative}
    if held_positive is not None:
        words |= {"held_positive": held_positive, "held_negative": held_negative}

    chosen = space_fit(path, fit, wait)

    def make(study: Study, work: Path) -> None:
        here = fitted(study, chosen)
        found = probe_of(here, positive, negative, held_positive, held_negative, seed)
        _write(work / "probe.json", {"fit": here.name, "sets": words, **found.to_json()})
        table = pl.DataFrame(
            {"item_id": list(here.space.items.ids), "projection": found.projection}
        )
        table.write_parquet(work / "items.parquet", statistics=False)

    content = {w: _file_hash(w) for w in words.values()}
    settings = {"sets": words, "files": content, "seed": seed}
    return _keep(path, f"probe-{name}", make, chosen, settings, wait)


def probe_of(
    here: Fitted, positive: str, negative: str, held_positive: str | None = None,
    held_negative: str = "rest", seed: int = 0,
) -> Probe:  # fmt: skip
    """`probe` on sets in words."""
    items = here.study.items
    place = here.space.place

    def chosen(words: str, other: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if words != "rest":
            return item_set(items, words)[place]
        if other == "rest":
            raise InputError("one of the two sets must be named; both are 'rest'")
        return ~item_set(items, other)[place]

    sides = chosen(positive, negative), chosen(negative, positive)
    labels = None
    if held_positive is not None:
        labels = chosen(held_positive, held_negative), chosen(held_negative, held_positive)
        used = labels[0] | labels[1]
        sides = sides[0] & ~used, sides[1] & ~used
    return probe(here.space, *sides, here.groups, labels=labels, seed=seed)


def ood_study(
    path: str | Path, *, settings: JEIRT | None = None, seeds: int = 1,
    progress: Progress | None = None, wait: float = 10.0,
) -> Made:  # fmt: skip
    """Leaves every benchmark (or subject) out in turn; stopped, it goes on where it was."""
    predictor = settings or JEIRT(context=False)
    check_seeds(seeds, seed=predictor.seed)

    def make(study: Study, work: Path) -> None:
        sample = study_sample(study, predictor.vectors)
        groups = study_groups(study, sample.items)
        found = ood(sample, groups, predictor, seeds=seeds, folder=work, progress=progress)
        _write(work / "ood.json", found.to_json())
        _clear(work)

    return _keep_from_vectors(path, "ood", make, predictor, {"seeds": seeds}, wait)


def difficulty_study(
    path: str | Path, *, settings: JEIRT | None = None, seeds: int = 5,
    beside: tuple[str, ...] = BESIDE, progress: Progress | None = None, wait: float = 10.0,
) -> Made:  # fmt: skip
    """Predicts how hard cold items are and keeps what came of it in the study.

    `items.parquet` holds each tested item's observed error and every prediction.
    """
    predictor = settings or JEIRT()
    check_seeds(seeds, seed=predictor.seed)

    def make(study: Study, work: Path) -> None:
        sample = study_sample(study, predictor.vectors)
        answered = sample.responses.observed.any(axis=1)
        if not answered.all():
            sample = sample.take(Cells(np.flatnonzero(answered)))
        groups = study_groups(study, study_sample(study, predictor.vectors).items)
        labels = groups.labels[answered]
        _, labels = np.unique(labels, return_inverse=True)
        groups = groups._replace(labels=labels.astype(np.int64), n_groups=int(labels.max()) + 1)
        others = {n: reading(n, predictor.vectors) for n in beside}
        found = difficulty(
            sample, groups, predictor, others, seeds=seeds, folder=work, progress=progress
        )
        left_out = int((~answered).sum())
        _write(work / "difficulty.json", {"n_unanswered": left_out, **found.to_json()})
        _items_table(sample, found).write_parquet(work / "items.parquet", statistics=False)
        _clear(work)

    return _keep_from_vectors(
        path, "difficulty", make, predictor, {"seeds": seeds, "beside": list(beside)}, wait
    )


def load_space(study: Study, name: str, *, named: bool = True) -> dict[str, Any]:
    """The JSON object of a kept result: 'taxonomy', 'models', 'ood', 'difficulty', 'probe-NAME'.

    Args:
        study: The study.
        name: Which.
        named: Whether a taxonomy's clusters bear the names that a language model gave them,
            where it gave any; each says in `named_by` where its name is from.

    Raises:
        InputError: There is none.
        StaleError: The study, its vectors or the fit have changed since.
    """
    kind = "probe" if name.startswith("probe-") else name
    found = files.read_json(_folder(study, name) / f"{kind}.json")
    if name != "taxonomy":
        return found
    written: dict[str, Any] | None = None
    if named and "names" in store.read_index(path_of(study)).derived.get(SPACES, {}):
        with suppress(StaleError):  # those of another taxonomy
            written = load_space(study, "names")
    for i, cluster in enumerate(found["clusters"]):
        cluster["named_by"] = "terms" if written is None else written["model"]
        cluster["name"] = cluster["name"] if written is None else written["names"][i]
    return found


def load_items(study: Study, name: str) -> pl.DataFrame:
    """The items' table of a kept taxonomy, difficulty or probe."""
    return pl.read_parquet(_folder(study, name) / "items.parquet")


def load_ood(study: Study) -> Ood:
    """The kept drops."""
    return ood_from_json(load_space(study, "ood"))


def _folder(study: Study, name: str) -> Path:
    renew = f"thetascope space {name.partition('-')[0]}"
    return find(study, SPACES, name, renew)


def _keep(
    path: str | Path, name: str, make: Callable[[Study, Path], None], fit: str,
    settings: dict[str, Any], wait: float,
) -> Made:  # fmt: skip
    load_fit(Study.open(Path(path)), fit)  # says what is wrong with it before the lock
    return keep(
        path, SPACES, name, make, needs=[f"fits/{fit}"],
        settings={**settings, "version": VERSION}, wait=wait,
    )  # fmt: skip


def space_fit(path: str | Path, fit: str | None = None, wait: float = 10.0) -> str:
    """The name of the JE-IRT fit that is looked at; made where the study has none.

    The paper's model is wanted, without the benchmark offset: with it directions no longer say
    what an item is about, only what the offset leaves over (measured on zeroeval: clusters agree
    with the subjects at ARI .47 without and .20 with it).

    Args:
        path: The study's folder.
        fit: A fit's name; None for one without the offset, the one named 'space' first.
        wait: Seconds to wait for another writer.
    """
    if fit is not None:
        return fit
    study = Study.open(Path(path))
    known = [name for name, made in fits_of(study).items() if issubclass(made, JEIRT)]
    for name in sorted(known, key=lambda n: (n != SPACE, n)):
        try:
            if load_fit(study, name).offset_ is None:
                return name
        except (InputError, StaleError):
            continue
    fit_study(path, PlainJEIRT(), name=SPACE, wait=wait)
    return SPACE


def _keep_from_vectors(
    path: str | Path, name: str, make: Callable[[Study, Path], None], predictor: JEIRT,
    settings: dict[str, Any], wait: float,
) -> Made:  # fmt: skip
    study = Study.open(Path(path))
    vectors = short_name(study, "vectors", predictor.vectors)
    own = {k: v for k, v in predictor.get_params().items() if k not in ("device", "vectors")}
    return keep(
        path_of(study), SPACES, name, make, needs=[f"vectors/{vectors}"],
        settings={**settings, "jeirt": own, "version": VERSION}, wait=wait,
    )  # fmt: skip


def _items_table(sample: Sample, found: Difficulty) -> pl.DataFrame:
    ranks = found.ranks
    ids = [sample.items.ids[j] for j in found.item.tolist()]
    columns = {n: ranks.predicted[:, k] for k, n in enumerate(ranks.names)}
    return pl.DataFrame({"item_id": ids, "observed": ranks.observed, **columns})


def _file_hash(words: str) -> list[str]:
    """Hashes of the files that a set's words name: their content decides the axis."""
    out = []
    for word in words.split(" & "):
        kind, _, value = word.strip().removeprefix("!").strip().partition(":")
        file = Path(value.rpartition(":")[0] if kind == "csv" else value)
        if kind in ("ids", "csv") and file.is_file():
            out.append(files.hash_file(file))
    return out


def _write(file: Path, found: dict[str, Any]) -> None:
    files.write_json(file, files.finite(found))


def _clear(work: Path) -> None:
    for file in work.glob("seed-*.safetensors"):
        file.unlink()

"""All that the explorer's files are made from, read once when a study is opened.

What the report gathers, without the concepts' activations; the space that is drawn; and names
as numbers: a model, a benchmark and a subject are places in the lists of `site.json`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetascope.concepts.store import Concepts, load_concepts
from thetascope.errors import InputError, StaleError
from thetascope.gaps.data import GapData, gap_data
from thetascope.gaps.saved import GapSettings
from thetascope.predictors import JEIRT
from thetascope.predictors.base import item_features
from thetascope.predictors.logit_space import LogitSpace
from thetascope.predictors.saved import fits_of, load_fit
from thetascope.report.gather import KeptGaps, Material, Missing, gather, kept_gaps
from thetascope.report.ranking import Ranking, rank_models
from thetascope.space import Space, space_of
from thetascope.space.saved import SPACE, load_items
from thetascope.study import Study, files, store
from thetascope.study.derived import path_of

Codes = NDArray[np.int64]
SPACE_COMMANDS = {
    "taxonomy": "space taxonomy", "models": "space models", "ood": "space ood",
    "difficulty": "space difficulty",
}  # fmt: skip


@dataclass(frozen=True)
class Subjects:
    """The subjects that items name, each within its benchmark.

    Attributes:
        names: Their names.
        benchmark: (S,) code of each one's benchmark.
        code: (N,) of each item, -1 where it names none.
    """

    names: tuple[str, ...]
    benchmark: Codes
    code: Codes


@dataclass(frozen=True)
class Sources:
    """A study as the explorer reads it.

    Attributes:
        material: What the report gathers, without activations.
        path: The study's folder.
        content: Hash of all that the study points to.
        texts: Whether texts may be shown.
        fit, fit_name: The fit whose space is drawn, or None and ''.
        space: The items with a text vector in that space, or None.
        kept: Kept gaps, or None.
        concepts: The activations that they are on, not read yet; None without gaps.
        missing: What is not there or not fresh: what, and why and the command that makes it.
    """

    material: Material
    path: Path
    content: str
    texts: bool
    fit: JEIRT | None
    fit_name: str
    space: Space | None
    kept: KeptGaps | None
    concepts: Concepts | None
    missing: dict[str, Missing]

    @property
    def study(self) -> Study:
        return self.material.study

    @property
    def models(self) -> tuple[str, ...]:
        return self.material.models

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return self.material.benchmarks

    @property
    def n_items(self) -> int:
        return self.study.n_items

    @cached_property
    def ranking(self) -> Ranking:
        return rank_models(self.material)

    @cached_property
    def model_code(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.models)}

    @cached_property
    def benchmark_code(self) -> dict[str, int]:
        return {name: b for b, name in enumerate(self.benchmarks)}

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Item id -> its row."""
        return {item: j for j, item in enumerate(self.study.items["item_id"].to_list())}

    @cached_property
    def subjects(self) -> Subjects:
        given = self.material.items["subject"].to_list()
        benchmark = self.material.benchmark.tolist()
        pairs = [None if s is None else (b, s) for b, s in zip(benchmark, given, strict=True)]
        seen = dict.fromkeys(p for p in pairs if p is not None)
        known = sorted(seen, key=lambda p: p[0])
        code = {p: i for i, p in enumerate(known)}
        return Subjects(
            tuple(s for _, s in known),
            np.array([b for b, _ in known], np.int64),
            np.array([-1 if p is None else code[p] for p in pairs], np.int64),
        )

    @cached_property
    def fit_model(self) -> Codes:
        """(M,) place of each model in the fit; -1 where it does not know it."""
        known = {} if self.fit is None else {m: i for i, m in enumerate(self.fit.models_)}
        return np.array([known.get(m, -1) for m in self.models], np.int64)

    @cached_property
    def predicted(self) -> NDArray[np.float32] | None:
        """(N, M) chances by the drawn fit; NaN for items without a text vector."""
        if self.fit is None or self.space is None:
            return None
        here = self.fit_model >= 0
        out = np.full((self.n_items, len(self.models)), np.nan, np.float32)
        found = self.fit.predict_proba(self.space.items)
        out[np.ix_(self.space.place, np.flatnonzero(here))] = found[:, self.fit_model[here]]
        return out

    @cached_property
    def logit_space(self) -> tuple[LogitSpace, NDArray[np.int64]] | None:
        """Calibrated items and their rows: of the item bank, else of the fit."""
        if self.material.bank is not None:
            space = self.material.bank.space
            return space, np.array([self.row_of[i] for i in space.ids], np.int64)
        if self.fit is not None and self.space is not None:
            return self.fit.logit_space(self.space.items), self.space.place
        return None

    @cached_property
    def taxonomy(self) -> tuple[dict[str, Any], Codes] | None:
        """The kept clusters, and each item's (-1 where it has none)."""
        found = self.material.spaces.get("taxonomy")
        if found is None:
            return None
        table = load_items(self.study, "taxonomy")
        code = np.full(self.n_items, -1, np.int64)
        rows = [self.row_of[i] for i in table["item_id"].to_list()]
        code[rows] = table["cluster"].to_numpy()
        return found, code

    @cached_property
    def gap_data(self) -> GapData:
        """Activations and scores; read when two models are compared, which nothing keeps."""
        assert self.kept is not None
        assert self.concepts is not None
        settings = GapSettings(**self.kept.saved.figures["settings"])
        return gap_data(self.study, self.concepts, threshold=settings.threshold)


def open_sources(
    path: str | Path, *, texts: bool = True, title: str | None = None, place: Path | None = None
) -> Sources:
    """Reads a study for the explorer; what is missing or stale is noted, never raised.

    Args:
        path: The study's folder.
        texts: Whether texts may be shown.
        title: In the place of the folder's name.
        place: The folder as commands are to name it; its own name where None.

    Raises:
        InputError: There is no study there, or its tables are damaged.
    """
    study = Study.open(Path(path))
    index = store.read_index(path_of(study))
    material = gather(study, None, None, title, activations=False, place=place)
    missing = dict(material.missing)
    for name in material.stale_spaces:
        command = SPACE_COMMANDS.get(name)
        kind = f"space {name}" if command else f"the probe {name.removeprefix('probe-')!r}"
        missing[kind] = Missing(
            "It was made from other tables or fits than the study holds now, or is damaged.",
            f"thetascope {command or 'space probe'} {material.place}",
        )
    fit, name, space = _drawn(study, material, missing)
    kept = kept_gaps(material.study, index, material.place, missing)
    concepts = None
    if kept is not None:
        try:
            concepts = load_concepts(material.study, kept.saved.name)
        except (InputError, StaleError) as error:
            kept = None
            why = "Items have other texts than those whose concepts were extracted."
            if isinstance(error, InputError):
                why = f"The concepts cannot be read: {error.problem}."
            missing["gaps"] = Missing(why, f"thetascope concepts extract {material.place}")
    elif not index.derived.get("concepts"):
        missing["concepts"] = Missing(
            "The study has no concept activations yet.",
            f"thetascope concepts extract {material.place}",
        )
    if kept is not None:
        _lesser(kept, material, missing)
    if "taxonomy" not in material.spaces and "space taxonomy" not in missing:
        missing["space taxonomy"] = Missing(
            "The study's items are in no kept clusters yet.",
            f"thetascope space taxonomy {material.place}",
        )
    if "models" not in material.spaces and "space models" not in missing:
        missing["space models"] = Missing(
            "Which models answer alike, and which are redundant, was not looked at yet.",
            f"thetascope space models {material.place}",
        )
    if material.routing is None and "routing" not in missing:
        missing["routing"] = Missing(
            "Routing was not evaluated yet.", f"thetascope route evaluate {material.place}"
        )
    if not material.has_texts:
        missing["texts"] = Missing(
            "The study holds no texts.", f"thetascope attach-texts {material.place} TEXTS"
        )
        if material.vectors is None and "vectors" in missing:
            missing["vectors"] = Missing(
                "The study has no text vectors, and no texts to make them of.",
                f"thetascope attach-texts {material.place} TEXTS",
            )
    state = {"tables": index.tables, "derived": index.derived, "policy": index.policy}
    return Sources(
        material, path_of(study), files.hash_json(state), texts and material.has_texts, fit, name,
        space, kept, concepts, missing,
    )  # fmt: skip


def _lesser(kept: KeptGaps, material: Material, missing: dict[str, Missing]) -> None:
    """Notes what may stand beside gaps and does not."""
    named = f"--concepts {shlex.quote(kept.saved.name)}"
    commands = {
        "robust": f"thetascope gaps {material.place} --robust {named}",
        "groups": f"thetascope concepts group {material.place} {named}",
    }
    for what in kept.stale:
        if what in commands:
            why = "It was made from other gaps or activations than the study holds now."
            missing[what] = Missing(why, commands[what])
    if kept.groups is None and "groups" not in missing:
        missing["groups"] = Missing("The concepts are in no groups yet.", commands["groups"])


def _drawn(
    study: Study, material: Material, missing: dict[str, Missing]
) -> tuple[JEIRT | None, str, Space | None]:
    """The fit whose space is drawn: that of the kept clusters, maps or probes, then one without
    the benchmark offset, then the report's."""
    wanted = [
        found["fit"]
        for what, found in sorted(material.spaces.items(), key=lambda s: s[0] != "taxonomy")
        if "fit" in found
    ]
    known = [n for n, kind in fits_of(study).items() if issubclass(kind, JEIRT)]
    plain = sorted(known, key=lambda n: (n != SPACE, n))
    for names, any_kind in ((wanted, True), (plain, False)):
        for name in dict.fromkeys(names):
            try:
                fit = load_fit(study, name)
                if any_kind or fit.offset_ is None:
                    space = space_of(
                        fit, item_features(study, fit.vectors, required=True, looks=False)
                    )
                    missing.pop("fit", None)
                    return fit, name, space
            except (InputError, StaleError):
                continue
    if material.fit is None:
        return None, "", None
    try:
        space = space_of(
            material.fit, item_features(study, material.fit.vectors, required=True, looks=False)
        )
    except InputError as error:
        missing["fit"] = Missing(f"It cannot be drawn: {error.problem}.",
                                 f"thetascope encode {material.place}")  # fmt: skip
        return None, "", None
    return material.fit, material.fit_name, space


def _space_of(study: Study, fit: JEIRT) -> Space:
    return space_of(fit, item_features(study, fit.vectors, required=True, looks=False))

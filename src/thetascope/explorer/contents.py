"""The explorer's files by path: the server serves them, `publish` writes them.

    contents = Contents("my-study")
    contents.paths()                     # what a published page holds
    contents.read("scores/003.parquet")  # bytes, made when they are asked for

A path is looked up, never joined to a folder: what is not known here does not exist. The files'
form is docs/explorer-files.md.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import polars as pl

from thetascope.explorer import items, performance
from thetascope.explorer.concepts import N_FEATURES, ConceptFiles
from thetascope.explorer.models import models_json
from thetascope.explorer.overview import overview_json
from thetascope.explorer.places import Plane, has_plane, plane, probe_names, space_json
from thetascope.explorer.routing import routing_json
from thetascope.explorer.site import site_json
from thetascope.explorer.sources import Sources, open_sources
from thetascope.explorer.tables import number, parquet, to_json

ITEM_CHUNK = 512
"""Items a file of texts, answers, neighbours and contexts."""
KEPT_BYTES = 96 << 20
"""Made files that are kept in memory, the last used."""
_VERSUS = re.compile(r"versus/(\d{3,9})-(\d{3,9})\.parquet", re.ASCII)

Make = Callable[[], bytes]


class Contents(Mapping[str, bytes]):
    """The files of one study, in order; made when they are read, and kept for a while."""

    def __init__(
        self, path: str | Path, *, texts: bool = True, title: str | None = None,
        answers: Sequence[str] | None = None, kept_bytes: int = KEPT_BYTES,
        place: Path | None = None,
    ) -> None:  # fmt: skip
        """Reads what the files are made from.

        Args:
            path: The study's folder; nothing is written into it.
            texts: Whether items' texts, and the pieces of them that concepts are shown with,
                are among the files.
            title: Of the page; the folder's name where None.
            answers: What a server answers beside files; None for a page that is published.
            kept_bytes: Made files that are kept in memory.
            place: The study's folder as commands are to name it; its own name where None.

        Raises:
            InputError: There is no study there, or its tables are damaged.
        """
        self.sources: Sources = open_sources(path, texts=texts, title=title, place=place)
        self.served = answers is not None
        self.answers = tuple(answers or ())
        self._made: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes, self._size = kept_bytes, 0
        self._making, self._looking = RLock(), Lock()

    @cached_property
    def concepts(self) -> ConceptFiles | None:
        """The files about concepts, where there are gaps."""
        return None if self.sources.kept is None else ConceptFiles(self.sources)

    @cached_property
    def plane(self) -> Plane | None:
        """Where items are drawn."""
        return plane(self.sources)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of models that a published page compares concept by concept."""
        return performance.compared(self.sources)

    @cached_property
    def has(self) -> dict[str, bool]:
        """What the study has to show."""
        sources, files = self.sources, self.concepts
        return {
            "space": has_plane(sources), "predicted": sources.fit is not None,
            "texts": sources.texts, "gaps": files is not None,
            "contexts": files is not None and files.has_contexts,
            "groups": files is not None and files.kept.groups is not None,
            "routing": sources.material.routing is not None,
            "information": sources.material.bank is not None or sources.fit is not None,
        }  # fmt: skip

    def paths(self) -> list[str]:
        """The paths of a published page's files, in order."""
        return list(self._files)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._maker(path) is not None

    def __getitem__(self, path: str) -> bytes:
        return self.read(path)

    def read(self, path: str, *, keep: bool = True) -> bytes:
        """The bytes of one file.

        Args:
            path: One of `paths()`; of a server's contents any pair of models under versus/.
            keep: Whether to keep them in memory for the next reader.

        Raises:
            KeyError: There is no such file.
        """
        with self._looking:
            found = self._made.get(path)
            if found is not None:
                self._made.move_to_end(path)
                return found
        make = self._maker(path)
        if make is None:
            raise KeyError(path)
        with self._making:  # one at a time: they share what is read once, and the memory
            with self._looking:
                found = self._made.get(path)
            if found is None:
                found = make()
                if keep:
                    self._keep(path, found)
        return found

    def _keep(self, path: str, data: bytes) -> None:
        with self._looking:
            self._made[path] = data
            self._size += len(data)
            while self._size > self._kept_bytes and len(self._made) > 1:
                _, gone = self._made.popitem(last=False)
                self._size -= len(gone)

    def _maker(self, path: str) -> Make | None:
        make = self._files.get(path)
        if make is not None or self.concepts is None or not self.served:
            return make
        pair = _VERSUS.fullmatch(path)
        if pair is None:
            return None
        first, second = int(pair[1]), int(pair[2])
        known = first < second < len(self.sources.models) and path == versus_path(first, second)
        return self._versus(first, second) if known else None

    @cached_property
    def _files(self) -> dict[str, Make]:
        with self._making:
            out: dict[str, Make] = {
                "site.json": self._site,
                "overview.json": lambda: to_json(overview_json(self.sources)),
                "items.parquet": lambda: parquet(items.items_table(self.sources, self.plane)),
                "models.json": lambda: to_json(models_json(self.sources)),
            }
            if self.has["space"]:
                out["space.json"] = self._space
            if probe_names(self.sources):
                out["probes.parquet"] = lambda: parquet(items.probes_table(self.sources))
            if self.concepts is not None:
                out |= self._of_concepts(self.concepts)
            routing = self.sources.material.routing
            if routing is not None:
                out["routing.json"] = lambda: to_json(routing_json(routing.table))
            for m in range(len(self.sources.models)):
                out[f"scores/{number(m)}.parquet"] = self._scores(m)
            for k, start in enumerate(range(0, self.sources.n_items, ITEM_CHUNK)):
                rows = slice(start, min(self.sources.n_items, start + ITEM_CHUNK))
                out |= self._of_chunk(number(k), rows)
            return out

    def _of_concepts(self, files: ConceptFiles) -> dict[str, Make]:
        out: dict[str, Make] = {
            "coverage.json": lambda: to_json(files.coverage_json()),
            "concepts.parquet": lambda: parquet(files.concepts_table()),
            "features.parquet": lambda: parquet(files.features()),
        }
        if files.kept.groups is not None:
            out["groups.json"] = lambda: to_json(performance.groups_json(files))
            out["groups.parquet"] = lambda: parquet(performance.groups_table(files))
        for name in files.benchmarks:
            b = self.sources.benchmark_code[name]
            out[f"coverage/{number(b)}.parquet"] = _lazily(files.coverage_table, b)
        for m in range(len(self.sources.models)):
            out[f"performance/{number(m)}.parquet"] = _lazily(
                performance.performance_table, files, m
            )
        for k in range(len(files.concept_starts) - 1):
            out[f"activations/{number(k)}.parquet"] = _lazily(files.activations, k)
            if files.has_contexts:
                out[f"contexts/{number(k)}.parquet"] = _lazily(files.contexts_table, k)
        for first, second in [] if self.served else self.pairs:
            out[versus_path(first, second)] = self._versus(first, second)
        return out

    def _of_chunk(self, name: str, rows: slice) -> dict[str, Make]:
        sources = self.sources
        out: dict[str, Make] = {
            f"answers/{name}.parquet": _lazily(items.answers_table, sources, rows)
        }
        if self.has["space"]:
            out[f"neighbours/{name}.parquet"] = _lazily(self._neighbours, rows)
        if sources.texts:
            out[f"texts/{name}.parquet"] = _lazily(items.texts_table, sources, rows)
        if self.concepts is not None and self.concepts.has_contexts:
            out[f"item_contexts/{name}.parquet"] = _lazily(self.concepts.item_contexts_table, rows)
        return out

    def _space(self) -> bytes:
        assert self.plane is not None
        return to_json(space_json(self.sources, self.plane))

    def _neighbours(self, rows: slice) -> pl.DataFrame:
        assert self.plane is not None
        return items.neighbours_table(self.sources, self.plane, rows)

    def _scores(self, model: int) -> Make:
        return _lazily(items.scores_table, self.sources, model)

    def _versus(self, first: int, second: int) -> Make:
        assert self.concepts is not None
        return _lazily(performance.versus_table, self.concepts, first, second)

    def _site(self) -> bytes:
        files = self.concepts
        return to_json(
            site_json(
                self.sources, answers=self.answers, item_chunk=ITEM_CHUNK,
                concept_starts=[] if files is None else files.concept_starts,
                n_features=0 if files is None else N_FEATURES,
                versus="all" if self.served else [list(p) for p in self.pairs], has=self.has,
            )
        )  # fmt: skip


def versus_path(first: int, second: int) -> str:
    """The file of two models, first < second."""
    return f"versus/{number(first)}-{number(second)}.parquet"


def _lazily(table: Callable[..., Any], *arguments: Any) -> Make:
    return lambda: parquet(table(*arguments))

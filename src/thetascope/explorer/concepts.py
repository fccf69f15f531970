"""Files about concepts: what they are, what covers them, on which items they are active."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.concepts.store import BY_CONCEPT, BY_ITEM, CONTEXTS, ITEMS, read_part, starts
from thetascope.explorer.sources import Sources
from thetascope.explorer.tables import floats, q_values, rounded, short, small

N_FEATURES = 8
LEAST_ITEMS = 10
"""A concept that is active on fewer items is no item's feature; of small studies a 50th."""
_ROWS = 60_000
"""Activations a file, where a concept does not have more by itself."""


class ConceptFiles:
    """What is read of the concepts' store, in blocks."""

    def __init__(self, sources: Sources) -> None:
        assert sources.kept is not None
        assert sources.concepts is not None
        self.sources, self.kept, self.held = sources, sources.kept, sources.concepts
        self.figures: dict[str, Any] = self.kept.saved.figures

    @cached_property
    def benchmarks(self) -> list[str]:
        """Those that something was read of: the gaps' own order."""
        return list(self.figures["coverage"]["benchmarks"])

    @cached_property
    def coverage(self) -> dict[int, pl.DataFrame]:
        """Benchmark code -> a row a concept."""
        table = self.kept.saved.coverage
        code = self.sources.benchmark_code
        parts = table.partition_by("benchmark", as_dict=True, include_key=False)
        return {code[str(b)]: part.sort("concept") for (b,), part in parts.items()}

    @cached_property
    def row_starts(self) -> NDArray[np.int64]:
        """(C + 1,) first row of each concept in the table that is sorted by concept."""
        return starts(self.held.dictionary["n_items"])

    @cached_property
    def concept_starts(self) -> list[int]:
        """First concept of every file of activations, and the number of concepts."""
        rows, out, first = self.row_starts, [0], 0
        for c in range(1, self.held.n_concepts):
            if rows[c + 1] - rows[first] > _ROWS:
                out.append(c)
                first = c
        return [*out, self.held.n_concepts]

    @cached_property
    def study_row(self) -> NDArray[np.int64]:
        """(stored items,) each one's row in the study; -1 where it is gone."""
        n = read_part(self.held.folder, ITEMS).height
        out = np.full(n, -1, np.int64)
        here = self.held.numbers >= 0
        out[self.held.numbers[here]] = np.flatnonzero(here)
        return out

    @cached_property
    def stored_tokens(self) -> NDArray[np.float64]:
        """(stored items,) T_j."""
        return read_part(self.held.folder, ITEMS)["n_tokens"].to_numpy().astype(np.float64)

    @cached_property
    def least(self) -> NDArray[np.float32]:
        """(C,) maximum from which on a concept is active; 0 without a reference."""
        act_max, share = self.held.act_max, self.figures["threshold"]
        if act_max is None or share is None:
            return np.zeros(self.held.n_concepts, np.float32)
        return (act_max * np.float32(share)).astype(np.float32)

    def concepts_table(self) -> pl.DataFrame:
        """A row a concept."""
        held = self.held.dictionary
        group = np.full(self.held.n_concepts, -1, np.int64)
        if self.kept.groups is not None:
            table = self.kept.groups.table
            group[table["concept"].to_numpy()] = table["group"].to_numpy()
        density = "density" if held["density"].null_count() == 0 else "token_density"
        columns = [
            pl.Series("label", self.held.labels, pl.String),
            held["label_source"].alias("label_source"),
            held["flags"].list.join(", ").alias("flags"),
            floats("density", held[density].to_numpy(), 5),
            small("n_items", self._n_items()),
            small("group", group),
        ]
        for b in range(len(self.sources.benchmarks)):
            part = self.coverage.get(b)
            if part is None:
                nothing = [None] * held.height
                columns += [pl.Series(f"chi_{b}", nothing, pl.Float32),
                            pl.Series(f"n_{b}", nothing, pl.UInt8)]  # fmt: skip
                continue
            columns += [floats(f"chi_{b}", part["chi"].to_numpy()),
                        small(f"n_{b}", part["n_active"])]  # fmt: skip
        return pl.DataFrame(columns)

    def _n_items(self) -> pl.Series:
        """Items on which each concept is active; without a reference, those on which it fires."""
        parts = [p["n_active"] for p in self.coverage.values()]
        if not parts or any(p.null_count() for p in parts):
            return self.held.dictionary["n_items"]
        return pl.Series(np.sum([p.to_numpy() for p in parts], axis=0))

    def coverage_table(self, benchmark: int) -> pl.DataFrame:
        """Of one benchmark a row a concept."""
        part = self.coverage[benchmark]
        return part.select(
            small("concept", part["concept"]), rounded("chi"), small("n_active", part["n_active"]),
            rounded("log_ratio", "low", "high"), q_values("q"),
            pl.col("share", "share_reference").cast(pl.Float64).round_sig_figs(3).cast(pl.Float32),
        )  # fmt: skip

    def activations(self, k: int) -> pl.DataFrame:
        """Of the k-th run of concepts: concept, item, mean, active; items within a concept."""
        low, high = self.concept_starts[k], self.concept_starts[k + 1]
        first, last = int(self.row_starts[low]), int(self.row_starts[high])
        found = pl.scan_parquet(self.held.folder / BY_CONCEPT).slice(first, last - first).collect()
        number, concept = found["item"].to_numpy(), found["concept"].to_numpy()
        item = self.study_row[number]
        mean = found["sum"].to_numpy().astype(np.float64) / self.stored_tokens[number]
        active = self._active(found["max"].to_numpy(), concept)
        order = np.lexsort((item, concept))
        order = order[item[order] >= 0]
        return pl.DataFrame(
            [
                small("concept", concept[order]), small("item", item[order]),
                floats("mean", mean[order]), pl.Series("active", active[order]),
            ]
        )  # fmt: skip

    def _active(self, most: NDArray[Any], concept: NDArray[Any]) -> NDArray[np.bool_]:
        """As `gap_data` calls it: max_t z_t(c) / act_max >= the threshold."""
        act_max, share = self.held.act_max, self.figures["threshold"]
        if act_max is None or share is None:
            return most > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            part = most.astype(np.float32) / act_max[concept]
        part[~np.isfinite(part)] = np.inf
        return part >= np.float32(share)

    def features(self) -> pl.DataFrame:
        """`N_FEATURES` rows an item: the concepts that stand out on it the most.

        a_j(c) / mean_j a_j(c) over the items that were read, of the concepts that are active on
        the item, on enough others, and bear no flag.
        """
        n, held = self.sources.n_items, self.held
        place = held.folder / BY_ITEM
        tokens = pl.Series("T", self.stored_tokens)
        rows = pl.Series("row", self.study_row)
        read = max(1, int((held.n_tokens > 0).sum()))
        active_on = self._n_items().to_numpy()
        least = max(1, min(LEAST_ITEMS, n // 50))
        plain = np.array([not f for f in held.flags]) & (active_on >= least)
        # blocks of whole items, in two passes: the means first
        total = np.zeros(held.n_concepts)
        for block in self._blocks(place):
            number = block["item"].to_numpy()
            kept = self.study_row[number] >= 0
            mean = block["sum"].to_numpy().astype(np.float64) / tokens.to_numpy()[number]
            total += np.bincount(
                block["concept"].to_numpy()[kept], mean[kept], minlength=held.n_concepts
            )
        usual = total / read
        concept = np.full((n, N_FEATURES), -1, np.int64)
        share = np.full((n, N_FEATURES), np.nan)
        for block in self._blocks(place):
            number, c = block["item"].to_numpy(), block["concept"].to_numpy()
            item = rows.to_numpy()[number]
            kept = (item >= 0) & plain[c] & self._active(block["max"].to_numpy(), c)
            item, c = item[kept], c[kept]
            mean = block["sum"].to_numpy().astype(np.float64)[kept]
            ratio = mean / tokens.to_numpy()[number[kept]] / usual[c]
            order = np.lexsort((c, -ratio, item))
            item, c, ratio = item[order], c[order], ratio[order]
            first = np.flatnonzero(np.r_[True, item[1:] != item[:-1]]) if len(item) else item
            rank = np.arange(len(item)) - np.repeat(first, np.diff(np.r_[first, len(item)]))
            top = rank < N_FEATURES
            concept[item[top], rank[top]] = c[top]
            share[item[top], rank[top]] = ratio[top]
        return pl.DataFrame([small("concept", concept.ravel()), floats("share", share.ravel(), 2)])

    def _blocks(self, place: Any) -> Any:
        """The table that is sorted by item, in runs of whole items."""
        sizes = read_part(self.held.folder, ITEMS)["n_concepts"]
        ends = starts(sizes)
        first = 0
        while first < len(ends) - 1:
            last = int(np.searchsorted(ends, ends[first] + (1 << 20), side="right")) - 1
            last = max(last, first + 1)
            low, high = int(ends[first]), int(ends[last])
            yield pl.scan_parquet(place).slice(low, high - low).collect()
            first = last

    @property
    def has_contexts(self) -> bool:
        """Whether contexts were kept and may be shown."""
        return self.sources.texts and (self.held.folder / CONTEXTS).is_file()

    @cached_property
    def contexts(self) -> pl.DataFrame:
        """All contexts: concept, item, value, before, token, after; the strongest first."""
        held = read_part(self.held.folder, CONTEXTS)
        row = self.sources.row_of
        item = pl.Series("item", [row.get(i, -1) for i in held["item_id"].to_list()], pl.Int64)
        return (
            held.with_columns(item)
            .filter(pl.col("item") >= 0)
            .sort("concept", "value", "item", descending=[False, True, False], maintain_order=True)
            .select("concept", "item", "value", "before", "token", "after")
        )

    def contexts_table(self, k: int) -> pl.DataFrame:
        """Of the k-th run of concepts."""
        low, high = self.concept_starts[k], self.concept_starts[k + 1]
        return _context_rows(
            self.contexts.filter((pl.col("concept") >= low) & (pl.col("concept") < high))
        )

    def item_contexts_table(self, rows: slice) -> pl.DataFrame:
        """Of the items of a chunk."""
        here = (pl.col("item") >= rows.start) & (pl.col("item") < rows.stop)
        found = self.contexts.filter(here)
        return _context_rows(found.sort("item", "value", descending=[False, True],
                                        maintain_order=True))  # fmt: skip

    def coverage_json(self) -> dict[str, Any]:
        """The object of `coverage.json`."""
        held, code = self.figures["coverage"], self.sources.benchmark_code
        place = [code[b] for b in self.benchmarks]
        n, thresholds = len(self.sources.benchmarks), held["thresholds"]

        def spread(values: list[Any] | None, empty: Any = None) -> list[Any]:
            """Values by the gaps' benchmarks, in the order of the study's."""
            out = [empty] * n
            for b, value in zip(place, values or [], strict=False):
                out[b] = value
            return out

        def matrix(rows: list[list[float]] | None) -> list[Any]:
            return spread([spread(short(r)) for r in rows or []], spread(None))

        names = ("n_items", "n_missing", "missing", "rarefied", "skewness", "top_share")
        nothing = {"n_items": 0, "missing": [None] * len(thresholds)}
        columns = {name: spread(held[name], nothing.get(name)) for name in names}
        robust = self.kept.robust
        dictionary = self.held.manifest.get("dictionary") or {}
        return {
            "concepts": self.held.name, "dictionary": dictionary.get("name"),
            "n_concepts": self.figures["n_concepts"], "n_dead": held["n_dead"],
            "n_items": self.figures["n_items"], "n_dropped": self.figures["n_dropped"],
            "threshold": self.figures["threshold"], "reduced_to": self.figures["reduced_to"],
            "against": self.figures["against"], "thresholds": thresholds,
            "n_missing_from_all": held["n_missing_from_all"],
            "missing_from_all": None if held["missing"] is None else short(held["missing"][-1]),
            "benchmarks": [short({name: columns[name][b] for name in names}) for b in range(n)],
            "n_rarefied": held["n_rarefied"], "jaccard": matrix(held["jaccard"]),
            "cosine": matrix(held["cosine"]), "focus": self.figures["focus"],
            "suites": short(self.figures["suites"]),
            "models": {s["scope"]: short(s["models"], 4) for s in self.figures["scopes"]},
            "robust": None if robust is None else short(robust, 4),
        }  # fmt: skip

    def scope_code(self, scope: str) -> int:
        """-1 for all benchmarks, else a benchmark's code.

        A benchmark may be called 'all' itself: the scope of all stands first where there are
        several.
        """
        several = len(self.figures["scopes"]) > 1
        if several and scope == self.figures["scopes"][0]["scope"]:
            return -1
        return self.sources.benchmark_code[scope]


def _context_rows(found: pl.DataFrame) -> pl.DataFrame:
    return found.select(
        small("concept", found["concept"]), small("item", found["item"]), rounded("value"),
        pl.col("before", "token", "after").cast(pl.String),
    )  # fmt: skip

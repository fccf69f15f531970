"""The Study: items, models, runs and responses, checked, in memory or as a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import polars as pl

from thetascope.errors import InputError
from thetascope.study import store
from thetascope.study.complete import GIVEN_ID, complete_items, complete_responses, to_polars
from thetascope.study.matrix import ResponseMatrix, build_matrix
from thetascope.study.merge import merge_rows
from thetascope.study.policies import (
    RunPolicy,
    apply_policy,
    check_policy,
    describe_repeats,
    repeated_pairs,
)
from thetascope.study.schema import (
    SCHEMA,
    TABLES,
    TableName,
    check_references,
    check_table,
)
from thetascope.study.text import text_hashes


@dataclass(frozen=True)
class Study:
    """Per-item results of language models on benchmarks.

    Make one with `Study.from_tables`, `Study.open` or `thetascope.read`.

    Attributes:
        items, models, runs, responses: The four tables (see `thetascope.study.schema`).
        policy: What counts when one (item, model) pair has two runs.
        path: The folder it was opened from, None for a study in memory.
        origin: The folder that a part made by `filter` comes from; its text vectors serve
            the part too.
        report: The ImportReport of the reader that made it, None otherwise.
    """

    items: pl.DataFrame
    models: pl.DataFrame
    runs: pl.DataFrame
    responses: pl.DataFrame
    policy: RunPolicy = "error"
    path: Path | None = None
    origin: Path | None = None
    report: Any = field(default=None, compare=False)

    @staticmethod
    def from_tables(
        responses: Any,
        items: Any = None,
        models: Any = None,
        runs: Any = None,
        *,
        policy: RunPolicy = "error",
    ) -> Study:
        """Makes a study from polars or pandas tables (any that narwhals knows).

        Args:
            responses: item_id, model, score; optional run_id, trials and the rest.
            items: item_id, benchmark; optional source_id, subject, text and the rest.
                Without it each item's benchmark is read off 'benchmark:source_id'. An id
                that does not begin with its benchmark gets it in front, here and in the
                responses: ids of two benchmarks never meet.
            models: model and what is known of it.
            runs: run_id, model and what is known of them.
            policy: What counts when one pair has two runs.

        Raises:
            InputError: A table breaks a rule; names table, row, column and rule.
        """
        given = to_polars(responses, "responses")
        answers = complete_responses(given)
        item_table = complete_items(
            pl.DataFrame({"item_id": given["item_id"].unique(maintain_order=True)})
            if items is None
            else to_polars(items, "items")
        )
        if GIVEN_ID in item_table.columns:
            full = dict(zip(item_table[GIVEN_ID], item_table["item_id"], strict=True))
            answers = answers.with_columns(pl.col("item_id").cast(pl.String).replace(full))
            item_table = item_table.drop(GIVEN_ID)
        run_table = (
            answers.select("run_id", "model").unique(maintain_order=True)
            if runs is None
            else to_polars(runs, "runs")
        )
        names = answers["model"].unique(maintain_order=True)
        model_table = (
            pl.DataFrame({"model": names}) if models is None else to_polars(models, "models")
        )
        return _checked(Study(item_table, model_table, run_table, answers, check_policy(policy)))

    @staticmethod
    def open(path: str | Path) -> Study:
        """Opens a study folder.

        Raises:
            InputError: There is none, or a file of it is missing or damaged.
        """
        folder = Path(path)
        index = store.read_index(folder)
        tables = {name: store.read_table(folder, index, name) for name in TABLES}
        return Study(**tables, policy=check_policy(index.policy), path=folder, origin=None)

    def save(self, path: str | Path, *, wait: float = 10.0) -> Study:
        """Writes the study to a folder (new, or in place of the tables there), atomically.

        Derived folders that were made from other tables stay and are refused as stale.
        """
        folder = Path(path)
        with store.writing(folder, wait) as writer:
            self.write(writer)
            writer.commit()
        return replace(self, path=folder)

    def write(self, writer: store.Writer) -> None:
        """Puts the four tables with an open writer; the caller commits."""
        for name in TABLES:
            writer.put_table(name, getattr(self, name))
        writer.index.policy = self.policy

    @property
    def n_items(self) -> int:
        return self.items.height

    @property
    def n_models(self) -> int:
        return self.models.height

    @property
    def benchmarks(self) -> list[str]:
        """Names of the benchmarks, in order of appearance."""
        return self.items["benchmark"].unique(maintain_order=True).to_list()

    def pairs(self, policy: RunPolicy | None = None) -> pl.DataFrame:
        """Returns the responses that count: one row a pair under every policy but `keep`."""
        return apply_policy(self.responses, self.runs, policy or self.policy)

    def matrix(self, policy: RunPolicy | None = None) -> ResponseMatrix:
        """Returns the responses as an items x models matrix, in the order of the tables.

        Raises:
            InputError: A pair has several runs and the policy is `error`.
        """
        policy = policy or self.policy
        return build_matrix(
            self.items["item_id"].to_list(),
            self.models["model"].to_list(),
            self.pairs(policy),
            keep_rows=policy == "keep",
        )

    def merge(self, other: Study, policy: RunPolicy | None = None) -> Study:
        """Returns both studies in one: next week's run, or another harness's.

        A run that is already there (same run id) must agree and is not doubled. An item's
        known facts are kept and gaps filled; two different texts are an error.

        Args:
            other: The study to add.
            policy: What counts when one pair has two runs; default this study's own.

        Raises:
            InputError: The two contradict each other, or a pair has two runs under `error`.
        """
        policy = check_policy(policy or self.policy)
        items = merge_rows("items", self.items, other.items)
        models = merge_rows("models", self.models, other.models)
        runs = merge_rows("runs", self.runs, other.runs)
        key = ["item_id", "model", "run_id"]
        again = other.responses.join(self.responses, on=key, how="inner", suffix="_here")
        facts = [c for c in again.columns if c.endswith("_here")]
        differing = again.filter(
            pl.any_horizontal(pl.col(c.removesuffix("_here")) != pl.col(c) for c in facts)
        )
        if differing.height:
            row = differing.row(0, named=True)
            what = next(f for f in facts if row[f] != row[f.removesuffix("_here")])
            name = what.removesuffix("_here")
            raise InputError(
                f"run {row['run_id']!r} is already in the study with {name}"
                f" {row[what]:g}, now {row[name]:g}, for {row['item_id']!r}",
                file="table responses",
            )
        new = other.responses.join(self.responses, on=key, how="anti", maintain_order="left")
        responses = pl.concat([self.responses, new], how="diagonal")
        merged = _checked(
            replace(
                self,
                items=items,
                models=models,
                runs=runs,
                responses=responses,
                policy=policy,
                report=other.report,
            )
        )
        if policy == "error" and new.height:
            repeated = repeated_pairs(responses)
            if repeated.height:
                raise InputError(describe_repeats(responses, repeated))
        return merged

    def filter(
        self,
        *,
        benchmarks: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        subjects: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
    ) -> Study:
        """Returns the part of the study with these benchmarks, models, subjects and items.

        Raises:
            InputError: A name is unknown (the message lists close ones), or nothing is left.
        """
        kept = self.items
        for column, wanted in (
            ("benchmark", benchmarks),
            ("subject", subjects),
            ("item_id", items),
        ):
            if wanted is not None:
                known = [] if column not in kept.columns else kept[column].unique().to_list()
                _check_names(column, wanted, known)
                kept = kept.filter(pl.col(column).is_in(list(wanted)))
        names = self.models
        if models is not None:
            _check_names("model", models, names["model"].to_list())
            names = names.filter(pl.col("model").is_in(list(models)))
        responses = self.responses.filter(
            pl.col("item_id").is_in(kept["item_id"].implode()),
            pl.col("model").is_in(names["model"].implode()),
        )
        if not responses.height:
            raise InputError("no responses are left after the filter")
        used = responses.select("run_id").unique()
        runs = self.runs.join(used, on="run_id", how="semi", maintain_order="left")
        return replace(
            self,
            items=kept,
            models=names,
            runs=runs,
            responses=responses,
            path=None,
            origin=self.path or self.origin,
        )

    def rename_models(self, crosswalk: Mapping[str, str]) -> Study:
        """Returns the study with models renamed (old name -> new name).

        Two models that get one name become one model, with what is known of either; their
        runs stay apart, and the policy decides where both answered the same item.

        Raises:
            InputError: A name is unknown, or two models that become one contradict each other.
        """
        _check_names("model", list(crosswalk), self.models["model"].to_list())
        new = pl.col("model").replace(dict(crosswalk))
        models = self.models.with_columns(new)
        first = models["model"].is_first_distinct()
        return _checked(
            replace(
                self,
                models=merge_rows("models", models.filter(first), models.filter(~first)),
                runs=self.runs.with_columns(new),
                responses=self.responses.with_columns(new),
            )
        )

    def attach_texts(self, texts: Mapping[str, str]) -> tuple[Study, list[str]]:
        """Returns the study with texts by item id, and the ids that it does not know.

        Raises:
            InputError: A text differs from the one (or the hash) that the study has.
        """
        known = set(self.items["item_id"])
        unknown = sorted(set(texts) - known)
        found = {k: v for k, v in texts.items() if k in known}
        hashes = dict(zip(found, text_hashes(found.values()), strict=True))
        given = pl.DataFrame(
            {"item_id": list(found), "_text": list(found.values()), "_hash": list(hashes.values())},
            schema={"item_id": pl.String, "_text": pl.String, "_hash": pl.String},
        )
        items = _with_columns(self.items, "text", "text_hash")
        joined = items.join(given, on="item_id", how="left", maintain_order="left")
        wrong = joined.filter(
            pl.col("text_hash").is_not_null() & (pl.col("text_hash") != pl.col("_hash"))
        )
        if wrong.height:
            raise InputError(
                f"the text given for {wrong['item_id'][0]!r} is not the one that was evaluated:"
                f" its hash is {wrong['_hash'][0]}, the study has {wrong['text_hash'][0]}"
                f" ({wrong.height} such items)"
            )
        items = joined.with_columns(
            pl.coalesce("text", "_text").alias("text"),
            pl.coalesce("text_hash", "_hash").alias("text_hash"),
        ).drop("_text", "_hash")
        return replace(self, items=check_table("items", items)), unknown


def _checked(study: Study) -> Study:
    tables: dict[TableName, pl.DataFrame] = {
        name: check_table(name, getattr(study, name))
        for name in ("responses", "items", "models", "runs")  # others may be made from the first
    }
    check_references(tables)
    tables["responses"] = _canonical(tables)
    return replace(study, **tables)


def _canonical(tables: Mapping[TableName, pl.DataFrame]) -> pl.DataFrame:
    """Responses in the order of the tables that they point to: same rows, same bytes."""
    pairs: tuple[tuple[TableName, str], ...] = (("runs", "run_id"), ("items", "item_id"))
    place = pl.lit(0, pl.Int64)
    for table, key in pairs:
        n = tables[table].height
        place = place * n + pl.col(key).replace_strict(
            tables[table][key], pl.int_range(n, eager=True), return_dtype=pl.Int64
        )
    responses = tables["responses"]
    if not responses.height:  # items only: texts of one's traffic, say
        return responses
    places = responses.select(place.alias("place"))["place"]
    if places.is_sorted():  # as most readers leave them; a sort would copy all
        return responses
    return responses[places.arg_sort()]


def _check_names(what: str, wanted: Iterable[str], known: Sequence[str | None]) -> None:
    have = {k for k in known if k is not None}
    missing = [w for w in wanted if w not in have]
    if missing:
        close = get_close_matches(missing[0], have, n=3, cutoff=0.5)
        listed = ", ".join(sorted(have)[:12]) or "none"
        more = f" and {len(have) - 12} more" if len(have) > 12 else ""
        there = f"close are {', '.join(close)}" if close else f"there are {listed}{more}"
        raise InputError(f"no {what} named {missing[0]!r}; {there}")


def _with_columns(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    dtypes = {c.name: c.dtype for c in SCHEMA["items"]}
    return frame.with_columns(
        pl.lit(None, dtypes[n]).alias(n) for n in names if n not in frame.columns
    )

"""Collects what readers find and makes a Study of it.

Readers that walk records call `item`, `run` and `respond`; readers that have whole columns
hand over frames. Scores and ids are held as numbers in arrays, each text once, so that a log
of a gigabyte does not need a gigabyte.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from thetascope.errors import InputError
from thetascope.readers.options import ReadOptions
from thetascope.readers.report import ImportReport
from thetascope.readers.texts import shared_texts
from thetascope.readers.values import clean_text, parse_score
from thetascope.study import Study
from thetascope.study.files import hash_file
from thetascope.study.keys import n_distinct
from thetascope.study.policies import describe_repeats, repeated_pairs
from thetascope.study.text import text_hash

_NONE = -1.0


@dataclass
class StudyBuilder:
    """Gathers items, runs and responses; `build` checks them and makes the Study.

    Attributes:
        options: The user's choices.
        report: The account of the import, filled on the way.
        root: Names of files in reports and runs are relative to it.
    """

    options: ReadOptions = field(default_factory=ReadOptions)
    report: ImportReport = field(default_factory=ImportReport)
    root: Path | None = None

    def __post_init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._facts: dict[str, list[Any]] = {"text": []}
        # Two lists: a tuple for each item would be work for the garbage collector.
        self._files: list[Path] = []
        self._records: list[int | str] = []
        self._runs: list[dict[str, Any]] = []
        self._run_codes: dict[str, int] = {}
        self._item_code, self._run_code = array("i"), array("i")
        self._score, self._trials = array("d"), array("i")
        self._extra = {n: array("d") for n in ("n_tokens_in", "n_tokens_out", "cost_usd")}
        self._frames: list[pl.DataFrame] = []
        self._item_frames: list[pl.DataFrame] = []
        self._models: dict[str, dict[str, Any]] = {}
        self._hashes: dict[Path, str] = {}
        self._states: dict[Path, tuple[int, int] | None] = {}
        self._sources: set[tuple[str, str]] = set()
        self._rules: dict[tuple[str, str], dict[str, None]] = {}

    def name(self, path: Path) -> str:
        """The file's name relative to the source, as reports and runs show it."""
        if self.root is not None and path != self.root and path.is_relative_to(self.root):
            path = path.relative_to(self.root)
            return clean_text(path.as_posix())
        return clean_text(path.name)

    def source(self, path: Path, format: str) -> None:
        """Records that a file was read, and in which format."""
        entry = (self.name(path), format)
        if entry not in self._sources:  # a file beside several logs is named once
            self._sources.add(entry)
            self.report.sources.append(entry)
        if entry[0] in self.report.ignored:
            self.report.ignored.remove(entry[0])

    def rule(self, what: Literal["text", "score"], benchmark: str, how: str) -> None:
        """Records how the texts or scores of a benchmark were made, for the report."""
        self._rules.setdefault((what, clean_text(how)), {})[clean_text(benchmark)] = None

    def run(self, model: str, path: Path, **facts: Any) -> int:
        """Starts (or finds) the run of `model` in the file `path` and returns its code.

        Args:
            model: The model's name; the option `model` overrides it.
            path: The file, whose content makes the run's id.
            facts: date, harness, harness_version, shots, prompt_hash.
        """
        model = clean_text(self.options.model or model)
        if not model:
            raise InputError("the model has no name", file=path, fix="name it with --model")
        if path not in self._hashes:
            self._states[path] = _state(path)
            try:
                self._hashes[path] = hash_file(path)
            except OSError as error:
                problem = f"cannot be read: {error.strerror or error}"
                raise InputError(problem, file=path) from None
        run_id = f"{model}@{self._hashes[path][:8]}"
        code = self._run_codes.get(run_id)
        if code is None:
            code = self._run_codes[run_id] = len(self._runs)
            known = {
                k: clean_text(v) if isinstance(v, str) else v
                for k, v in facts.items()
                if v is not None
            }
            self._runs.append(
                {
                    "run_id": run_id,
                    "model": model,
                    "source": self.name(path),
                    "source_hash": self._hashes[path],
                    **known,
                }
            )
            self._models.setdefault(model, {})
        return code

    def model(self, name: str, /, **facts: Any) -> None:
        """Adds what is known of a model (family, prices, its source's own columns)."""
        self._models.setdefault(name, {}).update(facts)

    def item(
        self,
        benchmark: str,
        source_id: str,
        *,
        file: Path,
        record: int | str,
        text: str | None = None,
        **facts: Any,
    ) -> int:
        """Adds (or finds) an item and returns its code.

        Args:
            benchmark, source_id: Together the item's id.
            file, record: Where it stands, for the error when two texts share an id.
            text: The question with its options, no few-shot examples.
            facts: subject, reference, chance, n_tokens and the source's own columns.

        Raises:
            InputError: The id is empty, or was seen with another text (and the option
                `text_conflict` is 'error').
        """
        if not benchmark or not source_id:
            what = "benchmark" if not benchmark else "id"
            raise InputError(f"the item's {what} is empty", file=file, record=record)
        item_id = clean_text(f"{benchmark}:{source_id}")
        if text is not None:
            text = clean_text(text)
        code = self._codes.get(item_id)
        if code is None:
            return self._add_item(item_id, benchmark, source_id, file, record, text, facts)
        known = self._facts["text"][code]
        if text is None or text == known:
            return code
        if known is None:
            self._facts["text"][code] = text
            return code
        digest = text_hash(text)
        if digest == text_hash(known):
            return code
        if self.options.text_conflict == "error":
            seen, where = self._files[code], self._records[code]
            raise InputError(
                f"item {item_id!r} has another text here than at {self.name(seen)}, record {where}",
                file=file,
                record=record,
                fix="another version of the data set? keep both with --text-conflict separate",
            )
        self.report.note("items whose text differs between files are kept apart as id@hash")
        apart = f"{source_id}@{digest[:8]}"
        return self.item(benchmark, apart, file=file, record=record, text=text, **facts)

    def _add_item(
        self,
        item_id: str,
        benchmark: str,
        source_id: str,
        file: Path,
        record: int | str,
        text: str | None,
        facts: dict[str, Any],
    ) -> int:
        code = self._codes[item_id] = len(self._codes)
        self._files.append(file)
        self._records.append(record)
        given = {"benchmark": benchmark, "source_id": source_id, **facts}
        for name, value in given.items():
            if value is None:
                continue
            column = self._facts.setdefault(name, [])
            if len(column) < code:  # not known of the items before
                column.extend([None] * (code - len(column)))
            column.append(clean_text(value) if isinstance(value, str) else value)
        self._facts["text"].append(text)
        if text is not None and len(self.report.texts) < 3:
            self.report.texts.append((item_id, text))
        return code

    def respond(
        self,
        run: int,
        item: int,
        value: Any,
        *,
        file: Path,
        record: int | str,
        field: str = "score",
        one: float | None = None,
        trials: int = 1,
        n_tokens_in: int | None = None,
        n_tokens_out: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Adds a graded response; a value that says 'no score' is dropped and counted.

        Args:
            run, item: Codes of `run` and `item`.
            value: The score as the source has it.
            file, record, field: Where it stands.
            one: The value that stands for 1, where the format says so; else the option `scale`.
            trials: How many attempts the score is the mean of.
            n_tokens_in, n_tokens_out, cost_usd: What the answer took.

        Raises:
            InputError: The value is no score (see `parse_score`).
        """
        scale = self.options.scale if one is None else one
        score = parse_score(
            value,
            file=file,
            record=record,
            field=field,
            scale=scale,
            own_scale=one is not None,
        )
        if score is None:
            self.report.drop("no score (null or NaN)", self.name(file), record)
            return
        self._run_code.append(run)
        self._item_code.append(item)
        self._score.append(score)
        self._trials.append(trials)
        for name, given in (
            ("n_tokens_in", n_tokens_in),
            ("n_tokens_out", n_tokens_out),
            ("cost_usd", cost_usd),
        ):
            if given is not None:
                column = self._extra[name]
                _pad(column, len(self._score) - 1)
                column.append(given)

    def respond_many(
        self, runs: NDArray[np.int32], items: NDArray[np.int32], scores: NDArray[np.float64]
    ) -> None:
        """Adds responses whose scores are checked: codes of `run` and `item`, scores in [0, 1]."""
        assert len(runs) == len(items) == len(scores), (len(runs), len(items), len(scores))
        assert not len(scores) or (scores.min() >= 0 and scores.max() <= 1), "scores in [0, 1]"
        self._run_code.frombytes(np.ascontiguousarray(runs, np.int32).tobytes())
        self._item_code.frombytes(np.ascontiguousarray(items, np.int32).tobytes())
        self._score.frombytes(np.ascontiguousarray(scores, np.float64).tobytes())
        self._trials.extend(array("i", [1]) * len(scores))

    def add_frames(self, responses: pl.DataFrame, items: pl.DataFrame | None, path: Path) -> None:
        """Adds whole columns: responses (item_id, model, score, ...) and their items.

        Both carry full item ids ('benchmark:source_id'). A run is made for each model.
        """
        models = responses["model"].unique(maintain_order=True).to_list()
        if "run_id" not in responses.columns:
            codes = [self.run(m, path) for m in models]
            ids = [self._runs[c]["run_id"] for c in codes]
            named = pl.col("model").replace_strict(models, ids, return_dtype=pl.String)
            responses = responses.with_columns(named.alias("run_id"))
        else:
            runs = responses.select("run_id", "model").unique(maintain_order=True)
            for run_id, model in runs.iter_rows():
                if run_id not in self._run_codes:
                    self._run_codes[run_id] = len(self._runs)
                    self._runs.append({"run_id": run_id, "model": model, "source": self.name(path)})
                self._models.setdefault(model, {})
        if self.options.model:
            responses = responses.with_columns(pl.lit(self.options.model).alias("model"))
        if "trials" not in responses.columns:
            responses = responses.with_columns(pl.lit(1, pl.Int64).alias("trials"))
        self._frames.append(responses)
        if items is not None:
            self._item_frames.append(items)
            if "text" in items.columns and len(self.report.texts) < 3:
                some = items.filter(pl.col("text").is_not_null()).head(3)
                self.report.texts += list(zip(some["item_id"], some["text"], strict=True))[:3]

    def build(self) -> Study:
        """Makes the Study.

        Raises:
            InputError: A file changed meanwhile, nothing was kept, a table breaks a rule, or a
                pair has two responses under the policy `error`.
        """
        for path, before in self._states.items():
            if _state(path) != before:
                raise InputError(
                    "changed while it was read", file=path, fix="import it when it is finished"
                )
        responses = self._responses()
        self.report.kept = responses.height
        self._report_rules()
        if not responses.height:
            raise InputError("no responses were found; " + "; ".join(self.report.lines()))
        responses, runs = _number_repeats(
            responses, pl.DataFrame(self._runs, infer_schema_length=None)
        )
        policy = self.options.on_duplicate
        repeated = repeated_pairs(responses)
        if repeated.height:
            if policy == "error":
                raise InputError(describe_repeats(responses, repeated))
            self.report.note(
                f"{repeated.height:,} (item, model) pairs have more than one response"
                f" ({int(repeated['n'].sum()):,} rows): policy '{policy}'"
            )
        models = [{"model": m, **facts} for m, facts in self._models.items()]
        items = self._item_table(responses)
        for line in shared_texts(items):
            self.report.note(line)
        study = Study.from_tables(
            responses,
            items,
            pl.DataFrame(models, infer_schema_length=None),
            runs,
            policy=policy,
        )
        object.__setattr__(study, "report", self.report)
        return study

    def _report_rules(self) -> None:
        texts: list[str] = []
        for (what, how), benchmarks in self._rules.items():
            names = _listed(list(benchmarks))
            if what == "text":
                texts.append(f"{how} ({names})")
            else:
                self.report.note(f"score = {how} ({names})")
        if texts:
            self.report.text_rule = "; ".join(texts)

    def _responses(self) -> pl.DataFrame:
        frames = list(self._frames)
        if len(self._score):
            ids, runs = list(self._codes), self._runs
            run = pl.Series(self._run_code, dtype=pl.Int64)
            numbers = pl.DataFrame(
                {
                    "item_id": pl.Series(ids, dtype=pl.String).gather(
                        pl.Series(self._item_code, dtype=pl.Int64)
                    ),
                    "model": pl.Series([r["model"] for r in runs], dtype=pl.String).gather(run),
                    "run_id": pl.Series([r["run_id"] for r in runs], dtype=pl.String).gather(run),
                    "score": pl.Series(self._score, dtype=pl.Float64),
                    "trials": pl.Series(self._trials, dtype=pl.Int64),
                }
            )
            for name, values in self._extra.items():
                if len(values):
                    _pad(values, len(self._score))
                    column = pl.Series(name, values, dtype=pl.Float64)
                    known = pl.when(column != _NONE).then(column)
                    dtype = pl.Float64 if name == "cost_usd" else pl.Int64
                    numbers = numbers.with_columns(known.cast(dtype).alias(name))
            frames.append(numbers)
        if not frames:
            return pl.DataFrame(schema={"item_id": pl.String})
        return pl.concat(frames, how="diagonal_relaxed")

    def _item_table(self, responses: pl.DataFrame) -> pl.DataFrame:
        frames = list(self._item_frames)
        if self._codes:
            columns = {"item_id": pl.Series(list(self._codes), dtype=pl.String)}
            for name, values in self._facts.items():
                values.extend([None] * (len(self._codes) - len(values)))
                columns[name] = pl.Series(values, strict=False)
                values.clear()  # every text is in memory once
            frames.append(pl.DataFrame(columns))
        items = pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]
        empty = [c for c in items.columns if items[c].null_count() == items.height]
        items = items.drop(empty)
        if len(frames) > 1:
            others = [c for c in items.columns if c != "item_id"]
            items = items.group_by("item_id", maintain_order=True).agg(
                pl.col(c).drop_nulls().first() for c in others
            )
        used = responses.select("item_id").unique()
        if used.height == items.height:  # every response has an item
            return items
        return items.join(used, on="item_id", how="semi", maintain_order="left")


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of the last change, None where there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _pad(column: array[float], length: int) -> None:
    if len(column) < length:
        column.extend(array("d", [_NONE]) * (length - len(column)))


def _listed(names: list[str], limit: int = 3) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _number_repeats(
    responses: pl.DataFrame, runs: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Repeats inside one run become runs of their own: run, run#2, run#3, ..."""
    key = ["item_id", "model", "run_id"]
    if n_distinct(responses, key) == responses.height:
        return responses, runs
    turn = pl.int_range(pl.len()).over(key) + 1
    named = pl.when(turn > 1).then(pl.concat_str("run_id", pl.lit("#"), turn)).otherwise("run_id")
    base = pl.col("run_id").alias("_base")
    responses = responses.with_columns(base, named.alias("run_id"))
    extra = (
        responses.select("run_id", "_base")
        .unique(maintain_order=True)
        .filter(pl.col("run_id") != pl.col("_base"))
        .join(runs.rename({"run_id": "_base"}), on="_base", how="left", maintain_order="left")
        .select(runs.columns)
    )
    return responses.drop("_base"), pl.concat([runs, extra])

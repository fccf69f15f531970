"""Gaps kept in the study's folder: made once, named by what they were made from.

gaps/<concepts>-<hash>/
  gaps.json             settings, figures of coverage, a summary of every model
  coverage.parquet      a row a (benchmark, concept): chi, n_active, peak and, where there is
                        something to compare with, log_ratio, low, high, q, share,
                        share_reference
  performance.parquet   a row a tested (scope, model, concept), see `performance.Performance`
  familywise.parquet    a row a tested (model, concept) of the models in focus: p_low, p_high
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from thetascope.concepts.store import Concepts, load_concepts
from thetascope.errors import InputError
from thetascope.evaluation.splits import check_seeds
from thetascope.gaps.adjusted import adjusted
from thetascope.gaps.base_rates import base_rates, check_same_dictionary
from thetascope.gaps.bootstrap import suite
from thetascope.gaps.coverage import Coverage, coverage
from thetascope.gaps.data import THRESHOLD, GapData, gap_data
from thetascope.gaps.familywise import familywise
from thetascope.gaps.performance import ALL, LEAST_STRONG, LEVEL, Performance, Progress, performance
from thetascope.gaps.residuals import ResidualGaps
from thetascope.predictors.base import item_features
from thetascope.predictors.setup import study_groups
from thetascope.study import Study, files, store
from thetascope.study.derived import Made, find, keep, path_of, short_name

GAPS = "gaps"
VERSION = 3
N_FOCUS = 2
"""Models whose lists are controlled family-wise where none are named: the highest means."""


@dataclass(frozen=True)
class GapSettings:
    """Settings of the gaps.

    Attributes:
        threshold: Share of a concept's maximum over the reference from which on it is active.
        length: Whether text length is a covariate.
        seed: Of permutations and replicates.
    """

    threshold: float = THRESHOLD
    length: bool = True
    seed: int = 0


@dataclass(frozen=True)
class SavedGaps:
    """Gaps as they are kept.

    Attributes:
        name: Of the concepts that they are on.
        folder: Where they are.
        figures: gaps.json.
    """

    name: str
    folder: Path
    figures: dict[str, Any]

    @property
    def coverage(self) -> pl.DataFrame:
        """A row a (benchmark, concept)."""
        return pl.read_parquet(self.folder / "coverage.parquet")

    @property
    def familywise(self) -> pl.DataFrame:
        """A row a (model, concept) of the models in focus."""
        return pl.read_parquet(self.folder / "familywise.parquet")

    def performance(self, scope: str | None = None, model: str | None = None) -> pl.DataFrame:
        """Tested concepts, of one scope ('all' or a benchmark) and one model where they are named.

        Raises:
            InputError: There is no such scope or model.
        """
        rows = pl.scan_parquet(self.folder / "performance.parquet")
        for column, value, known in (
            ("scope", scope, self.scopes), ("model", model, self.figures["models"]),
        ):  # fmt: skip
            if value is not None:
                if value not in known:
                    close = (
                        get_close_matches(value, list(known), n=3, cutoff=0.4) or list(known)[:8]
                    )
                    what = "benchmark" if column == "scope" else column
                    raise InputError(
                        f"no {what} named {value!r}; there are {', '.join(close)}, ...",
                        field=what,
                    )
                rows = rows.filter(pl.col(column) == value)
        return rows.collect()

    @property
    def scopes(self) -> list[str]:
        """'all', where there are several benchmarks, and the benchmarks."""
        return [s["scope"] for s in self.figures["scopes"]]

    def list(
        self, model: str, *, weak: bool = True, scope: str | None = None, level: float = LEVEL
    ) -> pl.DataFrame:
        """A model's gaps (or strengths): q below the level, by shrunk effect.

        Column p_family is the family-wise p-value, null where the model was not in focus or the
        scope is one of several benchmarks. A strength with n_eff < 30 has no q and is called by
        p_family.
        """
        side = "low" if weak else "high"
        rows = self.performance(scope or self.scopes[0], model)
        family = self.familywise.filter(model=model).select(
            "concept", pl.col(f"p_{side}").alias("p_family")
        )
        if (scope or self.scopes[0]) != self.scopes[0]:
            family = family.clear()
        rows = rows.join(family, on="concept", how="left", maintain_order="left")
        sure = (pl.col(f"q_{side}") < level).fill_null(False)
        if not weak:
            rare = pl.col("n_eff") < LEAST_STRONG
            sure = sure | (rare & (pl.col("p_family") < level).fill_null(False))
        return rows.filter(sure).sort("shrunk", descending=not weak)


def gaps_study(
    path: str | Path, concepts: str | None = None, *, settings: GapSettings | None = None,
    focus: Sequence[str] = (), against: str | Path | None = None,
    progress: Progress | None = None, wait: float = 10.0,
) -> Made:  # fmt: skip
    """Finds what a study's benchmarks cover and where its models are weak, and keeps it there.

    Args:
        path: The study's folder, with concept activations.
        concepts: Their name; None where there is one.
        settings: Settings.
        focus: Models whose lists are also controlled family-wise; the two best where empty.
        against: Another study read with the same dictionary, whose items are what benchmarks are
            compared with; the study's other benchmarks where None.
        progress: Called with (done, total, what).
        wait: Seconds to wait for another writer.

    Raises:
        InputError: As `load_concepts`, `gap_data` and `base_rates`; an unknown model.
        StaleError: As `load_concepts`.
    """
    chosen = settings or GapSettings()
    check_seeds(seed=chosen.seed)
    opened = Study.open(Path(path))
    name = short_name(opened, "concepts", concepts)
    vectors = grouping_vectors(opened)
    if focus:
        opened.filter(models=list(focus))  # raises with close names
    reference = None if against is None else Study.open(Path(against))
    there = None if reference is None else load_concepts(reference)

    if not opened.responses.height:
        raise InputError(
            "there are no responses, so there is no model to look at", file=path,
            fix="name it as --against of a study that has some",
        )  # fmt: skip

    def make(study: Study, work: Path) -> None:
        data = study_gap_data(study, name, chosen, vectors)
        other = None
        if reference is not None and there is not None:
            other = gap_data(reference, there, threshold=chosen.threshold)
            check_same_dictionary(data, other)
        _write(work, data, chosen, list(focus), other, progress)

    needs = [f"concepts/{name}", *([] if vectors is None else [f"vectors/{vectors}"])]
    wanted = {
        **asdict(chosen), "focus": list(focus), "version": VERSION,
        "against": None if there is None else there.content,
    }  # fmt: skip
    return keep(path, GAPS, name, make, needs=needs, settings=wanted, wait=wait)


def load_gaps(study: Study, name: str | None = None) -> SavedGaps:
    """The kept gaps.

    Args:
        study: The study.
        name: Of the concepts; None where there are gaps on one.

    Raises:
        InputError: There are none.
        StaleError: The study or its activations have changed since.
    """
    if name is None:
        index = store.read_index(path_of(study))
        known = index.derived.get(GAPS, {}).keys() & index.derived.get("concepts", {}).keys()
        if len(known) > 1:
            raise InputError(
                f"there are gaps on several concepts: {', '.join(sorted(known))}", fix="name one"
            )
        name = next(iter(known), None)
        if name is None and index.derived.get(GAPS):  # groups and the like, but no gaps
            raise InputError("the study has no gaps", file=study.path,
                             fix=f"make them with: thetascope gaps {study.path}")  # fmt: skip
    folder = find(study, GAPS, name, "thetascope gaps")
    figures = files.read_json(folder / "gaps.json")
    return SavedGaps(folder.name.rpartition("-")[0], folder, figures)


def study_gap_data(
    study: Study, concepts: str | None, settings: GapSettings | None = None,
    vectors: str | None = None,
) -> GapData:  # fmt: skip
    """A study's activations and scores, with its groups of near-duplicates.

    Args:
        study: A study on disk.
        concepts: Name of the activations; None for the only ones.
        settings: Of the gaps; only the threshold is read.
        vectors: Text vectors that find near-duplicates; `grouping_vectors` where None.
    """
    chosen = settings or GapSettings()
    vectors = vectors or grouping_vectors(study)
    held: Concepts = load_concepts(study, concepts)
    groups = study_groups(study, item_features(study, vectors)).labels
    return gap_data(study, held, threshold=chosen.threshold, groups=np.asarray(groups))


def grouping_vectors(study: Study) -> str | None:
    """The text vectors that find near-duplicates: the only ones, of several the first by name."""
    return min(store.read_index(path_of(study)).derived.get("vectors", {}), default=None)


def _write(
    work: Path, data: GapData, settings: GapSettings, focus: list[str], other: GapData | None,
    progress: Progress | None,
) -> None:  # fmt: skip
    def step(what: str) -> None:
        if progress is not None:
            progress(0, -1, what)

    step("coverage")
    covered = coverage(data)
    found = performance(data, length=settings.length, progress=progress)
    found = _with_adjusted(
        found, adjusted(data, length=settings.length, seed=settings.seed, progress=progress)
    )
    step("what each benchmark asks more than the reference")
    rates = base_rates(data, other, seed=settings.seed)
    _coverage_table(data, covered, rates).write_parquet(work / "coverage.parquet")
    _narrow(
        pl.concat([p.table.select(pl.lit(p.scope).alias("scope"), pl.all()) for p in found])
    ).write_parquet(work / "performance.parquet", row_group_size=1 << 16)
    chosen = focus or strongest(found[0])
    family, suites = [], {}
    for model in chosen:
        step(f"family-wise control of {model}")
        m = data.model(model)
        f = familywise(data, m, length=settings.length, seed=settings.seed)
        family.append(
            pl.DataFrame(
                {"concept": f.concepts.astype(np.int32), "p_low": f.low, "p_high": f.high}
            ).select(pl.lit(model).alias("model"), pl.all())
        )
        s = suite(data, m, seed=settings.seed)
        suites[model] = {"median": list(s.median), "mean": list(s.mean), "n_concepts": s.n_concepts}
    pl.concat(family).write_parquet(work / "familywise.parquet")
    files.write_json(work / "gaps.json", files.finite(
        {
            "settings": asdict(settings), "models": list(data.models), "n_items": data.n_items,
            "n_dropped": data.n_dropped, "n_concepts": data.n_concepts,
            "reduced_to": data.floor or None, "threshold": data.threshold,
            "against": None if other is None else {"n_items": other.n_items,
                                                   "benchmarks": list(other.benchmarks)},
            "coverage": covered.to_json(), "focus": chosen, "suites": suites,
            "scopes": [{"scope": p.scope, "models": _summary(p)} for p in found],
        }
    ))  # fmt: skip


def _with_adjusted(
    found: list[Performance], others: list[ResidualGaps] | None
) -> list[Performance]:
    """Sets what is left of each effect after the others' difficulty beside it."""
    names = ("adjusted", "q_adjusted_low", "q_adjusted_high")
    if others is None:
        nothing = [pl.lit(None, pl.Float64).alias(n) for n in names]
        return [replace(p, table=p.table.with_columns(nothing)) for p in found]
    out = []
    for p, o in zip(found, others, strict=True):
        columns = dict(zip(("effect", "q_low", "q_high"), names, strict=True))
        rest = o.table.select("model", "concept", *(pl.col(c).alias(n) for c, n in columns.items()))
        table = p.table.join(rest, on=["model", "concept"], how="left", maintain_order="left")
        out.append(replace(p, table=table))
    return out


def strongest(found: Performance) -> list[str]:
    """The models with the highest means among those that answered the most items."""
    table = found.models.filter(pl.col("n_items") > 0)
    wide = table.filter(pl.col("n_items") >= 0.9 * pl.col("n_items").max())
    return wide.sort("mean", descending=True)["model"].head(N_FOCUS).to_list()


def _summary(found: Performance) -> list[dict[str, Any]]:
    called = found.table.group_by("model").agg(
        (pl.col("q_low") < LEVEL).sum().alias("n_weak"),
        (pl.col("q_high").fill_nan(None) < LEVEL).sum().alias("n_strong"),
        ((pl.col("q_low") < LEVEL) & (pl.col("q_adjusted_low") < LEVEL).fill_null(False))
        .sum()
        .alias("n_own"),
        pl.col("adjusted").is_not_null().any().alias("compared"),
        pl.col("score").median().alias("median_score"),
    )
    return (
        found.models.join(called, on="model", how="left", maintain_order="left")
        .with_columns(
            pl.col("n_weak", "n_strong").fill_null(0),
            pl.when("compared").then("n_own").alias("n_own"),
        )
        .drop("compared")
        .to_dicts()
    )


def _coverage_table(data: GapData, covered: Coverage, rates: pl.DataFrame) -> pl.DataFrame:
    c, b = covered.chi.shape
    peaks = None
    if data.peak is not None:
        peaks = np.zeros((b, c), np.float32)
        for k, part in enumerate(data.parts):
            held = data.peak[part]
            np.maximum.at(peaks[k], held.indices, held.data)
    table = pl.DataFrame(
        {
            "benchmark": np.repeat(np.array(covered.benchmarks, object), c).tolist(),
            "concept": np.tile(np.arange(c, dtype=np.int32), b),
            "chi": covered.chi.T.ravel().astype(np.float32),
            "n_active": None if covered.n_active is None
            else covered.n_active.T.ravel().astype(np.int32),
            "peak": None if peaks is None else peaks.ravel(),
        },
        schema={"benchmark": pl.String, "concept": pl.Int32, "chi": pl.Float32,
                "n_active": pl.Int32, "peak": pl.Float32},
    )  # fmt: skip
    return table.join(
        _narrow(rates), on=["benchmark", "concept"], how="left", maintain_order="left"
    )


def _narrow(table: pl.DataFrame) -> pl.DataFrame:
    """float32 but for p and q, which are small."""
    wide = [c for c, t in table.schema.items() if t == pl.Float64 and c[0] not in "pq"]
    exact = [c for c, t in table.schema.items() if t == pl.Float64 and c[0] in "pq"]
    return table.with_columns(pl.col(wide).cast(pl.Float32), pl.col(exact).fill_nan(None))


def whole_scope(figures: dict[str, Any]) -> str:
    """'all' where there are several benchmarks, else the only one."""
    return ALL if len(figures["scopes"]) > 1 else figures["scopes"][0]["scope"]

"""The table for embedding-atlas against the study, with parts missing, and with hostile names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from benchmarks.explorer_concepts import HOSTILE_LABELS
from benchmarks.explorer_study import (
    HOSTILE_BENCHMARK,
    HOSTILE_SUBJECT,
    HOSTILE_TEXT,
    SMALL,
    Plan,
    make,
)

import thetascope as ts
from thetascope.cli import main
from thetascope.concepts.store import load_concepts
from thetascope.errors import InputError
from thetascope.explorer.embedding_atlas import column_names
from thetascope.space.saved import load_items, load_space
from thetascope.study import Study

TINY = Plan(n_items=90, n_models=4, n_concepts=48, n_active=10, n_benchmarks=2, n_subjects=4,
            dim=8, texts=False)  # fmt: skip


@pytest.fixture(scope="module")
def table(small_study: Path, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    to = tmp_path_factory.mktemp("atlas") / "out"
    written = ts.export_study(ts.open(small_study), to, "embedding-atlas")
    assert [p.name for p in written] == ["README.md", "data.parquet"]
    return pl.read_parquet(to / "data.parquet")


def test_it_holds_the_study(small_study: Path, table: pl.DataFrame) -> None:
    study = ts.open(small_study)
    items = study.items
    for column in ("item_id", "benchmark", "subject", "text"):
        assert table[column].equals(items[column]), column
    matrix = study.matrix()
    score = np.where(matrix.observed, matrix.filled(), np.nan)
    assert np.allclose(table["difficulty"], 1 - np.nanmean(score, axis=1), atol=6e-4)
    assert np.array_equal(table["n_answered"], matrix.observed.sum(axis=1))
    columns = [c for c in table.columns if c.startswith("score: ")]
    assert len(columns) == SMALL.n_models
    held = table.select(columns).to_numpy()
    assert np.allclose(held, score, atol=6e-4, equal_nan=True)
    assert np.isnan(held).any()


def test_places_clusters_features_and_neighbours_are_the_explorers(
    small_study: Path, table: pl.DataFrame
) -> None:
    study = ts.open(small_study)
    place = table.select("x", "y").to_numpy()
    assert np.isfinite(place).all()
    assert place.std(axis=0).min() > 0.05
    names = {c["code"]: c["name"] for c in load_space(study, "taxonomy")["clusters"]}
    cluster = load_items(study, "taxonomy").select("item_id", "cluster")
    expected = items_in_order(study, cluster)["cluster"].replace_strict(names)
    assert table["cluster"].equals(expected.alias("cluster"))
    activations = load_concepts(study)
    labels = activations.labels
    mean = activations.csr().toarray()
    excess = mean / np.maximum(mean.mean(axis=0), 1e-12)
    for row in (0, 17, 599):
        features = table["features"][row].to_list()
        assert 1 <= len(features) <= 8
        assert len(set(features)) == len(features)
        best = np.argsort(-excess[row])[: 2 * len(features)]
        assert set(features) <= {labels[c] for c in best.tolist()}
    for row in (0, 300):
        near = table["neighbours"][row]
        assert len(near["ids"]) == len(near["distances"]) == 10
        assert row not in near["ids"]
        assert near["distances"] == sorted(near["distances"])


def items_in_order(study: Study, table: pl.DataFrame) -> pl.DataFrame:
    return study.items.select("item_id").join(
        table, on="item_id", how="left", maintain_order="left"
    )


def test_hostile_names_stay_data(table: pl.DataFrame) -> None:
    first = table.row(0, named=True)
    assert first["text"] == HOSTILE_TEXT
    assert first["benchmark"] == HOSTILE_BENCHMARK
    assert first["subject"] == HOSTILE_SUBJECT
    shown = set(table["features"].explode())
    assert set(HOSTILE_LABELS[:3]) <= shown
    assert "score: <script>alert(1)</script>''" in table.columns
    assert not [c for c in table.columns if '"' in c]


def test_columns_have_names_of_their_own() -> None:
    given = ['a"b', "a'b", "a\nb", "a b", "x", 'a"b (2)']
    names = column_names(given)
    assert names == ["score: a'b", "score: a'b (2)", "score: a b", "score: a b (2)", "score: x",
                     "score: a'b (2) (2)"]  # fmt: skip
    assert len(set(names)) == len(given)


def test_pandas_reads_it_as_the_tool_wants_it(table: pl.DataFrame, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table.write_parquet(tmp_path / "t.parquet")
    frame = pandas.read_parquet(tmp_path / "t.parquet")
    near = frame["neighbours"][3]
    assert set(near) == {"ids", "distances"}
    assert all(0 <= i < len(frame) for i in near["ids"])
    assert isinstance(frame["features"][3][0], str)


@pytest.mark.parametrize(("space", "gaps"), [(False, False), (True, False), (False, True)])
def test_what_the_study_lacks_is_told(
    tmp_path: Path, space: bool, gaps: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    study = make(tmp_path / "study", TINY, space=space, taxonomy=False, gaps=gaps)
    assert main(["export", str(study), "--as", "embedding-atlas", "--to", str(tmp_path / "o"),
                 "--json"]) == 0  # fmt: skip
    said = json.loads(capsys.readouterr().out)
    table = pl.read_parquet(tmp_path / "o" / "data.parquet")
    readme = (tmp_path / "o" / "README.md").read_text()
    assert table.height == TINY.n_items
    for there, columns in (
        (space, ["x", "y", "neighbours"]), (gaps, ["features"]), (False, ["text"]),
        (False, ["cluster"]),
    ):  # fmt: skip
        for column in columns:
            assert (column in table.columns) == there
        named = f"{', '.join(columns)}: "
        assert any(x.startswith(named) for x in said["left_out"]) != there
        assert (f"\n- {named}" in readme.partition("Missing:")[2]) != there
    assert ("--disable-projection" in readme) != space
    assert ("--features features" in readme) == gaps
    assert str(tmp_path) not in readme


def test_equal_studies_give_equal_bytes(small_study: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        ts.export_study(ts.open(small_study), tmp_path / name, "embedding-atlas")
    for file in ("data.parquet", "README.md"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_study_in_memory_and_an_unknown_format_are_refused(
    small_study: Path, tmp_path: Path
) -> None:
    study = ts.open(small_study).filter(benchmarks=[HOSTILE_BENCHMARK])
    with pytest.raises(InputError, match="in memory"):
        ts.export_study(study, tmp_path / "a", "embedding-atlas")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="known are csv, lm-eval, inspect, embedding-atlas"):
        ts.export_study(study, tmp_path / "a", "parquet")

"""The explorer's files, read back and held against what the library says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.explorer.explorer_cases import as_table, read_all

from thetascope.concepts.store import load_concepts
from thetascope.evaluation.columns import means
from thetascope.explorer import Contents
from thetascope.explorer.concepts import N_FEATURES
from thetascope.gaps.data import GapData
from thetascope.gaps.grouping_saved import load_groups
from thetascope.gaps.saved import load_gaps, study_gap_data
from thetascope.gaps.versus import versus
from thetascope.predictors.saved import load_fit
from thetascope.report.gather import Material, gather
from thetascope.space import Space, space_of
from thetascope.space.saved import load_items, load_space
from thetascope.study import Study


@pytest.fixture(scope="module")
def contents(small_study: Path) -> Contents:
    return Contents(small_study)


@pytest.fixture(scope="module")
def read(contents: Contents) -> dict[str, Any]:
    return read_all(contents)


@pytest.fixture(scope="module")
def study(small_study: Path) -> Study:
    return Study.open(small_study)


@pytest.fixture(scope="module")
def material(study: Study) -> Material:
    return gather(study, None, None, None)


@pytest.fixture(scope="module")
def data(study: Study) -> GapData:
    return study_gap_data(study, None)


@pytest.fixture(scope="module")
def space(study: Study) -> Space:
    fit = load_fit(study, "space")
    from thetascope.predictors.saved import fit_features

    return space_of(fit, fit_features(study, fit))


def near(found: Any, expected: Any, digits: int = 3) -> None:
    """Equal to some decimals, nulls where NaN is."""
    a = np.array(pl.Series(found).cast(pl.Float64).to_numpy(), float)
    b = np.asarray(expected, float)
    assert a.shape == b.shape
    assert (np.isnan(a) == np.isnan(b)).all()
    known = ~np.isnan(b)
    assert np.abs(a[known] - b[known]).max(initial=0) <= 0.51 * 10**-digits + 1e-6


def same_q(found: pl.Series, expected: pl.Series) -> None:
    """Equal to two significant digits."""
    a, b = found.cast(pl.Float64), expected.cast(pl.Float64).fill_nan(None)
    assert (a.is_null() == b.is_null()).all()
    assert ((a - b).abs() <= 0.051 * b + 1e-29).all(ignore_nulls=True)


def test_the_paths_are_those_of_the_contract(read: dict[str, Any], study: Study) -> None:
    site = read["site.json"]
    m, chunk = len(site["models"]), site["item_chunk"]
    n_chunks = -(-site["n_items"] // chunk)
    expected = {"site.json", "overview.json", "items.parquet", "models.json", "space.json",
                "probes.parquet", "coverage.json", "concepts.parquet", "features.parquet",
                "groups.json", "groups.parquet"}  # fmt: skip
    for k in range(m):
        expected |= {f"scores/{k:03d}.parquet", f"performance/{k:03d}.parquet"}
    for k in range(n_chunks):
        expected |= {f"{what}/{k:03d}.parquet"
                     for what in ("texts", "answers", "neighbours", "item_contexts")}  # fmt: skip
    for k in range(len(site["concept_starts"]) - 1):
        expected |= {f"activations/{k:03d}.parquet", f"contexts/{k:03d}.parquet"}
    expected |= {f"coverage/{b:03d}.parquet" for b in range(len(site["benchmarks"]))}
    expected |= {f"versus/{a:03d}-{b:03d}.parquet" for a, b in site["versus"]}
    assert set(read) == expected
    assert site["answers"] == []
    assert site["n_responses"] == study.responses.height
    assert [x["name"] for x in site["benchmarks"]] == study.benchmarks
    assert all(site["has"][k] for k in ("space", "predicted", "texts", "gaps", "contexts",
                                        "groups", "information"))  # fmt: skip
    assert not site["has"]["routing"]
    assert {"routing", "comparison"} <= {x["what"] for x in site["missing"]}


def test_items_are_in_the_studys_order_with_its_statistics(
    read: dict[str, Any], material: Material, space: Space
) -> None:
    items, site = read["items.parquet"], read["site.json"]
    whole = material.items
    assert items["source_id"].to_list() == whole["source_id"].to_list()
    names = [site["benchmarks"][b]["name"] for b in items["benchmark"]]
    assert names == whole["benchmark"].to_list()
    subjects = [site["subjects"][s] for s in items["subject"]]
    assert [s["name"] for s in subjects] == whole["subject"].to_list()
    assert [s["benchmark"] for s in subjects] == items["benchmark"].to_list()
    near(items["error"], 1 - whole["mean"].to_numpy())
    near(items["item_rest"], whole["item_rest"].to_numpy())
    same_q(items["q_negative"], whole["q_negative"])
    assert items["n_answered"].to_list() == whole["n_models"].to_list()
    norm = np.full(len(whole), np.nan)
    norm[space.place] = space.norm
    near(items["norm"], norm)
    labels, group = material.groups.labels, items["group"].to_numpy()
    sizes = np.bincount(labels)
    assert ((group == -1) == (sizes[labels] == 1)).all()
    for g in np.unique(group[group >= 0]):
        assert len(np.unique(labels[group == g])) == 1
        assert (group == g).sum() == sizes[labels[group == g][0]]
    assert (items["information"].drop_nulls() > 0).all()


def test_information_is_that_of_the_bank(read: dict[str, Any], material: Material) -> None:
    assert material.bank is not None
    bank = material.bank.space
    row = {i: j for j, i in enumerate(material.items["item_id"])}
    found = read["items.parquet"]["information"].to_numpy()
    for j in (0, 17, 311):
        p = 1 / (1 + np.exp(-(bank.theta @ bank.design[j] + bank.intercept[j])))
        expected = (p * (1 - p)).mean() * (bank.design[j] ** 2).sum()
        assert found[row[bank.ids[j]]] == pytest.approx(expected, abs=6e-5)


def test_the_plane_is_the_two_largest_of_all(read: dict[str, Any], space: Space) -> None:
    items, drawn = read["items.parquet"], read["space.json"]
    topic = space.topic - space.topic.mean(axis=0)
    left, size, right = np.linalg.svd(topic, full_matrices=False)
    near(drawn["explained"], (size**2 / (size**2).sum())[:2])
    for k, name in enumerate(("x", "y")):
        place = items[name].to_numpy()[space.place]
        assert abs(np.corrcoef(place, left[:, k])[0, 1]) == pytest.approx(1, abs=1e-4)
        assert np.abs(place).max() == pytest.approx(np.abs(left[:, k] * size[k]).max(), abs=1e-3)
    radius = np.hypot(items["x"].to_numpy(), items["y"].to_numpy())[space.place].max()
    arrows = np.array(drawn["models"])
    assert np.linalg.norm(arrows, axis=1).max() == pytest.approx(0.9 * radius, abs=2e-3)
    sign = np.sign((left[:, :2] * size[:2] * items.select("x", "y").to_numpy()[space.place]).sum(0))
    ability = (space.ability - space.mean_ability) @ (right[:2].T * sign)
    names = [m["name"] for m in read["site.json"]["models"]]
    order = [space.models.index(m) for m in names]
    assert np.abs(arrows - drawn["scale"] * ability[order]).max() < 2e-3


def test_clusters_probes_and_the_map_are_what_was_kept(
    read: dict[str, Any], study: Study, contents: Contents
) -> None:
    drawn, kept = read["space.json"], load_space(study, "taxonomy")
    table = load_items(study, "taxonomy")
    rows = contents.sources.row_of
    cluster = np.full(study.n_items, -1)
    cluster[[rows[i] for i in table["item_id"]]] = table["cluster"].to_numpy()
    items = read["items.parquet"]
    assert items["cluster"].to_list() == cluster.tolist()
    assert [c["n_items"] for c in drawn["clusters"]] == [c["n_items"] for c in kept["clusters"]]
    for c in drawn["clusters"]:
        mine = items.filter(pl.col("cluster") == c["code"])
        assert c["x"] == pytest.approx(mine["x"].mean(), abs=2e-3)
    axis = load_space(study, "probe-probe")
    assert drawn["probes"][0]["name"] == "probe"
    near(drawn["probes"][0]["auc"], axis["separation"]["space"])
    by_name = {row[0]: row[1] for row in axis["models"]}
    names = [m["name"] for m in read["site.json"]["models"]]
    near(drawn["probes"][0]["models"], [by_name[n] for n in names])
    table = load_items(study, "probe-probe")
    value = read["probes.parquet"]["p0"].to_list()
    for i, v in table.head(20).select("item_id", "projection").iter_rows():
        assert value[rows[i]] == pytest.approx(v, abs=6e-4)
    first = load_space(study, "models")["pairs"][0]
    assert drawn["map"]["pairs"][0]["first"] == first["first"]
    near(drawn["map"]["pairs"][0]["kappa"], first["kappa"])


def test_scores_and_answers_are_one_matrix_and_the_fits_chances(
    read: dict[str, Any], material: Material, study: Study
) -> None:
    fit = load_fit(study, "space")
    p = fit.predict_proba(study)
    order = [fit.models_.index(m) for m in material.models]
    score = np.where(material.observed, material.score, np.nan)
    chunk = read["site.json"]["item_chunk"]
    m = len(material.models)
    for k in (0, m // 2, m - 1):
        found = read[f"scores/{k:03d}.parquet"]
        near(found["observed"], score[:, k])
        near(found["predicted"], p[:, order[k]])
    for k in range(-(-study.n_items // chunk)):
        rows = slice(k * chunk, (k + 1) * chunk)
        found = read[f"answers/{k:03d}.parquet"]
        near(found["observed"], score[rows].ravel())
        near(found["predicted"], p[rows][:, order].ravel())
        texts = read[f"texts/{k:03d}.parquet"]["text"].to_list()
        assert texts == material.items["text"].to_list()[rows]


def test_neighbours_are_the_nearest_by_brute_force(read: dict[str, Any], space: Space) -> None:
    likeness = space.topic @ space.topic.T
    np.fill_diagonal(likeness, -2)
    found = pl.concat(
        [read[p] for p in read if p.startswith("neighbours/")], how="vertical_relaxed"
    )
    assert found.height == 10 * len(space)
    place = {int(row): j for j, row in enumerate(space.place)}
    for item in space.place[::37].tolist():
        mine = found.filter(pl.col("item") == item)
        best = np.sort(likeness[place[item]])[::-1][:10]
        near(mine["cosine"], best)
        others = [place[n] for n in mine["neighbour"].to_list()]
        near(mine["cosine"], likeness[place[item], others])
        assert item not in mine["neighbour"].to_list()


def test_means_have_the_intervals_of_the_library(
    read: dict[str, Any], material: Material, contents: Contents
) -> None:
    models, site = read["models.json"], read["site.json"]
    codes = {
        "benchmarks": material.benchmark, "subjects": contents.sources.subjects.code,
        "clusters": read["items.parquet"]["cluster"].to_numpy(),
    }  # fmt: skip
    for what, code in codes.items():
        assert len(models[what]) == len(site["models"])
        for part in (0, int(code.max())):
            rows = np.flatnonzero(code == part)
            e = means(material.score[rows], material.observed[rows],
                      material.groups.labels[rows], material.weights, proportion=True)  # fmt: skip
            for m in (0, 1, 7):
                cell = models[what][m][part]
                if e.n[m] == 0:
                    assert cell is None
                    continue
                near(cell, [e.value[m], e.low[m], e.high[m], e.n[m]])
    overview = read["overview.json"]
    values = [row["mean"] for row in overview["models"] if row["ranked"]]
    assert values == sorted(values, reverse=True)
    for row in overview["models"]:
        assert row["benchmarks"] == models["benchmarks"][row["model"]]


def test_performance_is_what_gaps_kept(read: dict[str, Any], study: Study) -> None:
    saved = load_gaps(study)
    names = [m["name"] for m in read["site.json"]["models"]]
    benchmarks = {b["name"]: k for k, b in enumerate(read["site.json"]["benchmarks"])}
    focus = saved.figures["focus"]
    for k, name in enumerate(names):
        found, mine = read[f"performance/{k:03d}.parquet"], saved.performance(model=name)
        assert found.height == mine.height
        assert found["scope"].to_list() == [benchmarks.get(s, -1) for s in mine["scope"]]
        assert found["concept"].to_list() == mine["concept"].to_list()
        for column in ("score", "low", "high", "effect", "shrunk", "adjusted"):
            near(found[column], mine[column].to_numpy())
        for column in ("q_low", "q_high", "q_adjusted_low", "q_adjusted_high"):
            same_q(found[column], mine[column])
        assert found["n_active"].to_list() == mine["n_active"].to_list()
        same_q(found["n_eff"], mine["n_eff"])
        family = found.filter(pl.col("p_family_low").is_not_null())
        if name not in focus:
            assert not family.height
            continue
        assert set(family["scope"].to_list()) == {-1}
        kept = saved.familywise.filter(model=name).sort("concept")
        near(family.sort("concept")["p_family_high"], kept["p_high"].to_numpy())


def test_coverage_and_concepts_are_what_gaps_kept(read: dict[str, Any], study: Study) -> None:
    saved, held = load_gaps(study), load_concepts(study)
    concepts, figures = read["concepts.parquet"], read["coverage.json"]
    assert concepts["label"].to_list() == held.labels
    assert concepts["flags"].to_list() == [", ".join(f) for f in held.flags]
    near(concepts["density"], held.dictionary["density"].to_numpy(), 5)
    total = np.zeros(concepts.height)
    for b, name in enumerate(study.benchmarks):
        kept = saved.coverage.filter(benchmark=name).sort("concept")
        found = read[f"coverage/{b:03d}.parquet"]
        for column in ("chi", "log_ratio", "low", "high"):
            near(found[column], kept[column].to_numpy())
        same_q(found["q"], kept["q"])
        near(concepts[f"chi_{b}"], kept["chi"].to_numpy())
        assert concepts[f"n_{b}"].to_list() == kept["n_active"].to_list()
        total += kept["n_active"].to_numpy()
    assert concepts["n_items"].to_list() == total.tolist()
    whole = saved.figures["coverage"]
    k = whole["benchmarks"].index(study.benchmarks[1])
    assert figures["benchmarks"][1]["n_missing"] == whole["n_missing"][k]
    near(figures["benchmarks"][1]["missing"], whole["missing"][k])
    j = whole["benchmarks"].index(study.benchmarks[0])
    assert figures["jaccard"][1][0] == pytest.approx(whole["jaccard"][k][j], abs=6e-4)
    assert figures["n_missing_from_all"] == whole["n_missing_from_all"]
    assert figures["focus"] == saved.figures["focus"]
    assert list(figures["models"]) == saved.scopes


def test_activations_and_features_are_those_of_the_gaps(
    read: dict[str, Any], data: GapData, study: Study
) -> None:
    starts = read["site.json"]["concept_starts"]
    assert starts[0] == 0
    assert starts[-1] == data.n_concepts
    a, active = data.activations.tocsc(), data.active.tocsc()
    for k in range(len(starts) - 1):
        found = read[f"activations/{k:03d}.parquet"]
        assert found["concept"].is_between(starts[k], starts[k + 1], closed="left").all()
    found = pl.concat([read[p] for p in read if p.startswith("activations/")])
    assert found.height == a.nnz
    assert found["active"].sum() == int(active.sum())
    for c in (0, 5, data.n_concepts // 2):
        mine = found.filter(pl.col("concept") == c)
        column = a[:, c].tocoo()
        order = np.argsort(data.rows[column.row])
        assert mine["item"].to_list() == data.rows[column.row][order].tolist()
        near(mine["mean"], column.data[order])
        on = data.rows[active[:, c].tocoo().row]
        assert sorted(mine.filter("active")["item"].to_list()) == sorted(on.tolist())
    dense, on = data.activations.toarray(), data.active.toarray()
    plain = np.array([not f for f in data.flags]) & (on.sum(axis=0) >= 10)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where((on > 0) & plain, dense / dense.mean(axis=0), -np.inf)
    features = read["features.parquet"]
    assert features.height == N_FEATURES * study.n_items
    share = features["share"].cast(pl.Float64).to_numpy().reshape(-1, N_FEATURES)
    concept = features["concept"].to_numpy().reshape(-1, N_FEATURES)
    for j in range(0, data.n_items, 41):
        row = data.rows[j]
        best = np.sort(ratio[j])[::-1][:N_FEATURES]
        known = np.isfinite(best)
        near(share[row], np.where(known, best, np.nan), 2)
        assert (concept[row][~known] == -1).all()
        near(ratio[j][concept[row][known]], best[known])


def test_contexts_are_the_same_by_concept_and_by_item(read: dict[str, Any], study: Study) -> None:
    held = load_concepts(study)
    rows = {i: j for j, i in enumerate(study.items["item_id"])}
    by_concept = pl.concat([read[p] for p in read if p.startswith("contexts/")])
    by_item = pl.concat(
        [read[p] for p in read if p.startswith("item_contexts/")], how="vertical_relaxed"
    )
    columns = ["concept", "item", "value", "before", "token", "after"]
    kinds = {"concept": pl.Int64, "item": pl.Int64}
    a, b = (t.select(columns).cast(kinds).sort(columns) for t in (by_concept, by_item))
    assert a.equals(b)
    for c in (1, 40):
        mine, kept = by_concept.filter(pl.col("concept") == c), held.contexts(c)
        assert mine["value"].is_sorted(descending=True)
        assert sorted(mine["token"].to_list()) == sorted(kept["token"].to_list())
        assert sorted(mine["item"].to_list()) == sorted(rows[i] for i in kept["item_id"])


def test_two_models_are_compared_as_versus_does(
    small_study: Path, read: dict[str, Any], data: GapData
) -> None:
    names = [m["name"] for m in read["site.json"]["models"]]
    served = Contents(small_study, answers=())
    assert served.paths() == [p for p in read if not p.startswith("versus/")]
    pairs = [tuple(p) for p in read["site.json"]["versus"]]
    for a, b in (pairs[0], (1, 11)):
        path = f"versus/{a:03d}-{b:03d}.parquet"
        assert path in served
        found = as_table(served.read(path))
        if (a, b) in pairs:
            assert found.equals(read[path])
        expected = versus(data, names[a], names[b]).table
        assert found["concept"].to_list() == expected["concept"].to_list()
        for column in ("difference", "low", "high", "effect"):
            near(found[column], expected[column].to_numpy())
        for column in ("q_worse", "q_better", "q_low", "q_high"):
            same_q(found[column], expected[column])
    for wrong in (
        "versus/003-001.parquet", "versus/001-001.parquet", "versus/001-012.parquet",
        "versus/1-3.parquet", "versus/0001-0003.parquet", "versus/٠٠١-٠٠٣.parquet",
        "versus/001-003.parquet\n", "scores/012.parquet", "", "..", "site.json/",
    ):  # fmt: skip
        assert wrong not in served
        with pytest.raises(KeyError):
            served.read(wrong)


def test_groups_are_what_was_kept(read: dict[str, Any], study: Study) -> None:
    kept = load_groups(study)
    found = read["groups.json"]
    assert [g["name"] for g in found["groups"]] == [g["name"] for g in kept.figures["groups"]]
    whole = kept.coverage.filter(benchmark=study.benchmarks[0]).sort("group")
    near([c["chi"] for c in found["coverage"][0]], whole["chi"].to_numpy())
    table = read["groups.parquet"]
    assert table.height == kept.performance.height
    near(table["effect"], kept.performance["effect"].to_numpy())
    same_q(table["q_low"], kept.performance["q_low"])
    of = dict(kept.table.select("concept", "group").iter_rows())
    assert read["concepts.parquet"]["group"].to_list() == [of[c] for c in range(len(of))]


def test_what_to_look_at_first_links_to_it(read: dict[str, Any], study: Study) -> None:
    first = read["overview.json"]["first"]
    kinds = [f["kind"] for f in first]
    assert {"gap", "missing", "tie", "limit"} <= set(kinds)
    n = {"model": len(read["site.json"]["models"]), "concept": read["concepts.parquet"].height,
         "item": study.n_items, "benchmark": len(study.benchmarks)}  # fmt: skip
    n |= {"a": n["model"], "b": n["model"]}
    for f in first:
        if f["link"] is None:
            assert f["kind"] == "limit"
            continue
        page, _, query = f["link"].partition("?")
        assert page.removeprefix("#/") in ("concepts", "items", "models", "benchmarks")
        for pair in query.split("&"):
            key, value = pair.split("=")
            if key in n:
                assert 0 <= int(value) < n[key]
    sure = read["items.parquet"].filter((pl.col("item_rest") < 0) & (pl.col("q_negative") < 0.05))
    shown = [f for f in first if f["kind"] == "item" and "item=" in f["link"]]
    assert len(shown) == min(3, sure.height)


def test_files_are_the_same_each_time(small_study: Path, contents: Contents) -> None:
    again = Contents(small_study)
    assert again.paths() == contents.paths()
    for path in contents.paths():
        assert again.read(path, keep=False) == contents.read(path), path


def test_made_files_are_kept_up_to_a_bound(small_study: Path) -> None:
    few = Contents(small_study, kept_bytes=30_000)
    for path in few.paths()[:20]:
        assert few.read(path) == few.read(path)
    assert few._size <= 30_000 or len(few._made) == 1
    assert few._size == sum(map(len, few._made.values()))

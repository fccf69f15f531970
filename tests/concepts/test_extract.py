"""Extraction against brute force, stopped and shared work, and inputs that cannot be used."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.concepts.extract_cases import contents, save_dictionary, save_study, some_texts

import thetascope as ts
from thetascope.cli import main
from thetascope.concepts import assemble, extraction, reading_plan
from thetascope.concepts.corpus import Corpus
from thetascope.concepts.extract import extract
from thetascope.concepts.formats import read_dictionary
from thetascope.concepts.language_model import LanguageModel
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.shards import shard_file
from thetascope.concepts.store import BY_CONCEPT, BY_ITEM, load_concepts
from thetascope.errors import InputError, StaleError

TEXTS: list[str | None] = [*some_texts(40), None, "why why why", "why why why", "five " * 500]


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many shards and pieces out of few texts."""
    monkeypatch.setattr(reading_plan, "SHARD_TOKENS", 100)
    monkeypatch.setattr(assemble, "PIECE_ROWS", 150)


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    return save_dictionary(tmp_path / "dictionary")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return save_study(tmp_path / "study", TEXTS)


def settings(batch_tokens: int = 128) -> dict[str, object]:
    return {"device": "cpu", "batch_tokens": batch_tokens}


def run(study: Path, model: Path, dictionary: Path, **options: object):
    made = {"settings": settings(), "name": "c", **options}
    return extract(study, model=str(model), dictionary=dictionary, **made)  # type: ignore[arg-type]


@pytest.mark.usefixtures("small_shards")
def test_sums_maxima_and_counts_equal_brute_force(
    tiny_llama: Path, study: Path, dictionary: Path
) -> None:
    made = run(study, tiny_llama, dictionary)
    assert made.finished
    assert made.n_shards > 5
    opened = ts.open(study)
    found = load_concepts(opened)
    lm = LanguageModel(LanguageModelConfig(str(tiny_llama), "1", device="cpu"))
    sae = read_dictionary(dictionary)
    mean, most = found.csr().toarray(), found.maxima().toarray()
    for row, text in enumerate(opened.items["text"].to_list()):
        if text is None:
            assert found.n_tokens[row] == 0
            assert not mean[row].any()
            continue
        states = next(iter(lm.read([text]))).states
        dense = torch.zeros(len(states), sae.info.n_latents)
        rows = sae.encode(states)
        dense[rows.tokens, rows.indices] = rows.values
        assert found.n_tokens[row] == len(states)
        np.testing.assert_allclose(mean[row], dense.mean(0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(most[row], dense.amax(0), rtol=1e-4, atol=1e-6)
        one = found.of_item(found.item_ids[row])
        assert np.array_equal(one.concepts, np.flatnonzero(dense.amax(0).numpy() > 0))
        assert np.array_equal(one.n_active, (dense > 0).sum(0)[one.concepts])
        np.testing.assert_allclose(one.mean, mean[row][one.concepts])
    for concept in range(found.n_concepts):
        one = found.of_concept(concept)
        assert np.array_equal(one.items, np.flatnonzero(most[:, concept]))
        np.testing.assert_allclose(one.mean, mean[one.items, concept])
        np.testing.assert_array_equal(one.max, most[one.items, concept])


@pytest.mark.usefixtures("small_shards")
def test_what_is_left_out_and_cut_is_counted(
    tiny_llama: Path, study: Path, dictionary: Path
) -> None:
    made = run(study, tiny_llama, dictionary)
    assert (made.n_items, made.n_read, made.n_texts) == (44, 43, 42)
    assert (made.n_without_text, made.n_without_tokens) == (1, 0)
    assert (made.n_truncated, made.n_cut) == (1, 500 - 127)  # 128 positions, one for the prefix
    found = load_concepts(ts.open(study))
    assert found.left_out == {"b0:00040": "no text"}
    a, b = found.of_item("b1:00041"), found.of_item("b0:00042")
    assert np.array_equal(a.mean, b.mean), "one text, read once, for two items"


@pytest.mark.usefixtures("small_shards")
def test_both_tables_are_sorted_and_hold_the_same_rows(
    tiny_llama: Path, study: Path, dictionary: Path
) -> None:
    folder = run(study, tiny_llama, dictionary).folder
    by_item, by_concept = pl.read_parquet(folder / BY_ITEM), pl.read_parquet(folder / BY_CONCEPT)
    assert by_item.columns == ["item", "concept", "sum", "max", "count"]
    assert by_item.equals(by_item.sort("item", "concept"))
    assert by_concept.equals(by_item.sort("concept", "item"))
    assert by_item.schema["sum"] == pl.Float32
    assert by_item.schema["count"] == pl.Int32


@pytest.mark.parametrize("rows", [[3, 3, 3, 3], [0, 9, 0, 1], [5], [100, 1, 1, 100], [0, 0]])
def test_ranges_of_concepts_cover_all_within_the_limit(rows: list[int]) -> None:
    ranges = assemble.concept_ranges(np.array(rows), 6)
    assert [c for low, high in ranges for c in range(low, high)] == list(range(len(rows)))
    assert all(high - low == 1 or sum(rows[low:high]) <= 6 for low, high in ranges)


@pytest.mark.usefixtures("small_shards")
def test_the_batch_size_changes_no_activation(
    tiny_llama: Path, study: Path, dictionary: Path
) -> None:
    run(study, tiny_llama, dictionary, name="small", settings=settings(64))
    run(study, tiny_llama, dictionary, name="large", settings=settings(4096))
    opened = ts.open(study)
    small, large = (load_concepts(opened, n).csr().toarray() for n in ("small", "large"))
    np.testing.assert_allclose(small, large, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("small_shards")
def test_a_stopped_run_and_shared_work_end_in_the_same_bytes(
    tiny_llama: Path, study: Path, dictionary: Path, tmp_path: Path
) -> None:
    copies = [shutil.copytree(study, tmp_path / f"copy{i}") for i in range(2)]
    whole = run(study, tiny_llama, dictionary, contexts=True)

    class Killed(Exception):
        pass

    def stop(done: int, total: int, what: str) -> None:
        if "a second" in what and done > total / 2:
            raise Killed

    with pytest.raises(Killed):
        run(copies[0], tiny_llama, dictionary, contexts=True, progress=stop)
    again = run(copies[0], tiny_llama, dictionary, contexts=True)
    assert 0 < again.n_made < again.n_shards
    parts = [run(copies[1], tiny_llama, dictionary, contexts=True, shard=(i, 3)) for i in (3, 1)]
    assert not any(p.finished for p in parts)
    assert parts[1].n_missing == parts[1].n_shards - sum(p.n_made for p in parts) > 0
    joined = run(copies[1], tiny_llama, dictionary, contexts=True)
    assert joined.n_made == parts[1].n_missing
    for other in (again, joined):
        assert other.folder.name == whole.folder.name
        assert contents(other.folder) == contents(whole.folder)


def test_nothing_is_done_twice(tiny_llama: Path, study: Path, dictionary: Path) -> None:
    first = run(study, tiny_llama, dictionary)
    second = run(study, tiny_llama, dictionary)
    assert second.folder == first.folder
    assert (first.n_made, second.n_made) == (1, 0)
    assert second.check is None, "nothing was read again"


def test_what_is_there_is_found_without_the_language_model(
    tiny_llama: Path, study: Path, dictionary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(study, tiny_llama, dictionary)
    loaded: list[str] = []

    class Loads(LanguageModel):
        def __init__(self, config: LanguageModelConfig, **how: Any) -> None:
            loaded.append(config.model)
            super().__init__(config, **how)

    monkeypatch.setattr(extraction, "LanguageModel", Loads)
    again = run(study, tiny_llama, dictionary)
    assert not loaded
    counted = ("n_items", "n_read", "n_texts", "n_without_text", "n_truncated", "n_cut", "n_tokens",
               "n_concepts", "notes", "act_max", "folder")  # fmt: skip
    for name in counted:
        assert getattr(again, name) == getattr(first, name), name
    for other in ({"max_tokens": 128}, {"max_tokens": 20}, {"template": "chat"}):
        # 128 is the model's own limit: the same key, but only the model can say so.
        made = run(study, tiny_llama, dictionary, settings={**settings(), **other})
        assert len(loaded) == 1, "another question"
        assert made.n_made == (0 if other == {"max_tokens": 128} else 1)
        loaded.clear()
    run(study, tiny_llama, dictionary, contexts=True)
    assert loaded


def test_maxima_come_from_a_reference_or_are_null(
    tiny_llama: Path, study: Path, dictionary: Path
) -> None:
    run(study, tiny_llama, dictionary)
    without = load_concepts(ts.open(study))
    assert without.act_max is None
    assert without.manifest["act_max"] is None
    assert not any("dead" in flags for flags in without.flags)
    texts = some_texts(60, seed=9)
    made = run(study, tiny_llama, dictionary, reference=Corpus(texts, 0, "mine.txt"))
    found = load_concepts(ts.open(study))
    lm = LanguageModel(LanguageModelConfig(str(tiny_llama), "1", device="cpu"))
    sae = read_dictionary(dictionary)
    most = np.zeros(sae.info.n_latents, np.float32)
    tokens = 0
    for read in lm.read(texts):
        rows = sae.encode(read.states.half())  # the harvest keeps float16
        np.maximum.at(most, rows.indices.numpy(), rows.values.numpy())
        tokens += len(read.tokens)
    assert found.act_max is not None
    np.testing.assert_allclose(found.act_max, most, rtol=1e-5)
    assert found.manifest["act_max"] == {"corpus": "mine.txt", "n_tokens": tokens}
    assert made.act_max == f"mine.txt, {tokens:,} tokens"
    dead = [c for c, flags in enumerate(found.flags) if "dead" in flags]
    fires = np.diff(found.csr().tocsc().indptr)
    assert dead == np.flatnonzero((most == 0) & (fires == 0)).tolist()


@pytest.mark.usefixtures("small_shards")
def test_contexts_are_where_a_concept_is_strongest(
    tiny_llama: Path, study: Path, dictionary: Path
) -> None:
    run(study, tiny_llama, dictionary, contexts=True)
    opened = ts.open(study)
    found = load_concepts(opened)
    text_of = dict(zip(found.item_ids, opened.items["text"].to_list(), strict=True))
    seen = 0
    for concept in range(found.n_concepts):
        table, all_of_it = found.contexts(concept), found.of_concept(concept)
        if not len(all_of_it.items):
            assert table.is_empty()
            continue
        seen += 1
        different = {text_of[found.item_ids[i]]: m for i, m in
                     zip(all_of_it.items, all_of_it.max, strict=True)}  # fmt: skip
        best = sorted(different.values(), reverse=True)
        assert table["value"].to_list()[:4] == pytest.approx(best[:4])
        for row in table.iter_rows(named=True):
            words = (text_of[row["item_id"]] or "").split()
            assert row["token"] in words
    assert seen > 20
    run(study, tiny_llama, dictionary, name="bare")
    with pytest.raises(InputError, match="no contexts were kept"):
        load_concepts(ts.open(study), "bare").contexts(0)


def test_items_that_came_later_say_so_and_changed_texts_are_refused(
    tiny_llama: Path, study: Path, dictionary: Path, tmp_path: Path
) -> None:
    run(study, tiny_llama, dictionary)
    wider = ts.open(save_study(tmp_path / "b", [*TEXTS, "the cat"]))
    found = load_concepts(wider, path=study)
    assert found.left_out["b0:00044"].startswith("not read")
    assert found.csr().shape == (45, 64)
    assert not len(found.of_item("b0:00044").concepts)
    fewer = ts.open(study).filter(benchmarks=["b1"])
    part = load_concepts(fewer, path=study)
    rows = [i for i, x in enumerate(found.item_ids) if x.startswith("b1:")]
    assert (part.csr() != found.csr()[rows]).nnz == 0
    assert np.array_equal(part.of_concept(3).items, np.flatnonzero(part.csr()[:, [3]].toarray()))
    other = ts.open(save_study(tmp_path / "c", ["dog", *TEXTS[1:]]))
    with pytest.raises(StaleError, match="1 items have other texts"):
        load_concepts(other, path=study)


def test_reading_what_is_not_there(tiny_llama: Path, study: Path, dictionary: Path) -> None:
    with pytest.raises(InputError, match="no concepts in the study"):
        load_concepts(ts.open(study))
    folder = run(study, tiny_llama, dictionary).folder
    found = load_concepts(ts.open(study))
    with pytest.raises(InputError, match="concepts 0 to 63, asked for 64"):
        found.of_concept(64)
    with pytest.raises(InputError, match="there is no such item"):
        found.of_item("x")
    (folder / BY_ITEM).write_bytes(b"PAR1")
    with pytest.raises(InputError, match="is damaged"):
        load_concepts(ts.open(study))


def test_one_clear_line_for_what_cannot_be_used(
    tiny_llama: Path, tiny_gpt2: Path, study: Path, dictionary: Path, tmp_path: Path
) -> None:
    bare = save_study(tmp_path / "bare", [None, None, "  "])
    with pytest.raises(InputError, match=r"none of the 3 items has a text.*attach-texts"):
        run(bare, tiny_llama, dictionary)
    wide = save_dictionary(tmp_path / "wide", d=48)
    with pytest.raises(InputError, match=r"width 48, the model .* has 32"):
        run(study, tiny_llama, wide)
    with pytest.raises(InputError, match=r"blocks.0.hook_resid_post \(use hook 1.output"):
        run(study, tiny_llama, dictionary, hook="0")
    with pytest.raises(InputError, match="made for tiny-llama, the model is"):
        run(study, tiny_gpt2, dictionary)
    with pytest.raises(InputError, match=r"i from 1 to n, found 4/3"):
        run(study, tiny_llama, dictionary, shard=(4, 3))


@pytest.mark.usefixtures("small_shards")
def test_a_damaged_shard_is_one_line(tiny_llama: Path, study: Path, dictionary: Path) -> None:
    work = run(study, tiny_llama, dictionary, shard=(1, 2)).folder
    file = shard_file(work / "shards", 2)
    whole = file.read_bytes()
    for broken in (whole[:-9], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        file.write_bytes(broken)
        with pytest.raises(InputError, match=r"shard-000002.*is damaged.*delete it and go on"):
            run(study, tiny_llama, dictionary)
    file.unlink()
    assert run(study, tiny_llama, dictionary).finished


def test_a_very_long_text_is_cut_and_counted(
    tiny_llama: Path, dictionary: Path, tmp_path: Path
) -> None:
    study = save_study(tmp_path / "long", ["the cat sat " * 33_334, "why ?", "​"])
    made = run(study, tiny_llama, dictionary)
    assert (made.n_truncated, made.n_cut) == (1, 100_002 - 127)
    assert made.n_without_text + made.n_without_tokens <= 1


def test_the_command(
    tiny_llama: Path, study: Path, dictionary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["concepts", "extract", str(study), "--model", str(tiny_llama), "--dictionary",
             str(dictionary), "--device", "cpu"]  # fmt: skip
    assert main([*words, "--shard", "1/2"]) == 0
    assert "the same command without --shard" in capsys.readouterr().out.replace("\n", " ")
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "43 of 44 items, 42 different texts" in said
    assert "left out: 1 without a text" in said
    assert "1 items are cut: 373 of their tokens are not read" in said
    assert "no reference: no concept can be called missing" in said
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_read"], found["n_made"], found["finished"]) == (43, 0, True)
    assert main([*words, "--shard", "1:2"]) == 2
    assert capsys.readouterr().err == (
        "thetascope: field 'shard': expected i/n, like 2/8, found '1:2'\n"
    )


def test_without_ray_its_install_line_is_given(
    study: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["concepts", "extract", str(study), "--ray", "local"]) == 2
    assert capsys.readouterr().err == (
        "thetascope: extracting on a Ray cluster needs packages that are not installed;"
        " install them with: pip install 'thetascope[ray]'\n"
    )
    assert main(["concepts", "extract", str(study), "--ray", "local", "--shard", "1/2"]) == 2
    assert "field 'shard': Ray makes all shards" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "about", "message"),
    [
        (b"x", "{}", "reference.parquet: is damaged"),
        (None, "{}", "reference.json: expected an object with corpus and n_tokens"),
        (None, '{"corpus": "c", "n_tokens": nu', "reference.json: expected an object"),
        (pl.DataFrame({"tokens": [1]}), '{"corpus": "c", "n_tokens": 3}', "field 'token_share'"),
    ],
)
def test_a_reference_that_cannot_be_read_is_one_line(
    table: pl.DataFrame | bytes | None, about: str, message: str, tiny_llama: Path, study: Path,
    dictionary: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = dictionary / "reference.parquet"
    if isinstance(table, bytes):
        file.write_bytes(table)
    else:
        names = ("tokens", "token_share", "density", "act_max", "n_fired")
        (pl.DataFrame({n: [0] for n in names}) if table is None else table).write_parquet(file)
    (dictionary / "reference.json").write_text(about)
    words = ["--model", str(tiny_llama), "--dictionary", str(dictionary)]
    assert main(["concepts", "extract", str(study), *words]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"k": "x"}, "cfg.json, field 'k': expected a number, found 'x'"),
        ({"k": 0}, "field 'k': k is 0, expected 1 to 64"),
        ({"metadata": {}}, "field 'hook': the dictionary does not say where in the model"),
    ],
)
def test_a_dictionarys_settings_that_cannot_be_used_are_one_line(
    changed: dict[str, Any], message: str, tiny_llama: Path, study: Path, dictionary: Path
) -> None:
    file = dictionary / "cfg.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))
    with pytest.raises(InputError, match=message):
        run(study, tiny_llama, dictionary)


def test_tiny_studies_are_read_and_what_cannot_be_told_is_said(
    tiny_llama: Path, dictionary: Path, tmp_path: Path
) -> None:
    one = save_study(tmp_path / "one", ["   ", "cat"])
    made = run(one, tiny_llama, dictionary)
    assert made.n_tokens == 1
    assert made.check is not None
    assert made.check.explained == 0
    assert "do not vary: what is explained cannot be told" in made.check.warnings[0]
    signs = save_study(
        tmp_path / "signs", ["\U0001f600\U0001f389", "\x00\x01x", "e\u0301", "\u0645"]
    )
    made = run(signs, tiny_llama, dictionary, contexts=True)
    found = load_concepts(ts.open(signs))
    assert made.n_read == 4
    assert (np.diff(found.csr().indptr) > 0).all()
    with pytest.raises(InputError, match="field 'reference_tokens': expected at least 1 token"):
        run(one, tiny_llama, dictionary, reference_tokens=0)


def test_a_full_disk_is_one_line_and_the_same_command_goes_on(
    tiny_llama: Path, study: Path, dictionary: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    words = ["concepts", "extract", str(study), "--model", str(tiny_llama), "--dictionary",
             str(dictionary), "--device", "cpu"]  # fmt: skip

    def full(*_: object) -> None:
        raise pl.exceptions.ComputeError("underlying IO error: No space left (os error 28)")

    with monkeypatch.context() as patched:
        patched.setattr(assemble, "_join", full)
        assert main(words) == 2
    assert capsys.readouterr().err == (
        "thetascope: No space left on device; the study is as it was\n"
    )
    assert main(words) == 0
    assert "0 of 1 shards made" in capsys.readouterr().out
    assert load_concepts(ts.open(study)).n_items == 44

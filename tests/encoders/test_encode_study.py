"""Encoding a study: stored rows, reuse, kills, and reading back."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from encoder_cases import make_study, make_texts

from thetascope.encoders import (
    Encoder,
    EncoderConfig,
    encode_study,
    encode_texts,
    encoder_for,
    load_vectors,
)
from thetascope.encoders import encode as encode_module
from thetascope.errors import InputError, LockedError, StaleError
from thetascope.study import Study, files, store, text_hash

pytest.importorskip("sentence_transformers")
TEXTS = make_texts(50, seed=1)


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "run.json"}


def test_vectors_come_back_in_the_order_of_the_items(tmp_path: Path, plain_model: Path) -> None:
    texts = [TEXTS[0], None, TEXTS[1], TEXTS[0], "  ", TEXTS[2]]
    make_study(texts).save(tmp_path / "s")
    result = encode_study(tmp_path / "s", str(plain_model))
    assert (result.n_texts, result.n_new, result.n_without_text, result.dim) == (3, 3, 2, 32)
    found = load_vectors(Study.open(tmp_path / "s"))
    assert (found.name, found.dim, found.n_missing) == ("tiny-bert", 32, 2)
    assert found.has.tolist() == [True, False, True, True, False, True]
    expected = encode_texts([TEXTS[0], TEXTS[1], TEXTS[0], TEXTS[2]], str(plain_model))
    assert np.array_equal(found.vectors[found.has], expected)
    assert not found.vectors[~found.has].any()
    assert found.vectors.dtype == np.float32
    assert result.folder.name == f"tiny-bert-{found.content}"


def test_stored_rows_and_manifest(tmp_path: Path, plain_model: Path) -> None:
    make_study(["w1 w2", "w1 w2 w3 w4 w5 w6 w7"]).save(tmp_path / "s")
    config = EncoderConfig(str(plain_model), max_tokens=8)
    result = encode_study(tmp_path / "s", config, name="short")
    rows = pl.read_parquet(result.folder / "texts.parquet")
    assert rows["text_hash"].to_list() == sorted(map(text_hash, ["w1 w2", "w1 w2 w3 w4 w5 w6 w7"]))
    assert sorted(rows.select("n_tokens", "truncated").rows()) == [(4, False), (9, True)]
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert result.n_truncated == manifest["n_truncated"] == 1
    assert (manifest["n"], manifest["dim"], manifest["key_by"]) == (2, 32, "text_hash")
    assert manifest["resolved"] == {"pooling": "mean", "max_tokens": 8, "prefix": ""}
    assert str(plain_model) not in (result.folder / "manifest.json").read_text()
    assert sorted(p.name for p in result.folder.iterdir()) == [
        "manifest.json",
        "run.json",
        "texts.parquet",
        "vectors.safetensors",
    ]


def test_nothing_to_do_changes_nothing(tmp_path: Path, plain_model: Path) -> None:
    make_study(TEXTS).save(tmp_path / "s")
    first = encode_study(tmp_path / "s", str(plain_model))
    before = (tmp_path / "s/study.json").stat().st_mtime_ns
    again = encode_study(tmp_path / "s", str(plain_model))
    assert (again.n_new, again.folder, again.n_texts) == (0, first.folder, first.n_texts)
    assert (tmp_path / "s/study.json").stat().st_mtime_ns == before


def test_only_new_texts_are_encoded_and_bytes_are_those_of_one_run(
    tmp_path: Path, plain_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study(TEXTS[:30]).save(tmp_path / "grown")
    encode_study(tmp_path / "grown", str(plain_model))
    make_study(TEXTS).save(tmp_path / "grown")
    assert load_vectors(Study.open(tmp_path / "grown")).n_missing == 20
    seen: list[int] = []
    tokenise = Encoder.tokenise
    monkeypatch.setattr(
        Encoder,
        "tokenise",
        lambda self, texts, p=None: (seen.append(len(texts)), tokenise(self, texts, p))[1],
    )
    grown = encode_study(tmp_path / "grown", str(plain_model))
    assert (grown.n_new, grown.n_texts, seen) == (20, 50, [20])
    make_study(TEXTS).save(tmp_path / "whole")
    small = EncoderConfig(str(plain_model), batch_tokens=100)  # another batching, the same bytes
    whole = encode_study(tmp_path / "whole", small)
    assert grown.folder.name == whole.folder.name
    assert folder_bytes(grown.folder) == folder_bytes(whole.folder)


def test_other_settings_do_not_reuse(tmp_path: Path, plain_model: Path) -> None:
    make_study(TEXTS).save(tmp_path / "s")
    mean = encode_study(tmp_path / "s", EncoderConfig(str(plain_model), pooling="mean"))
    cls = encode_study(tmp_path / "s", EncoderConfig(str(plain_model), pooling="cls"), name="cls")
    assert cls.n_new == 50
    assert mean.folder.name != cls.folder.name
    study = Study.open(tmp_path / "s")
    with pytest.raises(InputError, match=r"several vectors in the study: cls, tiny-bert"):
        load_vectors(study)
    first = load_vectors(study, "cls").vectors
    assert np.array_equal(
        first, encode_texts(TEXTS, EncoderConfig(str(plain_model), pooling="cls"))
    )


def test_changed_weights_are_another_encoder(tmp_path: Path, plain_model: Path) -> None:
    model = tmp_path / "tiny-bert"
    shutil.copytree(plain_model, model)
    make_study(TEXTS[:5]).save(tmp_path / "s")
    encode_study(tmp_path / "s", str(model))
    (model / "README.md").write_text("words")
    assert encode_study(tmp_path / "s", str(model)).n_new == 0
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    vectors = load_vectors(Study.open(tmp_path / "s"))
    with pytest.raises(StaleError, match="is no longer the one that made the vectors 'tiny-bert'"):
        encoder_for(vectors)
    assert encode_study(tmp_path / "s", str(model)).n_new == 5


def test_a_study_whose_texts_were_taken_out_keeps_its_vectors(
    tmp_path: Path, plain_model: Path
) -> None:
    make_study(TEXTS[:9]).save(tmp_path / "s")
    first = encode_study(tmp_path / "s", str(plain_model))
    study = Study.open(tmp_path / "s")
    dataclasses.replace(study, items=study.items.drop("text")).save(tmp_path / "s")
    again = encode_study(tmp_path / "s", str(plain_model))
    assert (again.n_new, again.n_without_text, again.folder) == (0, 0, first.folder)


@pytest.mark.parametrize("name", ["texts.parquet", "vectors.safetensors", "manifest.json"])
def test_encoding_again_mends_a_damaged_folder(
    name: str, tmp_path: Path, plain_model: Path
) -> None:
    make_study(TEXTS[:9]).save(tmp_path / "s")
    first = encode_study(tmp_path / "s", str(plain_model))
    whole = folder_bytes(first.folder)
    (first.folder / name).write_bytes(whole[name][:-5])
    again = encode_study(tmp_path / "s", str(plain_model))
    assert (again.n_new, again.folder) == (9, first.folder)
    assert folder_bytes(again.folder) == whole


def test_encoder_for_encodes_new_texts_alike(tmp_path: Path, plain_model: Path) -> None:
    make_study(TEXTS).save(tmp_path / "s")
    config = EncoderConfig(str(plain_model), pooling="cls", prefix="w3 ", max_tokens=16)
    encode_study(tmp_path / "s", config)
    vectors = load_vectors(Study.open(tmp_path / "s"))
    assert np.array_equal(encoder_for(vectors).encode(TEXTS), vectors.vectors)


def test_filtered_study_takes_the_folder_by_path(tmp_path: Path, plain_model: Path) -> None:
    make_study(TEXTS).save(tmp_path / "s")
    encode_study(tmp_path / "s", str(plain_model))
    part = Study.open(tmp_path / "s").filter(items=["bench:0007"])
    found = load_vectors(part, path=tmp_path / "s")
    assert found.has.tolist() == [True]
    with pytest.raises(InputError, match="a study in memory has no vectors"):
        load_vectors(part)


def test_interrupt_keeps_finished_shards(
    tmp_path: Path, plain_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_module, "SHARD_TOKENS", 100)
    config = EncoderConfig(str(plain_model), batch_tokens=100)
    make_study(TEXTS).save(tmp_path / "s")

    def stop(done: int, _: int, what: str) -> None:
        if what == "encoding" and done >= 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_study(tmp_path / "s", config, progress=stop)
    assert store.read_index(tmp_path / "s").derived == {}
    calls: list[int] = []
    encode_batch = Encoder.encode_batch
    monkeypatch.setattr(
        Encoder,
        "encode_batch",
        lambda s, t, b: (calls.append(len(b.rows)), encode_batch(s, t, b))[1],
    )
    encode_study(tmp_path / "s", config)
    assert 0 < sum(calls) <= 40
    assert [p.name for p in (tmp_path / "s/vectors").iterdir() if p.name[0] == "."] == []


def test_a_kill_just_before_the_commit_is_finished_by_the_next_call(
    tmp_path: Path, plain_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_study(TEXTS).save(tmp_path / "s")

    def die(_: store.Writer) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store.Writer, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            encode_study(tmp_path / "s", str(plain_model))
    result = encode_study(tmp_path / "s", str(plain_model))
    assert result.n_new == 0
    assert load_vectors(Study.open(tmp_path / "s")).n_missing == 0


_CHILD = """
import sys, time
from thetascope.encoders import EncoderConfig, Encoder, encode_study, encode
encode.SHARD_TOKENS = 100
slowly = Encoder.encode_batch
def encode_batch(self, tokens, batch):
    time.sleep(0.03)
    return slowly(self, tokens, batch)
Encoder.encode_batch = encode_batch
def progress(done, total, what):
    print(what, done, flush=True)
encode_study(sys.argv[1], EncoderConfig(sys.argv[2], batch_tokens=100), progress=progress)
"""


@pytest.mark.kill
def test_killed_at_random_moments_the_bytes_are_those_of_an_undisturbed_run(
    tmp_path: Path, plain_model: Path
) -> None:
    texts = make_texts(120, seed=5)
    make_study(texts).save(tmp_path / "calm")
    calm = encode_study(tmp_path / "calm", str(plain_model))
    make_study(texts).save(tmp_path / "killed")
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "killed"), str(plain_model)]
    moments = random.Random(os.getpid())
    reached: list[int] = []
    for _ in range(3):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:  # the first sign of a shard in this run, then a random moment
            if line.startswith("encoding"):
                break
        time.sleep(moments.uniform(0.0, 0.4))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        assert child.returncode == -signal.SIGKILL
        reached.append(len(list((tmp_path / "killed/vectors").glob(".work-*/shards/*"))))
        assert store.read_index(tmp_path / "killed").derived == {}
    assert reached == sorted(reached)
    assert reached[0] > 0
    subprocess.run(command, check=True, capture_output=True)
    study = Study.open(tmp_path / "killed")
    assert load_vectors(study).n_missing == 0
    killed = store.derived_folder(
        tmp_path / "killed", store.read_index(tmp_path / "killed"), "vectors"
    )
    assert killed.name == calm.folder.name
    assert folder_bytes(killed) == folder_bytes(calm.folder)
    assert files.hash_folder(killed) == killed.name.rpartition("-")[2]


def test_a_hub_name_is_identified_by_its_revision(tmp_path: Path, st_model: Path) -> None:
    cache = tmp_path / "hub/models--owner--tiny"
    commit = "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(st_model, cache / "snapshots" / commit)
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text(commit)
    make_study(TEXTS[:5]).save(tmp_path / "s")
    code = (
        "import sys; from thetascope.encoders import encode_study\n"
        "for _ in range(2): print(encode_study(sys.argv[1], 'owner/tiny').n_new)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s")],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "hub")},
        capture_output=True,
        text=True,
    )
    assert (out.stdout, out.stderr) == ("5\n0\n", "")
    found = load_vectors(Study.open(tmp_path / "s"), "tiny")
    assert found.encoder is not None
    assert found.encoder["fingerprint"] == f"owner/tiny@{commit}"
    assert found.model == "owner/tiny"
    assert np.array_equal(found.vectors, encode_texts(TEXTS[:5], str(st_model)))


def test_one_writer(tmp_path: Path, plain_model: Path) -> None:
    make_study(TEXTS[:3]).save(tmp_path / "s")
    code = (
        "import sys, time; from pathlib import Path; from thetascope.study import store\n"
        "with store.writing(Path(sys.argv[1])):\n    print('locked', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LockedError, match="another thetascope is writing"):
            encode_study(tmp_path / "s", str(plain_model), wait=0.1)
    finally:
        other.kill()
        other.communicate()

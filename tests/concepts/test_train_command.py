"""Texts in, a dictionary out: the harvest, the whole pass, and the command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from thetascope.cli import main
from thetascope.concepts.corpus import Corpus, read_corpus
from thetascope.concepts.fit import check_pair
from thetascope.concepts.formats import read_dictionary
from thetascope.concepts.harvest import harvest, load_shard, open_harvest
from thetascope.concepts.language_model import LanguageModel
from thetascope.concepts.lm_config import LanguageModelConfig
from thetascope.concepts.train_config import TrainConfig
from thetascope.concepts.train_dictionary import train_dictionary
from thetascope.errors import InputError, StaleError

WORDS = "the a cat dog sat on mat ran far sum of two and three is five why how many".split()  # noqa: SIM905


def some_texts(n: int = 120) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, rng.integers(2, 30))) for _ in range(n)]


def config(folder: Path, **settings: Any) -> LanguageModelConfig:
    return LanguageModelConfig(str(folder), hook="1", device="cpu", **settings)


def test_a_harvest_holds_every_counted_token_once(tiny_llama: Path, tmp_path: Path) -> None:
    texts = some_texts()
    lm = LanguageModel(config(tiny_llama))
    made = harvest(lm, texts, tmp_path / "h", n_tokens=10**9, shard_tokens=500)
    tokens = lm.tokeniser(texts)
    assert made.total == tokens.n_tokens.sum()
    shards = [load_shard(f) for f in made.shards]
    assert len(shards) > 2
    text = np.concatenate([s.text for s in shards])
    assert np.array_equal(np.bincount(text, minlength=len(texts)), tokens.n_tokens)
    assert not (np.diff(shards[0].text) >= 0).all(), "shuffled"
    for shard in shards[:2]:  # each row is its own token's state
        i = int(shard.text[0])
        read = next(iter(lm.read([texts[i]])))
        same = [t == shard.token[0] for t in read.tokens]
        distance = (read.states - torch.from_numpy(shard.states[0]).float()).norm(dim=1)
        assert float(distance[torch.tensor(same)].min()) < 0.05
    none_twice = [set(s.text.tolist()) for s in shards]
    assert not none_twice[0] & none_twice[1], "a text is in one shard"


def test_a_harvest_goes_on_and_grows_in_the_same_bytes(tiny_llama: Path, tmp_path: Path) -> None:
    texts = [*some_texts(), "", "  "]
    lm = LanguageModel(config(tiny_llama))

    class Killed(Exception):
        pass

    def stop(done: int, _total: int, _what: str) -> None:
        if done > 900:
            raise Killed

    harvest(lm, texts, tmp_path / "whole", n_tokens=1500, shard_tokens=300)
    with pytest.raises(Killed):
        harvest(lm, texts, tmp_path / "cut", n_tokens=1500, shard_tokens=300, progress=stop)
    assert 1 <= len(open_harvest(tmp_path / "cut").shards) < 5
    harvest(lm, texts, tmp_path / "cut", n_tokens=700, shard_tokens=300)
    harvest(lm, texts, tmp_path / "cut", n_tokens=1500, shard_tokens=300)
    for file in sorted((tmp_path / "whole").iterdir()):
        assert (tmp_path / "cut" / file.name).read_bytes() == file.read_bytes()


def test_a_harvest_of_other_inputs_is_refused(tiny_llama: Path, tmp_path: Path) -> None:
    lm = LanguageModel(config(tiny_llama))
    harvest(lm, some_texts(), tmp_path / "h", n_tokens=300, shard_tokens=300)
    with pytest.raises(StaleError, match="another corpus"):
        harvest(lm, some_texts(60), tmp_path / "h", n_tokens=300, shard_tokens=300)
    with pytest.raises(InputError, match="no text with a token"):
        harvest(lm, ["", " "], tmp_path / "e", n_tokens=300)
    (tmp_path / "h" / "shard-00000.safetensors").write_bytes(b"123")
    with pytest.raises(InputError, match="is damaged"):
        open_harvest(tmp_path / "h")
    with pytest.raises(InputError, match="is not a harvest"):
        open_harvest(tmp_path)


def test_states_beyond_float16(tiny_llama: Path, tmp_path: Path) -> None:
    lm = LanguageModel(config(tiny_llama))
    lm._body.embed_tokens.weight.data.mul_(1e7)
    with pytest.raises(InputError, match="do not fit the shards' float16"):
        harvest(lm, some_texts(), tmp_path / "h", n_tokens=300)


SMALL = TrainConfig(n_latents=48, k=4, batch=128, n_tokens=20_000, lr=3e-3)


def test_from_texts_to_a_dictionary(tiny_llama: Path, tmp_path: Path) -> None:
    corpus = Corpus(some_texts(300), 2, "words.txt")
    made = train_dictionary(
        corpus, tmp_path / "out", model=config(tiny_llama), config=SMALL, harvest_tokens=4000
    )
    assert made.explained > 0.5
    assert made.l0 == pytest.approx(4, abs=0.2)
    assert (made.n_empty, made.n_latents, made.new) == (2, 48, True)
    assert made.n_tokens >= 4000
    assert made.held_out >= 400
    read = read_dictionary(tmp_path / "out")
    lm = LanguageModel(config(tiny_llama, max_tokens=64))
    assert check_pair(lm, read) == ()
    table = pl.read_parquet(tmp_path / "out" / "reference.parquet")
    states = open_harvest(tmp_path / "out-work" / "harvest")
    acts = np.zeros((0, 48), np.float32)
    ids = np.zeros(0, np.int64)
    for file in states.shards:  # by brute force
        shard = load_shard(file)
        rows = read.encode(torch.from_numpy(shard.states))
        part = np.zeros((len(shard.token), 48), np.float32)
        part[rows.tokens.numpy(), rows.indices.numpy()] = rows.values.numpy()
        acts, ids = np.concatenate([acts, part]), np.concatenate([ids, shard.token])
    np.testing.assert_allclose(table["act_max"].to_numpy(), acts.max(0), rtol=1e-6)
    np.testing.assert_allclose(table["density"].to_numpy(), (acts > 0).mean(0), rtol=1e-5)
    assert made.dead == ((acts > 0).sum(0) == 0).sum()
    c = int(acts.sum(0).argmax())
    mass = np.bincount(ids, acts[:, c])
    order = np.argsort(-mass)[:3]
    assert table["tokens"][c].to_list()[:3] == lm.token_texts(order)
    np.testing.assert_allclose(
        table["token_share"][c].to_list()[:3], mass[order] / mass.sum(), atol=1e-3
    )
    again = train_dictionary(
        corpus, tmp_path / "out", model=config(tiny_llama), config=SMALL, harvest_tokens=4000
    )
    assert not again.new
    assert again.explained == made.explained
    with pytest.raises(InputError, match="holds another dictionary"):
        train_dictionary(
            corpus, tmp_path / "out", model=config(tiny_llama),
            config=TrainConfig(n_latents=32, k=4, batch=128), harvest_tokens=4000,
        )  # fmt: skip


def test_the_command(tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "texts.jsonl"
    rows = [{"body": t} for t in [*some_texts(200), ""]]
    file.write_text("\n".join(json.dumps(r) for r in rows))
    words = [
        "concepts", "train", str(file), "--to", str(tmp_path / "out"), "--column", "body",
        "--model", str(tiny_llama), "--hook", "blocks.1.hook_resid_pre", "--device", "cpu",
        "--n-latents", "40", "--k", "4", "--activation", "batchtopk", "--batch", "128",
        "--n-tokens", "10000", "--harvest-tokens", "2000",
    ]  # fmt: skip
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "1 empty texts left out" in said
    assert "of the variance explained" in said
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hook"] == "1.input"
    assert found["new"] is False
    assert str(read_dictionary(tmp_path / "out").info.hook) == "1.input"
    assert main([*words[:5], "--column", "none"]) == 2
    assert "field 'none'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv", "parquet"])
def test_each_kind_of_corpus(kind: str, tmp_path: Path) -> None:
    texts = ["one\ntwo", "three, four", 'five "six"']
    file = tmp_path / f"c.{kind}"
    frame = pl.DataFrame({"text": [*texts, None, " "]})
    if kind == "txt":
        file.write_text("\n\n".join(texts) + "\n\n\n")
    elif kind == "jsonl":
        frame.write_ndjson(file)
    elif kind == "csv":
        frame.write_csv(file)
    else:
        frame.write_parquet(file)
    found = read_corpus(file)
    assert found.texts == texts
    assert found.n_empty == (0 if kind == "txt" else 2)


def test_what_is_no_corpus(tmp_path: Path) -> None:
    for name, content, message in (
        ("a.txt", b"\xff\xfe", "not UTF-8"),
        ("b.jsonl", b'{"text": "x"}\n{', r"record 2.*not JSON"),
        ("c.jsonl", b'{"other": "x"}', r"record 1, field 'text'.*not there"),
        ("d.jsonl", b'{"text": 3}', "expected a text, found int"),
        ("e.csv", b"other\nx\n", r"field 'text'.*there are other"),
        ("f.parquet", b"123", "cannot be read"),
        ("g.docx", b"", "expected .txt"),
        ("h.txt", b"\n\n", "holds no text"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_corpus(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        read_corpus(tmp_path / "none.txt")
    pl.DataFrame({"text": [1, 2]}).write_parquet(tmp_path / "i.parquet")
    with pytest.raises(InputError, match="expected texts, found Int64"):
        read_corpus(tmp_path / "i.parquet")


@pytest.mark.kill
def test_sigkills_leave_the_same_bytes(tiny_llama: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("\n\n".join(some_texts(400)))

    def words(to: str) -> list[str]:
        return [
            sys.executable, "-m", "thetascope", "concepts", "train", str(file),
            "--to", str(tmp_path / to), "--model", str(tiny_llama), "--hook", "1",
            "--device", "cpu", "--n-latents", "512", "--k", "4", "--batch", "512",
            "--n-tokens", "400000", "--harvest-tokens", "5000", "--checkpoint-steps", "20",
        ]  # fmt: skip

    subprocess.run(words("whole"), check=True, capture_output=True)
    work = tmp_path / "cut-work"
    # Once amid the harvest, twice amid the training, each when its first files are there.
    for place, wait in (("harvest/shard-00000*", 0.0), ("training*/check*", 0.3), ("*", 6.0)):
        process = subprocess.Popen(words("cut"), stdout=subprocess.DEVNULL)
        while not list(work.glob(place)) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(words("cut"), check=True, capture_output=True)
    for made in sorted((tmp_path / "whole").iterdir()):
        assert (tmp_path / "cut" / made.name).read_bytes() == made.read_bytes(), made.name


def test_a_folder_in_use_is_left_alone(tiny_llama: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cfg.json").write_text("{}")
    with pytest.raises(InputError, match="is not empty"):
        train_dictionary(
            Corpus(some_texts(), 0, "x"), tmp_path / "out", model=config(tiny_llama),
            config=SMALL, harvest_tokens=1000,
        )  # fmt: skip
    assert (tmp_path / "out" / "cfg.json").read_text() == "{}"
